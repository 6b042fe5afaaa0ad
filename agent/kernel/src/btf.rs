//! A reader of the kernel's BTF: offsets of members, values of enums, arguments of tracepoints, names of functions.
//!
//! Works on the raw bytes and allocates one offset per type. The crates that parse BTF build a tree of
//! it first (tens of megabytes), keep members private, or mix up types that share a name.
//! Format: `Documentation/bpf/btf.rst`.

use std::{collections::HashSet, path::Path};

/// What can be wrong with BTF.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; the kernel needs CONFIG_DEBUG_INFO_BTF=y")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes are no BTF.
    #[error("malformed BTF at byte {0}")]
    Malformed(usize),
    /// There is no such type.
    #[error("the kernel has no struct {0}")]
    NoType(String),
    /// The type has no such member.
    #[error("the kernel's struct {0} has no member {1}")]
    NoMember(String, String),
    /// The enum has no such value.
    #[error("the kernel's enum {0} has no value {1}")]
    NoValue(String, String),
}

const MAGIC: u16 = 0xeb9f;
const TYPE_BYTES: usize = 12;
const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_TYPE_TAG: u32 = 18;
/// Longest chain of typedefs and anonymous members that is followed.
const MAX_DEPTH: usize = 32;

/// The kernel's types.
pub struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    /// Byte offset of each type; index is the type's id minus one.
    types: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Type {
    /// Where its name begins in the strings.
    name: u32,
    kind: u32,
    vlen: usize,
    kind_flag: bool,
    target: u32,
    extra: usize,
}

impl Btf {
    /// Reads BTF from a file, usually `/sys/kernel/btf/vmlinux`.
    pub fn from_file(path: &Path) -> Result<Self, BtfError> {
        let bytes = std::fs::read(path)
            .map_err(|source| BtfError::Read { path: path.display().to_string(), source })?;
        Self::parse(bytes)
    }

    /// Indexes BTF.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let word = |at: usize| -> Result<usize, BtfError> { Ok(u32_at(&bytes, at)? as usize) };
        let magic = bytes.get(..2).ok_or(BtfError::Malformed(0))?;
        if u16::from_le_bytes([magic[0], magic[1]]) != MAGIC {
            return Err(BtfError::Malformed(0));
        }
        let header = word(4)?;
        let (type_offset, type_length, string_offset) = (word(8)?, word(12)?, word(16)?);
        let first = header.checked_add(type_offset).ok_or(BtfError::Malformed(8))?;
        let end = first.checked_add(type_length).ok_or(BtfError::Malformed(12))?;
        let strings = header.checked_add(string_offset).ok_or(BtfError::Malformed(16))?;
        let mut types = Vec::new();
        let mut at = first;
        while at < end {
            types.push(at as u32);
            let info = u32_at(&bytes, at + 4)?;
            let vlen = (info & 0xffff) as usize;
            let extra = match (info >> 24) & 0x1f {
                1 | 14 | 17 => 4,
                3 => 12,
                KIND_STRUCT | KIND_UNION | 15 | 19 => vlen * 12,
                KIND_ENUM | KIND_FUNC_PROTO => vlen * 8,
                2 | 7..=12 | 16 | KIND_TYPE_TAG => 0,
                _ => return Err(BtfError::Malformed(at)),
            };
            at += TYPE_BYTES + extra;
        }
        Ok(Self { bytes, strings, types })
    }

    fn string(&self, offset: u32) -> &[u8] {
        let rest = self.bytes.get(self.strings + offset as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Whether the string at `offset` is `text`, without a search for its end: most types have another name.
    fn is_string(&self, offset: u32, text: &[u8]) -> bool {
        let rest = self.bytes.get(self.strings + offset as usize..).unwrap_or_default();
        rest.strip_prefix(text).is_some_and(|rest| rest.first() == Some(&0))
    }

    fn get(&self, id: u32) -> Option<Type> {
        self.at(*self.types.get((id as usize).checked_sub(1)?)? as usize)
    }

    fn at(&self, at: usize) -> Option<Type> {
        let words = self.bytes.get(at..at.saturating_add(TYPE_BYTES))?;
        let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| words[index * 4 + byte]));
        let info = word(1);
        Some(Type {
            name: word(0),
            kind: (info >> 24) & 0x1f,
            vlen: (info & 0xffff) as usize,
            kind_flag: info >> 31 == 1,
            target: word(2),
            extra: at + TYPE_BYTES,
        })
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = Type> {
        self.types.iter().filter_map(|at| self.at(*at as usize)).filter(move |ty| ty.kind == kind)
    }

    fn named(&self, name: &str, kind: u32) -> Option<Type> {
        self.of_kind(kind)
            .find(|ty| (kind == KIND_TYPEDEF || ty.vlen > 0) && self.is_string(ty.name, name.as_bytes()))
    }

    /// Follows typedefs and qualifiers.
    fn resolve(&self, id: u32) -> Option<Type> {
        let mut ty = self.get(id)?;
        for _ in 0..MAX_DEPTH {
            if !matches!(ty.kind, KIND_TYPEDEF..=KIND_RESTRICT | KIND_TYPE_TAG) {
                return Some(ty);
            }
            ty = self.get(ty.target)?;
        }
        None
    }

    /// Byte offset of `member` (a dotted path) in `struct name`. Anonymous structs and unions are looked into.
    pub fn offset(&self, name: &str, member: &str) -> Result<u32, BtfError> {
        let mut ty = self.named(name, KIND_STRUCT).ok_or_else(|| BtfError::NoType(name.to_owned()))?;
        let mut total = 0;
        for part in member.split('.') {
            let (offset, target) = self
                .member(&ty, part.as_bytes(), 0)
                .ok_or_else(|| BtfError::NoMember(name.to_owned(), member.to_owned()))?;
            total += offset;
            ty = match self.resolve(target) {
                Some(next) => next,
                None => break,
            };
        }
        Ok(total)
    }

    /// Bytes of `struct name`.
    pub fn size(&self, name: &str) -> Result<u32, BtfError> {
        // For a struct this word is its size.
        self.named(name, KIND_STRUCT).map(|ty| ty.target).ok_or_else(|| BtfError::NoType(name.to_owned()))
    }

    fn member(&self, ty: &Type, name: &[u8], depth: usize) -> Option<(u32, u32)> {
        if depth > MAX_DEPTH || !matches!(ty.kind, KIND_STRUCT | KIND_UNION) {
            return None;
        }
        for index in 0..ty.vlen {
            let at = ty.extra + index * 12;
            let found = self.string(u32_at(&self.bytes, at).ok()?);
            let target = u32_at(&self.bytes, at + 4).ok()?;
            let mut bits = u32_at(&self.bytes, at + 8).ok()?;
            if ty.kind_flag {
                bits &= 0x00ff_ffff;
            }
            if found == name {
                return Some((bits / 8, target));
            }
            if found.is_empty()
                && let Some(inner) = self.resolve(target)
                && let Some((offset, target)) = self.member(&inner, name, depth + 1)
            {
                return Some((bits / 8 + offset, target));
            }
        }
        None
    }

    /// What `enum name` calls `value`.
    pub fn value(&self, name: &str, value: &str) -> Result<u32, BtfError> {
        let missing = || BtfError::NoValue(name.to_owned(), value.to_owned());
        let ty = self.named(name, KIND_ENUM).ok_or_else(missing)?;
        for index in 0..ty.vlen {
            let at = ty.extra + index * 8;
            if self.string(u32_at(&self.bytes, at)?) == value.as_bytes() {
                return u32_at(&self.bytes, at + 4);
            }
        }
        Err(missing())
    }

    /// Those of `names` that are functions of the kernel.
    pub fn functions<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let wanted: HashSet<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let found: HashSet<&[u8]> = (self.of_kind(KIND_FUNC).map(|ty| self.string(ty.name)))
            .filter(|name| wanted.contains(name))
            .collect();
        names.iter().copied().filter(|name| found.contains(name.as_bytes())).collect()
    }

    /// Number of arguments of a tracepoint, or `None` where the kernel has no such tracepoint.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let typedef = self.named(&format!("btf_trace_{name}"), KIND_TYPEDEF)?;
        let pointer = self.get(typedef.target)?;
        if pointer.kind != KIND_PTR {
            return None;
        }
        let proto = self.get(pointer.target)?;
        // The first parameter is the tracepoint's private data.
        (proto.kind == KIND_FUNC_PROTO).then(|| proto.vlen.saturating_sub(1))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let word = bytes.get(at..at.saturating_add(4)).ok_or(BtfError::Malformed(at))?;
    Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two structs in hand-made BTF: `outer { int a; struct { int b; int c; }; inner_t d; }`, `inner { int e; int f; }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0outer\0a\0b\0c\0inner\0inner_t\0d\0e\0f\0";
        let name = |text: &str| {
            let text = format!("\0{text}\0");
            strings.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() as u32 + 1
        };
        let mut types: Vec<u32> = Vec::new();
        let info = |kind: u32, vlen: u32| (kind << 24) | vlen;
        types.extend([name("int"), info(1, 0), 4, 32]); // 1
        types.extend([name("inner"), info(4, 2), 8, name("e"), 1, 0, name("f"), 1, 32]); // 2
        types.extend([name("inner_t"), info(8, 0), 2]); // 3
        types.extend([0, info(4, 2), 8, name("b"), 1, 0, name("c"), 1, 32]); // 4
        types.extend([name("outer"), info(4, 3), 20, name("a"), 1, 0, 0, 4, 32, name("d"), 3, 96]); // 5
        let body: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, body.len() as u32, body.len() as u32, strings.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(body);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn btf_offsets_and_sizes_are_resolved() {
        let btf = Btf::parse(sample()).unwrap();
        for (member, expected) in [("a", 0), ("b", 4), ("c", 8), ("d", 12), ("d.e", 12), ("d.f", 16)] {
            assert_eq!(btf.offset("outer", member).unwrap(), expected, "{member}");
        }
        assert_eq!(btf.size("outer").unwrap(), 20);
        assert!(matches!(btf.offset("outer", "x"), Err(BtfError::NoMember(..))));
        assert!(matches!(btf.offset("nobody", "x"), Err(BtfError::NoType(..))));
    }

    #[test]
    fn damaged_btf_is_an_error() {
        let whole = sample();
        for cut in 0..whole.len() {
            let _ = Btf::parse(whole[..cut].to_vec()).map(|btf| btf.offset("outer", "d.f").is_ok());
        }
    }
}
