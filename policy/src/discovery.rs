//! Is this command an MCP server, and what is it called? (Requirements: docs/internals/requirements.md,
//! "tool inspection".)
//!
//! A command line is first taken apart into *pieces*: the package, module, script, image or program that it
//! really runs, behind launchers (`npx`, `uvx`, `docker run`, …), interpreters, wrappers (`env`, `sudo`, …) and
//! shells. Patterns are matched on pieces, so that `grep -r mcp-server-git .` is no server; ids are the name of
//! the most telling piece. A command line is as forgeable as anything: a name only says where to look.

mod command;
mod containers;
mod names;
mod options;
mod piece;
mod places;
mod preload;
mod program;
mod served;
mod shell;
mod tables;
mod windows;
mod wrappers;

use sha2::{Digest, Sha256};

pub use self::shell::words;
use crate::definition::hex;
use crate::glob::{GlobError, NameGlob};
use crate::redact::{redact_argv, redact_word};
use crate::terms::ServerId;
use piece::{Piece, Role};
pub use preload::{
    CODE_OPTIONS, CODE_VARIABLES, CodeOptions, CodeVariable, code_variables, undeclared_options,
};
pub use program::{identity, identity_of_any_target, known_as, program, with_arguments};
pub use served::{FileId, Files, HostFile, Running, is_served_by, loads};

/// The patterns that are built in: the first five are the requirements'. The others are what published servers are
/// called in practice. They are matched on package, module, script, image and program names alone, where hardly
/// anything else starts or ends in `mcp`; a wrong match costs the capture of one process's standard streams, and
/// no event, since a server is announced with its first JSON-RPC message.
pub const BUILT_IN: [&str; 14] = [
    "@modelcontextprotocol/*",
    "mcp-server-*",
    "*-mcp-server",
    "mcp_server_*",
    "uvx mcp-server-*",
    "mcp-*",
    "*-mcp",
    "*_mcp",
    "*_mcp_server",
    "@*/mcp",
    "@*/mcp-*",
    "mcp-server",
    "mcp/*",
    "*-mcp-server-*",
];

/// Longest server id, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Which command lines are MCP servers.
///
/// A pattern is a glob whose `*` crosses `/`. It is matched on the name of every piece of the command (package
/// without version, `@scope/name` whole; module; script without extension; image without tag; program), one that is not custom
/// also as that is written with hyphens (`WeatherMcp` is `weather-mcp`), on the path of a script or program, and on the whole command line, arguments joined by one blank and launchers
/// without their directory; paths of Windows have `/` there. A pattern that starts with `*` and has no blank in it is not matched on the whole
/// line: `*-mcp-server` must not find `vim notes-about-some-mcp-server`.
#[derive(Clone, Debug)]
pub struct NamePatterns {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    glob: NameGlob,
    custom: bool,
    whole_line: bool,
}

/// Why a command line counts as an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The pattern, as it was written.
    pub pattern: String,
    /// What it matched: the name of a piece, a path or the command line.
    pub on: String,
    /// Whether the pattern is one of the user's own servers.
    pub custom: bool,
}

impl NamePatterns {
    /// Compiles patterns: `server_patterns` take the place of the built-in ones, `custom` come first.
    ///
    /// # Errors
    /// A pattern is no valid glob.
    pub fn new(server_patterns: &[String], custom: &[String]) -> Result<Self, GlobError> {
        let custom = custom.iter().map(|text| (text, true));
        let all = custom.chain(server_patterns.iter().map(|text| (text, false)));
        let patterns = all.map(|(text, custom)| {
            let whole_line = text.contains(' ') || !text.starts_with('*');
            Ok(Pattern { glob: NameGlob::new(text, true)?, custom, whole_line })
        });
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// The first pattern that matches this command line, and on what.
    pub fn matches(&self, argv: &[String]) -> Option<Match> {
        let command = command::read(argv);
        let found = |pattern: &Pattern, on: &str| Match {
            pattern: pattern.glob.as_str().to_owned(),
            on: on.to_owned(),
            custom: pattern.custom,
        };
        for pattern in &self.patterns {
            for piece in &command.pieces {
                // The registry and owner of an image or a repository are left out too: `*` at the start would reach across them anyway.
                let is_owned = piece.role == Role::Package && !piece.name.starts_with('@');
                let image = (piece.role == Role::Image || is_owned).then(|| names::base(&piece.name));
                // `acme_mcp.server` is the module `acme_mcp`.
                let module =
                    (piece.role == Role::Module).then(|| names::telling_part(&piece.name, piece.role));
                let module = module.flatten();
                // `cd /srv/weather-mcp && node index.js`: the directory that a command line names.
                let directory = command.directory.as_deref().and_then(|directory| {
                    let path = names::place(piece)
                        .filter(|_| names::telling_part(&piece.name, piece.role).is_none())?;
                    names::telling_directory(path, Some(directory))
                });
                // `REGISTRY/acme/mcp` is named as `@acme/mcp` is.
                let scoped = (piece.role == Role::Image && image == Some("mcp"))
                    .then(|| piece.name.rsplit('/').nth(1).map(|owner| format!("@{owner}/mcp")))
                    .flatten();
                let texts = [
                    Some(piece.name.as_str()),
                    scoped.as_deref(),
                    module.as_deref(),
                    piece.path.as_deref(),
                    image,
                    directory.as_deref(),
                ];
                if let Some(on) = texts.into_iter().flatten().find(|text| pattern.glob.matches(text)) {
                    return Some(found(pattern, on));
                }
            }
            if pattern.whole_line
                && let Some(line) = command.lines.iter().find(|line| pattern.glob.matches(line))
            {
                return Some(found(pattern, line));
            }
        }
        // What matches as it is written comes first.
        command.pieces.iter().find_map(|piece| {
            let module = (piece.role == Role::Module).then(|| names::telling_part(&piece.name, piece.role));
            let name = names::hyphenated(module.flatten().as_deref().unwrap_or(&piece.name))?;
            let mut known = self.patterns.iter().filter(|pattern| !pattern.custom);
            known.find(|pattern| pattern.glob.matches(&name)).map(|pattern| found(pattern, &name))
        })
    }
}

impl Default for NamePatterns {
    fn default() -> Self {
        // A test holds that every built-in pattern compiles.
        Self::new(&BUILT_IN.map(str::to_owned), &[]).unwrap_or(Self { patterns: Vec::new() })
    }
}

/// A declared server that is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The id it gets.
    pub id: ServerId,
    /// Host and port of its URL, as the configuration has them.
    pub address: String,
    /// Path of its URL, without its query.
    pub path: String,
    /// Whether it is spoken to over TLS.
    pub tls: bool,
}

/// The id of the server that this command line runs: the name of its most telling piece, without scope
/// (`@modelcontextprotocol/server-filesystem` → `server-filesystem`). A name that says nothing (`index`, `main`,
/// `server`, …) gives way to that of the package, or of the nearest directory that says something, starting
/// from `cwd` where the path is relative; under a scope it is joined to it (`@playwright/mcp` →
/// `playwright-mcp`). Where nothing says anything: `mcp-` and 12 hexadecimal digits of the SHA-256 of the
/// command line. At most 128 bytes; blanks and control characters become `-`.
pub fn server_id(argv: &[String], cwd: Option<&str>) -> ServerId {
    match best(argv, cwd) {
        Some((_, id)) => ServerId(clean(&id).into()),
        None => hashed_id(argv.join(" ").as_bytes()),
    }
}

/// The id of a server with this command line, without what looks like a secret.
pub fn shown_id(argv: &[String]) -> String {
    let id = server_id(argv, None).0;
    let has_it = |words: &[String]| words.iter().any(|word| word.contains(&*id));
    let shows_it = |words: &[String]| has_it(&redact_argv(words));
    // A secret may look like one by the word before it alone. What a shell reads of an argument is looked at by itself: behind
    // `KEY=1` a program stands there, and not the rest of a secret.
    let is_open =
        !has_it(argv) || shows_it(argv) || command::read(argv).texts.iter().any(|words| shows_it(words));
    if is_open { redact_word(&id) } else { "***".to_owned() }
}

/// The id of a server that is known by an address alone: the address and path itself, cleaned and bounded.
pub fn address_id(text: &str) -> ServerId {
    ServerId(clean(text).into())
}

/// The package that a launcher in this command line runs, as it is named there, scope included.
pub fn package(argv: &[String]) -> Option<String> {
    let command = command::read(argv);
    command.pieces.into_iter().rev().find(|piece| piece.role == Role::Package).map(|piece| piece.name)
}

/// The version of the package, image or program that this command line runs, as far as the command line or the path of what
/// runs names one: `uvx pkg@1.2`, `npx pkg@latest`, `image:1.2`, `/nix/store/…-pkg-1.2/bin/pkg`.
pub fn version(argv: &[String], executable: Option<&str>) -> Option<String> {
    let command = command::read(argv);
    // What interprets a script has a version of its own.
    let is_program = command.pieces.iter().all(|piece| matches!(piece.role, Role::Program | Role::Tool));
    let executable = executable.filter(|_| is_program);
    let named = command.version.or_else(|| places::version(executable?).map(str::to_owned));
    named.map(|version| clean(&version))
}

/// A server's name without a version at its end: `tide-1.2.3` is `tide`.
pub fn without_version(id: &str) -> &str {
    let id = id.split_once('@').map_or(id, |(name, _)| if name.is_empty() { id } else { name });
    places::unversioned(id)
}

/// Whether an id is the name of a temporary directory, which is another one each time.
pub fn is_temporary(id: &ServerId) -> bool {
    places::is_of_chance(&id.0)
}

/// How telling a command line is; in a chain of programs the first with the highest value gives the id, within one
/// command line (`sh -c "prepare; serve"`) the last. So
/// `npx -y @modelcontextprotocol/server-everything` (6: a package) is not overruled by the `sh -c
/// mcp-server-everything` (3: a program) and `node …/.bin/mcp-server-everything` (4: a script) that it runs.
///
/// | value | the id comes from |
/// |---|---|
/// | 6 | a package: of a launcher, or in a path under `node_modules` |
/// | 5 | a module or a container image |
/// | 4 | a script |
/// | 3 | a program |
/// | 2 | a directory |
/// | 1 | a usual tool of the shell |
/// | 0 | nothing: it is a hash |
pub fn specificity(argv: &[String], cwd: Option<&str>) -> u8 {
    best(argv, cwd).map_or(0, |(rank, _)| rank)
}

/// Whether a command line runs a program, script or module itself: it is no launcher, no shell with a text, and no container
/// engine, which have others run.
pub fn is_itself(argv: &[String]) -> bool {
    let command = command::read(argv);
    let is_own = |piece: &Piece| matches!(piece.role, Role::Script | Role::Program | Role::Module);
    command.lines.len() == 1 && !command.in_container && command.pieces.iter().any(is_own)
}

/// How telling a program's name is: see [`specificity`].
pub const PROGRAM: u8 = 3;

/// Whether a command line has a container engine run a server: it is a relay then, and the server in the container is
/// none of its children.
pub fn runs_in_container(argv: &[String]) -> bool {
    command::read(argv).in_container
}

/// Whether this executable stands between a container engine's daemon and the programs in its containers.
pub fn is_container_shim(executable: &str) -> bool {
    names::base(executable).starts_with("containerd-shim")
}

/// A server that the configuration declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The id it gets.
    pub id: ServerId,
    /// Its program: a path, or a name as found in `PATH`.
    pub command: String,
    /// Its arguments, all of them, in order.
    pub args: Vec<String>,
    /// The path of the program or script that must serve in the end, as it is declared, and then what that leads to; none:
    /// any may.
    pub executables: Vec<String>,
    /// The path of the program that must interpret that script.
    pub interpreter: Option<String>,
}

/// Whether this command line runs the server that is declared as `command` with `args`: the command at its start, or
/// behind the interpreter that a script's first line puts there, and exactly these arguments. A command without a
/// slash stands for any path that ends in it; `executable` is the path of what really runs, where it is known.
pub fn is_declared(command: &str, args: &[String], argv: &[String], executable: Option<&str>) -> bool {
    /// `#!/usr/bin/env node` puts two words in front.
    const MAX_INTERPRETER_WORDS: usize = 2;
    let Some(at) = argv.len().checked_sub(args.len() + 1).filter(|at| *at <= MAX_INTERPRETER_WORDS) else {
        return false;
    };
    let Some((word, rest)) = argv.get(at..).and_then(<[String]>::split_first) else { return false };
    let is_command = executable == Some(command)
        || word == command
        || !command.contains('/') && word.rsplit('/').next() == Some(command);
    is_command && rest == args
}

/// The id of something without a telling name.
pub(crate) fn hashed_id(bytes: &[u8]) -> ServerId {
    let digest = hex(&Sha256::digest(bytes));
    ServerId(format!("mcp-{}", digest.get(..12).unwrap_or(&digest)).into())
}

fn best(argv: &[String], cwd: Option<&str>) -> Option<(u8, String)> {
    let command = command::read(argv);
    let (outer, cwd) = (cwd, command.directory.as_deref().or(cwd));
    // A bridge is called after what it runs, where that has a name.
    let inner = command.bridged.map_or(0, |(_, innermost)| innermost);
    let mut best: Option<(u8, String)> = None;
    let mut is_inner = false;
    for (at, piece) in command.pieces.iter().enumerate() {
        if let Some((rank, id)) =
            telling(piece, cwd).map(|(rank, id)| (if at < inner { 1 } else { rank }, id))
            && best.as_ref().is_none_or(|(highest, _)| rank >= *highest)
        {
            best = Some((rank, id));
            is_inner = at >= inner;
        }
    }
    if is_inner { best } else { own(&command, outer) }
}

/// What the pieces in front of what a bridge runs are called.
fn own(command: &command::Command, cwd: Option<&str>) -> Option<(u8, String)> {
    let inner = command.bridged.map_or(0, |(_, innermost)| innermost);
    let cwd = command.own_directory().or(cwd);
    let own = command.pieces.iter().take(inner).filter_map(|piece| telling(piece, cwd));
    own.max_by_key(|(rank, _)| *rank)
}

/// What a bridge is called itself, where this command line runs one whose id is that of what it runs: it is denied by this
/// name, too.
pub fn bridge_id(argv: &[String], cwd: Option<&str>) -> Option<ServerId> {
    let command = command::read(argv);
    own(&command, cwd).map(|(_, id)| ServerId(clean(&id).into()))
}

fn telling(piece: &Piece, cwd: Option<&str>) -> Option<(u8, String)> {
    if let Some(id) = names::telling_part(&piece.name, piece.role) {
        return Some((piece.role.rank(), id));
    }
    names::telling_directory(names::place(piece)?, cwd).map(|id| (2, id))
}

/// An id that can stand in a log line, a metric label and a policy.
fn clean(id: &str) -> String {
    let mut clean = String::new();
    for character in id.chars() {
        let character = if character.is_whitespace() || character.is_control() { '-' } else { character };
        if clean.len() + character.len_utf8() > MAX_ID_BYTES {
            break;
        }
        clean.push(character);
    }
    clean
}

#[cfg(test)]
mod tests;
