//! Where the bytes of artifacts are, behind the port `core::ports::Blobs`: a folder of this machine, or a bucket of a server that speaks S3.
//! Keys are made by us, so none leads out of the folder or the prefix.

use crate::Error as SetupError;
use crate::limits::{BLOB_REQUEST_SECONDS, HTTP_CONNECT_MS};
use countersign_core::limits::ARTIFACT_BYTES_MAX;
use countersign_core::ports::{Blobs, Error};
use countersign_core::{Future, Secret};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Further attempts of one request. A request under a key of ours can be repeated: it has the same bytes.
const RETRIES: usize = 3;

/// A bucket, and who we are there.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub name: String,
    /// What every key begins with; empty: nothing.
    pub prefix: String,
    /// Where the server is, if it is not Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Absent: what the variables `AWS_…` or the machine say.
    pub login: Option<BucketLogin>,
}

#[derive(Clone, Debug)]
pub struct BucketLogin {
    pub access_key_id: String,
    pub secret_access_key: Secret<String>,
}

/// The place of all artifacts.
#[derive(Debug)]
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    prefix: String,
}

impl ObjectBlobs {
    /// Keeps bytes in this folder, which only its owner may read. It is made if it is missing.
    pub fn in_folder(folder: &Path) -> Result<Self, SetupError> {
        let unusable = |message: String| SetupError::Artifacts { place: folder.display().to_string(), message };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| unusable(error.to_string()))?;
        let files = LocalFileSystem::new_with_prefix(folder).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { store: Arc::new(files.with_fsync(true)), prefix: String::new() })
    }

    /// Keeps bytes in a bucket. Requires an installed rustls provider. Nothing is asked yet: a bucket that is not there is noticed at its first use.
    pub fn in_bucket(bucket: Bucket) -> Result<Self, SetupError> {
        let Bucket { name, prefix, endpoint, region, login } = bucket;
        let unusable = |message: String| SetupError::Artifacts { place: format!("s3://{name}"), message };
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(unusable("no rustls provider is installed".to_owned()));
        }
        let is_plain = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let mut builder = match login {
            Some(login) => AmazonS3Builder::new()
                .with_access_key_id(login.access_key_id)
                .with_secret_access_key(login.secret_access_key.expose().clone()),
            None => AmazonS3Builder::from_env(),
        };
        // Each of these wins over a variable.
        if let Some(endpoint) = endpoint {
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        if let Some(region) = region {
            builder = builder.with_region(region);
        }
        let retry =
            RetryConfig { max_retries: RETRIES, retry_timeout: Duration::from_secs(BLOB_REQUEST_SECONDS), ..RetryConfig::default() };
        let client = client(is_plain).map_err(|error| unusable(error.to_string()))?;
        // Not every server that speaks S3 knows the request that removes many keys at once.
        let builder = builder.with_disable_bulk_delete(true);
        let built = builder.with_bucket_name(name.clone()).with_retry(retry).with_http_connector(Connector(client)).build();
        Ok(Self { store: Arc::new(built.map_err(|error| unusable(error.to_string()))?), prefix })
    }

    fn key(&self, key: &str) -> Key {
        if self.prefix.is_empty() { Key::from(key) } else { Key::from(format!("{}/{key}", self.prefix)) }
    }
}

/// The HTTP client of buckets: like all of ours it uses no proxy and follows no redirect.
fn client(is_plain: bool) -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(BLOB_REQUEST_SECONDS))
        .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS));
    // Without https, a machine without certificates must work too.
    if is_plain { builder.tls_certs_only([]).build() } else { builder.build() }
}

/// Hands our client to the library.
#[derive(Debug)]
struct Connector(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl Blobs for ObjectBlobs {
    fn put<'a>(&'a self, key: &'a str, bytes: Vec<u8>) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            let key = self.key(key);
            let put = in_time(self.store.put(&key, PutPayload::from(bytes))).await?;
            put.map(|_| ()).map_err(|error| away(&error))
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let key = self.key(key);
            let read = async {
                let found = self.store.get(&key).await?;
                // Nothing of ours is as long: it was put there by somebody else.
                if found.meta.size > ARTIFACT_BYTES_MAX as u64 {
                    return Ok(None);
                }
                found.bytes().await.map(|bytes| Some(bytes.to_vec()))
            };
            match in_time(read).await? {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                found => found.map_err(|error| away(&error)),
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            let key = self.key(key);
            match in_time(self.store.delete(&key)).await? {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                deleted => deleted.map_err(|error| away(&error)),
            }
        })
    }
}

/// One request with all its attempts.
async fn in_time<T>(request: impl std::future::Future<Output = object_store::Result<T>> + Send) -> Result<object_store::Result<T>, Error> {
    let patience = Duration::from_secs(BLOB_REQUEST_SECONDS);
    let silent = |_| Error::Unavailable { message: format!("artifacts: no answer within {BLOB_REQUEST_SECONDS} s") };
    tokio::time::timeout(patience, request).await.map_err(silent)
}

fn away(error: &object_store::Error) -> Error {
    Error::Unavailable { message: format!("artifacts: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "org_0123/art_0123";

    async fn come_and_go(blobs: &ObjectBlobs) {
        assert_eq!(blobs.get(KEY).await, Ok(None));
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        blobs.put(KEY, bytes.clone()).await.unwrap();
        assert_eq!(blobs.get(KEY).await, Ok(Some(bytes)));
        blobs.put(KEY, b"again".to_vec()).await.unwrap();
        assert_eq!(blobs.get(KEY).await, Ok(Some(b"again".to_vec())), "an interrupted put is repeated");
        blobs.put(KEY, vec![0; ARTIFACT_BYTES_MAX + 1]).await.unwrap();
        assert_eq!(blobs.get(KEY).await, Ok(None), "nothing of ours is as long");
        blobs.delete(KEY).await.unwrap();
        assert_eq!(blobs.get(KEY).await, Ok(None));
        blobs.delete(KEY).await.unwrap();
    }

    #[tokio::test]
    async fn bytes_come_and_go_in_a_folder_that_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("artifacts");
        come_and_go(&ObjectBlobs::in_folder(&folder).unwrap()).await;
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        // What was kept is found again by the next server.
        ObjectBlobs::in_folder(&folder).unwrap().put(KEY, b"kept".to_vec()).await.unwrap();
        assert_eq!(ObjectBlobs::in_folder(&folder).unwrap().get(KEY).await, Ok(Some(b"kept".to_vec())));
        assert!(folder.join(KEY).is_file());
    }

    fn bucket(name: &str, prefix: &str) -> ObjectBlobs {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let login = BucketLogin { access_key_id: "test".to_owned(), secret_access_key: Secret::new("test".to_owned()) };
        let (endpoint, region) = (Some(testkit::bucket::endpoint()), Some("us-east-1".to_owned()));
        ObjectBlobs::in_bucket(Bucket { name: name.to_owned(), prefix: prefix.to_owned(), endpoint, region, login: Some(login) }).unwrap()
    }

    #[tokio::test]
    async fn bytes_come_and_go_in_a_bucket() {
        come_and_go(&bucket(testkit::bucket::NAME, "come/and/go")).await;
    }

    #[tokio::test]
    async fn a_prefix_is_a_place_of_its_own() {
        let (one, other) = (bucket(testkit::bucket::NAME, "one"), bucket(testkit::bucket::NAME, "other"));
        one.put(KEY, b"one".to_vec()).await.unwrap();
        assert_eq!(other.get(KEY).await, Ok(None));
        assert_eq!(bucket(testkit::bucket::NAME, "").get(&format!("one/{KEY}")).await, Ok(Some(b"one".to_vec())));
    }

    #[tokio::test]
    async fn a_bucket_that_is_not_there_is_away_and_loses_nothing() {
        let refused = bucket("nobody-made-this", "").put(KEY, b"x".to_vec()).await.unwrap_err();
        assert!(refused.is_transient(), "{refused}");
    }
}
