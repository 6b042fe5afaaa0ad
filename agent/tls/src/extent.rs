//! Where the function begins and ends that an instruction belongs to, in files without symbols.
//!
//! The table of what can be unwound says it, where it was kept (Linux Standard Base, ".eh_frame_hdr"). Elsewhere the padding does:
//! compilers fill what is between functions, which begin at multiples of 16, with `int3`.

use crate::{
    bounds::MAX_FUNCTION_BYTES,
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
        Ok(Self { offset, address, code })
    }

    /// The address that the end of an instruction plus a distance is.
    pub(crate) fn target(&self, end: usize, distance: i32) -> u64 {
        self.address.wrapping_add(end as u64).wrapping_add_signed(distance.into())
    }
}

/// The function that has an instruction of which some byte is at `offset`, if its border is found.
pub(crate) fn around(image: &mut Image<'_>, elf: &Elf, offset: u64) -> Result<Option<Extent>> {
    match by_unwinding(image, elf, offset) {
        Ok(Some(extent)) => return Ok(Some(extent)),
        Ok(None) | Err(LocateError::Outside { .. }) => {}
        Err(error) => return Err(error),
    }
    by_padding(image, elf, offset)
}

/// As `.eh_frame_hdr` and the description that its entry names say.
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

/// Bytes of the function that `code` begins with, up to the padding behind it, where the instructions in order come to the one that has
/// the byte at `place`, and to no padding before.
fn length(code: &[u8], place: usize) -> Option<usize> {
    let mut walk = Walk::new(code);
    while let Some((at, _, instruction)) = walk.step() {
        let end = at + usize::from(instruction.length);
        if instruction.kind == Kind::Breakpoint {
            return (at > place).then_some(at);
        }
        // The byte belongs to an instruction, and is not its first: a displacement or a constant.
        if at == place || at > place && place > end {
            return None;
        }
    }
    (walk.at() > place).then_some(walk.at())
}
