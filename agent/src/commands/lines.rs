//! Files of lines, read one bounded line at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Longest line. A frame of 16 MiB can be six times as long when every byte of it is escaped.
const MAX_LINE_BYTES: u64 = 128 << 20;

/// A file, or standard input for `-`; and its name for messages.
///
/// # Errors
/// It cannot be opened.
pub fn open(path: &Path) -> Result<(String, Box<dyn BufRead>)> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return Ok((name, Box::new(BufReader::new(io::stdin()))));
    }
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    Ok((name, Box::new(BufReader::new(file))))
}

/// A mark that some editors put before a text in UTF-8: no part of its first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Hands on each line that is not blank, with its line feed.
///
/// # Errors
/// It cannot be read, a line is too long, or `take` fails: with the place in the file.
pub fn each(name: &str, mut input: impl BufRead, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        let place = || format!("{name}:{number}");
        (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut text).with_context(place)?;
        if text.is_empty() {
            break;
        }
        ensure!(
            text.ends_with(b"\n") || (text.len() as u64) < MAX_LINE_BYTES,
            "{}: longer than {} MiB",
            place(),
            MAX_LINE_BYTES >> 20
        );
        let line = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(&text);
        if !line.trim_ascii().is_empty() {
            take(line).with_context(place)?;
        }
    }
    Ok(())
}
