//! Tokens. They are random, shown once, stored as a hash, revocable, and compared in constant time.

mod bearer;
pub(crate) mod kind;
pub(crate) mod make;
mod protected;
mod wishes;

pub use bearer::Refused;
pub use kind::TokenKind;
pub use make::NewToken;
pub(crate) use make::{Maker, SignIn, draw_token, insert_token};
pub(crate) use wishes::keep_wishes;

use self::bearer::{Bearer, Is};
use self::protected::{Protected, protected_columns};
use self::wishes::read_wishes;
use crate::db::{Columns, Row, Tx, only, vals};
use crate::keys::Keychain;
use crate::limits::INVITATION_SECONDS;
use crate::rule_log::{self, RuleEvent};
use crate::users::lock_owners;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::channel::SLACK_CONSENT_PREFIX;
use countersign_core::mcp::McpWishes;
use countersign_core::principal::{Device, Permission};
use countersign_core::{OrgId, Principal, PrincipalId, Timestamp, TokenId, UserId};
use receipt::body::IdentityChange;

/// What the token of a sign-in is called.
pub(crate) const SIGN_IN_TOKEN: &str = "sign-in";

/// Tokens joined with what they depend on: the user, the owner of the agent's session, and the person who made a service's token.
macro_rules! from_tokens {
    () => {
        "FROM tokens t
         LEFT JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id
         LEFT JOIN sessions s ON s.org_id = t.org_id AND s.id = t.session_id
         LEFT JOIN users o ON o.org_id = s.org_id AND o.id = s.owner_id
         LEFT JOIN users m ON m.org_id = t.org_id AND m.id = t.made_by"
    };
}
use from_tokens;

/// A token as it is listed, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub kind: TokenKind,
    pub name: String,
    pub scopes: Vec<Permission>,
    /// The device that it is bound to.
    pub device: Option<Device>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// Why the token does not work, whether or not it is revoked.
    pub lost: Option<Lost>,
    /// What its clients get over MCP.
    pub mcp: McpWishes,
}

impl Token {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.lost.is_none() && self.expires_at.is_none_or(|at| at > now)
    }
}

/// Something that a token depends on and that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The user of the token, or the person who answers for its agent or service, was disabled.
    Person,
    Session,
    /// Nothing is gone, but its row is not as it was written: somebody has changed the database.
    Changed,
}

impl Lost {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person_disabled",
            Self::Session => "session_ended",
            Self::Changed => "changed_in_database",
        }
    }

    fn of(session_ended: Option<Timestamp>, people_disabled: [Option<Timestamp>; 3]) -> Option<Self> {
        if people_disabled.iter().any(Option::is_some) {
            return Some(Self::Person);
        }
        session_ended.map(|_| Self::Session)
    }
}

/// The result of revoking a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The token as it is now.
    Done(Box<Token>),
    /// It was not revoked: no owner has another working token, so nobody could create a new one.
    LastOwner,
}

impl Store {
    /// Creates a token for the principal itself, or for a service. Only an invitation makes a token for another person. It is bound to this
    /// device, or else to that of the token that it is made with. `None` if that token was revoked meanwhile, or has expired.
    #[expect(clippy::too_many_arguments, reason = "each is a fact of one token")]
    pub async fn create_token(
        &self,
        by: &Principal,
        kind: TokenKind,
        name: &str,
        scopes: &[Permission],
        lifetime_seconds: Option<u64>,
        mcp: McpWishes,
        device: Option<Device>,
    ) -> Result<Option<NewToken>, Error> {
        let (store, by, name, scopes) = (self.clone(), by.clone(), name.to_owned(), scopes.to_vec());
        self.db
            .write(by.org.clone(), move |tx| {
                Box::pin(async move {
                    if let Some(with) = &by.token {
                        let live = "SELECT id FROM tokens WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL
                                    AND (expires_at IS NULL OR expires_at > $3)";
                        if tx.query(live, &vals![by.org.as_str(), with.as_str(), tx.now()]).await?.is_empty() {
                            return Ok(None);
                        }
                    }
                    let text = draw_token(&*store.random, kind.as_str());
                    let maker = Maker { by: Some(by.id), with: by.token, device: device.or(by.device), sign_in: None };
                    let token = insert_token(&store, tx, &by.org, kind, &name, &scopes, lifetime_seconds, text, maker).await?;
                    keep_wishes(tx, &by.org, &token.id, mcp).await?;
                    Ok(Some(token))
                })
            })
            .await
    }

    /// Invites a person to redeem a token of their own, which will be bound to this device. Their earlier invitations stop working. `None` if
    /// there is no such active person.
    pub async fn invite(&self, by: &Principal, user: &UserId, device: Option<Device>) -> Result<Option<NewToken>, Error> {
        let (store, by, user) = (self.clone(), by.clone(), user.clone());
        self.db
            .write(by.org.clone(), move |tx| {
                Box::pin(async move {
                    let active = "SELECT id FROM users WHERE org_id = $1 AND id = $2 AND disabled_at IS NULL";
                    if tx.query(active, &vals![by.org.as_str(), user.as_str()]).await?.is_empty() {
                        return Ok(None);
                    }
                    let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND user_id = $3 AND kind = 'invitation' AND revoked_at IS NULL";
                    tx.exec(sql, &vals![tx.now(), by.org.as_str(), user.as_str()]).await?;
                    let kind = TokenKind::Invitation(user);
                    let text = draw_token(&*store.random, kind.as_str());
                    let maker = Maker { by: Some(by.id), with: by.token, device, sign_in: None };
                    insert_token(&store, tx, &by.org, kind, "invitation", &[], Some(INVITATION_SECONDS), text, maker).await.map(Some)
                })
            })
            .await
    }

    /// Exchanges an invitation for a token of its person, once. Tokens that the person had end: if it was not they who redeemed it, they notice.
    pub async fn redeem(&self, text: &str, name: &str) -> Result<Result<(UserId, NewToken), Refused>, Error> {
        let bearer = self.find_bearer(text).await?;
        let (bearer, user, device) = match Option::as_ref(&bearer) {
            Some(bearer @ Bearer { is: Is::Invited(user, device), .. }) => (bearer, user.clone(), device.clone()),
            _ => return Ok(Err(Refused::Unknown)),
        };
        if let Some(refused) = bearer.refused(self.db.now().await?) {
            return Ok(Err(refused));
        }
        let (store, name, org, invitation) = (self.clone(), name.to_owned(), bearer.org.clone(), bearer.token.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    // Of two who redeem it at once, one finds it redeemed. It may also have expired just now.
                    let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND id = $3 AND revoked_at IS NULL AND expires_at > $1";
                    if tx.exec(sql, &vals![tx.now(), org.as_str(), invitation.as_str()]).await? == 0 {
                        return Ok(Err(Refused::Revoked));
                    }
                    end_tokens_of(&store, tx, &org, &user).await?;
                    let text = draw_token(&*store.random, "user");
                    let maker = Maker { by: None, with: Some(invitation), device, sign_in: None };
                    let token = insert_token(&store, tx, &org, TokenKind::User(user.clone()), &name, &[], None, text, maker).await?;
                    Ok(Ok((user, token)))
                })
            })
            .await
    }

    pub async fn find_token(&self, org: &OrgId, token: &TokenId) -> Result<Option<Token>, Error> {
        let rows = self.db.read(&format!("{SELECT_TOKEN} AND t.id = $2"), &vals![org.as_str(), token.as_str()]).await?;
        only(rows, |row| read_token(&self.keychain, row))
    }

    /// The newest valid token of the person with this name that links of theirs can stand on: none that they made to agree to something in Slack,
    /// and none of a device, because a link is opened anywhere. `None` if there is no such person, or they have none; also if a sign-in made them:
    /// their name is one that they may have chosen at the issuer, and proves no address.
    pub async fn find_token_of(&self, org: &OrgId, name: &str) -> Result<Option<TokenId>, Error> {
        let sql = "SELECT tokens.id FROM tokens JOIN users ON users.org_id = tokens.org_id AND users.id = tokens.user_id
                   WHERE tokens.org_id = $1 AND users.name = $2 AND users.disabled_at IS NULL AND tokens.kind = 'user'
                   AND tokens.revoked_at IS NULL AND (tokens.expires_at IS NULL OR tokens.expires_at > $3)
                   AND tokens.device IS NULL AND tokens.name NOT LIKE $4
                   AND users.id NOT IN (SELECT user_id FROM identities WHERE org_id = $1) ORDER BY tokens.id DESC LIMIT 1";
        let params = vals![org.as_str(), name, self.db.now().await?, format!("{SLACK_CONSENT_PREFIX}%")];
        only(self.db.read(sql, &params).await?, |row| Columns::of(row).id())
    }

    /// The newest working token with this name that a person has made for themselves; `person` is their id or their name.
    pub async fn find_token_named(&self, org: &OrgId, person: &str, name: &str) -> Result<Option<TokenId>, Error> {
        let sql = "SELECT tokens.id FROM tokens JOIN users ON users.org_id = tokens.org_id AND users.id = tokens.user_id
                   WHERE tokens.org_id = $1 AND (users.id = $2 OR users.name = $2) AND users.disabled_at IS NULL AND tokens.kind = 'user'
                   AND tokens.name = $3 AND tokens.revoked_at IS NULL AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
                   ORDER BY tokens.id DESC LIMIT 1";
        let params = vals![org.as_str(), person, name, self.db.now().await?];
        only(self.db.read(sql, &params).await?, |row| Columns::of(row).id())
    }

    pub async fn list_tokens(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Token>, Error> {
        let rows = self
            .db
            .read(
                &format!("{SELECT_TOKEN} AND t.id > $2 ORDER BY t.id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        page(rows, request.limit, |row| read_token(&self.keychain, row), |token| token.id.to_string())
    }

    /// Revokes a token. Revoking it twice changes nothing. `None` if there is no such token.
    pub async fn revoke_token(&self, org: &OrgId, token: &TokenId, by: &PrincipalId) -> Result<Option<Revoked>, Error> {
        let (store, owned_org, owned_token, by) = (self.clone(), org.clone(), token.clone(), by.clone());
        let is_last = self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                if owners_tokens(tx, &owned_org).await? == [owned_token.clone()] {
                    return Ok(true);
                }
                let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND id = $3 AND revoked_at IS NULL";
                if tx.exec(sql, &vals![tx.now(), owned_org.as_str(), owned_token.as_str()]).await? == 1 {
                    let told = RuleEvent { name: "token.revoked", key: owned_token.to_string() };
                    let change = IdentityChange::TokenRevoked { token: owned_token };
                    rule_log::record_identity(&store, tx, &owned_org, Some(by), change, told).await?;
                }
                Ok(false)
            })
        });
        if is_last.await? {
            return Ok(Some(Revoked::LastOwner));
        }
        Ok(self.find_token(org, token).await?.map(Box::new).map(Revoked::Done))
    }
}

async fn end_tokens_of(store: &Store, tx: &mut Tx, org: &OrgId, user: &UserId) -> Result<(), Error> {
    let sql = "SELECT id FROM tokens WHERE org_id = $1 AND user_id = $2 AND kind = 'user' AND revoked_at IS NULL ORDER BY id";
    for row in tx.query(sql, &vals![org.as_str(), user.as_str()]).await? {
        let token: TokenId = Columns::of(row).id()?;
        let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND id = $3";
        tx.exec(sql, &vals![tx.now(), org.as_str(), token.as_str()]).await?;
        let told = RuleEvent { name: "token.revoked", key: token.to_string() };
        rule_log::record_identity(store, tx, org, None, IdentityChange::TokenRevoked { token }, told).await?;
    }
    Ok(())
}

/// Every token that an owner can act with, but for those of sign-ins, which end by themselves: whether the issuer makes another is not ours to say.
/// The owners stay locked: if two tokens are revoked at once, the second write sees the first.
async fn owners_tokens(tx: &mut Tx, org: &OrgId) -> Result<Vec<TokenId>, Error> {
    let owners = lock_owners(tx, org).await?;
    let sql = "SELECT id, user_id FROM tokens WHERE org_id = $1 AND kind = 'user' AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > $2)
               AND NOT (name = $3 AND user_id IN (SELECT user_id FROM identities WHERE org_id = $1)) ORDER BY id";
    let mut tokens = Vec::new();
    for row in tx.query(sql, &vals![org.as_str(), tx.now(), SIGN_IN_TOKEN]).await? {
        let mut columns = Columns::of(row);
        let token = columns.id()?;
        if owners.contains(&columns.id()?) {
            tokens.push(token);
        }
    }
    Ok(tokens)
}

const SELECT_TOKEN: &str = concat!(
    "SELECT ",
    protected_columns!(),
    ", t.created_at, t.revoked_at, s.ended_at, u.disabled_at, o.disabled_at, m.disabled_at, t.mcp_tools, t.hold_seconds ",
    from_tokens!(),
    " WHERE t.org_id = $1"
);

fn read_token(keychain: &Keychain, row: Row) -> Result<Token, Error> {
    let mut columns = Columns::of(row);
    let (protected, is_as_written) = Protected::read(&mut columns, keychain)?;
    let (created_at, revoked_at) = (columns.time()?, columns.time_or_null()?);
    let lost = Lost::of(columns.time_or_null()?, [columns.time_or_null()?, columns.time_or_null()?, columns.time_or_null()?]);
    let lost = if is_as_written { lost } else { Some(Lost::Changed) };
    let mcp = read_wishes(&mut columns)?;
    let (kind, scopes) = (protected.stands_for()?, protected.scopes());
    Ok(Token {
        id: protected.id,
        kind,
        name: protected.name,
        scopes,
        device: protected.device,
        created_at,
        expires_at: protected.expires_at,
        revoked_at,
        lost,
        mcp,
    })
}
