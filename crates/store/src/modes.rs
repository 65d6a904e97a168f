//! The rows of the mode cascade. Every change is versioned, signed into the log and told as an event.

use crate::db::{Columns, Row, Tx, vals};
use crate::events::insert_event;
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::decision::Lock;
use countersign_core::ledger::{EventDraft, ModeRow, ModeRows};
use countersign_core::{ActionId, AutomationId, EventId, Mode, OrgId, PrincipalId, Timestamp, random_bytes};
use receipt::body::ModeBody;
use receipt::entry::Kind;

const ORG_SCOPE: &str = "org";

/// A mode row as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeSetting {
    /// `org`, or `automation:<id>`.
    pub scope: String,
    pub action: ActionId,
    pub mode: Mode,
    pub lock: Lock,
    pub version: i64,
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
}

/// One row of the org's own, as a file of modes holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrgMode {
    pub action: ActionId,
    pub mode: Mode,
    pub lock: Lock,
}

/// A change of one row; `mode: None` removes it.
#[derive(Clone, Debug)]
pub struct ModeChange {
    pub automation: Option<AutomationId>,
    pub action: ActionId,
    pub mode: Option<Mode>,
    /// Of an org's row: whether automations may loosen it.
    pub lock: Lock,
    pub by: PrincipalId,
}

impl Store {
    /// Returns the version the change got.
    pub async fn change_mode(&self, org: &OrgId, change: ModeChange) -> Result<i64, Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db.write(move |tx| Box::pin(async move { change_in(&store, tx, &org, change).await })).await
    }

    /// Makes these the org's rows, all of them and no others, at once. What is so already stays as it is; returns how many changed.
    pub async fn replace_modes(&self, org: &OrgId, rows: Vec<OrgMode>, by: &PrincipalId) -> Result<u64, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let sql = "SELECT action, mode, lock FROM modes WHERE org_id = $1 AND scope = 'org' ORDER BY action";
                    let found = tx.query_locked(sql, &vals![org.as_str()]).await?;
                    let before = found.into_iter().map(read_org_mode).collect::<Result<Vec<_>, _>>()?;
                    let change =
                        |row: OrgMode, mode| ModeChange { automation: None, action: row.action, mode, lock: row.lock, by: by.clone() };
                    let removed = before.iter().filter(|old| rows.iter().all(|new| new.action != old.action)).cloned();
                    let removed: Vec<_> = removed.map(|old| change(OrgMode { lock: Lock::Open, ..old }, None)).collect();
                    let set = rows.iter().filter(|new| !before.contains(new)).cloned();
                    let set: Vec<_> = set.map(|new| (new.mode, new)).map(|(mode, new)| change(new, Some(mode))).collect();
                    let count = removed.len() + set.len();
                    for change in removed.into_iter().chain(set) {
                        change_in(&store, tx, &org, change).await?;
                    }
                    Ok(count as u64)
                })
            })
            .await
    }

    /// All of them, or one automation's.
    pub async fn list_modes(
        &self,
        org: &OrgId,
        automation: Option<&AutomationId>,
        request: &PageRequest,
    ) -> Result<Page<ModeSetting>, Error> {
        // The cursor is `<action> <scope>`: neither holds a space.
        let after = request.after.as_deref().unwrap_or_default();
        let wanted = automation.map(|automation| scope(Some(automation))).unwrap_or_default();
        let rows = self
            .db
            .read(
                "SELECT scope, action, mode, lock, version, set_by, set_at FROM modes
                 WHERE org_id = $1 AND action || ' ' || scope > $2 AND ($3 = '' OR scope = $3) ORDER BY action || ' ' || scope LIMIT $4",
                &vals![org.as_str(), after, wanted, i64::from(request.limit) + 1],
            )
            .await?;
        let modes = rows.into_iter().map(read_mode).collect::<Result<Vec<_>, _>>()?;
        Ok(page(modes, request.limit, |mode| format!("{} {}", mode.action, mode.scope)))
    }

    pub(crate) async fn mode_rows(&self, org: &OrgId, automation: Option<&AutomationId>, action: &ActionId) -> Result<ModeRows, Error> {
        let sql = "SELECT scope, mode, lock, version FROM modes WHERE org_id = $1 AND action = $2 AND scope IN ('org', $3)";
        let params = vals![org.as_str(), action.as_str(), scope(automation)];
        self.db.read_remembered(sql, &params, read_mode_rows).await.map(|rows| *rows)
    }
}

pub(crate) async fn change_in(store: &Store, tx: &mut Tx, org: &OrgId, change: ModeChange) -> Result<i64, Error> {
    let scope = scope(change.automation.as_ref());
    let version = seal::next_rules_version(tx, org).await?;
    match change.mode {
        Some(mode) => {
            tx.exec(
                "INSERT INTO modes (org_id, scope, action, mode, lock, version, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (org_id, action, scope) DO UPDATE
                 SET mode = excluded.mode, lock = excluded.lock, version = excluded.version, set_by = excluded.set_by, set_at = excluded.set_at",
                &vals![
                    org.as_str(),
                    scope.as_str(),
                    change.action.as_str(),
                    mode.as_str(),
                    lock_word(change.lock),
                    version,
                    change.by.to_string(),
                    tx.now()
                ],
            )
            .await?
        }
        None => {
            tx.exec(
                "DELETE FROM modes WHERE org_id = $1 AND scope = $2 AND action = $3",
                &vals![org.as_str(), scope.as_str(), change.action.as_str()],
            )
            .await?
        }
    };
    let id = EventId::new(tx.now(), random_bytes(&*store.random));
    let body = ModeBody { scope, action: change.action, mode: change.mode, lock: change.lock, version, by: change.by };
    let body = body.to_canonical().map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let entry_id = format!("mode_{version}");
    seal::append(tx, org, seal::Draft { kind: Kind::Mode, id: &entry_id, invocation: None, body: &body }).await?;
    insert_event(tx, org, &EventDraft { id, name: "mode.changed", key: "modes".into(), body }, None);
    Ok(version)
}

fn read_org_mode(row: Row) -> Result<OrgMode, Error> {
    let mut columns = Columns::of(row);
    Ok(OrgMode {
        action: columns.parsed(|text| ActionId::parse(text).ok())?,
        mode: columns.parsed(Mode::parse)?,
        lock: columns.parsed(parse_lock)?,
    })
}

fn read_mode_rows(rows: Vec<Row>) -> Result<ModeRows, Error> {
    let mut found = ModeRows::default();
    for row in rows {
        let mut columns = Columns::of(row);
        let is_org = columns.text()? == ORG_SCOPE;
        let row = ModeRow { mode: columns.parsed(Mode::parse)?, lock: columns.parsed(parse_lock)?, version: columns.int()? };
        *(if is_org { &mut found.org } else { &mut found.automation }) = Some(row);
    }
    Ok(found)
}

fn scope(automation: Option<&AutomationId>) -> String {
    automation.map_or_else(|| ORG_SCOPE.to_owned(), |automation| format!("automation:{automation}"))
}

const fn lock_word(lock: Lock) -> &'static str {
    match lock {
        Lock::Open => "open",
        Lock::Locked => "locked",
    }
}

fn parse_lock(text: &str) -> Option<Lock> {
    [Lock::Open, Lock::Locked].into_iter().find(|lock| lock_word(*lock) == text)
}

fn read_mode(row: Row) -> Result<ModeSetting, Error> {
    let mut columns = Columns::of(row);
    Ok(ModeSetting {
        scope: columns.text()?,
        action: columns.parsed(|text| ActionId::parse(text).ok())?,
        mode: columns.parsed(Mode::parse)?,
        lock: columns.parsed(parse_lock)?,
        version: columns.int()?,
        set_by: columns.parsed(PrincipalId::parse)?,
        set_at: columns.time()?,
    })
}
