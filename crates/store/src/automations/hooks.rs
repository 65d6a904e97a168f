//! Webhooks. A caller of one has an automation's id, and beside it a token, of which the hash alone is kept, or a signature.

use super::record;
use super::table::{find_in, read_trigger_and_token, trigger_columns};
use crate::db::{Columns, all, vals};
use crate::limits::HOOK_TOKEN_OVERLAP_SECONDS;
use crate::tokens::draw_token;
use crate::{Error, Store};
use countersign_core::automation::Trigger;
use countersign_core::{AutomationId, Digest, OrgId, Secret, UserId};
use subtle::ConstantTimeEq as _;

impl Store {
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
}

pub(super) fn hash_of(store: &Store, token: &str) -> String {
    Digest::new(store.keychain.token_hash(token)).to_string()
}
