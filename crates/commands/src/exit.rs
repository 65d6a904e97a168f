//! How a command ends: with an exit code that scripts can rely on, and an error in three lines that a person can act on. Every status of an
//! invocation is mapped here, every error code of the API in `api::codes`, and nowhere else.

use crate::hints::{hint_for_agent, hint_of};
use crate::style::clean;
use api::invocation::InvocationView;
use api::problem::FieldError;
use api::{Code, Problem};
use countersign_core::Status;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use url::Url;

/// The exit code of the process. The numbers are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    NotAuthenticated = 4,
    Denied = 5,
    Pending = 6,
    Conflict = 7,
    Invalid = 8,
    Unreachable = 9,
    InDoubt = 10,
    Interrupted = 130,
}

impl Exit {
    /// Each exit code with its word in JSON, used if the server gave no code, and its meaning.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Ok, "ok", "it worked"),
        (Self::Failed, "failed", "it failed or was rolled back, or a check failed"),
        (Self::Usage, "usage", "the command line does not make sense"),
        (Self::NotFound, "not_found", "there is no such thing"),
        (Self::NotAuthenticated, "unauthenticated", "no valid token: log in"),
        (Self::Denied, "denied", "denied by policy or by a person, or the token does not allow it"),
        (Self::Pending, "pending", "still pending, expired, or `--wait` ran out"),
        (Self::Conflict, "conflict", "already decided, ended, taken or changed"),
        (Self::Invalid, "invalid", "what was sent is not valid"),
        (Self::Unreachable, "unreachable", "the server cannot be reached"),
        (Self::InDoubt, "in_doubt", "the effect may have happened: do not retry, reconcile"),
        (Self::Interrupted, "interrupted", "interrupted from the keyboard"),
    ];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    fn about(self) -> (&'static str, &'static str) {
        Self::ALL.into_iter().find(|(exit, ..)| *exit == self).map(|(_, word, meaning)| (word, meaning)).unwrap_or_default()
    }

    /// The exit code that the table of codes has.
    pub(crate) fn of_code(code: Code) -> Self {
        Self::ALL.into_iter().map(|(exit, ..)| exit).find(|exit| exit.code() == code.exit()).unwrap_or(Self::Failed)
    }

    /// The exit code for an HTTP error status.
    pub(crate) const fn of_http(status: u16) -> Self {
        match status {
            400 | 413 | 415 | 422 => Self::Invalid,
            401 => Self::NotAuthenticated,
            403 => Self::Denied,
            404 => Self::NotFound,
            409 | 412 => Self::Conflict,
            410 => Self::Pending,
            _ => Self::Failed,
        }
    }

    /// The exit code of a call by how it ended. Params that its source refused are as invalid as those that do not fit its schema.
    pub(crate) fn of_call(invocation: &InvocationView) -> Self {
        let is_refused = matches!(invocation.status, Status::Denied | Status::Failed);
        let is_invalid = invocation.error.as_ref().is_some_and(|error| error.code == Code::InvalidParams.as_str());
        if is_refused && is_invalid { Self::Invalid } else { Self::of_status(invocation.status) }
    }

    const fn of_status(status: Status) -> Self {
        match status {
            Status::Succeeded => Self::Ok,
            Status::Failed | Status::Reverted => Self::Failed,
            Status::Cancelled => Self::Conflict,
            Status::Denied | Status::Quarantined => Self::Denied,
            Status::Pending | Status::Approved | Status::Running | Status::Expired => Self::Pending,
            Status::InDoubt => Self::InDoubt,
        }
    }
}

/// Why a command did not do what was asked: what happened, why, and what to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) cause: Option<String>,
    pub(crate) hint: Option<String>,
    /// The server's error code, if the failure came from the server.
    code: Option<Code>,
    /// The server's problem document, for `--json`.
    problem: Option<Box<Value>>,
    /// Under `--dry-run`: the request that was not sent. This is not a failure, but it ends the command in the same way.
    unsent: Option<Box<Value>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), cause: None, hint: None, code: None, problem: None, unsent: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Ends a command under `--dry-run`, in place of sending the request.
    pub(crate) fn unsent_request(method: &str, path: &str, body: Option<Value>) -> Self {
        let request = json!({ "method": method, "path": path, "body": body });
        Self { unsent: Some(Box::new(request)), ..Self::new(Exit::Ok, "nothing was sent") }
    }

    /// The request that was not sent, as one line.
    pub(crate) fn unsent(&self) -> Option<String> {
        let request = self.unsent.as_deref()?;
        let word = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
        let body = if request["body"].is_null() { String::new() } else { format!(" {}", request["body"]) };
        Some(clean::line(&format!("{} {}{body}", word("method"), word("path"))))
    }

    /// With what the command line knows better than the server: that the URL it sent has a place for a credential.
    pub(crate) fn of_url(self, url: &str) -> Self {
        let has_place = Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some() || url.query().is_some());
        if !self.is(Code::UrlNotAllowed) || !has_place {
            return self;
        }
        self.hint(
            "leave it out of the URL: `countersign connection add` takes a credential unseen, and a source uses it with `--connection NAME`",
        )
    }

    /// A file that could not be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        let (shown, kind) = (path.display(), error.kind());
        if kind == io::ErrorKind::NotFound {
            let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
            let (missing, next) = match path.parent().filter(is_missing) {
                Some(folder) => (format!("there is no folder `{}`", folder.display()), "make it, or name one that is there"),
                None if path.is_relative() => (format!("there is no file `{shown}`"), "it is looked for from the folder you are in"),
                None => (format!("there is no file `{shown}`"), "see what is there with `ls`"),
            };
            return Self::new(Exit::NotFound, missing).hint(next);
        }
        if kind == io::ErrorKind::IsADirectory {
            return Self::failed(format!("`{shown}` is a folder, and a file is needed"));
        }
        let text = error.to_string();
        let why = if kind == io::ErrorKind::PermissionDenied {
            "you are not allowed to"
        } else {
            text.split(" (os error").next().unwrap_or(&text)
        };
        Self::failed(format!("`{shown}` cannot be used: {why}"))
    }

    /// The failure for a problem that the server sent. `raw` is the complete body.
    pub(crate) fn of_problem(problem: &Problem, raw: Value) -> Self {
        let mistakes = problem.mistakes.iter().map(|mistake| FieldError::new(mistake.pointer.clone(), mistake.message.clone()));
        let fields: Vec<_> = problem.errors.iter().cloned().chain(mistakes).map(|field| at_pointer(&field)).collect();
        // For something that does not exist, the title would only repeat the detail.
        let is_missing = matches!(problem.code, Code::NotFound | Code::UnknownAction | Code::UnknownSource | Code::UnknownSession);
        // What was done and rolled back was done: the detail says so, and the title would deny it.
        let was_made = problem.invocation.as_ref().is_some_and(|invocation| invocation.rollback.is_some());
        let says_it_all = is_missing || was_made || repeats(&problem.title, &problem.detail);
        let cause = match (fields.is_empty(), says_it_all) {
            (false, _) => Some(fields.join("; ")),
            (true, true) => None,
            (true, false) => Some(uncapitalised(&problem.title)),
        };
        let cause = with_id(cause, problem);
        // A call that ended has the exit code of how it ended.
        let exit = problem.invocation.as_ref().map_or_else(|| Exit::of_code(problem.code), |ended| Exit::of_call(ended));
        Self {
            exit,
            message: problem.detail.clone(),
            cause,
            hint: hint_of(problem),
            code: Some(problem.code),
            problem: Some(Box::new(raw)),
            unsent: None,
        }
    }

    /// The output cannot be written. If the reader has closed the pipe, that is not an error.
    pub(crate) fn write(error: &io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::Ok } else { Exit::Failed };
        Self::new(exit, format!("the output cannot be written: {error}"))
    }

    #[must_use]
    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure for whoever uses the commands of an agent. A hint about this very call stays.
    #[must_use]
    pub(crate) fn for_agent(mut self) -> Self {
        if let Some(problem) = self.problem().filter(|problem| self.hint == hint_of(problem)) {
            self.hint = hint_for_agent(&problem);
        }
        self
    }

    /// Whether the failure is a problem of the server with this code.
    pub(crate) fn is(&self, code: Code) -> bool {
        self.code == Some(code)
    }

    /// The server's problem, if there is one.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.problem.as_deref().and_then(|raw| serde::Deserialize::deserialize(raw).ok())
    }

    /// The error as a JSON document: the server's problem, or one of the same shape.
    pub(crate) fn to_json(&self) -> Value {
        if let Some(request) = &self.unsent {
            return json!({ "would_send": request });
        }
        let (word, meaning) = self.exit.about();
        let own = || json!({ "code": word, "title": meaning, "detail": self.message, "cause": self.cause, "hint": self.hint });
        json!({ "error": self.problem.as_deref().cloned().unwrap_or_else(own) })
    }
}

/// What is wrong with a field, with its pointer. The whole document has no pointer.
fn at_pointer(field: &FieldError) -> String {
    if field.pointer.is_empty() { field.message.clone() } else { format!("`{}`: {}", field.pointer, field.message) }
}

/// Whether the detail contains every longer word of the title.
fn repeats(title: &str, detail: &str) -> bool {
    let detail = detail.to_lowercase();
    let words = title.split(|character: char| !character.is_alphanumeric()).filter(|word| word.chars().count() > 3);
    words.map(str::to_lowercase).all(|word| detail.contains(&word))
}

/// Adds the id of the call to the cause, unless it is already named, so that the user can look up the call and its receipt.
fn with_id(cause: Option<String>, problem: &Problem) -> Option<String> {
    let Some(invocation) = &problem.invocation else { return cause };
    let is_named = |text: &str| text.contains(&invocation.id);
    if is_named(&problem.detail) || problem.hint.as_deref().is_some_and(is_named) {
        return cause;
    }
    Some(cause.map_or_else(|| format!("the call is {}", invocation.id), |cause| format!("{cause}: {}", invocation.id)))
}

/// `A person denied the call` reads as a cause in the middle of a sentence.
fn uncapitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_as_documented() {
        let codes: Vec<_> = Exit::ALL.iter().map(|(exit, ..)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 130]);
    }

    #[test]
    fn no_code_of_the_api_passes_for_success() {
        for code in Code::ALL {
            let exit = Exit::of_code(*code);
            assert!(!matches!(exit, Exit::Ok | Exit::Usage | Exit::Unreachable | Exit::Interrupted), "{code:?}");
            assert!(exit.code() == code.exit() && (exit == Exit::InDoubt || exit == Exit::of_http(code.status())), "{code:?}");
        }
    }

    #[test]
    fn only_success_exits_with_zero() {
        for status in Status::ALL {
            assert_eq!(Exit::of_status(status) == Exit::Ok, status == Status::Succeeded, "{status}");
        }
    }

    #[test]
    fn a_problem_becomes_what_happened_why_and_what_next() {
        let problem = Problem::new(Code::DeniedByPerson, "`inv_1` was denied").about("inv_1");
        let failure = Failure::of_problem(&problem, json!({ "code": "denied_by_person" }));
        assert_eq!(failure.exit, Exit::Denied);
        assert_eq!(failure.message, "`inv_1` was denied");
        assert_eq!(failure.cause.as_deref(), Some("a person denied the call"));
        assert_eq!(failure.hint.as_deref(), Some("countersign explain inv_1"));
        assert_eq!(failure.to_json(), json!({ "error": { "code": "denied_by_person" } }));
    }

    #[test]
    fn a_cause_that_would_only_repeat_the_error_is_left_out() {
        for (code, detail, cause) in [
            (Code::Consumed, "`inv_1`: the call was already approved; see its status", None),
            (Code::Stopped, "`inv_1`: a kill switch is on; it stays in the queue", None),
            (Code::Expired, "`inv_1`: the call has expired; make a new call", None),
            (Code::NameTaken, "there is a space named `x` already", Some("the name is taken")),
        ] {
            let failure = Failure::of_problem(&Problem::new(code, detail), Value::Null);
            assert_eq!(failure.cause.as_deref(), cause, "{detail}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| Failure::file(path, &std::fs::read_to_string(path).unwrap_err());
        let (missing, lost) = (folder.path().join("a"), folder.path().join("b/a"));
        assert_eq!(told(&missing).message, format!("there is no file `{}`", missing.display()));
        assert_eq!(told(&lost).message, format!("there is no folder `{}`", folder.path().join("b").display()));
        assert_eq!(told(&lost).hint.as_deref(), Some("make it, or name one that is there"));
        assert_eq!((told(&lost).exit, told(folder.path()).exit), (Exit::NotFound, Exit::Failed));
        assert_eq!(told(folder.path()).message, format!("`{}` is a folder, and a file is needed", folder.path().display()));
        assert_eq!(Failure::file(Path::new("x"), &io::Error::from_raw_os_error(28)).message, "`x` cannot be used: No space left on device");
    }

    #[test]
    fn a_rehearsal_ends_well_and_says_what_it_kept_back() {
        let unsent = Failure::unsent_request("PUT", "/api/v1/modes", Some(json!({ "mode": "allow" })));
        assert_eq!(unsent.exit, Exit::Ok);
        assert_eq!(unsent.unsent().as_deref(), Some(r#"PUT /api/v1/modes {"mode":"allow"}"#));
        assert_eq!(unsent.to_json()["would_send"]["method"], "PUT");
        assert_eq!(Failure::unsent_request("DELETE", "/api/v1/x", None).unsent().as_deref(), Some("DELETE /api/v1/x"));
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert_eq!(Failure::write(&io::ErrorKind::BrokenPipe.into()).exit, Exit::Ok);
        assert_eq!(Failure::write(&io::ErrorKind::StorageFull.into()).exit, Exit::Failed);
    }

    #[test]
    fn a_credential_belongs_into_a_connection_and_not_into_a_url() {
        let refused = |code| Failure::of_problem(&Problem::new(code, "no"), Value::Null);
        for url in ["https://u:p@example.com/", "https://example.com/?key=1"] {
            assert!(refused(Code::UrlNotAllowed).of_url(url).hint.unwrap().starts_with("leave it out of the URL"), "{url}");
            assert_eq!(refused(Code::NameTaken).of_url(url), refused(Code::NameTaken));
        }
        let plain = refused(Code::UrlNotAllowed).of_url("https://example.com/");
        assert_eq!((plain.hint.as_deref(), plain.exit), (Some("correct the URL as the error says"), Exit::Invalid));
    }
}
