//! Headers by name, and the values that matter: words by their hashes, in any case.
//!
//! A word that is not known could have the hash of one that is. It would be taken for a length that is not one, and the request be
//! undecidable: nothing is hidden by that.

/// Where in a header's value: before it, in it, or at blanks behind it.
pub(super) const BEFORE: u8 = 0;
pub(super) const WITHIN: u8 = 1;
pub(super) const BEHIND: u8 = 2;

/// FNV-1a (64 bits) of a word in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) u64);

const HASH_START: u64 = 0xCBF2_9CE4_8422_2325;
const HASH_PRIME: u64 = 0x100_0000_01B3;

impl Default for Name {
    #[inline(always)]
    fn default() -> Self {
        Self(HASH_START)
    }
}

impl Name {
    /// With one more letter.
    #[inline(always)]
    pub(super) const fn with(self, byte: u8) -> Self {
        Self((self.0 ^ byte.to_ascii_lowercase() as u64).wrapping_mul(HASH_PRIME))
    }

    const fn of(word: &[u8]) -> Self {
        let (mut name, mut at) = (Self(HASH_START), 0);
        while at < word.len() {
            name = name.with(word[at]);
            at += 1;
        }
        name
    }
}

pub(super) const PRI: Name = Name::of(b"pri");
pub(super) const CONNECT: Name = Name::of(b"connect");
pub(super) const CHUNKED: Name = Name::of(b"chunked");
pub(super) const IDENTITY: Name = Name::of(b"identity");

/// A header that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Field {
    Other = 0,
    Length = 1,
    Transfer = 2,
    Coding = 3,
    Expect = 4,
    McpName = 5,
}

impl Field {
    #[inline(always)]
    pub(super) fn of(name: Name) -> Self {
        const LENGTH: Name = Name::of(b"content-length");
        const TRANSFER: Name = Name::of(b"transfer-encoding");
        const CODING: Name = Name::of(b"content-encoding");
        const EXPECT: Name = Name::of(b"expect");
        const MCP_NAME: Name = Name::of(b"mcp-name");
        match name {
            LENGTH => Self::Length,
            TRANSFER => Self::Transfer,
            CODING => Self::Coding,
            EXPECT => Self::Expect,
            MCP_NAME => Self::McpName,
            _ => Self::Other,
        }
    }
}

/// What names of methods and headers consist of (RFC 9110, section 5.6.2).
#[inline(always)]
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}
