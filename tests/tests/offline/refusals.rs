//! Every command, where it cannot do what it is asked: wrong arguments, no agent, no rights, a database or a file that cannot
//! be read. One line on standard error says what is wrong, nothing stands on standard output, and the exit status is 2.
//!
//! That `run` and `doctor` say which rights they lack, with 1, is in `requirements.rs`. No agent runs in these tests.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::command::{CommandOutput, ask, ends};
use mcpwarden_tests::places;
use serde_json::Value;
use tempfile::TempDir;

/// Nobody, on every distribution.
const NOBODY: u32 = 65_534;

/// What a command cannot do without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Another command: it is none itself.
    Commands,
    /// A running agent, at `--socket`.
    Agent,
    /// The database of events, at `--path`.
    Events,
    /// That of pins, at `--path`.
    Pins,
    /// A file, which stands where `FILE` does.
    File,
    /// The kernel, or the directory of the agent's lock.
    Host,
    /// Nothing.
    Nothing,
}

/// A command, arguments that it cannot use, what is said of them, what it needs, and the arguments that it can use.
type Row = (&'static str, &'static [&'static str], &'static str, Of, &'static [&'static str]);

const ROWS: [Row; 52] = [
    ("run", &["--output", "xml"], "[possible values: auto, text, json", Of::Host, &[]),
    ("doctor", &["x"], "unexpected argument 'x'", Of::Host, &[]),
    ("match", &[], "not provided: <COMMAND>...", Of::File, &["--config", "FILE", "--", "x"]),
    ("inspect", &[], "not provided: ", Of::File, &["FILE"]),
    ("explain", &[], "not provided: <FILE>", Of::File, &["FILE"]),
    (
        "decide",
        &["--server", "a"],
        "not provided: --tool <TOOL>",
        Of::File,
        &["--server", "a", "--tool", "b", "--config", "FILE"],
    ),
    ("call", &[], "not provided: <mcp:SERVER:TOOL>", Of::File, &["mcp:a:b", "--config", "FILE"]),
    ("replay", &[], "not provided: <FILE>", Of::File, &["FILE"]),
    ("block", &["192.0.2.1", "--for", "10"], "'--for <DURATION>'", Of::Agent, &["192.0.2.1"]),
    ("unblock", &["192.0.2.1", "--port", "70000"], "'--port <PORT>'", Of::Agent, &["192.0.2.1"]),
    ("blocks", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("detach", &["x"], "unexpected argument 'x'", Of::Host, &[]),
    ("learn", &["--since", "yesterday"], "expected how long ago (7d, 12h), a date", Of::Events, &[]),
    ("status", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("top", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("reload", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("approve", &["nameless"], "names no server", Of::Agent, &["a:b"]),
    ("approvals", &[], "needs one of: list, grant, deny", Of::Commands, &[]),
    ("approvals list", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("approvals grant", &[], "not provided: ", Of::Agent, &["a:b"]),
    ("approvals deny", &["--all"], "not provided: --server <ID>", Of::Agent, &["a:b"]),
    ("events", &["--type", "bad"], "there is no type \"bad\" of events", Of::Events, &[]),
    ("servers", &["--since", "yesterday"], "expected how long ago (7d, 12h), a date", Of::Events, &[]),
    ("sessions", &["--limit", "few"], "'--limit <COUNT>'", Of::Events, &[]),
    ("sessions set", &["s", "mood", "x"], "[possible values: mode, ", Of::Agent, &["s", "mode", "planning"]),
    ("tools", &["--risk", "bad"], "[possible values: low, medium, high, critical]", Of::Events, &[]),
    ("registry", &[], "needs one of: list, show", Of::Commands, &[]),
    ("registry list", &["--severity", "bad"], "[possible values: low, medium, ", Of::Events, &[]),
    ("registry show", &[], "not provided: <SERVER:TOOL>", Of::Events, &["a:b"]),
    ("calls", &["--action", "deny"], "[possible values: allow, alert, block]", Of::Events, &[]),
    ("detections", &["--category", "bad"], "expected one of `credential_theft`", Of::Events, &[]),
    (
        "detections mute",
        &["x", "--reason", "r"],
        "not provided: <--for <DURATION>|--until <TIME>>",
        Of::Agent,
        &["x", "--for", "1h", "--reason", "r"],
    ),
    ("detections unmute", &[], "not provided: <ID>", Of::Agent, &["0123456789ab"]),
    ("detections muted", &["x"], "unexpected argument 'x'", Of::Agent, &[]),
    ("connections", &["--action", "alert"], "[possible values: allow, block]", Of::Events, &[]),
    ("report", &["--format", "pdf"], "[possible values: text, json, html, markdown]", Of::Events, &[]),
    ("pins", &[], "needs one of: list, diff, trust, reset", Of::Commands, &[]),
    ("pins list", &["x"], "unexpected argument 'x'", Of::Pins, &[]),
    ("pins diff", &[], "not provided: <SERVER:TOOL>", Of::Pins, &["a:b"]),
    ("pins trust", &["a:b", "--uid", "root"], "'--uid <UID>'", Of::Agent, &["a:b"]),
    ("pins reset", &["nameless"], "names no server", Of::Agent, &["a:b"]),
    ("audit", &[], "needs one of: verify, export", Of::Commands, &[]),
    ("audit verify", &["--from", "yesterday"], "'--from <EVENT>'", Of::Events, &[]),
    ("audit export", &["--to", "yesterday"], "'--to <EVENT>'", Of::Events, &[]),
    ("check-config", &[], "not provided: <FILE>", Of::File, &["FILE"]),
    ("guard", &[], "needs one of: new, build, test", Of::Commands, &[]),
    ("guard new", &["x"], "not provided: --lang <LANG>", Of::Nothing, &[]),
    ("guard build", &["/nowhere"], "cannot read /nowhere", Of::Nothing, &[]),
    ("guard test", &[], "not provided: ", Of::File, &["FILE", "--frames", "FILE"]),
    ("schema", &["x"], "unexpected argument 'x'", Of::Nothing, &[]),
    ("completions", &["tcsh"], "[possible values: bash, ", Of::Nothing, &[]),
    ("man", &["x"], "'x'", Of::Nothing, &[]),
];

/// The rows of commands that need this.
fn rows(of: Of) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.3 == of)
}

/// What is typed for a command with these arguments.
fn typed<'a>(command: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    command.split(' ').chain(args.iter().copied()).collect()
}

/// One line that holds `part`, and exit status 2.
fn refused(args: &[&str], said: &CommandOutput, part: &str) -> Result<()> {
    let CommandOutput { code, stdout, stderr } = said;
    ensure!(*code == Some(2) && stdout.is_empty(), "{args:?}: {code:?}\n{stdout}{stderr}");
    let line = stderr.lines().count() == 1 && stderr.ends_with('\n') && stderr.starts_with("mcpwarden: ");
    ensure!(line && stderr.contains(part), "{args:?}: no line with {part:?}:\n{stderr}");
    Ok(())
}

/// All commands below one, as its help lists them.
fn commands(above: &str) -> Result<Vec<String>> {
    let asked: Vec<&str> = above.split_whitespace().chain(["--help"]).collect();
    let help = ask(&asked)?.stdout;
    let mut found = Vec::new();
    // The program's own commands stand below several headings.
    let is_program = above.is_empty();
    let lists = help.split("\n\n").filter_map(|part| part.trim_start().split_once(":\n"));
    let lists = lists.filter(|(heading, _)| {
        *heading == "Commands" || (is_program && !["Options", "Examples"].contains(heading))
    });
    for line in lists.flat_map(|(_, list)| list.lines()) {
        let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next()).unwrap_or_default();
        if !name.is_empty() && name != "help" {
            let command = format!("{above} {name}").trim().to_owned();
            found.extend(commands(&command)?);
            found.push(command);
        }
    }
    Ok(found)
}

#[test]
fn every_command_has_a_table_row() -> Result<()> {
    let listed: BTreeSet<String> = commands("")?.into_iter().collect();
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.0.to_owned()).collect();
    ensure!(listed == rows, "not in both: {:?}", listed.symmetric_difference(&rows).collect::<Vec<_>>());
    Ok(())
}

/// Whatever answers, answers programs too. What has no `--json` says what it prints by another option, prints JSON or a text
/// for another program anyway, or draws.
#[test]
fn every_reporting_command_offers_json() -> Result<()> {
    let otherwise = [
        ("run", "--output"),
        ("replay", "--output"),
        ("report", "--format"),
        ("audit export", "one line of JSON each"),
        ("schema", "JSON Schema"),
        ("completions", "completion script"),
        ("man", "roff"),
        ("top", "live"),
        ("guard new", "Write the files of a guard"),
        ("guard build", "Build a guard"),
    ];
    for (command, ..) in ROWS.iter().filter(|row| row.3 != Of::Commands) {
        let part = otherwise.iter().find(|(name, _)| name == command).map_or("--json", |(_, part)| part);
        let help = ask(&typed(command, &["--help"]))?.stdout;
        ensure!(help.contains(part), "{command}: no {part} in\n{help}");
    }
    Ok(())
}

#[test]
fn wrong_arguments_are_refused_with_help_hint() -> Result<()> {
    refused(&[], &ask(&[])?, "a command is missing; see `mcpwarden --help`")?;
    refused(&["0"], &ask(&["0"])?, "unrecognized subcommand '0'; see `mcpwarden --help`")?;
    for (command, wrong, part, ..) in ROWS {
        let args = typed(command, wrong);
        refused(&args, &ask(&args)?, part)?;
        // It takes whatever comes as the command that is asked about.
        if command == "match" {
            continue;
        }
        let args = typed(command, &["--no-such"]);
        let said = ask(&args)?;
        refused(&args, &said, "unexpected argument '--no-such' found")?;
        refused(&args, &said, &format!("; see `mcpwarden {command} --help`"))?;
    }
    for (args, part) in [
        (&["calls", "--since", "yesterday"][..], "expected how long ago (7d, 12h), a date"),
        (&["events", "--follow", "--until", "1h"], "cannot be used with '--until <TIME>'"),
        (&["detections", "--severity", "bad"], "[possible values: low, medium, high, critical]"),
        (&["sessions", "set", "s", "mode"], "not provided: <VALUE>"),
        (&["approve", "a:b", "--all"], "cannot be used with"),
        (&["run", "--ring-bytes", "many"], "'--ring-bytes <BYTES>'"),
        (&["run", "--log", "store=loud"], "`loud` is no level"),
        (&["schema", "two\nlines"], "'two lines'"),
    ] {
        refused(args, &ask(args)?, part)?;
    }
    Ok(())
}

#[test]
fn commands_without_running_agent_are_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    // An agent that was killed leaves its socket.
    drop(UnixListener::bind(directory.path().join("dead.sock"))?);
    fs::write(path("file"), "")?;
    for (command, .., args) in rows(Of::Agent) {
        for socket in ["missing.sock", "dead.sock", "file"].map(path) {
            let args = typed(command, &[*args, &["--socket", &socket]].concat());
            // It looks at its terminal first.
            let part = if *command == "top" { "is no terminal" } else { "no agent runs that listens at " };
            refused(&args, &ask(&args)?, part)?;
        }
    }
    Ok(())
}

/// Commands of somebody who may nothing.
struct Nobody {
    directory: TempDir,
}

impl Nobody {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), open.clone())?;
        // A checkout may lie in a home.
        let program = directory.path().join("mcpwarden");
        fs::copy(places::agent(), &program)?;
        fs::set_permissions(program, open)?;
        Ok(Self { directory })
    }

    /// A file that root alone may read and write.
    fn private(&self, name: &str) -> Result<String> {
        let path = self.directory.path().join(name);
        fs::write(&path, "")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path.display().to_string())
    }

    fn asks(&self, args: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(self.directory.path().join("mcpwarden"));
        ends(command.args(args).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY))
    }

    fn is_told(&self, args: &[&str], part: &str) -> Result<()> {
        refused(args, &self.asks(args)?, part)
    }
}

#[test]
fn commands_without_permission_are_refused() -> Result<()> {
    let nobody = Nobody::new()?;
    let socket = nobody.directory.path().join("control.sock");
    let _listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    let (socket, database, file) =
        (socket.display().to_string(), nobody.private("mcpwarden.db")?, nobody.private("file")?);
    for (command, _, _, of, args) in ROWS {
        let (more, part): (&[&str], _) = match of {
            Of::Agent if command == "top" => (&["--socket", &socket], "is no terminal"),
            Of::Agent => (&["--socket", &socket], "you may not use "),
            Of::Events | Of::Pins => (&["--path", &database], "only root and members of"),
            Of::File => (&[], "Permission denied"),
            Of::Host if command == "detach" => {
                let directory = nobody.directory.path().display().to_string();
                let args = typed(command, &["--runtime-dir", &directory]);
                nobody.is_told(&args, "will not use ")?;
                continue;
            }
            Of::Host | Of::Commands | Of::Nothing => continue,
        };
        let args: Vec<&str> = args.iter().map(|word| if *word == "FILE" { &file } else { *word }).collect();
        nobody.is_told(&typed(command, &[&args, more].concat()), part)?;
    }
    // It answers all the same: that is what is wrong.
    let said = nobody.asks(&["doctor", "--json"])?;
    let answer: Value = serde_json::from_str(&said.stdout).with_context(|| said.stderr.clone())?;
    let broken = answer["rows"].as_array().is_some_and(|rows| {
        rows.iter().any(|row| row["verdict"] == "broken" && row["detail"].to_string().contains("CAP_BPF"))
    });
    ensure!(said.code == Some(1) && answer["possible"] == false && broken, "{:?} {answer}", said.code);
    Ok(())
}

#[test]
fn commands_refuse_missing_files() -> Result<()> {
    for (command, .., args) in rows(Of::File) {
        let args: Vec<&str> =
            args.iter().map(|word| if *word == "FILE" { "/nowhere/file" } else { *word }).collect();
        let args = typed(command, &args);
        refused(&args, &ask(&args)?, "No such file")?;
    }
    Ok(())
}

/// A database that sqlite3 makes.
fn made(directory: &Path, name: &str, sql: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    let done = Command::new("sqlite3").arg(&path).arg(sql).status();
    ensure!(done.context("sqlite3 is needed (apt install sqlite3)")?.success(), "sqlite3 failed");
    Ok(path)
}

/// What is wrong with a database, and what is said of it.
#[test]
fn unreadable_databases_are_refused_with_reason() -> Result<()> {
    // `mcpw`: what these databases are known by.
    const OURS: &str = "PRAGMA application_id = 0x6d637077;";
    let directory = tempfile::tempdir()?;
    let made = |name: &str, sql: &str| made(directory.path(), name, sql);
    let newer = made("newer.db", &format!("{OURS} CREATE TABLE x (y); PRAGMA user_version = 99"))?;
    let older = made("older.db", &format!("{OURS} CREATE TABLE events (x); CREATE TABLE pins (x)"))?;
    let other = made("other.db", &format!("{OURS} CREATE TABLE x (y)"))?;
    let foreign = made("foreign.db", "CREATE TABLE x (y)")?;
    let text = directory.path().join("text.db");
    fs::write(&text, "no database ".repeat(1_000))?;
    let missing = directory.path().join("missing.db");
    for (command, .., args) in rows(Of::Events).chain(rows(Of::Pins)) {
        let of = |path: &Path| {
            let path = path.display().to_string();
            let args = typed(command, &[*args, &["--path", &path]].concat());
            ask(&args).map(|said| (format!("{args:?}"), said))
        };
        for (path, part) in [
            (&missing, "no database at "),
            (&newer, "was written by a later version of mcpwarden (schema 99; "),
            (&older, "start the agent once, which brings it up to date"),
            (&other, "is mcpwarden's, and not the database with the table `"),
            (&foreign, "is a database of another program"),
            (&text, "is damaged: file is not a database"),
        ] {
            let (what, said) = of(path)?;
            refused(&[&what], &said, part)?;
        }
        // Of this version by what it says of itself, and without what that has.
        let (_, said) = of(&newer)?;
        let version =
            said.stderr.split_once("this version supports ").and_then(|(_, rest)| rest.split_once(')'));
        let Some((version, _)) = version else { bail!("{command}: {}", said.stderr) };
        let hollow = made(
            &format!("hollow-{version}.db"),
            &format!(
                "{OURS} CREATE TABLE IF NOT EXISTS events (x); CREATE TABLE IF NOT EXISTS pins (x); PRAGMA user_version = {version}"
            ),
        )?;
        let (what, said) = of(&hollow)?;
        refused(&[&what], &said, "cannot read ")?;
    }
    Ok(())
}
