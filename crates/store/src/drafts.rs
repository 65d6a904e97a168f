//! Drafts of automations: definitions that wait for a person to save them. Nothing runs by them, so the audit log does not know them.

use crate::db::{Columns, Row, Val, count, only, vals};
use crate::limits::{DRAFT_SECONDS, DRAFTS_MAX};
use crate::orgs::not_among;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::automation::{Automation, Draft};
use countersign_core::{AutomationId, Digest, DraftId, OrgId, PrincipalId, SpaceId, random_bytes};
use serde_json::Value;
use std::collections::BTreeSet;

macro_rules! select_draft {
    () => {
        "SELECT id, org_id, space_id, automation_id, replaces, body, made_by, created_at, expires_at FROM automation_drafts WHERE org_id = $1"
    };
}

impl Store {
    /// Keeps a definition for a person who may save it within a day: as a new version of this automation, or else as a new one. `None` if as
    /// many drafts in the space as one maker may have there are theirs already.
    pub async fn add_draft(
        &self,
        org: &OrgId,
        space: &SpaceId,
        automation: Option<&Automation>,
        definition: Value,
        by: &PrincipalId,
    ) -> Result<Option<Draft>, Error> {
        let (store, owned, by) = (self.clone(), (org.clone(), space.clone()), by.clone());
        let (automation, replaces) = automation.map(|automation| (automation.id.clone(), automation.definition)).unzip();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let (org, space) = owned;
                    let (created_at, expires_at) = (tx.now(), tx.now().plus_seconds(DRAFT_SECONDS));
                    let sql = "SELECT count(*) FROM automation_drafts
                               WHERE org_id = $1 AND space_id = $2 AND made_by = $3 AND expires_at > $4";
                    let theirs = count(tx.query(sql, &vals![org.as_str(), space.as_str(), by.to_string(), created_at]).await?)?;
                    if theirs >= DRAFTS_MAX {
                        return Ok(None);
                    }
                    let id = DraftId::new(created_at, random_bytes(&*store.random));
                    let sql =
                        "INSERT INTO automation_drafts (org_id, id, space_id, automation_id, replaces, body, made_by, created_at, expires_at)
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
                    let params = vals![
                        org.as_str(),
                        id.as_str(),
                        space.as_str(),
                        automation.as_ref().map(AutomationId::as_str),
                        replaces.map(|replaces| replaces.to_string()),
                        definition.to_string(),
                        by.to_string(),
                        created_at,
                        expires_at
                    ];
                    tx.exec(sql, &params).await?;
                    Ok(Some(Draft { id, org, space, automation, replaces, definition, made_by: by, created_at, expires_at }))
                })
            })
            .await
    }

    /// A draft that has not expired.
    pub async fn find_draft(&self, org: &OrgId, draft: &DraftId) -> Result<Option<Draft>, Error> {
        let sql = concat!(select_draft!(), " AND id = $2 AND expires_at > $3");
        only(self.db.read(sql, &vals![org.as_str(), draft.as_str(), self.db.now().await?]).await?, read_draft)
    }

    /// Lists drafts that have not expired, newest first.
    pub async fn list_drafts(&self, org: &OrgId, hidden: &BTreeSet<SpaceId>, request: &PageRequest) -> Result<Page<Draft>, Error> {
        let mut params = vals![org.as_str(), self.db.now().await?, request.after.as_deref().unwrap_or("~")].to_vec();
        let visible = not_among("space_id", hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!("{} AND expires_at > $2 AND id < $3{visible} ORDER BY id DESC LIMIT ${}", select_draft!(), params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_draft, |draft| draft.id.to_string())
    }

    /// Removes a draft that was saved or is not wanted. Returns whether there was one.
    pub async fn drop_draft(&self, org: &OrgId, draft: &DraftId) -> Result<bool, Error> {
        let (org, draft) = (org.clone(), draft.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM automation_drafts WHERE org_id = $1 AND id = $2";
                    Ok(tx.exec(sql, &vals![org.as_str(), draft.as_str()]).await? == 1)
                })
            })
            .await
    }

    /// Removes drafts that nobody saved in time. Returns how many.
    pub async fn forget_drafts(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM automation_drafts WHERE org_id = $1 AND expires_at <= $2";
                    tx.exec(sql, &vals![org.as_str(), tx.now()]).await
                })
            })
            .await
    }
}

fn read_draft(row: Row) -> Result<Draft, Error> {
    let mut columns = Columns::of(row);
    Ok(Draft {
        id: columns.id()?,
        org: columns.id()?,
        space: columns.id()?,
        automation: columns.id_or_null()?,
        replaces: columns.parsed_or_null(Digest::parse)?,
        definition: columns.json()?,
        made_by: columns.parsed(PrincipalId::parse)?,
        created_at: columns.time()?,
        expires_at: columns.time()?,
    })
}
