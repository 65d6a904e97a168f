//! Which addresses may be connected to: public ones, and the networks an operator has named. Pure.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// SECURITY: checked for every address before a connection, whether it stands in the URL or was resolved from a name.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressRule {
    allowed_networks: Vec<IpNet>,
}

/// The address may not be reached. The error does not name it: the caller must not learn where an internal name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address is not public")]
pub(super) struct AddressRefused;

impl AddressRule {
    pub(super) const fn new(allowed_networks: Vec<IpNet>) -> Self {
        Self { allowed_networks }
    }

    pub(super) fn check(&self, address: IpAddr) -> Result<(), AddressRefused> {
        let address = address.to_canonical();
        if is_metadata(address) {
            return Err(AddressRefused);
        }
        let named = self.allowed_networks.iter().any(|network| network.contains(&address));
        if named || is_public(address) { Ok(()) } else { Err(AddressRefused) }
    }
}

/// Where clouds hand out their machines' credentials. These addresses are refused even if an operator has allowed their network.
fn is_metadata(address: IpAddr) -> bool {
    const V4: [Ipv4Addr; 6] = [
        Ipv4Addr::new(169, 254, 169, 254),
        Ipv4Addr::new(169, 254, 170, 2),
        Ipv4Addr::new(169, 254, 170, 23),
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    const V6: [Ipv6Addr; 3] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    ];
    match address {
        IpAddr::V4(address) => V4.contains(&address),
        IpAddr::V6(address) => V6.contains(&address) || embedded(address).is_some_and(|inner| V4.contains(&inner)),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Refuses the special-purpose blocks of IPv4; every other address is public.
const fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..] // this network, private, loopback
            | [100, 64..=127, ..] // shared by carriers
            | [169, 254, ..] // link-local
            | [172, 16..=31, ..] // private
            | [192, 0, 0 | 2, _] // protocol assignments, documentation
            | [192, 88, 99, _] // 6to4 relays
            | [192, 168, ..] // private
            | [198, 18 | 19, ..] // benchmarks
            | [198, 51, 100, _] // documentation
            | [203, 0, 113, _] // documentation
            | [224..=255, ..] // multicast, reserved, broadcast
    )
}

/// Only global unicast is public. If the address embeds an IPv4 address, that address must be public too.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded(address) {
        return is_public_v4(inner);
    }
    match address.segments() {
        [0x2001, 0x0000..=0x01ff, ..] => false, // protocol assignments, Teredo among them
        [0x2001, 0x0db8, ..] => false,          // documentation
        [0x3fff, 0x0000..=0x0fff, ..] => false, // documentation
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// The IPv4 address that a translator or tunnel would forward to (NAT64, 6to4). IPv4-mapped addresses were converted before.
const fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => (high, low),
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits((high as u32) << 16 | low as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(rule: &AddressRule, address: &str, expected: Result<(), AddressRefused>) {
        assert_eq!(rule.check(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            check(&AddressRule::default(), address, Ok(()));
        }
    }

    #[test]
    fn addresses_that_lead_inside_are_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "100.100.100.200",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2002:a00:1::",
            "2001::1",
            "2001:0:7f00:1::1",
            "2001:db8::1",
            "2001:10::1",
            "3fff::1",
            "fc00::1",
            "fd00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "4000::1",
            "5f00::1",
        ] {
            check(&AddressRule::default(), address, Err(AddressRefused));
        }
    }

    #[test]
    fn an_operator_can_allow_a_network_but_never_the_metadata_in_it() {
        let rule = AddressRule::new(
            ["127.0.0.0/8", "169.254.0.0/16", "fd00::/8", "64:ff9b::/96", "0.0.0.0/8"].map(|net| net.parse().unwrap()).into(),
        );
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.1.1", "fd00::1", "64:ff9b::7f00:1"] {
            check(&rule, address, Ok(()));
        }
        for address in ["10.0.0.1", "::1", "169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"] {
            check(&rule, address, Err(AddressRefused));
        }
    }

    proptest! {
        #[test]
        fn a_wrapped_address_is_never_more_public_than_what_it_wraps(bits in any::<u32>()) {
            let inner = Ipv4Addr::from_bits(bits);
            let rule = AddressRule::default();
            let plain = rule.check(inner.into());
            let [a, b, c, d] = inner.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for wrapped in [
                inner.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ] {
                prop_assert_eq!(rule.check(wrapped.into()), plain, "{} in {}", inner, wrapped);
            }
            prop_assert!(rule.check(inner.to_ipv6_compatible().into()).is_err());
        }

        #[test]
        fn nothing_the_standard_library_calls_inside_is_ever_public(bits in any::<u32>(), wide in any::<u128>()) {
            let v4 = Ipv4Addr::from_bits(bits);
            let local = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified();
            if local || v4.is_multicast() || v4.is_broadcast() || v4.is_documentation() {
                prop_assert!(AddressRule::default().check(v4.into()).is_err());
            }
            let v6 = Ipv6Addr::from_bits(wide);
            if v6.is_loopback() || v6.is_multicast() || v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_unspecified() {
                prop_assert!(AddressRule::default().check(v6.into()).is_err());
            }
        }
    }
}
