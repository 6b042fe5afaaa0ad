//! `mcpwarden man`: the manual, a page for each command, of what `--help` says.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::{
    cli::{Cli, ManOptions},
    output::{escaped, print_line},
};

/// Prints a page, or writes all of them.
///
/// # Errors
/// There is no such command, or a page cannot be written.
pub fn run(options: &ManOptions) -> Result<()> {
    // `help` has nothing to say that the others do not.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    if let Some(directory) = &options.to {
        return write(&program, directory);
    }
    let mut command = &program;
    for word in &options.command {
        command = command.find_subcommand(word).with_context(|| {
            format!("there is no command '{}'; see `mcpwarden --help`", escaped(&options.command.join(" ")))
        })?;
    }
    print_line(String::from_utf8_lossy(&page(command)?).trim_end());
    Ok(())
}

/// The page of one command.
fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    // In memory, since a reader that is gone is no error of the page's.
    let source = concat!("mcpwarden ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).render(&mut page).context("cannot write the manual page")?;
    Ok(page)
}

/// Writes the pages of a command and of those below it, each under the name that others refer to.
fn write(command: &Command, directory: &Path) -> Result<()> {
    let path = directory.join(Man::new(command.clone()).get_filename());
    fs::write(&path, page(command)?).with_context(|| format!("cannot write {}", path.display()))?;
    command.get_subcommands().try_for_each(|below| write(below, directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command, and how many there are.
    fn each(command: &Command, directory: &Path) -> usize {
        let file = Man::new(command.clone()).get_filename();
        // roff takes a bare hyphen for one that may end a line.
        let page = fs::read_to_string(directory.join(&file)).unwrap().replace("\\-", "-");
        assert!(page.contains("\n.SH NAME\n") && page.contains("\n.SH DESCRIPTION\n"), "{file}: {page}");
        for argument in command.get_arguments() {
            if let Some(long) = argument.get_long() {
                assert!(page.contains(&format!("--{long}")), "{file} lacks --{long}");
            }
            let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
            let words = help.split(|c: char| !c.is_ascii_alphanumeric());
            words.for_each(|word| assert!(page.contains(word), "{file} lacks {word:?} of {help:?}"));
        }
        for below in command.get_subcommands() {
            let name = Man::new(below.clone()).get_filename();
            let name = name.strip_suffix(".1").unwrap();
            assert!(page.contains(&format!("{name}(1)")), "{file} does not name {name}");
        }
        1 + command.get_subcommands().map(|below| each(below, directory)).sum::<usize>()
    }

    #[test]
    fn every_command_has_a_complete_man_page() {
        let directory = tempfile::tempdir().unwrap();
        let options = ManOptions { command: Vec::new(), to: Some(directory.path().to_owned()) };
        run(&options).unwrap();
        let mut program = Cli::command().disable_help_subcommand(true);
        program.build();
        let pages = each(&program, directory.path());
        assert!(pages > 40, "{pages}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), pages);
    }
}
