//! HTTP/2: the same messages, however they are framed.

mod hostile;
mod late;
mod properties;
mod wire;

use std::collections::VecDeque;

use super::*;
use crate::http2::huffman::LENGTHS;

pub(super) const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const ASKED: Direction = Direction::ClientToServer;
const ANSWERED: Direction = Direction::ServerToClient;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING_FRAME: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn data(stream: u32, text: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, 0, stream, text.as_ref())
}

/// The last of a stream.
pub(super) fn last(stream: u32, text: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, text.as_ref())
}

pub(super) fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

/// How heads are written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// In the Huffman code.
    pub(super) huffman: bool,
    /// Every field as it is, and not put into the table.
    pub(super) literal: bool,
}

/// One end of a connection: it writes heads.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    style: Style,
    table: VecDeque<(String, String)>,
    max: usize,
}

impl Encoder {
    pub(super) fn new(style: Style) -> Self {
        Self { style, table: VecDeque::new(), max: 4096 }
    }

    /// A head of these fields, `name=value` each.
    pub(super) fn block(&mut self, fields: &str) -> Vec<u8> {
        let mut block = Vec::new();
        for field in fields.split_whitespace() {
            let (name, value) = field.split_once('=').unwrap();
            self.field(name, value, &mut block);
        }
        block
    }

    fn field(&mut self, name: &str, value: &str, block: &mut Vec<u8>) {
        let known =
            [(":method", "GET", 2), (":method", "POST", 3), (":scheme", "http", 6), (":status", "200", 8)];
        let known = known.iter().find(|(other, its, _)| (*other, *its) == (name, value));
        let seen = self.table.iter().position(|(other, its)| (other.as_str(), its.as_str()) == (name, value));
        if let Some(index) = known.map(|known| known.2).or(seen.map(|at| at + 62)) {
            return number(index, 7, 0x80, block);
        }
        let names = [(":authority", 1), (":path", 4), (":status", 8), ("content-type", 31), ("accept", 19)];
        let index = names.iter().find(|(other, _)| *other == name).map_or(0, |found| found.1);
        match self.style.literal {
            true => number(index, 4, 0x10, block),
            false => {
                number(index, 6, 0x40, block);
                self.table.push_front((name.to_owned(), value.to_owned()));
                self.evict();
            }
        }
        if index == 0 {
            self.string(name, block);
        }
        self.string(value, block);
    }

    fn evict(&mut self) {
        let bytes = |table: &VecDeque<(String, String)>| -> usize {
            table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        while bytes(&self.table) > self.max {
            self.table.pop_back();
        }
    }

    /// A change of the table, which stands before a head.
    pub(super) fn resize(&mut self, max: usize) -> Vec<u8> {
        self.max = max;
        self.evict();
        let mut block = Vec::new();
        number(max, 5, 0x20, &mut block);
        block
    }

    fn string(&self, text: &str, block: &mut Vec<u8>) {
        if !self.style.huffman {
            number(text.len(), 7, 0, block);
            return block.extend_from_slice(text.as_bytes());
        }
        let mut bits: Vec<bool> = Vec::new();
        for byte in text.bytes() {
            let (code, length) = code(byte);
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        let coded: Vec<u8> = bits
            .chunks(8)
            .map(|byte| (0..8).fold(0, |sum, at| sum << 1 | u8::from(*byte.get(at).unwrap_or(&true))))
            .collect();
        number(coded.len(), 7, 0x80, block);
        block.extend(coded);
    }

    /// A frame with a whole head.
    pub(super) fn head(&mut self, stream: u32, ends: bool, fields: &str) -> Vec<u8> {
        let block = self.block(fields);
        frame(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &block)
    }

    /// A POST of JSON to `/mcp` with these fields as well.
    pub(super) fn post(&mut self, stream: u32, fields: &str, body: &str) -> Vec<u8> {
        let head = self.head(stream, false, &format!("{POST} {fields}"));
        [head, last(stream, body)].concat()
    }

    /// An answer of JSON.
    pub(super) fn json(&mut self, stream: u32, fields: &str, body: &str) -> Vec<u8> {
        let head = self.head(stream, false, &format!("{OK} content-type=application/json {fields}"));
        [head, last(stream, body)].concat()
    }
}

pub(super) const POST: &str =
    ":method=POST :scheme=http :authority=a :path=/mcp content-type=application/json";
pub(super) const GET: &str = ":method=GET :scheme=http :authority=a :path=/mcp accept=text/event-stream";
pub(super) const OK: &str = ":status=200";
pub(super) const EVENTS: &str = ":status=200 content-type=text/event-stream";

fn number(value: usize, bits: u32, first: u8, block: &mut Vec<u8>) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return block.push(first | value as u8);
    }
    block.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 128 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// The code of a byte: those of one length follow each other, those of the next length go on with a bit more.
fn code(byte: u8) -> (u32, u8) {
    let (mut code, mut length) = (0u32, 0u8);
    loop {
        let same: Vec<u8> = (0..=255).filter(|other| LENGTHS[usize::from(*other)] == length).collect();
        if let Some(at) = same.iter().position(|other| *other == byte) {
            return (code + at as u32, length);
        }
        code = (code + same.len() as u32) << 1;
        length += 1;
    }
}

/// Both ends of a connection.
pub(super) fn ends(style: Style) -> (Encoder, Encoder) {
    (Encoder::new(style), Encoder::new(style))
}

/// What both ends begin with.
pub(super) fn begin() -> Vec<Step> {
    vec![ask(1, [PREFACE.as_bytes(), &settings()].concat()), answer(1, settings())]
}
