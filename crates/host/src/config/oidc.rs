//! Where people sign in, besides with their tokens: an OpenID Connect issuer, and which of its groups gives which role.

use super::{ConfigError, OidcSection, parse_all, parse_networks};
use countersign_core::Secret;
use countersign_core::principal::Role;
use ipnet::IpNet;
use sources::web::HostRule;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is asked for if nothing is said. A provider refuses a scope that it does not know, so `groups` is not among them.
const SCOPES: [&str; 3] = ["openid", "profile", "email"];
const GROUPS_CLAIM: &str = "groups";

/// The issuer that says who people are, and what they may do here.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// What people call it: “Sign in with …”.
    pub name: String,
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<ClientSecret>,
    pub scopes: Vec<String>,
    pub groups_claim: String,
    /// The role that each group gives. Of several the highest counts.
    pub roles: BTreeMap<String, Role>,
    /// The name or the id of the org that people sign in to; absent: the first.
    pub org: Option<String>,
    /// The hosts that the issuer may name for its endpoints, beside its own.
    pub allowed_hosts: Vec<HostRule>,
    pub allowed_networks: Vec<IpNet>,
}

/// Where the secret of the client is.
#[derive(Clone, Debug)]
pub enum ClientSecret {
    File(PathBuf),
    Text(Secret<String>),
}

impl OidcSection {
    /// `None` if nothing is said of an issuer: then people log in with tokens only.
    pub(super) fn read(self) -> Result<Option<OidcConfig>, ConfigError> {
        let is_unset = self.name.is_none()
            && self.client_id.is_none()
            && self.client_secret.is_none()
            && self.client_secret_file.is_none()
            && self.scopes.is_none()
            && self.groups_claim.is_none()
            && self.roles.is_none()
            && self.org.is_none()
            && self.allowed_hosts.is_none()
            && self.allowed_networks.is_none();
        let issuer = match self.issuer {
            None if is_unset => return Ok(None),
            issuer => given("oidc.issuer", issuer)?,
        };
        let roles = read_roles(self.roles.unwrap_or_default())?;
        let mut scopes = self.scopes.unwrap_or_else(|| SCOPES.map(str::to_owned).to_vec());
        if !scopes.iter().any(|scope| scope == SCOPES[0]) {
            scopes.insert(0, SCOPES[0].to_owned());
        }
        let host = || issuer.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or(&issuer).to_owned();
        Ok(Some(OidcConfig {
            name: self.name.unwrap_or_else(host),
            client_id: given("oidc.client_id", self.client_id)?,
            client_secret: self.client_secret.map(ClientSecret::Text).or_else(|| self.client_secret_file.map(ClientSecret::File)),
            scopes,
            groups_claim: self.groups_claim.unwrap_or_else(|| GROUPS_CLAIM.to_owned()),
            roles,
            org: self.org,
            allowed_hosts: parse_all("oidc.allowed_hosts", &self.allowed_hosts.unwrap_or_default())?,
            allowed_networks: parse_networks("oidc.allowed_networks", &self.allowed_networks.unwrap_or_default())?,
            issuer,
        }))
    }
}

fn invalid(name: &str, message: impl Into<String>) -> ConfigError {
    ConfigError::InvalidValue { name: name.into(), message: message.into() }
}

fn given(name: &str, value: Option<String>) -> Result<String, ConfigError> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| invalid(name, "without it nobody can sign in at the issuer"))
}

fn read_roles(named: BTreeMap<String, String>) -> Result<BTreeMap<String, Role>, ConfigError> {
    if named.is_empty() {
        return Err(invalid("oidc.roles", "name at least one group and its role: nobody else signs in"));
    }
    let known = Role::ALL.map(Role::as_str).join(", ");
    let read = |(group, role): (String, String)| match Role::parse(&role) {
        Some(role) => Ok((group, role)),
        None => Err(invalid("oidc.roles", format!("`{role}` is not one of {known}"))),
    };
    named.into_iter().map(read).collect()
}
