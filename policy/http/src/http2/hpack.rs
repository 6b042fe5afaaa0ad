//! Heads of HTTP/2 (HPACK, RFC 7541), decoded by someone who may have come late: an entry of the dynamic table that was not
//! seen is an unknown field, and what comes behind it is read.

use super::error::Http2Error;
use super::huffman;
use super::table::{Field, MAX_TABLE_BYTES, TABLE_BYTES, Table};

/// Largest number that a head may hold: no string and no table is as long.
const MAX_INTEGER: u64 = u32::MAX as u64;

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The fields that are needed, in order.
    pub(super) fields: Vec<(Box<str>, Box<[u8]>)>,
    /// Fields of which name or value is not known.
    pub(super) unknown: u64,
    /// Whether fields that are needed were left out, since there are too many or they are too long.
    pub(super) is_cut: bool,
    bytes: usize,
}

impl Head {
    /// One of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self { unknown: 1, ..Self::default() }
    }

    /// Memory that it takes.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.fields.len() * size_of::<(Box<str>, Box<[u8]>)>()
    }

    /// Whether something that matters may be missing.
    pub(super) fn is_partial(&self) -> bool {
        self.unknown > 0 || self.is_cut
    }

    fn push(&mut self, field: Field, is_needed: fn(&str) -> bool, max_bytes: usize) {
        let Field { name: Some(name), value } = field else {
            self.unknown += 1;
            return;
        };
        let Some(value) = value.filter(|_| is_needed(&name)) else { return };
        let bytes = name.len() + value.len();
        if self.is_cut || self.bytes + bytes > max_bytes {
            self.is_cut = true;
            return;
        }
        self.bytes += bytes;
        self.fields.push((name, value));
    }
}

/// Decodes the heads of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) table: Table,
    /// Whether the value of a field is looked at.
    is_needed: fn(&str) -> bool,
}

impl Decoder {
    /// At the beginning of a connection.
    pub(super) fn new(is_needed: fn(&str) -> bool) -> Self {
        Self { table: Table::new(TABLE_BYTES), is_needed }
    }

    /// Memory that it takes.
    pub(super) fn held(&self) -> usize {
        self.table.held()
    }

    /// Heads are missing here.
    pub(super) fn lose(&mut self) {
        self.table.lose();
    }

    /// Decodes the next head, and keeps at most `max_bytes` of its names and values.
    ///
    /// # Errors
    /// Where it is invalid; with what comes before that.
    pub(super) fn decode(&mut self, block: &[u8], max_bytes: usize) -> (Head, Result<(), Http2Error>) {
        let (mut head, mut rest) = (Head::default(), block);
        while !rest.is_empty() {
            if let Err(error) = self.field(&mut rest, &mut head, max_bytes) {
                return (head, Err(error));
            }
        }
        (head, Ok(()))
    }

    /// RFC 7541, section 6.
    fn field(&mut self, rest: &mut &[u8], head: &mut Head, max_bytes: usize) -> Result<(), Http2Error> {
        let first = rest.first().copied().ok_or(Http2Error::Truncated)?;
        if first & 0x80 != 0 {
            let index = index(integer(rest, 7)?)?;
            let field = self.table.get(index).unwrap_or(Field { name: None, value: None });
            head.push(field, self.is_needed, max_bytes);
        } else if first & 0xC0 == 0x40 {
            let (field, length) = self.literal(rest, 6)?;
            self.table.insert(field.clone(), length);
            head.push(field, self.is_needed, max_bytes);
        } else if first & 0xE0 == 0x20 {
            // Whoever sends it was told how large the table may be; what is beyond our own bound becomes unknown.
            let bytes = usize::try_from(integer(rest, 5)?).unwrap_or(MAX_TABLE_BYTES);
            self.table.resize(bytes);
        } else {
            // Without indexing, or never to be indexed.
            let (field, _) = self.literal(rest, 4)?;
            head.push(field, self.is_needed, max_bytes);
        }
        Ok(())
    }

    /// A field, and how long its name and value are.
    fn literal(&self, rest: &mut &[u8], bits: u32) -> Result<(Field, usize), Http2Error> {
        let (name, name_length) = match integer(rest, bits)? {
            0 => {
                let name = string(rest)?;
                (Some(String::from_utf8_lossy(&name).into_owned().into_boxed_str()), name.len())
            }
            at => {
                let name = self.table.get(index(at)?).and_then(|field| field.name);
                let length = name.as_ref().map_or(0, |name| name.len());
                (name, length)
            }
        };
        let value = string(rest)?;
        let length = name_length + value.len();
        let is_needed = name.as_deref().is_some_and(self.is_needed);
        Ok((Field { name, value: is_needed.then(|| value.into()) }, length))
    }
}

/// Whether the value of a field matters here.
pub(super) fn is_needed(name: &str) -> bool {
    const NAMES: [&str; 18] = [
        ":authority",
        ":method",
        ":path",
        ":protocol",
        ":status",
        "accept",
        "content-encoding",
        "content-type",
        "host",
        "last-event-id",
        "location",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "traceparent",
        "tracestate",
        "user-agent",
    ];
    const PARAM: &str = "mcp-param-";
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
        || name.get(..PARAM.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM))
}

fn index(value: u64) -> Result<usize, Http2Error> {
    match usize::try_from(value) {
        Ok(0) | Err(_) => Err(Http2Error::Index),
        Ok(index) => Ok(index),
    }
}

/// A number in the last `bits` bits of a byte, and perhaps in those behind it (RFC 7541, section 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, Http2Error> {
    let mask = (1u64 << bits) - 1;
    let mut value = u64::from(byte(rest)?) & mask;
    if value < mask {
        return Ok(value);
    }
    let mut shift = 0;
    loop {
        let byte = u64::from(byte(rest)?);
        value += (byte & 0x7F) << shift;
        if value > MAX_INTEGER || shift > 28 {
            return Err(Http2Error::Integer);
        }
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

/// RFC 7541, section 5.2.
fn string(rest: &mut &[u8]) -> Result<Vec<u8>, Http2Error> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = usize::try_from(integer(rest, 7)?).map_err(|_| Http2Error::Integer)?;
    let (text, after) = rest.split_at_checked(length).ok_or(Http2Error::Truncated)?;
    *rest = after;
    if is_coded { huffman::decode(text) } else { Ok(text.to_vec()) }
}

fn byte(rest: &mut &[u8]) -> Result<u8, Http2Error> {
    let (first, after) = rest.split_first().ok_or(Http2Error::Truncated)?;
    *rest = after;
    Ok(*first)
}
