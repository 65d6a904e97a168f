//! The rules in force, as every call reads them.

use crate::canaries::{SELECT_CANARIES, read_canary};
use crate::consents::{read_consent, select_consent};
use crate::db::{Columns, all, only, vals};
use crate::grants::{add_spent, read_grant, select_grant};
use crate::modes::{read_mode_rows, scope_of};
use crate::orgs::{read_space, select_space};
use crate::policies::{read_policies, select_policies};
use crate::prices::{read_price, select_price};
use crate::switches::{SELECT_SWITCHES, read_switch};
use crate::{Error, Store};
use countersign_core::consent::Consent;
use countersign_core::grant::{Grant, GrantScope};
use countersign_core::policies::PoliciesInForce;
use countersign_core::ports::Rules;
use countersign_core::ports::rules::ModeRows;
use countersign_core::price::PriceRow;
use countersign_core::switch::Switch;
use countersign_core::{ActionId, AutomationId, ConnectionId, Future, OrgId, Session, Space, SpaceId, UserId};
use std::sync::Arc;

const SELECT_VERSION: &str = "SELECT rules_version FROM orgs WHERE org_id = $1";

/// The most grants considered for one call.
const CANDIDATES_MAX: i64 = 50;

impl Rules for Store {
    fn rules_version<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(self.db.read_version(org, SELECT_VERSION))
    }

    fn rules_version_anew<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>> {
        Box::pin(self.db.read_version_anew(org, SELECT_VERSION))
    }

    fn find_space<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<Space>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_space!(), " AND id = $2");
            let params = vals![org.as_str(), space.as_str()];
            let space = self.db.read_remembered(org, sql, &params, |rows| only(rows, read_space)).await?;
            Ok(Option::clone(&space))
        })
    }

    fn find_modes<'a>(
        &'a self,
        org: &'a OrgId,
        automation: Option<&'a AutomationId>,
        action: &'a ActionId,
    ) -> Future<'a, Result<ModeRows, Error>> {
        Box::pin(async move {
            let sql = "SELECT scope, mode, lock, version FROM modes WHERE org_id = $1 AND action = $2 AND scope IN ('org', $3)";
            let params = vals![org.as_str(), action.as_str(), scope_of(automation)];
            self.db.read_remembered(org, sql, &params, read_mode_rows).await.map(|rows| *rows)
        })
    }

    fn list_switches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Switch>>, Error>> {
        Box::pin(async move { self.db.read_remembered(org, SELECT_SWITCHES, &vals![org.as_str()], |rows| all(rows, read_switch)).await })
    }

    fn find_policies<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<PoliciesInForce>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_policies!(), " ORDER BY version DESC LIMIT 1");
            let newest = |rows| Ok(only(rows, read_policies)?.map_or_else(PoliciesInForce::default, |newest| newest.policies));
            self.db.read_remembered(org, sql, &vals![org.as_str()], newest).await
        })
    }

    fn find_purposes<'a>(&'a self, org: &'a OrgId, user: &'a UserId, space: &'a SpaceId) -> Future<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            // Every consent that was not withdrawn. Expiry is checked below, because it writes no row that would end a remembered answer.
            let sql = concat!(select_consent!(), " AND user_id = $2 AND withdrawn_at IS NULL ORDER BY id");
            let params = vals![org.as_str(), user.as_str()];
            let live = self.db.read_remembered(org, sql, &params, |rows| all(rows, read_consent)).await?;
            if live.is_empty() {
                return Ok(Vec::new());
            }
            let now = self.db.now().await?;
            let holds = |consent: &&Consent| {
                consent.expires_at.is_none_or(|at| at > now) && consent.space.as_ref().is_none_or(|only| only == space)
            };
            Ok(live.iter().filter(holds).map(|consent| consent.purpose.clone()).collect())
        })
    }

    fn is_crossing<'a>(&'a self, org: &'a OrgId, from: &'a SpaceId, to: &'a str, action: &'a ActionId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            let sql = "SELECT from_space FROM crossings WHERE org_id = $1 AND from_space = $2 AND to_space = $3 AND action = $4";
            let params = vals![org.as_str(), from.as_str(), to, action.as_str()];
            self.db.read_remembered(org, sql, &params, |rows| Ok(!rows.is_empty())).await.map(|found| *found)
        })
    }

    fn find_price<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<PriceRow>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_price!(), " AND action = $2");
            let params = vals![org.as_str(), action.as_str()];
            let found = self.db.read_remembered(org, sql, &params, |rows| only(rows, read_price)).await?;
            Ok(found.as_ref().as_ref().map(|set| set.row.clone()))
        })
    }

    fn list_canary_texts<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<String>>, Error>> {
        Box::pin(async move {
            let texts = |rows| all(rows, |row| read_canary(row).map(|canary| canary.text));
            self.db.read_remembered(org, SELECT_CANARIES, &vals![org.as_str()], texts).await
        })
    }

    fn find_grants<'a>(&'a self, session: &'a Session, action: &'a ActionId) -> Future<'a, Result<Vec<Grant>, Error>> {
        Box::pin(async move {
            let automation = session.automation.clone().map(GrantScope::Automation);
            let now = self.db.now().await?;
            let sql = concat!(
                select_grant!(),
                " AND state = 'active' AND state IN ('requested', 'active') AND expires_at > $2 AND (calls_max IS NULL OR used < calls_max)
                  AND scope IN ('org', $3, $4) AND (space_id IS NULL OR space_id = $5) AND source IN ('*', $6) AND name IN ('*', $7)
                  ORDER BY expires_at LIMIT $8"
            );
            let params = vals![
                session.org.as_str(),
                now,
                GrantScope::Session(session.id.clone()).to_string(),
                automation.map(|scope| scope.to_string()).unwrap_or_default(),
                session.space.as_str(),
                action.source(),
                action.name(),
                CANDIDATES_MAX
            ];
            let mut grants = all(self.db.read(sql, &params).await?, read_grant)?;
            add_spent(&self.db, &session.org, now, &mut grants).await?;
            // The narrowest grant comes first; of equally narrow ones, the one that expires sooner.
            grants.sort_by_key(|grant| (grant.terms.scope.clone(), grant.terms.covers.action().is_none(), grant.expires_at));
            Ok(grants)
        })
    }

    fn connection_version<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId) -> Future<'a, Result<Option<i64>, Error>> {
        Box::pin(async move {
            let sql = "SELECT version FROM connections WHERE org_id = $1 AND id = $2 AND removed_at IS NULL";
            only(self.db.read(sql, &vals![org.as_str(), connection.as_str()]).await?, |row| Columns::of(row).int())
        })
    }
}
