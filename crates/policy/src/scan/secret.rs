//! Finds secrets that are about to be sent. A secret that `redact` is certain of is quarantined, unless it stands where a secret is meant
//! to be sent: a password in a login or a token in an authorization header asks a person; the same token in a message is stopped.

use super::findings::{Findings, Rule, Severity};
use super::text::{Path, Step};
use super::words::{self, Sink};
use crate::redact::{MARK, NAMED};
use crate::{redact, redact_text};
use serde_json::{Map, Value};

const SECRET_EGRESS: Rule = Rule {
    id: "safety.secret_egress",
    severity: Severity::Quarantines,
    message: "a secret is in content that leaves, where no secret is meant to be sent",
};
pub(super) const SECRET_AUTHORIZES: Rule = Rule {
    id: "safety.secret_authorizes",
    severity: Severity::Asks,
    message: "a secret is sent where one is meant to be, such as an authorization header; a person decides whether it may be used here",
};

pub(super) fn scan(params: &Value, findings: &mut Findings) {
    each(params, &mut |path, sent| match sent {
        Sent::Meant => findings.add(&SECRET_AUTHORIZES, || path.pointer()),
        Sent::Loose => findings.add(&SECRET_EGRESS, || path.pointer()),
        Sent::Example => {}
    });
}

/// What the keys above a text say about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    Anything,
    Secret,
}

/// How a secret stands in the content that is sent. Ordered: the worst of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    /// Only a placeholder, as in `password=your-password` or `TOKEN=$TOKEN`.
    Example,
    Meant,
    Loose,
}

/// Visits the places of the secrets that `redact` finds in the value.
fn each<'v>(value: &'v Value, found: &mut dyn FnMut(&Path<'v>, Sent)) {
    let mut located = false;
    walk(value, Carries::Anything, &mut Path::default(), &mut |path, sent| {
        located = true;
        found(path, sent);
    });
    // Found in the whole value but in no single text, as in a name and value pair: the members beside it say that it is a secret.
    if !located && !redact(value).counts.is_empty() {
        found(&Path::default(), Sent::Meant);
    }
}

fn walk<'v>(value: &'v Value, carries: Carries, path: &mut Path<'v>, found: &mut dyn FnMut(&Path<'v>, Sent)) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let sent = match carries {
                Carries::Secret => (!text.is_empty() && text != MARK).then_some(Sent::Meant),
                Carries::Anything => judge(text, path.key().and_then(words::sink)),
            };
            if let Some(sent) = sent {
                found(path, sent);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.within(Step::Index(index), |path| walk(item, carries, path, found));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                if redact_text(key) != *key {
                    found(path, Sent::Loose);
                }
                path.within(Step::Key(key), |path| walk(member, named(key), path, found));
            }
        }
    }
}

/// Whether the key says that its value is a secret. Asks `redact`, which knows.
fn named(key: &str) -> Carries {
    let example = Value::Object(Map::from_iter([(key.to_owned(), Value::String("x".to_owned()))]));
    if redact(&example).counts.contains_key(NAMED) { Carries::Secret } else { Carries::Anything }
}

/// Kinds that are recognised by the text around them, so that a placeholder looks like a real one.
const BY_SURROUNDINGS: [&str; 4] = [NAMED, "authorization", "cookie", "url_credentials"];
/// Kinds that a URL carries to the host it names.
const IN_URL: [&str; 3] = [NAMED, "url_credentials", "slack_webhook"];

fn judge(text: &str, sink: Option<Sink>) -> Option<Sent> {
    if let Some(document) = document(text) {
        let mut worst = None;
        each(&document, &mut |_, sent| worst = worst.max(Some(sent)));
        return worst;
    }
    let counts = redact(&Value::String(text.to_owned())).counts;
    if counts.is_empty() {
        return None;
    }
    let only = |kinds: &[&str]| counts.keys().all(|kind| kinds.contains(kind));
    if only(&BY_SURROUNDINGS) && !taken(text).into_iter().any(looks_real) {
        return Some(Sent::Example);
    }
    let in_url = sink == Some(Sink::Address) && !text.contains(char::is_whitespace) && only(&IN_URL);
    let by_name = only(&[NAMED]) && !is_environment(text);
    Some(if in_url || by_name { Sent::Meant } else { Sent::Loose })
}

/// JSON in a text, such as the body of a request: its keys say what its texts are.
fn document(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Whether a line of the text sets an environment variable to a secret. A request does not authorize itself with that.
fn is_environment(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let is_assignment = line.split_once('=').is_some_and(|(name, _)| {
            name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        });
        is_assignment && taken(line).into_iter().any(looks_real)
    })
}

/// The parts of a text that `redact` removes.
fn taken(text: &str) -> Vec<&str> {
    let redacted = redact_text(text);
    let mut taken = Vec::new();
    let mut rest = text;
    for (index, kept) in redacted.split(MARK).enumerate() {
        let Some(at) = (if kept.is_empty() { Some(rest.len()) } else { rest.find(kept) }) else {
            // The parts cannot be told apart, so the whole text counts.
            return vec![text];
        };
        if index > 0 {
            taken.push(&rest[..at]);
        }
        rest = if kept.is_empty() && index == 0 { rest } else { &rest[at + kept.len()..] };
    }
    taken
}

const PLACEHOLDERS: [&str; 12] =
    ["your", "example", "xxx", "change", "placeholder", "dummy", "sample", "insert", "replace", "secret_here", "...", "…"];

/// Whether it looks like a real secret: it has letters and digits, contains no placeholder word, and does not begin like a variable.
fn looks_real(secret: &str) -> bool {
    let secret = secret.trim_matches(['"', '\'']);
    let secret = secret.rsplit_once(':').map_or(secret, |(_, password)| password);
    let lower = secret.to_ascii_lowercase();
    secret.len() >= 8
        && secret.bytes().any(|byte| byte.is_ascii_digit())
        && secret.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !secret.starts_with(['$', '<', '{', '%', '*', '(', '['])
        && !secret.contains(['(', '[', '{'])
        && !PLACEHOLDERS.iter().any(|placeholder| lower.contains(placeholder))
}
