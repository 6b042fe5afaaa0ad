//! The help of the program, with its commands in groups.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Cli;

/// The headings, and the commands below each.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Watch", &["run", "doctor", "match", "top", "events"]),
    ("Inspect", &["inspect", "explain", "registry", "pins"]),
    ("Decide", &["approve", "approvals", "block", "unblock", "blocks", "decide", "replay"]),
    ("Operate", &["call", "status", "reload", "check-config", "guard", "learn", "detach"]),
    ("Query", &["servers", "sessions", "tools", "calls", "detections", "connections", "audit"]),
    ("Report", &["report", "schema", "completions", "man", "help"]),
];

/// The command line of the program, to print its help by. clap itself has no headings for commands.
pub(super) fn program() -> Command {
    let mut program = Cli::command();
    program.build();
    let listing = listing(&program);
    let header = program.get_styles().get_header();
    let template = format!(
        "{{about-section}}\n{{usage-heading}} {{usage}}\n{listing}\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    program.help_template(template)
}

fn listing(program: &Command) -> String {
    let (header, literal) = (program.get_styles().get_header(), program.get_styles().get_literal());
    let width = program.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let (name, padding) = (command.get_name(), width - command.get_name().len());
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:padding$}  {about}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_of_the_help() {
        let mut program = Cli::command();
        program.build();
        let mut commands: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.into_iter().flat_map(|(_, names)| names).copied().collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
    }
}
