//! Terminal sequences in a text.

use super::super::structure::Structure;

/// Where the terminal sequence that begins at `at` ends (ECMA-48, 5.4 and 5.6).
pub(super) fn ansi_end(text: &str, at: usize, first: char) -> usize {
    let start = at + first.len_utf8();
    let rest = &text.as_bytes()[start..];
    let mut index = 0;
    if first == '\u{1b}' {
        match rest.first() {
            Some(b'[') => index = 1,
            // An operating system command lasts to the bell or to ESC \; no longer than one would be.
            Some(b']') => {
                let end = rest.iter().take(512).position(|&byte| byte == 7 || byte == 0x1b).unwrap_or(0);
                return start + end.max(1);
            }
            Some(0x20..=0x7e) => return start + 1,
            _ => return start,
        }
    }
    while rest.get(index).is_some_and(|byte| matches!(byte, 0x20..=0x3f)) {
        index += 1;
    }
    if rest.get(index).is_some_and(|byte| matches!(byte, 0x40..=0x7e)) {
        index += 1;
    }
    start + index
}

/// What a terminal sequence is: one of colours and the like, or one that has what follows not shown (SGR 8).
pub(super) fn ansi_kind(sequence: &str) -> Structure {
    let parameters =
        sequence.trim_start_matches(['\u{1b}', '\u{9b}', '[']).strip_suffix('m').unwrap_or_default();
    // The 8 of `38;2;8;…` is a colour.
    let coloured = parameters.split(';').any(|parameter| matches!(parameter, "38" | "48" | "58"));
    if !coloured && parameters.split(';').any(|parameter| matches!(parameter, "8" | "08")) {
        Structure::AnsiConceal
    } else {
        Structure::AnsiEscape
    }
}
