//! The conditions that grants put on params. Each is compiled once: a call should not pay for that.

use crate::catalogue::Schema;
use countersign_core::{Grant, GrantId};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// How many compiled conditions are kept. With more, all are dropped and compiled anew when they are needed.
const KEPT_MAX: usize = 1_000;

/// The conditions of grants that were in use, compiled.
#[derive(Default)]
pub(crate) struct Conditions {
    known: Mutex<HashMap<GrantId, Arc<Schema>>>,
}

impl Conditions {
    /// Whether the params meet the grant's condition. One that cannot be checked, or only at too high a cost, is not met.
    pub(crate) async fn are_met(&self, grant: &Grant, params: &Value) -> bool {
        let Some(condition) = &grant.terms.condition else {
            return true;
        };
        let Some(schema) = self.compiled(&grant.id, condition).await else {
            return false;
        };
        schema.mismatches(params).await.is_ok_and(|found| found.is_empty())
    }

    /// It is compiled on a thread that serves nobody, because that can take long.
    async fn compiled(&self, grant: &GrantId, condition: &Value) -> Option<Arc<Schema>> {
        let known = self.known.lock().get(grant).filter(|schema| schema.is_of(condition)).cloned();
        if known.is_some() {
            return known;
        }
        let text = condition.clone();
        let schema = tokio::task::spawn_blocking(move || Schema::compile(&text).ok().map(Arc::new)).await.ok().flatten()?;
        let mut known = self.known.lock();
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(grant.clone(), Arc::clone(&schema));
        Some(schema)
    }
}
