//! Where the function begins and ends that an instruction belongs to, in files without symbols.
//!
//! The table of what can be unwound has both, where it was kept (Linux Standard Base, ".eh_frame_hdr"). Elsewhere the padding shows them:
//! compilers fill what is between functions, which begin at multiples of 16, with `int3`. Where code is to be small there is none:
//! a function is what something calls.

use std::{collections::BTreeSet, ops::Range};

use memchr::memchr_iter;

use crate::{
    bounds::{DECODE_COST, MAX_CALLED, MAX_FUNCTION_BYTES, MAX_STARTS},
    elf::{Elf, Fields, Segment},
    error::{LocateError, Result},
    image::Image,
    prologue::Walk,
    x86::Kind,
};

/// A function: its offset in the file, where it is mapped, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) code: Vec<u8>,
}

impl Extent {
    /// Reads a function that begins at an offset; at most `length` bytes of it.
    pub(crate) fn read(image: &mut Image<'_>, elf: &Elf, offset: u64, length: u64) -> Result<Self> {
        let what = "a function";
        let address = elf.address(offset).ok_or(LocateError::Outside { what, offset })?;
        let code = image.up_to(what, offset, length.min(MAX_FUNCTION_BYTES))?;
        image.charge(code.len() as u64 * DECODE_COST)?;
        Ok(Self { offset, address, code })
    }

    /// Where it is in the file.
    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.code.len() as u64)
    }

    /// The address that the end of an instruction plus a distance is.
    pub(crate) fn target(&self, end: usize, distance: i32) -> u64 {
        self.address.wrapping_add(end as u64).wrapping_add_signed(distance.into())
    }
}

/// The functions that have the instructions of which some byte is at these offsets, where their borders are found.
pub(crate) fn around(image: &mut Image<'_>, elf: &Elf, offsets: &[u64]) -> Result<Vec<Option<Extent>>> {
    let mut found: Vec<Option<Extent>> = Vec::with_capacity(offsets.len());
    let mut rest = Vec::new();
    for offset in offsets {
        // Those of one function follow each other.
        let last = found.last().and_then(Option::as_ref).filter(|extent| extent.range().contains(offset));
        let extent = match last {
            Some(extent) => Some(extent.clone()),
            None => match by_unwinding(image, elf, *offset) {
                Ok(None) | Err(LocateError::Outside { .. }) => by_padding(image, elf, *offset)?,
                other => other?,
            },
        };
        if extent.is_none() {
            rest.push((found.len(), *offset));
        }
        found.push(extent);
    }
    by_calls(image, elf, &rest, &mut found)?;
    Ok(found)
}

/// By `.eh_frame_hdr` and the description that its entry names.
fn by_unwinding(image: &mut Image<'_>, elf: &Elf, offset: u64) -> Result<Option<Extent>> {
    /// Version 1; the pointer relative to itself, the count as it is, and the table relative to its header, in four bytes each.
    const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let (Some(Segment { offset: table, address: base, .. }), Some(address)) =
        (elf.unwind().copied(), elf.address(offset))
    else {
        return Ok(None);
    };
    let header: [u8; 12] = image.array("the table of functions", table)?;
    if !header.starts_with(&USUAL) {
        return Ok(None);
    }
    let wanted = address.wrapping_sub(base).cast_signed();
    let entry = |image: &mut Image<'_>, index: u32| -> Result<(i64, i64)> {
        let at = table.saturating_add(12).saturating_add(u64::from(index) * 8);
        let entry: [u8; 8] = image.array("the table of functions", at)?;
        let entry = Fields(&entry);
        Ok((entry.u32(0).cast_signed().into(), entry.u32(4).cast_signed().into()))
    };
    // The first entry behind the address: 32 turns.
    let (mut low, mut high) = (0, Fields(&header).u32(8));
    while low < high {
        let middle = low + (high - low) / 2;
        if entry(image, middle)?.0 <= wanted { low = middle + 1 } else { high = middle }
    }
    let Some(index) = low.checked_sub(1) else { return Ok(None) };
    let (start, description) = entry(image, index)?;
    let start = base.wrapping_add_signed(start);
    let description = base.wrapping_add_signed(description);
    let Some(at) = elf.offset(description) else { return Ok(None) };
    let description_bytes: [u8; 16] = image.array("the description of a function", at)?;
    let fields = Fields(&description_bytes);
    // Length, the common part, the beginning relative to itself, and the bytes.
    let begins = description.wrapping_add(8).wrapping_add_signed(fields.u32(8).cast_signed().into());
    let length = u64::from(fields.u32(12));
    if begins != start || address.wrapping_sub(start) >= length.min(MAX_FUNCTION_BYTES) {
        return Ok(None);
    }
    let Some(begin) = elf.offset(start).filter(|begin| elf.is_code(*begin)) else { return Ok(None) };
    Extent::read(image, elf, begin, length).map(Some)
}

/// By the nearest padding before the instruction from which on the instructions lead to it.
fn by_padding(image: &mut Image<'_>, elf: &Elf, offset: u64) -> Result<Option<Extent>> {
    const ALIGNMENT: u64 = 16;
    const PADDING: u8 = 0xcc;
    let begin = elf
        .mapped_code()
        .into_iter()
        .find(|range| range.contains(&offset))
        .map_or(offset, |range| range.start);
    let from = begin.max(offset.saturating_sub(MAX_FUNCTION_BYTES)).next_multiple_of(ALIGNMENT);
    let before = image.up_to("code", from, offset.saturating_sub(from))?;
    let mut end = before.len() - before.len() % ALIGNMENT as usize;
    while end > 0 {
        let is_padding = end.checked_sub(1).and_then(|last| before.get(last)) == Some(&PADDING);
        if is_padding {
            let extent = Extent::read(image, elf, from + end as u64, MAX_FUNCTION_BYTES)?;
            let place = usize::try_from(offset - extent.offset).unwrap_or(usize::MAX);
            if let Some(length) = length(&extent.code, place) {
                let code = extent.code.get(..length).unwrap_or_default().to_vec();
                return Ok(Some(Extent { code, ..extent }));
            }
        }
        end -= ALIGNMENT as usize;
    }
    Ok(None)
}

/// Bytes of the function that `code` begins with, where its instructions in order come to the one that has the byte at `place`. It ends
/// with padding, or behind a return or jump that no earlier jump leads past.
fn length(code: &[u8], place: usize) -> Option<usize> {
    let mut walk = Walk::new(code);
    // The farthest that a jump leads to.
    let mut reach = 0;
    while let Some((at, _, instruction)) = walk.step() {
        let end = walk.at();
        // The byte that is looked for belongs to an instruction, and is not its first: a displacement or a constant.
        if at == place {
            return None;
        }
        let target = |distance: i32| usize::try_from(end as i64 + i64::from(distance)).ok();
        let is_end = match instruction.kind {
            Kind::Breakpoint => return (at > place).then_some(at),
            Kind::JumpIf(distance) => {
                reach = target(distance).map_or(reach, |target| reach.max(target));
                false
            }
            Kind::Jump(distance) => {
                // One that leads far is a call at the end.
                let near = target(distance).filter(|target| *target < code.len());
                reach = near.map_or(reach, |target| reach.max(target));
                true
            }
            Kind::Return => true,
            _ => false,
        };
        if is_end && end > reach {
            return (end > place).then_some(end);
        }
    }
    (walk.at() > place).then_some(walk.at())
}

/// By the nearest place before the instruction that something calls, for each of `wanted`: which of `found`, and where.
fn by_calls(
    image: &mut Image<'_>,
    elf: &Elf,
    wanted: &[(usize, u64)],
    found: &mut [Option<Extent>],
) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let called = called(image, elf, wanted)?;
    for (index, offset) in wanted {
        let end = called.range(offset + 1..).next().copied().unwrap_or(u64::MAX);
        for start in called.range(..=offset).rev().take(MAX_STARTS) {
            let extent = Extent::read(image, elf, *start, end - start)?;
            let place = usize::try_from(offset - start).unwrap_or(usize::MAX);
            // What lies about the bytes of the next function is not decoded.
            if let Some(length) = length(&extent.code, place)
                && let Some(found) = found.get_mut(*index)
            {
                let code = extent.code.get(..length).unwrap_or_default().to_vec();
                *found = Some(Extent { code, ..extent });
                break;
            }
        }
    }
    Ok(())
}

/// Where calls lead to that is near the wanted places, and behind the end of another function. Bytes that look like a call lead anywhere:
/// some few of these are no beginnings.
fn called(image: &mut Image<'_>, elf: &Elf, wanted: &[(usize, u64)]) -> Result<BTreeSet<u64>> {
    const CALL_BYTES: usize = 5;
    let near =
        |offset: u64| offset.saturating_sub(MAX_FUNCTION_BYTES)..offset.saturating_add(MAX_FUNCTION_BYTES);
    let mut windows: Vec<Range<u64>> = Vec::new();
    for (_, offset) in wanted {
        let range = near(*offset);
        match windows.last_mut() {
            Some(last) if (last.start..=last.end).contains(&range.start) => {
                last.end = last.end.max(range.end)
            }
            _ => windows.push(range),
        }
    }
    windows.sort_by_key(|window| window.start);
    let mut places = BTreeSet::new();
    for segment in elf.code() {
        let range = segment.offset..segment.offset.saturating_add(segment.size);
        image.chunks(range, CALL_BYTES, &mut |offset, chunk, own| {
            for at in memchr_iter(0xe8, chunk).take_while(|at| *at < own) {
                let Some(distance) = chunk.get(at + 1..).and_then(|rest| rest.first_chunk()) else {
                    continue;
                };
                // Both are in the same segment: the distance is that in the file.
                let end = offset + (at + CALL_BYTES) as u64;
                let Some(target) = end.checked_add_signed(i32::from_le_bytes(*distance).into()) else {
                    continue;
                };
                let window = windows.partition_point(|window| window.start <= target).checked_sub(1);
                let is_near = window
                    .and_then(|window| windows.get(window))
                    .is_some_and(|window| window.contains(&target));
                if is_near && places.len() < MAX_CALLED {
                    places.insert(target);
                }
            }
        })?;
    }
    let mut called = BTreeSet::new();
    for place in places {
        if ends_before(image, place)? && elf.is_code(place) {
            called.insert(place);
        }
    }
    Ok(called)
}

/// Whether what is before a place can be the end of a function: a return, a jump, a call that never returns, or padding.
fn ends_before(image: &mut Image<'_>, place: u64) -> Result<bool> {
    const LONGEST: usize = 5;
    let Some(from) = place.checked_sub(LONGEST as u64) else { return Ok(false) };
    let before: [u8; LONGEST] = image.array("code", from)?;
    Ok(matches!(
        before,
        [0xe8 | 0xe9, ..] | [.., 0xeb, _] | [.., 0xc3 | 0xcc | 0x90 | 0x00] | [.., 0x0f, 0x0b]
    ))
}
