//! Tokens. They are random, shown once, stored as a hash, revocable, and compared in constant time.

use crate::db::{Columns, Row, Tx, only, vals};
use crate::users::lock_owners;
use crate::{Error, Page, PageRequest, Store, page};
use base64::Engine as _;
use countersign_core::principal::{Permission, Role};
use countersign_core::{OrgId, Principal, PrincipalId, Random, Secret, SessionId, Timestamp, TokenId, UserId, random_bytes};
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

/// Something that a token depends on and that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The user of the token, or the person who answers for its agent or service, was disabled.
    Person,
    Session,
}

impl Lost {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person_disabled",
            Self::Session => "session_ended",
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
    hash: Vec<u8>,
    principal: Principal,
    expires_at: Option<Timestamp>,
    is_revoked: bool,
    is_active: bool,
    is_org_disabled: bool,
}

impl Store {
    pub async fn create_token(
        &self,
        org: &OrgId,
        kind: TokenKind,
        name: &str,
        scopes: &[Permission],
        lifetime_seconds: Option<u64>,
    ) -> Result<NewToken, Error> {
        let (store, org, name, scopes) = (self.clone(), org.clone(), name.to_owned(), scopes.to_vec());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let text = draw_token(&*store.random, kind.as_str());
                    insert_token(&store, tx, &org, kind, &name, &scopes, lifetime_seconds, text).await
                })
            })
            .await
    }

    /// Finds the principal whose token `text` is. Revocation and expiry take effect at once; see `db/remembered.rs`.
    pub async fn authenticate(&self, text: &str) -> Result<Result<Principal, Refused>, Error> {
        let hash = self.keychain.master().token_hash(text);
        let bearer = self
            .db
            .read_remembered_of(
                concat!(
                    "/* every org: the token says which */ SELECT t.org_id, t.id, t.kind, t.user_id, t.session_id, t.name, t.scopes, t.made_by, t.hash, t.expires_at,
                       t.revoked_at, u.name, u.role, u.disabled_at, s.owner_id, s.ended_at, s.title, o.disabled_at, m.disabled_at, g.disabled_at ",
                    from_tokens!(),
                    " JOIN orgs g ON g.org_id = t.org_id WHERE t.hash = $1"
                ),
                &vals![hash.to_vec()],
                |rows| only(rows, read_bearer),
                |bearer| bearer.as_ref().map(|bearer: &Bearer| bearer.principal.org.clone()),
            )
            .await?;
        // SECURITY: the index found the row by its hash. This comparison takes the same time wherever a difference lies.
        let Some(bearer) = Option::as_ref(&bearer).filter(|bearer| bearer.hash.as_slice().ct_eq(&hash).into()) else {
            return Ok(Err(Refused::Unknown));
        };
        if bearer.is_org_disabled {
            return Ok(Err(Refused::OrgDisabled));
        }
        if bearer.is_revoked {
            return Ok(Err(Refused::Revoked));
        }
        if let Some(expires_at) = bearer.expires_at
            && expires_at <= self.db.now().await?
        {
            return Ok(Err(Refused::Expired));
        }
        if !bearer.is_active {
            return Ok(Err(Refused::Inactive));
        }
        Ok(Ok(bearer.principal.clone()))
    }

    pub async fn find_token(&self, org: &OrgId, token: &TokenId) -> Result<Option<Token>, Error> {
        let rows = self.db.read(&format!("{SELECT_TOKEN} AND t.id = $2"), &vals![org.as_str(), token.as_str()]).await?;
        only(rows, read_token)
    }

    pub async fn list_tokens(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Token>, Error> {
        let rows = self
            .db
            .read(
                &format!("{SELECT_TOKEN} AND t.id > $2 ORDER BY t.id LIMIT $3"),
                &vals![org.as_str(), request.after.as_deref().unwrap_or_default(), i64::from(request.limit) + 1],
            )
            .await?;
        page(rows, request.limit, read_token, |token| token.id.to_string())
    }

    /// Revokes a token. Revoking it twice changes nothing. `None` if there is no such token.
    pub async fn revoke_token(&self, org: &OrgId, token: &TokenId) -> Result<Option<Revoked>, Error> {
        let (owned_org, owned_token) = (org.clone(), token.clone());
        let is_last = self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                if owners_tokens(tx, &owned_org).await? == [owned_token.clone()] {
                    return Ok(true);
                }
                let sql = "UPDATE tokens SET revoked_at = $1 WHERE org_id = $2 AND id = $3 AND revoked_at IS NULL";
                tx.exec(sql, &vals![tx.now(), owned_org.as_str(), owned_token.as_str()]).await?;
                Ok(false)
            })
        });
        if is_last.await? {
            return Ok(Some(Revoked::LastOwner));
        }
        Ok(self.find_token(org, token).await?.map(Revoked::Done))
    }
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

fn read_bearer(row: Row) -> Result<Bearer, Error> {
    let mut columns = Columns::of(row);
    let org = columns.id()?;
    let token: TokenId = columns.id()?;
    let kind = columns.text()?;
    let user: Option<UserId> = columns.id_or_null()?;
    let session: Option<SessionId> = columns.id_or_null()?;
    let token_name = columns.text()?;
    let scopes = parse_scopes(&columns.text()?);
    let made_by = columns.id_or_null()?;
    let hash = columns.bytes()?;
    let expires_at = columns.time_or_null()?;
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
    let principal = match (kind.as_str(), user, session) {
        ("user", Some(user), None) => Principal {
            org,
            id: PrincipalId::User(user.clone()),
            name: user_name.unwrap_or_default(),
            role,
            owner: Some(user),
            session: None,
            scopes: Vec::new(),
        },
        ("agent", None, Some(session)) => Principal {
            org,
            id: PrincipalId::Agent(session.clone()),
            name: session_title.unwrap_or_default(),
            role: None,
            owner: session_owner,
            session: Some(session),
            scopes: Vec::new(),
        },
        ("service", None, None) => {
            Principal { org, id: PrincipalId::Service(token), name: token_name, role: None, owner: made_by, session: None, scopes }
        }
        _ => return Err(Error::Corrupt { message: format!("token `{token}` stands for nobody") }),
    };
    let is_active = Lost::of(session_ended, [disabled_at, owner_disabled_at, maker_disabled_at]).is_none();
    let is_org_disabled = org_disabled_at.is_some();
    Ok(Bearer { hash, principal, expires_at, is_revoked: revoked_at.is_some(), is_active, is_org_disabled })
}

/// Draws 256 random bits behind a prefix that names the kind of token, so that a leaked token can be recognised.
pub(crate) fn draw_token(random: &dyn Random, kind: &str) -> Secret<String> {
    let secret = Secret::new(random_bytes::<32>(random));
    Secret::new(format!("cs_{kind}_{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret.expose())))
}

#[expect(clippy::too_many_arguments, reason = "a token's row has this many independent columns, and two callers")]
pub(crate) async fn insert_token(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    kind: TokenKind,
    name: &str,
    scopes: &[Permission],
    lifetime_seconds: Option<u64>,
    text: Secret<String>,
) -> Result<NewToken, Error> {
    let now = tx.now();
    let id = TokenId::new(now, random_bytes(&*store.random));
    let (user, session) = match &kind {
        TokenKind::User(user) => (Some(user.as_str()), None),
        TokenKind::Agent(session) => (None, Some(session.as_str())),
        TokenKind::Service { .. } => (None, None),
    };
    let made_by = match &kind {
        TokenKind::Service { made_by } => made_by.as_ref().map(UserId::as_str),
        TokenKind::User(_) | TokenKind::Agent(_) => None,
    };
    let scopes = scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ");
    tx.exec(
        "INSERT INTO tokens (org_id, id, kind, user_id, session_id, name, scopes, made_by, hash, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &vals![
            org.as_str(),
            id.as_str(),
            kind.as_str(),
            user,
            session,
            name,
            scopes,
            made_by,
            store.keychain.master().token_hash(text.expose()).to_vec(),
            now,
            lifetime_seconds.map(|seconds| now.plus_seconds(seconds))
        ],
    )
    .await?;
    Ok(NewToken { id, text })
}

const SELECT_TOKEN: &str = concat!(
    "SELECT t.id, t.kind, t.user_id, t.session_id, t.made_by, t.name, t.scopes, t.created_at, t.expires_at, t.revoked_at,
       s.ended_at, u.disabled_at, o.disabled_at, m.disabled_at ",
    from_tokens!(),
    " WHERE t.org_id = $1"
);

fn read_token(row: Row) -> Result<Token, Error> {
    let mut columns = Columns::of(row);
    let id = columns.id()?;
    let kind = columns.text()?;
    let user: Option<UserId> = columns.id_or_null()?;
    let session: Option<SessionId> = columns.id_or_null()?;
    let made_by = columns.id_or_null()?;
    let kind = match (kind.as_str(), user, session) {
        ("user", Some(user), None) => TokenKind::User(user),
        ("agent", None, Some(session)) => TokenKind::Agent(session),
        ("service", None, None) => TokenKind::Service { made_by },
        _ => return Err(Error::Corrupt { message: format!("token `{id}` stands for nobody") }),
    };
    Ok(Token {
        id,
        kind,
        name: columns.text()?,
        scopes: parse_scopes(&columns.text()?),
        created_at: columns.time()?,
        expires_at: columns.time_or_null()?,
        revoked_at: columns.time_or_null()?,
        lost: Lost::of(columns.time_or_null()?, [columns.time_or_null()?, columns.time_or_null()?, columns.time_or_null()?]),
    })
}

fn parse_scopes(text: &str) -> Vec<Permission> {
    text.split(' ').filter_map(Permission::parse).collect()
}
