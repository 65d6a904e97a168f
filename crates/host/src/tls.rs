//! TLS: the certificate that the listener shows, and its key, read from two files and read again when they change. Files that cannot be
//! used are refused with the reason: a server does not start with them, and one that runs keeps the certificate it has.

use crate::limits::{TLS_FILE_BYTES_MAX, TLS_LOOK_SECONDS, TLS_WARNING_SECONDS};
use countersign_core::{Clock, Timestamp};
use parking_lot::{Mutex, RwLock};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode as _;

/// Offered in this order; a client that names neither gets HTTP/1.1.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files that an operator names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate in PEM, followed by those that lead from it to the root.
    pub cert: PathBuf,
    /// Its private key in PEM, without a passphrase.
    pub key: PathBuf,
}

/// Why the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("`{path}` cannot be read: {message}", path = path.display())]
    Unreadable { path: PathBuf, message: String },
    #[error("`{path}` holds no certificate in PEM: {message}", path = path.display())]
    NoCertificate { path: PathBuf, message: String },
    #[error("`{path}` holds no private key in PEM without a passphrase: {message}", path = path.display())]
    NoKey { path: PathBuf, message: String },
    #[error("the key in `{key}` is not the key of the certificate in `{cert}`", key = key.display(), cert = cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("the certificate in `{path}` has expired: it was valid until {until}", path = path.display())]
    Expired { path: PathBuf, until: Timestamp },
    #[error("the certificate in `{path}` is not valid before {from}", path = path.display())]
    NotYetValid { path: PathBuf, from: Timestamp },
    #[error("the certificate in `{cert}` and the key in `{key}` cannot be used: {message}", cert = cert.display(), key = key.display())]
    Unusable { cert: PathBuf, key: PathBuf, message: String },
}

/// What a look at the files showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    Unchanged,
    /// New connections get the new certificate, which is valid until then.
    Renewed(Timestamp),
    /// The new files cannot be used, and the certificate stays. This is said once for each change of the files.
    Refused(TlsError),
}

/// The certificate of a listener.
pub struct Tls {
    files: TlsFiles,
    shown: Arc<Shown>,
    config: Arc<ServerConfig>,
    seen: Mutex<Seen>,
}

/// What is known of the files since the last look.
struct Seen {
    /// Of the files that are shown.
    marks: Marks,
    /// Of files that cannot be used, and why. They are read again at every look: a file that is still being written can have the same mark
    /// before and after.
    refused: Option<(Marks, TlsError)>,
    until: Timestamp,
    has_warned: bool,
}

/// Tells one state of a file from another without its content. A file that is replaced, also behind a link, is another file.
type Mark = (u64, u64, i64, i64);
type Marks = [Option<Mark>; 2];

impl Tls {
    /// Reads the files for the first time.
    pub fn open(files: TlsFiles, now: Timestamp) -> Result<Self, TlsError> {
        let marks = marks(&files);
        let (certified, until) = load(&files, now)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(certified))));
        let config = config(&files, Arc::clone(&shown))?;
        Ok(Self { files, shown, config: Arc::new(config), seen: Mutex::new(Seen { marks, refused: None, until, has_warned: false }) })
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reads the files again if they are not those that are shown.
    pub fn look(&self, now: Timestamp) -> Look {
        let mut seen = self.seen.lock();
        let marks = marks(&self.files);
        if marks == seen.marks {
            seen.refused = None;
            return Look::Unchanged;
        }
        match load(&self.files, now) {
            Ok((certified, until)) => {
                *self.shown.0.write() = Arc::new(certified);
                *seen = Seen { marks, refused: None, until, has_warned: false };
                Look::Renewed(until)
            }
            Err(error) => {
                let refused = Some((marks, error.clone()));
                if seen.refused == refused {
                    return Look::Unchanged;
                }
                seen.refused = refused;
                Look::Refused(error)
            }
        }
    }

    /// Whether the certificate ends soon, or has ended; says so once for each certificate.
    fn ends_soon(&self, now: Timestamp) -> Option<Timestamp> {
        let mut seen = self.seen.lock();
        if seen.has_warned || seen.until > now.plus_seconds(TLS_WARNING_SECONDS) {
            return None;
        }
        seen.has_warned = true;
        Some(seen.until)
    }

    /// Looks at the files every few seconds, until the server stops.
    pub async fn keep_fresh(self: Arc<Self>, clock: impl Clock + Copy + 'static, stop: CancellationToken) {
        loop {
            let this = Arc::clone(&self);
            // Files may be on a disk that does not answer, and other requests must not wait for it.
            let looked = tokio::task::spawn_blocking(move || (this.look(clock.now()), this.ends_soon(clock.now()))).await;
            if let Ok((look, ending)) = looked {
                self.tell(&look, ending);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(TLS_LOOK_SECONDS)) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    fn tell(&self, look: &Look, ending: Option<Timestamp>) {
        match look {
            Look::Unchanged => {}
            Look::Renewed(until) => tracing::info!(%until, cert = %self.files.cert.display(), "the certificate was replaced"),
            Look::Refused(error) => tracing::error!(%error, "the new certificate cannot be used; the old one stays"),
        }
        if let Some(until) = ending {
            tracing::warn!(%until, cert = %self.files.cert.display(), "the certificate ends soon, or has ended: put a new one in its place");
        }
    }
}

/// Gives each new connection the certificate of that moment.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

fn config(files: &TlsFiles, shown: Arc<Shown>) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable(files, &error))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(shown);
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Reads both files and checks that they belong together and are valid now. Returns until when.
fn load(files: &TlsFiles, now: Timestamp) -> Result<(CertifiedKey, Timestamp), TlsError> {
    let (cert, key) = (read(&files.cert)?, read(&files.key)?);
    let no_certificate = |message: String| TlsError::NoCertificate { path: files.cert.clone(), message };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&cert).collect::<Result<_, _>>().map_err(|error| no_certificate(error.to_string()))?;
    let first = chain.first().ok_or_else(|| no_certificate("no items found".to_owned()))?;
    let (from, until) = validity(first).map_err(no_certificate)?;
    let key =
        PrivateKeyDer::from_pem_slice(&key).map_err(|error| TlsError::NoKey { path: files.key.clone(), message: error.to_string() })?;
    let certified = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).map_err(|error| {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            TlsError::Mismatch { cert: files.cert.clone(), key: files.key.clone() }
        } else {
            unusable(files, &error)
        }
    })?;
    if now >= until {
        return Err(TlsError::Expired { path: files.cert.clone(), until });
    }
    if now < from {
        return Err(TlsError::NotYetValid { path: files.cert.clone(), from });
    }
    Ok((certified, until))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |message: String| TlsError::Unreadable { path: path.to_owned(), message };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(TLS_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > TLS_FILE_BYTES_MAX {
        return Err(unreadable(format!("it is larger than {TLS_FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// From when until when a certificate is valid.
fn validity(certificate: &CertificateDer<'_>) -> Result<(Timestamp, Timestamp), String> {
    let parsed = x509_cert::Certificate::from_der(certificate.as_ref()).map_err(|error| error.to_string())?;
    let validity = parsed.tbs_certificate.validity;
    let at = |time: x509_cert::time::Time| Timestamp::default().plus_seconds(time.to_unix_duration().as_secs());
    Ok((at(validity.not_before), at(validity.not_after)))
}

fn marks(files: &TlsFiles) -> Marks {
    [&files.cert, &files.key].map(|path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    })
}

fn unusable(files: &TlsFiles, error: &rustls::Error) -> TlsError {
    TlsError::Unusable { cert: files.cert.clone(), key: files.key.clone(), message: error.to_string() }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
