//! Checks that need the server: whether it answers, who the token belongs to, its clock, its store, its newest checkpoint.

use super::Finding;
use crate::commands::{channel, observe};
use crate::shared::*;
use crate::style::time;
use api::Page;
use api::action::{AvailableResponse, SourceView};
use api::channel::ChannelView;
use api::connection::ConnectionView;
use api::event::DeadLetterView;
use api::identity::{ServerView, SpaceView, StatusResponse, WhoamiResponse};
use api::package::PackageView;
use api::receipt::{CheckpointResponse, KeyPurpose, KeyView};
use api::run::RunView;
use api::source::AddedSourceView;
use countersign_core::Timestamp;
use countersign_core::action::Profile;
use countersign_core::decision::Drift;
use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::ports::bus::LetterKind;
use countersign_core::ports::connections::ConnectionState;
use countersign_core::principal::Role;
use countersign_core::run::{RunStatus, WaitingFor};
use receipt::checkpoint::Checkpoint;
use receipt::key::PublicKey;

/// How long a run that was quarantined is told of.
const LATELY_SECONDS: u64 = 24 * 60 * 60;
/// A larger difference between the clocks would make deadlines confusing.
const SKEW_SECONDS: u64 = 5;

/// `listen` is the address on which a server with the local settings would listen.
pub(super) async fn check(client: &Client, listen: Option<&str>, now: Timestamp) -> Vec<Finding> {
    let url = client.url();
    let date = match client.date().await {
        Ok(date) => date,
        Err(failure) => {
            // The configured address is mentioned only if no server answers: it may explain why.
            let listens = listen.map(|listen| format!("; one with the settings found here would listen on {listen}")).unwrap_or_default();
            let found = format!("nothing answers at {url}: {}{listens}", failure.cause.unwrap_or_default());
            return vec![Finding::broken("server", found).fix("countersign serve")];
        }
    };
    let mut findings = vec![Finding::ok("server", format!("it answers at {url}")), clock(date.as_deref(), now)];
    let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await;
    match whoami {
        Ok(answer) => findings.push(Finding::ok(
            "token",
            format!("you are {} ({})", answer.read.principal, answer.read.role.map_or("no role", Role::as_str)),
        )),
        Err(failure) => {
            let found = if client.has_token() { failure.message } else { "there is none for this server".to_owned() };
            findings.push(Finding::broken("token", found).fix(failure.hint.unwrap_or_else(|| "countersign login".to_owned())));
            return findings;
        }
    }
    findings.extend(state(client, now).await);
    findings.extend(runs(client, now).await);
    findings.extend(letters(client).await);
    findings.push(checkpoint(client).await);
    findings.extend(sources(client).await);
    findings.extend(packages(client).await);
    findings.extend(connections(client).await);
    findings.extend(observing(client).await);
    findings.extend(undelivered(client).await);
    findings
}

fn clock(date: Option<&str>, now: Timestamp) -> Finding {
    let theirs =
        date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| Timestamp::from_micros(date.timestamp().as_microsecond()));
    let Some(theirs) = theirs else { return Finding::look("clock", "the server does not tell the time") };
    let apart = theirs.millis_since(now).max(now.millis_since(theirs)) / 1_000;
    if apart > SKEW_SECONDS {
        return Finding::look("clock", format!("yours and the server's are {apart} s apart")).fix("timedatectl set-ntp true");
    }
    Finding::ok("clock", "yours and the server's agree")
}

/// A finding about one of the servers on the same database.
fn at_work(server: &ServerView, now: Timestamp) -> Finding {
    let (id, started, seen) = (&server.id, time::ago(server.started_at, now), time::ago(server.seen_at, now));
    if server.gone {
        return Finding::look(
            "servers",
            format!("`{id}` started {started}, was seen last {seen}, and is gone: other servers resume its calls"),
        );
    }
    Finding::ok("servers", format!("`{id}` started {started}, was seen {seen}"))
}

async fn state(client: &Client, now: Timestamp) -> Vec<Finding> {
    let status = match client.get::<StatusResponse>(&["status"], &[]).await {
        Ok(answer) => answer.read,
        // An agent may not read the org's state. That is intended, so it is not reported.
        Err(failure) if failure.exit == Exit::Denied => return Vec::new(),
        Err(failure) => return vec![Finding::broken("store", failure.message)],
    };
    let mut findings = Vec::new();
    let own = env!("CARGO_PKG_VERSION");
    if status.version != own {
        findings
            .push(Finding::look("versions", format!("the server is {}, this is {own}", status.version)).fix("install the same version"));
    }
    findings.push(match status.problem {
        None => Finding::ok(
            "store",
            format!("{} takes writes, {} in the log", word(status.store), counted(status.log_size, "entry", "entries")),
        ),
        Some(problem) => Finding::broken("store", problem).fix("look at the server's log"),
    });
    findings.push(code(status.code_profiles.as_deref()));
    findings.extend(status.servers.iter().map(|server| at_work(server, now)));
    findings.push(match status.in_doubt {
        0 => Finding::ok("in doubt", "nothing"),
        count => {
            Finding::look("in doubt", format!("{count} may or may not have happened")).fix("countersign invocation list --status in_doubt")
        }
    });
    findings.push(match status.pending {
        0 => Finding::ok("inbox", "no pending calls"),
        count => Finding::ok("inbox", counted(count, "pending call", "pending calls")).fix("countersign inbox"),
    });
    findings
}

/// Whether there are runs that do not go on by themselves. Who may not read runs is told nothing of them.
async fn runs(client: &Client, now: Timestamp) -> Vec<Finding> {
    let listed = async |status: RunStatus| {
        let query = [("status", status.to_string()), ("limit", PAGE_ROWS_MAX.to_string())];
        client.get::<Page<RunView>>(&["runs"], &query).await.map(|answer| answer.read)
    };
    match (listed(RunStatus::Waiting).await, listed(RunStatus::Quarantined).await) {
        (Ok(waiting), Ok(quarantined)) => stuck(&waiting, &quarantined, now),
        (Err(_), _) | (_, Err(_)) => Vec::new(),
    }
}

fn stuck(waiting: &Page<RunView>, quarantined: &Page<RunView>, now: Timestamp) -> Vec<Finding> {
    let doubted = waiting.items.iter().filter(|run| run.waiting_for == Some(WaitingFor::Person)).count();
    let is_late = |run: &&RunView| run.ended_at.is_some_and(|ended_at| now.millis_since(ended_at) < LATELY_SECONDS * 1_000);
    let lost = quarantined.items.iter().filter(is_late).count();
    let mut findings = Vec::new();
    if doubted > 0 {
        let found = format!("{} until a person says what became of a call", told(doubted, waiting, "run waits", "runs wait"));
        findings.push(Finding::look("runs", found).fix("countersign run list --status waiting"));
    }
    if lost > 0 {
        let found = format!("{} in the last day", told(lost, quarantined, "run was quarantined", "runs were quarantined"));
        findings.push(Finding::look("runs", found).fix("countersign run list --status quarantined"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("runs", "all go on by themselves"));
    }
    findings
}

/// Whether something was given up. Channels tell of their own dead letters.
async fn letters(client: &Client) -> Option<Finding> {
    let query = [("limit", PAGE_ROWS_MAX.to_string())];
    Some(given_up(&client.get::<Page<DeadLetterView>>(&["dead-letters"], &query).await.ok()?.read))
}

fn given_up(letters: &Page<DeadLetterView>) -> Finding {
    match letters.items.iter().filter(|letter| letter.kind != LetterKind::Delivery).count() {
        0 => Finding::ok("dead letters", "none"),
        count => {
            let found = format!("{} given up", told(count, letters, "event or call was", "events or calls were"));
            Finding::look("dead letters", found).fix("countersign event dlq list")
        }
    }
}

/// How many there are, of which one page was read.
fn told<T>(count: usize, page: &Page<T>, one: &str, several: &str) -> String {
    let counted = counted(count as u64, one, several);
    if page.next.is_some() { format!("at least {counted}") } else { counted }
}

/// Whether the server runs package code. The server is asked, because the local checks may run on another machine or as another user.
fn code(profiles: Option<&[Profile]>) -> Finding {
    match profiles {
        None => Finding::ok("code", "the server runs no package code"),
        Some([]) => Finding::broken("code", "the server is to run package code, and no sandbox profile is available to it")
            .fix("run `countersign doctor --verbose` on its machine, as its user"),
        Some(profiles) => Finding::ok(
            "code",
            format!(
                "the server runs package code; available profiles: {}",
                profiles.iter().map(|profile| profile.as_str()).collect::<Vec<_>>().join(", ")
            ),
        ),
    }
}

async fn checkpoint(client: &Client) -> Finding {
    let answers = (client.get::<CheckpointResponse>(&["checkpoint"], &[]).await, client.get::<Page<KeyView>>(&["keys"], &[]).await);
    let (note, keys) = match answers {
        (Ok(checkpoint), Ok(keys)) => (checkpoint.read.checkpoint, keys.read.items),
        (Err(failure), _) | (_, Err(failure)) if failure.exit == Exit::Denied => {
            return Finding::ok("receipts", "this token may not read them");
        }
        (Err(failure), _) | (_, Err(failure)) => return Finding::broken("receipts", failure.message),
    };
    let Some(note) = note else { return Finding::look("receipts", "there is no checkpoint yet") };
    let keys = keys.iter().filter(|key| key.purpose == KeyPurpose::Checkpoint).filter_map(|key| PublicKey::from_base64(&key.public).ok());
    match Checkpoint::parse(&note) {
        Ok(signed) if keys.into_iter().any(|key| signed.verify(&key).is_ok()) => Finding::ok(
            "receipts",
            format!("the newest checkpoint covers {} and is signed", counted(signed.checkpoint.size, "entry", "entries")),
        ),
        Ok(_) => Finding::broken("receipts", "none of the log's keys signed the newest checkpoint").fix("countersign receipt verify"),
        Err(error) => Finding::broken("receipts", error.to_string()).fix("countersign receipt verify"),
    }
}

/// A finding for each installed package: whether it can run, and if not, why.
async fn packages(client: &Client) -> Vec<Finding> {
    let Ok(answer) = client.get::<Page<PackageView>>(&["packages"], &[]).await else { return Vec::new() };
    let package = |package: &PackageView| {
        let why = package.actions.iter().find_map(|action| Some(format!("`{}`: {}", action.id, action.cannot_run.as_ref()?)));
        match package.error.clone().or(why) {
            Some(why) => Finding::look("package", format!("`{}` is installed and cannot run: {why}", package.name))
                .fix(format!("countersign package show {}", package.name)),
            None => Finding::ok("package", format!("`{}` can run", package.name)),
        }
    };
    answer.read.items.iter().map(package).collect()
}

async fn sources(client: &Client) -> Vec<Finding> {
    let Ok(answer) = client.get::<AvailableResponse>(&["actions"], &[]).await else { return Vec::new() };
    let added = client.get::<Page<AddedSourceView>>(&["sources"], &[]).await.map(|answer| answer.read.items).unwrap_or_default();
    let source = |source: SourceView| {
        let is_added = added.iter().any(|added| added.id == source.id);
        source_finding(&source, is_added)
    };
    answer.read.sources.into_iter().map(source).collect()
}

/// `is_added`: an admin has added it, so `countersign source` knows it.
fn source_finding(source: &SourceView, is_added: bool) -> Finding {
    let SourceView { id, actions, error, .. } = source;
    let next = |verb: &str| if is_added { format!("countersign source {verb} {id}") } else { String::new() };
    let drifted = actions.iter().filter(|action| is_added && action.drift != Drift::None).count() as u64;
    match error {
        Some(error) => Finding::look("source", format!("`{id}` could not be listed: {error}")).fix(next("test")),
        None if drifted > 0 => {
            let found = format!("`{id}` has {} to review: calls need approval until then", counted(drifted, "action", "actions"));
            Finding::look("source", found).fix(next("review"))
        }
        None => Finding::ok("source", format!("`{id}` offers {}", counted(actions.len() as u64, "action", "actions"))),
    }
}

/// A finding for each connection: whether somebody has to log in for it.
async fn connections(client: &Client) -> Vec<Finding> {
    let Ok(answer) = client.get::<Page<ConnectionView>>(&["connections"], &[]).await else { return Vec::new() };
    answer.read.items.iter().map(connection_finding).collect()
}

fn connection_finding(connection: &ConnectionView) -> Finding {
    let ConnectionView { name, state, why, .. } = connection;
    let login = || format!("countersign connection login {name}");
    match (state, why) {
        (ConnectionState::NeedsLogin, why) => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            Finding::look("connection", format!("`{name}` needs a login{why}")).fix(login())
        }
        (ConnectionState::Ready, Some(why)) => Finding::look("connection", format!("`{name}`: {why}")).fix(login()),
        (ConnectionState::Ready | ConnectionState::Revoked, _) => Finding::ok("connection", format!("`{name}` is `{}`", state.as_str())),
    }
}

/// A finding for each space in which nobody is asked.
async fn observing(client: &Client) -> Vec<Finding> {
    let finding = |space: SpaceView| {
        let found = format!("`{}` observes: it asks nobody, but about R4", space.name);
        Finding::look("space", found).fix(format!("countersign observe report --space {0}, or countersign observe off {0}", space.name))
    };
    observe::observing(client).await.into_iter().map(finding).collect()
}

/// A finding for each channel that could not tell people of everything.
async fn undelivered(client: &Client) -> Vec<Finding> {
    let finding = |channel: ChannelView| {
        let found = format!("`{}` has {}", channel.name, counted(channel.dead, "dead letter", "dead letters"));
        Finding::look("channel", found).fix(format!("countersign channel deliveries {} --state dead", channel.name))
    };
    channel::with_dead_letters(client).await.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use serde_json::{Value, json};

    fn source(error: Option<&str>, drift: &str) -> SourceView {
        let action = json!({
            "id": "kit.look", "title": "Look", "description": "", "version": "1", "tier": "R1", "class": "read", "safety_class": "LOW",
            "mode": "allow", "mode_source": "inferred_default", "drift": drift, "params_schema": {}, "result_schema": {}, "reversibility": "no_effect",
            "reversible_seconds": null, "checks": [], "hosts": [], "effects": [], "profile": "in_process", "package_sha256": null,
            "tightened": [], "dry_run_supported": false, "timeout_ms": 1,
        });
        serde_json::from_value(json!({ "id": "kit", "title": "Kit", "actions": [action], "error": error })).unwrap()
    }

    #[test]
    fn a_source_that_is_away_or_drifted_says_what_to_do() {
        let well = source_finding(&source(None, "none"), true);
        assert_eq!((well.verdict, well.found.as_str()), (Verdict::Ok, "`kit` offers 1 action"));
        let away = source_finding(&source(Some("connection refused"), "none"), true);
        assert_eq!((away.verdict, away.fix.as_deref()), (Verdict::Look, Some("countersign source test kit")));
        let drifted = source_finding(&source(None, "structural"), true);
        assert_eq!((drifted.verdict, drifted.fix.as_deref()), (Verdict::Look, Some("countersign source review kit")));
        // The source of a package has its own findings.
        let of_package = source_finding(&source(None, "structural"), false);
        assert_eq!((of_package.verdict, of_package.fix), (Verdict::Ok, None));
    }

    #[test]
    fn runs_that_do_not_go_on_and_what_was_given_up_are_told() {
        let now = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let runs = |of: &[(&str, Value)], next: Value| -> Page<RunView> {
            let run = |(ended_at, waiting_for): &(&str, Value)| {
                json!({
                    "id": "run_1", "automation_id": "aut_1", "space_id": "spc_1", "session_id": "ses_1", "version": 1, "digest": "",
                    "status": "waiting", "waiting_for": waiting_for, "trigger_type": "manual", "firing_id": "fir_1", "inputs": {},
                    "handler_failed": false, "queue": "fast", "phase": "plan", "step": 0, "worked_ms": 1, "recoveries": 0, "chain": [],
                    "root_run_id": "run_1", "created_at": "2026-11-01T00:00:00Z", "ended_at": ended_at,
                })
            };
            serde_json::from_value(json!({ "items": of.iter().map(run).collect::<Vec<_>>(), "next": next })).unwrap()
        };
        let told = |waiting: &Page<RunView>, quarantined: &Page<RunView>| -> Vec<_> {
            stuck(waiting, quarantined, now).into_iter().map(|finding| (finding.verdict, finding.found)).collect()
        };
        let (old, new) = ("2026-11-13T00:00:00Z", "2026-11-15T00:00:00Z");
        let well = runs(&[(old, json!("approval")), (old, Value::Null)], Value::Null);
        assert_eq!(told(&well, &well), [(Verdict::Ok, "all go on by themselves".to_owned())]);
        let waiting = runs(&[(old, json!("person")), (old, json!("retry"))], Value::Null);
        let quarantined = runs(&[(new, Value::Null), (new, Value::Null), (old, Value::Null)], json!("run_1"));
        let expected = [
            (Verdict::Look, "1 run waits until a person says what became of a call".to_owned()),
            (Verdict::Look, "at least 2 runs were quarantined in the last day".to_owned()),
        ];
        assert_eq!(told(&waiting, &quarantined), expected);
        let letters = |kinds: &[&str]| -> Page<DeadLetterView> {
            let letter = |kind: &&str| json!({ "id": "dlt_1", "kind": kind, "place": "a", "what": "b", "attempts": 1, "died_at": old });
            serde_json::from_value(json!({ "items": kinds.iter().map(letter).collect::<Vec<_>>(), "next": null })).unwrap()
        };
        assert_eq!(given_up(&letters(&["delivery"])).verdict, Verdict::Ok);
        let found = given_up(&letters(&["event", "delivery", "invocation"]));
        assert_eq!((found.verdict, found.found.as_str()), (Verdict::Look, "2 events or calls were given up"));
    }

    #[test]
    fn a_connection_that_needs_a_login_says_so() {
        let connection = |state: &str, why: Value| -> ConnectionView {
            serde_json::from_value(json!({
                "id": "con_1", "name": "linear", "kind": "oauth", "url": "https://mcp.example.com", "account": null, "secret": null,
                "issuer": null, "scopes": null, "spaces": null, "version": 1, "state": state, "why": why, "mended_by": null,
                "made_by": "user:usr_1", "made_at": "2026-11-15T00:00:00.000000Z", "login_by": null, "login_at": null,
                "last_used_at": null, "removed_at": null,
            }))
            .unwrap()
        };
        assert_eq!(connection_finding(&connection("ready", Value::Null)).verdict, Verdict::Ok);
        let waiting = connection_finding(&connection("needs_login", json!("nobody has logged in yet")));
        assert_eq!((waiting.verdict, waiting.fix.as_deref()), (Verdict::Look, Some("countersign connection login linear")));
        assert_eq!(waiting.found, "`linear` needs a login: nobody has logged in yet");
        assert_eq!(connection_finding(&connection("ready", json!("some calls need more"))).verdict, Verdict::Look);
    }
}
