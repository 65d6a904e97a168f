//! Where the bytes of artifacts are: a folder, or a bucket elsewhere. An artifact fits into memory, so bytes come and go whole.

use super::Error;
use crate::Future;

/// Bytes under keys. A key is made by us (`Artifact::key`), and its bytes never change.
pub trait Blobs: Send + Sync {
    /// Keeps the bytes durably before it returns. The same key again replaces them.
    fn put<'a>(&'a self, key: &'a str, bytes: Vec<u8>) -> Future<'a, Result<(), Error>>;
    /// `None` if there is nothing under this key.
    fn get<'a>(&'a self, key: &'a str) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// Removing what is not there is no error: whoever removes may have been interrupted before.
    fn delete<'a>(&'a self, key: &'a str) -> Future<'a, Result<(), Error>>;
}
