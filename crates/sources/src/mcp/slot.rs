//! Where the answer to one request is put, as the server wrote it. The MCP library would turn an answer into types that drop what they do
//! not know, so it gets only a stub (`wire.rs`).

use super::budget::Taken;
use countersign_core::effect::Progress;
use countersign_core::source::Error;
use parking_lot::Mutex;
use std::sync::Arc;

/// What came of a request.
#[derive(Debug)]
pub(super) enum Answer {
    Result(Raw),
    /// A JSON-RPC error: the object.
    Error(Raw),
    /// There is no answer that could be used.
    Failed(Error),
}

/// JSON text, counted in the budget for as long as it is held.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) text: String,
    pub(super) taken: Taken,
}

/// One request under way. It travels with the request through the MCP library, and ends with whoever waits for the answer.
#[derive(Debug)]
pub(super) struct Slot {
    answer: Mutex<Option<Answer>>,
    progress: Option<Progress>,
}

/// A slot in the extensions of a request.
#[derive(Clone, Debug)]
pub(super) struct InSlot(pub(super) Arc<Slot>);

/// In the extensions of a request that only reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads;

impl Slot {
    pub(super) fn new(progress: Option<Progress>) -> Arc<Self> {
        Arc::new(Self { answer: Mutex::default(), progress })
    }

    /// The first answer counts.
    pub(super) fn put(&self, answer: Answer) {
        self.answer.lock().get_or_insert(answer);
    }

    pub(super) fn take(&self) -> Option<Answer> {
        self.answer.lock().take()
    }

    pub(super) fn tell(&self, line: &str) {
        if let Some(progress) = &self.progress {
            progress.tell(line);
        }
    }
}
