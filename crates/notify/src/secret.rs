//! The secrets that channels name.

use super::DeliveryError;
use countersign_core::ports::Secrets;
use countersign_core::ports::secrets::SecretName;
use countersign_core::{OrgId, Secret};

/// The value that the secret has now. A channel whose secret is gone fails until there is one again.
pub(super) async fn open(secrets: &dyn Secrets, org: &OrgId, name: &str) -> Result<Secret<String>, DeliveryError> {
    let missing = || DeliveryError::Never(format!("there is no secret `{name}`"));
    find(secrets, org, name).await?.ok_or_else(missing)
}

/// The value that the secret has now, if there is one.
pub(super) async fn find(secrets: &dyn Secrets, org: &OrgId, name: &str) -> Result<Option<Secret<String>>, DeliveryError> {
    let Some(name) = SecretName::parse(name) else { return Ok(None) };
    let found = secrets.resolve_secret(org, &name).await.map_err(|error| {
        tracing::error!(%error, "the secret of a channel could not be read");
        DeliveryError::Again("the secret could not be read".to_owned())
    })?;
    Ok(found.map(|value| Secret::new(value.expose().to_owned())))
}
