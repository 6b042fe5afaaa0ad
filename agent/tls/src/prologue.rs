//! Where to probe a function: at the first instruction that the kernel emulates, while the arguments are where the caller put them.
//!
//! A probe on `push`, a jump or a call costs some 0.9 µs; on `endbr64` or `sub`, with which functions begin, some five times as much,
//! since the kernel single-steps a copy. Only what certainly runs in order after the entry is passed over, and nobody jumps to.

use crate::{
    bounds::{MAX_PROLOGUE_BYTES, MAX_PROLOGUE_INSTRUCTIONS},
    facts::{Probe, Step},
    x86::{self, Instruction, Kind, Registers},
};

/// How a language begins its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convention {
    /// As the System V ABI has it.
    C,
    /// Go's: the first conditional jump goes where the stack is made larger, and from there back to the beginning. A probe before or on
    /// it would fire twice for one call.
    Go,
    /// The same before Go 1.17: arguments are on the stack, above the return address.
    GoOnStack,
}

/// Where to probe the function that `code` begins with; `start` is its offset in the file. `keep` are the registers of its arguments.
/// `code` reaches as far as the function is known to: jumps within it are looked at.
pub(crate) fn probe(code: &[u8], start: u64, keep: Registers, convention: Convention) -> Probe {
    let mut first = Probe { offset: start, step: Step::Undecoded, stack: 0 };
    let mut fallback: Option<Probe> = None;
    let mut walk = Walk::new(code);
    for _ in 0..MAX_PROLOGUE_INSTRUCTIONS {
        let Some((at, stack, instruction)) = walk.step() else { break };
        let Some(stack) = stack.filter(|_| (at as u64) < MAX_PROLOGUE_BYTES) else { break };
        let here = |step| Probe { offset: start + at as u64, step, stack };
        if at == 0 && fallback.is_none() {
            first.step = Step::Stepped;
        }
        let is_check =
            convention != Convention::C && matches!(instruction.kind, Kind::JumpIf(_)) && fallback.is_none();
        if is_check {
            // Behind the check, a probe fires once in any case.
            fallback = Some(Probe {
                offset: start + at as u64 + u64::from(instruction.length),
                step: Step::Stepped,
                stack,
            });
            continue;
        }
        if x86::is_emulated(&instruction) && (at == 0 || !is_target(code, at)) {
            return here(Step::Emulated);
        }
        let is_in_order = matches!(
            instruction.kind,
            Kind::Push | Kind::PushConstant(_) | Kind::Nop | Kind::Other | Kind::Lea(..) | Kind::Constant(..)
        );
        if !is_in_order || instruction.writes.is_none_or(|writes| writes.meets(keep)) {
            break;
        }
    }
    fallback.unwrap_or(first)
}

/// Where a function hands its call on in every case, from its beginning on: the target of its first jump or call, if nothing branches before
/// and the registers to keep are as they were. Where that is the same function for another caller, a probe there sees both.
pub(crate) fn hands_on(code: &[u8], keep: Registers) -> Option<i64> {
    let mut walk = Walk::new(code);
    for _ in 0..MAX_PROLOGUE_INSTRUCTIONS {
        let (at, _, instruction) = walk.step()?;
        match instruction.kind {
            Kind::Jump(distance) | Kind::Call(distance) => {
                return Some((at + usize::from(instruction.length)) as i64 + i64::from(distance));
            }
            Kind::Push
            | Kind::PushConstant(_)
            | Kind::Nop
            | Kind::Other
            | Kind::Lea(..)
            | Kind::Constant(..) => {}
            _ => return None,
        }
        if instruction.writes.is_none_or(|writes| writes.meets(keep)) {
            return None;
        }
    }
    None
}

/// The address in memory, from its beginning on, that a stub jumps through.
pub(crate) fn jumps_through(code: &[u8]) -> Option<i64> {
    let mut walk = Walk::new(code);
    for _ in 0..3 {
        let (at, _, instruction) = walk.step()?;
        if let Kind::JumpThrough(distance) = instruction.kind {
            return Some((at + usize::from(instruction.length)) as i64 + i64::from(distance));
        }
    }
    None
}

/// All returns of the function that `code` is, from its beginning on; `None` where some of it cannot be decoded, or there are none.
pub(crate) fn returns(code: &[u8], most: usize) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    let mut walk = Walk::new(code);
    while walk.at < code.len() {
        let (at, _, instruction) = walk.step()?;
        if instruction.kind == Kind::Return {
            found.push(at as u64);
        }
    }
    (!found.is_empty() && found.len() <= most).then_some(found)
}

/// Whether a jump within the code leads to a place in it.
fn is_target(code: &[u8], place: usize) -> bool {
    let mut walk = Walk::new(code);
    while let Some((at, _, instruction)) = walk.step() {
        if let Kind::JumpIf(distance) | Kind::Jump(distance) = instruction.kind {
            let end = (at + usize::from(instruction.length)) as i64;
            if end + i64::from(distance) == place as i64 {
                return true;
            }
        }
    }
    false
}

/// Instructions in order, and how far the stack pointer is lowered before each.
pub(crate) struct Walk<'a> {
    code: &'a [u8],
    at: usize,
    stack: Option<i32>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(code: &'a [u8]) -> Self {
        Self { code, at: 0, stack: Some(0) }
    }

    /// Where the next one is, or what cannot be decoded.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next one: where, the stack before it if it is known, and itself.
    pub(crate) fn step(&mut self) -> Option<(usize, Option<u16>, Instruction)> {
        let instruction = x86::decode(self.code.get(self.at..)?)?;
        let at = self.at;
        self.at += usize::from(instruction.length);
        let before = self.stack;
        self.stack = before.zip(instruction.stack).map(|(before, by)| before.saturating_add(by));
        Some((at, before.and_then(|before| u16::try_from(before).ok()), instruction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rdi, rsi, rdx.
    const THREE: Registers = Registers(1 << 7 | 1 << 6 | 1 << 2);

    fn bytes(text: &str) -> Vec<u8> {
        text.split_ascii_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    fn probe_lies_on_the_first_emulated_instruction() {
        use Step::{Emulated, Stepped, Undecoded};
        // Beginnings of functions, what the kernel does at the probe, its place, and by how much the stack is lower there.
        let cases = [
            ("push", "55 48 89 e5", Emulated, 0, 0),
            ("push of a high register", "41 57 41 56", Emulated, 0, 0),
            ("endbr64, push", "f3 0f 1e fa 41 57", Emulated, 4, 0),
            ("endbr64, jmp", "f3 0f 1e fa e9 00 00 00 00", Emulated, 4, 0),
            ("nop of 5 bytes, push: some kernels step it", "0f 1f 44 00 00 55", Emulated, 5, 0),
            ("sub, call: SSL_write_ex of Debian 12", "48 83 ec 08 e8 87 fb ff ff", Emulated, 4, 8),
            (
                "sub, guard, test, js: SSL_write of Debian 12",
                "48 83 ec 18 64 48 8b 04 25 28 00 00 00 48 89 44 24 08 31 c0 85 d2 78 2f 48 89 e1",
                Emulated,
                0x16,
                24,
            ),
            (
                "sub, cmpb, mov to rcx, je: gnutls_record_recv of Debian 12",
                "48 83 ec 08 80 bf b8 06 00 00 00 48 89 d1 74 40",
                Emulated,
                14,
                8,
            ),
            ("test, je near: SSL_free of Debian 12", "48 85 ff 0f 84 97 03 00 00", Emulated, 3, 0),
            ("sub of 4 bytes", "48 81 ec 88 00 00 00 55", Emulated, 7, 0x88),
            ("xor of an argument that is not needed", "31 c9 e9 00 00 00 00", Emulated, 2, 0),
            ("an argument is overwritten before", "48 83 ec 18 48 89 fb 31 f6 75 02", Stepped, 0, 0),
            ("a quarter of an argument is", "48 83 ec 08 b6 01 75 02", Stepped, 0, 0),
            ("division overwrites rdx", "48 83 ec 08 48 f7 f1 75 02", Stepped, 0, 0),
            ("a return comes before", "48 83 ec 08 c3 55", Stepped, 0, 0),
            ("a call through memory comes before", "48 83 ec 08 ff 15 00 00 00 00 55", Stepped, 0, 0),
            (
                "the stack is aligned: it is not known where it is",
                "4c 8d 54 24 08 48 83 e4 e0 41 ff 72 f8 55",
                Stepped,
                0,
                0,
            ),
            ("unknown instruction first", "06 55", Undecoded, 0, 0),
            ("unknown instruction later", "48 83 ec 08 06 55", Stepped, 0, 0),
            ("a jump with the prefix 66 is stepped", "48 83 ec 08 66 e9 00 00 00 00", Stepped, 0, 0),
            ("a loop begins at the jump", "48 83 ec 08 85 d2 74 02 eb fc", Stepped, 0, 0),
            ("nothing", "", Undecoded, 0, 0),
            ("cut off", "48 81 ec 88 00", Undecoded, 0, 0),
        ];
        for (name, code, step, place, stack) in cases {
            let expected = Probe { offset: 0x1000 + place, step, stack };
            assert_eq!(probe(&bytes(code), 0x1000, THREE, Convention::C), expected, "{name}");
        }
    }

    #[test]
    fn probe_of_go_lies_behind_the_check_of_the_stack() {
        /// rax, rbx, rcx.
        const GO: Registers = Registers(1 | 1 << 3 | 1 << 1);
        let cases = [
            ("1.21: push", "49 3b 66 10 76 20 55 48 89 e5 48 83 ec 30", Step::Emulated, 6),
            (
                "1.19: sub, and an argument is spilled before the first call",
                "49 3b 66 10 76 20 48 83 ec 30 48 89 6c 24 28 48 8d 6c 24 28 48 89 44 24 40 48 89 c3 e8 00 00 00 00",
                Step::Stepped,
                6,
            ),
            (
                "1.19: sub, and a jump while all is there",
                "49 3b 66 10 76 20 48 83 ec 30 48 85 c9 74 10",
                Step::Emulated,
                13,
            ),
            ("large frame", "4c 8d a4 24 78 ff ff ff 4d 3b 66 10 0f 86 00 01 00 00 55", Step::Emulated, 18),
        ];
        for (name, code, step, place) in cases {
            let found = probe(&bytes(code), 0, GO, Convention::Go);
            assert_eq!((found.step, found.offset), (step, place), "{name}");
        }
    }

    #[test]
    fn function_that_hands_its_call_on_is_recognised() {
        let cases = [
            ("gnutls_record_send of Debian 12", "45 31 c0 31 c9 e9 66 9c ff ff", Some(10 - 0x639a)),
            ("endbr64 and a short jump", "f3 0f 1e fa eb 10", Some(0x16)),
            ("SSL_write_ex of OpenSSL 4.0", "49 89 c8 31 c9 e9 d6 ff ff ff", Some(10 - 0x2a)),
            ("it has a frame of its own", "48 83 ec 08 e9 00 00 00 00", Some(9)),
            ("it calls", "55 48 89 e5 49 89 c8 31 c9 e8 10 00 00 00", Some(0x1e)),
            ("it branches before", "48 85 ff 74 05 e9 00 00 00 00", None),
            ("it gives other arguments", "31 f6 e9 00 00 00 00", None),
            ("it returns", "31 c0 c3", None),
            ("it calls what a register has", "ff d0", None),
        ];
        for (name, code, target) in cases {
            assert_eq!(hands_on(&bytes(code), THREE), target, "{name}");
        }
    }

    #[test]
    fn all_returns_are_found_or_none() {
        let cases = [
            ("two", "74 01 c3 90 c3", Some(vec![2, 4])),
            ("its byte within a constant", "b8 c3 c3 c3 c3 c3", Some(vec![5])),
            ("with a number", "c2 08 00 cc", Some(vec![0])),
            ("unknown instruction", "c3 06", None),
            ("none", "90 cc", None),
        ];
        for (name, code, found) in cases {
            assert_eq!(returns(&bytes(code), 8), found, "{name}");
        }
        assert_eq!(returns(&[0xc3; 9], 8), None, "too many");
    }
}
