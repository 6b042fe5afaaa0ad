//! HTTP/1.1 by hand: messages in every form that they can have, written and read in pieces of any size.

mod client;
mod server;
mod wish;

use std::io::{self, BufRead, Read, Write};

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

pub use client::{Client, SECRET};
pub use server::{Exchanged, Server};
pub use wish::{Answer, Wish};

/// Numbers that look random and are the same in each run (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next one below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Text of so many bytes, with what JSON and its readers treat apart.
    pub fn text(&mut self, bytes: usize) -> String {
        const PARTS: [&str; 8] = ["of ", "quartz ", "no\nline ", "\"said\" ", "\\ ", "été ", "0815 ", "😀 "];
        let mut text = String::with_capacity(bytes);
        while text.len() < bytes {
            let part = self.one_of(&PARTS);
            text.push_str(if text.len() + part.len() <= bytes { part } else { "." });
        }
        text
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After `Content-Length` bytes.
    Length,
    /// With an empty chunk.
    Chunked,
    /// With the connection.
    Close,
}

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    Identity,
    /// `gzip`
    Gzip,
    /// `deflate`
    Deflate,
}

impl Coding {
    fn encode(self, body: &[u8]) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Identity => body.to_vec(),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body)?;
                encoder.finish()?
            }
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body)?;
                encoder.finish()?
            }
        })
    }
}

/// A message as it goes over the wire: these lines, which end in CRLF, and this body.
pub fn wire(
    lines: &str,
    body: &[u8],
    framing: Framing,
    coding: Coding,
    rng: &mut Rng,
) -> io::Result<Vec<u8>> {
    let body = coding.encode(body)?;
    let mut wire = lines.as_bytes().to_vec();
    match coding {
        Coding::Identity => {}
        Coding::Gzip => wire.extend(b"Content-Encoding: gzip\r\n"),
        Coding::Deflate => wire.extend(b"Content-Encoding: deflate\r\n"),
    }
    match framing {
        Framing::Length => write!(wire, "Content-Length: {}\r\n\r\n", body.len())?,
        Framing::Chunked => wire.extend(b"Transfer-Encoding: chunked\r\n\r\n"),
        Framing::Close => wire.extend(b"Connection: close\r\n\r\n"),
    }
    if framing != Framing::Chunked {
        wire.extend(body);
        return Ok(wire);
    }
    let mut rest = &body[..];
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_bytes(rng).min(rest.len()));
        write!(wire, "{:x}\r\n", piece.len())?;
        wire.extend(piece);
        wire.extend(b"\r\n");
        rest = after;
    }
    wire.extend(b"0\r\n\r\n");
    Ok(wire)
}

/// How long a piece is.
fn piece_bytes(rng: &mut Rng) -> usize {
    rng.one_of(&[1, 7, 100, 4 << 10, 64 << 10, 64 << 10])
}

/// Writes bytes in pieces.
///
/// # Errors
/// Nobody takes them.
pub fn write_in_pieces(to: &mut impl Write, mut bytes: &[u8], rng: &mut Rng) -> io::Result<()> {
    while !bytes.is_empty() {
        let (piece, after) = bytes.split_at(piece_bytes(rng).min(bytes.len()));
        to.write_all(piece)?;
        bytes = after;
    }
    Ok(())
}

/// Reads as little at a time as it likes.
#[derive(Debug)]
pub struct Sips<R>(pub R, pub Rng);

impl<R: Read> Read for Sips<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = piece_bytes(&mut self.1).min(into.len());
        self.0.read(&mut into[..most])
    }
}

/// The head of a message.
#[derive(Debug)]
pub struct Head {
    /// Its first line.
    pub first: String,
    fields: Vec<(String, String)>,
    is_answer: bool,
}

impl Head {
    /// The value of a field; its name is given in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Status of an answer.
    pub fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }
}

/// Reads a head. `None`: the connection was closed before.
///
/// # Errors
/// It ends in between, or is none.
pub fn read_head(from: &mut impl BufRead) -> Result<Option<Head>> {
    let mut line = String::new();
    if from.read_line(&mut line).context("cannot read")? == 0 {
        return Ok(None);
    }
    let first = line.trim_end().to_owned();
    let mut head = Head { is_answer: first.starts_with("HTTP/"), first, fields: Vec::new() };
    loop {
        let mut line = String::new();
        from.read_line(&mut line).context("cannot read")?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                head.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None if line == "\r\n" => return Ok(Some(head)),
            None => bail!("no field: {line:?}"),
        }
    }
}

/// Reads the body that belongs to a head.
///
/// # Errors
/// It ends too early, or is not what the head says.
pub fn read_body(head: &Head, from: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    if head.field("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let size =
                u64::from_str_radix(line.trim_end(), 16).with_context(|| format!("no size: {line:?}"))?;
            from.take(size).read_to_end(&mut body)?;
            from.read_exact(&mut [0; 2])?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = head.field("content-length") {
        body.resize(length.parse().context("no length")?, 0);
        from.read_exact(&mut body)?;
    } else if head.is_answer && head.status() != Some(204) {
        from.read_to_end(&mut body)?;
    }
    let mut decoded = Vec::new();
    match head.field("content-encoding") {
        None => return Ok(body),
        Some("gzip") => GzDecoder::new(&body[..]).read_to_end(&mut decoded)?,
        Some("deflate") => ZlibDecoder::new(&body[..]).read_to_end(&mut decoded)?,
        Some(other) => bail!("an unknown coding: {other}"),
    };
    Ok(decoded)
}

/// The messages in the body of an answer: itself, or the data of its events.
///
/// # Errors
/// There is something else in it.
pub fn messages(head: &Head, body: &[u8]) -> Result<Vec<serde_json::Value>> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    if head.field("content-type") != Some("text/event-stream") {
        return Ok(vec![serde_json::from_slice(body).context("no JSON")?]);
    }
    let text = std::str::from_utf8(body)?.replace("\r\n", "\n").replace('\r', "\n");
    let mut messages = Vec::new();
    for event in text.split("\n\n") {
        let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        if !data.is_empty() {
            messages.push(serde_json::from_str(&data.join("\n")).context("no JSON in an event")?);
        }
    }
    Ok(messages)
}
