//! The org's policies. Every version is kept, so that a decision made under it can be made again.

use crate::db::{Columns, Row, vals};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page, seal};
use countersign_core::decision::Gate;
use countersign_core::policies::{PoliciesInForce, PolicyTexts};
use countersign_core::{Digest, OrgId, PrincipalId, Timestamp};
use receipt::body::RuleChange;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

macro_rules! select_policies {
    () => {
        "SELECT version, rbac, abac, consent, space, set_by, set_at FROM policies WHERE org_id = $1"
    };
}
pub(crate) use select_policies;

/// One version of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    pub policies: PoliciesInForce,
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
}

impl Store {
    /// Makes these the org's policies. The caller must have compiled them: the store accepts any text.
    pub async fn set_policies(&self, org: &OrgId, texts: PolicyTexts, by: &PrincipalId) -> Result<i64, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    // The version that `record` assigns below.
                    let version = seal::rules_version(tx, &org).await? + 1;
                    let PolicyTexts { rbac, abac, consent, space } = &texts;
                    tx.exec(
                        "INSERT INTO policies (org_id, version, rbac, abac, consent, space, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                        &vals![
                            org.as_str(),
                            version,
                            rbac.as_str(),
                            abac.as_str(),
                            consent.as_str(),
                            space.as_str(),
                            by.to_string(),
                            tx.now()
                        ],
                    )
                    .await?;
                    let digests = digests_of(&texts);
                    let told = RuleEvent { name: "policy.changed", key: "policies".into() };
                    rule_log::record(&store, tx, &org, Some(by), RuleChange::PoliciesSet { digests }, told).await
                })
            })
            .await
    }

    /// Lists every version, newest first.
    pub async fn list_policy_versions(&self, org: &OrgId, request: &PageRequest) -> Result<Page<PolicyVersion>, Error> {
        let before = request.after.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(i64::MAX);
        let sql = concat!(select_policies!(), " AND version < $2 ORDER BY version DESC LIMIT $3");
        let rows = self.db.read(sql, &vals![org.as_str(), before, i64::from(request.limit) + 1]).await?;
        page(rows, request.limit, read_policies, |version| version.policies.version.to_string())
    }
}

/// The digest of each gate's text, as the audit log holds it.
pub(crate) fn digests_of(texts: &PolicyTexts) -> BTreeMap<Gate, Digest> {
    Gate::ALL.into_iter().filter_map(|gate| texts.text_of(gate).map(|text| (gate, sha256(text)))).collect()
}

fn sha256(text: &str) -> Digest {
    Digest::new(Sha256::digest(text).into())
}

pub(crate) fn read_policies(row: Row) -> Result<PolicyVersion, Error> {
    let mut columns = Columns::of(row);
    let version = columns.int()?;
    let texts = PolicyTexts { rbac: columns.text()?, abac: columns.text()?, consent: columns.text()?, space: columns.text()? };
    let policies = PoliciesInForce { version, texts };
    Ok(PolicyVersion { policies, set_by: columns.parsed(PrincipalId::parse)?, set_at: columns.time()? })
}
