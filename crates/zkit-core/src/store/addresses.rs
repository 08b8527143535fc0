//! Which addresses are public: where data of strangers may be, and where only neighbours are.
//!
//! Source: IANA's registries of special-purpose addresses, <https://www.iana.org/assignments/iana-ipv4-special-registry> and
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns what an address is, if it is not a public one.
pub(super) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

/// Returns whether an address is a neighbour's without a router between, such as a cloud's metadata service, in whatever form.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local() || embedded(v6).is_some_and(|(v4, _)| v4.is_link_local())
        }
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [169, 254, ..] => "a link-local address",
        [100, 64..=127, ..] => "an address behind a carrier's NAT",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address of documentation",
        [198, 18..=19, ..] => "an address of benchmarks",
        [192, 88, 99, _] => "an address of 6to4",
        [224..=239, ..] => "a multicast address",
        [0, ..] | [192, 0, 0, _] | [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("a reserved address");
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    if let Some((_, what)) = embedded(address) {
        return Some(what);
    }
    Some(match address.segments() {
        [0x2001, 0x0000, ..] => "a Teredo address",
        [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => "an address of documentation",
        [0x2001, 0x0001..=0x01ff, ..] => "a reserved address",
        [0x2000..=0x3fff, ..] => return None,
        [0xfc00..=0xfdff, ..] => "a unique-local address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        _ => "a reserved address",
    })
}

/// Returns the address of version 4 that one of version 6 leads to, and what such an address is called.
fn embedded(address: Ipv6Addr) -> Option<(Ipv4Addr, &'static str)> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => (v4(high, low), "an IPv4-mapped address"),
        [0, 0, 0, 0, 0, 0, high, low] => (v4(high, low), "an IPv4-compatible address"),
        // RFC 2765, section 2.1
        [0, 0, 0, 0, 0xffff, 0, high, low] => (v4(high, low), "an IPv4-translated address"),
        // RFC 6052, and RFC 8215 for local networks, whose prefix may be shorter
        [0x64, 0xff9b, 0 | 1, .., high, low] => (v4(high, low), "a NAT64 address"),
        [0x2002, high, low, ..] => (v4(high, low), "a 6to4 address"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(address: &str) -> Option<&'static str> {
        special(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_public() {
        for address in [
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.31.196.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001:80b::200e",
            "2001:4860:4860::8888",
            "2001:200::1",
        ] {
            assert_eq!(what(address), None, "{address}");
        }
    }

    #[test]
    fn addresses_of_neighbours_and_of_nobody_are_named() {
        for (address, expected) in [
            ("127.0.0.1", "a loopback address"),
            ("127.255.255.254", "a loopback address"),
            ("10.1.2.3", "a private address"),
            ("172.16.0.1", "a private address"),
            ("172.31.255.255", "a private address"),
            ("192.168.1.1", "a private address"),
            ("169.254.169.254", "a link-local address"),
            ("100.64.0.9", "an address behind a carrier's NAT"),
            ("100.127.255.255", "an address behind a carrier's NAT"),
            ("192.0.2.7", "an address of documentation"),
            ("198.51.100.1", "an address of documentation"),
            ("203.0.113.1", "an address of documentation"),
            ("198.18.0.1", "an address of benchmarks"),
            ("198.19.255.1", "an address of benchmarks"),
            ("192.88.99.1", "an address of 6to4"),
            ("224.0.0.1", "a multicast address"),
            ("0.0.0.0", "a reserved address"),
            ("0.1.2.3", "a reserved address"),
            ("192.0.0.170", "a reserved address"),
            ("240.0.0.1", "a reserved address"),
            ("255.255.255.255", "a reserved address"),
            ("::", "a reserved address"),
            ("::1", "a loopback address"),
            ("::7f00:1", "an IPv4-compatible address"),
            ("::ffff:8.8.8.8", "an IPv4-mapped address"),
            ("::ffff:0:127.0.0.1", "an IPv4-translated address"),
            ("64:ff9b::a9fe:a9fe", "a NAT64 address"),
            ("64:ff9b:1::a00:1", "a NAT64 address"),
            ("2002:7f00:1::1", "a 6to4 address"),
            ("2001:0:4136:e378::1", "a Teredo address"),
            ("2001:db8::1", "an address of documentation"),
            ("3fff:fff::1", "an address of documentation"),
            ("2001:2::1", "a reserved address"),
            ("2001:10::1", "a reserved address"),
            ("fd00::5", "a unique-local address"),
            ("fc00::5", "a unique-local address"),
            ("fe80::1", "a link-local address"),
            ("fec0::1", "a reserved address"),
            ("ff02::1", "a multicast address"),
            ("100::1", "a reserved address"),
            ("5f00::1", "a reserved address"),
            ("4000::1", "a reserved address"),
        ] {
            assert_eq!(what(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn link_local_addresses_are_known_in_every_form() {
        let is_local = |address: &str| is_link_local(address.parse().unwrap());
        for address in [
            "169.254.169.254",
            "fe80::1",
            "::ffff:169.254.169.254",
            "::a9fe:a9fe",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
        ] {
            assert!(is_local(address), "{address}");
        }
        assert!(!is_local("127.0.0.1") && !is_local("::1") && !is_local("10.0.0.1"));
    }
}
