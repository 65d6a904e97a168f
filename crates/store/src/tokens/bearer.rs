//! Who comes with a token. What a call asks first is remembered; see `db/remembered.rs`.

use super::kind::TokenKind;
use super::protected::{Protected, protected_columns};
use super::{Lost, from_tokens};
use crate::db::{About, Columns, ReadSessions, Row, only, vals};
use crate::keys::Keychain;
use crate::{Error, Store};
use countersign_core::principal::{Device, Role};
use countersign_core::{OrgId, Principal, PrincipalId, SessionId, Timestamp, TokenId, UserId};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Why a token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Unknown,
    Expired,
    Revoked,
    /// The whole org was disabled.
    OrgDisabled,
    /// The user, the person the agent works for, or the person who made the service's token was disabled; or the session has ended.
    Inactive,
}

/// The facts remembered about a token.
pub(super) struct Bearer {
    pub(super) org: OrgId,
    pub(super) token: TokenId,
    hash: Vec<u8>,
    pub(super) is: Is,
    expires_at: Option<Timestamp>,
    is_revoked: bool,
    is_active: bool,
    is_org_disabled: bool,
}

pub(super) enum Is {
    /// The person, and the device that their token will be bound to.
    Invited(UserId, Option<Device>),
    Principal(Principal),
}

impl Store {
    /// Finds the principal whose token `text` is. Revocation and expiry take effect at once; see `db/remembered.rs`.
    pub async fn authenticate(&self, text: &str) -> Result<Result<Principal, Refused>, Error> {
        let bearer = self.find_bearer(text).await?;
        let Some(bearer @ Bearer { is: Is::Principal(principal), .. }) = Option::as_ref(&bearer) else {
            return Ok(Err(Refused::Unknown));
        };
        let now = if bearer.expires_at.is_some() { self.db.now().await? } else { Timestamp::default() };
        Ok(bearer.refused(now).map_or_else(|| Ok(principal.clone()), Err))
    }

    pub(super) async fn find_bearer(&self, text: &str) -> Result<Arc<Option<Bearer>>, Error> {
        let keychain = &*self.keychain;
        let hash = keychain.token_hash(text);
        let bearer = self
            .db
            .read_remembered_of(
                concat!(
                    "/* every org: the token says which */ SELECT ",
                    protected_columns!(),
                    ", t.revoked_at, u.name, u.role, u.disabled_at, s.owner_id, s.ended_at, s.title, o.disabled_at, m.disabled_at, g.disabled_at ",
                    from_tokens!(),
                    " JOIN orgs g ON g.org_id = t.org_id WHERE t.hash = $1"
                ),
                &vals![hash.to_vec()],
                |rows| only(rows, |row| read_bearer(keychain, row)),
                |bearer| About {
                    org: bearer.as_ref().map(|bearer: &Bearer| bearer.org.clone()),
                    sessions: ReadSessions::Only(bearer.as_ref().and_then(Bearer::session)),
                },
            )
            .await?;
        // SECURITY: the index found the row by its hash. This comparison takes the same time wherever a difference lies.
        let is_same = Option::as_ref(&bearer).is_some_and(|bearer| bearer.hash.as_slice().ct_eq(&hash).into());
        Ok(if is_same { bearer } else { Arc::new(None) })
    }
}

impl Bearer {
    /// The session of an agent's token. The row of the token names it.
    fn session(&self) -> Option<SessionId> {
        match &self.is {
            Is::Principal(principal) => principal.session.clone(),
            Is::Invited(..) => None,
        }
    }

    pub(super) fn refused(&self, now: Timestamp) -> Option<Refused> {
        if self.is_org_disabled {
            return Some(Refused::OrgDisabled);
        }
        if self.is_revoked {
            return Some(Refused::Revoked);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Some(Refused::Expired);
        }
        (!self.is_active).then_some(Refused::Inactive)
    }
}

fn read_bearer(keychain: &Keychain, row: Row) -> Result<Bearer, Error> {
    let mut columns = Columns::of(row);
    let (protected, is_as_written) = Protected::read(&mut columns, keychain)?;
    if !is_as_written {
        return Err(Error::Corrupt { message: format!("token `{}` was changed in the database", protected.id) });
    }
    let revoked_at = columns.time_or_null()?;
    let user_name = columns.text_or_null()?;
    let role = columns.parsed_or_null(Role::parse)?;
    let disabled_at = columns.time_or_null()?;
    let session_owner = columns.id_or_null()?;
    let session_ended = columns.time_or_null()?;
    let session_title = columns.text_or_null()?;
    let owner_disabled_at = columns.time_or_null()?;
    let maker_disabled_at = columns.time_or_null()?;
    let org_disabled_at = columns.time_or_null()?;
    let (kind, scopes) = (protected.stands_for()?, protected.scopes());
    let Protected { org, id: token, name: token_name, device, hash, expires_at, .. } = protected;
    let principal = |id, name| Principal {
        org: org.clone(),
        id,
        name,
        role: None,
        owner: None,
        session: None,
        scopes: Vec::new(),
        token: Some(token.clone()),
        device: device.clone(),
    };
    let is = match kind {
        TokenKind::Invitation(user) => Is::Invited(user, device.clone()),
        TokenKind::User(user) => {
            let known = principal(PrincipalId::User(user.clone()), user_name.unwrap_or_default());
            Is::Principal(Principal { role, owner: Some(user), ..known })
        }
        TokenKind::Agent(session) => {
            let known = principal(PrincipalId::Agent(session.clone()), session_title.unwrap_or_default());
            Is::Principal(Principal { owner: session_owner, session: Some(session), ..known })
        }
        TokenKind::Service { made_by } => {
            Is::Principal(Principal { owner: made_by, scopes, ..principal(PrincipalId::Service(token.clone()), token_name) })
        }
    };
    let is_active = Lost::of(session_ended, [disabled_at, owner_disabled_at, maker_disabled_at]).is_none();
    let is_org_disabled = org_disabled_at.is_some();
    Ok(Bearer { org, token, hash, is, expires_at, is_revoked: revoked_at.is_some(), is_active, is_org_disabled })
}
