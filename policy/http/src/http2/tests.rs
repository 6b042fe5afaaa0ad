//! HPACK: the examples of RFC 7541, appendix C, what another implementation wrote, and what is invalid.

use super::hpack::{Decoder, Head, is_needed};
use super::*;

const MAX: usize = 64 * 1024;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn text(head: &Head) -> String {
    let field = |(name, value): &(Box<str>, Box<[u8]>)| format!("{name}={}", String::from_utf8_lossy(value));
    head.fields.iter().map(field).collect::<Vec<_>>().join(" ")
}

/// Heads that follow each other, and the size of the table behind each.
fn check(name: &str, table: usize, heads: &[(&str, &str, usize)]) {
    let mut decoder = Decoder::new(|_| true);
    decoder.table.resize(table);
    for (hex, expected, size) in heads {
        let (head, decoded) = decoder.decode(&bytes(hex), MAX);
        assert_eq!((decoded, text(&head).as_str(), head.unknown), (Ok(()), *expected, 0), "{name}: {hex}");
        assert_eq!(decoder.table.bytes, *size, "{name}: {hex}");
    }
}

#[test]
fn hpack_decodes_the_examples_of_its_standard() {
    let request = ":method=GET :scheme=http :path=/ :authority=www.example.com";
    let uncached = format!("{request} cache-control=no-cache");
    let custom =
        ":method=GET :scheme=https :path=/index.html :authority=www.example.com custom-key=custom-value";
    let answer = |status: u32, second: u32, rest: &str| {
        format!(
            ":status={status} cache-control=private date=Mon, 21 Oct 2013 20:13:{second} GMT location=https://www.example.com{rest}"
        )
    };
    let (found, moved) = (answer(302, 21, ""), answer(307, 21, ""));
    let cookie = " content-encoding=gzip set-cookie=foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let ok = answer(200, 22, cookie);
    check(
        "C.2.1",
        4096,
        &[("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key=custom-header", 55)],
    );
    check("C.2.2", 4096, &[("040c2f73616d706c652f70617468", ":path=/sample/path", 0)]);
    check("C.2.3", 4096, &[("100870617373776f726406736563726574", "password=secret", 0)]);
    check("C.2.4", 4096, &[("82", ":method=GET", 0)]);
    check(
        "C.3",
        4096,
        &[
            ("828684410f7777772e6578616d706c652e636f6d", request, 57),
            ("828684be58086e6f2d6361636865", &uncached, 110),
            ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", custom, 164),
        ],
    );
    check(
        "C.4",
        4096,
        &[
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", request, 57),
            ("828684be5886a8eb10649cbf", &uncached, 110),
            ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", custom, 164),
        ],
    );
    check("C.5", 256, &[
        (
            "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54
             6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            &found,
            222,
        ),
        ("4803333037c1c0bf", &moved, 222),
        (
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a697077
             38666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
            &ok,
            215,
        ),
    ]);
    check("C.6", 256, &[
        (
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff
             6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            &found,
            222,
        ),
        ("4883640effc1c0bf", &moved, 222),
        (
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f
             3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            &ok,
            215,
        ),
    ]);
}

/// The Python package `hpack` 4.1.0 wrote these, as httpx sends them; in the last one the table is made empty and larger.
#[test]
fn hpack_decodes_what_another_implementation_wrote() {
    let post = |length: u32| {
        format!(
            ":method=POST :scheme=http :authority=a :path=/mcp content-type=application/json mcp-session-id=s \
             authorization=Bearer hunter2 content-length={length}"
        )
    };
    let get = ":method=GET :scheme=http :authority=a :path=/mcp accept=text/event-stream mcp-session-id=s";
    let first = "838641811f44836292575f8b1d75d0620d263d4c7441ea408aa495ac82a1063d4b1a4f8147578aba51d85b149eda925b055c82681f";
    let again = format!("203fe13f{}3f", &first[..first.len() - 2]);
    check(
        "requests",
        4096,
        &[
            (first, &post(40), 298),
            ("8386c3c2c1c0bf5c82683f", &post(41), 346),
            ("8286c4c3538c497ca582f72d495909b0a3a7c2", get, 401),
            (&again, &post(41), 298),
        ],
    );
    // Every byte.
    let coded = bytes(
        "ffc7fffd8fffffe2fffffe3fffffe4fffffe5fffffe6fffffe7fffffe8ffffeafffffff3fffffa7fffffabffffffdfffffebfffffecfffffedfffffeefffffefffffff0ffffff1ffffff2fffffffbfffffcffffffd3fffffd7fffffdbfffffdffffffe3fffffe7fffffebfffffed4fe3f9ffaffcabf1febfafefe7fdfd2cbb00089969b71d79fb9f7fff20ffbff3ff50ddbd7f061c58f265cd9f469d5af66dddbf871e5f9cff7ff7fffc3ff9ffe45fff4719242cb34e6e9d68a6a3d7dac426defe3cfaf7fffbfe7ffbffdffffffcfffe6ffff4bfff9ffffa3fffd3ffff53fffd5ffffb3fffeb7fffdaffffb7ffff73fffeeffffdeffffebffffbfffffd9ffffdbfffebffffe0ffffeeffffc3ffff8bffff1ffffe4fffee7fffb1ffff97fffd9ffffcdffff9fffffbffffdafffeeffff4ffffb7fffee7fffe8ffffd3fffdeffffd5fffeeffffbdffffe1fffdfffff7fffff5ffffecffff07fff87fffe0ffff17fffedffff87ffff77fffeffffeaffff8bfffe3ffff93ffff87fffcbffff37ffff1fffff83ffffe1fffebfffe3ffff3fffff2ffffa3ffffd9fffff17ffffc7fffff27ffffdefffffbffffff2fffff8fffffb7fff97fff8fffffe6fffffc1fffff87ffffe7fffffc5ffffe5fffe4ffff2fffffd1fffff4ffffffefffffe3fffffc9fffff97fffb3ffffcffffb7fffcdffff4ffff9ffffd1ffffcffffeaffffafffffddffffeffffff4fffff5fffffabffffa7ffffd7fffff9bffffecfffffb7fffff3fffffe8fffffd3fffffabfffff5fffffff7ffffecfffffdbfffffbbfffff7ffffff0fffffbbf",
    );
    assert_eq!(huffman::decode(&coded), Ok((0..=255).collect()));
}

#[test]
fn what_was_not_seen_of_heads_is_unknown() {
    // What is read of heads, and how many of their fields are not known.
    type Heads = &'static [(&'static str, &'static str, u64)];
    let cases: [(&str, Heads); 6] = [
        ("an index beyond the tables", &[("82bef0", ":method=GET", 2)]),
        ("a name beyond the tables", &[("7e0161", "", 1)]),
        ("a field with such a name, by its index", &[("7e016182", ":method=GET", 1), ("be", "", 1)]),
        (
            "what comes later has its own index",
            &[("ff00", "", 1), ("440161", ":path=a", 0), ("bebf", ":path=a", 1)],
        ),
        ("a value that is not needed", &[("400178016182", ":method=GET", 0), ("be82", ":method=GET", 0)]),
        ("a secret is not kept", &[("57067365637265740f0801618241", "", 0)]),
    ];
    for (name, heads) in cases {
        let mut decoder = Decoder::new(is_needed);
        for (hex, expected, unknown) in heads {
            let (head, _) = decoder.decode(&bytes(hex), MAX);
            if name != "a secret is not kept" {
                assert_eq!((text(&head).as_str(), head.unknown), (*expected, *unknown), "{name}");
            }
            assert!(!format!("{decoder:?}{head:?}").contains("secret"), "{name}");
        }
    }
    // Behind heads that are lost, nothing of the table is known; what is inserted then is.
    let mut decoder = Decoder::new(is_needed);
    decoder.decode(&bytes("440161"), MAX).1.unwrap();
    decoder.lose();
    for (hex, expected, unknown) in [("be", "", 1), ("440162be", ":path=b :path=b", 0), ("bf", "", 1)] {
        let (head, decoded) = decoder.decode(&bytes(hex), MAX);
        assert_eq!((text(&head).as_str(), head.unknown, decoded), (expected, unknown, Ok(())));
    }
}

#[test]
fn invalid_heads_are_errors_behind_what_is_read() {
    for (name, hex, error) in [
        ("index 0", "8280", Http2Error::Index),
        ("a field without its name", "8240", Http2Error::Truncated),
        ("a field without its value", "82440", Http2Error::Truncated),
        ("a string that is longer than its head", "8244027a", Http2Error::Truncated),
        ("a string of 4 GiB", "82447f80ffffff0f", Http2Error::Truncated),
        ("a number without an end", "82ff80", Http2Error::Truncated),
        ("a number of more than 32 bits", "82ffffffffff7f", Http2Error::Integer),
        ("a number of many zeros", "82ff80808080808000", Http2Error::Integer),
        ("the end of a string within one", "824484ffffffff", Http2Error::Huffman),
        ("padding of a whole byte", "8244821fff", Http2Error::Huffman),
        ("padding of zeros", "82448118", Http2Error::Huffman),
    ] {
        let hex = if hex.len() % 2 == 1 { &hex[..hex.len() - 1] } else { hex };
        let (head, decoded) = Decoder::new(is_needed).decode(&bytes(hex), MAX);
        assert_eq!((text(&head).as_str(), decoded), (":method=GET", Err(error)), "{name}");
    }
}

/// One entry of 4 KiB, a thousand times; and a table that is to be of 4 GiB.
#[test]
fn hpack_bombs_stay_small() {
    let path = [&[0x44, 0x7f, 0xa1, 0x1e][..], &[b'a'; 4000]].concat();
    let bomb = [path, vec![0xbe; 1000]].concat();
    let mut decoder = Decoder::new(is_needed);
    let (head, decoded) = decoder.decode(&bomb, MAX);
    assert_eq!((decoded, head.is_cut, head.fields.len()), (Ok(()), true, 16));
    assert!(head.held() <= MAX + 16 * 64 && decoder.held() < 8192);
    decoder.decode(&bytes("3fe1ffff0f"), MAX).1.unwrap();
    for byte in 0..10_000u32 {
        let field = [&[0x40, 4][..], &byte.to_be_bytes(), &[100], &[b'x'; 100]].concat();
        decoder.decode(&field, MAX).1.unwrap();
        assert!(decoder.table.bytes <= MAX && decoder.held() <= 2 * MAX);
    }
}
