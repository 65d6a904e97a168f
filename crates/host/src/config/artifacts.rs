//! Where the bytes of artifacts are kept: in the data folder, or in a bucket of a server that speaks S3.

use super::{ArtifactsSection, ConfigError, base_url};
use countersign_core::Secret;
use std::path::PathBuf;

/// Where artifacts are. The default is the folder `artifacts` inside the data folder.
#[derive(Clone, Debug, Default)]
pub struct ArtifactsConfig {
    pub bucket: Option<BucketConfig>,
}

#[derive(Clone, Debug)]
pub struct BucketConfig {
    pub name: String,
    /// What every key begins with; empty: nothing.
    pub prefix: String,
    /// Where the server is, if it is not Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Absent: what the variables `AWS_…` or the machine say.
    pub login: Option<BucketKey>,
}

#[derive(Clone, Debug)]
pub struct BucketKey {
    pub id: String,
    pub secret: KeySecret,
}

/// Where the secret of a key is.
#[derive(Clone, Debug)]
pub enum KeySecret {
    File(PathBuf),
    Text(Secret<String>),
}

impl ArtifactsSection {
    pub(super) fn read(self) -> Result<ArtifactsConfig, ConfigError> {
        let secret = self.secret_access_key.map(KeySecret::Text).or_else(|| self.secret_access_key_file.map(KeySecret::File));
        let login = match (self.access_key_id, secret) {
            (Some(id), Some(secret)) => Some(BucketKey { id, secret }),
            (None, None) => None,
            (Some(_), None) => return Err(alone("artifacts.access_key_id", "artifacts.secret_access_key_file")),
            (None, Some(_)) => return Err(alone("artifacts.secret_access_key_file", "artifacts.access_key_id")),
        };
        let Some(url) = self.url else {
            let is_unset = self.endpoint.is_none() && self.region.is_none() && login.is_none();
            return if is_unset { Ok(ArtifactsConfig::default()) } else { Err(invalid("without it artifacts are in the data folder")) };
        };
        let (name, prefix) = bucket(&url)?;
        let endpoint = self.endpoint.map(|text| base_url("artifacts.endpoint", &text)).transpose()?;
        Ok(ArtifactsConfig { bucket: Some(BucketConfig { name, prefix, endpoint, region: self.region, login }) })
    }
}

fn alone(name: &str, other: &str) -> ConfigError {
    ConfigError::InvalidValue { name: name.into(), message: format!("it needs `{other}` beside it") }
}

fn invalid(message: &str) -> ConfigError {
    ConfigError::InvalidValue { name: "artifacts.url".into(), message: message.into() }
}

/// The name of the bucket and the prefix of `s3://bucket/prefix`.
fn bucket(url: &str) -> Result<(String, String), ConfigError> {
    let rest = url.strip_prefix("s3://").ok_or_else(|| invalid("expected a bucket and, if you like, a prefix: `s3://bucket/prefix`"))?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = (3..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
    let prefix = prefix.trim_matches('/');
    let is_plain =
        |part: &str| !["", ".", ".."].contains(&part) && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        return Err(invalid("the name of a bucket has 3 to 63 lower-case letters, digits, dots and hyphens"));
    }
    if !prefix.is_empty() && !prefix.split('/').all(is_plain) {
        return Err(invalid("a prefix has letters, digits, dots, `_` and `-`, and `/` between its parts"));
    }
    Ok((name.to_owned(), prefix.to_owned()))
}
