//! Saved automations, their versions and their triggers. The text of each version is archived under its digest, as other definitions are, and
//! the audit log names that digest: what an automation does cannot be changed without a person's entry in the log.

use crate::db::{Columns, Row, Tx, Val, all, only, vals};
use crate::definitions::archive_in;
use crate::events::tell;
use crate::firings::{SkippedRow, insert_skipped};
use crate::orgs::not_among;
use crate::rules::{self, RuleEvent};
use crate::sources::digest_of;
use crate::tokens::draw_token;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::automation::{Automation, AutomationStatus, AutomationVersion, Trigger, TriggerType};
use countersign_core::limits::{AUTOMATIONS_MAX, HOOK_TOKEN_OVERLAP_SECONDS, TICK_MISSED_SECONDS};
use countersign_core::ports::Automations;
use countersign_core::ports::automations::{EventTrigger, Mended, PassedTicks, SkippedTicks};
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::{AutomationId, Digest, Future, OrgId, PrincipalId, Secret, SpaceId, Timestamp, UserId, random_bytes};
use receipt::body::RuleChange;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

macro_rules! select_automation {
    () => {
        "SELECT id, org_id, space_id, name, status, version, definition, creator_id, created_at, changed_at FROM automations WHERE org_id = $1"
    };
}

macro_rules! trigger_columns {
    () => {
        "triggers.org_id, triggers.automation_id, triggers.id, kind, enabled, disabled_why, enabled_at, next_due_at, high_water, last_fired_at,
         token_hash"
    };
}

/// A definition that a person saves.
#[derive(Clone, Debug)]
pub struct SaveAutomation {
    /// Absent: a new automation.
    pub automation: Option<AutomationId>,
    pub space: SpaceId,
    pub name: String,
    /// The normalised definition as canonical JSON.
    pub definition: String,
    pub triggers: Vec<SavedTrigger>,
    /// The version that the person has seen must still be the current one.
    pub expected: Option<Digest>,
}

/// What a definition says of one of its triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedTrigger {
    pub id: String,
    pub kind: TriggerType,
    pub next_due_at: Option<Timestamp>,
    /// The secret that signs a webhook; it then has no token.
    pub signed_by: Option<String>,
}

/// What became of a definition to be saved.
#[derive(Debug)]
pub enum Saved {
    Done {
        automation: Automation,
        /// The tokens of new webhooks, by the id of their trigger. These are the only copies.
        tokens: Vec<(String, Secret<String>)>,
        /// False: the definition is the same as before, and nothing was written.
        is_new_version: bool,
    },
    /// Another automation of the space has the name.
    NameTaken(AutomationId),
    /// Somebody saved another version since.
    Changed(Automation),
    Unknown,
    TooMany,
}

/// Which automations to list; by default all but the archived ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutomationFilter {
    pub status: Option<AutomationStatus>,
    pub hidden: BTreeSet<SpaceId>,
}

/// What a person does to a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerChange {
    /// A schedule starts from now.
    Enable(FromNow),
    /// A schedule goes on from where it was disabled, and makes up for what it missed as its `catch_up` says.
    CatchUp,
    Disable,
}

/// How a schedule goes on that a person lets fire again: from now, and what it left out until then is not made up for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromNow {
    pub next_due_at: Option<Timestamp>,
    pub left_out: Option<SkippedTicks>,
}

impl Automations for Store {
    fn find_automation<'a>(&'a self, org: &'a OrgId, automation: &'a AutomationId) -> Future<'a, Result<Option<Automation>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_automation!(), " AND id = $2");
            only(self.db.read(sql, &vals![org.as_str(), automation.as_str()]).await?, read_automation)
        })
    }

    fn find_automation_definition<'a>(&'a self, org: &'a OrgId, digest: Digest) -> Future<'a, Result<Option<Arc<Value>>, Error>> {
        Box::pin(async move {
            let Some(text) = self.find_definition(org, digest).await? else {
                return Ok(None);
            };
            if digest_of(&text) != digest {
                return Err(Error::Corrupt { message: format!("the definition `{digest}` is not what was saved") });
            }
            let value = serde_json::from_str(&text).map_err(|error| Error::Corrupt { message: error.to_string() })?;
            Ok(Some(Arc::new(value)))
        })
    }

    fn find_trigger<'a>(
        &'a self,
        org: &'a OrgId,
        automation: &'a AutomationId,
        trigger: &'a str,
    ) -> Future<'a, Result<Option<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!("SELECT ", trigger_columns!(), " FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3");
            only(self.db.read(sql, &vals![org.as_str(), automation.as_str(), trigger]).await?, read_trigger)
        })
    }

    fn list_due_triggers(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!(
                "/* every org: one clock serves the schedules of all */ SELECT ",
                trigger_columns!(),
                " FROM triggers JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                  AND automations.status = 'active'
                  WHERE enabled = 1 AND next_due_at IS NOT NULL AND next_due_at <= $1 ORDER BY next_due_at LIMIT $2"
            );
            all(self.db.read(sql, &vals![self.db.now().await?, i64::from(limit)]).await?, read_trigger)
        })
    }

    fn list_stray_schedules(&self, limit: u32) -> Future<'_, Result<Vec<Trigger>, Error>> {
        Box::pin(async move {
            let sql = concat!(
                "/* every org: one clock serves the schedules of all */ SELECT ",
                trigger_columns!(),
                " FROM triggers JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                  AND automations.status = 'active'
                  WHERE enabled = 1 AND kind = 'schedule' AND (next_due_at IS NULL OR high_water > $1)
                  ORDER BY triggers.org_id, triggers.automation_id, triggers.id LIMIT $2"
            );
            let latest = self.db.now().await?.plus_seconds(TICK_MISSED_SECONDS);
            all(self.db.read(sql, &vals![latest, i64::from(limit)]).await?, read_trigger)
        })
    }

    fn next_due_at(&self) -> Future<'_, Result<Option<Timestamp>, Error>> {
        Box::pin(async move {
            let sql = "/* every org: one clock serves the schedules of all */
                       SELECT min(next_due_at) FROM triggers
                       JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                       AND automations.status = 'active' WHERE enabled = 1 AND next_due_at IS NOT NULL";
            Ok(only(self.db.read(sql, &[]).await?, |row| Columns::of(row).time_or_null())?.flatten())
        })
    }

    fn pass_ticks(&self, passed: PassedTicks) -> Future<'_, Result<bool, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(passed.org.clone(), move |tx| Box::pin(async move { pass_in(&store, tx, passed).await })))
    }

    fn list_event_triggers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<EventTrigger>, Error>> {
        Box::pin(async move {
            let sql = "SELECT triggers.automation_id, automations.space_id, triggers.id, automations.definition FROM triggers
                       JOIN automations ON automations.org_id = triggers.org_id AND automations.id = triggers.automation_id
                       WHERE triggers.org_id = $1 AND kind = 'event' AND enabled = 1 AND automations.status = 'active'
                       ORDER BY triggers.automation_id, triggers.id";
            all(self.db.read(sql, &vals![org.as_str()]).await?, |row| {
                let mut columns = Columns::of(row);
                let (automation, space) = (columns.id()?, columns.id()?);
                Ok(EventTrigger { automation, space, trigger: columns.text()?, definition: columns.parsed(Digest::parse)? })
            })
        })
    }
}

impl Store {
    /// Saves a definition for a person.
    pub async fn save_automation(&self, org: &OrgId, save: SaveAutomation, by: &UserId) -> Result<Saved, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { save_in(&store, tx, &org, save, by).await })).await
    }

    /// Says whether an automation fires. `schedules` has how its schedules go on, by the id of their trigger, if it is active again. `None` if
    /// there is no such automation.
    pub async fn set_automation_status(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        status: AutomationStatus,
        schedules: Vec<(String, FromNow)>,
        by: &UserId,
    ) -> Result<Option<Automation>, Error> {
        let (store, org, automation, by) = (self.clone(), org.clone(), automation.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Some(before) = find_in(tx, &org, &automation).await? else {
                        return Ok(None);
                    };
                    if before.status == status {
                        return Ok(Some(before));
                    }
                    let sql = "UPDATE automations SET status = $1, changed_at = $2 WHERE org_id = $3 AND id = $4";
                    tx.exec(sql, &vals![status.as_str(), tx.now(), org.as_str(), automation.as_str()]).await?;
                    for (trigger, from_now) in schedules {
                        go_on(&store, tx, &org, &automation, &trigger, from_now).await?;
                    }
                    let automation = Automation { status, changed_at: tx.now(), ..before };
                    record(&store, tx, &automation, &by, event_of(status)).await?;
                    Ok(Some(automation))
                })
            })
            .await
    }

    /// Enables or disables a trigger. `None` if there is none.
    pub async fn change_trigger(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        trigger: &str,
        change: TriggerChange,
        by: &UserId,
    ) -> Result<Option<Trigger>, Error> {
        let (store, owned, by) = (self.clone(), (org.clone(), automation.clone(), trigger.to_owned()), by.clone());
        let changed = self
            .db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (org, automation, trigger) = owned;
                    let Some(saved) = find_in(tx, &org, &automation).await? else { return Ok(0) };
                    let (is_enabled, now) = (change != TriggerChange::Disable, tx.now());
                    let sql = "UPDATE triggers SET enabled = $1, disabled_why = NULL, crowded_since = NULL, enabled_at = $2
                               WHERE org_id = $3 AND automation_id = $4 AND id = $5";
                    let params = vals![i64::from(is_enabled), now, org.as_str(), automation.as_str(), trigger.as_str()];
                    let changed = tx.exec(sql, &params).await?;
                    if let (1, TriggerChange::Enable(from_now)) = (changed, change) {
                        go_on(&store, tx, &org, &automation, &trigger, from_now).await?;
                    }
                    if changed == 1 {
                        let sql = "UPDATE automations SET changed_at = $1 WHERE org_id = $2 AND id = $3";
                        tx.exec(sql, &vals![now, org.as_str(), automation.as_str()]).await?;
                        record(&store, tx, &saved, &by, "automation.trigger_changed").await?;
                    }
                    Ok(changed)
                })
            })
            .await?;
        if changed == 0 { Ok(None) } else { self.find_trigger(org, automation, trigger).await }
    }

    /// Gives a webhook a new token. The old one is taken for another day if `keep_old`. `None` if there is no such webhook.
    pub async fn rotate_hook_token(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        trigger: &str,
        keep_old: bool,
        by: &UserId,
    ) -> Result<Option<Secret<String>>, Error> {
        let (store, owned, by) = (self.clone(), (org.clone(), automation.clone(), trigger.to_owned()), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (org, automation, trigger) = owned;
                    let Some(saved) = find_in(tx, &org, &automation).await? else { return Ok(None) };
                    let text = draw_token(&*store.random, "hook");
                    let until = keep_old.then(|| tx.now().plus_seconds(HOOK_TOKEN_OVERLAP_SECONDS));
                    let sql = "UPDATE triggers SET old_token_hash = CASE WHEN $1 = 1 THEN token_hash ELSE NULL END, old_token_until = $2,
                               token_hash = $3 WHERE org_id = $4 AND automation_id = $5 AND id = $6 AND kind = 'webhook'";
                    let hash = hash_of(&store, text.expose());
                    let params = vals![i64::from(keep_old), until, hash, org.as_str(), automation.as_str(), trigger.as_str()];
                    if tx.exec(sql, &params).await? == 0 {
                        return Ok(None);
                    }
                    record(&store, tx, &saved, &by, "automation.token_rotated").await?;
                    Ok(Some(text))
                })
            })
            .await
    }

    /// The webhook of this automation that takes this token, in whichever org it is: the automation's id is all that its caller has besides.
    pub async fn find_hook(&self, automation: &AutomationId, token: &str) -> Result<Option<Trigger>, Error> {
        let sql = concat!(
            "/* every org: a caller of a webhook has a token of one automation */ SELECT ",
            trigger_columns!(),
            ", old_token_hash, old_token_until FROM triggers WHERE automation_id = $1 AND kind = 'webhook'"
        );
        let (hash, now) = (hash_of(self, token), self.db.now().await?);
        let is_same = |stored: Option<&String>| stored.is_some_and(|stored| bool::from(stored.as_bytes().ct_eq(hash.as_bytes())));
        let mut found = None;
        // Every row is compared, so that the time it takes tells nothing.
        for row in self.db.read(sql, &vals![automation.as_str()]).await? {
            let mut columns = Columns::of(row);
            let (trigger, token) = read_trigger_and_token(&mut columns)?;
            let (old, until) = (columns.text_or_null()?, columns.time_or_null()?);
            if is_same(token.as_ref()) | (is_same(old.as_ref()) & until.is_some_and(|until| until > now)) {
                found = Some(trigger);
            }
        }
        Ok(found)
    }

    /// The signed webhooks of this automation, in whichever org it is, with the names of the secrets that sign them.
    pub async fn list_signed_hooks(&self, automation: &AutomationId) -> Result<Vec<(Trigger, String)>, Error> {
        let sql = concat!(
            "/* every org: a caller of a webhook signs for one automation */ SELECT ",
            trigger_columns!(),
            ", signed_by FROM triggers WHERE automation_id = $1 AND kind = 'webhook' AND signed_by IS NOT NULL"
        );
        all(self.db.read(sql, &vals![automation.as_str()]).await?, |row| {
            let mut columns = Columns::of(row);
            let (trigger, _) = read_trigger_and_token(&mut columns)?;
            Ok((trigger, columns.text()?))
        })
    }

    pub async fn find_automation_by_name(&self, org: &OrgId, space: &SpaceId, name: &str) -> Result<Option<Automation>, Error> {
        let sql = concat!(select_automation!(), " AND space_id = $2 AND name = $3 AND status <> 'archived'");
        only(self.db.read(sql, &vals![org.as_str(), space.as_str(), name]).await?, read_automation)
    }

    /// Lists automations, newest first.
    pub async fn list_automations(&self, org: &OrgId, filter: &AutomationFilter, request: &PageRequest) -> Result<Page<Automation>, Error> {
        let status = filter.status.map_or("", AutomationStatus::as_str);
        let mut params = vals![org.as_str(), status, request.after.as_deref().unwrap_or("~")].to_vec();
        let visible = not_among("space_id", &filter.hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let which = concat!(select_automation!(), " AND (status = $2 OR $2 = '' AND status <> 'archived') AND id < $3");
        let sql = format!("{which}{visible} ORDER BY id DESC LIMIT ${}", params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_automation, |automation| automation.id.to_string())
    }

    /// The versions of an automation, newest first.
    pub async fn list_automation_versions(
        &self,
        org: &OrgId,
        automation: &AutomationId,
        request: &PageRequest,
    ) -> Result<Page<AutomationVersion>, Error> {
        let before = request.after.as_deref().and_then(|after| after.parse::<i64>().ok()).unwrap_or(i64::MAX);
        let sql = "SELECT version, definition, saved_by, saved_at FROM automation_versions
                   WHERE org_id = $1 AND automation_id = $2 AND version < $3 ORDER BY version DESC LIMIT $4";
        let params = vals![org.as_str(), automation.as_str(), before, i64::from(request.limit) + 1];
        page(self.db.read(sql, &params).await?, request.limit, read_version, |version| version.version.to_string())
    }

    /// The triggers of an automation, by id.
    pub async fn list_triggers(&self, org: &OrgId, automation: &AutomationId) -> Result<Vec<Trigger>, Error> {
        let sql = concat!("SELECT ", trigger_columns!(), " FROM triggers WHERE org_id = $1 AND automation_id = $2 ORDER BY id");
        all(self.db.read(sql, &vals![org.as_str(), automation.as_str()]).await?, read_trigger)
    }
}

async fn save_in(store: &Store, tx: &mut Tx, org: &OrgId, save: SaveAutomation, by: UserId) -> Result<Saved, Error> {
    let before = match &save.automation {
        Some(id) => match find_in(tx, org, id).await?.filter(|found| found.status != AutomationStatus::Archived) {
            Some(found) => Some(found),
            None => return Ok(Saved::Unknown),
        },
        None => None,
    };
    let named = "SELECT id FROM automations WHERE org_id = $1 AND space_id = $2 AND name = $3 AND status <> 'archived' AND id <> $4";
    let own = before.as_ref().map_or("", |before| before.id.as_str());
    let other =
        only(tx.query(named, &vals![org.as_str(), save.space.as_str(), save.name.as_str(), own]).await?, |row| Columns::of(row).id())?;
    if let Some(other) = other {
        return Ok(Saved::NameTaken(other));
    }
    let definition = digest_of(&save.definition);
    let now = tx.now();
    let automation = match before {
        Some(before) if save.expected.is_some_and(|expected| expected != before.definition) => return Ok(Saved::Changed(before)),
        Some(before) if before.definition == definition => {
            // Which secret signs a webhook is not in the definition.
            let automation = if sign_by(tx, &before, &save.triggers).await? {
                let sql = "UPDATE automations SET changed_at = $1 WHERE org_id = $2 AND id = $3";
                tx.exec(sql, &vals![now, org.as_str(), before.id.as_str()]).await?;
                record(store, tx, &before, &by, "automation.saved").await?;
                Automation { changed_at: now, ..before }
            } else {
                before
            };
            return Ok(Saved::Done { automation, tokens: Vec::new(), is_new_version: false });
        }
        Some(before) => {
            // It acts for whoever saved what it does now: nobody writes down what is done in the name of another.
            let (version, creator) = (before.version + 1, by.clone());
            let automation = Automation { name: save.name, version, definition, creator, changed_at: now, ..before };
            let sql = "UPDATE automations SET name = $1, version = $2, definition = $3, creator_id = $4, changed_at = $5
                       WHERE org_id = $6 AND id = $7";
            let params = vals![
                automation.name.as_str(),
                i64::from(automation.version),
                definition.to_string(),
                automation.creator.as_str(),
                now,
                org.as_str(),
                automation.id.as_str()
            ];
            tx.exec(sql, &params).await?;
            automation
        }
        None => {
            let live = "SELECT count(*) FROM automations WHERE org_id = $1 AND status <> 'archived'";
            if crate::db::count(tx.query(live, &vals![org.as_str()]).await?)? >= AUTOMATIONS_MAX {
                return Ok(Saved::TooMany);
            }
            let automation = Automation {
                id: AutomationId::new(now, random_bytes(&*store.random)),
                org: org.clone(),
                space: save.space,
                name: save.name,
                status: AutomationStatus::Active,
                version: 1,
                definition,
                creator: by.clone(),
                created_at: now,
                changed_at: now,
            };
            let sql =
                "INSERT INTO automations (org_id, id, space_id, name, status, version, definition, creator_id, created_at, changed_at)
                       VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $8)";
            let params = vals![
                org.as_str(),
                automation.id.as_str(),
                automation.space.as_str(),
                automation.name.as_str(),
                automation.status.as_str(),
                definition.to_string(),
                automation.creator.as_str(),
                now
            ];
            tx.exec(sql, &params).await?;
            automation
        }
    };
    archive_in(tx, org, ArchivedDefinition { digest: definition, body: save.definition }).await?;
    let sql =
        "INSERT INTO automation_versions (org_id, automation_id, version, definition, saved_by, saved_at) VALUES ($1, $2, $3, $4, $5, $6)";
    let version = i64::from(automation.version);
    tx.exec(sql, &vals![org.as_str(), automation.id.as_str(), version, definition.to_string(), by.as_str(), now]).await?;
    let tokens = save_triggers(store, tx, &automation, save.triggers).await?;
    record(store, tx, &automation, &by, "automation.saved").await?;
    Ok(Saved::Done { automation, tokens, is_new_version: true })
}

/// Has the webhooks of a definition that stays as it is signed by these secrets. Returns whether one of them is another than before.
async fn sign_by(tx: &mut Tx, automation: &Automation, triggers: &[SavedTrigger]) -> Result<bool, Error> {
    let mut has_changed = false;
    for SavedTrigger { id: trigger, signed_by, .. } in triggers {
        let sql = "UPDATE triggers SET signed_by = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4 AND signed_by <> $1";
        if let Some(secret) = signed_by {
            let params = vals![secret.as_str(), automation.org.as_str(), automation.id.as_str(), trigger.as_str()];
            has_changed |= tx.exec(sql, &params).await? > 0;
        }
    }
    Ok(has_changed)
}

/// Makes the stored triggers those of the definition. A trigger whose id and type stay keeps its token, its state and its history. Returns the
/// tokens of new webhooks.
async fn save_triggers(
    store: &Store,
    tx: &mut Tx,
    automation: &Automation,
    triggers: Vec<SavedTrigger>,
) -> Result<Vec<(String, Secret<String>)>, Error> {
    let (org, id) = (&automation.org, &automation.id);
    let sql = "SELECT id, kind FROM triggers WHERE org_id = $1 AND automation_id = $2";
    let stored = all(tx.query(sql, &vals![org.as_str(), id.as_str()]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.text()?, columns.parsed(TriggerType::parse)?))
    })?;
    for (trigger, kind) in &stored {
        if !triggers.iter().any(|saved| saved.id == *trigger && saved.kind == *kind) {
            let params = vals![org.as_str(), id.as_str(), trigger.as_str()];
            tx.exec("DELETE FROM triggers WHERE org_id = $1 AND automation_id = $2 AND id = $3", &params).await?;
            tx.exec("DELETE FROM gatherings WHERE org_id = $1 AND automation_id = $2 AND trigger_id = $3", &params).await?;
        }
    }
    let mut tokens = Vec::new();
    for SavedTrigger { id: trigger, kind, next_due_at, signed_by } in triggers {
        if stored.contains(&(trigger.clone(), kind)) {
            let sql = "UPDATE triggers SET signed_by = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4";
            tx.exec(sql, &vals![signed_by.as_deref(), org.as_str(), id.as_str(), trigger.as_str()]).await?;
            start_from_now(tx, org, id, &trigger, next_due_at).await?;
            continue;
        }
        let token = (kind == TriggerType::Webhook && signed_by.is_none()).then(|| draw_token(&*store.random, "hook"));
        let hash = token.as_ref().map(|token| hash_of(store, token.expose()));
        let high_water = (kind == TriggerType::Schedule).then(|| tx.now());
        let sql =
            "INSERT INTO triggers (org_id, automation_id, id, kind, enabled, enabled_at, next_due_at, high_water, token_hash, signed_by)
                   VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9)";
        let params = vals![
            org.as_str(),
            id.as_str(),
            trigger.as_str(),
            kind.as_str(),
            tx.now(),
            next_due_at,
            high_water,
            hash,
            signed_by.as_deref()
        ];
        tx.exec(sql, &params).await?;
        tokens.extend(token.map(|token| (trigger, token)));
    }
    Ok(tokens)
}

/// A schedule that was edited or enabled starts from now: what it missed before is not caught up.
async fn start_from_now(
    tx: &mut Tx,
    org: &OrgId,
    automation: &AutomationId,
    trigger: &str,
    next_due_at: Option<Timestamp>,
) -> Result<(), Error> {
    let sql = "UPDATE triggers SET next_due_at = $1, high_water = CASE WHEN high_water > $2 THEN high_water ELSE $2 END
               WHERE org_id = $3 AND automation_id = $4 AND id = $5 AND kind = 'schedule'";
    tx.exec(sql, &vals![next_due_at, tx.now(), org.as_str(), automation.as_str(), trigger]).await.map(|_| ())
}

async fn go_on(store: &Store, tx: &mut Tx, org: &OrgId, automation: &AutomationId, trigger: &str, from_now: FromNow) -> Result<(), Error> {
    start_from_now(tx, org, automation, trigger, from_now.next_due_at).await?;
    match from_now.left_out {
        Some(ticks) => insert_skipped(store, tx, SkippedRow { org, automation, trigger, ticks }).await,
        None => Ok(()),
    }
}

async fn pass_in(store: &Store, tx: &mut Tx, passed: PassedTicks) -> Result<bool, Error> {
    let PassedTicks { org, automation, trigger, from, high_water, next_due_at, skipped, mended } = passed;
    let sql = "UPDATE triggers SET high_water = $1, next_due_at = $2 WHERE org_id = $3 AND automation_id = $4 AND id = $5
               AND (high_water = $6 OR high_water IS NULL AND $6 IS NULL)";
    let params = vals![high_water, next_due_at, org.as_str(), automation.as_str(), trigger.as_str(), from];
    if tx.exec(sql, &params).await? == 0 {
        return Ok(false);
    }
    for ticks in skipped {
        insert_skipped(store, tx, SkippedRow { org: &org, automation: &automation, trigger: &trigger, ticks }).await?;
    }
    match mended {
        Some(Mended::HighWater) => {
            let body = json!({ "automation_id": automation, "trigger_id": trigger, "was": from, "is": high_water }).to_string();
            tell(store, tx, &org, "automation.clock_corrected", automation.to_string(), body).await?;
        }
        Some(what @ Mended::NextDue) => {
            let body = json!({ "automation_id": automation, "trigger_id": trigger, "what": what.as_str() }).to_string();
            tell(store, tx, &org, "automation.mended", automation.to_string(), body).await?;
        }
        None => {}
    }
    Ok(true)
}

pub(crate) async fn find_in(tx: &mut Tx, org: &OrgId, automation: &AutomationId) -> Result<Option<Automation>, Error> {
    let sql = concat!(select_automation!(), " AND id = $2");
    only(tx.query(sql, &vals![org.as_str(), automation.as_str()]).await?, read_automation)
}

async fn record(store: &Store, tx: &mut Tx, automation: &Automation, by: &UserId, event: &'static str) -> Result<(), Error> {
    let Automation { id, version, definition, status, .. } = automation;
    let change = RuleChange::AutomationSet { automation: id.clone(), version: *version, definition: *definition, status: *status };
    let told = RuleEvent { name: event, key: id.to_string() };
    rules::record(store, tx, &automation.org, Some(PrincipalId::User(by.clone())), change, told).await.map(|_| ())
}

const fn event_of(status: AutomationStatus) -> &'static str {
    match status {
        AutomationStatus::Active => "automation.resumed",
        AutomationStatus::Paused => "automation.paused",
        AutomationStatus::Archived => "automation.archived",
    }
}

fn hash_of(store: &Store, token: &str) -> String {
    Digest::new(store.keychain.token_hash(token)).to_string()
}

fn read_automation(row: Row) -> Result<Automation, Error> {
    let mut columns = Columns::of(row);
    Ok(Automation {
        id: columns.id()?,
        org: columns.id()?,
        space: columns.id()?,
        name: columns.text()?,
        status: columns.parsed(AutomationStatus::parse)?,
        version: version_of(columns.int()?),
        definition: columns.parsed(Digest::parse)?,
        creator: columns.id()?,
        created_at: columns.time()?,
        changed_at: columns.time()?,
    })
}

fn version_of(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

fn read_version(row: Row) -> Result<AutomationVersion, Error> {
    let mut columns = Columns::of(row);
    let (version, definition) = (version_of(columns.int()?), columns.parsed(Digest::parse)?);
    Ok(AutomationVersion { version, definition, saved_by: columns.id()?, saved_at: columns.time()? })
}

fn read_trigger(row: Row) -> Result<Trigger, Error> {
    read_trigger_and_token(&mut Columns::of(row)).map(|(trigger, _)| trigger)
}

fn read_trigger_and_token(columns: &mut Columns) -> Result<(Trigger, Option<String>), Error> {
    let mut trigger = Trigger {
        org: columns.id()?,
        automation: columns.id()?,
        id: columns.text()?,
        kind: columns.parsed(TriggerType::parse)?,
        is_enabled: columns.int()? == 1,
        disabled_why: columns.text_or_null()?,
        enabled_at: columns.time()?,
        next_due_at: columns.time_or_null()?,
        high_water: columns.time_or_null()?,
        last_fired_at: columns.time_or_null()?,
        has_token: false,
    };
    let token = columns.text_or_null()?;
    trigger.has_token = token.is_some();
    Ok((trigger, token))
}
