//! Completes arguments that name something the server knows, chosen by the name of the argument. A completion must not make the user wait:
//! if the server does not answer at once, nothing is offered.

use crate::client::Rehearsal;
use crate::context::{Contexts, Environment, Server};
use crate::shared::*;
use api::artifact::ArtifactView;
use api::automation::{AutomationView, DraftView};
use api::batch::BatchView;
use api::channel::{ChannelView, DeliveryView};
use api::connection::ConnectionView;
use api::document::DocumentView;
use api::event::{DeadLetterView, GroupView};
use api::gates::{CanaryView, ConsentView, QuarantineView};
use api::identity::{OrgView, SessionView, SpaceView, TokenView, UserView};
use api::invocation::InvocationView;
use api::package::PackageView;
use api::receipt::EntryView;
use api::rules::{BreakerView, GrantView, SwitchView};
use api::run::RunView;
use api::secret::SecretView;
use api::source::AddedSourceView;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use countersign_core::limits::PAGE_ROWS_MAX;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(1_500);
const ABOUT_CHARS_MAX: usize = 60;

/// A list of the server, the member of each item that is offered, and the members that describe the item.
#[derive(Clone, Copy)]
struct Listed {
    path: &'static [&'static str],
    query: &'static [(&'static str, &'static str)],
    offered: (&'static str, &'static [&'static str]),
}

#[derive(Clone, Copy)]
enum Known {
    Listed(Listed),
    Actions,
    Sources,
    Contexts,
}

const fn all<R: Resource>() -> Known {
    only::<R>(&[])
}

const fn only<R: Resource>(query: &'static [(&'static str, &'static str)]) -> Known {
    Known::Listed(Listed { path: R::PATH, query, offered: R::OFFERED })
}

/// For each argument name, what is offered for it in every command.
const KNOWN: &[(&str, Known)] = &[
    ("invocation", all::<InvocationView>()),
    ("explained", all::<InvocationView>()),
    ("pending", only::<InvocationView>(&[("status", "pending")])),
    ("revertible", only::<InvocationView>(&[("revertible", "true")])),
    ("doubted", only::<InvocationView>(&[("status", "in_doubt")])),
    ("quarantined", only::<QuarantineView>(&[("state", "held")])),
    ("batch", all::<BatchView>()),
    ("automation", all::<AutomationView>()),
    ("draft", all::<DraftView>()),
    ("run", all::<RunView>()),
    ("document", all::<DocumentView>()),
    ("artifact", all::<ArtifactView>()),
    ("session", all::<SessionView>()),
    ("space", all::<SpaceView>()),
    ("from", all::<SpaceView>()),
    ("to", all::<SpaceView>()),
    ("user", all::<UserView>()),
    ("org", all::<OrgView>()),
    ("token", all::<TokenView>()),
    ("grant", all::<GrantView>()),
    ("consent", all::<ConsentView>()),
    ("canary", all::<CanaryView>()),
    ("secret", all::<SecretView>()),
    ("connection", all::<ConnectionView>()),
    ("channel", all::<ChannelView>()),
    ("delivery", only::<DeliveryView>(&[("state", "dead")])),
    ("group", all::<GroupView>()),
    ("letter", all::<DeadLetterView>()),
    ("receipt", all::<EntryView>()),
    ("package", all::<PackageView>()),
    ("breaker", all::<BreakerView>()),
    ("stopped", all::<SwitchView>()),
    ("action", Known::Actions),
    ("source", Known::Sources),
    ("added", all::<AddedSourceView>()),
    ("known_context", Known::Contexts),
];

/// Adds the completions to every argument of the tree whose name is in `KNOWN`, or that takes a secret.
pub(super) fn offered(command: Command) -> Command {
    let of = |argument: &Arg| {
        let takes_secret = argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "SECRET"));
        let name = if takes_secret { "secret" } else { argument.get_id().as_str() };
        KNOWN.iter().find(|(known, _)| *known == name).map(|(_, known)| *known)
    };
    let command = command.mut_args(|argument| match of(&argument) {
        Some(known) if argument.get_action().takes_values() => argument.add(ArgValueCandidates::new(move || candidates(known))),
        Some(_) | None => argument,
    });
    command.mut_subcommands(offered)
}

fn candidates(known: Known) -> Vec<CompletionCandidate> {
    let environment = Environment::new(crate::world::variables());
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
            let page = client.get::<Value>(list.path, &query).await.ok()?;
            items(&page.raw["items"]).map(|item| candidate(item, list.offered.0, list.offered.1)).collect()
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

/// The value of a flag on the command line that is being completed.
fn typed<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let joined = |word: &'a String| word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('='));
    words.iter().find_map(joined).or_else(|| words.iter().skip_while(|word| *word != flag).nth(1).map(String::as_str))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// SECURITY: names and descriptions are written by others. Descriptions are cleaned before they reach the terminal, and a name that
/// contains white space or control characters is not offered.
fn candidate(item: &Value, value: &str, about: &[&str]) -> CompletionCandidate {
    let name = item[value].as_str().unwrap_or_default();
    let about: Vec<_> = about.iter().filter_map(|member| item[member].as_str()).collect();
    let about: String = clean::line(&about.join(" · ")).chars().take(ABOUT_CHARS_MAX).collect();
    let is_word = !name.is_empty() && name.chars().all(|letter| !letter.is_control() && !letter.is_whitespace());
    CompletionCandidate::new(name).hide(!is_word).help((!about.is_empty()).then(|| about.into()))
}

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_on_the_line_is_used() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(typed(&words("countersign -- --url http://a show"), "--url"), Some("http://a"));
        assert_eq!(typed(&words("countersign -- show --url=http://b"), "--url"), Some("http://b"));
        assert_eq!(typed(&words("countersign -- show --url"), "--url"), None);
    }
}
