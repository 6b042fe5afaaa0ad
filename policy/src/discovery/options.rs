//! Options in front of a command: which take a value, and where the command begins.

/// Options of one letter in one word (`-qefc`) that are looked at.
const MAX_LETTERS: usize = 32;

/// The options of one launcher. A list is a text of options with blanks between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Options with one value, which may be the next word.
    pub(super) one: &'static [&'static str],
    /// Options with two values.
    pub(super) two: &'static str,
    /// Options with three values.
    pub(super) three: &'static str,
    /// Options without a value, where those in no list may have one: see `unknown_has_value`.
    pub(super) flags: &'static str,
    /// Whether an option in no list takes the next word. So it is where nearly all do.
    pub(super) unknown_has_value: bool,
    /// Whether a package follows: a word behind an option in no list may be its value, or the package.
    pub(super) package_follows: bool,
}

/// No option takes a value.
pub(super) const NONE: Options =
    Options { one: &[], two: "", three: "", flags: "", unknown_has_value: false, package_follows: false };

/// Whether a word is in a text of words.
pub(super) fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == word)
}

impl Options {
    /// Options of which these have a value.
    pub(super) const fn with(one: &'static [&'static str]) -> Self {
        Self { one, ..NONE }
    }

    /// Whether this option is one of those with one value.
    pub(super) fn has_one(&self, option: &str) -> bool {
        self.one.iter().any(|list| is_in(list, option))
    }

    fn is_known(&self, option: &str) -> bool {
        self.values(option).is_some()
    }

    /// How many of the next words are values of this option, if it is in a list.
    pub(super) fn values(&self, option: &str) -> Option<usize> {
        if option.contains('=') {
            return Some(0);
        }
        if self.has_one(option) {
            return Some(1);
        }
        if is_in(self.two, option) {
            return Some(2);
        }
        if is_in(self.three, option) {
            return Some(3);
        }
        let letters = option
            .strip_prefix('-')
            .filter(|letters| !letters.starts_with('-') && letters.len() <= MAX_LETTERS);
        let is_flag = |letter: char| is_in(self.flags, &format!("-{letter}"));
        if is_in(self.flags, option) || letters.is_some_and(|letters| letters.chars().all(is_flag)) {
            return Some(0);
        }
        // `-qc value`, `-n10`: the first letter with a value takes the rest of the word, or else the next word.
        let letters = letters?;
        let with_value = |(_, letter): &(usize, char)| self.has_one(&format!("-{letter}"));
        let (at, letter) = letters.char_indices().find(with_value)?;
        Some(usize::from(at + letter.len_utf8() == letters.len()))
    }

    /// Where the command begins in `args`: behind the options, their values and `--`.
    pub(super) fn command_at(&self, args: &[&str]) -> usize {
        let first = self.skip(args, 0);
        let Some(option) = first.checked_sub(1).and_then(|at| args.get(at)) else { return first };
        let is_doubtful =
            self.package_follows && option.starts_with("--") && *option != "--" && !self.is_known(option);
        if !is_doubtful {
            return first;
        }
        // Is it the value of an option that is in no list? So it is where options that are go on behind it, or where the next
        // word alone looks like a server.
        let second = self.skip(args, first + 1);
        let Some(next) = args.get(second) else { return first };
        let goes_on =
            args.get(first + 1).is_some_and(|arg| *arg == "--" || arg.starts_with('-') && self.is_known(arg));
        let is_named = |word: &str| word.to_ascii_lowercase().contains("mcp");
        let is_value = goes_on
            || second == first + 1 && is_named(next) && !args.get(first).is_some_and(|arg| is_named(arg));
        if is_value { second } else { first }
    }

    /// The first word from `at` on that is neither an option nor a value of one.
    fn skip(&self, args: &[&str], mut at: usize) -> usize {
        while let Some(arg) = args.get(at) {
            if *arg == "--" {
                return at + 1;
            }
            if !arg.starts_with('-') || *arg == "-" {
                break;
            }
            at += 1 + self.values(arg).unwrap_or(usize::from(self.unknown_has_value));
        }
        at.min(args.len())
    }

    /// Everything from the command on.
    pub(super) fn behind<'a, 'b>(&self, args: &'b [&'a str]) -> &'b [&'a str] {
        args.get(self.command_at(args)..).unwrap_or_default()
    }

    /// The options in front of the command.
    pub(super) fn before<'a, 'b>(&self, args: &'b [&'a str]) -> &'b [&'a str] {
        args.get(..self.command_at(args)).unwrap_or(args)
    }
}

/// The value of one of these options, the first one: see [`all`].
pub(super) fn value<'a>(args: &[&'a str], names: &str) -> Option<&'a str> {
    all(args, names).next()
}

/// The values of these options: `--name value`, `--name=value`, `-n value`, `-nvalue`, or the last letter of several
/// (`-xn value`).
pub(super) fn all<'a>(args: &[&'a str], names: &str) -> impl Iterator<Item = &'a str> {
    let is_short = |letter: char| is_in(names, &format!("-{letter}"));
    args.iter().enumerate().filter_map(move |(at, arg)| {
        let next = || args.get(at + 1).copied();
        if is_in(names, arg) {
            return next();
        }
        if let Some((_, value)) = arg.split_once('=').filter(|(name, _)| is_in(names, name)) {
            return Some(value);
        }
        let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        let mut all = letters.chars();
        if all.next().is_some_and(is_short) {
            return Some(all.as_str().trim_start());
        }
        let is_last = letters.chars().all(|letter| letter.is_ascii_alphabetic());
        (is_last && letters.chars().next_back().is_some_and(is_short)).then(next).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Options = Options {
        one: &["--name -n", "--file"],
        two: "--bind",
        three: "--over",
        flags: "--quiet",
        package_follows: true,
        ..NONE
    };

    /// Arguments, and the command in them.
    #[test]
    fn command_stands_behind_options_and_values() {
        let cases = [
            ("a b", "a b"),
            ("", ""),
            ("-x a", "a"),
            ("--name x a -n b", "a -n b"),
            ("--name=x a", "a"),
            ("-nx a", "a"),
            ("-qn x a", "a"),
            ("-nq a", "a"),
            ("--bind x y a", "a"),
            ("--over x y z a", "a"),
            ("--quiet a", "a"),
            ("-- -a", "-a"),
            ("--name x -- a", "a"),
            ("--name", ""),
            ("- a", "- a"),
            // Options that nobody knows.
            ("--new a", "a"),
            ("--new a b", "a b"),
            ("--new x --quiet a", "a"),
            ("--new x -- a", "a"),
            ("--new x x-mcp", "x-mcp"),
            ("--new x-mcp y-mcp", "x-mcp y-mcp"),
            ("--new x-mcp --port 1", "x-mcp --port 1"),
            ("--new=1 x y-mcp", "x y-mcp"),
        ];
        for (line, expected) in cases {
            let args: Vec<&str> = line.split_ascii_whitespace().collect();
            assert_eq!(SOME.behind(&args).join(" "), expected, "{line}");
        }
        let args = ["--new", "1", "image", "a"];
        assert_eq!(
            Options { unknown_has_value: true, package_follows: false, ..SOME }.behind(&args),
            ["image", "a"]
        );
    }

    /// Arguments, names of an option, its value.
    #[test]
    fn values_are_found_however_written() {
        let cases = [
            ("--call x", "-c --call", Some("x")),
            ("--call=x y", "-c --call", Some("x")),
            ("-c x", "-c --call", Some("x")),
            ("-cx", "-c --call", Some("x")),
            ("-qec x", "-c --call", Some("x")),
            ("-c", "-c --call", None),
            ("--callx", "-c --call", None),
            ("a b", "-c", None),
        ];
        for (line, names, expected) in cases {
            let args: Vec<&str> = line.split(' ').collect();
            assert_eq!(value(&args, names), expected, "{line}");
        }
    }
}
