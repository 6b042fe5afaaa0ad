//! Texts in what a file maps, and the instructions that refer to them.

use std::ops::Range;

use memchr::{memchr_iter, memmem::Finder};

use crate::{
    bounds::{MAX_OCCURRENCES, MAX_REFERENCES},
    elf::Elf,
    error::Result,
    image::Image,
};

/// Where each text occurs, as offsets in the file, in order; of each the first `most`.
pub(crate) fn texts(
    image: &mut Image<'_>,
    ranges: &[Range<u64>],
    texts: &[&[u8]],
    most: usize,
) -> Result<Vec<Vec<u64>>> {
    let finders: Vec<Finder<'_>> = texts.iter().map(Finder::new).collect();
    let overlap = texts.iter().map(|text| text.len().saturating_sub(1)).max().unwrap_or(0);
    let mut found = vec![Vec::new(); texts.len()];
    for range in ranges {
        image.chunks(range.clone(), overlap, &mut |offset, chunk, own| {
            for (finder, found) in finders.iter().zip(&mut found) {
                if found.len() >= most {
                    continue;
                }
                let here = finder.find_iter(chunk).take_while(|at| *at < own);
                let room = most - found.len();
                found.extend(here.take(room).map(|at| offset + at as u64));
            }
        })?;
    }
    Ok(found)
}

/// [`texts`] in all that is mapped, with the usual bound.
pub(crate) fn mapped_texts(image: &mut Image<'_>, elf: &Elf, wanted: &[&[u8]]) -> Result<Vec<Vec<u64>>> {
    texts(image, &elf.mapped(), wanted, MAX_OCCURRENCES)
}

/// An instruction that has the address of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// Where the four bytes of the displacement or of the constant are in the file.
    pub(crate) offset: u64,
    /// Which of the texts.
    pub(crate) target: usize,
}

/// Instructions that refer to one of some addresses: `lea` relative to the instruction or, in programs that are loaded at a fixed address,
/// a constant. In order; other bytes can look like such an instruction.
pub(crate) fn references(image: &mut Image<'_>, elf: &Elf, targets: &[u64]) -> Result<Vec<Reference>> {
    /// Bytes of a displacement, and of what precedes it in a `lea`.
    const NUMBER: usize = 4;
    const BEFORE: usize = 3;
    let mut sorted: Vec<(u64, usize)> =
        targets.iter().enumerate().map(|(at, target)| (*target, at)).collect();
    sorted.sort_unstable();
    let constants: Vec<(Finder<'_>, [u8; 4], usize)> = sorted
        .iter()
        .filter_map(|(address, target)| Some((u32::try_from(*address).ok()?.to_le_bytes(), *target)))
        .map(|(bytes, target)| (Finder::new(&bytes).into_owned(), bytes, target))
        .collect();
    let mut found = Vec::new();
    for segment in elf.code() {
        let range = segment.offset..segment.offset.saturating_add(segment.size);
        let base = segment.address.wrapping_sub(segment.offset);
        image.chunks(range, BEFORE + NUMBER, &mut |offset, chunk, own| {
            for at in memchr_iter(0x8d, chunk) {
                // 48 or 4c, 8d, then a ModRM byte of mode 0 and base 5.
                let (Some(rex), Some(operands)) =
                    (at.checked_sub(1).and_then(|at| chunk.get(at)), chunk.get(at + 1))
                else {
                    continue;
                };
                if at > own || rex & 0xf8 != 0x48 || operands & 0xc7 != 5 {
                    continue;
                }
                let Some(number) = chunk.get(at + 2..).and_then(|rest| rest.first_chunk::<NUMBER>()) else {
                    continue;
                };
                let offset = offset + at as u64 + 2;
                let end = base.wrapping_add(offset).wrapping_add(NUMBER as u64);
                let address = end.wrapping_add_signed(i32::from_le_bytes(*number).into());
                if let Ok(index) = sorted.binary_search_by_key(&address, |(address, _)| *address)
                    && let Some((_, target)) = sorted.get(index)
                    && found.len() < MAX_REFERENCES
                {
                    found.push(Reference { offset, target: *target });
                }
            }
            for (finder, _, target) in &constants {
                for at in finder.find_iter(chunk).take_while(|at| *at <= own) {
                    // mov of 32 bits into a register.
                    let opcode = at.checked_sub(1).and_then(|at| chunk.get(at));
                    if opcode.is_some_and(|opcode| opcode & 0xf8 == 0xb8) && found.len() < MAX_REFERENCES {
                        found.push(Reference { offset: offset + at as u64, target: *target });
                    }
                }
            }
        })?;
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
