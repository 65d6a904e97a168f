//! Where requests may go: a host must be on every list of hosts, and its address must be public or in an allowed network.

use super::address::AddressRule;
use super::host_rule::HostRule;
use crate::words::{refused, shown};
use countersign_core::source::Error;
use ipnet::IpNet;
use std::sync::Arc;
use url::Url;

/// Where requests may go. A host must be on every list.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    pub(crate) lists: Vec<HostList>,
    pub(super) addresses: Arc<AddressRule>,
    /// The setting that lists allowed networks, for error messages.
    networks_setting: &'static str,
}

/// A list of hosts, and where a person would add one.
#[derive(Clone, Debug)]
pub(crate) struct HostList {
    pub(crate) rules: Vec<HostRule>,
    /// Such as `http.allowed_hosts`.
    pub(crate) setting: &'static str,
    /// Such as `an operator`.
    pub(crate) who: &'static str,
}

impl Allowed {
    pub(crate) fn new(hosts: HostList, networks: Vec<IpNet>, networks_setting: &'static str) -> Self {
        Self { lists: vec![hosts], addresses: Arc::new(AddressRule::new(networks)), networks_setting }
    }

    /// These rules with one more list.
    pub(crate) fn and(&self, list: HostList) -> Self {
        let mut allowed = self.clone();
        allowed.lists.insert(0, list);
        allowed
    }

    pub(super) fn check_host(&self, url: &Url) -> Result<(), Error> {
        match self.lists.iter().find(|list| !list.rules.iter().any(|rule| rule.allows(url))) {
            Some(list) => Err(list.missing(url)),
            None => Ok(()),
        }
    }

    pub(super) fn address_refused(&self, url: &Url) -> Error {
        let (host, setting) = (shown(url.host_str().unwrap_or_default()), self.networks_setting);
        refused(
            "address_not_allowed",
            format!("host `{host}` leads to an address that is not public; an operator can allow a network with `{setting}`"),
        )
    }
}

impl HostList {
    fn missing(&self, url: &Url) -> Error {
        let Self { setting, who, .. } = self;
        let origin = shown(&url.origin().ascii_serialization());
        let message = if self.rules.is_empty() {
            format!("`{origin}` is not allowed, because no host is: {who} can list it in `{setting}`, with its scheme and port")
        } else {
            format!("`{origin}` is not in `{setting}`; {who} can add it there, with its scheme and port")
        };
        refused("host_not_allowed", message)
    }
}
