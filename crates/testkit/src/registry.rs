//! A registry of sources that a test adds to an org and removes again while everything runs.

use crate::FakeSource;
use countersign_core::source::{OrgSources, Source, SourceRegistry};
use countersign_core::{Future, OrgId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Clones share everything, so a test keeps one and passes on the others.
#[derive(Clone, Default)]
pub struct FakeRegistry(Arc<Mutex<HashMap<OrgId, OrgSources>>>);

impl FakeRegistry {
    pub fn add(&self, org: &OrgId, source: FakeSource) {
        let mut orgs = self.0.lock();
        let sources = orgs.entry(org.clone()).or_default();
        *sources = Arc::new(sources.iter().map(Arc::clone).chain([Arc::new(source) as Arc<dyn Source>]).collect());
    }

    pub fn remove_all(&self, org: &OrgId) {
        self.0.lock().remove(org);
    }
}

impl SourceRegistry for FakeRegistry {
    fn sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, OrgSources> {
        // The same value is returned until it changes, also for an org without sources.
        Box::pin(std::future::ready(Arc::clone(self.0.lock().entry(org.clone()).or_default())))
    }
}
