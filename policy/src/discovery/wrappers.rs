//! Programs that run another command: which options of theirs have values, and where the command stands. A wrapper that is in no list is
//! passed by all the same where the command behind it begins with a launcher: see `Command::unknown`.

mod known;

use super::options::{Options, is_in};
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

/// The wrapper of this name, and its arguments behind the subcommand.
pub(super) fn find<'a, 'b>(name: &str, args: &'b [&'a str]) -> Option<(&'static Wrapper, &'b [&'a str])> {
    WRAPPERS.iter().filter(|wrapper| is_in(wrapper.names, family(name))).find_map(|wrapper| {
        if wrapper.subcommands.is_empty() {
            return Some((wrapper, args));
        }
        let at = wrapper.options.command_at(args);
        let is_there = args.get(at).is_some_and(|word| is_in(wrapper.subcommands, word));
        is_there.then(|| (wrapper, args.get(at + 1..).unwrap_or_default()))
    })
}

/// Whether a program of this name runs other commands, and nothing else.
pub(super) fn is_name(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| is_in(wrapper.names, family(name)))
}
