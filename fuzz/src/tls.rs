//! Any bytes as an ELF file: the search ends, and every probe lies in the file. Text is a table of signatures as well.

use std::sync::OnceLock;

use mcpwarden_tls::{Image, Signatures, locate};

/// Runs one input.
pub fn run(input: &[u8]) {
    static SIGNATURES: OnceLock<Signatures> = OnceLock::new();
    let signatures = SIGNATURES.get_or_init(|| Signatures::built_in().expect("the built-in table is valid"));
    if let Ok(text) = std::str::from_utf8(input) {
        _ = Signatures::with(text);
    }
    let Ok(located) = locate(&mut Image::of_bytes(input), signatures) else { return };
    let length = input.len() as u64;
    for function in located.stacks.iter().flat_map(|stack| &stack.functions) {
        assert!(function.offset < length && function.probe.offset < length, "{function:?}");
        assert!(function.probe.offset >= function.offset, "{function:?}");
        assert!(
            function.returns.iter().flatten().all(|at| (function.offset..length).contains(at)),
            "{function:?}"
        );
    }
}
