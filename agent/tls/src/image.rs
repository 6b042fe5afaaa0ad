//! The bytes of a file, read a piece at a time: files of hundreds of megabytes are never in memory as a whole. They are not mapped
//! either: whoever truncates a mapped file kills its readers (SIGBUS).

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _};

use crate::{
    bounds::{CHUNK_BYTES, READ_BYTES, READ_COST_BYTES},
    error::{LocateError, Result},
};

/// A file that is searched, and how much of it may still be read.
#[derive(Debug)]
pub struct Image<'a> {
    source: Source<'a>,
    length: u64,
    left: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Bytes(&'a [u8]),
    File(&'a File),
}

impl<'a> Image<'a> {
    /// The whole file, as bytes.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { source: Source::Bytes(bytes), length: bytes.len() as u64, left: READ_BYTES }
    }

    /// An open file. Its position is neither used nor changed.
    ///
    /// # Errors
    /// It is no regular file (reading another could wait forever), or its length cannot be had.
    pub fn of_file(file: &'a File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self { source: Source::File(file), length: metadata.len(), left: READ_BYTES })
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that were read, with what each read counts besides.
    pub fn read_bytes(&self) -> u64 {
        READ_BYTES - self.left
    }

    /// Counts work on bytes that were read as if it were reading.
    pub(crate) fn charge(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or(LocateError::Budget)?;
        Ok(())
    }

    /// Fills `into` from `offset` on.
    pub(crate) fn read(&mut self, what: &'static str, offset: u64, into: &mut [u8]) -> Result<()> {
        self.charge(into.len() as u64 + READ_COST_BYTES)?;
        let outside = LocateError::Outside { what, offset };
        match self.source {
            Source::Bytes(bytes) => {
                let begin = usize::try_from(offset).map_err(|_| outside.clone())?;
                let end = begin.checked_add(into.len()).ok_or_else(|| outside.clone())?;
                into.copy_from_slice(bytes.get(begin..end).ok_or(outside)?);
                Ok(())
            }
            Source::File(file) => file.read_exact_at(into, offset).map_err(|error| match error.kind() {
                // An offset over i64::MAX is InvalidInput.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => outside,
                kind => LocateError::Io(kind),
            }),
        }
    }

    /// A few bytes at `offset`.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str, offset: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(what, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// A number at `offset`.
    pub(crate) fn u32(&mut self, what: &'static str, offset: u64) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what, offset)?))
    }

    /// What of `length` bytes at `offset` lies in the file. Callers bound `length`.
    pub(crate) fn up_to(&mut self, what: &'static str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let there = length.min(self.length.saturating_sub(offset)).min(CHUNK_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(0)];
        self.read(what, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Calls `each` with the bytes of a range, a chunk at a time: with the offset of the chunk, its bytes, and how many of them are
    /// its own. The others, at most `overlap`, come again as the first of the next chunk, so that what lies across the border is seen
    /// whole once. What begins within a chunk's own bytes belongs to it. Bytes that the file lacks are left out.
    pub(crate) fn chunks(
        &mut self,
        range: Range<u64>,
        overlap: usize,
        each: &mut dyn FnMut(u64, &[u8], usize),
    ) -> Result<()> {
        let end = range.end.min(self.length);
        let mut buffer = vec![0; CHUNK_BYTES + overlap];
        let mut offset = range.start;
        while offset < end {
            let length = buffer.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            let Some(chunk) = buffer.get_mut(..length) else { break };
            self.read("a segment", offset, chunk)?;
            let own = if offset + length as u64 == end { length } else { length.min(CHUNK_BYTES) };
            each(offset, chunk, own);
            offset += own as u64;
        }
        Ok(())
    }
}
