//! What nobody changes in a token's row without the master key. Without this, whoever has the database could give their own token the row of
//! somebody else's, and the log would show nothing.

use super::kind::TokenKind;
use crate::Error;
use crate::db::Columns;
use crate::keys::Keychain;
use countersign_core::principal::{Device, Permission};
use countersign_core::{OrgId, SessionId, Timestamp, TokenId, UserId};
use serde_json::json;

/// The columns that `Protected::read` reads.
macro_rules! protected_columns {
    () => {
        "t.org_id, t.id, t.kind, t.user_id, t.session_id, t.name, t.scopes, t.made_by, t.device, t.hash, t.expires_at, t.from_seq, t.mac"
    };
}
pub(super) use protected_columns;

pub(super) struct Protected {
    pub(super) org: OrgId,
    pub(super) id: TokenId,
    pub(super) kind: String,
    pub(super) user: Option<UserId>,
    pub(super) session: Option<SessionId>,
    /// It says what a token is for, such as which user of Slack it stands for.
    pub(super) name: String,
    pub(super) scopes: String,
    pub(super) made_by: Option<UserId>,
    pub(super) device: Option<Device>,
    pub(super) hash: Vec<u8>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) from: i64,
}

impl Protected {
    /// Reads the columns, and whether they are as they were written.
    pub(super) fn read(columns: &mut Columns, keychain: &Keychain) -> Result<(Self, bool), Error> {
        let protected = Self {
            org: columns.id()?,
            id: columns.id()?,
            kind: columns.text()?,
            user: columns.id_or_null()?,
            session: columns.id_or_null()?,
            name: columns.text()?,
            scopes: columns.text()?,
            made_by: columns.id_or_null()?,
            device: columns.parsed_or_null(|text| serde_json::from_str(text).ok())?,
            hash: columns.bytes()?,
            expires_at: columns.time_or_null()?,
            from: columns.int()?,
        };
        // SECURITY: this comparison takes the same time wherever a difference lies.
        let is_as_written = protected.mac(keychain) == *columns.bytes()?;
        Ok((protected, is_as_written))
    }

    pub(super) fn mac(&self, keychain: &Keychain) -> blake3::Hash {
        let Self { org, id, kind, user, session, name, scopes, made_by, device, hash, expires_at, from } = self;
        keychain.row_mac(&json!([org, id, kind, user, session, name, scopes, made_by, device, hash, expires_at, from]).to_string())
    }

    pub(super) fn stands_for(&self) -> Result<TokenKind, Error> {
        match (self.kind.as_str(), &self.user, &self.session) {
            ("user", Some(user), None) => Ok(TokenKind::User(user.clone())),
            ("invitation", Some(user), None) => Ok(TokenKind::Invitation(user.clone())),
            ("agent", None, Some(session)) => Ok(TokenKind::Agent(session.clone())),
            ("service", None, None) => Ok(TokenKind::Service { made_by: self.made_by.clone() }),
            _ => Err(Error::Corrupt { message: format!("token `{}` stands for nobody", self.id) }),
        }
    }

    pub(super) fn scopes(&self) -> Vec<Permission> {
        self.scopes.split(' ').filter_map(Permission::parse).collect()
    }
}
