//! The part common to all changes of rules: each gets a version that orders it among all others, an entry in the audit log, and an event.

use crate::db::Tx;
use crate::events::{tell, tell_in};
use crate::{Error, Store, seal};
use countersign_core::{OrgId, PrincipalId, SpaceId};
use receipt::body::{Body, IdentityBody, IdentityChange, RuleBody, RuleChange};
use receipt::entry::Kind;

/// The event of a rule change.
pub(crate) struct RuleEvent {
    pub(crate) name: &'static str,
    /// Events with the same key are delivered in order.
    pub(crate) key: String,
}

/// Signs a rule change into the audit log and publishes its event. The change itself must be part of the same write.
pub(crate) async fn record(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    by: Option<PrincipalId>,
    change: RuleChange,
    told: RuleEvent,
) -> Result<i64, Error> {
    let version = seal::next_rules_version(tx, org).await?;
    sign(store, tx, org, Kind::Rule, version, &RuleBody { by, change, version }, told).await?;
    Ok(version)
}

/// Like `record`, for a change of something in a space: its event belongs to that space.
pub(crate) async fn record_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    space: &SpaceId,
    by: Option<PrincipalId>,
    change: RuleChange,
    told: RuleEvent,
) -> Result<(), Error> {
    let version = seal::next_rules_version(tx, org).await?;
    let body = append(tx, org, Kind::Rule, version, &RuleBody { by, change, version }).await?;
    tell_in(store, tx, org, space, told.name, told.key, body).await
}

/// Signs once more what is in force. Nothing has changed, so no event tells of it.
pub(crate) async fn repeat(tx: &mut Tx, org: &OrgId, change: RuleChange) -> Result<(), Error> {
    let version = seal::next_rules_version(tx, org).await?;
    append(tx, org, Kind::Rule, version, &RuleBody { by: None, change, version }).await.map(|_| ())
}

/// Signs a change of who may act into the audit log and publishes its event. Unlike a rule it has no version: no decision depends on it.
/// Returns its position.
pub(crate) async fn record_identity(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    by: Option<PrincipalId>,
    change: IdentityChange,
    told: RuleEvent,
) -> Result<u64, Error> {
    let body = IdentityBody { by, change }.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let id = format!("identity_{}", seal::size(tx, org).await?);
    let seq = seal::append(tx, org, seal::Draft { kind: Kind::Identity, id: &id, invocation: None, body: &body }).await?;
    tell(store, tx, org, told.name, told.key, body).await?;
    Ok(seq)
}

/// Like `record`, for a change that has its version already and a kind of entry of its own.
pub(crate) async fn sign(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    kind: Kind,
    version: i64,
    body: &impl Body,
    told: RuleEvent,
) -> Result<(), Error> {
    let body = append(tx, org, kind, version, body).await?;
    tell(store, tx, org, told.name, told.key, body).await
}

/// Signs a change into the audit log, and returns it as it is there.
async fn append(tx: &mut Tx, org: &OrgId, kind: Kind, version: i64, body: &impl Body) -> Result<String, Error> {
    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let id = format!("{}_{version}", kind.as_str());
    seal::append(tx, org, seal::Draft { kind, id: &id, invocation: None, body: &body }).await?;
    Ok(body)
}
