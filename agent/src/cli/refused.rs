//! The error for an invalid command line: one line, like every other error. clap would print a paragraph with the whole usage.

use std::{env, process::ExitCode};

use clap::{
    Command, CommandFactory as _, Error,
    error::{ContextKind, ErrorKind},
};

use super::{Cli, help};
use crate::output::{FAILED, one_line, print_error};

/// Prints the help or the version if the arguments request it, and the error otherwise. Returns the exit status.
pub fn refused(error: Error) -> ExitCode {
    if !error.use_stderr() {
        // The same again, by the command line that has the commands in groups: only who reads the help waits for it to be made.
        help::program().try_get_matches().err().unwrap_or(error).exit();
    }
    let words: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    print_error(format!("mcpwarden: {}", sentence(error, &words)));
    FAILED.into()
}

/// The error in these arguments, and where to find help.
fn sentence(mut error: Error, words: &[String]) -> String {
    let mut command = Cli::command();
    command.build();
    let (command, name) = named_command(&command, words);
    let problem = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        missing(command)
    } else {
        // What is typed is in the line below.
        error.remove(ContextKind::Usage);
        flat(&error.render().to_string())
    };
    format!("{problem}; see `{name} --help`")
}

/// The command that the first words name, and how it is typed.
fn named_command<'a>(program: &'a Command, words: &[String]) -> (&'a Command, String) {
    let (mut command, mut name) = (program, program.get_name().to_owned());
    for word in words {
        let Some(found) = command.find_subcommand(word) else { break };
        (command, name) = (found, format!("{name} {}", found.get_name()));
    }
    (command, name)
}

/// That a command needs another one, and which there are; of the program itself, there are too many for one line.
fn missing(command: &Command) -> String {
    let names: Vec<&str> =
        command.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
    if command.get_name() == Cli::command().get_name() {
        "a command is missing".to_owned()
    } else {
        format!("`{}` needs one of: {}", command.get_name(), names.join(", "))
    }
}

/// clap's paragraphs on one line, without how to ask for help.
fn flat(text: &str) -> String {
    let text = text.rsplit_once("\n\nFor more information").map_or(text, |(problem, _)| problem);
    let text = text.strip_prefix("error: ").unwrap_or(text);
    one_line(&text.replace("\n\n  tip: ", "; tip: ").replace("\n  tip: ", "; tip: "))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Arguments, and the line.
    #[test]
    fn usage_errors_fit_on_one_line() {
        let cases: [(&[&str], &str); 12] = [
            (&[], "a command is missing; see `mcpwarden --help`"),
            (&["registry"], "`registry` needs one of: list, show; see `mcpwarden registry --help`"),
            (
                &["statu"],
                "unrecognized subcommand 'statu'; tip: a similar subcommand exists: 'status'; see `mcpwarden --help`",
            ),
            (&["--bad"], "unexpected argument '--bad' found; see `mcpwarden --help`"),
            (
                &["blocks", "--jsn"],
                "unexpected argument '--jsn' found; tip: a similar argument exists: '--json'; see `mcpwarden blocks --help`",
            ),
            (
                &["calls", "--action", "deny"],
                "invalid value 'deny' for '--action <ACTION>' [possible values: allow, alert, block]; see `mcpwarden calls --help`",
            ),
            (
                &["calls", "--limit"],
                "a value is required for '--limit <COUNT>' but none was supplied; see `mcpwarden calls --help`",
            ),
            (
                &["decide"],
                "the following required arguments were not provided: --server <SERVER> --tool <TOOL>; see `mcpwarden decide --help`",
            ),
            (
                &["pins", "diff"],
                "the following required arguments were not provided: <SERVER:TOOL>; see `mcpwarden pins diff --help`",
            ),
            (
                &["events", "--follow", "--until", "1h"],
                "the argument '--follow' cannot be used with '--until <TIME>'; see `mcpwarden events --help`",
            ),
            (
                &["sessions", "--limit", "x", "set"],
                "the subcommand 'set' cannot be used with '--limit <COUNT>'; see `mcpwarden sessions --help`",
            ),
            (
                &["schema", "a\nb\u{202e}"],
                "unexpected argument 'a b\\u{202e}' found; see `mcpwarden schema --help`",
            ),
        ];
        for (args, expected) in cases {
            let words: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
            let error = Cli::try_parse_from(["mcpwarden"].iter().chain(args)).unwrap_err();
            assert_eq!(sentence(error, &words), expected, "{args:?}");
        }
    }
}
