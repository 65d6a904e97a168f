//! The sources that admins added. A name has one row, also after its source was removed, so that its version goes on. The settings are
//! kept as canonical JSON, and archived under the digest that the audit log names: what was in force once stays readable.

use crate::archive::{archive_in, digest_of};
use crate::db::{Columns, Row, Tx, Val, all, count, only, to_json, vals};
use crate::orgs::places;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, NewAllowed, Page, PageRequest, SetAllowed, Store, allowed, grants, listings, page};
use countersign_core::grant::Grant;
use countersign_core::ports::AddedSources;
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::ports::sources::{AddedSource, SourceSettings};
use countersign_core::{ConnectionId, Future, OrgId, PrincipalId, SourceId, json};
use receipt::body::RuleChange;
use std::collections::BTreeSet;
use std::sync::Arc;

macro_rules! select_source {
    () => {
        "SELECT id, version, settings, added_by, added_at, changed_by, changed_at, removed_at FROM sources WHERE org_id = $1"
    };
}

/// What became of a source to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub enum Added {
    Done(AddedSource),
    /// A source has the name.
    Taken,
    /// The org has as many sources as it may have.
    TooMany,
    /// As many commands are allowed as may be.
    TooManyAllowed,
}

/// What became of a source to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub enum Changed {
    Done(AddedSource),
    /// It has another version than the one that was read.
    Stale,
    /// There is none with this name, or it was removed.
    Gone,
}

impl AddedSources for Store {
    fn added_sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<AddedSource>>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_source!(), " AND removed_at IS NULL ORDER BY id");
            self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| all(rows, read_source)).await
        })
    }
}

impl Store {
    /// Adds a source, unless the org has `sources_max` already. The name of one that was removed may be used again. What an operator allows
    /// with it is a part of the same write: both are there, or neither.
    pub async fn add_source(
        &self,
        org: &OrgId,
        id: SourceId,
        settings: SourceSettings,
        by: &PrincipalId,
        sources_max: u32,
        allow: Option<NewAllowed>,
    ) -> Result<Added, Error> {
        let text = canonical(&settings)?;
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let before = find_locked(tx, &org, &id).await?;
                    if before.as_ref().is_some_and(|before| before.removed_at.is_none()) {
                        return Ok(Added::Taken);
                    }
                    let sql = "SELECT count(*) FROM sources WHERE org_id = $1 AND removed_at IS NULL";
                    if count(tx.query(sql, &vals![org.as_str()]).await?)? >= i64::from(sources_max) {
                        return Ok(Added::TooMany);
                    }
                    if let Some(new) = allow
                        && allowed::set_in(&store, tx, &org, new, &by).await? == SetAllowed::TooMany
                    {
                        return Ok(Added::TooManyAllowed);
                    }
                    let (version, now) = (before.map_or(0, |before| before.version) + 1, tx.now());
                    let source = AddedSource {
                        id,
                        version,
                        settings,
                        added_by: by.clone(),
                        added_at: now,
                        changed_by: by,
                        changed_at: now,
                        removed_at: None,
                    };
                    set(&store, tx, &org, &source, text, "source.added").await?;
                    Ok(Added::Done(source))
                })
            })
            .await
    }

    /// Sets a source otherwise, if it still has the version that the caller read. With another server or connection it is another source:
    /// the grants for it end.
    pub async fn change_source(
        &self,
        org: &OrgId,
        id: &SourceId,
        version: i64,
        settings: SourceSettings,
        by: &PrincipalId,
    ) -> Result<Changed, Error> {
        let text = canonical(&settings)?;
        let (store, owned, id, by) = (self.clone(), org.clone(), id.clone(), by.clone());
        let (changed, revoked) = self
            .db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Some(before) = find_locked(tx, &owned, &id).await?.filter(|before| before.removed_at.is_none()) else {
                        return Ok((Changed::Gone, Vec::new()));
                    };
                    if before.version != version {
                        return Ok((Changed::Stale, Vec::new()));
                    }
                    let is_other = (&before.settings.server, &before.settings.connection) != (&settings.server, &settings.connection);
                    let source = AddedSource { version: version + 1, settings, changed_by: by, changed_at: tx.now(), ..before };
                    set(&store, tx, &owned, &source, text, "source.changed").await?;
                    let revoked = if is_other { leave_behind(&store, tx, &owned, &source).await? } else { Vec::new() };
                    Ok((Changed::Done(source), revoked))
                })
            })
            .await?;
        grants::log_revoked(org, &revoked);
        Ok(changed)
    }

    /// Removes a source and ends the grants for it. Its row stays, for receipts that name it. `None` if there is none with this name.
    pub async fn remove_source(&self, org: &OrgId, id: &SourceId, by: &PrincipalId) -> Result<Option<AddedSource>, Error> {
        let (store, owned, id, by) = (self.clone(), org.clone(), id.clone(), by.clone());
        let removed = self
            .db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Some(before) = find_locked(tx, &owned, &id).await?.filter(|before| before.removed_at.is_none()) else {
                        return Ok(None);
                    };
                    let now = tx.now();
                    tx.exec(
                        "UPDATE sources SET changed_by = $1, changed_at = $2, removed_at = $3 WHERE org_id = $4 AND id = $5",
                        &vals![by.to_string(), now, now, owned.as_str(), id.as_str()],
                    )
                    .await?;
                    let told = RuleEvent { name: "source.removed", key: id.to_string() };
                    let change = RuleChange::SourceRemoved { source: id, version: before.version };
                    rule_log::record(&store, tx, &owned, Some(by.clone()), change, told).await?;
                    let removed = AddedSource { changed_by: by, changed_at: now, removed_at: Some(now), ..before };
                    let revoked = leave_behind(&store, tx, &owned, &removed).await?;
                    Ok(Some((removed, revoked)))
                })
            })
            .await?;
        Ok(removed.map(|(removed, revoked)| {
            grants::log_revoked(org, &revoked);
            removed
        }))
    }

    /// A source by its name, also after it was removed.
    pub async fn find_source(&self, org: &OrgId, id: &SourceId) -> Result<Option<AddedSource>, Error> {
        let sql = concat!(select_source!(), " AND id = $2");
        only(self.db.read(sql, &vals![org.as_str(), id.as_str()]).await?, read_source)
    }

    /// Every source that was ever added, by name, also those that were removed.
    pub async fn all_sources(&self, org: &OrgId) -> Result<Arc<Vec<AddedSource>>, Error> {
        let sql = concat!(select_source!(), " ORDER BY id");
        self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| all(rows, read_source)).await
    }

    /// Lists sources by name, without those that were removed, and without these.
    pub async fn list_sources(&self, org: &OrgId, hidden: &BTreeSet<String>, request: &PageRequest) -> Result<Page<AddedSource>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or_default()].to_vec();
        let mut sql = String::from(concat!(select_source!(), " AND removed_at IS NULL AND id > $2"));
        if let Some(hidden) = places(hidden.iter().map(String::as_str), &mut params) {
            sql.push_str(&format!(" AND id NOT IN ({hidden})"));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_source, |source| source.id.to_string())
    }
}

fn canonical(settings: &SourceSettings) -> Result<String, Error> {
    json::canonical_exact(settings).map_err(|error| Error::Corrupt { message: error.to_string() })
}

/// Writes the source as it is from here on, with the canonical JSON of its settings.
async fn set(store: &Store, tx: &mut Tx, org: &OrgId, source: &AddedSource, text: String, event: &'static str) -> Result<(), Error> {
    let AddedSource { id, version, settings, added_by, added_at, changed_by, changed_at, removed_at: _ } = source;
    tx.exec(
        "INSERT INTO sources (org_id, id, version, settings, connection_id, secrets, added_by, added_at, changed_by, changed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (org_id, id) DO UPDATE SET version = excluded.version,
           settings = excluded.settings, connection_id = excluded.connection_id, secrets = excluded.secrets, added_by = excluded.added_by,
           added_at = excluded.added_at, changed_by = excluded.changed_by, changed_at = excluded.changed_at, removed_at = NULL",
        &vals![
            org.as_str(),
            id.as_str(),
            *version,
            text.as_str(),
            settings.connection.as_ref().map(ConnectionId::as_str),
            to_json(&settings.server.secrets())?,
            added_by.to_string(),
            *added_at,
            changed_by.to_string(),
            *changed_at
        ],
    )
    .await?;
    let digest = digest_of(&text);
    archive_in(tx, org, ArchivedDefinition { digest, body: text }).await?;
    let change = RuleChange::SourceSet {
        source: id.clone(),
        version: *version,
        settings: digest,
        server: settings.server.kind(),
        connection: settings.connection.clone(),
        tiers: settings.tiers.clone(),
    };
    let told = RuleEvent { name: event, key: id.to_string() };
    rule_log::record(store, tx, org, Some(changed_by.clone()), change, told).await.map(|_| ())
}

/// Ends what was given or known for the source as it was before. Returns the grants that were revoked.
async fn leave_behind(store: &Store, tx: &mut Tx, org: &OrgId, source: &AddedSource) -> Result<Vec<Grant>, Error> {
    listings::forget_in(tx, org, &source.id).await?;
    grants::revoke_of_source_in(store, tx, org, &source.id, &source.changed_by).await
}

async fn find_locked(tx: &mut Tx, org: &OrgId, id: &SourceId) -> Result<Option<AddedSource>, Error> {
    let sql = concat!(select_source!(), " AND id = $2");
    only(tx.query_locked(sql, &vals![org.as_str(), id.as_str()]).await?, read_source)
}

fn read_source(row: Row) -> Result<AddedSource, Error> {
    let mut columns = Columns::of(row);
    Ok(AddedSource {
        id: columns.parsed(|text| SourceId::parse(text).ok())?,
        version: columns.int()?,
        settings: columns.json()?,
        added_by: columns.parsed(PrincipalId::parse)?,
        added_at: columns.time()?,
        changed_by: columns.parsed(PrincipalId::parse)?,
        changed_at: columns.time()?,
        removed_at: columns.time_or_null()?,
    })
}
