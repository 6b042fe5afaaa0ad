use super::fixture::{BASE, CODE, DATA, Fixture, located};
use crate::{Library, Location, Register, Role, Step, Value, Way, Why};

/// A layout of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    V1_16,
    V1_18,
    V1_20,
}

const NAMES: [&str; 4] = ["main.main", "crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write", "runtime.end"];

/// cmp 0x10(%r14), %rsp; jbe; push %rbp; ret; ret
const FUNCTION: [u8; 64] = {
    let mut code = [0xcc; 64];
    let begin = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x10, 0x55, 0xc3, 0x90, 0xc3];
    let mut at = 0;
    while at < begin.len() {
        code[at] = begin[at];
        at += 1;
    }
    code
};

fn table(layout: Layout, names: &[&str], text: u64) -> Vec<u8> {
    let mut texts = vec![0];
    let mut places = Vec::new();
    for name in names {
        places.push(u32::try_from(texts.len()).unwrap());
        texts.extend([name.as_bytes(), b"\0"].concat());
    }
    texts.resize(texts.len().next_multiple_of(8), 0);
    let (magic, words) = match layout {
        Layout::V1_16 => (0xfa, 7),
        Layout::V1_18 => (0xf0, 8),
        Layout::V1_20 => (0xf1, 8),
    };
    let (names_at, units) = (8 + 8 * words, 8 + 8 * words + texts.len());
    let functions = units + 8;
    let mut numbers = vec![names.len() as u64, 1];
    if layout != Layout::V1_16 {
        numbers.push(text);
    }
    numbers.extend([names_at, units, units, units, functions].map(|at| at as u64));
    let mut table = vec![magic, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    table.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    table.extend(texts);
    table.resize(functions, 0);
    let width = if layout == Layout::V1_16 { 8 } else { 4 };
    let number = |value: u64| value.to_le_bytes()[..width].to_vec();
    let details = (2 * names.len() + 1) * width;
    let entry =
        |index: usize| 64 * index as u64 + if layout == Layout::V1_16 { BASE + CODE as u64 } else { 0 };
    for index in 0..names.len() {
        table.extend(number(entry(index)));
        table.extend(number((details + index * (width + 4)) as u64));
    }
    table.extend(number(entry(names.len())));
    for (index, place) in places.iter().enumerate() {
        table.extend(number(entry(index)));
        table.extend(place.to_le_bytes());
    }
    table
}

fn program(layout: Layout, names: &[&str], version: &str, has_sections: bool, text: u64) -> Fixture {
    let mut data = table(layout, names, text);
    let bytes = data.len();
    data.resize(data.len().next_multiple_of(16), 0);
    let info = data.len();
    data.extend(b"\xff Go buildinf:\x08\x02");
    data.resize(info + 32, 0);
    data.push(u8::try_from(version.len()).unwrap());
    data.extend(version.as_bytes());
    let code = names.iter().flat_map(|_| FUNCTION).collect();
    let sections = vec![(".gopclntab", DATA, bytes), (".go.buildinfo", DATA + info, data.len() - info)];
    Fixture { code, data, has_sections, sections, ..Fixture::default() }
}

#[test]
fn functions_of_go_are_found_in_every_layout() {
    let text = BASE + CODE as u64;
    for (layout, version) in
        [(Layout::V1_16, "go1.17.13"), (Layout::V1_18, "go1.19.8"), (Layout::V1_20, "go1.25.1")]
    {
        for has_sections in [true, false] {
            let located = program(layout, &NAMES, version, has_sections, text).locate();
            let case = format!("{layout:?} {has_sections} {located:#?}");
            assert_eq!((located.stacks.len(), located.unknown.len()), (1, 0), "{case}");
            let stack = &located.stacks[0];
            assert_eq!((stack.library, stack.version.as_deref()), (Library::Go, Some(version)), "{case}");
            let places: Vec<_> = stack
                .functions
                .iter()
                .map(|f| (f.role, f.way, f.offset - CODE as u64, f.probe.offset - f.offset, f.probe.step))
                .collect();
            assert_eq!(
                places,
                [
                    (Role::Write, Way::GoTable, 128, 6, Step::Emulated),
                    (Role::Read, Way::GoTable, 64, 6, Step::Emulated)
                ],
                "{case}"
            );
            let returns = stack.functions[1].returns.as_deref();
            assert_eq!(returns, Some([CODE as u64 + 64 + 7, CODE as u64 + 64 + 9].as_slice()), "{case}");
            let buffer = stack.functions[1].arguments[1];
            assert_eq!(
                (buffer.value, buffer.at),
                (Value::Buffer, Location::Register(Register::Rbx)),
                "{case}"
            );
        }
    }
}

#[test]
fn arguments_of_old_go_are_on_the_stack() {
    let located = program(Layout::V1_16, &NAMES, "go1.16.15", true, 0).locate();
    let places: Vec<_> =
        located.stacks[0].functions[0].arguments.iter().map(|argument| argument.at).collect();
    assert_eq!(places, [8, 16, 24].map(Location::Stack));
}

#[test]
fn text_of_a_program_that_is_loaded_anywhere_is_its_section() {
    let located = program(Layout::V1_20, &NAMES, "go1.26", true, 0).locate();
    assert_eq!(located.stacks[0].functions.len(), 2);
    // Without sections it is not known.
    let stripped = program(Layout::V1_20, &NAMES, "go1.26", false, 0).locate();
    assert_eq!(stripped.stacks, []);
}

#[test]
fn go_without_tls_has_none_and_go_with_other_methods_is_reported() {
    let without =
        program(Layout::V1_20, &["main.main", "runtime.end"], "go1.25.1", true, BASE + CODE as u64).locate();
    assert_eq!((without.stacks.len(), without.unknown.len()), (0, 0));
    let others = ["main.main", "crypto/tls.(*Conn).Handshake", "runtime.end"];
    let with = program(Layout::V1_20, &others, "go1.25.1", true, BASE + CODE as u64).locate();
    assert_eq!((with.unknown[0].library, &with.unknown[0].why), (Library::Go, &Why::NothingFits));
}

#[test]
fn table_that_lies_is_not_followed() {
    let whole = program(Layout::V1_20, &NAMES, "go1.25.1", true, BASE + CODE as u64).build();
    for word in 0..8 {
        for value in [0, 1, u64::from(u32::MAX), u64::MAX, u64::MAX / 16] {
            let mut file = whole.clone();
            let at = DATA + 8 + 8 * word;
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
            // Whatever it says: an answer, and no function outside of the code.
            if let Ok(located) = located(&file) {
                for function in located.stacks.iter().flat_map(|stack| &stack.functions) {
                    assert!(
                        (CODE as u64..file.len() as u64).contains(&function.offset),
                        "{word} {value:x} {function:?}"
                    );
                }
            }
        }
    }
}
