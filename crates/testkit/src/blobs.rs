//! Bytes of artifacts in memory, which a test can look at and take away.

use countersign_core::Future;
use countersign_core::ports::{Blobs, Error};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Clones share their bytes.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    kept: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    is_away: Arc<AtomicBool>,
    stuck: Arc<Mutex<BTreeSet<String>>>,
}

impl MemoryBlobs {
    /// The keys that have bytes.
    pub fn keys(&self) -> Vec<String> {
        self.kept.lock().keys().cloned().collect()
    }

    /// From now on nothing can be kept or read, or again.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// From now on the bytes under this key cannot be removed.
    pub fn hold_on_to(&self, key: &str) {
        self.stuck.lock().insert(key.to_owned());
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_away.load(Ordering::SeqCst) { Err(Error::Unavailable { message: "the test took it away".into() }) } else { Ok(()) }
    }
}

impl Blobs for MemoryBlobs {
    fn put<'a>(&'a self, key: &'a str, bytes: Vec<u8>) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check()?;
            self.kept.lock().insert(key.to_owned(), bytes);
            Ok(())
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.kept.lock().get(key).cloned())
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check()?;
            if self.stuck.lock().contains(key) {
                return Err(Error::Unavailable { message: "the test holds on to it".into() });
            }
            self.kept.lock().remove(key);
            Ok(())
        })
    }
}
