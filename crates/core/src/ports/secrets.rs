//! The port to an org's secrets: the credentials with which its calls act elsewhere. Their values go to the call that needs them, and
//! nowhere else.

use super::Error;
use crate::limits::{SECRET_NAME_CHARS_MAX, SECRET_VALUE_BYTES_MAX};
use crate::{Future, OrgId, Secret};
use std::fmt;

/// Opens secrets for a call that is about to be sent.
pub trait Secrets: Send + Sync {
    /// Returns the value that the secret has now, and notes that it was used; `None` if the org has no secret with this name.
    fn resolve_secret<'a>(&'a self, org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<SecretValue>, Error>>;
    /// Returns the version that the secret has now: 1 at first, and 1 more for each value that replaced another. Asking for it is no use of
    /// the secret.
    fn secret_version<'a>(&'a self, org: &'a OrgId, name: &'a SecretName) -> Future<'a, Result<Option<i64>, Error>>;
}

/// The name of a secret, unique in its org. It stands in configurations and addresses, so it needs no quoting anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// Takes ASCII letters, digits, `_`, `-` and `.`, the first of them a letter or a digit.
    pub fn parse(text: &str) -> Option<Self> {
        needs_no_quoting(text).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text can be a name that stands in configurations and addresses as it is.
pub(super) fn needs_no_quoting(text: &str) -> bool {
    text.len() <= SECRET_NAME_CHARS_MAX
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// The value of a secret. It can be neither printed nor copied nor serialised, and is overwritten in memory when it is dropped.
pub struct SecretValue(Secret<String>);

impl SecretValue {
    /// `None` if the text is empty or longer than `SECRET_VALUE_BYTES_MAX`.
    pub fn new(text: Secret<String>) -> Option<Self> {
        let fits = (1..=SECRET_VALUE_BYTES_MAX).contains(&text.expose().len());
        fits.then(|| Self(text))
    }

    /// The only way out, and easy to search for.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_no_quoting_anywhere() {
        for good in ["a", "7", "github-token", "GITHUB_TOKEN", "smtp.password", &"n".repeat(64)] {
            assert_eq!(SecretName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".", "..", "_a", "a b", "a/b", "a:b", "a\0", "ä", "a\n", &"n".repeat(65)] {
            assert_eq!(SecretName::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_value_is_not_empty_and_not_too_long() {
        let value = |length: usize| SecretValue::new(Secret::new("x".repeat(length)));
        assert!(value(0).is_none());
        assert!(value(1).is_some_and(|value| value.expose() == "x"));
        assert!(value(SECRET_VALUE_BYTES_MAX).is_some());
        assert!(value(SECRET_VALUE_BYTES_MAX + 1).is_none());
    }
}
