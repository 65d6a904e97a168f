//! What every change of a rule has in common: a number that orders it among all others, an entry in the log, and an event.

use crate::db::{Tx, vals};
use crate::events::insert_event;
use crate::{Error, Store, seal};
use countersign_core::ledger::EventDraft;
use countersign_core::{EventId, OrgId, PrincipalId, random_bytes};
use receipt::body::{Body as _, RuleBody, RuleChange};
use receipt::entry::Kind;

const SELECT_VERSION: &str = "SELECT rules_version FROM orgs WHERE org_id = $1";

impl Store {
    /// Grows with every change of any rule of the org.
    pub(crate) async fn rules_version_now(&self, org: &OrgId) -> Result<i64, Error> {
        self.db.read_version(SELECT_VERSION, &vals![org.as_str()]).await
    }

    pub(crate) async fn rules_version_anew(&self, org: &OrgId) -> Result<i64, Error> {
        self.db.read_version_anew(SELECT_VERSION, &vals![org.as_str()]).await
    }
}

/// What is told of a change.
pub(crate) struct Told {
    pub(crate) name: &'static str,
    /// Events with the same key are delivered in order.
    pub(crate) key: String,
}

/// Signs a change of a rule into the log and tells of it. The change itself must be part of the same write.
pub(crate) async fn record(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    by: Option<PrincipalId>,
    change: RuleChange,
    told: Told,
) -> Result<i64, Error> {
    let version = seal::next_rules_version(tx, org).await?;
    let body = RuleBody { by, change, version };
    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let entry_id = format!("rule_{version}");
    seal::append(tx, org, seal::Draft { kind: Kind::Rule, id: &entry_id, invocation: None, body: &body }).await?;
    let id = EventId::new(tx.now(), random_bytes(&*store.random));
    insert_event(tx, org, &EventDraft { id, name: told.name, key: told.key, body }, None);
    Ok(version)
}
