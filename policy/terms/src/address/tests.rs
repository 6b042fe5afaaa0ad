use proptest::prelude::*;

use super::*;

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Text, bytes in hexadecimal digits in network order, bits, and as it is written.
#[test]
fn blocks_are_parsed_to_network_order_bytes() {
    for (text, bytes, bits, written) in [
        ("1.2.3.4", "00000000000000000000ffff01020304", 128, "1.2.3.4"),
        ("::ffff:1.2.3.4", "00000000000000000000ffff01020304", 128, "1.2.3.4"),
        ("::ffff:102:304", "00000000000000000000ffff01020304", 128, "1.2.3.4"),
        ("10.0.0.0/8", "00000000000000000000ffff0a000000", 104, "10.0.0.0/8"),
        ("::ffff:10.0.0.0/104", "00000000000000000000ffff0a000000", 104, "10.0.0.0/8"),
        ("192.168.128.0/17", "00000000000000000000ffffc0a88000", 113, "192.168.128.0/17"),
        ("0.0.0.0/0", "00000000000000000000ffff00000000", 96, "0.0.0.0/0"),
        ("::/0", "00000000000000000000000000000000", 0, "::/0"),
        ("::1", "00000000000000000000000000000001", 128, "::1"),
        ("2001:db8::/33", "20010db8000000000000000000000000", 33, "2001:db8::/33"),
        ("2001:db8:8000::/33", "20010db8800000000000000000000000", 33, "2001:db8:8000::/33"),
        ("fe80::1/128", "fe800000000000000000000000000001", 128, "fe80::1"),
    ] {
        let block = prefix(text);
        let digits: String = block.address().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (digits.as_str(), block.bits(), block.to_string().as_str()),
            (bytes, bits, written),
            "{text}"
        );
    }
    assert_eq!((prefix("0.0.0.0/0"), prefix("::/0")), (Prefix::IPV4, Prefix::IPV6));
}

#[test]
fn addresses_are_parsed_to_host_and_port() {
    let block = |text: &str| Host::Block(prefix(text));
    let name = |name: &str| Host::Name(name.into());
    for (text, host, port, written) in [
        ("example.com", name("example.com"), None, "example.com"),
        ("Example.COM.:443", name("example.com"), Some(443), "example.com:443"),
        ("example.com:*", name("example.com"), None, "example.com"),
        ("_dmarc.x-1.example", name("_dmarc.x-1.example"), None, "_dmarc.x-1.example"),
        ("0x7f.example", name("0x7f.example"), None, "0x7f.example"),
        ("*", Host::Any, None, "*"),
        ("any", Host::Any, None, "*"),
        ("*:25", Host::Any, Some(25), "*:25"),
        ("*:*", Host::Any, None, "*"),
        ("1.2.3.4:443", block("1.2.3.4"), Some(443), "1.2.3.4:443"),
        ("10.0.0.0/8:443", block("10.0.0.0/8"), Some(443), "10.0.0.0/8:443"),
        ("127.0.0.1/32", block("127.0.0.1"), None, "127.0.0.1"),
        ("::1", block("::1"), None, "::1"),
        ("[::1]:80", block("::1"), Some(80), "[::1]:80"),
        ("[::1]", block("::1"), None, "::1"),
        ("[2001:db8::/32]:1", block("2001:db8::/32"), Some(1), "[2001:db8::/32]:1"),
        ("[::ffff:1.2.3.4]:5", block("1.2.3.4"), Some(5), "1.2.3.4:5"),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!(
            (&address.host, address.port, address.to_string().as_str()),
            (&host, port, written),
            "{text}"
        );
    }
}

#[test]
fn invalid_address_is_refused_with_reason() {
    for (text, part) in [
        ("", "neither a name"),
        (":80", "neither a name"),
        ("a:0", "the port is 0"),
        ("a:65536", "1 to 65535"),
        ("a:+5", "1 to 65535"),
        ("a:b", "the port is b"),
        ("[::1]:0", "the port is 0"),
        ("1.2.3", "neither a name"),
        ("127.1", "neither a name"),
        ("2130706433", "neither a name"),
        ("0x7f000001", "neither a name"),
        ("010.0.0.1", "neither a name"),
        ("1.2.3.4/33", "0 to 32"),
        ("::/129", "0 to 128"),
        ("1.2.3.4/-1", "0 to 32"),
        ("1.2.3.4/", "0 to 32"),
        ("10.1.2.3/8", "the block is 10.0.0.0/8"),
        ("10.0.0.1/0", "the block is 0.0.0.0/0"),
        ("2001:db8::1/32", "the block is 2001:db8::/32"),
        ("::ffff:10.1.0.0/104", "the block is 10.0.0.0/8"),
        ("::ffff:0:0/95", "the block is ::fffe:0:0/95"),
        ("fe80::1%eth0", "%eth0 names an interface"),
        ("[fe80::1%2]:80", "%2 names an interface"),
        ("*.example.com", "all names below example.com"),
        ("*.example.com:443", "all names below example.com"),
        ("a*.example.com", "neither a name"),
        ("[::1", "without `]`"),
        ("[::1]x", "`x` follows"),
        ("[a]:1", "no IPv6 address"),
        ("[1.2.3.4]:1", "no IPv6 address"),
        ("a b", "neither a name"),
        ("-a", "neither a name"),
        ("a..b", "neither a name"),
        ("a..", "neither a name"),
        ("https://a", "the port is //a"),
    ] {
        let error = text.parse::<Address>().unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Block, other block, whether the one covers the other.
#[test]
fn blocks_cover_their_sub_blocks() {
    for (block, other, covers) in [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.0.0.0/8", "10.0.0.0/8", true),
        ("10.0.0.0/8", "10.0.0.0/7", false),
        ("0.0.0.0/0", "255.255.255.255", true),
        ("0.0.0.0/0", "::1", false),
        ("::/0", "2001:db8::1", true),
        ("::/0", "1.2.3.4", false),
        ("::/64", "0.0.0.0/0", false),
        ("::/64", "::1", true),
    ] {
        assert_eq!(prefix(block).covers(&prefix(other)), covers, "{block} {other}");
    }
}

#[test]
fn unspecified_addresses_reach_loopback() {
    for (ip, reaches) in [
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("::ffff:0.0.0.0", "127.0.0.1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("1.2.3.4", "1.2.3.4"),
        ("::1", "::1"),
    ] {
        assert_eq!(reached(ip.parse().unwrap()), reaches.parse::<IpAddr>().unwrap(), "{ip}");
    }
    for (text, loopback, unspecified) in [
        ("localhost", true, false),
        ("LOCALHOST.", true, false),
        ("127.0.0.1", true, false),
        ("::1", true, false),
        ("0.0.0.0", true, true),
        ("::", true, true),
        ("::ffff:0.0.0.0", true, true),
        ("127.0.0.2", false, false),
        ("127.0.0.0/8", false, false),
        ("0.0.0.0/0", false, false),
        ("*", false, false),
        ("a.localhost", false, false),
    ] {
        let host: Host = text.parse().unwrap();
        assert_eq!((host.is_loopback(), host.is_unspecified()), (loopback, unspecified), "{text}");
    }
}

fn any_host() -> impl Strategy<Value = Host> {
    let ip = prop_oneof![
        any::<u32>().prop_map(|ip| IpAddr::V4(ip.into())),
        any::<u128>().prop_map(|ip| IpAddr::V6(ip.into()))
    ];
    prop_oneof![
        Just(Host::Any),
        "[a-z]([a-z0-9-]{0,9}[a-z0-9])?(\\.[a-z_]{2,5}){0,3}"
            .prop_filter("the word for all", |name| name != "any")
            .prop_map(Host::Name),
        (ip, 0..=128u8).prop_map(|(ip, bits)| Host::Block(Prefix::host(ip).shortened(bits))),
    ]
}

proptest! {
    #[test]
    fn random_addresses_round_trip_through_text(host in any_host(), port in prop::option::of(1..=u16::MAX)) {
        let address = Address { host, port };
        prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
    }

    #[test]
    fn any_accepted_address_text_round_trips(text in "[\\[\\]0-9a-f:./*%-]{0,24}|\\PC{0,24}") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
    }

    /// Blocks of one address lie in each other.
    #[test]
    fn shorter_block_contains_longer_block(ip in any::<u128>(), one in 0..=128u8, other in 0..=128u8) {
        let host = Prefix::host(IpAddr::V6(ip.into()));
        let (short, long) = (host.shortened(one.min(other)), host.shortened(one.max(other)));
        prop_assert!(short.begins(&long) && (short <= long));
        prop_assert_eq!(long.begins(&short), one == other);
    }
}
