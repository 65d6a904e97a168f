//! Sign-ins at an OpenID Connect issuer. Whoever is sent there comes back with a `state`, which counts once, for a few minutes, in the browser
//! it was given to. Whom the issuer knows by one subject is one person, whose role follows what the issuer says at each sign-in, up to the one that
//! somebody here gave them.

use crate::db::{Columns, Row, Tx, only, vals};
use crate::keys::Keychain;
use crate::limits::{LOGGED_IN_SECONDS, LOGIN_SECONDS, SIGN_INS_OPEN_MAX};
use crate::tokens::{Maker, SIGN_IN_TOKEN, SignIn, TokenKind, draw_token, insert_token};
use crate::users::{insert_row, lock_owners, lock_user, set_role};
use crate::{Error, Store, seal};
use countersign_core::principal::Role;
use countersign_core::{Digest, OrgId, Secret, TokenId, UserId, random_bytes};
use serde_json::json;

/// How many characters of an id tell two people of the same name apart.
const TAIL_CHARS: usize = 8;

const SELECT_OPEN: &str = "SELECT redirect_uri, next_place FROM open_sign_ins
                           WHERE org_id = $1 AND state = $2 AND browser = $3 AND expires_at > $4";

/// The texts of a sign-in that was begun. None is stored: each follows from the state, under the server's key.
pub struct OpenSignIn {
    /// Comes back with the browser.
    pub state: Secret<String>,
    /// Comes back in the ID token.
    pub nonce: Secret<String>,
    /// The code is exchanged with it (PKCE).
    pub verifier: Secret<String>,
}

/// A sign-in of which somebody came back. It is used up.
pub struct TakenSignIn {
    pub nonce: Secret<String>,
    pub verifier: Secret<String>,
    pub redirect_uri: String,
    /// The page to go on with.
    pub next: Option<String>,
}

/// Whom an issuer has let in.
#[derive(Clone, Debug)]
pub struct LetIn {
    pub issuer: String,
    /// What the issuer calls the person. It never changes.
    pub subject: String,
    /// What a new person is called, where nobody else is called so.
    pub name: String,
    /// The highest role that the issuer's groups give.
    pub role: Role,
}

/// The result of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedIn {
    /// The token that the person acts with. Nobody has its text: they log in with it in the browser alone.
    Done(TokenId),
    /// The person was disabled, for good.
    Disabled,
    /// The issuer gives the last owner a lower role: nobody could administer the org.
    LastOwner,
}

/// What nobody changes in a row of `identities` without the master key: whom the issuer means.
struct Identity {
    org: OrgId,
    issuer: String,
    subject: Digest,
    user: UserId,
    from: i64,
}

impl Identity {
    fn mac(&self, keychain: &Keychain) -> blake3::Hash {
        let Self { org, issuer, subject, user, from } = self;
        keychain.row_mac(&json!(["identity", org, issuer, subject, user, from]).to_string())
    }
}

impl Store {
    /// Begins a sign-in in this browser. Beyond a number of open ones, the one that was begun first ends.
    pub async fn start_sign_in(&self, org: &OrgId, browser: &str, redirect_uri: &str, next: Option<&str>) -> Result<OpenSignIn, Error> {
        let open = self.sign_in_of(draw_token(&*self.random, "state"));
        let (state, browser) = (self.hashed(open.state.expose()), self.hashed(browser));
        let (org, redirect_uri, next) = (org.clone(), redirect_uri.to_owned(), next.map(str::to_owned));
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    tx.exec("DELETE FROM open_sign_ins WHERE org_id = $1 AND expires_at <= $2", &vals![org.as_str(), now]).await?;
                    tx.exec(
                        "DELETE FROM open_sign_ins WHERE org_id = $1 AND state NOT IN (
                           SELECT state FROM open_sign_ins WHERE org_id = $1 ORDER BY expires_at DESC, state LIMIT $2
                         )",
                        &vals![org.as_str(), SIGN_INS_OPEN_MAX - 1],
                    )
                    .await?;
                    tx.exec(
                        "INSERT INTO open_sign_ins (org_id, state, browser, redirect_uri, next_place, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
                        &vals![org.as_str(), state, browser, redirect_uri, next, now.plus_seconds(LOGIN_SECONDS)],
                    )
                    .await
                })
            })
            .await?;
        Ok(open)
    }

    /// Takes the sign-in that this `state` belongs to, once: whoever comes with it again, or in another browser, or too late, finds none.
    pub async fn take_sign_in(&self, org: &OrgId, state: &str, browser: &str) -> Result<Option<TakenSignIn>, Error> {
        let OpenSignIn { state, nonce, verifier } = self.sign_in_of(Secret::new(state.to_owned()));
        let (org, state, browser) = (org.clone(), self.hashed(state.expose()), self.hashed(browser));
        // Whoever makes a state up costs no write.
        let found = self.db.read(SELECT_OPEN, &vals![org.as_str(), state.clone(), browser.clone(), self.db.now().await?]).await?;
        if found.is_empty() {
            return Ok(None);
        }
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let rows = tx.query_locked(SELECT_OPEN, &vals![org.as_str(), state.clone(), browser, tx.now()]).await?;
                    let Some((redirect_uri, next)) = only(rows, read_places)? else {
                        return Ok(None);
                    };
                    tx.exec("DELETE FROM open_sign_ins WHERE org_id = $1 AND state = $2", &vals![org.as_str(), state]).await?;
                    Ok(Some(TakenSignIn { nonce, verifier, redirect_uri, next }))
                })
            })
            .await
    }

    /// Signs a person in. The first sign-in of a subject makes its person; each gives the person the role that it says, or the one that somebody
    /// here gave them where that is lower.
    pub async fn sign_in(&self, org: &OrgId, let_in: LetIn) -> Result<SignedIn, Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { sign_in(&store, tx, &org, let_in).await })).await
    }

    /// The texts that follow from a state.
    fn sign_in_of(&self, state: Secret<String>) -> OpenSignIn {
        let follows = |what: &str| {
            let text = Secret::new(format!("{what} {}", state.expose()));
            Secret::new(hex::encode(self.keychain.token_hash(text.expose())))
        };
        OpenSignIn { nonce: follows("nonce"), verifier: follows("verifier"), state }
    }

    fn hashed(&self, text: &str) -> Vec<u8> {
        self.keychain.token_hash(text).to_vec()
    }

    /// Stands for a subject: it may be the address of a person, which neither the database nor the log needs.
    fn subject_digest(&self, let_in: &LetIn) -> Digest {
        Digest::new(self.keychain.token_hash(&json!(["subject", let_in.issuer, let_in.subject]).to_string()))
    }
}

async fn sign_in(store: &Store, tx: &mut Tx, org: &OrgId, let_in: LetIn) -> Result<SignedIn, Error> {
    let subject = store.subject_digest(&let_in);
    let Identity { user, from, .. } = match find_identity(store, tx, org, &let_in.issuer, subject).await? {
        Some(known) => known,
        None => make_person(store, tx, org, &let_in, subject).await?,
    };
    let Some(before) = lock_user(tx, org, &user).await? else {
        return Err(Error::Corrupt { message: format!("user `{user}` signs in, and is not there") });
    };
    if before.disabled_at.is_some() {
        return Ok(SignedIn::Disabled);
    }
    let LetIn { issuer, role, .. } = let_in;
    // SECURITY: nobody gets a second vote, or comes back after they were disabled, by being somebody new at the issuer.
    let role = role.min(before.given_role);
    if role != Role::Owner && lock_owners(tx, org).await? == [user.clone()] {
        return Ok(SignedIn::LastOwner);
    }
    let maker = Maker { sign_in: Some(SignIn { issuer, subject, role, from }), ..Maker::default() };
    let (kind, text) = (TokenKind::User(user), draw_token(&*store.random, "user"));
    let token = insert_token(store, tx, org, kind, SIGN_IN_TOKEN, &[], Some(LOGGED_IN_SECONDS), text, maker).await?;
    if before.role != role {
        set_role(store, tx, org, &before, role, None).await?;
    }
    Ok(SignedIn::Done(token.id))
}

async fn find_identity(store: &Store, tx: &mut Tx, org: &OrgId, issuer: &str, subject: Digest) -> Result<Option<Identity>, Error> {
    let sql = "SELECT user_id, from_seq, mac FROM identities WHERE org_id = $1 AND issuer = $2 AND subject = $3";
    let rows = tx.query_locked(sql, &vals![org.as_str(), issuer, subject.to_string()]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        let (user, from) = (columns.id()?, columns.int()?);
        Ok((Identity { org: org.clone(), issuer: issuer.to_owned(), subject, user, from }, columns.bytes()?))
    };
    let Some((identity, mac)) = only(rows, read)? else {
        return Ok(None);
    };
    // SECURITY: this comparison takes the same time wherever a difference lies.
    if identity.mac(&store.keychain) != *mac {
        return Err(Error::Corrupt { message: format!("whom the issuer means by user `{}` was changed in the database", identity.user) });
    }
    Ok(Some(identity))
}

/// Makes the person whom the issuer names for the first time. The entry of the sign-in, which is written next, says so in the audit log.
async fn make_person(store: &Store, tx: &mut Tx, org: &OrgId, let_in: &LetIn, subject: Digest) -> Result<Identity, Error> {
    let user = UserId::new(tx.now(), random_bytes(&*store.random));
    let from = seal::size(tx, org).await? as i64;
    let mut name = let_in.name.clone();
    let taken = "SELECT id FROM users WHERE org_id = $1 AND name = $2";
    if !tx.query(taken, &vals![org.as_str(), name.as_str()]).await?.is_empty() {
        let id = user.as_str();
        name = format!("{name} {}", &id[id.len() - TAIL_CHARS..]);
    }
    insert_row(tx, org, &user, &name, let_in.role.min(Role::OF_GROUPS), Role::OF_GROUPS, from).await?;
    let identity = Identity { org: org.clone(), issuer: let_in.issuer.clone(), subject, user, from };
    let mac = identity.mac(&store.keychain).as_bytes().to_vec();
    tx.exec(
        "INSERT INTO identities (org_id, issuer, subject, user_id, from_seq, mac) VALUES ($1, $2, $3, $4, $5, $6)",
        &vals![org.as_str(), identity.issuer.as_str(), subject.to_string(), identity.user.as_str(), from, mac],
    )
    .await?;
    Ok(identity)
}

fn read_places(row: Row) -> Result<(String, Option<String>), Error> {
    let mut columns = Columns::of(row);
    Ok((columns.text()?, columns.text_or_null()?))
}
