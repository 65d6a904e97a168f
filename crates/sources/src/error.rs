//! The errors of a source that could not be set up. The errors of a call are `core::source::Error`.

use countersign_core::action::InvalidActionId;

/// Why a source could not be set up. The source is then not offered. Nothing was changed, and trying again is safe.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("folder `{path}` cannot be used: {message}")]
    Folder { path: String, message: String },
    #[error("`{one}` and `{other}` cannot both be used: one lies inside the other")]
    FoldersOverlap { one: String, other: String },
    /// Without an id, it could not be told later in which workspace a change was made.
    #[error("the id of the workspace, `{path}`, cannot be used: {message}")]
    WorkspaceId { path: String, message: String },
    /// Without `openat2`, a path could be redirected between check and use, so there are no `files` actions.
    #[error("this kernel cannot open files beneath a folder safely (openat2 is missing or filtered): {message}")]
    NoSafeOpen { message: String },
    #[error("`{text}` is not a host rule: {message}")]
    HostRule { text: String, message: &'static str },
    #[error("`{text}` is not a mail server: {message}")]
    MailServer { text: String, message: &'static str },
    #[error("`{text}` is not an e-mail address: {message}")]
    MailAddress { text: String, message: &'static str },
    /// The certificates that mail servers are checked by cannot be read.
    #[error("the certificates for mail servers cannot be used: {message}")]
    MailCertificates { message: String },
    #[error("artifacts cannot be kept at `{place}`: {message}")]
    Artifacts { place: String, message: String },
    #[error("`{issuer}` is not an issuer: {message}")]
    Issuer { issuer: String, message: String },
    /// Names the part that is missing, such as the system's certificates.
    #[error("the http client cannot be built: {message}")]
    HttpClient { message: String },
    #[error("the threads for file work cannot be started: {message}")]
    Threads { message: String },
    #[error("a builtin definition is broken")]
    Definition(#[source] InvalidActionId),
}
