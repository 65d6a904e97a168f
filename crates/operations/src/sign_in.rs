//! Where people sign in, besides with their tokens: the issuer that the operator named, and the role that each of its groups gives.

use countersign_core::principal::Role;
use countersign_core::{OrgId, Secret};
use host::Error;
use host::config::{ClientSecret, OidcConfig};
use sources::oauth::{OpenId, OpenIdConfig};
use std::collections::BTreeMap;
use store::Store;

pub struct SignIn {
    /// What people call it.
    pub name: String,
    /// The org that people sign in to.
    pub org: OrgId,
    pub roles: BTreeMap<String, Role>,
    pub client: OpenId,
}

impl SignIn {
    pub async fn open(config: OidcConfig, store: &Store) -> Result<Self, Error> {
        let orgs = store.list_orgs().await?;
        let found = match &config.org {
            Some(named) => orgs.into_iter().find(|org| org.name == *named || org.id.as_str() == named),
            None => orgs.into_iter().next(),
        };
        let none = || Error::SignIn(format!("there is no org `{}`, which `oidc.org` names", config.org.as_deref().unwrap_or_default()));
        let org = found.ok_or_else(none)?.id;
        Self::of(config, org)
    }

    /// Sign-in to this org, whatever the settings say of it.
    pub fn of(config: OidcConfig, org: OrgId) -> Result<Self, Error> {
        let client = OpenId::new(OpenIdConfig {
            issuer: config.issuer,
            client_id: config.client_id,
            client_secret: config.client_secret.map(read_secret).transpose()?,
            scopes: config.scopes,
            groups_claim: config.groups_claim,
            allowed_hosts: config.allowed_hosts,
            allowed_networks: config.allowed_networks,
        });
        let client = client.map_err(|error| Error::SignIn(error.to_string()))?;
        Ok(Self { name: config.name, org, roles: config.roles, client })
    }

    /// The highest role that these groups give.
    pub(crate) fn role_of(&self, groups: &[String]) -> Option<Role> {
        groups.iter().filter_map(|group| self.roles.get(group)).max().copied()
    }
}

fn read_secret(secret: ClientSecret) -> Result<Secret<String>, Error> {
    match secret {
        ClientSecret::Text(text) => Ok(text),
        ClientSecret::File(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Error::SignIn(format!("the file `{}` of `oidc.client_secret_file` cannot be read: {error}", path.display()))
            })?;
            Ok(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
    }
}
