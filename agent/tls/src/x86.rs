//! Lengths and effects of x86-64 instructions, as far as the search needs them: all lengths that compilers emit, and for the few
//! instructions of which functions' beginnings are made, the general registers that they write.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 (format) and appendix A (opcode maps).
//! What is not in the tables is not decoded. A wrong length would put a breakpoint into the middle of an instruction, and the process
//! would crash: nothing is guessed.

mod opcodes;

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
    /// A call or jump to an address in a register or in memory.
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
        0x0f => opcodes::two_bytes(&mut at, prefixes),
        0xc5 if !prefixes.has_rex => {
            at.skip(1)?;
            opcodes::vector(&mut at, prefixes, 1)
        }
        0xc4 if !prefixes.has_rex => {
            let map = at.byte()? & 0x1f;
            at.skip(1)?;
            opcodes::vector(&mut at, prefixes, map)
        }
        0x62 if !prefixes.has_rex => {
            let map = at.byte()? & 7;
            at.skip(2)?;
            opcodes::vector(&mut at, prefixes, map)
        }
        opcode => opcodes::one_byte(&mut at, prefixes, opcode),
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

/// One with unknown effects.
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
    /// The register that is written where the operand is the target.
    fn target(self) -> Registers {
        if self.is_register { self.narrow(self.rm) } else { Registers::NONE }
    }

    /// The same, of an instruction with an opcode that is even where its operands have 8 bits.
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

/// The register of an operand of more than 8 bits, where it is one.
fn wide(is_register: bool, number: u8) -> Registers {
    if is_register { Registers::one(number) } else { Registers::NONE }
}

#[cfg(test)]
mod tests;
