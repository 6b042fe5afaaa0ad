//! What is under way, on a terminal's standard error: one line that is written over.

use std::io::{IsTerminal as _, stderr};

use crate::output::{print_error, print_progress};

/// Back to the beginning of the line, and nothing more on it.
const CLEAR: &str = "\r\x1b[K";

/// Shows `text`, which is clean, until the next one; nothing where standard error is no terminal.
pub fn status(text: &str) {
    if stderr().is_terminal() {
        print_progress(format!("{CLEAR}{text}"));
    }
}

/// Prints a line that stays.
pub fn line(text: &str) {
    status("");
    print_error(text);
}
