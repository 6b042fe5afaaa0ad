//! What the texts in a file show: which libraries are in it, of which version, and where the texts are that functions refer to.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    bounds::MAX_NAME_BYTES, elf::Elf, error::Result, facts::Library, image::Image, search,
    signatures::Signatures,
};

/// Bytes behind a text that can be a version.
const MAX_VERSION_BYTES: u64 = 32;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    libraries: BTreeSet<Library>,
    /// Which cryptography a library uses, or which version it is.
    details: BTreeSet<Library>,
    versions: BTreeMap<Library, String>,
    names: Vec<Vec<u64>>,
    files: BTreeMap<String, Vec<u64>>,
}

/// The libraries that are one and the same but for version or cryptography.
pub(crate) fn family(library: Library) -> &'static [Library] {
    match library {
        Library::OpenSsl | Library::OpenSsl11 | Library::OpenSsl3 => {
            &[Library::OpenSsl, Library::OpenSsl11, Library::OpenSsl3]
        }
        Library::Rustls | Library::RustlsRing | Library::RustlsAwsLc => {
            &[Library::Rustls, Library::RustlsRing, Library::RustlsAwsLc]
        }
        Library::BoringSsl => &[Library::BoringSsl],
        Library::GnuTls => &[Library::GnuTls],
        Library::Go => &[Library::Go],
        Library::Nss => &[Library::Nss],
        Library::MbedTls => &[Library::MbedTls],
        Library::WolfSsl => &[Library::WolfSsl],
        Library::S2n => &[Library::S2n],
        Library::Other => &[Library::Other],
    }
}

/// Reads all texts of the signatures in one pass.
pub(crate) fn read(image: &mut Image<'_>, elf: &Elf, signatures: &Signatures) -> Result<Marks> {
    let ended = |text: &str| [text.as_bytes(), b"\0"].concat();
    let files: BTreeSet<&str> = signatures.codes.iter().map(|signature| signature.file.as_str()).collect();
    let names = signatures.names.iter().map(|signature| ended(&signature.name));
    let texts = signatures
        .markers
        .iter()
        .filter_map(|marker| marker.text.as_ref())
        .map(|text| text.as_bytes().to_vec());
    let texts: Vec<Vec<u8>> = texts.chain(names).chain(files.iter().map(|file| ended(file))).collect();
    let wanted: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut offsets = search::mapped_texts(image, elf, &wanted)?.into_iter();
    let mut marks = Marks::default();
    for marker in &signatures.markers {
        let mut is_there = false;
        if let Some(text) = &marker.text {
            let offsets = offsets.next().unwrap_or_default();
            is_there = !offsets.is_empty() && !marker.version;
            for offset in offsets.into_iter().filter(|_| marker.version) {
                let behind =
                    image.up_to("a text", offset.saturating_add(text.len() as u64), MAX_VERSION_BYTES)?;
                if let Some(version) = version(text, &behind) {
                    is_there = true;
                    // Prose about a version names fewer numbers than the version itself.
                    let known = marks.versions.entry(marker.library).or_default();
                    if version.split('.').count() > known.split('.').count() || known.is_empty() {
                        *known = version;
                    }
                }
            }
        }
        if let (Some(begins), Some(soname)) = (&marker.soname, &elf.dynamic.soname) {
            is_there |= soname.starts_with(begins.as_str());
        }
        if is_there {
            if marker.detail { &mut marks.details } else { &mut marks.libraries }.insert(marker.library);
        }
    }
    marks.names = offsets.by_ref().take(signatures.names.len()).collect();
    for (file, offsets) in files.iter().zip(offsets) {
        let mut starts = Vec::new();
        for offset in offsets {
            starts.extend(start(image, offset)?);
        }
        marks.files.insert((*file).to_owned(), starts);
    }
    Ok(marks)
}

/// Where the text begins that has a byte at `offset`: behind the zero before.
fn start(image: &mut Image<'_>, offset: u64) -> Result<Option<u64>> {
    let from = offset.saturating_sub(MAX_NAME_BYTES as u64);
    let before = image.up_to("a text", from, offset - from)?;
    Ok(memchr::memrchr(0, &before).map(|zero| from + zero as u64 + 1))
}

/// The version that begins with the end of a text, and goes on behind it: numbers and points, perhaps a letter, then something else.
fn version(text: &str, behind: &[u8]) -> Option<String> {
    let begin = text.find(|byte: char| byte.is_ascii_digit()).unwrap_or(text.len());
    let number = behind.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let letter = usize::from(behind.get(number).is_some_and(u8::is_ascii_lowercase));
    let end = number + letter;
    let is_ended = behind.get(end).is_some_and(|byte| matches!(byte, b' ' | b'/' | b'-' | b'+' | 0));
    let number = std::str::from_utf8(behind.get(..end)?).ok()?;
    (is_ended && number.starts_with(|byte: char| byte.is_ascii_digit()))
        .then(|| format!("{}{number}", text.get(begin..).unwrap_or_default()))
}

impl Marks {
    /// Whether a library is in the file.
    pub(crate) fn has(&self, library: Library) -> bool {
        self.libraries.contains(&library)
    }

    /// The libraries that are in the file for certain.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = Library> {
        self.libraries.iter().copied().filter(|library| *library != Library::Other)
    }

    /// Whether functions of a library, or of the cryptography that it uses, can be in the file.
    pub(crate) fn uses(&self, library: Library) -> bool {
        match library {
            Library::Rustls | Library::RustlsRing | Library::RustlsAwsLc => self.has(Library::Rustls),
            other => self.has(other),
        }
    }

    /// The version that the file names.
    pub(crate) fn version(&self, library: Library) -> Option<&str> {
        let family = family(library).iter();
        let own = self
            .versions
            .get(&library)
            .filter(|_| !matches!(library, Library::RustlsRing | Library::RustlsAwsLc));
        own.or_else(|| {
            let of_family =
                family.filter(|other| !matches!(other, Library::RustlsRing | Library::RustlsAwsLc));
            of_family.into_iter().find_map(|library| self.versions.get(library))
        })
        .map(String::as_str)
    }

    /// Whether the version is this one or a later one; `None` where it is not known.
    pub(crate) fn is_since(&self, library: Library, since: [u32; 2]) -> Option<bool> {
        let mut numbers = self.version(library)?.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        Some([numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)] >= since)
    }

    /// Where the texts of a signature's name are.
    pub(crate) fn names(&self, signature: usize) -> &[u64] {
        self.names.get(signature).map(Vec::as_slice).unwrap_or_default()
    }

    /// Where the paths begin that end with this one.
    pub(crate) fn files(&self, file: &str) -> &[u64] {
        self.files.get(file).map(Vec::as_slice).unwrap_or_default()
    }

    /// Which of the libraries with OpenSSL's interface it is.
    pub(crate) fn flavour(&self, library: Library) -> Library {
        let is = |library| self.libraries.contains(&library) || self.details.contains(&library);
        match library {
            Library::OpenSsl if self.has(Library::BoringSsl) => Library::BoringSsl,
            Library::OpenSsl if is(Library::OpenSsl3) => Library::OpenSsl3,
            Library::OpenSsl if is(Library::OpenSsl11) => Library::OpenSsl11,
            Library::OpenSsl if self.names.iter().any(|offsets| !offsets.is_empty()) => Library::OpenSsl3,
            Library::Rustls => self.provider(library),
            other => other,
        }
    }

    /// Whose cryptography rustls uses, where a function can be of either.
    pub(crate) fn provider(&self, library: Library) -> Library {
        let (ring, aws_lc) =
            (self.details.contains(&Library::RustlsRing), self.details.contains(&Library::RustlsAwsLc));
        match library {
            Library::Rustls if ring && !aws_lc => Library::RustlsRing,
            Library::Rustls if aws_lc && !ring => Library::RustlsAwsLc,
            other => other,
        }
    }
}
