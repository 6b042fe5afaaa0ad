//! Functions by their symbols: the dynamic ones by the hash table that the linker uses, those for debuggers by their table.
//!
//! Source: System V ABI, "Symbol Table" and "Hash Table"; `DT_GNU_HASH` as glibc reads it (elf/dl-lookup.c).

use std::{collections::BTreeMap, ops::Range};

use crate::{
    bounds::{MAX_HASH_CHAIN, MAX_NAME_BYTES, MAX_NAME_OFFSETS, MAX_RELOCATIONS, MAX_SAME_NAME, MAX_SYMBOLS},
    elf::{Elf, Fields, Section},
    error::Result,
    image::Image,
    search,
};

/// Bytes of a symbol.
const SYMBOL_BYTES: u64 = 24;
const STT_FUNC: u8 = 2;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;

/// A function that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Which of the names.
    pub(crate) name: usize,
    /// Where it is mapped.
    pub(crate) address: u64,
    /// Bytes, or 0.
    pub(crate) size: u64,
}

impl Symbol {
    /// The function that a symbol defines; none of data, of what is imported, and of what is chosen only when it is loaded.
    fn read(name: usize, bytes: &[u8]) -> Option<Self> {
        let symbol = Fields(bytes);
        let is_function = symbol.u8(4) & 15 == STT_FUNC;
        let (section, address) = (symbol.u16(6), symbol.u64(8));
        (is_function && section != 0 && address != 0).then(|| Self { name, address, size: symbol.u64(16) })
    }
}

/// The functions of these names that other files can use.
pub(crate) fn dynamic(image: &mut Image<'_>, elf: &Elf, names: &[&str]) -> Result<Vec<Symbol>> {
    let dynamic = &elf.dynamic;
    let at = |address: Option<u64>| address.and_then(|address| elf.offset(address));
    let (Some(symbols), Some(texts)) = (at(dynamic.symbols), at(dynamic.names)) else {
        return Ok(Vec::new());
    };
    let mut table = Table { image, symbols, texts };
    if let Some(hash) = at(dynamic.gnu_hash) {
        return table.by_gnu_hash(hash, names);
    }
    if let Some(hash) = at(dynamic.hash) {
        return table.by_hash(hash, names);
    }
    match elf.sections.iter().find(|section| section.kind == SHT_DYNSYM) {
        Some(section) => by_table(image, elf, section, names),
        None => Ok(Vec::new()),
    }
}

/// The functions of these names by the symbols for debuggers.
pub(crate) fn for_debuggers(image: &mut Image<'_>, elf: &Elf, names: &[&str]) -> Result<Vec<Symbol>> {
    match elf.sections.iter().find(|section| section.kind == SHT_SYMTAB) {
        Some(section) => by_table(image, elf, section, names),
        None => Ok(Vec::new()),
    }
}

struct Table<'a, 'b> {
    image: &'a mut Image<'b>,
    symbols: u64,
    texts: u64,
}

impl Table<'_, '_> {
    fn by_gnu_hash(&mut self, table: u64, names: &[&str]) -> Result<Vec<Symbol>> {
        let header: [u8; 16] = self.image.array("the hash table", table)?;
        let header = Fields(&header);
        let (buckets, first, words) = (header.u32(0), header.u32(4), header.u32(8));
        let mut found = Vec::new();
        if buckets == 0 {
            return Ok(found);
        }
        let bucket_table = table.saturating_add(16).saturating_add(u64::from(words) * 8);
        let chains = bucket_table.saturating_add(u64::from(buckets) * 4);
        for (name, text) in names.iter().enumerate() {
            let hash =
                text.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
            let bucket = bucket_table.saturating_add(u64::from(hash % buckets) * 4);
            let mut index = self.image.u32("the hash table", bucket)?;
            for _ in 0..MAX_HASH_CHAIN {
                let Some(position) = index.checked_sub(first) else { break };
                let chain = chains.saturating_add(u64::from(position) * 4);
                let other = self.image.u32("the hash table", chain)?;
                if other | 1 == hash | 1 {
                    found.extend(self.symbol(index, name, text)?);
                }
                if other & 1 == 1 {
                    break;
                }
                index = index.saturating_add(1);
            }
        }
        Ok(found)
    }

    fn by_hash(&mut self, table: u64, names: &[&str]) -> Result<Vec<Symbol>> {
        let header: [u8; 8] = self.image.array("the hash table", table)?;
        let buckets = Fields(&header).u32(0);
        let mut found = Vec::new();
        if buckets == 0 {
            return Ok(found);
        }
        let chains = table.saturating_add(8).saturating_add(u64::from(buckets) * 4);
        for (name, text) in names.iter().enumerate() {
            let hash = text.bytes().fold(0_u32, |hash, byte| {
                let hash = hash.wrapping_shl(4).wrapping_add(byte.into());
                (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff
            });
            let bucket = table.saturating_add(8).saturating_add(u64::from(hash % buckets) * 4);
            let mut index = self.image.u32("the hash table", bucket)?;
            for _ in 0..MAX_HASH_CHAIN {
                if index == 0 {
                    break;
                }
                found.extend(self.symbol(index, name, text)?);
                index = self.image.u32("the hash table", chains.saturating_add(u64::from(index) * 4))?;
            }
        }
        Ok(found)
    }

    /// The symbol at an index, if it is a function of this name.
    fn symbol(&mut self, index: u32, name: usize, text: &str) -> Result<Option<Symbol>> {
        let offset = self.symbols.saturating_add(u64::from(index) * SYMBOL_BYTES);
        let bytes: [u8; SYMBOL_BYTES as usize] = self.image.array("a symbol", offset)?;
        let at = self.texts.saturating_add(u64::from(Fields(&bytes).u32(0)));
        let there = self.image.up_to("the name of a symbol", at, text.len() as u64 + 1)?;
        let is_same = there.split_last().is_some_and(|(end, there)| *end == 0 && there == text.as_bytes());
        Ok(if is_same { Symbol::read(name, &bytes) } else { None })
    }

    /// The name of the symbol at an index.
    fn name(&mut self, index: u32) -> Result<String> {
        let offset = self.symbols.saturating_add(u64::from(index) * SYMBOL_BYTES);
        let name = self.image.u32("a symbol", offset)?;
        let at = self.texts.saturating_add(u64::from(name));
        let bytes = self.image.up_to("the name of a symbol", at, MAX_NAME_BYTES as u64)?;
        let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned())
    }
}

/// By the whole table: the names are searched among all names, and then the symbols for those that have one of them.
fn by_table(image: &mut Image<'_>, elf: &Elf, section: &Section, names: &[&str]) -> Result<Vec<Symbol>> {
    let Some(texts) = elf.sections.get(section.link as usize) else { return Ok(Vec::new()) };
    let range = texts.offset..texts.offset.saturating_add(texts.size);
    let offsets = name_offsets(image, range, names)?;
    let mut found: Vec<Symbol> = Vec::new();
    if offsets.is_empty() {
        return Ok(found);
    }
    let length = (section.size / SYMBOL_BYTES).min(MAX_SYMBOLS) * SYMBOL_BYTES;
    let range = section.offset..section.offset.saturating_add(length);
    let begin = range.start;
    let mut counts = vec![0; names.len()];
    let mut carry: Vec<u8> = Vec::new();
    let mut take = |bytes: &[u8]| {
        for symbol in bytes.chunks_exact(SYMBOL_BYTES as usize) {
            let Some(name) = offsets.get(&u64::from(Fields(symbol).u32(0))) else { continue };
            let Some(symbol) = Symbol::read(*name, symbol) else { continue };
            let is_known =
                found.iter().any(|known| (known.name, known.address) == (symbol.name, symbol.address));
            if let Some(count) = counts.get_mut(*name)
                && *count < MAX_SAME_NAME
                && !is_known
            {
                *count += 1;
                found.push(symbol);
            }
        }
    };
    image.chunks(range, 0, &mut |offset, chunk, _| {
        // Chunks are no multiple of symbols: the one that lies across the border is put together.
        let skip =
            usize::try_from((SYMBOL_BYTES - (offset - begin) % SYMBOL_BYTES) % SYMBOL_BYTES).unwrap_or(0);
        let (head, rest) = chunk.split_at_checked(skip).unwrap_or((chunk, &[]));
        carry.extend_from_slice(head);
        take(&carry);
        take(rest);
        let whole = rest.len() - rest.len() % SYMBOL_BYTES as usize;
        carry.clear();
        carry.extend_from_slice(rest.get(whole..).unwrap_or_default());
    })?;
    Ok(found)
}

/// Where the names stand in a table of names, from its beginning on, and which that is. In the table for debuggers a name can have a
/// version: `SSL_write@@OPENSSL_3.0.0`.
fn name_offsets(image: &mut Image<'_>, range: Range<u64>, names: &[&str]) -> Result<BTreeMap<u64, usize>> {
    let begin = range.start;
    let mut offsets = BTreeMap::new();
    let texts: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let found = search::texts(image, &[range], &texts, MAX_NAME_OFFSETS)?;
    for (name, (text, found)) in names.iter().zip(found).enumerate() {
        for offset in found {
            let after: [u8; 1] =
                image.array("the name of a symbol", offset.saturating_add(text.len() as u64))?;
            if matches!(after, [0] | [b'@']) {
                offsets.insert(offset - begin, name);
            }
        }
    }
    Ok(offsets)
}

/// The name of the function whose address is put into memory at `slot` when the file is loaded: what a stub jumps to.
pub(crate) fn imported(image: &mut Image<'_>, elf: &Elf, slot: u64) -> Result<Option<String>> {
    /// Bytes of a relocation with addend.
    const ENTRY_BYTES: u64 = 24;
    let dynamic = &elf.dynamic;
    let at = |address: Option<u64>| address.and_then(|address| elf.offset(address));
    let (Some(jumps), Some(symbols), Some(texts)) =
        (at(dynamic.jumps), at(dynamic.symbols), at(dynamic.names))
    else {
        return Ok(None);
    };
    let count = (dynamic.jumps_bytes / ENTRY_BYTES).min(MAX_RELOCATIONS);
    let mut left = count * ENTRY_BYTES;
    let mut offset = jumps;
    while left > 0 {
        let bytes = image.up_to("the relocations", offset, left.min(ENTRY_BYTES * 4096))?;
        if bytes.len() < ENTRY_BYTES as usize {
            break;
        }
        for entry in bytes.chunks_exact(ENTRY_BYTES as usize).map(Fields) {
            if entry.u64(0) == slot {
                return Table { image, symbols, texts }.name(entry.u32(12)).map(Some);
            }
        }
        offset = offset.saturating_add(bytes.len() as u64);
        left = left.saturating_sub(bytes.len() as u64);
    }
    Ok(None)
}
