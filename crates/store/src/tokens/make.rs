//! Makes tokens. Each is signed into the audit log before anybody has its text.

use super::kind::TokenKind;
use super::protected::Protected;
use crate::db::{Columns, Tx, only, to_json, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use base64::Engine as _;
use countersign_core::principal::{Device, Permission, Role};
use countersign_core::{Digest, OrgId, PrincipalId, Random, Secret, SessionId, Timestamp, TokenId, UserId, random_bytes};
use receipt::body::IdentityChange;

/// A new token. `text` is the only copy there will ever be.
#[derive(Debug)]
pub struct NewToken {
    pub id: TokenId,
    pub text: Secret<String>,
    pub expires_at: Option<Timestamp>,
}

/// Draws 256 random bits behind a prefix that names the kind of token, so that a leaked token can be recognised.
pub(crate) fn draw_token(random: &dyn Random, kind: &str) -> Secret<String> {
    let secret = Secret::new(random_bytes::<32>(random));
    Secret::new(format!("cs_{kind}_{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret.expose())))
}

/// Who makes a token, with which token or invitation, for which device, or by which sign-in. All are absent for the first owner of an org.
#[derive(Default)]
pub(crate) struct Maker {
    pub(crate) by: Option<PrincipalId>,
    pub(crate) with: Option<TokenId>,
    pub(crate) device: Option<Device>,
    pub(crate) sign_in: Option<SignIn>,
}

/// What an issuer says of the person who signs in.
pub(crate) struct SignIn {
    pub(crate) issuer: String,
    pub(crate) subject: Digest,
    pub(crate) role: Role,
    /// The position of the person's first sign-in.
    pub(crate) from: i64,
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
    let device = maker.device.clone();
    let from = record_token(store, tx, org, &id, &kind, scopes, expires_at, maker).await? as i64;
    let protected = Protected {
        org: org.clone(),
        id: id.clone(),
        kind: kind.as_str().to_owned(),
        user: user.cloned(),
        session: session.cloned(),
        name: name.to_owned(),
        scopes: scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
        made_by: made_by.cloned(),
        device,
        hash: store.keychain.token_hash(text.expose()).to_vec(),
        expires_at,
        from,
    };
    let mac = protected.mac(&store.keychain).as_bytes().to_vec();
    tx.exec(
        "INSERT INTO tokens (org_id, id, kind, user_id, session_id, name, scopes, made_by, device, hash, created_at, expires_at, from_seq, mac)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        &vals![
            org.as_str(),
            id.as_str(),
            kind.as_str(),
            user.map(UserId::as_str),
            session.map(SessionId::as_str),
            name,
            protected.scopes,
            made_by.map(UserId::as_str),
            protected.device.as_ref().map(to_json).transpose()?,
            protected.hash,
            now,
            expires_at,
            from,
            mac
        ],
    )
    .await?;
    Ok(NewToken { id, text, expires_at })
}

/// Signs the new token into the audit log. Returns the position from which its bearer is known to be its person: a token that people make
/// for themselves counts from when the token that they made it with does, and one that they sign in with from their first sign-in.
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
    let Maker { by, with, device, sign_in } = maker;
    if let (TokenKind::User(user), Some(SignIn { issuer, subject, role, from })) = (kind, sign_in) {
        let (user, token, expires_at) = (user.clone(), token.clone(), expires_at.unwrap_or_default());
        let told = RuleEvent { name: "user.signed_in", key: user.to_string() };
        let change = IdentityChange::SignedIn { user, token, role, issuer, subject, expires_at };
        rule_log::record_identity(store, tx, org, by, change, told).await?;
        return Ok(from as u64);
    }
    let is_redeemed = by.is_none() && with.is_some();
    let (name, change) = match (kind, with.clone()) {
        (TokenKind::Invitation(user), _) => {
            let (invitation, user, expires_at) = (token.clone(), user.clone(), expires_at.unwrap_or_default());
            ("user.invited", IdentityChange::Invited { invitation, user, expires_at, device })
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
            ("token.created", IdentityChange::TokenMade { token: token.clone(), holder, scopes: scopes.to_vec(), with, expires_at, device })
        }
    };
    let told = RuleEvent { name, key: token.to_string() };
    let seq = rule_log::record_identity(store, tx, org, by, change, told).await?;
    let (TokenKind::User(_), Some(with), false) = (kind, with, is_redeemed) else { return Ok(seq) };
    let rows = tx.query("SELECT from_seq FROM tokens WHERE org_id = $1 AND id = $2", &vals![org.as_str(), with.as_str()]).await?;
    only(rows, |row| Columns::of(row).int()).map(|from| from.map_or(seq, |from| from as u64))
}
