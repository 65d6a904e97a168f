//! Checks an org's own policies before they are saved, and describes the vocabulary they are written in.

use crate::error::Error;
use crate::pipeline::Pipeline;
use countersign_core::OrgId;
use countersign_core::consent::{action_of, is_purpose};
use countersign_core::policies::PolicyTexts;
use policy::{Policies, PolicyProblem};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The purposes that people can consent to.
pub struct KnownPurposes {
    actions: BTreeSet<String>,
    /// The purposes that the org's policies name.
    pub of_policies: BTreeSet<String>,
}

impl KnownPurposes {
    pub fn contains(&self, purpose: &str) -> bool {
        let is_known = |action: &str| match action.strip_suffix(".*") {
            Some(source) => self.actions.iter().any(|action| action.split('.').next() == Some(source)),
            None => self.actions.contains(action),
        };
        self.of_policies.contains(purpose) || action_of(purpose).is_some_and(is_known)
    }

    /// The same without the actions of these sources, for whom they do not exist.
    #[must_use]
    pub fn without(mut self, sources: &BTreeSet<String>) -> Self {
        self.actions.retain(|action| action.split('.').next().is_none_or(|source| !sources.contains(source)));
        self
    }
}

impl Pipeline {
    /// Compiles policies without saving them; problems name their place in the text.
    pub async fn compile(&self, org: &OrgId, texts: PolicyTexts) -> Result<Result<Arc<Policies>, Vec<PolicyProblem>>, Error> {
        let actions = self.catalogue().all_actions(org).await;
        let compiled = tokio::task::spawn_blocking(move || policy::cedar::compile(&texts, &actions)).await;
        compiled.map(|compiled| compiled.map(Arc::new)).map_err(|error| Error::Internal { message: error.to_string() })
    }

    /// Every purpose for which a consent can have an effect: those of the org's actions, and those that its policies name.
    pub async fn known_purposes(&self, org: &OrgId) -> Result<KnownPurposes, Error> {
        let texts = &self.ledger().find_policies(org).await?.texts;
        // Splitting at quotes finds every purpose: a purpose has no character that needs an escape, and no text outside a string looks like
        // one.
        let named = [&texts.rbac, &texts.abac, &texts.consent, &texts.space].into_iter().flat_map(|text| text.split('"'));
        let of_policies = named.filter(|text| is_purpose(text)).map(str::to_owned).collect();
        let actions = self.catalogue().all_actions(org).await.iter().map(|action| action.id.to_string()).collect();
        Ok(KnownPurposes { actions, of_policies })
    }

    /// The vocabulary that policies are written in: every action and the facts of a call.
    pub async fn policy_schema(&self, org: &OrgId) -> String {
        policy::cedar::schema(&self.catalogue().all_actions(org).await)
    }
}
