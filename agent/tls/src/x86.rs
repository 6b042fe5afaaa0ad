//! Lengths and effects of x86-64 instructions, as far as the search needs them: all lengths that compilers emit, and for the few
//! instructions of which functions' beginnings are made, the general registers that they write.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 (format) and appendix A (opcode maps).
//! What is not in the tables is not decoded. A wrong length would put a breakpoint into the middle of an instruction, and the process
//! would crash: nothing is guessed.

/// The longest instruction, in bytes.
pub const MAX_LENGTH: usize = 15;

/// A set of general registers, by their number in the encoding: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub u16);

impl Registers {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// One of them.
    pub const fn one(number: u8) -> Self {
        Self(1 << (number & 15))
    }

    /// Whether some are in both sets.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those of either set.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Number of the stack pointer.
pub const RSP: u8 = 4;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `push` of a general register.
    Push,
    /// `nop` of one byte, with or without prefixes.
    Nop,
    /// A conditional jump; how far from its end.
    JumpIf(i32),
    /// A jump; how far from its end.
    Jump(i32),
    /// A call; how far from its end.
    Call(i32),
    /// A call or jump to where a register or memory says.
    Indirect,
    /// A jump to the address in memory that lies so far from its end: a stub of an imported function.
    JumpThrough(i32),
    /// `ret`.
    Return,
    /// `int3`.
    Breakpoint,
    /// The address that lies so far from its end, into this register.
    Lea(u8, i32),
    /// A constant into this register, of 32 bits.
    Constant(u8, u32),
    /// `push` of a constant.
    PushConstant(i32),
    /// `pop` into this register.
    Pop(u8),
    /// Anything else.
    Other,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes.
    pub length: u8,
    /// What it does.
    pub kind: Kind,
    /// The general registers that it writes, the stack pointer aside; `None`: not known.
    pub writes: Option<Registers>,
    /// By how much it lowers the stack pointer; `None`: not known.
    pub stack: Option<i32>,
    /// Whether it has the prefix 66.
    pub is_short: bool,
}

/// Whether the kernel emulates the instruction where a uprobe is on it, and does not single-step a copy of it: arch/x86/kernel/uprobes.c,
/// `branch_setup_xol_ops` and `push_setup_xol_ops` (the same from 6.1 to 6.18). Longer nops are emulated from 6.18 on, and left out here.
pub fn is_emulated(instruction: &Instruction) -> bool {
    match instruction.kind {
        Kind::Push | Kind::Nop => true,
        Kind::JumpIf(_) | Kind::Jump(_) | Kind::Call(_) => !instruction.is_short,
        _ => false,
    }
}

/// Reads bytes in order.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at += count;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn i8(&mut self) -> Option<i32> {
        Some(i32::from(self.byte()?.cast_signed()))
    }

    fn i32(&mut self) -> Option<i32> {
        let bytes = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += 4;
        Some(i32::from_le_bytes(*bytes))
    }
}

/// Prefixes, and the bits of REX or of what stands for it.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    short: bool,
    f2: bool,
    f3: bool,
    address: bool,
    has_rex: bool,
    w: bool,
    r: u8,
    b: u8,
}

/// The byte behind the opcode that names operands.
#[derive(Clone, Copy)]
struct ModRm {
    is_register: bool,
    /// The register, or the extension of the opcode.
    reg: u8,
    /// The extension of the opcode.
    extension: u8,
    /// The register operand, or the base of the address.
    rm: u8,
    /// Of an address relative to the end of the instruction: how far.
    relative: Option<i32>,
    displacement: i32,
}

/// Decodes the first instruction of `bytes`; `None` where it is cut off, or not in the tables.
pub fn decode(bytes: &[u8]) -> Option<Instruction> {
    let mut at = Cursor { bytes: bytes.get(..MAX_LENGTH.min(bytes.len()))?, at: 0 };
    let mut prefixes = Prefixes::default();
    loop {
        match at.peek()? {
            0x66 => prefixes.short = true,
            0x67 => prefixes.address = true,
            0xf2 => (prefixes.f2, prefixes.f3) = (true, false),
            0xf3 => (prefixes.f2, prefixes.f3) = (false, true),
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => {}
            _ => break,
        }
        at.skip(1)?;
    }
    if let Some(rex @ 0x40..=0x4f) = at.peek() {
        at.skip(1)?;
        prefixes.has_rex = true;
        (prefixes.w, prefixes.r, prefixes.b) = (rex & 8 != 0, (rex & 4) << 1, (rex & 1) << 3);
    }
    let decoded = match at.byte()? {
        0x0f => two_bytes(&mut at, prefixes),
        0xc5 if !prefixes.has_rex => {
            at.skip(1)?;
            vector(&mut at, prefixes, 1)
        }
        0xc4 if !prefixes.has_rex => {
            let map = at.byte()? & 0x1f;
            at.skip(1)?;
            vector(&mut at, prefixes, map)
        }
        0x62 if !prefixes.has_rex => {
            let map = at.byte()? & 7;
            at.skip(2)?;
            vector(&mut at, prefixes, map)
        }
        opcode => one_byte(&mut at, prefixes, opcode),
    }?;
    let length = u8::try_from(at.at).ok()?;
    Some(Instruction { length, is_short: prefixes.short, ..decoded })
}

/// Whether the first instruction writes to memory by way of a register that is neither the stack pointer nor the frame's: to something that
/// is not its function's own. Instructions that are rare are not among those that are known here.
pub fn stores(code: &[u8]) -> bool {
    const RBP: u8 = 5;
    let mut at = Cursor { bytes: code, at: 0 };
    let mut prefixes = Prefixes::default();
    while let Some(0x66 | 0xf2 | 0xf3 | 0xf0) = at.peek() {
        at.at += 1;
    }
    if let Some(rex @ 0x40..=0x4f) = at.peek() {
        at.at += 1;
        (prefixes.r, prefixes.b) = ((rex & 4) << 1, (rex & 1) << 3);
    }
    let opcode = match (at.byte(), at.peek()) {
        (Some(0x0f), Some(second)) => {
            at.at += 1;
            0x0f00 | u16::from(second)
        }
        (Some(first), _) => first.into(),
        (None, _) => return false,
    };
    let Some(operands) = modrm(&mut at, prefixes) else { return false };
    let is_store = match opcode {
        // add, or, adc, sbb, and, sub, xor; moves; those with a constant.
        0x00..=0x37 => opcode & 7 < 2,
        0x88 | 0x89 | 0xc6 | 0xc7 | 0x0f11 | 0x0f29 | 0x0f7f | 0x0fd6 => true,
        0x80 | 0x81 | 0x83 => operands.extension != 7,
        0xfe | 0xff => operands.extension < 2,
        _ => false,
    };
    is_store && !operands.is_register && operands.relative.is_none() && ![RSP, RBP].contains(&operands.rm)
}

fn instruction(kind: Kind, writes: Option<Registers>, stack: Option<i32>) -> Option<Instruction> {
    Some(Instruction { length: 0, kind, writes, stack, is_short: false })
}

/// One that writes these registers, and does nothing else of interest.
fn writing(writes: Registers) -> Option<Instruction> {
    // To write the stack pointer in any other way than those that are known leaves it unknown.
    let stack = (!writes.meets(Registers::one(RSP))).then_some(0);
    instruction(Kind::Other, Some(Registers(writes.0 & !Registers::one(RSP).0)), stack)
}

/// One about whose effects nothing is known.
fn opaque() -> Option<Instruction> {
    instruction(Kind::Other, None, None)
}

fn jump(kind: Kind) -> Option<Instruction> {
    instruction(kind, Some(Registers::NONE), Some(0))
}

fn modrm(at: &mut Cursor<'_>, prefixes: Prefixes) -> Option<ModRm> {
    let byte = at.byte()?;
    let (mode, low) = (byte >> 6, byte & 7);
    let mut read = ModRm {
        is_register: mode == 3,
        reg: (byte >> 3 & 7) | prefixes.r,
        extension: byte >> 3 & 7,
        rm: low | prefixes.b,
        relative: None,
        displacement: 0,
    };
    if read.is_register {
        return Some(read);
    }
    let mut base = low;
    if low == 4 {
        base = at.byte()? & 7;
        read.rm = base | prefixes.b;
    }
    match (mode, base) {
        (0, 5) if low == 4 => read.displacement = at.i32()?,
        (0, 5) => read.relative = Some(at.i32()?),
        (1, _) => read.displacement = at.i8()?,
        (2, _) => read.displacement = at.i32()?,
        _ => {}
    }
    Some(read)
}

impl ModRm {
    /// The register that an instruction writes whose target is the operand.
    fn target(self) -> Registers {
        if self.is_register { self.narrow(self.rm) } else { Registers::NONE }
    }

    /// The same, of an instruction whose opcode is even where its operands have 8 bits.
    fn sized(self, opcode: u8) -> Registers {
        if opcode & 1 == 0 { self.target() } else { wide(self.is_register, self.rm) }
    }

    fn source(self) -> Registers {
        self.narrow(self.reg)
    }

    /// Without REX, the numbers 4 to 7 of operands of 8 bits are the second bytes of the first four registers.
    fn narrow(self, number: u8) -> Registers {
        Registers::one(number).and(if (4..8).contains(&number) {
            Registers::one(number & 3)
        } else {
            Registers::NONE
        })
    }
}

/// Bytes of a constant as long as the operands, 8 of which have 4.
fn full(prefixes: Prefixes) -> usize {
    if prefixes.short && !prefixes.w { 2 } else { 4 }
}

fn one_byte(at: &mut Cursor<'_>, prefixes: Prefixes, opcode: u8) -> Option<Instruction> {
    let low = (opcode & 7) | prefixes.b;
    let accumulator = Registers::one(0);
    match opcode {
        0x00..=0x3f => {
            let is_compare = opcode >> 3 == 7;
            let keep = |writes| writing(if is_compare { Registers::NONE } else { writes });
            match opcode & 7 {
                0 => modrm(at, prefixes).and_then(|operands| keep(operands.target())),
                1 => modrm(at, prefixes).and_then(|operands| keep(wide(operands.is_register, operands.rm))),
                2 => modrm(at, prefixes).and_then(|operands| keep(operands.source())),
                3 => modrm(at, prefixes).and_then(|operands| keep(Registers::one(operands.reg))),
                4 => at.skip(1).and_then(|()| keep(accumulator)),
                5 => at.skip(full(prefixes)).and_then(|()| keep(accumulator)),
                _ => None,
            }
        }
        // The kernel emulates those without prefix, and those with REX.B alone.
        0x50..=0x57 => {
            let is_plain = !prefixes.short && !prefixes.w && prefixes.r == 0;
            instruction(if is_plain { Kind::Push } else { Kind::Other }, Some(Registers::NONE), Some(8))
        }
        0x58..=0x5f => instruction(
            Kind::Pop(low),
            Some(Registers(Registers::one(low).0 & !Registers::one(RSP).0)),
            (low != RSP).then_some(-8),
        ),
        0x63 => modrm(at, prefixes).and_then(|operands| writing(Registers::one(operands.reg))),
        0x68 if full(prefixes) == 2 => at.skip(2).and_then(|()| opaque()),
        0x68 => instruction(Kind::PushConstant(at.i32()?), Some(Registers::NONE), Some(8)),
        0x6a => instruction(Kind::PushConstant(at.i8()?), Some(Registers::NONE), Some(8)),
        0x69 => {
            let operands = modrm(at, prefixes)?;
            at.skip(full(prefixes))?;
            writing(Registers::one(operands.reg))
        }
        0x6b => {
            let operands = modrm(at, prefixes)?;
            at.skip(1)?;
            writing(Registers::one(operands.reg))
        }
        0x70..=0x7f => jump(Kind::JumpIf(at.i8()?)),
        0x80 | 0x81 | 0x83 => {
            let operands = modrm(at, prefixes)?;
            let constant = match opcode {
                0x81 if full(prefixes) == 2 => {
                    at.skip(2)?;
                    None
                }
                0x81 => Some(at.i32()?),
                _ => Some(at.i8()?),
            };
            // The smallest number is not to be negated.
            let constant = constant.filter(|constant| constant.unsigned_abs() < 1 << 20);
            match operands.extension {
                7 => writing(Registers::NONE),
                // add and sub of the stack pointer
                0 | 5 if operands.is_register && operands.rm == RSP && prefixes.w && opcode != 0x80 => {
                    let lowers = if operands.extension == 5 { 1 } else { -1 };
                    instruction(
                        Kind::Other,
                        Some(Registers::NONE),
                        constant.map(|constant| constant * lowers),
                    )
                }
                _ if opcode == 0x80 => writing(operands.target()),
                _ => writing(wide(operands.is_register, operands.rm)),
            }
        }
        0x84 | 0x85 => modrm(at, prefixes).and_then(|_| writing(Registers::NONE)),
        0x86 => modrm(at, prefixes).and_then(|operands| writing(operands.target().and(operands.source()))),
        0x87 => modrm(at, prefixes).and_then(|operands| {
            writing(wide(operands.is_register, operands.rm).and(Registers::one(operands.reg)))
        }),
        0x88 => modrm(at, prefixes).and_then(|operands| writing(operands.target())),
        0x89 => modrm(at, prefixes).and_then(|operands| writing(wide(operands.is_register, operands.rm))),
        0x8a => modrm(at, prefixes).and_then(|operands| writing(operands.source())),
        0x8b => modrm(at, prefixes).and_then(|operands| writing(Registers::one(operands.reg))),
        0x8d => lea(at, prefixes),
        0x8c | 0x8e => modrm(at, prefixes).and_then(|_| opaque()),
        // With another extension it is a prefix: XOP, of some processors of AMD.
        0x8f => modrm(at, prefixes).filter(|operands| operands.extension == 0).and_then(|_| opaque()),
        0x90 if prefixes.b == 0 => instruction(Kind::Nop, Some(Registers::NONE), Some(0)),
        0x90..=0x97 => writing(accumulator.and(Registers::one(low))),
        0x98 => writing(accumulator),
        0x99 => writing(Registers::one(2)),
        0x9b..=0x9f => opaque(),
        0xa0..=0xa3 => at.skip(if prefixes.address { 4 } else { 8 }).and_then(|()| writing(accumulator)),
        0xa8 => at.skip(1).and_then(|()| writing(Registers::NONE)),
        0xa9 => at.skip(full(prefixes)).and_then(|()| writing(Registers::NONE)),
        0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f => opaque(),
        0xb0..=0xb7 => {
            at.skip(1)?;
            writing(Registers::one(low).and(Registers::one(low & 3)))
        }
        0xb8..=0xbf if prefixes.w => at.skip(8).and_then(|()| writing(Registers::one(low))),
        0xb8..=0xbf if prefixes.short => at.skip(2).and_then(|()| writing(Registers::one(low))),
        0xb8..=0xbf => {
            let constant = at.i32()?.cast_unsigned();
            Some(Instruction { kind: Kind::Constant(low, constant), ..writing(Registers::one(low))? })
        }
        0xc0 | 0xc1 => {
            let operands = modrm(at, prefixes)?;
            at.skip(1)?;
            writing(operands.sized(opcode))
        }
        0xd0..=0xd3 => modrm(at, prefixes).and_then(|operands| writing(operands.sized(opcode))),
        0xc2 => at.skip(2).and_then(|()| instruction(Kind::Return, Some(Registers::NONE), None)),
        0xc3 => instruction(Kind::Return, Some(Registers::NONE), None),
        0xc6 => {
            let operands = modrm(at, prefixes)?;
            at.skip(1)?;
            writing(operands.target())
        }
        0xc7 => {
            let operands = modrm(at, prefixes)?;
            if full(prefixes) == 2 {
                at.skip(2)?;
                return writing(wide(operands.is_register, operands.rm));
            }
            let constant = at.i32()?.cast_unsigned();
            let written = writing(wide(operands.is_register, operands.rm))?;
            let kind = if operands.is_register { Kind::Constant(operands.rm, constant) } else { Kind::Other };
            Some(Instruction { kind, ..written })
        }
        0xc8 => at.skip(3).and_then(|()| opaque()),
        0xc9 => opaque(),
        0xcc => instruction(Kind::Breakpoint, None, None),
        0xcd => at.skip(1).and_then(|()| opaque()),
        0xd7 => opaque(),
        0xd8..=0xdf => modrm(at, prefixes).and_then(|_| opaque()),
        0xe0..=0xe3 => at.skip(1).and_then(|()| opaque()),
        0xe8 => jump(Kind::Call(at.i32()?)),
        0xe9 => jump(Kind::Jump(at.i32()?)),
        0xeb => jump(Kind::Jump(at.i8()?)),
        0xf4 | 0xf5 | 0xf8..=0xfd => opaque(),
        0xf6 | 0xf7 => {
            let operands = modrm(at, prefixes)?;
            match operands.extension {
                0 | 1 => {
                    at.skip(if opcode == 0xf6 { 1 } else { full(prefixes) })?;
                    writing(Registers::NONE)
                }
                2 | 3 => writing(operands.sized(opcode)),
                _ => writing(accumulator.and(Registers::one(2))),
            }
        }
        0xfe => modrm(at, prefixes).and_then(|operands| writing(operands.target())),
        0xff => {
            let operands = modrm(at, prefixes)?;
            match (operands.extension, operands.relative) {
                (0 | 1, _) => writing(wide(operands.is_register, operands.rm)),
                (4, Some(relative)) => instruction(Kind::JumpThrough(relative), None, None),
                (2 | 4, _) => instruction(Kind::Indirect, None, None),
                (6, _) => instruction(Kind::Other, Some(Registers::NONE), Some(8)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The register of an operand of more than 8 bits, where it is one.
fn wide(is_register: bool, number: u8) -> Registers {
    if is_register { Registers::one(number) } else { Registers::NONE }
}

fn lea(at: &mut Cursor<'_>, prefixes: Prefixes) -> Option<Instruction> {
    let operands = modrm(at, prefixes)?;
    if operands.is_register {
        return None;
    }
    let written = writing(Registers::one(operands.reg))?;
    Some(match operands.relative {
        Some(relative) if prefixes.w => Instruction { kind: Kind::Lea(operands.reg, relative), ..written },
        // lea -n(%rsp), %rsp: the index, of which nothing is known here, is none where the base is in the same byte alone.
        _ => written,
    })
}

fn two_bytes(at: &mut Cursor<'_>, prefixes: Prefixes) -> Option<Instruction> {
    let opcode = at.byte()?;
    match opcode {
        0x05 | 0x06 | 0x08 | 0x09 | 0x0b | 0x30..=0x35 | 0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa => opaque(),
        0xc8..=0xcf => writing(Registers::one((opcode & 7) | prefixes.b)),
        0x38 => {
            at.skip(1)?;
            modrm(at, prefixes).and_then(|_| opaque())
        }
        0x3a => {
            at.skip(1)?;
            modrm(at, prefixes)?;
            at.skip(1).and_then(|()| opaque())
        }
        0x80..=0x8f => jump(Kind::JumpIf(at.i32()?)),
        // Hints and nops, endbr64 among them; moves and arithmetic of vector registers.
        0x0d | 0x18..=0x1f | 0x10..=0x17 | 0x28 | 0x29 | 0x51..=0x6f | 0x7f | 0xd6 | 0xef | 0x2e | 0x2f => {
            modrm(at, prefixes).and_then(|_| writing(Registers::NONE))
        }
        0x40..=0x4f | 0xaf | 0xb6 | 0xb7 | 0xbe | 0xbf => {
            modrm(at, prefixes).and_then(|operands| writing(Registers::one(operands.reg)))
        }
        0x7e => modrm(at, prefixes).and_then(|operands| writing(wide(operands.is_register, operands.rm))),
        0x90..=0x9f => modrm(at, prefixes).and_then(|operands| writing(operands.target())),
        0xa3 => modrm(at, prefixes).and_then(|_| writing(Registers::NONE)),
        0xba => {
            let operands = modrm(at, prefixes)?;
            at.skip(1)?;
            writing(if operands.extension == 4 { Registers::NONE } else { operands.target() })
        }
        0xa4 | 0xac | 0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => {
            modrm(at, prefixes)?;
            at.skip(1).and_then(|()| opaque())
        }
        0x0f => None,
        0x00..=0x03 | 0x20..=0x23 | 0x2a..=0x2d | 0x50 | 0x74..=0x76 | 0x78..=0x7d => {
            modrm(at, prefixes).and_then(|_| opaque())
        }
        0xa5 | 0xab | 0xad | 0xae | 0xb0..=0xb5 | 0xb8..=0xbd | 0xc0 | 0xc1 | 0xc3 | 0xc7 | 0xd0..=0xff => {
            modrm(at, prefixes).and_then(|_| opaque())
        }
        _ => None,
    }
}

/// Instructions with a VEX or EVEX prefix: of their effects nothing is known but that moves of vector registers write no others.
fn vector(at: &mut Cursor<'_>, prefixes: Prefixes, map: u8) -> Option<Instruction> {
    let opcode = at.byte()?;
    if (map, opcode) == (1, 0x77) {
        return writing(Registers::NONE);
    }
    modrm(at, prefixes)?;
    let has_constant = map == 3 || map == 1 && matches!(opcode, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6);
    match map {
        1..=3 | 5 | 6 => {}
        _ => return None,
    }
    if has_constant {
        at.skip(1)?;
    }
    match (map, opcode) {
        (1, 0x10 | 0x11 | 0x28 | 0x29 | 0x57 | 0x6f | 0x7f | 0xef) => writing(Registers::NONE),
        _ => opaque(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.split_ascii_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    fn lengths_are_those_of_the_processor() {
        // One instruction a line, as `objdump` prints it.
        let cases = [
            "55",
            "41 57",
            "66 41 50",
            "c3",
            "f3 c3",
            "cc",
            "90",
            "66 90",
            "f3 0f 1e fa",
            "0f 1f 40 00",
            "0f 1f 84 00 00 00 00 00",
            "66 2e 0f 1f 84 00 00 00 00 00",
            "48 83 ec 18",
            "48 81 ec 88 00 00 00",
            "64 48 8b 04 25 28 00 00 00",
            "48 89 44 24 08",
            "31 c0",
            "85 d2",
            "78 2f",
            "0f 88 97 03 00 00",
            "e8 00 00 00 00",
            "66 66 48 e8 00 00 00 00",
            "e9 00 00 00 00",
            "eb 10",
            "ff 15 00 00 00 00",
            "ff 25 00 00 00 00",
            "f2 ff 25 00 00 00 00",
            "41 ff d4",
            "ff 60 08",
            "48 8d 05 00 00 00 00",
            "4c 8d 54 24 08",
            "48 8d 84 c8 00 00 00 00",
            "8b 04 85 00 00 00 00",
            "b8 01 00 00 00",
            "66 b8 01 00",
            "48 b8 01 02 03 04 05 06 07 08",
            "48 c7 c0 01 00 00 00",
            "66 c7 00 01 00",
            "c6 04 24 01",
            "80 bf b8 06 00 00 00",
            "66 81 38 01 02",
            "81 38 01 02 03 04",
            "83 f8 01",
            "f6 47 44 01",
            "f7 c7 01 00 00 00",
            "66 f7 c7 01 00",
            "f7 d8",
            "48 f7 f1",
            "0f b6 07",
            "0f af c1",
            "69 c0 01 00 00 00",
            "66 69 c0 01 00",
            "6b c0 01",
            "0f 44 c1",
            "0f 95 c0",
            "48 63 d2",
            "48 98",
            "48 99",
            "c1 e0 04",
            "d1 e0",
            "d3 e0",
            "0f ba e0 05",
            "0f a4 c2 05",
            "0f 10 07",
            "f3 0f 6f 07",
            "66 0f 6f 07",
            "66 0f 70 c0 1b",
            "66 0f 38 00 c1",
            "66 0f 3a 0f c1 08",
            "66 0f 38 dc c1",
            "66 0f 3a 44 c1 11",
            "66 0f 3a 62 c1 11",
            "c5 f8 77",
            "c5 fe 6f 07",
            "c5 f9 70 c0 1b",
            "c4 e2 79 00 c1",
            "c4 e3 79 0f c1 08",
            "c4 e3 7d 46 c1 20",
            "62 f1 7c 48 10 07",
            "62 f3 75 48 44 c1 11",
            "62 f2 7d 48 dc 47 01",
            "f0 48 0f b1 0f",
            "f0 ff 07",
            "0f 0b",
            "0f 05",
            "0f a2",
            "0f 01 d0",
            "0f ae f0",
            "68 01 02 03 04",
            "6a 01",
            "ff 77 08",
            "8f 47 08",
            "a8 01",
            "a9 01 02 03 04",
            "48 a9 01 02 03 04",
            "04 01",
            "05 01 02 03 04",
            "66 05 01 02",
            "d9 07",
            "9b",
            "f4",
            "c9",
            "48 0f c7 0f",
            "0f c8",
            "48 a1 01 02 03 04 05 06 07 08",
            "48 ab",
            "f3 48 a5",
            "e3 10",
            "c8 10 00 00",
            "87 07",
            "66 87 c0",
        ];
        for case in cases {
            let mut code = bytes(case);
            let length = code.len();
            // Neither are bytes that follow counted, nor bytes that are missing made up.
            code.extend([0x24; MAX_LENGTH]);
            assert_eq!(decode(&code).map(|found| usize::from(found.length)), Some(length), "{case}");
            assert_eq!(decode(&code[..length - 1]), None, "{case}, cut off");
        }
    }

    #[test]
    fn invalid_instructions_are_not_decoded() {
        for case in [
            "06",
            "0e",
            "27",
            "37",
            "60",
            "61",
            "82 00 00",
            "9a",
            "ce",
            "d4 00",
            "ea",
            "8d c0",
            "ff f8",
            "8f e8 78 c2",
            "0f 04",
            "0f 0a",
            "",
        ] {
            let mut code = bytes(case);
            code.resize(if case.is_empty() { 0 } else { 16 }, 0);
            assert_eq!(decode(&code), None, "{case}");
        }
        // Prefixes without end.
        assert_eq!(decode(&[0x66; 64]), None);
    }

    #[test]
    fn written_registers_are_known_or_all_are_assumed() {
        let (ax, cx, dx, si, di) = (1, 2, 4, 1 << 6, 1 << 7);
        let cases = [
            ("48 89 fb", 1 << 3),
            ("89 07", 0),
            ("8b 07", ax),
            ("48 8b 3f", di),
            ("31 f6", si),
            ("39 f7", 0),
            ("3b f7", 0),
            ("85 d2", 0),
            ("41 89 d0", 1 << 8),
            ("48 63 d2", dx),
            ("48 99", dx),
            ("48 98", ax),
            ("48 8d 7f 08", di),
            ("ba 01 00 00 00", dx),
            ("41 b8 01 00 00 00", 1 << 8),
            ("0f b6 d2", dx),
            ("0f 44 f0", si),
            ("0f 95 c2", dx),
            ("83 ff 01", 0),
            ("83 c7 01", di),
            ("f7 e1", ax | dx),
            ("f7 d7", di),
            ("c1 e7 02", di),
            ("48 87 fe", si | di),
            ("5f", di),
            ("04 01", ax),
            ("3c 01", 0),
            // dh is the second byte of rdx.
            ("b6 01", dx | 1 << 6),
            ("40 b6 01", dx | si),
            ("88 d6", dx | si),
            ("0f 10 07", 0),
            ("0f 6f 07", 0),
            ("66 0f 7e c7", di),
            ("0f af d1", dx),
            ("fe c1", cx),
            ("ff c1", cx),
            ("ff 31", 0),
            ("6a 01", 0),
            ("a8 01", 0),
            ("0f ba e2 01", 0),
        ];
        for (case, expected) in cases {
            assert_eq!(decode(&bytes(case)).unwrap().writes, Some(Registers(expected)), "{case}");
        }
        for case in
            ["0f a2", "0f 05", "f3 48 a5", "66 0f 38 00 c1", "c4 e2 79 00 c1", "c9", "d9 07", "0f c0 07"]
        {
            assert_eq!(decode(&bytes(case)).unwrap().writes, None, "{case}");
        }
    }

    #[test]
    fn stores_are_those_beyond_the_stack() {
        let cases = [
            ("48 89 03", true),
            ("48 01 88 80 00 00 00", true),
            ("c7 80 c4 00 00 00 00 00 00 00", true),
            ("66 89 43 10", true),
            ("83 43 10 01", true),
            ("0f 11 03", true),
            ("48 83 7b 10 00", false),
            ("48 8b 03", false),
            ("48 39 03", false),
            ("48 89 45 d0", false),
            ("48 89 44 24 08", false),
            ("48 89 d8", false),
            ("55", false),
            ("e8 00 00 00 00", false),
            ("", false),
        ];
        for (case, expected) in cases {
            assert_eq!(stores(&bytes(case)), expected, "{case}");
        }
    }

    #[test]
    fn targets_and_constants_are_read() {
        let cases = [
            ("78 2f", Kind::JumpIf(0x2f)),
            ("0f 84 97 03 00 00", Kind::JumpIf(0x397)),
            ("eb fe", Kind::Jump(-2)),
            ("e9 66 9c ff ff", Kind::Jump(-0x639a)),
            ("e8 00 01 00 00", Kind::Call(0x100)),
            ("ff 25 10 00 00 00", Kind::JumpThrough(0x10)),
            ("48 8d 0d 00 01 00 00", Kind::Lea(1, 0x100)),
            ("4c 8d 05 00 01 00 00", Kind::Lea(8, 0x100)),
            ("ba e2 00 00 00", Kind::Constant(2, 226)),
            ("48 c7 c2 e2 00 00 00", Kind::Constant(2, 226)),
            ("ff d0", Kind::Indirect),
            ("ff 60 08", Kind::Indirect),
            ("6a 1e", Kind::PushConstant(0x1e)),
            ("5a", Kind::Pop(2)),
            ("41 58", Kind::Pop(8)),
            ("c3", Kind::Return),
            ("cc", Kind::Breakpoint),
        ];
        for (case, kind) in cases {
            assert_eq!(decode(&bytes(case)).unwrap().kind, kind, "{case}");
        }
    }
}
