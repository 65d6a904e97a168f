//! Everything that can be done besides making and answering calls, for every door. Each operation checks who asks and what is asked, then
//! writes. A door reads its input, calls an operation and shows the result: it holds no rule and writes nothing itself
//! (`crates/testkit/tests/it/doors.rs`).

pub mod limits;
pub mod allowed;
pub mod answers;
pub mod artifacts;
pub mod automations;
pub mod breakers;
pub mod canaries;
pub mod channels;
pub mod connections;
pub mod consents;
pub mod crossings;
pub mod dead_letters;
pub mod documents;
pub mod drafts;
pub mod events;
pub mod filters;
pub mod grants;
pub mod hooks;
pub mod invocations;
pub mod keys;
pub mod links;
pub mod logins;
pub mod modes;
pub mod observe;
pub mod orgs;
pub mod packages;
pub mod policies;
pub mod prices;
pub mod retention;
pub mod reviews;
pub mod runs;
pub mod secrets;
pub mod seen;
pub mod sessions;
pub mod sight;
pub mod sign_ins;
pub mod slack;
pub mod sources;
pub mod spaces;
pub mod stream;
pub mod switches;
pub mod tokens;
pub mod users;

mod app;
mod error;
mod followed;
mod one_time_login;
mod sign_in;

pub use app::{App, Parts};
pub use error::Error;
pub use sign_in::SignIn;

use countersign_core::principal::Permission;
use countersign_core::{ActionId, OrgId, Principal, PrincipalId, UserId};
use pipeline::limits::REASON_CHARS_MAX;

/// Checks that the principal has the permission.
fn must(by: &Principal, permission: Permission) -> Result<(), Error> {
    if by.may(permission) { Ok(()) } else { Err(pipeline::Error::Forbidden { permission }.into()) }
}

/// Checks that the principal may read everything in the org.
pub fn must_read(by: &Principal) -> Result<(), Error> {
    must(by, Permission::Read)
}

/// Checks that the principal may read its own session.
pub fn must_read_session(by: &Principal) -> Result<(), Error> {
    must(by, Permission::ReadSession)
}

/// Checks that the org is not disabled, for a door where nobody shows a token of it: a token of a disabled org is refused as it is read.
async fn must_be_enabled(app: &App, org: &OrgId, what: &'static str) -> Result<(), Error> {
    if app.store().is_enabled(org).await? { Ok(()) } else { Err(Error::OrgDisabled { what }) }
}

/// Returns the person who asks. Agents, services and automations are refused.
fn must_be_person<'a>(by: &'a Principal, does_what: &'static str) -> Result<&'a UserId, Error> {
    match &by.id {
        PrincipalId::User(user) => Ok(user),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => Err(Error::NotAPerson { does_what }),
    }
}

/// The id of an action, as it was written.
pub async fn action_named(app: &App, by: &Principal, action: &str) -> Result<ActionId, Error> {
    match ActionId::parse(action) {
        Ok(id) => Ok(id),
        Err(_) => Err(sources::unknown_action(app, by, pipeline::Eyes::of(&by.org, None), action).await),
    }
}

/// A name people can read aloud: 1 to 64 of letters, digits, space, `_`, `-`, `.` and `@`.
fn named(name: &str) -> Result<&str, Error> {
    let fits = (1..=64).contains(&name.chars().count())
        && name.trim() == name
        && name.chars().all(|character| character.is_alphanumeric() || matches!(character, ' ' | '_' | '-' | '.' | '@'));
    if fits { Ok(name) } else { Err(Error::BadName) }
}

/// Checks and redacts an optional text that is stored and shown. U+0000 is refused, because not every database can store it in a text
/// column.
fn words(field: &str, text: Option<&str>) -> Result<Option<String>, Error> {
    match text {
        Some(text) if text.chars().count() > REASON_CHARS_MAX || text.contains('\0') => {
            Err(Error::invalid(format!("`{field}` is longer than {REASON_CHARS_MAX} characters, or holds U+0000")))
        }
        Some(text) => Ok(Some(policy::redact_text(text))),
        None => Ok(None),
    }
}
