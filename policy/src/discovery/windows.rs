//! Command lines of Windows: paths with `\`, programs with an ending, and the text of `cmd.exe /c`. Clients' files have them, and what WSL
//! starts of Windows.

use std::borrow::Cow;

use super::places::{PROGRAMS, split_extension};

/// What stands for a directory in front of `\`: cmd.exe's and PowerShell's variables, and those of clients' files.
const VARIABLES: [(&str, &str); 4] = [("%", "%\\"), ("${", "}\\"), ("$env:", "\\"), ("~", "\\")];

/// A word with `/` in its path where that has `\`. Other words stay: a backslash is an escape elsewhere (`grep 'a\.b'`).
pub(super) fn slashed(word: &str) -> Cow<'_, str> {
    if !word.contains('\\') {
        return word.into();
    }
    // `--directory=C:\tides`
    let (option, value) = match word.split_once('=').filter(|(name, _)| name.starts_with('-')) {
        Some((name, value)) => (word.get(..=name.len()).unwrap_or_default(), value),
        None => ("", word),
    };
    if !is_path(value) {
        return word.into();
    }
    // `\\?\C:\tides` is `C:\tides`.
    let path = value.strip_prefix(r"\\?\").filter(|path| is_drive(path)).unwrap_or(value);
    format!("{option}{}", path.replace('\\', "/")).into()
}

/// Whether a path says the whole way from the root, in the form of either system.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || is_drive(path)
}

/// Whether a part of a path is a drive: `C:`.
pub(super) fn is_drive_name(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

fn is_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic())
}

fn is_path(word: &str) -> bool {
    let is_behind_variable = VARIABLES.iter().any(|(open, close)| {
        let rest = word.strip_prefix(open);
        rest.and_then(|rest| rest.split_once(close)).is_some_and(|(name, _)| is_name(name))
    });
    let starts = [r".\", r"..\", r"\\"];
    if is_drive(word) || is_behind_variable || starts.iter().any(|start| word.starts_with(start)) {
        return !word.contains(['"', '\n']);
    }
    // `dist\index.js`, `.venv\Scripts\python`
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"\\/._-@+".contains(&byte);
    let last = word.rsplit('\\').next().unwrap_or(word);
    let has_ending = !split_extension(last).1.is_empty() || word.starts_with('.');
    word.bytes().all(is_plain) && !word.starts_with('\\') && has_ending
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:.()".contains(&byte))
}

/// The text that `cmd.exe` runs with these arguments, in the form of another shell's: behind `/c` or `/k`, whose letter may stand with
/// others and in front of the text (`cmd /?`). `None`: it is started for somebody who types.
pub(super) fn cmd_text(args: &[&str]) -> Option<String> {
    // `/d /s /c`, `/d/s/c`, `//c` of MSYS
    let switch = |arg: &str| -> Option<Option<usize>> {
        let letters = arg.strip_prefix('/')?;
        let at = letters.char_indices().find(|(at, letter)| {
            let is_first = *at == 0 || letters.get(..*at).is_some_and(|before| before.ends_with('/'));
            is_first && matches!(letter, 'c' | 'C' | 'k' | 'K' | 'r' | 'R')
        });
        Some(at.map(|(at, _)| at + 2))
    };
    for (at, arg) in args.iter().enumerate() {
        let Some(end) = switch(arg)? else { continue };
        let mut words: Vec<&str> = args.get(at + 1..).unwrap_or_default().to_vec();
        // `/cnpx`
        let first = arg.get(end..).filter(|text| !text.is_empty());
        words.splice(..0, first);
        return (!words.is_empty()).then(|| translated(&line(&words)));
    }
    None
}

/// The words as one line: words with blanks in quotes, but for a first one that is a line itself.
fn line(words: &[&str]) -> String {
    let quoted = |at: usize, word: &str| -> String {
        let has_blanks = word.contains(char::is_whitespace) && !word.contains('"');
        if has_blanks && (at > 0 || is_program_path(word)) { format!("\"{word}\"") } else { word.to_owned() }
    };
    let all: Vec<String> = words.iter().enumerate().map(|(at, word)| quoted(at, word)).collect();
    let line = all.join(" ");
    // With `/s`, or with more than two quotation marks, cmd.exe takes away the first and the last one.
    let inside = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
    match inside {
        Some(inside) if inside.starts_with('"') => inside.to_owned(),
        Some(inside) if !inside.contains('"') && !is_program_path(inside) => inside.to_owned(),
        _ => line,
    }
}

/// Whether a text with blanks is the path of a program, and no line that begins with one.
fn is_program_path(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let has_arguments = PROGRAMS.iter().any(|end| lower.contains(&format!("{end} ")));
    is_path(text) && !has_arguments
}

/// A line of cmd.exe as another shell reads it: `^` escapes, `\` is a part of a path, and `'`, `;`, `#`, `$` and the backtick are
/// letters.
fn translated(line: &str) -> String {
    let (mut text, mut is_quoted) = (String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' => {
                is_quoted = !is_quoted;
                text.push('"');
            }
            '\\' if rest.peek() == Some(&'"') => {}
            '\\' => text.push('/'),
            '^' => match rest.next() {
                Some('"') => {
                    is_quoted = !is_quoted;
                    text.push('"');
                }
                Some(next) if is_quoted || next.is_alphanumeric() => text.push(next),
                Some(next) => text.extend(['\\', next]),
                None => {}
            },
            '\'' | ';' | '#' | '$' | '`' if !is_quoted => text.extend(['\\', character]),
            '$' | '`' => text.extend(['\\', character]),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_alone_get_slashes() {
        let cases = [
            (r"C:\Program Files\nodejs\node.exe", "C:/Program Files/nodejs/node.exe"),
            (r"d:\kelp\index.js", "d:/kelp/index.js"),
            (r"\\nas\share\kelp.exe", "//nas/share/kelp.exe"),
            (r"\\?\C:\kelp.exe", "C:/kelp.exe"),
            (r"%APPDATA%\npm\kelp.cmd", "%APPDATA%/npm/kelp.cmd"),
            (r"${workspaceFolder}\kelp.js", "${workspaceFolder}/kelp.js"),
            (r"$env:USERPROFILE\kelp.ps1", "$env:USERPROFILE/kelp.ps1"),
            (r"dist\index.js", "dist/index.js"),
            (r".venv\Scripts\python", ".venv/Scripts/python"),
            (r"--directory=C:\srv\kelp", "--directory=C:/srv/kelp"),
            (r"a\ b", r"a\ b"),
            (r"^\d+$", r"^\d+$"),
            (r"\bkelp\.py", r"\bkelp\.py"),
            (r#"{"a":"C:\\x"}"#, r#"{"a":"C:\\x"}"#),
            (r"echo a\nb.py", r"echo a\nb.py"),
            ("/srv/kelp", "/srv/kelp"),
        ];
        for (word, expected) in cases {
            assert_eq!(slashed(word), expected, "{word}");
        }
    }

    #[test]
    fn text_of_cmd_is_read() {
        let cases: [(&[&str], Option<&str>); 12] = [
            (&["/c", "npx", "-y", "kelp"], Some("npx -y kelp")),
            (&["/d", "/s", "/C", "npx -y kelp"], Some("npx -y kelp")),
            (&["/D/S/c", "npx -y kelp"], Some("npx -y kelp")),
            (&["//c", "npx"], Some("npx")),
            (&["/cnpx", "kelp"], Some("npx kelp")),
            (&["/s", "/c", "\"npx -y kelp\""], Some("npx -y kelp")),
            (&["/c", "\"\"C:\\a b\\npx.cmd\" \"kelp\"\""], Some("\"C:/a b/npx.cmd\" \"kelp\"")),
            (&["/c", "C:\\a b\\npx.cmd", "-y", "d e"], Some("\"C:/a b/npx.cmd\" -y \"d e\"")),
            (&["/c", "npx ^\"-y^\" ^\"a^&b^\" ^& x"], Some("npx \"-y\" \"a&b\" \\& x")),
            (&["/c", "cd /d D:\\kelp && npx x;y"], Some("cd /d D:/kelp && npx x\\;y")),
            (&["/k"], None),
            (&["npx"], None),
        ];
        for (args, expected) in cases {
            assert_eq!(cmd_text(args).as_deref(), expected, "{args:?}");
        }
    }
}
