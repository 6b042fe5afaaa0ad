//! ELF files made by hand: everything has its place, and is mapped at 0x400000 and its offset.

use std::sync::LazyLock;

use crate::{Image, LocateError, Located, Signatures, locate};

pub const BASE: u64 = 0x40_0000;
pub const NOTE: usize = 0x200;
pub const DYNAMIC: usize = 0x300;
pub const DYNSYM: usize = 0x400;
pub const DYNSTR: usize = 0x800;
pub const HASH: usize = 0xc00;
pub const SYMTAB: usize = 0x1000;
pub const STRTAB: usize = 0x1400;
pub const DATA: usize = 0x1800;
/// The table of what can be unwound.
pub const UNWIND: usize = 0x2100;
pub const CODE: usize = 0x2400;

/// Which table of hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Gnu,
    SysV,
}

/// What is in the file.
#[derive(Clone)]
pub struct Fixture {
    pub code: Vec<u8>,
    pub data: Vec<u8>,
    /// Name and offset in the code.
    pub dynamic: Vec<(&'static str, u64)>,
    /// The same for debuggers.
    pub symbols: Vec<(&'static str, u64)>,
    pub needed: Vec<&'static str>,
    pub soname: Option<&'static str>,
    pub hash: Hash,
    pub has_sections: bool,
    /// Functions in the table of what can be unwound: offset in the code, bytes; in order.
    pub unwind: Vec<(u64, u32)>,
    /// Further sections: name, place in the file, bytes.
    pub sections: Vec<(&'static str, usize, usize)>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            code: vec![0xcc; 64],
            data: Vec::new(),
            dynamic: Vec::new(),
            symbols: Vec::new(),
            needed: Vec::new(),
            soname: None,
            hash: Hash::Gnu,
            has_sections: false,
            unwind: Vec::new(),
            sections: Vec::new(),
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn halves(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Names one behind the other, and where each begins.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
}

impl Names {
    fn add(&mut self, name: &str) -> u32 {
        if self.bytes.is_empty() {
            self.bytes.push(0);
        }
        let at = u32::try_from(self.bytes.len()).unwrap();
        self.bytes.extend([name.as_bytes(), b"\0"].concat());
        at
    }
}

fn symbols(names: &mut Names, symbols: &[(&'static str, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    for (name, offset) in symbols {
        bytes.extend(names.add(name).to_le_bytes());
        bytes.extend([0x12, 0, 1, 0]);
        bytes.extend(words(&[BASE + CODE as u64 + offset, 0]));
    }
    bytes
}

impl Fixture {
    /// The bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        let mut file = vec![0; CODE];
        let mut names = Names::default();
        let dynamic_symbols = symbols(&mut names, &self.dynamic);
        put(&mut file, DYNSYM, &dynamic_symbols);
        let mut dynamic: Vec<u64> = Vec::new();
        for needed in &self.needed {
            dynamic.extend([1, names.add(needed).into()]);
        }
        if let Some(soname) = self.soname {
            dynamic.extend([14, names.add(soname).into()]);
        }
        let hash_tag = if self.hash == Hash::Gnu { 0x6fff_fef5 } else { 4 };
        dynamic.extend([
            5,
            BASE + DYNSTR as u64,
            6,
            BASE + DYNSYM as u64,
            10,
            names.bytes.len() as u64,
            hash_tag,
            BASE + HASH as u64,
            0,
            0,
        ]);
        put(&mut file, DYNAMIC, &words(&dynamic));
        put(&mut file, DYNSTR, &names.bytes);
        put(&mut file, HASH, &self.hashes());
        put(&mut file, NOTE, &[halves(&[4, 4, 3]), b"GNU\0".to_vec(), vec![0xde, 0xad, 0xbe, 0xef]].concat());
        put(&mut file, DATA, &self.data);
        put(&mut file, CODE, &self.code);
        let mut debug_names = Names::default();
        let debug = symbols(&mut debug_names, &self.symbols);
        put(&mut file, SYMTAB, &debug);
        put(&mut file, STRTAB, &debug_names.bytes);
        let end = file.len();
        let code_bytes = self.code.len() as u64;
        let load = |flags: u32, at: usize, bytes: u64| {
            let at = at as u64;
            [halves(&[1, flags]), words(&[at, BASE + at, BASE + at, bytes, bytes, 0x1000])].concat()
        };
        let other = |kind: u32, at: usize, bytes: u64| {
            let at = at as u64;
            [halves(&[kind, 4]), words(&[at, BASE + at, BASE + at, bytes, bytes, 8])].concat()
        };
        let mut headers = vec![
            load(4, 0, CODE as u64),
            load(5, CODE, code_bytes),
            other(2, DYNAMIC, dynamic.len() as u64 * 8),
            other(4, NOTE, 20),
        ];
        if !self.unwind.is_empty() {
            let table = self.unwind_table();
            put(&mut file, UNWIND, &table);
            headers.push(other(0x6474_e550, UNWIND, table.len() as u64));
        }
        put(&mut file, 64, &headers.concat());
        let sections =
            if self.has_sections { self.section_headers(&mut file, &debug, &debug_names) } else { 0 };
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend([3_u8, 0, 62, 0, 1, 0, 0, 0]);
        header.extend(words(&[BASE, 64, if sections == 0 { 0 } else { end as u64 }]));
        header.extend(halves(&[0]));
        let counts = [64_u16, 56, headers.len() as u16, 64, sections, sections.saturating_sub(1)];
        header.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        put(&mut file, 0, &header);
        file
    }

    fn section_headers(&self, file: &mut Vec<u8>, debug: &[u8], debug_names: &Names) -> u16 {
        let mut names = Names::default();
        let mut headers = vec![0; 64];
        let section = |names: &mut Names, name: &str, kind: u32, at: usize, bytes: usize, link: u32| {
            let address = BASE + at as u64;
            let head =
                [halves(&[names.add(name), kind]), words(&[0, address, at as u64, bytes as u64])].concat();
            [head, halves(&[link, 0]), words(&[8, 24])].concat()
        };
        headers.extend(section(&mut names, ".symtab", 2, SYMTAB, debug.len(), 2));
        headers.extend(section(&mut names, ".strtab", 3, STRTAB, debug_names.bytes.len(), 0));
        headers.extend(section(&mut names, ".text", 1, CODE, self.code.len(), 0));
        for (name, at, bytes) in &self.sections {
            headers.extend(section(&mut names, name, 1, *at, *bytes, 0));
        }
        let count = headers.len() / 64 + 1;
        let at = file.len() + count * 64;
        names.add(".shstrtab");
        let last = section(&mut names, ".shstrtab2", 3, at, 0, 0);
        headers.extend(last);
        let place = file.len() + (count - 1) * 64;
        put(file, file.len(), &headers);
        put(file, at, &names.bytes);
        // Its own size.
        put(file, place + 32, &(names.bytes.len() as u64).to_le_bytes());
        u16::try_from(count).unwrap()
    }

    /// The table with its usual encodings, and behind it the descriptions that it points to.
    fn unwind_table(&self) -> Vec<u8> {
        let count = self.unwind.len();
        let near = |to: usize, from: usize| u32::from_le_bytes((to as i32 - from as i32).to_le_bytes());
        let mut table = [&[1, 0x1b, 3, 0x3b], halves(&[0, count as u32]).as_slice()].concat();
        let descriptions = UNWIND + 12 + 8 * count;
        for (index, (start, _)) in self.unwind.iter().enumerate() {
            let code = CODE + *start as usize;
            table.extend(halves(&[near(code, UNWIND), near(descriptions + 16 * index, UNWIND)]));
        }
        for (index, (start, bytes)) in self.unwind.iter().enumerate() {
            let begins = near(CODE + *start as usize, descriptions + 16 * index + 8);
            table.extend(halves(&[12, 0, begins, *bytes]));
        }
        table
    }

    fn hashes(&self) -> Vec<u8> {
        let count = u32::try_from(self.dynamic.len()).unwrap();
        let first = u32::from(count > 0);
        match self.hash {
            Hash::Gnu => {
                let hash = |name: &str| {
                    name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
                };
                let mut chain: Vec<u32> = self.dynamic.iter().map(|(name, _)| hash(name) & !1).collect();
                if let Some(last) = chain.last_mut() {
                    *last |= 1;
                }
                [halves(&[1, 1, 1, 6]), words(&[u64::MAX]), halves(&[first]), halves(&chain)].concat()
            }
            Hash::SysV => {
                // One bucket: all of them in one chain.
                let next: Vec<u32> =
                    (1..=count).map(|index| if index == count { 0 } else { index + 1 }).collect();
                [halves(&[1, count + 1, first, 0]), halves(&next)].concat()
            }
        }
    }

    /// What the search finds in it.
    pub fn locate(&self) -> Located {
        located(&self.build()).unwrap()
    }
}

/// The built-in table.
pub fn signatures() -> &'static Signatures {
    static TABLE: LazyLock<Signatures> = LazyLock::new(|| Signatures::built_in().unwrap());
    &TABLE
}

/// What the search finds in a file.
pub fn located(file: &[u8]) -> Result<Located, LocateError> {
    locate(&mut Image::of_bytes(file), signatures())
}

/// The four bytes by which an instruction that ends at `end` in the code refers to a byte of the data.
pub fn to_data(end: usize, at: usize) -> [u8; 4] {
    let distance = (DATA + at) as i64 - (CODE + end) as i64;
    i32::try_from(distance).unwrap().to_le_bytes()
}
