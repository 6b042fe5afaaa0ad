//! Functions by the errors that they report: OpenSSL's descendants call a function for it with the number of the reason in a register and
//! the path of the source file in another. Lines move from version to version, and reasons do not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    elf::Elf,
    error::Result,
    extent::{self, Extent},
    image::Image,
    marks::Marks,
    prologue::Walk,
    search,
    signatures::CodeSignature,
    x86::{self, Kind, Registers},
};

/// Numbers of the registers that have the reason and the path: the third and fourth argument of `ERR_put_error`.
const REASON: u8 = 2;
const PATH: u8 = 1;

/// A function that reports errors.
struct Reporter {
    extent: Extent,
    reasons: BTreeSet<u32>,
    /// Where it calls and jumps to, outside of itself.
    calls: BTreeSet<u64>,
    /// Whether it writes to memory that is not its own.
    stores: bool,
}

/// The functions of those signatures that are wanted: which signature, and all functions that fit it.
pub(crate) fn functions(
    image: &mut Image<'_>,
    elf: &Elf,
    signatures: &[CodeSignature],
    wanted: &[bool],
    marks: &Marks,
) -> Result<Vec<(usize, Vec<Extent>)>> {
    let wanted: Vec<(usize, &CodeSignature)> =
        signatures.iter().enumerate().filter(|(at, _)| wanted.get(*at).copied().unwrap_or(false)).collect();
    let files: BTreeSet<&str> = wanted.iter().map(|(_, signature)| signature.file.as_str()).collect();
    let reporters = reporters(image, elf, &files, marks)?;
    let mut found = Vec::new();
    for (at, signature) in &wanted {
        let Some(reporters) = reporters.get(signature.file.as_str()) else { continue };
        let fitting = fitting(signature, reporters, &wanted);
        let extents: Vec<Extent> = fitting.into_iter().map(|reporter| reporter.extent.clone()).collect();
        if !extents.is_empty() {
            found.push((*at, extents));
        }
    }
    Ok(found)
}

fn fitting<'a>(
    signature: &CodeSignature,
    reporters: &'a [Reporter],
    all: &[(usize, &CodeSignature)],
) -> Vec<&'a Reporter> {
    let reasons: BTreeSet<u32> = signature.reasons.iter().copied().collect();
    let is_fit = |reporter: &&Reporter| {
        reporter.reasons == reasons && signature.stores.is_none_or(|stores| stores == reporter.stores)
    };
    let fit = reporters.iter().filter(is_fit);
    let Some(called) = &signature.calls else { return fit.collect() };
    // What it calls is found without calls of its own: no circle.
    let is_called = |(_, other): &&(usize, &CodeSignature)| {
        other.name == *called && other.file == signature.file && other.calls.is_none()
    };
    let called = all.iter().filter(is_called).flat_map(|(_, called)| fitting(called, reporters, &[]));
    let targets: BTreeSet<u64> = called.map(|reporter| reporter.extent.address).collect();
    fit.filter(|reporter| !reporter.calls.is_disjoint(&targets)).collect()
}

/// All functions that report errors of these files, by file.
fn reporters<'a>(
    image: &mut Image<'_>,
    elf: &Elf,
    files: &BTreeSet<&'a str>,
    marks: &Marks,
) -> Result<BTreeMap<&'a str, Vec<Reporter>>> {
    let (mut targets, mut of) = (Vec::new(), Vec::new());
    for file in files {
        for address in marks.files(file).iter().filter_map(|offset| elf.address(*offset)) {
            targets.push(address);
            of.push(*file);
        }
    }
    let mut found: BTreeMap<&str, Vec<Reporter>> = BTreeMap::new();
    if targets.is_empty() {
        return Ok(found);
    }
    let references = search::references(image, elf, &targets)?;
    let places: Vec<u64> = references.iter().map(|reference| reference.offset).collect();
    let mut functions: BTreeMap<(&str, u64), (Extent, Vec<u64>)> = BTreeMap::new();
    for (reference, extent) in references.iter().zip(extent::around(image, elf, &places)?) {
        let (Some(file), Some(extent)) = (of.get(reference.target).copied(), extent) else { continue };
        let entry = functions.entry((file, extent.offset)).or_insert_with(|| (extent, Vec::new()));
        entry.1.push(reference.offset);
    }
    for ((file, _), (extent, places)) in functions {
        found.entry(file).or_default().push(report(extent, &places));
    }
    Ok(found)
}

/// Which errors a function reports, that refers to the path of its source at these places.
fn report(extent: Extent, places: &[u64]) -> Reporter {
    let mut reasons = BTreeSet::new();
    let mut calls = BTreeSet::new();
    // The last number that was put into the register, and where the instructions begin that nothing jumps out of.
    let (mut reason, mut block) = (None, 0);
    // Where jumps go, and the number that was in the register then: compilers share the call, and what is the same before it.
    let mut jumps: Vec<(u64, u32)> = Vec::new();
    let mut shared: Vec<(u64, u64)> = Vec::new();
    let (mut is_pending, mut pushed, mut stores) = (false, None, false);
    let mut walk = Walk::new(&extent.code);
    while let Some((at, _, instruction)) = walk.step() {
        let end = at + usize::from(instruction.length);
        let bytes = extent.offset + at as u64..extent.offset + end as u64;
        stores |= extent.code.get(at..).is_some_and(x86::stores);
        // Elsewhere a path is an argument of something else, such as of a failed assertion.
        is_pending |= matches!(instruction.kind, Kind::Lea(PATH, _) | Kind::Constant(PATH, _))
            && places.iter().any(|place| bytes.contains(place));
        match instruction.kind {
            Kind::Constant(REASON, number) => reason = Some(number),
            // Where code is to be small, so is a constant: push, pop.
            Kind::Pop(REASON) => reason = pushed,
            Kind::Call(distance) => {
                calls.insert(extent.target(end, distance));
                if is_pending {
                    match reason {
                        Some(reason) => _ = reasons.insert(reason),
                        None => shared.push((block, at as u64)),
                    }
                }
                (reason, is_pending, block) = (None, false, end as u64);
            }
            Kind::Jump(distance) => {
                let target = extent.target(end, distance);
                calls.insert(target);
                match reason {
                    // The call is shared, and the path is not.
                    Some(reason) if is_pending => _ = reasons.insert(reason),
                    Some(reason) => jumps.push((target.wrapping_sub(extent.address), reason)),
                    None => {}
                }
                (reason, is_pending, block) = (None, false, end as u64);
            }
            Kind::Return | Kind::Indirect | Kind::JumpThrough(_) | Kind::Breakpoint => {
                (reason, is_pending, block) = (None, false, end as u64);
            }
            _ if instruction.writes.is_some_and(|writes| writes.meets(Registers::one(REASON))) => {
                reason = None
            }
            _ => {}
        }
        pushed = match instruction.kind {
            Kind::PushConstant(number) => u32::try_from(number).ok(),
            _ => None,
        };
    }
    for (from, to) in shared {
        let there: Vec<u32> = jumps
            .iter()
            .filter(|(target, _)| (from..=to).contains(target))
            .map(|(_, reason)| *reason)
            .collect();
        // An error of an unknown reason fits no signature.
        if there.is_empty() {
            reasons.insert(u32::MAX);
        }
        reasons.extend(there);
    }
    let (begin, end) = (extent.address, extent.address.saturating_add(extent.code.len() as u64));
    calls.retain(|target| !(begin..end).contains(target));
    Reporter { extent, reasons, calls, stores }
}
