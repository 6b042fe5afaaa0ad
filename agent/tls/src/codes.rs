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

/// Numbers of registers in the encoding of instructions: the second, third and fourth argument.
const RSI: u8 = 6;
const RDX: u8 = 2;
const RCX: u8 = 1;

/// Which register has the reason if this one has the path: the reason is the third argument of `ERR_put_error` and the path the fourth, or, where the
/// linker has left out the second, which nobody uses, the second and the third.
fn reason_beside(path: u8) -> Option<u8> {
    match path {
        RCX => Some(RDX),
        RDX => Some(RSI),
        // Of something else, such as of a failed assertion.
        _ => None,
    }
}

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
    let offsets: Vec<u64> = references.iter().map(|reference| reference.offset).collect();
    let mut functions: BTreeMap<(&str, u64), (Extent, Vec<u64>)> = BTreeMap::new();
    for (reference, extent) in references.iter().zip(extent::around(image, elf, &offsets)?) {
        let (Some(file), Some(extent)) = (of.get(reference.target).copied(), extent) else { continue };
        let entry = functions.entry((file, extent.offset)).or_insert_with(|| (extent, Vec::new()));
        entry.1.push(reference.offset);
    }
    for ((file, _), (extent, offsets)) in functions {
        found.entry(file).or_default().push(report(extent, &offsets));
    }
    Ok(found)
}

/// Constants in the registers that can have a reason.
#[derive(Clone, Copy, Default)]
struct Constants {
    rsi: Option<u32>,
    rdx: Option<u32>,
}

impl Constants {
    fn of(&self, register: u8) -> Option<u32> {
        if register == RSI { self.rsi } else { self.rdx }
    }

    fn set(&mut self, register: u8, number: Option<u32>) {
        match register {
            RSI => self.rsi = number,
            RDX => self.rdx = number,
            _ => {}
        }
    }

    /// Forgets what is written.
    fn forget(&mut self, writes: Option<Registers>) {
        for register in [RSI, RDX] {
            if writes.is_none_or(|writes| writes.meets(Registers::one(register))) {
                self.set(register, None);
            }
        }
    }
}

/// Which errors a function reports, that refers to the path of its source at these offsets.
fn report(extent: Extent, offsets: &[u64]) -> Reporter {
    let (mut reasons, mut calls, mut stores) = (BTreeSet::new(), BTreeSet::new(), false);
    // What is in the registers, what was pushed last, and where the instructions begin that nothing jumps out of.
    let (mut constants, mut pushed, mut block) = (Constants::default(), None, 0);
    // The register that has the reason, once another has the path.
    let mut pending: Option<u8> = None;
    // Where jumps go, and what was in the registers then: compilers share the call, and what is the same before it.
    let mut jumps: Vec<(u64, Constants)> = Vec::new();
    let mut shared: Vec<(u64, u64, u8)> = Vec::new();
    let mut walk = Walk::new(&extent.code);
    while let Some((at, _, instruction)) = walk.step() {
        let end = walk.at();
        let bytes = extent.offset + at as u64..extent.offset + end as u64;
        stores |= extent.code.get(at..).is_some_and(x86::stores);
        let has_path = offsets.iter().any(|offset| bytes.contains(offset));
        constants.forget(instruction.writes);
        match instruction.kind {
            Kind::Lea(register, _) | Kind::Constant(register, _) if has_path => {
                pending = reason_beside(register).or(pending);
            }
            Kind::Constant(register, number) => constants.set(register, Some(number)),
            // Where code is to be small, so is a constant: push, pop.
            Kind::Pop(register) => constants.set(register, pushed),
            Kind::Call(distance) => {
                calls.insert(extent.target(end, distance));
                match pending.map(|register| (register, constants.of(register))) {
                    Some((_, Some(reason))) => _ = reasons.insert(reason),
                    Some((register, None)) => shared.push((block, at as u64, register)),
                    None => {}
                }
            }
            Kind::Jump(distance) => {
                let target = extent.target(end, distance);
                calls.insert(target);
                match pending.and_then(|register| constants.of(register)) {
                    // The call is shared, and the path is not.
                    Some(reason) => _ = reasons.insert(reason),
                    None => jumps.push((target.wrapping_sub(extent.address), constants)),
                }
            }
            _ => {}
        }
        let is_border = matches!(
            instruction.kind,
            Kind::Call(_)
                | Kind::Jump(_)
                | Kind::Return
                | Kind::Indirect
                | Kind::JumpThrough(_)
                | Kind::Breakpoint
        );
        if is_border {
            (constants, pending, block) = (Constants::default(), None, end as u64);
        }
        pushed = match instruction.kind {
            Kind::PushConstant(number) => u32::try_from(number).ok(),
            _ => None,
        };
    }
    for (from, to, register) in shared {
        let leads_there = |(target, constants): &(u64, Constants)| {
            (from..=to).contains(target).then(|| constants.of(register)).flatten()
        };
        let there: Vec<u32> = jumps.iter().filter_map(leads_there).collect();
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
