//! Finds things in texts that must stay inside.

/// The kind of the first thing that is found.
pub fn kind(text: &str, words: &[String]) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    if has_access_key(text) {
        return Some("an access key");
    }
    if has_card_number(text) {
        return Some("a card number");
    }
    let lower = text.to_lowercase();
    words
        .iter()
        .any(|word| !word.is_empty() && lower.contains(&word.to_lowercase()))
        .then_some("a configured word")
}

/// An AWS access key: `AKIA` and sixteen capital letters or digits.
fn has_access_key(text: &str) -> bool {
    text.match_indices("AKIA").any(|(at, _)| {
        let rest =
            text[at + 4..].bytes().take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        rest.count() == 16
    })
}

/// Thirteen to nineteen digits, perhaps with single spaces or hyphens between them, and the check digit of Luhn.
fn has_card_number(text: &str) -> bool {
    let mut digits: Vec<u8> = Vec::new();
    let mut separated = false;
    for byte in text.bytes().chain([b'.']) {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte - b'0');
                separated = false;
            }
            b' ' | b'-' if !digits.is_empty() && !separated => separated = true,
            _ => {
                if (13..=19).contains(&digits.len()) && luhn(&digits) {
                    return true;
                }
                digits.clear();
                separated = false;
            }
        }
    }
    false
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, u32::from(*digit) * 2) {
            (0, twice) => twice / 2,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum % 10 == 0 && digits.iter().any(|digit| *digit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found() {
        let words = ["Bluebird".to_owned(), String::new()];
        for (text, expected) in [
            ("", None),
            ("{\"path\":\"notes.txt\"}", None),
            ("card 4111 1111 1111 1111.", Some("a card number")),
            ("4111-1111-1111-1111", Some("a card number")),
            ("4111 1111 1111 1112", None),
            ("0000000000000000", None),
            ("411111111111111111111111", None),
            ("AKIAIOSFODNN7EXAMPLE", Some("an access key")),
            ("AKIAIOSFODNN7EXAMPL", None),
            ("AKIAIOSFODNN7EXAMPLEX", None),
            ("-----BEGIN RSA PRIVATE KEY-----\\nMII", Some("a private key")),
            ("-----BEGIN PUBLIC KEY-----", None),
            ("the project BLUEBIRD", Some("a configured word")),
        ] {
            assert_eq!(kind(text, &words), expected, "{text}");
        }
    }
}
