//! The mode rows of an org and its automations. Every change is versioned, signed into the audit log and published as an event.

use crate::db::{Columns, Row, Tx, all, only, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::decision::Lock;
use countersign_core::ports::rules::{ModeRow, ModeRows};
use countersign_core::{ActionId, AutomationId, InvocationId, Mode, OrgId, PrincipalId, Timestamp};
use receipt::body::ModeBody;
use receipt::entry::{Entry, Kind};

const ORG_SCOPE: &str = "org";

/// A mode row, as it is listed.
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

/// A mode row as a modes file holds it: the org's own, or an automation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiledMode {
    pub automation: Option<AutomationId>,
    pub action: ActionId,
    pub mode: Mode,
    pub lock: Lock,
}

/// One change of a mode, as the audit log records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeVersion {
    pub change: ModeBody,
    pub changed_at: Timestamp,
}

/// A change of one row; `mode: None` removes it.
#[derive(Clone, Debug)]
pub struct ModeChange {
    pub automation: Option<AutomationId>,
    pub action: ActionId,
    pub mode: Option<Mode>,
    /// For a row of the org: whether automations may loosen it.
    pub lock: Lock,
    pub by: PrincipalId,
    /// The invocation whose approval makes the change.
    pub invocation: Option<InvocationId>,
}

impl Store {
    /// Returns the version the change got.
    pub async fn change_mode(&self, org: &OrgId, change: ModeChange) -> Result<i64, Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { change_in(&store, tx, &org, change).await })).await
    }

    /// Replaces all mode rows of the org, also those of automations, with these, in one write. Rows that are the same already stay
    /// untouched. Returns how many changed.
    pub async fn replace_modes(&self, org: &OrgId, rows: Vec<FiledMode>, by: &PrincipalId) -> Result<u64, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "SELECT scope, action, mode, lock FROM modes WHERE org_id = $1 ORDER BY action, scope";
                    let found = tx.query_locked(sql, &vals![org.as_str()]).await?;
                    let before = all(found, read_filed)?;
                    let change = |row: FiledMode, mode| {
                        let FiledMode { automation, action, lock, .. } = row;
                        ModeChange { automation, action, mode, lock, by: by.clone(), invocation: None }
                    };
                    let is_gone =
                        |old: &&FiledMode| rows.iter().all(|new| (&new.automation, &new.action) != (&old.automation, &old.action));
                    let removed = before.iter().filter(is_gone).cloned();
                    let removed: Vec<_> = removed.map(|old| change(FiledMode { lock: Lock::Open, ..old }, None)).collect();
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

    /// Lists all mode rows, or those of one automation.
    pub async fn list_modes(
        &self,
        org: &OrgId,
        automation: Option<&AutomationId>,
        request: &PageRequest,
    ) -> Result<Page<ModeSetting>, Error> {
        // The cursor is `<action> <scope>`. Neither contains a space.
        let after = request.after.as_deref().unwrap_or_default();
        let wanted = automation.map(|automation| scope_of(Some(automation))).unwrap_or_default();
        let rows = self
            .db
            .read(
                "SELECT scope, action, mode, lock, version, set_by, set_at FROM modes
                 WHERE org_id = $1 AND action || ' ' || scope > $2 AND ($3 = '' OR scope = $3) ORDER BY action || ' ' || scope LIMIT $4",
                &vals![org.as_str(), after, wanted, i64::from(request.limit) + 1],
            )
            .await?;
        page(rows, request.limit, read_mode, |mode| format!("{} {}", mode.action, mode.scope))
    }

    /// The row that the approval of this invocation set, unless it has been changed since.
    pub async fn find_mode_of(&self, org: &OrgId, invocation: &InvocationId) -> Result<Option<ModeSetting>, Error> {
        let sql = "SELECT scope, action, mode, lock, version, set_by, set_at FROM modes WHERE org_id = $1 AND invocation_id = $2";
        only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, read_mode)
    }

    /// Lists every change of a mode, or those of one action, newest first.
    pub async fn list_mode_versions(
        &self,
        org: &OrgId,
        action: Option<&ActionId>,
        request: &PageRequest,
    ) -> Result<Page<ModeVersion>, Error> {
        let before = request.after.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(i64::MAX);
        // The action as the canonical JSON of a body spells it; empty for all actions.
        let named = action.map(|action| format!(r#""action":"{action}","#)).unwrap_or_default();
        // The ids of these entries are `mode_<version>`, so the range of ids finds the few among the many. The payload is not searched with
        // `LIKE`, because on SQLite that ignores case.
        let sql = "SELECT seq, payload FROM entries WHERE org_id = $1 AND id >= 'mode_' AND id < 'mode`' AND kind = 'mode' AND seq < $2
                   AND ($3 = '' OR replace(payload, $3, '') <> payload) ORDER BY seq DESC LIMIT $4";
        let rows = self.db.read(sql, &vals![org.as_str(), before, named, i64::from(request.limit) + 1]).await?;
        let page = page(rows, request.limit, read_version, |(seq, _)| seq.to_string())?;
        Ok(Page { items: page.items.into_iter().map(|(_, version)| version).collect(), next: page.next })
    }
}

pub(crate) async fn change_in(store: &Store, tx: &mut Tx, org: &OrgId, change: ModeChange) -> Result<i64, Error> {
    let scope = scope_of(change.automation.as_ref());
    let version = seal::next_rules_version(tx, org).await?;
    match change.mode {
        Some(mode) => {
            tx.exec(
                "INSERT INTO modes (org_id, scope, action, mode, lock, version, set_by, set_at, invocation_id)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                 ON CONFLICT (org_id, action, scope) DO UPDATE
                 SET mode = excluded.mode, lock = excluded.lock, version = excluded.version, set_by = excluded.set_by,
                     set_at = excluded.set_at, invocation_id = excluded.invocation_id",
                &vals![
                    org.as_str(),
                    scope.as_str(),
                    change.action.as_str(),
                    mode.as_str(),
                    lock_word(change.lock),
                    version,
                    change.by.to_string(),
                    tx.now(),
                    change.invocation.as_ref().map(InvocationId::as_str)
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
    let body = ModeBody { scope, action: change.action, mode: change.mode, lock: change.lock, version, by: change.by };
    rule_log::sign(store, tx, org, Kind::Mode, version, &body, RuleEvent { name: "mode.changed", key: "modes".into() }).await?;
    Ok(version)
}

fn read_filed(row: Row) -> Result<FiledMode, Error> {
    let mut columns = Columns::of(row);
    Ok(FiledMode {
        automation: columns.parsed(parse_scope)?,
        action: columns.parsed(|text| ActionId::parse(text).ok())?,
        mode: columns.parsed(Mode::parse)?,
        lock: columns.parsed(parse_lock)?,
    })
}

pub(crate) fn read_mode_rows(rows: Vec<Row>) -> Result<ModeRows, Error> {
    let mut found = ModeRows::default();
    for row in rows {
        let mut columns = Columns::of(row);
        let is_org = columns.text()? == ORG_SCOPE;
        let row = ModeRow { mode: columns.parsed(Mode::parse)?, lock: columns.parsed(parse_lock)?, version: columns.int()? };
        *(if is_org { &mut found.org } else { &mut found.automation }) = Some(row);
    }
    Ok(found)
}

pub(crate) fn scope_of(automation: Option<&AutomationId>) -> String {
    automation.map_or_else(|| ORG_SCOPE.to_owned(), |automation| format!("automation:{automation}"))
}

/// The automation that the row belongs to, or `Some(None)` for the org's own row. `None` if the text is no scope.
#[expect(clippy::option_option, reason = "a scope that cannot be read is not the org's")]
fn parse_scope(text: &str) -> Option<Option<AutomationId>> {
    match text.strip_prefix("automation:") {
        Some(automation) => AutomationId::parse(automation).ok().map(Some),
        None => (text == ORG_SCOPE).then_some(None),
    }
}

pub(crate) const fn lock_word(lock: Lock) -> &'static str {
    match lock {
        Lock::Open => "open",
        Lock::Locked => "locked",
    }
}

fn parse_lock(text: &str) -> Option<Lock> {
    [Lock::Open, Lock::Locked].into_iter().find(|lock| lock_word(*lock) == text)
}

fn read_version(row: Row) -> Result<(i64, ModeVersion), Error> {
    let mut columns = Columns::of(row);
    let (seq, payload) = (columns.int()?, columns.text()?);
    let unreadable = |message: String| Error::Corrupt { message: format!("entry {seq} does not read: {message}") };
    let entry = Entry::parse(&payload).map_err(|error| unreadable(error.to_string()))?;
    let change = serde_json::from_value(entry.body).map_err(|error| unreadable(error.to_string()))?;
    Ok((seq, ModeVersion { change, changed_at: entry.header.at }))
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
