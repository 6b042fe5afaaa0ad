//! The words of a shell's line: as far as it takes to see which of them belong to an option.

use std::ops::Range;

/// Most words that are looked at: more than an argument that is kept has.
const MAX_WORDS: usize = 600;

/// One word.
pub(super) struct Word {
    /// Where it stands, quotation marks included.
    pub(super) range: Range<usize>,
    /// Without them.
    pub(super) text: String,
}

/// The commands of a line, each as its words, and up to where they are of it.
pub(super) fn commands(line: &str) -> (Vec<Vec<Word>>, usize) {
    let mut commands = vec![Vec::new()];
    let mut open: Option<Word> = None;
    let mut quote = None;
    let mut is_escaped = false;
    let mut words = 0;
    for (at, character) in line.char_indices() {
        let end = at + character.len_utf8();
        let is_break =
            quote.is_none() && !is_escaped && (character.is_whitespace() || ";|&()`".contains(character));
        if is_break {
            if let (Some(word), Some(command)) = (open.take(), commands.last_mut()) {
                command.push(word);
                words += 1;
            }
            if words >= MAX_WORDS {
                return (commands, at);
            }
            if !matches!(character, ' ' | '\t') && commands.last().is_some_and(|command| !command.is_empty())
            {
                commands.push(Vec::new());
            }
            continue;
        }
        let word = open.get_or_insert_with(|| Word { range: at..at, text: String::new() });
        word.range.end = end;
        match character {
            _ if is_escaped => {
                word.text.push(character);
                is_escaped = false;
            }
            '\\' if quote != Some('\'') => is_escaped = true,
            '"' | '\'' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            _ => word.text.push(character),
        }
    }
    if let (Some(word), Some(command)) = (open, commands.last_mut()) {
        command.push(word);
    }
    (commands, line.len())
}

/// A text as one word of a line, quoted where it has to be.
pub(super) fn quoted(text: &str) -> String {
    let is_special = |c: char| c.is_whitespace() || ";|&()`\"'".contains(c);
    if text.contains(is_special) { format!("'{}'", text.replace('\'', "'\\''")) } else { text.to_owned() }
}
