//! How much of the stack the programs take together with all that they call, as the verifier adds it up.
//!
//! Newer kernels give tracing programs a stack of their own for each call (6.13), and round up to 16 bytes instead of 32 (6.8): what
//! this machine's kernel loads, an older one may refuse.

use std::collections::{BTreeMap, HashMap};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

use crate::bytecode::OBJECT;

/// `MAX_BPF_STACK` (`linux/filter.h`), bytes.
const STACK_BYTES: u64 = 512;
/// What each call's part of it is rounded up to before 6.8 (`check_max_stack_depth_subprog`).
const ROUNDED_TO: u64 = 32;
/// The register that holds it, `BPF_REG_FP` (`linux/filter.h`).
const FRAME_POINTER: u8 = 10;
/// Bytes of one instruction (`struct bpf_insn`).
const INSTRUCTION: u64 = 8;

/// A call, `BPF_JMP | BPF_CALL`, and in its source register that it is one of another function of the program.
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;

/// A function: its section, and where it begins there.
type Place = (usize, u64);

/// A function, with what it takes and what it calls.
#[derive(Default)]
struct Function {
    name: String,
    bytes: u64,
    calls: Vec<Place>,
}

/// The lowest byte below the frame pointer that an instruction names: it reads or writes there, or adds a negative number to an
/// address, which is counted as if it were the frame pointer's.
fn below_frame(instruction: &[u8]) -> u64 {
    let [code, registers, offset @ .., a, b, c, d] = instruction else { return 0 };
    let (target, source) = (registers & 0xf, registers >> 4);
    let offset = i16::from_le_bytes([offset[0], offset[1]]);
    let immediate = i32::from_le_bytes([*a, *b, *c, *d]);
    // The classes LDX, ST and STX; and `BPF_ALU64 | BPF_ADD | BPF_K`.
    let lowest = match code & 0x07 {
        0x01 if source == FRAME_POINTER => offset.into(),
        0x02 | 0x03 if target == FRAME_POINTER => offset.into(),
        0x07 if *code == 0x07 && immediate >= -(STACK_BYTES as i32) => immediate,
        _ => 0,
    };
    u64::from(lowest.min(0).unsigned_abs())
}

/// All functions of the kernel half.
fn functions() -> BTreeMap<Place, Function> {
    let file = object::File::parse(&OBJECT.0).expect("the kernel half is an ELF object");
    let mut functions = BTreeMap::<Place, Function>::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
        let section = symbol.section_index().expect("a function is in a section");
        let code = file.section_by_index(section).unwrap().data().unwrap();
        let begins = symbol.address() as usize;
        let code = &code[begins..begins + symbol.size() as usize];
        let bytes = code.chunks_exact(INSTRUCTION as usize).map(below_frame).max().unwrap_or(0);
        let function = Function { name: symbol.name().unwrap().to_owned(), bytes, calls: Vec::new() };
        functions.insert((section.0, symbol.address()), function);
    }
    for section in file.sections() {
        let Ok(code) = section.data() else { continue };
        let relocations: HashMap<u64, _> = section.relocations().collect();
        let own: Vec<Place> = functions
            .range((section.index().0, 0)..=(section.index().0, u64::MAX))
            .map(|(place, _)| *place)
            .collect();
        for (number, instruction) in code.chunks_exact(INSTRUCTION as usize).enumerate() {
            let at = number as u64 * INSTRUCTION;
            let Some(caller) = own.iter().rev().find(|(_, begins)| *begins <= at) else { continue };
            let immediate = i64::from(i32::from_le_bytes(instruction[4..].try_into().unwrap()));
            // A call counts instructions from the next one; what loads an address counts bytes.
            let counted = (immediate + 1) * INSTRUCTION as i64;
            let is_call = instruction[0] == CALL && instruction[1] >> 4 == PSEUDO_CALL;
            let called = match relocations.get(&at).map(|relocation| relocation.target()) {
                Some(RelocationTarget::Symbol(symbol)) => {
                    let symbol = file.symbol_by_index(symbol).unwrap();
                    let offset = match (is_call, symbol.kind()) {
                        (true, SymbolKind::Section) => counted,
                        (false, SymbolKind::Section) => immediate,
                        _ => 0,
                    };
                    symbol
                        .section_index()
                        .map(|index| (index.0, symbol.address().wrapping_add_signed(offset)))
                }
                // The linker has put the distance there where both are in one section.
                None if is_call => Some((section.index().0, at.wrapping_add_signed(counted))),
                _ => None,
            };
            if let Some(called) = called.filter(|called| functions.contains_key(called)) {
                functions.get_mut(caller).unwrap().calls.push(called);
            }
        }
    }
    functions
}

/// What a function takes with the deepest of what it calls, and who that is.
fn deepest<'a>(
    place: Place,
    functions: &'a BTreeMap<Place, Function>,
    known: &mut HashMap<Place, (u64, Vec<&'a str>)>,
) -> (u64, Vec<&'a str>) {
    if let Some(known) = known.get(&place) {
        return known.clone();
    }
    let function = &functions[&place];
    let below = function.calls.iter().map(|called| deepest(*called, functions, known));
    let (bytes, mut names) = below.max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    names.insert(0, &function.name);
    let found = (bytes + function.bytes.max(1).next_multiple_of(ROUNDED_TO), names);
    known.insert(place, found.clone());
    found
}

#[test]
fn stack_of_every_program_fits_older_verifiers() {
    let functions = functions();
    let mut known = HashMap::new();
    let all: Vec<_> = functions.keys().map(|place| deepest(*place, &functions, &mut known)).collect();
    let calls = all.iter().map(|(_, names)| names.len()).max();
    assert!(all.len() > 60 && calls > Some(3), "{} functions, {calls:?} calls deep", all.len());
    let too_deep: Vec<_> = all.iter().filter(|(bytes, _)| *bytes > STACK_BYTES).collect();
    assert!(too_deep.is_empty(), "over {STACK_BYTES} bytes: {too_deep:#?}");
}
