//! `mcpwarden doctor --tls`: what would be seen of the TLS of a program, and why not.

use std::{fs::File, io};

use anyhow::{Context as _, Result, anyhow};
use comfy_table::{Attribute, Cell, Color};
use mcpwarden_tls::{Function, Image, Library, Located, Role, Signatures, Step, Way, locate};
use serde::Serialize;

use crate::host::mapped::{self, Mapped};
use crate::output::{escaped, print_json_line, print_line, table, table_text};

/// A file, and what was found in it.
#[derive(Serialize)]
struct Searched {
    path: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Found(Located),
    Failed { error: String },
}

impl Outcome {
    /// Whether there is TLS, or nobody can tell.
    fn is_of_interest(&self) -> bool {
        match self {
            Self::Found(located) => !(located.stacks.is_empty() && located.unknown.is_empty()),
            Self::Failed { .. } => true,
        }
    }

    /// Whether all TLS that is there can be seen in both directions.
    fn is_whole(&self) -> bool {
        match self {
            Self::Found(located) => {
                located.unknown.is_empty() && located.stacks.iter().all(|stack| stack.is_whole())
            }
            Self::Failed { .. } => false,
        }
    }
}

/// Searches a program, or all files that a process runs code of, and prints what is found. Whether all TLS that is there can be seen in
/// both directions.
///
/// # Errors
/// There is no such process or file, or it cannot be read.
pub fn run(target: &str, json: bool) -> Result<bool> {
    let signatures = Signatures::built_in().context("the built-in signatures cannot be read")?;
    let searched: Vec<Searched> = match target.parse() {
        Ok(pid) => files_of(pid)?
            .into_iter()
            .map(|(path, file)| Searched { path, outcome: search(file, &signatures) })
            .collect(),
        Err(_) => {
            let file = File::open(target).with_context(|| format!("cannot read {}", escaped(target)))?;
            vec![Searched { path: target.to_owned(), outcome: search(Ok(file), &signatures) }]
        }
    };
    let is_whole = searched.iter().all(|one| one.outcome.is_whole());
    if json {
        print_json_line(&serde_json::json!({"whole": is_whole, "files": searched}));
        return Ok(is_whole);
    }
    let found: Vec<&Searched> = searched.iter().filter(|one| one.outcome.is_of_interest()).collect();
    found.iter().for_each(|one| print(one));
    if found.is_empty() {
        let files = match searched.len() {
            1 => String::new(),
            files => format!("the {files} files of process "),
        };
        print_line(format!("No TLS in {files}{}.", escaped(target)));
    }
    if let [Searched { outcome: Outcome::Found(located), .. }] = searched.as_slice()
        && !located.needed.is_empty()
    {
        print_line(format!(
            "It needs these libraries, which may have TLS: {}",
            escaped(&located.needed.join(" "))
        ));
    }
    print_line(
        "\nThe agent reads OpenSSL, BoringSSL, GnuTLS and Go, of connections that `capture.tls` names.",
    );
    Ok(is_whole)
}

fn search(file: io::Result<File>, signatures: &Signatures) -> Outcome {
    let found = file.and_then(|file| {
        let mut image = Image::of_file(&file)?;
        Ok(locate(&mut image, signatures))
    });
    match found {
        Ok(Ok(located)) => Outcome::Found(located),
        Ok(Err(error)) => Outcome::Failed { error: error.to_string() },
        Err(error) => Outcome::Failed { error: error.to_string() },
    }
}

/// The files that a process runs code of, opened.
fn files_of(pid: i32) -> Result<Vec<(String, io::Result<File>)>> {
    let mapped = mapped::code_of(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("no process {pid}"),
        _ => anyhow!("cannot read the memory map of process {pid}: {error}"),
    })?;
    Ok(mapped.into_iter().map(|Mapped { path, link }| (path, File::open(link))).collect())
}

fn print(searched: &Searched) {
    print_line(format!("\n{}", escaped(&searched.path)));
    let located = match &searched.outcome {
        Outcome::Found(located) => located,
        Outcome::Failed { error } => return print_line(format!("  cannot be searched: {}", escaped(error))),
    };
    let mut rows = table(["LIBRARY", "DIRECTION", "FUNCTION", "FOUND BY", "PROBED AT"]);
    for stack in &located.stacks {
        let library = named(stack.library, stack.version.as_deref());
        for function in &stack.functions {
            let Some(direction) = direction(function.role) else { continue };
            rows.add_row([
                Cell::new(&library),
                Cell::new(direction),
                Cell::new(escaped(&function.name)),
                Cell::new(certainty(function.way)),
                Cell::new(probed(function)),
            ]);
        }
    }
    if !rows.is_empty() {
        print_line(table_text(&rows));
    }
    for unknown in &located.unknown {
        let library = named(unknown.library, unknown.version.as_deref());
        let mut rows = table(["NOT SEEN", "WHY"]);
        rows.add_row([
            Cell::new(&library).fg(Color::Yellow).add_attribute(Attribute::Bold),
            Cell::new(escaped(&unknown.why.to_string())),
        ]);
        print_line(table_text(&rows));
    }
    for problem in &located.problems {
        print_line(format!("  left out: {}", escaped(problem)));
    }
}

/// A library, with its version where that is known.
fn named(library: Library, version: Option<&str>) -> String {
    let version = version.map_or(String::new(), |version| format!(" {version}"));
    escaped(&format!("{library}{version}")).to_string()
}

/// Which way plaintext goes; `None`: the function has none.
fn direction(role: Role) -> Option<&'static str> {
    match role {
        Role::Write | Role::Seal => Some("out"),
        Role::Read | Role::Open => Some("in"),
        Role::Cipher => Some("out and in"),
        Role::Handshake | Role::Free => None,
    }
}

fn certainty(way: Way) -> String {
    match way {
        Way::DynamicSymbol | Way::Symbol | Way::GoTable => way.to_string(),
        Way::FunctionName | Way::ErrorCodes | Way::Assembly => format!("{way} (by likeness)"),
    }
}

fn probed(function: &Function) -> String {
    let behind = function.probe.offset.saturating_sub(function.offset);
    let cost = match function.probe.step {
        Step::Emulated => "",
        Step::Stepped | Step::Undecoded => ", single-stepped (five times the cost)",
    };
    format!("{:#x}+{behind:#x}{cost}", function.offset)
}
