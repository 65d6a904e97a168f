//! Tokens. They are random, shown once, stored as a hash, revocable, and compared in constant time.

use crate::db::{Columns, Row, Tx, only, vals};
use crate::keys::Keychain;
use crate::rules::{self, RuleEvent};
use crate::users::lock_owners;
use crate::{Error, Page, PageRequest, Store, page};
use base64::Engine as _;
use countersign_core::limits::INVITATION_SECONDS;
use countersign_core::principal::{Permission, Role};
use countersign_core::{OrgId, Principal, PrincipalId, Random, Secret, SessionId, Timestamp, TokenId, UserId, random_bytes};
use receipt::body::IdentityChange;
use serde_json::json;
use std::sync::Arc;
use subtle::ConstantTimeEq;

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

/// The principal that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    User(UserId),
    /// Nobody yet: the person becomes able to act by redeeming it, once.
    Invitation(UserId),
    /// An agent, in this session only.
    Agent(SessionId),
    /// A service. The person who made its token answers for it.
    Service {
        made_by: Option<UserId>,
    },
}

impl TokenKind {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Invitation(_) => "invitation",
            Self::Agent(_) => "agent",
            Self::Service { .. } => "service",
        }
    }
}

/// A token as it is listed, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub kind: TokenKind,
    pub name: String,
    pub scopes: Vec<Permission>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// Why the token does not work, whether or not it is revoked.
    pub lost: Option<Lost>,
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
    Done(Token),
    /// It was not revoked: no owner has another working token, so nobody could create a new one.
    LastOwner,
}

/// A new token. `text` is the only copy there will ever be.
#[derive(Debug)]
pub struct NewToken {
    pub id: TokenId,
    pub text: Secret<String>,
    pub expires_at: Option<Timestamp>,
}

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
struct Bearer {
    org: OrgId,
    token: TokenId,
    hash: Vec<u8>,
    is: Is,
    expires_at: Option<Timestamp>,
    is_revoked: bool,
    is_active: bool,
    is_org_disabled: bool,
}

enum Is {
    Invited(UserId),
    Principal(Principal),
}

impl Store {
    /// Creates a token for the principal itself, or for a service. Only an invitation makes a token for another person. `None` if the token
    /// that it is made with was revoked meanwhile, or has expired.
    pub async fn create_token(
        &self,
        by: &Principal,
        kind: TokenKind,
        name: &str,
        scopes: &[Permission],
        lifetime_seconds: Option<u64>,
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
                    let maker = Maker { by: Some(by.id), with: by.token };
                    insert_token(&store, tx, &by.org, kind, &name, &scopes, lifetime_seconds, text, maker).await.map(Some)
                })
            })
            .await
    }

    /// Invites a person to redeem a token of their own. Their earlier invitations stop working. `None` if there is no such active person.
    pub async fn invite(&self, by: &Principal, user: &UserId) -> Result<Option<NewToken>, Error> {
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
                    let maker = Maker { by: Some(by.id), with: by.token };
                    insert_token(&store, tx, &by.org, kind, "invitation", &[], Some(INVITATION_SECONDS), text, maker).await.map(Some)
                })
            })
            .await
    }

    /// Exchanges an invitation for a token of its person, once. Tokens that the person had end: if it was not they who redeemed it, they notice.
    pub async fn redeem(&self, text: &str, name: &str) -> Result<Result<(UserId, NewToken), Refused>, Error> {
        let bearer = self.find_bearer(text).await?;
        let (bearer, user) = match Option::as_ref(&bearer) {
            Some(bearer @ Bearer { is: Is::Invited(user), .. }) => (bearer, user.clone()),
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
                    let maker = Maker { by: None, with: Some(invitation) };
                    let token = insert_token(&store, tx, &org, TokenKind::User(user.clone()), &name, &[], None, text, maker).await?;
                    Ok(Ok((user, token)))
                })
            })
            .await
    }

    /// Finds the principal whose token `text` is. Revocation and expiry take effect at once; see `db/remembered.rs`.
    pub async fn authenticate(&self, text: &str) -> Result<Result<Principal, Refused>, Error> {
        let bearer = self.find_bearer(text).await?;
        let Some(bearer @ Bearer { is: Is::Principal(principal), .. }) = Option::as_ref(&bearer) else {
            return Ok(Err(Refused::Unknown));
        };
        let now = if bearer.expires_at.is_some() { self.db.now().await? } else { Timestamp::default() };
        Ok(bearer.refused(now).map_or_else(|| Ok(principal.clone()), Err))
    }

    async fn find_bearer(&self, text: &str) -> Result<Arc<Option<Bearer>>, Error> {
        let keychain = &*self.keychain;
        let hash = keychain.token_hash(text);
        let bearer = self
            .db
            .read_remembered_of(
                concat!(
                    "/* every org: the token says which */ SELECT t.org_id, t.id, t.kind, t.user_id, t.session_id, t.name, t.scopes, t.made_by, t.hash, t.expires_at,
                       t.from_seq, t.mac, t.revoked_at, u.name, u.role, u.disabled_at, s.owner_id, s.ended_at, s.title, o.disabled_at, m.disabled_at, g.disabled_at ",
                    from_tokens!(),
                    " JOIN orgs g ON g.org_id = t.org_id WHERE t.hash = $1"
                ),
                &vals![hash.to_vec()],
                |rows| only(rows, |row| read_bearer(keychain, row)),
                |bearer| bearer.as_ref().map(|bearer: &Bearer| bearer.org.clone()),
            )
            .await?;
        // SECURITY: the index found the row by its hash. This comparison takes the same time wherever a difference lies.
        let is_same = Option::as_ref(&bearer).is_some_and(|bearer| bearer.hash.as_slice().ct_eq(&hash).into());
        Ok(if is_same { bearer } else { Arc::new(None) })
    }

    pub async fn find_token(&self, org: &OrgId, token: &TokenId) -> Result<Option<Token>, Error> {
        let rows = self.db.read(&format!("{SELECT_TOKEN} AND t.id = $2"), &vals![org.as_str(), token.as_str()]).await?;
        only(rows, |row| read_token(&self.keychain, org, row))
    }

    pub async fn list_tokens(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Token>, Error> {
        let rows = self
            .db
            .read(
                &format!("{SELECT_TOKEN} AND t.id > $2 ORDER BY t.id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        page(rows, request.limit, |row| read_token(&self.keychain, org, row), |token| token.id.to_string())
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
                    rules::record_identity(&store, tx, &owned_org, Some(by), change, told).await?;
                }
                Ok(false)
            })
        });
        if is_last.await? {
            return Ok(Some(Revoked::LastOwner));
        }
        Ok(self.find_token(org, token).await?.map(Revoked::Done))
    }
}

impl Bearer {
    fn refused(&self, now: Timestamp) -> Option<Refused> {
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

async fn end_tokens_of(store: &Store, tx: &mut Tx, org: &OrgId, user: &UserId) -> Result<(), Error> {
    let sql = "SELECT id FROM tokens WHERE org_id = $1 AND user_id = $2 AND kind = 'user' AND revoked_at IS NULL ORDER BY id";
    for row in tx.query(sql, &vals![org.as_str(), user.as_str()]).await? {
        let token: TokenId = Columns::of(row).id()?;
        let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND id = $3";
        tx.exec(sql, &vals![tx.now(), org.as_str(), token.as_str()]).await?;
        let told = RuleEvent { name: "token.revoked", key: token.to_string() };
        rules::record_identity(store, tx, org, None, IdentityChange::TokenRevoked { token }, told).await?;
    }
    Ok(())
}

/// Every token that an owner can act with. The owners stay locked: if two tokens are revoked at once, the second write sees the first.
async fn owners_tokens(tx: &mut Tx, org: &OrgId) -> Result<Vec<TokenId>, Error> {
    let owners = lock_owners(tx, org).await?;
    let sql = "SELECT id, user_id FROM tokens WHERE org_id = $1 AND kind = 'user' AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > $2) ORDER BY id";
    let mut tokens = Vec::new();
    for row in tx.query(sql, &vals![org.as_str(), tx.now()]).await? {
        let mut columns = Columns::of(row);
        let token = columns.id()?;
        if owners.contains(&columns.id()?) {
            tokens.push(token);
        }
    }
    Ok(tokens)
}

fn read_bearer(keychain: &Keychain, row: Row) -> Result<Bearer, Error> {
    let mut columns = Columns::of(row);
    let org: OrgId = columns.id()?;
    let token: TokenId = columns.id()?;
    let kind = columns.text()?;
    let user: Option<UserId> = columns.id_or_null()?;
    let session: Option<SessionId> = columns.id_or_null()?;
    let token_name = columns.text()?;
    let scopes = columns.text()?;
    let made_by: Option<UserId> = columns.id_or_null()?;
    let hash = columns.bytes()?;
    let expires_at = columns.time_or_null()?;
    let from = columns.int()?;
    let mac = columns.bytes()?;
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
    let protected = Protected {
        org: &org,
        id: &token,
        kind: &kind,
        user: user.as_ref(),
        session: session.as_ref(),
        scopes: &scopes,
        made_by: made_by.as_ref(),
        hash: &hash,
        expires_at,
        from,
    };
    // SECURITY: this comparison takes the same time wherever a difference lies.
    if protected.mac(keychain) != *mac {
        return Err(Error::Corrupt { message: format!("token `{token}` was changed in the database") });
    }
    let is = match (kind.as_str(), user, session) {
        ("invitation", Some(user), None) => Is::Invited(user),
        ("user", Some(user), None) => Is::Principal(Principal {
            org: org.clone(),
            id: PrincipalId::User(user.clone()),
            name: user_name.unwrap_or_default(),
            role,
            owner: Some(user),
            session: None,
            scopes: Vec::new(),
            token: Some(token.clone()),
        }),
        ("agent", None, Some(session)) => Is::Principal(Principal {
            org: org.clone(),
            id: PrincipalId::Agent(session.clone()),
            name: session_title.unwrap_or_default(),
            role: None,
            owner: session_owner,
            session: Some(session),
            scopes: Vec::new(),
            token: Some(token.clone()),
        }),
        ("service", None, None) => Is::Principal(Principal {
            org: org.clone(),
            id: PrincipalId::Service(token.clone()),
            name: token_name,
            role: None,
            owner: made_by,
            session: None,
            scopes: parse_scopes(&scopes),
            token: Some(token.clone()),
        }),
        _ => return Err(Error::Corrupt { message: format!("token `{token}` stands for nobody") }),
    };
    let is_active = Lost::of(session_ended, [disabled_at, owner_disabled_at, maker_disabled_at]).is_none();
    let is_org_disabled = org_disabled_at.is_some();
    Ok(Bearer { org, token, hash, is, expires_at, is_revoked: revoked_at.is_some(), is_active, is_org_disabled })
}

/// What nobody changes in a token's row without the master key. Without this, whoever has the database could give their own token the row
/// of somebody else's, and the log would show nothing.
struct Protected<'a> {
    org: &'a OrgId,
    id: &'a TokenId,
    kind: &'a str,
    user: Option<&'a UserId>,
    session: Option<&'a SessionId>,
    scopes: &'a str,
    made_by: Option<&'a UserId>,
    hash: &'a [u8],
    expires_at: Option<Timestamp>,
    from: i64,
}

impl Protected<'_> {
    fn mac(&self, keychain: &Keychain) -> blake3::Hash {
        let Self { org, id, kind, user, session, scopes, made_by, hash, expires_at, from } = self;
        keychain.row_mac(&json!([org, id, kind, user, session, scopes, made_by, hash, expires_at, from]).to_string())
    }
}

/// Draws 256 random bits behind a prefix that names the kind of token, so that a leaked token can be recognised.
pub(crate) fn draw_token(random: &dyn Random, kind: &str) -> Secret<String> {
    let secret = Secret::new(random_bytes::<32>(random));
    Secret::new(format!("cs_{kind}_{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret.expose())))
}

/// Who makes a token, and with which token or invitation. Both are absent for the first owner of an org.
#[derive(Default)]
pub(crate) struct Maker {
    pub(crate) by: Option<PrincipalId>,
    pub(crate) with: Option<TokenId>,
}

#[expect(clippy::too_many_arguments, reason = "a token's row has this many independent columns, and few callers")]
pub(crate) async fn insert_token(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    kind: TokenKind,
    name: &str,
    scopes: &[Permission],
    lifetime_seconds: Option<u64>,
    text: Secret<String>,
    maker: Maker,
) -> Result<NewToken, Error> {
    let now = tx.now();
    let id = TokenId::new(now, random_bytes(&*store.random));
    let (user, session, made_by) = match &kind {
        TokenKind::User(user) | TokenKind::Invitation(user) => (Some(user), None, None),
        TokenKind::Agent(session) => (None, Some(session), None),
        TokenKind::Service { made_by } => (None, None, made_by.as_ref()),
    };
    let expires_at = lifetime_seconds.map(|seconds| now.plus_seconds(seconds));
    let from = record_token(store, tx, org, &id, &kind, scopes, expires_at, maker).await? as i64;
    let scopes = &scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ");
    let hash = &store.keychain.token_hash(text.expose());
    let protected = Protected { org, id: &id, kind: kind.as_str(), user, session, scopes, made_by, hash, expires_at, from };
    tx.exec(
        "INSERT INTO tokens (org_id, id, kind, user_id, session_id, name, scopes, made_by, hash, created_at, expires_at, from_seq, mac)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        &vals![
            org.as_str(),
            id.as_str(),
            kind.as_str(),
            user.map(UserId::as_str),
            session.map(SessionId::as_str),
            name,
            scopes.as_str(),
            made_by.map(UserId::as_str),
            hash.to_vec(),
            now,
            expires_at,
            from,
            protected.mac(&store.keychain).as_bytes().to_vec()
        ],
    )
    .await?;
    Ok(NewToken { id, text, expires_at })
}

/// Signs the new token into the audit log. Returns the position from which its bearer is known to be its person: a token that people make
/// for themselves counts from when the token that they made it with does.
#[expect(clippy::too_many_arguments, reason = "what the entry holds")]
async fn record_token(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    token: &TokenId,
    kind: &TokenKind,
    scopes: &[Permission],
    expires_at: Option<Timestamp>,
    maker: Maker,
) -> Result<u64, Error> {
    let Maker { by, with } = maker;
    let is_redeemed = by.is_none() && with.is_some();
    let (name, change) = match (kind, with.clone()) {
        (TokenKind::Invitation(user), _) => {
            let (invitation, user, expires_at) = (token.clone(), user.clone(), expires_at.unwrap_or_default());
            ("user.invited", IdentityChange::Invited { invitation, user, expires_at })
        }
        (TokenKind::User(user), Some(invitation)) if is_redeemed => {
            let (token, user) = (token.clone(), user.clone());
            ("invitation.redeemed", IdentityChange::InvitationRedeemed { invitation, token, user })
        }
        (TokenKind::User(_) | TokenKind::Agent(_) | TokenKind::Service { .. }, with) => {
            let holder = match kind {
                TokenKind::User(user) | TokenKind::Invitation(user) => PrincipalId::User(user.clone()),
                TokenKind::Agent(session) => PrincipalId::Agent(session.clone()),
                TokenKind::Service { .. } => PrincipalId::Service(token.clone()),
            };
            ("token.created", IdentityChange::TokenMade { token: token.clone(), holder, scopes: scopes.to_vec(), with, expires_at })
        }
    };
    let told = RuleEvent { name, key: token.to_string() };
    let seq = rules::record_identity(store, tx, org, by, change, told).await?;
    let (TokenKind::User(_), Some(with), false) = (kind, with, is_redeemed) else { return Ok(seq) };
    let rows = tx.query("SELECT from_seq FROM tokens WHERE org_id = $1 AND id = $2", &vals![org.as_str(), with.as_str()]).await?;
    only(rows, |row| Columns::of(row).int()).map(|from| from.map_or(seq, |from| from as u64))
}

const SELECT_TOKEN: &str = concat!(
    "SELECT t.id, t.kind, t.user_id, t.session_id, t.made_by, t.name, t.scopes, t.created_at, t.expires_at, t.revoked_at,
       s.ended_at, u.disabled_at, o.disabled_at, m.disabled_at, t.hash, t.from_seq, t.mac ",
    from_tokens!(),
    " WHERE t.org_id = $1"
);

fn read_token(keychain: &Keychain, org: &OrgId, row: Row) -> Result<Token, Error> {
    let mut columns = Columns::of(row);
    let id: TokenId = columns.id()?;
    let kind = columns.text()?;
    let user: Option<UserId> = columns.id_or_null()?;
    let session: Option<SessionId> = columns.id_or_null()?;
    let made_by: Option<UserId> = columns.id_or_null()?;
    let (name, scopes) = (columns.text()?, columns.text()?);
    let (created_at, expires_at, revoked_at) = (columns.time()?, columns.time_or_null()?, columns.time_or_null()?);
    let lost = Lost::of(columns.time_or_null()?, [columns.time_or_null()?, columns.time_or_null()?, columns.time_or_null()?]);
    let (hash, from, mac) = (columns.bytes()?, columns.int()?, columns.bytes()?);
    let protected = Protected {
        org,
        id: &id,
        kind: &kind,
        user: user.as_ref(),
        session: session.as_ref(),
        scopes: &scopes,
        made_by: made_by.as_ref(),
        hash: &hash,
        expires_at,
        from,
    };
    let lost = if protected.mac(keychain) == *mac { lost } else { Some(Lost::Changed) };
    let kind = match (kind.as_str(), user, session) {
        ("user", Some(user), None) => TokenKind::User(user),
        ("invitation", Some(user), None) => TokenKind::Invitation(user),
        ("agent", None, Some(session)) => TokenKind::Agent(session),
        ("service", None, None) => TokenKind::Service { made_by },
        _ => return Err(Error::Corrupt { message: format!("token `{id}` stands for nobody") }),
    };
    Ok(Token { id, kind, name, scopes: parse_scopes(&scopes), created_at, expires_at, revoked_at, lost })
}

fn parse_scopes(text: &str) -> Vec<Permission> {
    text.split(' ').filter_map(Permission::parse).collect()
}
