//! Programs that run another command: which options of theirs have values, and where the command stands. A wrapper that is in no list is
//! passed by all the same where the command behind it begins with a launcher: see `Command::unknown`.

mod known;

use super::options::{Options, is_in};
use super::shell;
pub(super) use known::NIX;
use known::WRAPPERS;

/// A program that runs another command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapper {
    /// Its names.
    names: &'static str,
    /// Subcommands of which one must stand in front; none: there is none.
    subcommands: &'static str,
    /// Its options, with those in front of the subcommand.
    pub(super) options: Options,
    /// How many arguments of its own stand in front of the command.
    pub(super) own: usize,
    /// Whether the command stands behind `--` where there is one, whatever is in front of that.
    pub(super) behind_dashes: bool,
    /// Options whose value is a shell's text: the command.
    pub(super) text: &'static str,
    /// Options behind which the command stands.
    pub(super) command: &'static str,
    /// Options whose value is cut into words that stand in its place.
    pub(super) split: &'static str,
    /// Options with the directory that the command works in.
    pub(super) directory: &'static str,
    /// Whether the command is one word, a shell's text.
    pub(super) is_text: bool,
    /// Whether the name of an environment and a colon may stand in front of the command.
    pub(super) has_environments: bool,
}

/// What stands for the names of dynamic linkers, and of emulators of another architecture, in the table: see [`family`].
const DYNAMIC_LINKER: &str = "ld.so";
const EMULATOR: &str = "qemu-user";

/// The name that a program has in the table.
fn family(name: &str) -> &str {
    let is_emulator = name.starts_with("qemu-") && !name.starts_with("qemu-system")
        || matches!(name, "box64" | "box86" | "FEXInterpreter" | "FEXBash");
    match name {
        name if name.starts_with("ld-linux") || name.starts_with("ld-musl") => DYNAMIC_LINKER,
        _ if is_emulator => EMULATOR,
        name => name,
    }
}

/// A wrapper, its arguments in front of the subcommand, and those behind it.
pub(super) type Found<'a, 'b> = (&'static Wrapper, &'b [&'a str], &'b [&'a str]);

/// The wrapper of this name.
pub(super) fn find<'a, 'b>(name: &str, args: &'b [&'a str]) -> Option<Found<'a, 'b>> {
    WRAPPERS.iter().filter(|wrapper| is_in(wrapper.names, family(name))).find_map(|wrapper| {
        if wrapper.subcommands.is_empty() {
            return Some((wrapper, Default::default(), args));
        }
        let at = wrapper.options.command_at(args);
        let is_there = args.get(at).is_some_and(|word| is_in(wrapper.subcommands, word));
        let (front, behind) = args.split_at_checked(at).filter(|_| is_there)?;
        Some((wrapper, front, behind.get(1..).unwrap_or_default()))
    })
}

impl Wrapper {
    /// The arguments with the words of an option's value in its place (env(1): `-S 'A=1 npx -y'`, `'-Snpx -y'`); `None`: there is
    /// no such option.
    pub(super) fn expanded(&self, args: &[&str]) -> Option<Vec<String>> {
        let own = self.options.before(args);
        let short =
            self.split.split_ascii_whitespace().find_map(|name| name.strip_prefix('-')?.chars().next());
        // The value in the same word; empty: it is the next one.
        let value = |arg: &str| -> Option<String> {
            if is_in(self.split, arg) {
                return Some(String::new());
            }
            if let Some((_, text)) = arg.split_once('=').filter(|(name, _)| is_in(self.split, name)) {
                return Some(text.to_owned());
            }
            let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
            let (flags, text) = letters.split_once(short?)?;
            let is_flags = flags.chars().all(|flag| self.options.values(&format!("-{flag}")).is_none());
            is_flags.then(|| text.to_owned())
        };
        let mut at = 0;
        let (text, behind) = loop {
            let arg = own.get(at)?;
            match value(arg) {
                Some(text) if text.is_empty() => break ((*args.get(at + 1)?).to_owned(), at + 2),
                Some(text) => break (text, at + 1),
                None => at += 1 + self.options.values(arg).unwrap_or_default(),
            }
        };
        let front = args.iter().take(at).map(|arg| (*arg).to_owned());
        let rest = args.iter().skip(behind).map(|arg| (*arg).to_owned());
        Some(front.chain(shell::words(&text)).chain(rest).collect())
    }
}

/// Whether a program of this name runs other commands, and nothing else. `toolbox` is also a server (googleapis/genai-toolbox).
pub(super) fn is_name(name: &str) -> bool {
    name != "toolbox" && WRAPPERS.iter().any(|wrapper| is_in(wrapper.names, family(name)))
}
