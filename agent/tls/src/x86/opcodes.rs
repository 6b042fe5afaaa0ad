//! The opcode maps: how long each instruction is, and what it writes.

use super::{
    Cursor, Instruction, Kind, Prefixes, RSP, Registers, instruction, jump, modrm, opaque, wide, writing,
};

/// Bytes of a constant as long as the operands, 8 of which have 4.
fn full(prefixes: Prefixes) -> usize {
    if prefixes.short && !prefixes.w { 2 } else { 4 }
}

pub(super) fn one_byte(at: &mut Cursor<'_>, prefixes: Prefixes, opcode: u8) -> Option<Instruction> {
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

pub(super) fn two_bytes(at: &mut Cursor<'_>, prefixes: Prefixes) -> Option<Instruction> {
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
pub(super) fn vector(at: &mut Cursor<'_>, prefixes: Prefixes, map: u8) -> Option<Instruction> {
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
