//! What a key says its value is for, judged by whole words: `send_to` names a recipient; `tomorrow` and `time_to_live` do not.

/// The kinds of values that decide what an action touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    Recipient,
    /// A host or a URL.
    Address,
    Path,
    Command,
}

/// Longer keys are no names.
const KEY_BYTES_MAX: usize = 64;

const RECIPIENTS: [&str; 16] = [
    "cc",
    "bcc",
    "recipient",
    "recipients",
    "addressee",
    "addressees",
    "receiver",
    "receivers",
    "payee",
    "beneficiary",
    "iban",
    "mailto",
    "email",
    "emails",
    "channel",
    "channels",
];
const ADDRESSES: [&str; 15] = [
    "host",
    "hosts",
    "hostname",
    "domain",
    "domains",
    "ip",
    "endpoint",
    "endpoints",
    "url",
    "urls",
    "uri",
    "uris",
    "href",
    "webhook",
    "callback",
];
const PATHS: [&str; 15] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "dir",
    "directory",
    "directories",
    "folder",
    "folders",
    "dest",
    "destination",
    "cwd",
];
const COMMANDS: [&str; 13] =
    ["command", "commands", "cmd", "shell", "script", "scripts", "exec", "executable", "program", "argv", "args", "sql", "entrypoint"];
/// A key that ends with one of these words only describes the thing: `url_count`, `file_type`, `email_subject`.
const ABOUT: [&str; 22] = [
    "at",
    "body",
    "bytes",
    "count",
    "description",
    "enabled",
    "encoding",
    "extension",
    "format",
    "kind",
    "label",
    "limit",
    "max",
    "mode",
    "size",
    "status",
    "subject",
    "text",
    "timeout",
    "title",
    "type",
    "version",
];
/// Verbs that make `to` mean a recipient.
const VERBS: [&str; 13] =
    ["send", "sent", "reply", "forward", "share", "shared", "mail", "deliver", "transfer", "pay", "invite", "assign", "assigned"];

pub(super) fn sink(key: &str) -> Option<Sink> {
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    let words = crate::words::split(key);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.last().is_some_and(|last| ABOUT.contains(last)) {
        return None;
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    if has(&COMMANDS) {
        Some(Sink::Command)
    } else if has(&ADDRESSES) {
        Some(Sink::Address)
    } else if has(&PATHS) {
        Some(Sink::Path)
    } else if has(&RECIPIENTS) || is_to(&words) {
        Some(Sink::Recipient)
    } else {
        None
    }
}

fn is_to(words: &[&str]) -> bool {
    match words {
        // `in_reply_to` holds the id of a message.
        ["in", "reply", "to"] => false,
        ["to"] | ["to", "address" | "addresses" | "user" | "users" | "account" | "number"] => true,
        [.., verb, "to"] => VERBS.contains(verb),
        _ => false,
    }
}
