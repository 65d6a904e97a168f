//! An org's own policies, made ready once for each version of them.

use crate::error::Error;
use countersign_core::ledger::Ledger;
use countersign_core::policies::PolicyTexts;
use countersign_core::{Action, Digest, OrgId};
use parking_lot::RwLock;
use policy::Policies;
use std::collections::HashMap;
use std::sync::Arc;

/// The policies of each org, as they were last made ready.
#[derive(Default)]
pub(crate) struct Compiled(RwLock<HashMap<OrgId, Ready>>);

struct Ready {
    /// The version they were made from.
    version: i64,
    /// `None` where there are none.
    policies: Option<Arc<Policies>>,
}

impl Compiled {
    /// The policies in force. Ones that no longer read are an error, which denies: it is never as if there were none.
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

/// What the org's policies say about one action. Whoever verifies a receipt finds the text by its digest.
pub(crate) struct Slice {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

pub(crate) fn slice_of(policies: Option<&Policies>, action: &Action) -> Option<Slice> {
    let text = policies.and_then(|policies| policies.slice_of(action))?;
    Some(Slice { digest: policy::digest::policies(&text), text })
}

/// Off the threads that answer requests: many policies take a while.
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
