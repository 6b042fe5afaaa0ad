//! What a program is, whatever the version and the directory of the day: what its pins belong to.

use sha2::{Digest as _, Sha256};

use super::command::{self, Command};
use super::piece::{Piece, Role};
use super::{names, places, windows};
use crate::definition::hex;

/// What a command line really runs: the script, below `cwd` where its path is relative, or the executable. Empty where
/// neither is known.
pub fn program(argv: &[String], cwd: Option<&str>, executable: Option<&str>) -> String {
    let command = command::read(argv);
    script(&command, cwd).unwrap_or_else(|| executable_of(argv, executable).to_owned())
}

/// Who a program is: what stays the same when it is upgraded, installed anew or started again, and is another for
/// another program.
///
/// | what runs | what it is known by |
/// |---|---|
/// | a container | `container`, the image's repository without tag and digest, or the name of the container or service; where the image only brings a runtime, what runs in it |
/// | a script, also behind a runner (`mcp run FILE`, `npx tsx FILE`) | its path |
/// | a module (`python -m NAME`, `java NAME`) | the interpreter without its version, `-m`, the module; in its directory where the module's name says nothing |
/// | anything else | the path of the executable |
///
/// A script or executable by the name of a command in a launcher's cache (`node_modules/.bin/NAME`) does not say of which
/// package it is: `package` does, where a program before it named one.
///
/// A bridge or runner (`mcp-remote URL`, `ssh HOST COMMAND`, `artisan mcp:start NAME`) is another server for each target: ` to `
/// and the target stand behind it.
///
/// Paths are without versions, hashes and temporary names: see [`known_as`]. Empty where nothing is known.
pub fn identity(
    argv: &[String],
    cwd: Option<&str>,
    executable: Option<&str>,
    package: Option<&str>,
) -> String {
    let command = command::read(argv);
    let program = of_command(&command, argv, cwd, executable, package);
    match command.target.filter(|target| !target.is_empty() && !program.is_empty()) {
        Some(target) => format!("{program} to {target}"),
        None => program,
    }
}

/// The same without the target of a bridge: what pins were kept under before that was part of it.
pub fn identity_of_any_target(
    argv: &[String],
    cwd: Option<&str>,
    executable: Option<&str>,
    package: Option<&str>,
) -> String {
    of_command(&command::read(argv), argv, cwd, executable, package)
}

fn of_command(
    command: &Command,
    argv: &[String],
    cwd: Option<&str>,
    executable: Option<&str>,
    package: Option<&str>,
) -> String {
    let script = script(command, cwd).map(|path| places::lasting(&path));
    if let Some(container) = &command.container {
        let inner = own(command).rev().find(|piece| piece.role != Role::Image && piece.role != Role::Program);
        let inner = script.or_else(|| inner.map(|piece| piece.name.clone()));
        return inner.map_or_else(
            || format!("container {container}"),
            |inner| format!("container {container} {inner}"),
        );
    }
    if let Some(script) = script {
        return of_package(script, package);
    }
    let executable = executable_of(argv, executable);
    let Some(module) = own(command).rev().find(|piece| piece.role == Role::Module) else {
        return known_as(executable);
    };
    let interpreter = names::stem(executable);
    let interpreter = interpreter.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    let runs = match interpreter {
        "py" | "pyw" | "pythonw" => "python".to_owned(),
        "python" | "pypy" | "java" => interpreter.to_owned(),
        _ => known_as(executable),
    };
    let place = names::telling_part(&module.name, Role::Module).is_none();
    match command.own_directory().or(cwd).filter(|_| place) {
        Some(directory) => format!("{runs} -m {} in {}", module.name, known_as(directory)),
        None => format!("{runs} -m {}", module.name),
    }
}

/// The pieces of a command line without those of what a bridge runs, which its target names.
fn own(command: &Command) -> impl DoubleEndedIterator<Item = &Piece> {
    let own = command.bridged.map_or(command.pieces.len(), |(outermost, _)| outermost);
    command.pieces.iter().take(own)
}

/// Where a launcher's cache has commands of any package.
const COMMANDS: &str = "/*/node_modules/.bin/";

fn of_package(path: String, package: Option<&str>) -> String {
    match (path.split_once(COMMANDS), package) {
        (Some((cache, name)), Some(package)) => format!("{cache}/*/node_modules/{package}/.bin/{name}"),
        _ => path,
    }
}

/// A program that runs others by its arguments (`run.sh NAME`) is another for each: a digest of them stands behind it, since
/// they may have secrets, without what changes from start to start.
pub fn with_arguments(program: &str, argv: &[String]) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let lasting = |word: &String| if is_number(word) { "*".to_owned() } else { known_as(word) };
    let words: Vec<String> = argv.iter().skip(1).map(lasting).collect();
    if words.is_empty() {
        return program.to_owned();
    }
    let digest = hex(&Sha256::digest(words.join("\0")));
    format!("{program} {}", digest.get(..12).unwrap_or_default())
}

/// A path as pins know it: without versions, hashes and temporary names.
pub fn known_as(path: &str) -> String {
    places::lasting(path)
}

fn executable_of<'a>(argv: &'a [String], executable: Option<&'a str>) -> &'a str {
    executable.or(argv.first().map(String::as_str)).unwrap_or_default()
}

/// The path of the script that runs in the end.
fn script(command: &Command, cwd: Option<&str>) -> Option<String> {
    let script = own(command).rev().find(|piece| piece.role == Role::Script && piece.path.is_some());
    let path = script?.path.as_deref()?;
    Some(match command.own_directory().or(cwd) {
        Some(cwd) if !windows::is_absolute(path) => format!("{cwd}/{path}"),
        _ => path.to_owned(),
    })
}
