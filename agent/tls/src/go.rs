//! Functions of Go programs, by the table that every Go program needs to run: `-ldflags "-s -w"` and `strip` leave it.
//!
//! Source: `src/runtime/symtab.go` (`pcHeader`, `functab`, `_func`) and `src/debug/gosym/pclntab.go` of Go 1.16 to 1.25. Three layouts
//! are read, by their magic numbers: 1.16 and 1.17 (fffffffa), 1.18 and 1.19 (fffffff0), 1.20 and later (fffffff1).

use crate::{
    bounds::{MAX_FUNCTION_BYTES, MAX_GO_FUNCTIONS, MAX_GO_NAMES_BYTES, MAX_GO_TABLES},
    elf::{Elf, Fields},
    error::{LocateError, Result},
    image::Image,
    search,
};

/// The beginnings of the tables: the magic number, zeros, the smallest distance between instructions, bytes of an address. By layout
/// and machine.
const BEGINNINGS: [[u8; 8]; 6] = [
    [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8],
    [0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8],
    [0xfa, 0xff, 0xff, 0xff, 0, 0, 1, 8],
    [0xf1, 0xff, 0xff, 0xff, 0, 0, 4, 8],
    [0xf0, 0xff, 0xff, 0xff, 0, 0, 4, 8],
    [0xfa, 0xff, 0xff, 0xff, 0, 0, 4, 8],
];

/// The layout of 1.2 to 1.15, which is not read.
const OLD: [[u8; 8]; 2] = [[0xfb, 0xff, 0xff, 0xff, 0, 0, 1, 8], [0xfb, 0xff, 0xff, 0xff, 0, 0, 4, 8]];

/// A function of a Go program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoFunction {
    /// Which of the names.
    pub(crate) name: usize,
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Bytes up to the next function, with padding.
    pub(crate) size: u64,
}

/// What a file has of Go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Go {
    /// The version of Go that built it, as in `go1.22.3`.
    pub(crate) version: Option<String>,
    /// Whether it has functions of the package.
    pub(crate) has_package: bool,
    /// The functions that were looked for.
    pub(crate) functions: Vec<GoFunction>,
    /// Whether it is of a version of Go with a table that is not read.
    pub(crate) is_old: bool,
}

/// A table, as its header describes it. Offsets are those in the file.
struct Table {
    /// Functions in it.
    count: u64,
    /// What the addresses of functions are counted from.
    text: u64,
    names: u64,
    names_end: u64,
    functions: u64,
    /// Bytes of a number of the table: 4 since 1.18.
    width: u64,
}

/// Looks for functions of these names; `None`: the file is no Go program. `package` is the beginning of the names of the package that
/// they belong to.
pub(crate) fn functions(
    image: &mut Image<'_>,
    elf: &Elf,
    package: &str,
    names: &[&str],
) -> Result<Option<Go>> {
    let Some(table) = find(image, elf)? else {
        let old = elf.section(".gopclntab").map(|section| image.array::<8>("the Go table", section.offset));
        let is_old = matches!(old, Some(Ok(beginning)) if OLD.contains(&beginning));
        return Ok(is_old.then(|| Go { is_old: true, ..Go::default() }));
    };
    let version = version(image, elf)?;
    let mut found = Go { version, ..Go::default() };
    let range = table.names..table.names_end;
    let endings: Vec<Vec<u8>> = names.iter().map(|name| [b"\0", name.as_bytes(), b"\0"].concat()).collect();
    let start = [b"\0", package.as_bytes()].concat();
    let texts: Vec<&[u8]> = endings.iter().map(Vec::as_slice).chain([start.as_slice()]).collect();
    let mut offsets = search::texts(image, &[range], &texts, 1)?;
    found.has_package = offsets.pop().is_some_and(|offsets| !offsets.is_empty());
    // The name begins behind the zero that ends the one before.
    let wanted: Vec<Option<u64>> =
        offsets.iter().map(|offsets| offsets.first().map(|at| at + 1 - table.names)).collect();
    if wanted.iter().any(Option::is_some) {
        table.walk(image, elf, &wanted, &mut found.functions)?;
    }
    Ok(Some(found))
}

fn find(image: &mut Image<'_>, elf: &Elf) -> Result<Option<Table>> {
    let sections = [".gopclntab", ".data.rel.ro.gopclntab"];
    if let Some(section) = sections.into_iter().find_map(|name| elf.section(name)) {
        let (offset, length) = (section.offset, section.size);
        if let Some(table) = Table::read(image, elf, offset, offset.saturating_add(length))? {
            return Ok(Some(table));
        }
    }
    // Without section headers, by its beginning. What is mapped from the file only is not searched when there are sections: no
    // Go program has them and no table.
    if !elf.sections.is_empty() {
        return Ok(None);
    }
    let texts: Vec<&[u8]> = BEGINNINGS.iter().map(<[u8; 8]>::as_slice).collect();
    let mut offsets = search::texts(image, &elf.mapped(), &texts, MAX_GO_TABLES)?.concat();
    offsets.sort_unstable();
    for offset in offsets.into_iter().filter(|offset| offset % 8 == 0) {
        let end =
            elf.mapped().into_iter().find(|range| range.contains(&offset)).map_or(offset, |range| range.end);
        if let Some(table) = Table::read(image, elf, offset, end)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

impl Table {
    /// The table at an offset, if one is there.
    fn read(image: &mut Image<'_>, elf: &Elf, offset: u64, end: u64) -> Result<Option<Self>> {
        let Ok(header) = image.array::<80>("the Go table", offset) else { return Ok(None) };
        if !BEGINNINGS.iter().any(|beginning| header.starts_with(beginning)) {
            return Ok(None);
        }
        let fields = Fields(&header);
        let is_first = fields.u8(0) == 0xfa;
        let word = |index: usize| fields.u64(8 + 8 * index);
        // Count, files, from 1.18 on the text, then five offsets: names, units, files, positions, functions.
        let (text, next) = if is_first { (0, 2) } else { (word(2), 3) };
        let (count, names, units, functions) = (word(0), word(next), word(next + 1), word(next + 4));
        let width = if is_first { 8 } else { 4 };
        let length = end.saturating_sub(offset);
        let table_bytes = count.checked_mul(2 * width).and_then(|bytes| bytes.checked_add(width));
        let fits = names < units
            && units <= length
            && units - names <= MAX_GO_NAMES_BYTES
            && table_bytes.and_then(|bytes| bytes.checked_add(functions)).is_some_and(|end| end <= length);
        if !fits || count == 0 || count > MAX_GO_FUNCTIONS {
            return Ok(None);
        }
        // Where the program is loaded anywhere, or since 1.26, the header lacks the address of the text.
        let text = match (is_first, text) {
            (false, 0) => match elf.section(".text") {
                Some(section) => section.address,
                None => return Ok(None),
            },
            _ => text,
        };
        Ok(Some(Self {
            count,
            text,
            names: offset + names,
            names_end: offset + units,
            functions: offset + functions,
            width,
        }))
    }

    /// Goes through all functions for those with names that begin at these offsets.
    fn walk(
        &self,
        image: &mut Image<'_>,
        elf: &Elf,
        wanted: &[Option<u64>],
        found: &mut Vec<GoFunction>,
    ) -> Result<()> {
        let number = |bytes: &[u8]| match self.width {
            8 => Fields(bytes).u64(0),
            _ => Fields(bytes).u32(0).into(),
        };
        let (width, pair) = (self.width as usize, 2 * self.width as usize);
        let mut window = Window { offset: 0, bytes: Vec::new() };
        let mut failure = None;
        let mut previous: Option<(usize, u64)> = None;
        let close = |found: &mut Vec<GoFunction>, previous: Option<(usize, u64)>, next: u64| {
            if let Some((name, entry)) = previous
                && let Some(offset) = elf.offset(self.text.wrapping_add(entry))
                && elf.is_code(offset)
            {
                let size = next.saturating_sub(entry).min(MAX_FUNCTION_BYTES + 1);
                found.push(GoFunction { name, offset, size });
            }
        };
        // Entries of the table in pieces; the details of each function lie behind it, in the same order.
        const PIECE: u64 = 4096;
        let mut index = 0;
        while index < self.count && failure.is_none() {
            let many = PIECE.min(self.count - index);
            let bytes =
                image.up_to("the Go table", self.functions + index * pair as u64, many * pair as u64)?;
            if bytes.len() < pair {
                break;
            }
            for entry in bytes.chunks_exact(pair) {
                let (address, details) = entry.split_at(width);
                let (address, details) = (number(address), number(details));
                close(found, previous.take(), address);
                let at = self.functions.saturating_add(details).saturating_add(self.width);
                match window.u32(image, at) {
                    Ok(name) => {
                        let is_it = |wanted: &Option<u64>| *wanted == Some(name.into());
                        previous = wanted.iter().position(is_it).map(|name| (name, address));
                    }
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
                if found.len() >= wanted.len() {
                    return Ok(());
                }
            }
            index += many;
        }
        close(found, previous, u64::MAX);
        match failure {
            Some(LocateError::Outside { .. }) | None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

/// What was read last: the details of functions are read in order.
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn u32(&mut self, image: &mut Image<'_>, offset: u64) -> Result<u32> {
        const BYTES: u64 = 64 * 1024;
        let place = |window: &Self| {
            let at = usize::try_from(offset.checked_sub(window.offset)?).ok()?;
            window.bytes.get(at..)?.first_chunk().copied()
        };
        if let Some(bytes) = place(self) {
            return Ok(u32::from_le_bytes(bytes));
        }
        self.bytes = image.up_to("the Go table", offset, BYTES)?;
        self.offset = offset;
        place(self).map(u32::from_le_bytes).ok_or(LocateError::Outside { what: "the Go table", offset })
    }
}

/// The version that the build information names: behind its magic text and flags a length and the text (since 1.18), or before the
/// address of a text (`src/debug/buildinfo`).
fn version(image: &mut Image<'_>, elf: &Elf) -> Result<Option<String>> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const MAX_VERSION_BYTES: u64 = 64;
    let place = match elf.section(".go.buildinfo") {
        Some(section) => Some(section.offset),
        None => search::texts(image, &elf.mapped(), &[MAGIC], 1)?.concat().first().copied(),
    };
    let Some(place) = place else { return Ok(None) };
    let bytes = image.up_to("the build information", place, 33 + MAX_VERSION_BYTES)?;
    if !bytes.starts_with(MAGIC) {
        return Ok(None);
    }
    let fields = Fields(&bytes);
    let (text, length) = if fields.u8(15) & 2 != 0 {
        (Some(place + 33), u64::from(fields.u8(32)))
    } else {
        let Some(header) = elf.offset(fields.u64(16)) else { return Ok(None) };
        let header: [u8; 16] = image.array("the build information", header)?;
        (elf.offset(Fields(&header).u64(0)), Fields(&header).u64(8))
    };
    let Some(text) = text else { return Ok(None) };
    let text = image.up_to("the build information", text, length.min(MAX_VERSION_BYTES))?;
    let version = String::from_utf8(text).ok().filter(|text| text.starts_with("go"));
    Ok(version.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')))
}

/// Whether a version of Go passes arguments on the stack: before 1.17. One that is not known is newer.
pub(crate) fn is_on_stack(version: Option<&str>) -> bool {
    let minor = version.and_then(|version| version.strip_prefix("go1.")).map(|rest| {
        let end = rest.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(u32::MAX)
    });
    minor.is_some_and(|minor| minor < 17)
}

/// Whether x86-64 code begins as a function of Go does: it compares the stack pointer, or what it will be, with the stack's end, which the
/// state of the goroutine has at 16 bytes. Older programs find that state elsewhere.
pub(crate) fn is_function(code: &[u8]) -> bool {
    const CHECKS: [&[u8]; 5] = [
        // cmp 0x10(%r14), %rsp
        &[0x49, 0x3b, 0x66, 0x10],
        // lea -n(%rsp), %r12
        &[0x4c, 0x8d, 0x64, 0x24],
        &[0x4c, 0x8d, 0xa4, 0x24],
        // mov %rsp, %r12
        &[0x49, 0x89, 0xe4],
        // mov %fs:…, %rcx
        &[0x64, 0x48, 0x8b, 0x0c, 0x25],
    ];
    CHECKS.iter().any(|check| code.starts_with(check))
}

/// All returns of a function of AArch64, from its beginning on.
pub(crate) fn arm_returns(code: &[u8], most: usize) -> Option<Vec<u64>> {
    /// `ret`, to the address in x30.
    const RETURN: [u8; 4] = [0xc0, 0x03, 0x5f, 0xd6];
    let offsets = code.chunks_exact(4).zip(0_u64..).filter(|(word, _)| *word == RETURN).map(|(_, at)| 4 * at);
    let found: Vec<u64> = offsets.collect();
    (!found.is_empty() && found.len() <= most).then_some(found)
}
