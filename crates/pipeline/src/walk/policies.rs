//! An org's own policies, compiled once for each version of them.

use crate::error::Error;
use countersign_core::ledger::Ledger;
use countersign_core::policies::PolicyTexts;
use countersign_core::{Action, Digest, OrgId};
use parking_lot::RwLock;
use policy::Policies;
use std::collections::HashMap;
use std::sync::Arc;

/// The compiled policies of each org.
#[derive(Default)]
pub(crate) struct Compiled(RwLock<HashMap<OrgId, Ready>>);

struct Ready {
    /// The version they were compiled from.
    version: i64,
    /// `None` if the org has no policies.
    policies: Option<Arc<Policies>>,
}

impl Compiled {
    /// The policies in force. Policies that no longer parse are an error, which denies the call: they never count as no policies.
    pub(crate) async fn of(&self, org: &OrgId, ledger: &dyn Ledger) -> Result<Option<Arc<Policies>>, Error> {
        let in_force = ledger.find_policies(org).await?;
        if let Some(ready) = self.0.read().get(org)
            && ready.version == in_force.version
        {
            return Ok(ready.policies.clone());
        }
        let policies = if in_force.texts.is_empty() { None } else { Some(Arc::new(load(in_force.texts.clone()).await?)) };
        self.0.write().insert(org.clone(), Ready { version: in_force.version, policies: policies.clone() });
        Ok(policies)
    }
}

/// The org's policies that concern one action. A verifier of a receipt finds the text by its digest.
pub(crate) struct Slice {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

pub(crate) fn slice_of(policies: Option<&Policies>, action: &Action) -> Option<Slice> {
    let text = policies.and_then(|policies| policies.slice_of(action))?;
    Some(Slice { digest: policy::digest::policies(&text), text })
}

/// Compiles on a blocking thread, not on the threads that answer requests: many policies take a while.
async fn load(texts: PolicyTexts) -> Result<Policies, Error> {
    let loaded = tokio::task::spawn_blocking(move || policy::cedar::load(&texts)).await;
    match loaded {
        Ok(Ok(policies)) => Ok(policies),
        Ok(Err(problems)) => {
            let first = problems.first().map_or_else(String::new, |problem| problem.message.clone());
            Err(Error::Internal { message: format!("the org's policies no longer read: {first}") })
        }
        Err(error) => Err(Error::Internal { message: error.to_string() }),
    }
}
