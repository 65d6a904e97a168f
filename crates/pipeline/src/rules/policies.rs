//! An org's own policies, before they are saved, and the vocabulary they are written in.

use crate::error::Error;
use crate::pipeline::Pipeline;
use countersign_core::OrgId;
use countersign_core::policies::PolicyTexts;
use policy::{Policies, PolicyProblem};
use std::sync::Arc;

impl Pipeline {
    /// Compiles policies as if they were saved: the problems say where, and nothing is kept.
    pub async fn compile(&self, org: &OrgId, texts: PolicyTexts) -> Result<Result<Arc<Policies>, Vec<PolicyProblem>>, Error> {
        let actions = self.catalogue().all_actions(org).await;
        let compiled = tokio::task::spawn_blocking(move || policy::cedar::compile(&texts, &actions)).await;
        compiled.map(|compiled| compiled.map(Arc::new)).map_err(|error| Error::Internal { message: error.to_string() })
    }

    /// The vocabulary policies are written in: every action and what is known of a call.
    pub async fn policy_schema(&self, org: &OrgId) -> String {
        policy::cedar::schema(&self.catalogue().all_actions(org).await)
    }
}
