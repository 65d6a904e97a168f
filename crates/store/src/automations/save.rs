//! Saving a definition: a new automation, or a new version of one, with its triggers.

use super::hooks::hash_of;
use super::table::find_in;
use super::ticks::start_from_now;
use super::{SaveAutomation, Saved, SavedTrigger, record};
use crate::archive::{archive_in, digest_of};
use crate::db::{Columns, Tx, all, only, vals};
use crate::limits::AUTOMATIONS_MAX;
use crate::tokens::draw_token;
use crate::{Error, Store};
use countersign_core::automation::{Automation, AutomationStatus, TriggerType};
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::{AutomationId, OrgId, Secret, UserId, random_bytes};

impl Store {
    /// Saves a definition for a person.
    pub async fn save_automation(&self, org: &OrgId, save: SaveAutomation, by: &UserId) -> Result<Saved, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { save_in(&store, tx, &org, save, by).await })).await
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
/// tokens of webhooks that had none.
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
        let token = (kind == TriggerType::Webhook && signed_by.is_none()).then(|| draw_token(&*store.random, "hook"));
        let hash = token.as_ref().map(|token| hash_of(store, token.expose()));
        if stored.contains(&(trigger.clone(), kind)) {
            let sql = "UPDATE triggers SET signed_by = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4";
            tx.exec(sql, &vals![signed_by.as_deref(), org.as_str(), id.as_str(), trigger.as_str()]).await?;
            start_from_now(tx, org, id, &trigger, next_due_at).await?;
            // One that was signed so far has no token.
            let sql = "UPDATE triggers SET token_hash = $1 WHERE org_id = $2 AND automation_id = $3 AND id = $4 AND token_hash IS NULL";
            if let Some(token) = token
                && tx.exec(sql, &vals![hash, org.as_str(), id.as_str(), trigger.as_str()]).await? > 0
            {
                tokens.push((trigger, token));
            }
            continue;
        }
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
