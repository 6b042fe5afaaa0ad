//! The two tables of HPACK (RFC 7541, section 2.3).

use std::collections::VecDeque;
use std::fmt;

/// What an entry takes beside its name and value (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;
/// Largest dynamic table that is kept. Of a larger one the oldest entries are unknown.
pub(super) const MAX_TABLE_BYTES: usize = 64 * 1024;
/// As large as it is until something else is said (RFC 9113, section 6.5.2).
pub(super) const TABLE_BYTES: usize = 4096;

/// A field of a head. A value that nobody needs is not kept: it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// `None`: not known.
    pub(super) name: Option<Box<str>>,
    /// `None`: not known, or not needed.
    pub(super) value: Option<Box<[u8]>>,
}

/// Session ids are among them.
impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.value.as_ref().map(|value| value.len());
        f.debug_struct("Field").field("name", &self.name).field("value", &length).finish()
    }
}

/// The dynamic table, as far as it is known. Which of its entries are there depends on those that came later alone, so that
/// what is known is right although something before it is not.
#[derive(Debug)]
pub(super) struct Table {
    /// The latest first; each with its size.
    entries: VecDeque<(Field, usize)>,
    pub(super) bytes: usize,
    max_bytes: usize,
}

impl Table {
    /// An empty one.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, max_bytes }
    }

    /// Memory that it takes, at most.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.entries.len() * size_of::<(Field, usize)>()
    }

    /// Nothing of it is known any more, and not how large it may be.
    pub(super) fn lose(&mut self) {
        *self = Self::new(MAX_TABLE_BYTES);
    }

    /// It may be as large as this from now on.
    pub(super) fn resize(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes.min(MAX_TABLE_BYTES);
        self.evict();
    }

    /// A field whose name and value are so long comes first. An unknown name counts as an empty one: what is kept for too
    /// long is not referred to.
    pub(super) fn insert(&mut self, field: Field, length: usize) {
        let bytes = length + ENTRY_BYTES;
        self.bytes += bytes;
        self.entries.push_front((field, bytes));
        self.evict();
    }

    /// The entry of an index, of either table; `None`: not known.
    pub(super) fn get(&self, index: usize) -> Option<Field> {
        if let Some((name, value)) = index.checked_sub(1).and_then(|index| STATIC.get(index)) {
            return Some(Field { name: Some((*name).into()), value: Some(value.as_bytes().into()) });
        }
        let at = index.checked_sub(STATIC.len() + 1)?;
        self.entries.get(at).map(|(field, _)| field.clone())
    }

    fn evict(&mut self) {
        while self.bytes > self.max_bytes
            && let Some((_, bytes)) = self.entries.pop_back()
        {
            self.bytes -= bytes;
        }
    }
}

/// RFC 7541, appendix A; from 1.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
