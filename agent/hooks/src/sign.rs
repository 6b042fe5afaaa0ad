//! Signatures of requests, of the same form as those of the webhook sink: one verifier serves both.

use ring::hmac;

/// The header with the time of the request: seconds since 1970.
pub(crate) const TIMESTAMP_HEADER: &str = "x-mcpwarden-timestamp";
/// The header with the signature.
pub(crate) const SIGNATURE_HEADER: &str = "x-mcpwarden-signature";
const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// `sha256=` and the HMAC-SHA256 (RFC 2104) of timestamp, full stop and body: with the timestamp signed, an old request
/// that is repeated stays old.
pub(crate) fn signature(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut context = hmac::Context::with_key(&key);
    [timestamp.as_bytes(), b".", body].into_iter().for_each(|part| context.update(part));
    let mut text = String::from("sha256=");
    for byte in context.sign().as_ref() {
        let digits = [byte >> 4, byte & 15].into_iter();
        text.extend(digits.filter_map(|digit| DIGITS.get(usize::from(digit))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 7, whose text has one full stop, and what `openssl dgst -sha256 -hmac` prints.
    #[test]
    fn signatures_match_known_ones() {
        let (before, after) = (
            "This is a test using a larger than block-size key and a larger than block-size data",
            " The key needs to be hashed before being used by the HMAC algorithm.",
        );
        for (secret, timestamp, body, expected) in [
            (
                &[0xaa; 131][..],
                before,
                after,
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
            (
                b"secret",
                "1700000000",
                "{}",
                "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163",
            ),
        ] {
            assert_eq!(signature(secret, timestamp, body.as_bytes()), format!("sha256={expected}"));
        }
    }
}
