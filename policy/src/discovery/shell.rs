//! The text of a shell, cut into the commands that it runs.
//!
//! Quotes and escapes are taken away, redirections, comments and reserved words are left out. Substitutions (`$NAME`,
//! `$(…)`, `` `…` ``) stay as they are written, since nobody knows what comes of them.

use std::iter::Peekable;
use std::str::Chars;

/// Commands of one text that are looked at.
const MAX_COMMANDS: usize = 64;
/// Words of one command that are looked at.
const MAX_WORDS: usize = 256;

/// Words in front of a command that belong to the shell's grammar (POSIX.1-2024 2.4; bash(1), fish(1)).
const RESERVED: &str = "if then else elif fi while until do done esac ! { } begin end and or not coproc";
/// Words that begin something that is no command at all.
const HEADS: &str = "for case select function";

/// The commands of a shell's text, in order, each as its words. `arguments` are those of the shell itself, behind the
/// text: `$0`, `$1`, … and `$@`.
pub(super) fn commands(text: &str, arguments: &[&str]) -> Vec<Vec<String>> {
    let mut lexer = Lexer {
        rest: text.chars().peekable(),
        commands: Vec::new(),
        words: Vec::new(),
        word: None,
        is_target: false,
    };
    lexer.run();
    let commands = lexer.commands.into_iter().filter_map(command);
    commands.map(|words| words.into_iter().flat_map(|word| expand(word, arguments)).collect()).collect()
}

/// The words of a text, as a shell cuts them, all commands joined.
pub fn words(text: &str) -> Vec<String> {
    commands(text, &[]).into_iter().flatten().collect()
}

/// A command without the grammar around it.
fn command(words: Vec<String>) -> Option<Vec<String>> {
    let is_reserved = |word: &String| RESERVED.split(' ').any(|one| one == word);
    let words: Vec<String> = words.into_iter().skip_while(is_reserved).collect();
    let first = words.first()?;
    (!HEADS.split(' ').any(|head| head == first)).then_some(words)
}

fn expand(word: String, arguments: &[&str]) -> Vec<String> {
    let own = |from: usize| arguments.iter().skip(from).map(|word| (*word).to_owned()).collect();
    match word.strip_prefix('$') {
        Some("@" | "*") => own(1),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let argument = digits.parse().ok().and_then(|at: usize| arguments.get(at));
            argument.map(|word| vec![(*word).to_owned()]).unwrap_or_default()
        }
        _ => vec![word],
    }
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// Whether the next word is the file of a redirection.
    is_target: bool,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                '\'' => self.quoted('\''),
                '"' => self.quoted('"'),
                '$' if self.rest.peek() == Some(&'\'') => {}
                '$' => self.substitution(),
                '`' => self.enclosed('`', '`'),
                '#' if self.word.is_none() => while self.rest.next_if(|next| *next != '\n').is_some() {},
                '&' if self.rest.peek() == Some(&'>') => self.end_word(),
                '<' | '>' => self.redirection(character),
                ';' | '&' | '|' | '(' | ')' | '\n' => self.end_command(),
                blank if blank.is_whitespace() => self.end_word(),
                other => self.push(other),
            }
            if self.commands.len() >= MAX_COMMANDS {
                return;
            }
        }
        self.end_command();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    /// Up to the next quotation mark; in double ones backslashes and substitutions keep their meaning.
    fn quoted(&mut self, mark: char) {
        self.word.get_or_insert_default();
        while let Some(character) = self.rest.next() {
            match character {
                _ if character == mark => return,
                '\\' if mark == '"' => {
                    let escaped = self.rest.next_if(|next| matches!(next, '"' | '\\' | '$' | '`' | '\n'));
                    match escaped {
                        Some('\n') => {}
                        other => self.push(other.unwrap_or('\\')),
                    }
                }
                '$' if mark == '"' => self.substitution(),
                '`' if mark == '"' => self.enclosed('`', '`'),
                other => self.push(other),
            }
        }
    }

    /// `$NAME`, `${NAME}`, `$(command)`: kept as it is written.
    fn substitution(&mut self) {
        self.push('$');
        match self.rest.peek() {
            Some('(') => self.nested('(', ')'),
            Some('{') => self.nested('{', '}'),
            _ => {}
        }
    }

    /// Up to the bracket that closes the next one.
    fn nested(&mut self, open: char, close: char) {
        let (mut depth, mut quote) = (0_usize, None);
        while let Some(character) = self.rest.next() {
            self.push(character);
            match character {
                '\\' => {
                    let escaped = self.rest.next();
                    escaped.into_iter().for_each(|next| self.push(next));
                }
                '\'' | '"' if quote == Some(character) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(character),
                _ if quote.is_some() => {}
                _ if character == open => depth += 1,
                _ if character == close => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn enclosed(&mut self, open: char, close: char) {
        self.push(open);
        while let Some(character) = self.rest.next() {
            self.push(character);
            if character == close {
                return;
            }
        }
    }

    fn redirection(&mut self, character: char) {
        if self.rest.peek() == Some(&'(') {
            // `<(command)` is a word.
            self.push(character);
            return self.nested('(', ')');
        }
        // `2>` names a descriptor.
        if self.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        while self.rest.next_if(|next| matches!(next, '<' | '>' | '&' | '|')).is_some() {}
        self.is_target = true;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_target) && self.words.len() < MAX_WORDS {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_target = false;
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell's text, its own arguments, and its commands, with `_` between words.
    #[test]
    fn shell_text_is_cut_into_commands() {
        let cases: [(&str, &[&str], &[&str]); 22] = [
            ("a b  c", &[], &["a_b_c"]),
            ("a;b&&c||d|e&f\ng", &[], &["a", "b", "c", "d", "e", "f", "g"]),
            ("'a;b' \"c&d\" e\\ f", &[], &["a;b_c&d_e f"]),
            ("a\"b\"'c'd", &[], &["abcd"]),
            ("a '' b", &[], &["a__b"]),
            (r#"a "\"x\" \y""#, &[], &[r#"a_"x" \y"#]),
            ("A=$(cat /a b; c) d", &[], &["A=$(cat /a b; c)_d"]),
            ("A=\"$(echo \"x)\" y)\" d", &[], &["A=$(echo \"x)\" y)_d"]),
            ("A=`cat x; y` d", &[], &["A=`cat x; y`_d"]),
            ("${A:-x y} b", &[], &["${A:-x y}_b"]),
            ("a >b 2>/c <d e", &[], &["a_e"]),
            ("a 2>&1 >>b &>c d", &[], &["a_d"]),
            ("a 3 > b", &[], &["a_3"]),
            ("a <(b c) d", &[], &["a_<(b c)_d"]),
            ("a # b\nc#d", &[], &["a", "c#d"]),
            ("if a; then b; else c; fi", &[], &["a", "b", "c"]),
            ("(cd x && { y; }) 2>z", &[], &["cd_x", "y"]),
            ("for x in a b; do c; done", &[], &["c"]),
            ("set x; and b", &[], &["set_x", "b"]),
            ("exec \"$0\" \"$@\"", &["a", "b c"], &["exec_a_b c"]),
            ("$1 $9 x", &["a", "b"], &["b_x"]),
            ("'a \"b ${c $(d `e", &[], &["a \"b ${c $(d `e"]),
        ];
        for (text, arguments, expected) in cases {
            let got: Vec<String> = commands(text, arguments).iter().map(|words| words.join("_")).collect();
            assert_eq!(got, expected, "{text}");
        }
        assert_eq!(commands(&"a;".repeat(1_000), &[]).len(), MAX_COMMANDS);
        assert_eq!(words("a 'b c';d"), ["a", "b c", "d"]);
    }
}
