//! What somebody at a command line can do about a problem: the next step that it carries, in the words that `api::codes` has for commands.

use crate::style::counted;
use api::codes::Voice;
use api::{Advice, Code, NextStep, Problem};

/// How what can be listed is listed, where its noun is not the command.
const LISTED_AS: [(&str, &str); 11] = [
    ("quarantined invocation", "quarantine list"),
    ("dead letter", "event dlq list"),
    ("draft", "automation draft list"),
    ("event", "event tail --after 0"),
    ("event group", "event group list"),
    ("trigger", "trigger list AUTOMATION"),
    ("webhook", "trigger list AUTOMATION"),
    ("allowed/commands", "allow command list"),
    ("allowed/hosts", "allow host list"),
    ("allowed/networks", "allow network list"),
    ("kill-switches", "kill-switch list"),
];

/// What is listed by a command of the same name.
const LISTED: [&str; 18] = [
    "artifact",
    "automation",
    "batch",
    "channel",
    "connection",
    "consent",
    "document",
    "grant",
    "invocation",
    "package",
    "receipt",
    "run",
    "secret",
    "session",
    "source",
    "space",
    "token",
    "user",
];

/// The next step in the words of the command line; where it has none, the words that the server has for everybody.
pub(crate) fn hint_of(problem: &Problem) -> Option<String> {
    of_values(problem)
        .or_else(|| problem.next_step().and_then(|next| said(next, Voice::Cli)))
        .or_else(|| problem.hint.clone().filter(|_| problem.next.is_none()))
        .or_else(|| problem.invocation_id.as_ref().map(|id| format!("countersign explain {id}")))
}

/// The hint for whoever uses the commands of an agent, who can neither approve nor change rules.
pub(crate) fn hint_for_agent(problem: &Problem) -> Option<String> {
    if let Some((source, name)) = problem.suggestions.first().and_then(|meant| meant.split_once('.')) {
        return Some(format!("did you mean `--integration {source} --action {name}`? all of them: countersign actions list"));
    }
    let has_own = |next: &NextStep| next.step.words().iter().any(|(voice, _)| *voice == Voice::Agent);
    let of_code = || problem.code.step().filter(|_| problem.hint.is_none()).map(NextStep::new);
    let Some(next) = problem.next_step().or_else(of_code).filter(has_own) else { return hint_of(problem) };
    let action = next.about("action").or(problem.action.as_deref());
    let source = action.and_then(|action| action.split_once('.')).map_or("SOURCE", |(source, _)| source).to_owned();
    said(next.with("source", source), Voice::Agent)
}

/// Hints that are made of what else the problem carries.
fn of_values(problem: &Problem) -> Option<String> {
    if let Some(meant) = problem.suggestions.first() {
        return Some(format!("did you mean `{meant}`? all of them: countersign action list"));
    }
    if problem.code == Code::RateLimited {
        let seconds = problem.retry_after_ms.unwrap_or_default().div_ceil(1_000).max(1);
        return Some(format!("wait {} and do it again: nothing was done", counted(seconds, "second", "seconds")));
    }
    None
}

fn said(next: NextStep, voice: Voice) -> Option<String> {
    if next.step == Advice::List {
        let things = next.with.get("things")?.as_str();
        let of_noun = || LISTED.into_iter().find(|noun| *noun == things || things.strip_suffix('s') == Some(*noun));
        let list = LISTED_AS.into_iter().find(|(listed, _)| *listed == things).map(|(_, list)| list.to_owned());
        return list.or_else(|| of_noun().map(|noun| format!("{noun} list"))).map(|list| format!("list them with `countersign {list}`"));
    }
    // What is not known stands as the word that the help has for it.
    let said = next.said(voice)?;
    Some(["{source}", "{connection}", "{secret}"].into_iter().fold(said, |said, mark| said.replace(mark, "NAME")))
}

/// The hint with the ids that the request was about, in place of the words that stand for them.
pub(crate) fn named(hint: &str, path: &[&str]) -> String {
    const STANDS_FOR: [(&str, &str); 4] = [("aut_", "AUTOMATION"), ("run_", "RUN"), ("drf_", "DRAFT"), ("art_", "ARTIFACT")];
    STANDS_FOR.into_iter().fold(hint.to_owned(), |hint, (kind, word)| {
        let is_id = |part: &&&str| part.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        path.iter().find(is_id).map_or_else(|| hint.clone(), |id| hint.replace(word, id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::SourceId;

    fn check(problem: &Problem, expected: Option<&str>) {
        assert_eq!(hint_of(problem).as_deref(), expected);
    }

    fn next(code: Code, next: NextStep) -> Problem {
        Problem { next: Some(next), ..Problem::new(code, "no") }
    }

    fn missing(things: &str) -> Problem {
        next(Code::NotFound, NextStep::new(Advice::List).with("things", things))
    }

    #[test]
    fn the_command_line_has_hints_of_its_own_and_shows_none_that_speak_of_http() {
        let mut limited = Problem::new(Code::RateLimited, "too often");
        limited.retry_after_ms = Some(58_470);
        check(&limited, Some("wait 59 seconds and do it again: nothing was done"));
        let mut unknown = Problem::new(Code::UnknownAction, "there is no action `files.lst`");
        unknown.next = unknown.next_step();
        unknown.hint = Some("list the actions with `GET /api/v1/actions`".to_owned());
        check(&unknown, Some("list what you may call with `countersign action list`"));
        unknown.suggestions = vec!["files.list".into()];
        check(&unknown, Some("did you mean `files.list`? all of them: countersign action list"));
        for (things, list) in [
            ("grant", "grant list"),
            ("quarantined invocation", "quarantine list"),
            ("users", "user list"),
            ("draft", "automation draft list"),
            ("event group", "event group list"),
        ] {
            check(&missing(things), Some(&format!("list them with `countersign {list}`")));
        }
        check(&missing("breaker"), None);
        check(&Problem::new(Code::InvalidRequest, "there is no run `x`"), None);
        check(&Problem::new(Code::InvalidRequest, "no").hint("give `role`"), Some("give `role`"));
        check(&Problem::new(Code::DeniedByPerson, "no").about("inv_1"), Some("countersign explain inv_1"));
        check(&Problem::new(Code::NotUtf8, "no").about("inv_1"), Some("countersign explain inv_1"));
        let read = NextStep::new(Advice::Read).with("at", "batches/bat_1");
        check(&next(Code::OutcomeUnrecorded, read).hint("read it with `GET /api/v1/batches/bat_1`"), None);
        let batch = NextStep::new(Advice::ReadBatch).with("batch", "bat_1");
        check(&next(Code::OutcomeUnrecorded, batch), Some("read it with `countersign batch show bat_1`"));
        let secret = next(Code::NotFound, NextStep::new(Advice::SetSecret).with("secret", "pager-key"));
        let keep = "list them with `countersign secret list`, or keep it with `countersign secret set pager-key --stdin`";
        check(&secret, Some(keep));
        // A step that needs what the problem has not is no hint.
        check(&Problem::new(Code::CannotRun, "no"), None);
        check(
            &Problem::new(Code::CannotRun, "no").about("inv_1"),
            Some("correct that and approve it again, or deny it with `countersign deny inv_1`"),
        );
    }

    #[test]
    fn an_agent_is_told_of_its_own_commands() {
        let told = |problem: &Problem| hint_for_agent(problem).unwrap();
        let mut invalid = Problem::new(Code::InvalidParams, "the params do not fit");
        assert_eq!(told(&invalid), "see its schema with `countersign actions list --integration SOURCE --json`");
        invalid.action = Some("files.read_text".into());
        assert_eq!(told(&invalid), "see its schema with `countersign actions list --integration files --json`");
        let mut unknown = Problem::new(Code::UnknownAction, "there is no action `files.lst`");
        unknown.suggestions = vec!["files.list".into()];
        assert_eq!(told(&unknown), "did you mean `--integration files --action list`? all of them: countersign actions list");
        assert_eq!(told(&Problem::new(Code::RulesChanging, "no")), "do it again: nothing was done");
        for (_, words) in Advice::ALL.iter().flat_map(|step| step.words()).filter(|(voice, _)| *voice == Voice::Agent) {
            for others in ["approve", "action ", "grant ", "source list", "quarantine show", "inbox"] {
                assert!(!words.contains(&format!("countersign {others}")), "{words}");
            }
        }
    }

    #[test]
    fn a_hint_names_what_the_step_is_about_where_that_is_a_plain_word() {
        let log_in = |name: &str| format!("an admin logs in with `countersign connection login {name}`");
        for (given, name) in [("linear", "linear"), ("a b", "NAME"), ("$(rm)", "NAME"), ("", "NAME")] {
            let about = NextStep::new(Advice::LogInConnection).with("connection", given);
            check(&next(Code::ConnectionNotReady, about), Some(&log_in(name)));
        }
        check(&Problem::new(Code::ConnectionNotReady, "log in"), Some(&log_in("NAME")));
        let stopped = NextStep::new(Advice::ResumeSource).with("source", SourceId::parse("kit").unwrap());
        check(&next(Code::DeniedByPolicy, stopped), Some("an admin ends it with `countersign source resume kit`"));
        let switch = |scope: &str| next(Code::Stopped, NextStep::new(Advice::EndKillSwitch).with("scope", scope));
        check(&switch("org"), Some("an admin ends it with `countersign kill-switch off org`"));
        check(&switch("$(rm -r .)"), None);
    }

    #[test]
    fn a_hint_names_what_was_asked_for() {
        let hint = NextStep::new(Advice::ReadSteps).said(Voice::Cli).unwrap();
        let told = named(&hint, &["runs", "run_1a", "rerun"]);
        assert_eq!(told, "see its steps with `countersign run show run_1a`, or run all of it again");
        for other in [["runs", "RUN", "rerun"], ["runs", "run_$(ls)", "rerun"], ["automations", "aut_1", "run"]] {
            assert_eq!(named(&hint, &other), hint);
        }
    }
}
