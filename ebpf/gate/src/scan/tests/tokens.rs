//! Tokens at once and single bytes, of generated messages.

use super::*;

/// Strings at once are read as byte by byte ([`Words::read`] compares them), whatever they are made of and wherever they are
/// cut.
#[test]
fn batched_letters_match_single_letter_reads() {
    let words = words();
    let long = "n".repeat(300);
    let odd = [
        "",
        "\u{e9}",
        "\u{85}",
        "\u{2028}",
        "\u{201c}",
        "\\\"",
        "\\u00e9",
        "\\ud83d",
        "\\ud83d\\ude00",
        "\t",
        "\u{1}",
        "\0",
        "\u{7f}",
        "\\\\",
    ];
    for text in ["a", "delete_x", long.as_str()] {
        for odd in odd {
            for key in ["method", "name", "uri", "other"] {
                let string = format!("{odd}{text}{odd}{text}");
                let params = format!(r#""params":{{"{key}":"{string}","arguments":{{"{key}":"{string}"}}}}"#);
                let message = format!("{{\"{key}\":\"{string}\",{params},\"{key}\":\"{string}\"}}\n");
                let whole = words.read(0, &[message.as_bytes()]);
                for cut in (0..message.len()).step_by(if text.len() > 9 { 97 } else { 5 }) {
                    let (first, second) = message.as_bytes().split_at(cut);
                    assert_eq!(words.read(0, &[first, second]).len(), whole.len(), "{message} cut at {cut}");
                }
            }
        }
    }
}

/// What messages are made of, in any order.
const FRAGMENTS: [&[u8]; 61] = [
    b"\"jsonrpc\":\"2.0\"",
    b"\"id\":",
    b"\"method\":\"tools/call\",\"params\":{",
    b"\"name\":\"",
    b",\"arguments\":{",
    b"{",
    b"{",
    b"}",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\"",
    b":",
    b":",
    b",",
    b",",
    b" ",
    b"\n",
    b"\r",
    b"\t",
    b"\x0b",
    b"\0",
    b"\\",
    b"\\\"",
    b"\\u0064",
    b"\\ud83d",
    b"\\ude00",
    b"\xc2",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\xe2\x80\x9c",
    b"\xff",
    b"0",
    b"-1.5e3",
    b"null",
    b"{\"method\":\"tools/call\",\"params\":{\"name\":",
    b"\"method\":",
    b"\"METHOD\":",
    b"\"params\":{",
    b"\"Params\":",
    b"\"name\":",
    b"\"nAme\":",
    b"\"uri\":",
    b"\"tools/call\"",
    b"\"prompts/get\"",
    b"\"resources/read\"",
    b"\"tools/cal\"",
    b"\"delete_x\"",
    b"delete_x",
    b"\"p\"",
    b"\"arguments\":{\"text\":\"",
    b"\"arguments\":{",
    b"\"Arguments\":",
    b"\"path\":\"/etc/",
    b"\"path\"",
    b"\"mode\":\"x\"",
    b"\"w\"",
    b"\"name\":\"w2\",\"arguments\":{",
    b"'",
    b"\"a longer text, with more than eight letters\"",
];

/// Messages that are whole and well-formed, and everything else, read as byte by byte ([`Words::read`] compares them), however it
/// is cut.
#[test]
fn tokens_match_single_steps_for_any_bytes() {
    let words = words();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % bound
    };
    // A number there: so many times as many.
    let times = std::env::var("MCPWARDEN_TEST_FULL").ok().and_then(|times| times.parse().ok());
    let mut denied = 0;
    for _ in 0..20_000 * times.unwrap_or(1_usize) {
        let begun: [&[u8]; 4] = [b"", b"{", b"[{\"params\":{", FRAGMENTS[36]];
        let mut bytes = begun[below(begun.len())].to_vec();
        for _ in 0..below(24) {
            bytes.extend_from_slice(FRAGMENTS[below(FRAGMENTS.len())]);
        }
        let (first, second) = bytes.split_at(below(bytes.len() + 1));
        denied += words.read(0, &[first, second]).iter().filter(|(outcome, ..)| *outcome == DENIED).count();
    }
    assert!(denied > 200, "{denied}");
}
