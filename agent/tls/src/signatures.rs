//! What is known of the functions of libraries: a table of data with a version of its own, to which an operator can add.
//!
//! The built-in table is `signatures.toml`; its comments name the builds that each entry was taken from.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::{
    bounds::{MAX_NAME_BYTES, MAX_SIGNATURES, MAX_SIGNATURES_BYTES},
    facts::{Library, Returned, Role, Value},
};

/// The built-in table.
const BUILT_IN: &str = include_str!("signatures.toml");
/// The shortest part without gaps that a signature of bytes must have: fewer stand anywhere by chance.
const MIN_ANCHOR_BYTES: usize = 8;
/// The fewest bytes of a signature that must be as they are.
const MIN_FIXED_BYTES: usize = 24;

/// Why a table of signatures is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct SignatureError {
    /// Line, from 1 on.
    pub line: usize,
    /// Column in bytes, from 1 on.
    pub column: usize,
    /// What is wrong there.
    pub reason: String,
}

/// A table of signatures.
#[derive(Clone, Debug)]
pub struct Signatures {
    version: String,
    pub(crate) markers: Vec<Marker>,
    pub(crate) symbols: Vec<SymbolSignature>,
    pub(crate) go: Vec<GoSignature>,
    pub(crate) names: Vec<NameSignature>,
    pub(crate) codes: Vec<CodeSignature>,
    pub(crate) assembly: Vec<AssemblySignature>,
}

/// A text, or the name of a library, that shows what is in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    pub(crate) library: Library,
    /// A text in what the file maps; `\0` at its end is the byte.
    pub(crate) text: Option<String>,
    /// The beginning of the name that the file is needed by.
    pub(crate) soname: Option<String>,
    /// Whether a version stands behind the text: it counts only then.
    #[serde(default)]
    pub(crate) version: bool,
    /// Whether it is no library of its own, but shows which cryptography one uses, or which version it is.
    #[serde(default)]
    pub(crate) detail: bool,
}

/// A function that is found by its symbol.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SymbolSignature {
    pub(crate) library: Library,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) arguments: Vec<Value>,
    #[serde(default)]
    pub(crate) returned: Returned,
}

/// A function of a Go program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoSignature {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) arguments: Vec<Value>,
    #[serde(default)]
    pub(crate) returned: Returned,
}

/// A function that refers to its own name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NameSignature {
    pub(crate) library: Library,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) arguments: Vec<Value>,
    #[serde(default)]
    pub(crate) returned: Returned,
    /// In versions from this one on the arguments are others.
    pub(crate) since: Option<[u32; 2]>,
    /// These.
    #[serde(default)]
    pub(crate) later_arguments: Vec<Value>,
}

/// A function that reports these errors, and no others, of one source file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeSignature {
    pub(crate) library: Library,
    pub(crate) name: String,
    /// None: it only helps to find another.
    pub(crate) role: Option<Role>,
    /// The end of the path of the source file.
    pub(crate) file: String,
    pub(crate) reasons: Vec<u32>,
    /// It calls this one, which is also in the table.
    pub(crate) calls: Option<String>,
    /// Whether it writes to memory that is not its own.
    pub(crate) stores: Option<bool>,
    /// It is not probed where this one is found.
    pub(crate) unless: Option<String>,
    /// It can give the same bytes more than once.
    #[serde(default)]
    pub(crate) repeats: bool,
    #[serde(default)]
    pub(crate) arguments: Vec<Value>,
    #[serde(default)]
    pub(crate) returned: Returned,
    /// It serves others besides TLS.
    #[serde(default)]
    pub(crate) shared: bool,
}

/// A function that was written in assembly language.
#[derive(Clone, Debug)]
pub(crate) struct AssemblySignature {
    pub(crate) library: Library,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) arguments: Vec<Value>,
    pub(crate) shared: bool,
    /// The bytes from its beginning on, behind `endbr64`; `None` can be any.
    pub(crate) bytes: Vec<Option<u8>>,
    /// The longest part of them without gaps.
    pub(crate) anchor: Range<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    marker: Vec<Marker>,
    #[serde(default)]
    symbol: Vec<SymbolSignature>,
    #[serde(default)]
    go: Vec<GoSignature>,
    #[serde(default)]
    function_name: Vec<NameSignature>,
    #[serde(default)]
    error_codes: Vec<Spanned<CodeSignature>>,
    #[serde(default)]
    assembly: Vec<AssemblyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssemblyEntry {
    library: Library,
    name: String,
    role: Role,
    arguments: Vec<Value>,
    #[serde(default)]
    shared: bool,
    bytes: Spanned<String>,
}

impl Signatures {
    /// The built-in table.
    ///
    /// # Errors
    /// Never: a test parses it.
    pub fn built_in() -> Result<Self, SignatureError> {
        parse(BUILT_IN)
    }

    /// The built-in table and the entries of another one of the same format.
    ///
    /// # Errors
    /// The text is too long, no TOML, or no table of signatures: where, and what is wrong.
    pub fn with(text: &str) -> Result<Self, SignatureError> {
        let (mut all, added) = (Self::built_in()?, parse(text)?);
        all.version = format!("{}+{:016x}", all.version, fingerprint(text));
        all.markers.extend(added.markers);
        all.symbols.extend(added.symbols);
        all.go.extend(added.go);
        all.names.extend(added.names);
        all.codes.extend(added.codes);
        all.assembly.extend(added.assembly);
        Ok(all)
    }

    /// Its version: a number, and of added entries a fingerprint. What was found with another version is to be found again.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// FNV-1a: distinguishes versions, and is no protection.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn error(text: &str, span: Option<Range<usize>>, reason: impl Into<String>) -> SignatureError {
    let at = span.map_or(0, |span| span.start).min(text.len());
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = at - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1) + 1;
    SignatureError { line, column, reason: reason.into() }
}

fn parse(text: &str) -> Result<Signatures, SignatureError> {
    if text.len() > MAX_SIGNATURES_BYTES {
        return Err(error(text, None, format!("longer than {MAX_SIGNATURES_BYTES} bytes")));
    }
    let file: File = toml::from_str(text).map_err(|fault| error(text, fault.span(), fault.message()))?;
    let count = file.marker.len()
        + file.symbol.len()
        + file.go.len()
        + file.function_name.len()
        + file.error_codes.len()
        + file.assembly.len();
    if count > MAX_SIGNATURES {
        return Err(error(text, None, format!("more than {MAX_SIGNATURES} entries")));
    }
    let long = |text: &str| text.is_empty() || text.len() > MAX_NAME_BYTES;
    let names =
        file.symbol.iter().map(|entry| &entry.name).chain(file.function_name.iter().map(|entry| &entry.name));
    let texts = file.marker.iter().flat_map(|marker| [&marker.text, &marker.soname]).flatten();
    if let Some(name) =
        names.chain(texts).chain(file.go.iter().map(|entry| &entry.name)).find(|name| long(name))
    {
        return Err(error(
            text,
            None,
            format!("a name is empty, or longer than {MAX_NAME_BYTES} bytes: {name:.16}…"),
        ));
    }
    let mut codes = Vec::new();
    for entry in file.error_codes {
        let span = entry.span();
        let entry = entry.into_inner();
        if entry.reasons.is_empty() || long(&entry.file) {
            return Err(error(text, Some(span), "`reasons` and `file` must name something"));
        }
        codes.push(entry);
    }
    let mut assembly = Vec::new();
    for entry in file.assembly {
        let span = entry.bytes.span();
        let bytes = bytes(entry.bytes.get_ref()).map_err(|reason| error(text, Some(span.clone()), reason))?;
        let anchor = anchor(&bytes);
        if anchor.len() < MIN_ANCHOR_BYTES || bytes.iter().flatten().count() < MIN_FIXED_BYTES {
            let reason = format!(
                "a signature needs {MIN_FIXED_BYTES} bytes that are known, {MIN_ANCHOR_BYTES} of them in a row"
            );
            return Err(error(text, Some(span), reason));
        }
        let AssemblyEntry { library, name, role, arguments, shared, .. } = entry;
        assembly.push(AssemblySignature { library, name, role, arguments, shared, bytes, anchor });
    }
    Ok(Signatures {
        version: file.version.to_string(),
        markers: file.marker,
        symbols: file.symbol,
        go: file.go,
        names: file.function_name,
        codes,
        assembly,
    })
}

/// Bytes in hexadecimal digits, with blanks between them; `??` is any.
fn bytes(text: &str) -> Result<Vec<Option<u8>>, String> {
    let byte = |digits: &str| match digits {
        "??" => Ok(None),
        _ if digits.len() == 2 => {
            u8::from_str_radix(digits, 16).map(Some).map_err(|_| format!("`{digits}` is no byte"))
        }
        _ => Err(format!("`{digits}` is no byte: two hexadecimal digits, or ??")),
    };
    let bytes = text.split_ascii_whitespace().map(byte).collect::<Result<Vec<_>, _>>()?;
    if bytes.len() > MAX_NAME_BYTES { Err(format!("more than {MAX_NAME_BYTES} bytes")) } else { Ok(bytes) }
}

/// The longest part without gaps.
fn anchor(bytes: &[Option<u8>]) -> Range<usize> {
    let mut best = 0..0;
    let mut begin = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            Some(_) if at + 1 - begin > best.len() => best = begin..at + 1,
            Some(_) => {}
            None => begin = at + 1,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = 1\n[[assembly]]\nlibrary = \"rustls_ring\"\nname = \"x\"\nrole = \"seal\"\narguments = [\"input\"]\n";

    #[test]
    fn built_in_table_is_valid() {
        let table = Signatures::built_in().unwrap();
        assert!(!table.symbols.is_empty() && !table.assembly.is_empty() && !table.codes.is_empty());
        for signature in &table.codes {
            let is_called = |called: &String| {
                table.codes.iter().any(|other| other.name == *called && other.calls.is_none())
            };
            assert!(signature.calls.as_ref().is_none_or(is_called), "{}", signature.name);
        }
    }

    #[test]
    fn table_with_a_mistake_is_refused_at_its_place() {
        let long = format!("version = 1\n#{}", "x".repeat(MAX_SIGNATURES_BYTES));
        let many = format!(
            "version = 1\n{}",
            "[[marker]]\nlibrary = \"nss\"\nsoname = \"x\"\n".repeat(MAX_SIGNATURES + 1)
        );
        let bytes = |bytes: &str| format!("{HEAD}bytes = \"{bytes}\"\n");
        let cases = [
            ("no TOML", "version = \n".to_owned(), 1),
            ("no version", "[[marker]]\nlibrary = \"nss\"\n".to_owned(), 1),
            ("unknown key", "version = 1\nvresion = 2\n".to_owned(), 2),
            ("unknown library", "version = 1\n[[marker]]\nlibrary = \"openssl_9\"\ntext = \"x\"\n".to_owned(), 3),
            ("empty text", "version = 1\n[[marker]]\nlibrary = \"nss\"\ntext = \"\"\n".to_owned(), 1),
            ("no byte", bytes("5g"), 7),
            ("one digit", bytes("55 4"), 7),
            ("too few bytes", bytes("55 41 57"), 7),
            ("too many gaps", bytes(&"55 41 ?? ".repeat(24)), 7),
            ("too long a signature", bytes(&"55 ".repeat(MAX_NAME_BYTES + 1)), 7),
            ("no reasons", "version = 1\n[[error_codes]]\nlibrary = \"boringssl\"\nname = \"x\"\nfile = \"x.cc\"\nreasons = []\n".to_owned(), 2),
            ("too long", long, 1),
            ("too many", many, 1),
        ];
        for (name, text, line) in cases {
            let error = Signatures::with(&text).unwrap_err();
            assert_eq!(error.line, line, "{name}: {error}");
        }
    }

    #[test]
    fn added_table_changes_the_version() {
        let own = format!("{HEAD}bytes = \"{}\"\n", "55 ?? ".to_owned() + &"41 ".repeat(30));
        let (built_in, with) = (Signatures::built_in().unwrap(), Signatures::with(&own).unwrap());
        assert_eq!(with.assembly.len(), built_in.assembly.len() + 1);
        assert_eq!(with.assembly.last().unwrap().anchor, 2..32);
        assert_ne!(with.version(), built_in.version());
        assert_ne!(with.version(), Signatures::with(&own.replace("41", "42")).unwrap().version());
    }
}
