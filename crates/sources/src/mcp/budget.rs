//! How many bytes of one server's messages are held at once.

use crate::limits::MCP_HELD_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that are held. Clones share one budget.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

/// A part of the budget; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    budget: Budget,
    bytes: usize,
}

/// The server sends more at once than is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budget {
    pub(super) fn nothing(&self) -> Taken {
        Taken { budget: self.clone(), bytes: 0 }
    }

    pub(super) fn take(&self, bytes: usize) -> Result<Taken, Exhausted> {
        let mut taken = self.nothing();
        taken.grow(bytes)?;
        Ok(taken)
    }
}

impl Taken {
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let before = self.budget.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > MCP_HELD_BYTES_MAX {
            self.shrink(bytes);
            return Err(Exhausted);
        }
        Ok(())
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_and_no_more_is_given_than_there_is() {
        let budget = Budget::default();
        let mut first = budget.take(MCP_HELD_BYTES_MAX - 1).unwrap();
        assert_eq!(first.grow(2), Err(Exhausted));
        assert_eq!(first.grow(1), Ok(()));
        assert_eq!(budget.take(1).err(), Some(Exhausted));
        first.shrink(10);
        let second = budget.take(10).unwrap();
        drop((first, second));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
        assert!(budget.take(MCP_HELD_BYTES_MAX).is_ok());
    }
}
