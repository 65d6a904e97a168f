//! Resolves a name and returns only the addresses that may be reached. The checked addresses are the ones that are connected to, so a name
//! that resolves differently the second time gains nothing (DNS rebinding).

use super::address::{AddressRefused, AddressRule};
use countersign_core::Future;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Resolves a name to addresses. Called once for every connection.
pub(crate) type Lookup = Arc<dyn Fn(String) -> Future<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The resolver of the operating system.
pub(crate) fn ask_the_system() -> Lookup {
    // Port 0 is a placeholder: the client uses the port of the URL.
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) }))
}

pub(super) struct CheckedResolver {
    pub(super) rule: Arc<AddressRule>,
    pub(super) lookup: Lookup,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rule, found) = (Arc::clone(&self.rule), (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move { Ok(checked(&rule, found.await?)?) })
    }
}

fn checked(rule: &AddressRule, mut addresses: Vec<SocketAddr>) -> Result<Addrs, AddressRefused> {
    let found = addresses.len();
    addresses.retain(|address| rule.check(address.ip()).is_ok());
    if addresses.is_empty() && found > 0 { Err(AddressRefused) } else { Ok(Box::new(addresses.into_iter())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_may_be_reached_are_handed_out() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse::<SocketAddr>().unwrap()).collect::<Vec<_>>();
        let rule = AddressRule::default();
        let mixed = addresses(&["127.0.0.1:0", "8.8.8.8:0", "[::1]:0", "169.254.169.254:0"]);
        assert_eq!(checked(&rule, mixed).ok().unwrap().collect::<Vec<_>>(), addresses(&["8.8.8.8:0"]));
        assert_eq!(checked(&rule, addresses(&["10.0.0.1:0", "[fd00::1]:0"])).err(), Some(AddressRefused));
        assert_eq!(checked(&rule, Vec::new()).ok().unwrap().count(), 0);
    }
}
