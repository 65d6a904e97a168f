//! What a program said beside its messages, how it ended, and what that most likely means.

use super::given::Given;
use crate::limits::MCP_PROGRAM_LINES_TOLD;
use crate::words::{last_line, said};
use countersign_core::jail::{self, Ended};
use countersign_core::network::{Network, Refused};
use countersign_core::resident::Child;
use parking_lot::Mutex;
use std::sync::Arc;

/// What a program was allowed, as far as a hint needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowances {
    /// The hosts that it reaches.
    pub(super) hosts: Vec<String>,
    pub(super) open_files: u32,
    pub(super) has_folder: bool,
    /// Knows what it did not reach.
    pub(super) network: Option<Arc<dyn Network>>,
}

/// A program that is observed until its connection is given up.
pub(super) struct Observed {
    child: Arc<dyn Child>,
    allowed: Allowances,
    /// How it ended, as the rest of a sentence that begins with "its program".
    how: Mutex<Option<How>>,
}

#[derive(Clone, Debug)]
struct How {
    words: String,
    hint: Option<&'static str>,
}

/// The last that is known of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords {
    /// How it ended, as the rest of a sentence that begins with "its program"; absent while it runs.
    pub ended: Option<String>,
    /// What to do, if the lines or its network say it.
    pub hint: Option<String>,
    /// The last lines of its stderr.
    pub lines: Vec<String>,
}

impl Observed {
    pub(super) fn new(child: Arc<dyn Child>, allowed: Allowances) -> Self {
        Self { child, allowed, how: Mutex::default() }
    }

    /// Notes how it ended; `None`: it only closed its stdout.
    pub(super) fn note(&self, ended: Option<Result<Ended, jail::Error>>) {
        *self.how.lock() = Some(how(ended));
    }

    pub(super) fn last_words(&self, given: &Given) -> LastWords {
        let all = self.child.stderr().lines.join("\n");
        let all = given.without(&all);
        let how = self.how.lock().clone();
        let lines: Vec<_> = all.lines().filter(|line| !line.trim().is_empty()).collect();
        let lines: Vec<_> = lines[lines.len().saturating_sub(MCP_PROGRAM_LINES_TOLD)..].iter().map(|line| said(line)).collect();
        let of_end = how.as_ref().and_then(|how| how.hint).map(str::to_owned);
        let of_lines = || how.is_some().then(|| hint(&lines, &self.allowed)).flatten();
        let hint = of_end.or_else(of_lines).or_else(|| self.allowed.refused()).map(|hint| given.without(&hint).into_owned());
        LastWords { ended: how.map(|how| how.words), hint, lines }
    }

    /// What to do about an error that the program answers with, and goes on.
    pub(super) fn hint(&self, message: &str, given: &Given) -> Option<String> {
        hint(&[message.to_owned()], &self.allowed).map(|hint| given.without(&hint).into_owned())
    }
}

fn how(ended: Option<Result<Ended, jail::Error>>) -> How {
    let plain = |words: String| How { words, hint: None };
    match ended {
        Some(Ok(Ended::Exited(code))) => plain(format!("ended with code {code}")),
        Some(Ok(Ended::Signalled(signal))) => plain(format!("was ended by signal {signal}")),
        Some(Ok(Ended::OutOfMemory)) => How {
            words: "took more memory than it may, and was ended".to_owned(),
            hint: Some("an operator gives it more: `--memory` when it is added, or `memory_mb` in `mcp_commands`"),
        },
        Some(Ok(Ended::Flooded)) => plain("printed a line that is too long, and was ended".to_owned()),
        Some(Ok(Ended::TimedOut | Ended::Cancelled)) => plain("was ended".to_owned()),
        Some(Err(jail::Error::Lost { message })) => plain(format!("was ended: {message}")),
        Some(Err(error)) => plain(format!("is gone: {error}")),
        None => plain("closed its stdout".to_owned()),
    }
}

impl LastWords {
    /// In one line: how it ended, the line that names the error, what to do, and the lines before and after.
    pub(super) fn in_a_sentence(&self) -> String {
        let mut sentence = format!("its program {}", self.ended.as_deref().unwrap_or("still runs"));
        let log = self.lines.join("\n");
        let named = last_line(&log);
        if let Some(named) = named {
            sentence.push_str(": ");
            sentence.push_str(named);
        }
        if let Some(hint) = &self.hint {
            sentence.push_str("; ");
            sentence.push_str(hint);
        }
        if self.lines.iter().any(|line| Some(line.trim()) != named) {
            sentence.push_str("; its last lines: ");
            sentence.push_str(&self.lines.join(" | "));
        }
        sentence
    }
}

/// What the last lines of a program most likely mean. The first that fits is told: the order is from the certain to the likely.
fn hint(lines: &[String], allowed: &Allowances) -> Option<String> {
    let text = lines.join("\n");
    let small = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
    if has(&["emfile", "too many open files"]) {
        let open_files = allowed.open_files;
        return Some(format!(
            "it may have {open_files} files open; an operator lets it have more: {}",
            said_with("--open-files", "open_files")
        ));
    }
    if has(&[
        "eai_again",
        "enotfound",
        "getaddrinfo",
        "name resolution",
        "name or service not known",
        "enetunreach",
        "network is unreachable",
    ]) {
        let with = said_with("--allow-host", "hosts");
        return allowed.refused().or_else(|| {
            Some(match allowed.hosts.as_slice() {
                [] => format!("it reaches no host; an operator names those that it needs: {with}"),
                hosts => format!("it reaches {} and no other host; an operator names more: {with}", hosts.join(", ")),
            })
        });
    }
    if has(&["econnreset", "econnrefused", "connection reset", "connection refused", "socket hang up", "fetch failed", "connection error"])
        && let Some(refused) = allowed.refused()
    {
        return Some(refused);
    }
    if has(&["erofs", "read-only file system", "enospc", "no space left on device"]) {
        return Some(if allowed.has_folder {
            "it may write to `/data`, which is kept, and to `/tmp` and `/stage`, which are small and gone when it ends".to_owned()
        } else {
            let with = said_with("--folder", "folder_mb");
            format!(
                "it may write to `/tmp` and `/stage` alone, which are small and gone when it ends; an operator gives it a folder that is kept: {with}"
            )
        });
    }
    if let Some(name) = variable(lines) {
        return Some(format!(
            "it wants the variable `{name}`: `--env` or `--secret-env` when it is added, and for a command in `mcp_commands` `env` there as well"
        ));
    }
    if has(&[
        "cannot find module",
        "modulenotfounderror",
        "no module named",
        "cannot open shared object file",
        "enoent",
        "no such file or directory",
        "cannot access",
    ]) {
        return Some(format!("it misses a file or a program; an operator shows it what it needs: {}", said_with("--readable", "readable")));
    }
    None
}

impl Allowances {
    /// What it did not reach last, and what to do if it should.
    fn refused(&self) -> Option<String> {
        let Refused { host, port, code } = self.network.as_ref()?.refused()?;
        let place = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let needed = match code {
            "name_not_allowed" | "host_not_allowed" | "port_not_allowed" => {
                format!("; an operator lets it: {}", said_with("--allow-host", "hosts"))
            }
            "address_not_allowed" => {
                "; its address is not public, and an operator allows its network: `countersign allow network add NETWORK`".to_owned()
            }
            "not_tls" => format!("; that is allowed for TLS alone, so write it with `http://`: {}", said_with("--allow-host", "hosts")),
            _ => String::new(),
        };
        Some(format!("it did not reach `{place}` (`{code}`){needed}"))
    }
}

/// Where an operator says it: on the line that adds the source, or in the file.
fn said_with(flag: &str, setting: &str) -> String {
    format!("`{flag}` when it is added, or `{setting}` in `mcp_commands`")
}

/// The variable that a line says is missing.
fn variable(lines: &[String]) -> Option<String> {
    const MISSING: [&str; 10] = [
        "required",
        "missing",
        "not set",
        "must be set",
        "is unset",
        "not provided",
        "must provide",
        "not defined",
        "please set",
        "not found",
    ];
    let is_name = |word: &str| {
        word.len() >= 4
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.contains('_')
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let says_so = |line: &&String| {
        let small = line.to_lowercase();
        MISSING.iter().any(|word| small.contains(word)) || small.contains("keyerror")
    };
    let mut words =
        lines.iter().rev().filter(says_so).flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'));
    words.find(|word| is_name(word)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::network::Sockets;

    #[test]
    fn a_hint_is_given_by_cause_and_none_where_nothing_is_known() {
        let none = Allowances { open_files: 1_024, ..Allowances::default() };
        let some = Allowances { hosts: vec!["https://api.example.com".to_owned()], has_folder: true, ..none.clone() };
        for (line, allowed, expected) in [
            ("Error: EMFILE: too many open files, open '/x'", &none, "1024 files open"),
            ("getaddrinfo EAI_AGAIN api.example.org", &none, "reaches no host"),
            ("getaddrinfo ENOTFOUND api.example.org", &some, "reaches https://api.example.com and no other"),
            ("OSError: [Errno 30] Read-only file system: '/x'", &none, "`folder_mb`"),
            ("Error: EROFS: read-only file system, mkdir '/x'", &some, "`/data`"),
            ("Error: GITHUB_PERSONAL_ACCESS_TOKEN is not set", &none, "`GITHUB_PERSONAL_ACCESS_TOKEN`"),
            ("Please set the NOTION_TOKEN environment variable. It is required.", &none, "`NOTION_TOKEN`"),
            ("KeyError: 'API_KEY'", &none, "`API_KEY`"),
            ("Error: Cannot find module 'left-pad'", &none, "`readable`"),
            ("spawn git ENOENT", &none, "`readable`"),
            ("Warning: Cannot access directory /srv/notes, skipping", &none, "`--readable`"),
        ] {
            let hint = hint(&[line.to_owned()], allowed).unwrap_or_default();
            assert!(hint.contains(expected), "{line}: {hint}");
        }
        for line in ["", "out of luck", "TypeError: boom is not a function", "HTTP_STATUS 500"] {
            assert_eq!(hint(&[line.to_owned()], &none), None, "{line}");
        }
    }

    #[derive(Debug)]
    struct Refusing(Refused);

    impl Network for Refusing {
        fn ports(&self) -> Vec<u16> {
            Vec::new()
        }

        fn serve(&self, _: Sockets) -> countersign_core::Future<'_, ()> {
            Box::pin(std::future::ready(()))
        }

        fn refused(&self) -> Option<Refused> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn what_a_program_did_not_reach_is_named_with_what_to_do() {
        for (port, code, expected) in [
            (Some(5432), "address_not_allowed", "`db.example:5432` (`address_not_allowed`); its address is not public"),
            (Some(5432), "not_tls", "write it with `http://`"),
            (None, "name_not_allowed", "`db.example` (`name_not_allowed`); an operator lets it: `--allow-host`"),
            (Some(5432), "unreachable", "it did not reach `db.example:5432` (`unreachable`)"),
        ] {
            let network: Arc<dyn Network> = Arc::new(Refusing(Refused { host: "db.example".to_owned(), port, code }));
            let allowed = Allowances { network: Some(network), ..Allowances::default() };
            for line in ["Error: connect ECONNRESET 127.64.0.1:5432", "getaddrinfo ENOTFOUND db.example"] {
                let hint = hint(&[line.to_owned()], &allowed).unwrap_or_default();
                assert!(hint.contains(expected), "{line}: {hint}");
            }
            // A cause that is certain comes first.
            let hint = hint(&["Error: DB_TOKEN is not set".to_owned()], &allowed).unwrap_or_default();
            assert!(hint.contains("`DB_TOKEN`"), "{hint}");
        }
    }

    #[test]
    fn one_line_is_told_once_and_several_are_all_told() {
        let words = |lines: &[&str]| LastWords {
            ended: Some("ended with code 1".to_owned()),
            hint: None,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(words(&[]).in_a_sentence(), "its program ended with code 1");
        assert_eq!(words(&["no"]).in_a_sentence(), "its program ended with code 1: no");
        assert_eq!(words(&["a", "no"]).in_a_sentence(), "its program ended with code 1: no; its last lines: a | no");
    }
}
