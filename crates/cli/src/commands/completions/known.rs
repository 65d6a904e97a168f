//! What is offered for an argument that names something the server knows. Asking must not hold up whoever typed: where there is no
//! answer at once, nothing is offered.

use crate::client::{Client, Rehearsal};
use crate::context::{Contexts, Environment, Server};
use crate::style::clean;
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use countersign_core::limits::PAGE_ROWS_MAX;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(1_500);
const ABOUT_CHARS_MAX: usize = 60;

/// A list of the server, the member that is offered of each item, and those that tell one from another.
#[derive(Clone, Copy)]
struct Listed {
    path: &'static str,
    query: &'static [(&'static str, &'static str)],
    value: &'static str,
    about: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Known {
    Listed(Listed),
    Actions,
    Sources,
    Contexts,
}

const fn listed(path: &'static str, value: &'static str, about: &'static [&'static str]) -> Known {
    Known::Listed(Listed { path, query: &[], value, about })
}

const fn invocations(query: &'static [(&'static str, &'static str)]) -> Known {
    Known::Listed(Listed { path: "invocations", query, value: "id", about: &["action", "status"] })
}

const INVOCATIONS: Known = invocations(&[]);
const PENDING: Known = invocations(&[("status", "pending")]);
const SESSIONS: Known = listed("sessions", "id", &["kind", "status"]);
const SPACES: Known = listed("spaces", "name", &[]);
const GRANTS: Known = listed("grants", "id", &["state"]);
const QUARANTINES: Known = listed("quarantines", "id", &["action", "state"]);
const RECEIPTS: Known = listed("receipts", "id", &["kind"]);
const USERS: Known = listed("users", "name", &["role"]);
const PACKAGES: Known = listed("packages", "name", &[]);

/// The words that lead to an argument, its name, and what is offered for it.
const KNOWN: &[(&[&str], &str, Known)] = &[
    (&["show"], "id", INVOCATIONS),
    (&["approve"], "ids", PENDING),
    (&["deny"], "ids", PENDING),
    (&["snooze"], "id", PENDING),
    (&["link"], "id", PENDING),
    (&["explain"], "what", INVOCATIONS),
    (&["explain"], "session", SESSIONS),
    (&["invocation", "list"], "action", Known::Actions),
    (&["invocation", "list"], "session", SESSIONS),
    (&["invocation", "show"], "id", INVOCATIONS),
    (&["invocation", "watch"], "id", INVOCATIONS),
    (&["invocation", "revert"], "id", invocations(&[("revertible", "true")])),
    (&["invocation", "settle"], "id", invocations(&[("status", "in_doubt")])),
    (&["batch", "show"], "id", listed("batches", "id", &["mode", "status"])),
    (&["batch", "run"], "session", SESSIONS),
    (&["action", "list"], "source", Known::Sources),
    (&["action", "list"], "session", SESSIONS),
    (&["action", "show"], "id", Known::Actions),
    (&["action", "guide"], "source", Known::Sources),
    (&["action", "review"], "id", Known::Actions),
    (&["action", "invoke"], "id", Known::Actions),
    (&["action", "invoke"], "session", SESSIONS),
    (&["mode", "set"], "action", Known::Actions),
    (&["mode", "unset"], "action", Known::Actions),
    (&["mode", "versions"], "action", Known::Actions),
    (&["session", "show"], "id", SESSIONS),
    (&["session", "end"], "id", SESSIONS),
    (&["session", "create"], "space", SPACES),
    (&["space", "show"], "space", SPACES),
    (&["space", "band"], "space", SPACES),
    (&["space", "set"], "space", SPACES),
    (&["space", "quorum"], "space", SPACES),
    (&["space", "redact"], "space", SPACES),
    (&["space", "allow-crossing"], "action", Known::Actions),
    (&["space", "allow-crossing"], "from", SPACES),
    (&["space", "allow-crossing"], "to", SPACES),
    (&["space", "forbid-crossing"], "action", Known::Actions),
    (&["space", "forbid-crossing"], "from", SPACES),
    (&["space", "forbid-crossing"], "to", SPACES),
    (&["grant", "list"], "session", SESSIONS),
    (&["grant", "give"], "session", SESSIONS),
    (&["grant", "give"], "space", SPACES),
    (&["grant", "request"], "space", SPACES),
    (&["grant", "show"], "id", GRANTS),
    (&["grant", "approve"], "id", GRANTS),
    (&["grant", "refuse"], "id", GRANTS),
    (&["grant", "revoke"], "id", GRANTS),
    (&["quarantine", "show"], "id", QUARANTINES),
    (&["quarantine", "release"], "id", QUARANTINES),
    (&["quarantine", "discard"], "id", QUARANTINES),
    (&["receipt", "list"], "action", Known::Actions),
    (&["receipt", "list"], "session", SESSIONS),
    (&["receipt", "list"], "user", USERS),
    (&["receipt", "show"], "id", RECEIPTS),
    (&["receipt", "prove"], "id", RECEIPTS),
    (&["token", "create"], "user", USERS),
    (&["token", "revoke"], "id", listed("tokens", "id", &["name", "kind"])),
    (&["user", "role"], "user", USERS),
    (&["user", "limit"], "user", USERS),
    (&["user", "disable"], "id", USERS),
    (&["package", "remove"], "name", PACKAGES),
    (&["canary", "remove"], "id", listed("canaries", "id", &["name"])),
    (&["consent", "give"], "space", SPACES),
    (&["consent", "withdraw"], "id", listed("consents", "id", &["purpose"])),
    (&["breaker", "close"], "key", listed("breakers", "key", &["state"])),
    (&["context", "use"], "name", Known::Contexts),
];

/// The tree of commands, with what the server knows offered where it is meant.
pub(super) fn offered(command: Command) -> Command {
    KNOWN.iter().fold(command, |command, (words, argument, known)| offer(command, words, argument, *known))
}

/// Every argument keeps its place: positional ones are told apart by it.
fn offer(command: Command, words: &[&'static str], argument: &'static str, known: Known) -> Command {
    match words.split_first() {
        Some((word, rest)) => {
            command.mut_subcommands(|below| if below.get_name() == *word { offer(below, rest, argument, known) } else { below })
        }
        None => {
            command.mut_args(
                |found| {
                    if found.get_id() == argument { found.add(ArgValueCandidates::new(move || candidates(known))) } else { found }
                },
            )
        }
    }
}

fn candidates(known: Known) -> Vec<CompletionCandidate> {
    let environment = Environment::read(|name| std::env::var(name).ok());
    if let Known::Contexts = known {
        let contexts = environment.contexts_file().and_then(|file| Contexts::load(&file));
        return contexts.map(|found| found.contexts.into_keys().map(CompletionCandidate::new).collect()).unwrap_or_default();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asked = async { tokio::time::timeout(PATIENCE, ask(known, &environment)).await };
    runtime.block_on(asked).ok().flatten().unwrap_or_default()
}

async fn ask(known: Known, environment: &Environment) -> Option<Vec<CompletionCandidate>> {
    let words: Vec<_> = std::env::args().collect();
    let server = Server::find(typed(&words, "--url"), typed(&words, "--context"), environment).ok()?;
    let client = Client::new(server, Rehearsal::Off).ok()?;
    let found = match known {
        Known::Listed(list) => {
            let limit = ("limit", PAGE_ROWS_MAX.to_string());
            let query: Vec<_> = list.query.iter().map(|(name, value)| (*name, (*value).to_owned())).chain([limit]).collect();
            let page = client.get::<Value>(&[list.path], &query).await.ok()?;
            items(&page.raw["items"]).map(|item| candidate(item, list.value, list.about)).collect()
        }
        Known::Actions => {
            let all = client.get::<Value>(&["actions"], &[]).await.ok()?;
            items(&all.raw["sources"]).flat_map(|source| items(&source["actions"])).map(|item| candidate(item, "id", &["title"])).collect()
        }
        Known::Sources => {
            let all = client.get::<Value>(&["actions"], &[]).await.ok()?;
            items(&all.raw["sources"]).map(|item| candidate(item, "id", &[])).collect()
        }
        Known::Contexts => Vec::new(),
    };
    Some(found)
}

/// The value of a flag on the line that is being completed.
fn typed<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let joined = |word: &'a String| word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('='));
    words.iter().find_map(joined).or_else(|| words.iter().skip_while(|word| *word != flag).nth(1).map(String::as_str))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// SECURITY: what is said beside a name is written by others: only what can be seen of it reaches the terminal, and a name that is more
/// than a word is not offered at all.
fn candidate(item: &Value, value: &str, about: &[&str]) -> CompletionCandidate {
    let name = item[value].as_str().unwrap_or_default();
    let about: Vec<_> = about.iter().filter_map(|member| item[member].as_str()).collect();
    let about: String = clean::line(&about.join(" · ")).chars().take(ABOUT_CHARS_MAX).collect();
    let is_word = !name.is_empty() && name.chars().all(|letter| !letter.is_control() && !letter.is_whitespace());
    CompletionCandidate::new(name).hide(!is_word).help((!about.is_empty()).then(|| about.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every argument that can be typed: the words that lead to it, and its name.
    fn arguments(command: &Command, words: &[String]) -> Vec<(Vec<String>, String)> {
        let own = command.get_arguments().filter(|argument| !argument.is_global_set());
        let own = own.map(|argument| (words.to_vec(), argument.get_id().to_string()));
        let below = command.get_subcommands().flat_map(|below| {
            let words: Vec<_> = words.iter().cloned().chain([below.get_name().to_owned()]).collect();
            arguments(below, &words)
        });
        own.chain(below).collect()
    }

    #[test]
    fn what_the_server_lists_is_offered_for_every_argument_that_names_it_and_for_no_other() {
        let names = ["id", "ids", "session", "space", "from", "to", "action", "source", "user"];
        let there: Vec<_> = arguments(&crate::args::command(), &[]);
        let offered: Vec<_> =
            KNOWN.iter().map(|(words, name, _)| (words.iter().map(ToString::to_string).collect(), (*name).to_owned())).collect();
        let gone: Vec<_> = offered.iter().filter(|one| !there.contains(one)).collect();
        assert!(gone.is_empty(), "there are no such arguments: {gone:?}");
        let left: Vec<_> = there.iter().filter(|one| names.contains(&one.1.as_str()) && !offered.contains(one)).collect();
        assert!(left.is_empty(), "nothing is offered for {left:?}");
    }

    #[test]
    fn a_flag_on_the_line_is_heard() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(typed(&words("countersign -- --url http://a show"), "--url"), Some("http://a"));
        assert_eq!(typed(&words("countersign -- show --url=http://b"), "--url"), Some("http://b"));
        assert_eq!(typed(&words("countersign -- show --url"), "--url"), None);
    }
}
