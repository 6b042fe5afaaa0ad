//! The parts of an ELF file that the search needs: what is mapped where, the dynamic section, the build id.
//!
//! Source: System V ABI, chapter 5 and "ELF-64 Object File Format"; the numbers are those of `elf.h`. The program headers
//! come first, for the kernel and the linker read those; section headers are read where they are there, and may be stripped.

use std::ops::Range;

use crate::{
    bounds::{
        MAX_BUILD_ID_BYTES, MAX_DYNAMIC, MAX_NAME_BYTES, MAX_NEEDED, MAX_NOTES_BYTES,
        MAX_SECTION_NAMES_BYTES, MAX_SECTIONS, MAX_SEGMENTS,
    },
    error::{LocateError, Result},
    facts::Machine,
    image::Image,
};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;

/// Something that the file maps.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    kind: u32,
    flags: u32,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// Where they are mapped, from the address on that the file is loaded at.
    pub address: u64,
    /// How many bytes of the file it has.
    pub size: u64,
}

/// A section.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// `SHT_…`
    pub kind: u32,
    /// Where it is mapped.
    pub address: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Another section: of symbols, the one of their names.
    pub link: u32,
}

/// The content of the dynamic section; addresses are those before loading.
#[derive(Clone, Debug, Default)]
pub struct Dynamic {
    /// Libraries that it needs.
    pub needed: Vec<String>,
    /// Its own name.
    pub soname: Option<String>,
    /// `DT_SYMTAB`
    pub symbols: Option<u64>,
    /// `DT_STRTAB`
    pub names: Option<u64>,
    /// `DT_STRSZ`
    pub names_bytes: u64,
    /// `DT_GNU_HASH`
    pub gnu_hash: Option<u64>,
    /// `DT_HASH`
    pub hash: Option<u64>,
    /// `DT_JMPREL`
    pub jumps: Option<u64>,
    /// `DT_PLTRELSZ`
    pub jumps_bytes: u64,
}

/// A file, described.
#[derive(Clone, Debug)]
pub struct Elf {
    /// What it runs on.
    pub machine: Machine,
    /// What it maps.
    pub segments: Vec<Segment>,
    /// Its sections; none where they were stripped.
    pub sections: Vec<Section>,
    /// Its dynamic section; empty where it has none.
    pub dynamic: Dynamic,
    /// The GNU build id or, of a Go program without one, the build id of Go; in hexadecimal digits, or as it is.
    pub build_id: Option<String>,
}

impl Elf {
    /// Reads the headers of a file. What is wrong with the parts that a program can be run without goes to `problems`.
    ///
    /// # Errors
    /// It is no ELF file, none of those that are searched, or its headers lie.
    pub fn read(image: &mut Image<'_>, problems: &mut Vec<String>) -> Result<Self> {
        let header: [u8; 64] = image.array("the header", 0).map_err(|error| match error {
            LocateError::Outside { .. } => LocateError::NotElf,
            other => other,
        })?;
        let header = Fields(&header);
        if header.0.get(..4) != Some(b"\x7fELF") {
            return Err(LocateError::NotElf);
        }
        match (header.u8(4), header.u8(5), header.u16(16)) {
            (2, 1, 2 | 3) => {}
            (1, _, _) => return Err(LocateError::Unsupported("32 bits")),
            (2, 1, _) => return Err(LocateError::Unsupported("no program and no library")),
            _ => return Err(LocateError::Unsupported("big-endian")),
        }
        let machine = match header.u16(18) {
            62 => Machine::X86_64,
            183 => Machine::Aarch64,
            _ => return Err(LocateError::Unsupported("neither x86-64 nor AArch64")),
        };
        let mut elf = Self {
            machine,
            segments: segments(image, &header)?,
            sections: Vec::new(),
            dynamic: Dynamic::default(),
            build_id: None,
        };
        let mut note = |what: &str, error: LocateError| {
            // A spent budget ends the search.
            if error == LocateError::Budget {
                Err(error)
            } else {
                problems.push(format!("{what}: {error}"));
                Ok(())
            }
        };
        match sections(image, &header) {
            Ok(sections) => elf.sections = sections,
            Err(error) => note("sections", error)?,
        }
        match dynamic(image, &elf) {
            Ok(dynamic) => elf.dynamic = dynamic,
            Err(error) => note("the dynamic section", error)?,
        }
        match build_id(image, &elf) {
            Ok(build_id) => elf.build_id = build_id,
            Err(error) => note("the notes", error)?,
        }
        Ok(elf)
    }

    /// Where the byte lies in the file that is mapped at an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let of = |segment: &Segment| {
            let distance = address.checked_sub(segment.address)?;
            (distance < segment.size).then(|| segment.offset.checked_add(distance))?
        };
        self.loads().find_map(of)
    }

    /// Where a byte of the file is mapped.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let of = |segment: &Segment| {
            let distance = offset.checked_sub(segment.offset)?;
            (distance < segment.size).then(|| segment.address.checked_add(distance))?
        };
        self.loads().find_map(of)
    }

    /// Whether a byte of the file is code.
    pub fn is_code(&self, offset: u64) -> bool {
        self.code()
            .iter()
            .any(|segment| offset.checked_sub(segment.offset).is_some_and(|distance| distance < segment.size))
    }

    /// The segments that are executable.
    pub fn code(&self) -> Vec<Segment> {
        self.loads().filter(|segment| segment.flags & PF_X != 0).copied().collect()
    }

    /// What of the file is mapped, each byte once however often it is mapped.
    pub fn mapped(&self) -> Vec<Range<u64>> {
        joined(self.loads())
    }

    /// What of the file is code, each byte once.
    pub fn mapped_code(&self) -> Vec<Range<u64>> {
        joined(self.code().iter())
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// `PT_GNU_EH_FRAME`: the table of all functions that can be unwound.
    pub fn unwind(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }
}

fn joined<'a>(segments: impl Iterator<Item = &'a Segment>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> =
        segments.map(|segment| segment.offset..segment.offset.saturating_add(segment.size)).collect();
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Numbers at places of a header. What lies outside is 0: callers have checked the length.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// One byte.
    pub fn u8(&self, at: usize) -> u8 {
        self.bytes::<1>(at)[0]
    }

    /// Two bytes.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    /// Four bytes.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    /// Eight bytes.
    pub fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

fn segments(image: &mut Image<'_>, header: &Fields<'_>) -> Result<Vec<Segment>> {
    const ENTRY_BYTES: usize = 56;
    let (table, entry, count) = (header.u64(32), header.u16(54), header.u16(56));
    if count > MAX_SEGMENTS {
        return Err(LocateError::TooMany { what: "program headers", bound: MAX_SEGMENTS.into() });
    }
    if count > 0 && usize::from(entry) != ENTRY_BYTES {
        return Err(LocateError::Unsupported("program headers of another size"));
    }
    let mut bytes = vec![0; usize::from(count) * ENTRY_BYTES];
    image.read("the program headers", table, &mut bytes)?;
    let segment = |entry: &[u8]| {
        let entry = Fields(entry);
        let offset = entry.u64(8);
        // What the file does not have is not mapped either: reading it is SIGBUS for the program.
        let there = image.length().saturating_sub(offset);
        Segment {
            kind: entry.u32(0),
            flags: entry.u32(4),
            offset,
            address: entry.u64(16),
            size: entry.u64(32).min(there),
        }
    };
    Ok(bytes.chunks_exact(ENTRY_BYTES).map(segment).collect())
}

fn sections(image: &mut Image<'_>, header: &Fields<'_>) -> Result<Vec<Section>> {
    const ENTRY_BYTES: usize = 64;
    let (table, entry, count, names) = (header.u64(40), header.u16(58), header.u16(60), header.u16(62));
    if count == 0 || table == 0 {
        return Ok(Vec::new());
    }
    if count > MAX_SECTIONS {
        return Err(LocateError::TooMany { what: "section headers", bound: MAX_SECTIONS.into() });
    }
    if usize::from(entry) != ENTRY_BYTES {
        return Err(LocateError::Unsupported("section headers of another size"));
    }
    let mut bytes = vec![0; usize::from(count) * ENTRY_BYTES];
    image.read("the section headers", table, &mut bytes)?;
    let texts = match bytes.chunks_exact(ENTRY_BYTES).nth(names.into()).map(Fields) {
        Some(texts) => {
            image.up_to("the names of sections", texts.u64(24), texts.u64(32).min(MAX_SECTION_NAMES_BYTES))?
        }
        None => Vec::new(),
    };
    let section = |entry: &[u8]| {
        let entry = Fields(entry);
        let name = texts.get(entry.u32(0) as usize..).unwrap_or_default();
        Section {
            name: text(name),
            kind: entry.u32(4),
            address: entry.u64(16),
            offset: entry.u64(24),
            size: entry.u64(32),
            link: entry.u32(40),
        }
    };
    Ok(bytes.chunks_exact(ENTRY_BYTES).map(section).collect())
}

/// The beginning of some bytes, up to a zero.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MAX_NAME_BYTES.min(bytes.len())).unwrap_or_default();
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn dynamic(image: &mut Image<'_>, elf: &Elf) -> Result<Dynamic> {
    const ENTRY_BYTES: u64 = 16;
    let mut read = Dynamic::default();
    let Some(segment) = elf.segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
        return Ok(read);
    };
    let most = MAX_DYNAMIC as u64 * ENTRY_BYTES;
    let bytes = image.up_to("the dynamic section", segment.offset, segment.size.min(most))?;
    let (mut needed, mut soname) = (Vec::new(), None);
    for entry in bytes.chunks_exact(ENTRY_BYTES as usize).map(Fields) {
        let value = entry.u64(8);
        match entry.u64(0) {
            0 => break,
            1 if needed.len() >= MAX_NEEDED => {
                return Err(LocateError::TooMany { what: "needed libraries", bound: MAX_NEEDED as u64 });
            }
            1 => needed.push(value),
            2 => read.jumps_bytes = value,
            4 => read.hash = Some(value),
            5 => read.names = Some(value),
            6 => read.symbols = Some(value),
            10 => read.names_bytes = value,
            14 => soname = Some(value),
            23 => read.jumps = Some(value),
            0x6fff_fef5 => read.gnu_hash = Some(value),
            _ => {}
        }
    }
    let names = read.names.and_then(|address| elf.offset(address));
    let Some(names) = names else { return Ok(read) };
    let mut name = |at: u64| {
        let outside = LocateError::Outside { what: "the name of a library", offset: at };
        let offset = names.checked_add(at).ok_or(outside)?;
        image.up_to("the name of a library", offset, MAX_NAME_BYTES as u64).map(|bytes| text(&bytes))
    };
    for at in needed {
        read.needed.push(name(at)?);
    }
    read.soname = soname.map(name).transpose()?;
    Ok(read)
}

fn build_id(image: &mut Image<'_>, elf: &Elf) -> Result<Option<String>> {
    const NT_GNU_BUILD_ID: u32 = 3;
    const NT_GO_BUILD_ID: u32 = 4;
    let mut of_go = None;
    for segment in elf.segments.iter().filter(|segment| segment.kind == PT_NOTE) {
        let bytes = image.up_to("the notes", segment.offset, segment.size.min(MAX_NOTES_BYTES))?;
        let mut rest = bytes.as_slice();
        // Each turn takes the 12 bytes of a header.
        while let Some((header, after)) = rest.split_at_checked(12) {
            let header = Fields(header);
            let padded = |length: u32| (length as usize).next_multiple_of(4);
            let Some((name, after)) = after.split_at_checked(padded(header.u32(0))) else { break };
            let length = header.u32(4) as usize;
            let Some(id) = after.get(..length) else { break };
            match (name, header.u32(8)) {
                (b"GNU\0", NT_GNU_BUILD_ID) if (1..=MAX_BUILD_ID_BYTES).contains(&length) => {
                    return Ok(Some(id.iter().map(|byte| format!("{byte:02x}")).collect()));
                }
                (b"Go\0\0", NT_GO_BUILD_ID) if (1..=MAX_BUILD_ID_BYTES).contains(&length) => {
                    of_go = Some(text(id));
                }
                _ => {}
            }
            rest = after.get(padded(header.u32(4)).min(after.len())..).unwrap_or_default();
        }
    }
    Ok(of_go)
}
