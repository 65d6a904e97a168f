//! What is being walked in this process: recovery leaves it alone.

use crate::Pipeline;
use countersign_core::InvocationId;
use std::collections::hash_map::Entry;

/// Marks an invocation as being walked in this process, for as long as it is.
pub(crate) struct Walking {
    pipeline: Pipeline,
    id: InvocationId,
}

impl Walking {
    pub(crate) fn begin(pipeline: &Pipeline, id: &InvocationId) -> Self {
        *pipeline.inner.walking.lock().entry(id.clone()).or_default() += 1;
        Self { pipeline: pipeline.clone(), id: id.clone() }
    }

    /// The same, unless it is being walked already.
    pub(crate) fn begin_alone(pipeline: &Pipeline, id: &InvocationId) -> Option<Self> {
        match pipeline.inner.walking.lock().entry(id.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(nobody) => {
                nobody.insert(1);
                Some(Self { pipeline: pipeline.clone(), id: id.clone() })
            }
        }
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        if let Entry::Occupied(mut walking) = self.pipeline.inner.walking.lock().entry(self.id.clone()) {
            *walking.get_mut() -= 1;
            if *walking.get() == 0 {
                walking.remove();
            }
        }
    }
}
