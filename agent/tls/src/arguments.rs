//! Where a function's arguments are when it is entered.

use crate::{
    facts::{Argument, Location, Machine, Register, Value},
    prologue::Convention,
    x86::Registers,
};

/// The registers of arguments by the System V ABI for x86-64, with their numbers in the encoding of instructions.
const C_REGISTERS: [(Register, u8); 6] = [
    (Register::Rdi, 7),
    (Register::Rsi, 6),
    (Register::Rdx, 2),
    (Register::Rcx, 1),
    (Register::R8, 8),
    (Register::R9, 9),
];
/// Those of Go, since 1.17 (`src/cmd/compile/abi-internal.md`).
const GO_REGISTERS: [(Register, u8); 6] = [
    (Register::Rax, 0),
    (Register::Rbx, 3),
    (Register::Rcx, 1),
    (Register::Rdi, 7),
    (Register::Rsi, 6),
    (Register::R8, 8),
];
/// Those of both on AArch64.
const ARM_REGISTERS: [Register; 8] = [
    Register::X0,
    Register::X1,
    Register::X2,
    Register::X3,
    Register::X4,
    Register::X5,
    Register::X6,
    Register::X7,
];

/// The registers of arguments on x86-64; none where they are on the stack.
fn registers(convention: Convention) -> &'static [(Register, u8)] {
    match convention {
        Convention::C => &C_REGISTERS,
        Convention::Go => &GO_REGISTERS,
        Convention::GoOnStack => &[],
    }
}

/// Where the arguments are at the entry.
pub(crate) fn arguments((values, convention): (&[Value], Convention), machine: Machine) -> Vec<Argument> {
    let place = |(at, value): (usize, &Value)| {
        let register = match machine {
            _ if convention == Convention::GoOnStack => None,
            Machine::X86_64 => registers(convention).get(at).map(|(register, _)| *register),
            Machine::Aarch64 => ARM_REGISTERS.get(at).copied(),
        };
        // The first on the stack is right above the return address.
        let on_stack = |at: usize| Some(Location::Stack(8 + 8 * u16::try_from(at).ok()?));
        let at = match register {
            Some(register) => Location::Register(register),
            None if convention == Convention::GoOnStack => on_stack(at)?,
            None if machine == Machine::X86_64 => on_stack(at.checked_sub(C_REGISTERS.len())?)?,
            None => return None,
        };
        (*value != Value::Ignored).then_some(Argument { value: *value, at })
    };
    values.iter().enumerate().filter_map(place).collect()
}

/// The registers that must be as the caller left them.
pub(crate) fn kept((values, convention): (&[Value], Convention)) -> Registers {
    let values = values.iter().zip(registers(convention)).filter(|(value, _)| **value != Value::Ignored);
    values.map(|(_, (_, number))| Registers::one(*number)).fold(Registers::NONE, Registers::and)
}

/// The register that an argument of C is in.
pub(crate) fn register(argument: &Argument) -> Registers {
    let Location::Register(register) = argument.at else { return Registers::NONE };
    let number = C_REGISTERS.iter().find(|(known, _)| *known == register).map(|(_, number)| *number);
    number.map_or(Registers::NONE, Registers::one)
}
