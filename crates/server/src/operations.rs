//! Everything that can be done besides making and answering calls, for every door. Each operation checks who asks and what is asked, then
//! writes. A door reads its input, calls an operation and shows the result: it holds no rule and writes nothing itself
//! (`crates/testkit/tests/it/doors.rs`).

pub(crate) mod allowed;
pub(crate) mod answers;
pub(crate) mod artifacts;
pub(crate) mod automations;
pub(crate) mod breakers;
pub(crate) mod canaries;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod consents;
pub(crate) mod crossings;
pub(crate) mod dead_letters;
pub(crate) mod documents;
pub(crate) mod drafts;
pub(crate) mod events;
pub(crate) mod filters;
pub(crate) mod grants;
pub(crate) mod hooks;
pub(crate) mod invocations;
pub(crate) mod keys;
pub(crate) mod links;
pub(crate) mod logins;
pub(crate) mod modes;
pub(crate) mod observe;
pub(crate) mod orgs;
pub(crate) mod packages;
pub(crate) mod policies;
pub(crate) mod prices;
pub(crate) mod retention;
pub(crate) mod reviews;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod seen;
pub(crate) mod sessions;
pub(crate) mod sight;
pub(crate) mod sign_ins;
pub(crate) mod slack;
pub(crate) mod sources;
pub(crate) mod spaces;
pub(crate) mod stream;
pub(crate) mod switches;
pub(crate) mod tokens;
pub(crate) mod users;

mod error;

pub(crate) use error::Error;

use crate::App;
use countersign_core::limits::REASON_CHARS_MAX;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, OrgId, Principal, PrincipalId, UserId};

/// Checks that the principal has the permission.
fn must(by: &Principal, permission: Permission) -> Result<(), Error> {
    if by.may(permission) { Ok(()) } else { Err(pipeline::Error::Forbidden { permission }.into()) }
}

/// Checks that the principal may read everything in the org.
pub(crate) fn must_read(by: &Principal) -> Result<(), Error> {
    must(by, Permission::Read)
}

/// Checks that the principal may read its own session.
pub(crate) fn must_read_session(by: &Principal) -> Result<(), Error> {
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
pub(crate) async fn action_named(app: &App, by: &Principal, action: &str) -> Result<ActionId, Error> {
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
