//! Functions written in assembly language, by their bytes: the same ones whatever compiled the rest of the program.

use std::collections::BTreeMap;

use memchr::memmem::Finder;

use crate::{
    bounds::{MAX_ANCHORS, MAX_NAME_BYTES},
    elf::Elf,
    error::Result,
    facts::Library,
    image::Image,
    marks::Marks,
    signatures::AssemblySignature,
};

/// `endbr64`: a compiler that protects against forged jumps begins functions with it, and assemblers do if they are asked to.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Where the functions of the signatures begin in the file: for each signature, in order.
pub(crate) fn matches(
    image: &mut Image<'_>,
    elf: &Elf,
    signatures: &[AssemblySignature],
) -> Result<Vec<Vec<u64>>> {
    let finders: Vec<Finder<'_>> = signatures
        .iter()
        .map(|signature| {
            let anchor = signature.bytes.get(signature.anchor.clone()).unwrap_or_default();
            Finder::new(&anchor.iter().flatten().copied().collect::<Vec<u8>>()).into_owned()
        })
        .collect();
    let mut anchors = vec![Vec::new(); signatures.len()];
    for range in elf.mapped_code() {
        image.chunks(range, MAX_NAME_BYTES, &mut |offset, chunk, own| {
            for (finder, anchors) in finders.iter().zip(&mut anchors) {
                let here = finder.find_iter(chunk).take_while(|at| *at < own);
                let room = MAX_ANCHORS - anchors.len().min(MAX_ANCHORS);
                anchors.extend(here.take(room).map(|at| offset + at as u64));
            }
        })?;
    }
    let mut found = vec![Vec::new(); signatures.len()];
    for ((signature, anchors), found) in signatures.iter().zip(anchors).zip(&mut found) {
        for anchor in anchors {
            let Some(begin) = anchor.checked_sub(signature.anchor.start as u64) else { continue };
            let there = image.up_to("code", begin, signature.bytes.len() as u64)?;
            let fits = there.len() == signature.bytes.len()
                && there
                    .iter()
                    .zip(&signature.bytes)
                    .all(|(there, wanted)| wanted.is_none_or(|byte| byte == *there));
            if !fits || !elf.is_code(begin) {
                continue;
            }
            let before = begin.checked_sub(ENDBR64.len() as u64);
            let is_marked = match before {
                Some(before) => image.array("code", before)? == ENDBR64,
                None => false,
            };
            found.push(before.filter(|_| is_marked).unwrap_or(begin));
        }
    }
    Ok(found)
}

/// Which library each offset belongs to: signatures, libraries, and the offsets of both. Some functions are the same in two libraries, and a program can have
/// both of them. A linker lays the functions of one library beside each other: such an offset belongs to the library whose own function is
/// nearest.
pub(crate) fn attributed<'a>(
    signatures: &'a [AssemblySignature],
    found: &[Vec<u64>],
    marks: &Marks,
) -> Vec<(&'a AssemblySignature, Library, Vec<u64>)> {
    let own: Vec<(Library, u64)> = signatures
        .iter()
        .zip(found)
        .filter(|(signature, _)| signature.library != Library::Rustls)
        .flat_map(|(signature, offsets)| offsets.iter().map(|offset| (signature.library, *offset)))
        .collect();
    let mut all = Vec::new();
    for (signature, offsets) in signatures.iter().zip(found) {
        let mut by_library: BTreeMap<Library, Vec<u64>> = BTreeMap::new();
        for offset in offsets {
            let nearest =
                || own.iter().min_by_key(|(_, other)| other.abs_diff(*offset)).map(|(library, _)| *library);
            let library = match marks.provider(signature.library) {
                Library::Rustls => nearest().unwrap_or(Library::Rustls),
                known => known,
            };
            by_library.entry(library).or_default().push(*offset);
        }
        all.extend(by_library.into_iter().map(|(library, offsets)| (signature, library, offsets)));
    }
    all
}
