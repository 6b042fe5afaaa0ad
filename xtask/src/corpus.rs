//! `cargo xtask corpus servers`: honest data for measuring the detector. It installs pinned, published MCP servers, and stores the
//! definitions that they list and their answers to calls, one file for each server.
//!
//! The servers are third-party code, and untrusted: no script of theirs runs during installation, and each one runs in a
//! [`sandbox`]. The stored texts are theirs as well: they stay in a cache directory, and out of the repository.

mod answers;
mod arguments;
mod install;
mod sandbox;
mod session;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::packages::Packages;
use crate::util::{doing, exists, root, target_dir};
use session::Session;
use table::Package;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Install the published servers of tests/corpus/servers.tsv, and store what they list and answer
    Servers(Options),
}

#[derive(clap::Args)]
struct Options {
    /// Where to store the lists and answers [default: target/servers-cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Rounds of calls with other arguments, of every tool that does not declare that it writes
    #[arg(long, value_name = "N", default_value_t = 16)]
    rounds: usize,
    /// Only the servers with this text in their name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

/// Collects data for measuring the detector.
///
/// # Errors
/// A tool is missing, the table is invalid, or the cache cannot be written. A server that fails is reported, and left out.
pub fn corpus(args: &Args) -> Result<ExitCode> {
    let What::Servers(options) = &args.what;
    programs()?;
    let path = root().join("tests/corpus/servers.tsv");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let packages = table::parse(&text).with_context(|| format!("in {}", path.display()))?;
    let cache = options.cache.clone().unwrap_or_else(|| target_dir().join("servers-cache"));
    let filter = options.filter.as_deref().unwrap_or_default();
    let mut failed = Vec::new();
    for package in packages.iter().filter(|package| package.name.contains(filter)) {
        doing(&format!("{} {}", package.name, package.version));
        match collect(package, options.rounds, &cache) {
            Ok(summary) => println!("    {summary}"),
            Err(error) => {
                println!("    left out: {error:#}");
                failed.push(package.name.as_str());
            }
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} left out: {}", failed.len(), failed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn programs() -> Result<()> {
    let wanted: Vec<&str> = [("bwrap", "bubblewrap"), ("npm", "npm"), ("setpriv", "util-linux")]
        .into_iter()
        .filter_map(|(program, package)| (!exists(program)).then_some(package))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    doing(&format!("installing {}: untrusted servers run in a sandbox", wanted.join(" ")));
    Packages::default().install(&wanted, "install bubblewrap, Node.js and util-linux by hand, then try again")
}

/// Installs, lists and calls one server, and stores its texts.
fn collect(package: &Package, rounds: usize, cache: &Path) -> Result<String> {
    let directory = install::install(package, &target_dir().join("servers"))?;
    let mut session = Session::start(sandbox::command(package, &directory)?)?;
    let list = list(package, &mut session)?;
    let tools = list["tools"].as_array().cloned().unwrap_or_default();
    let answers = answers::collect(&package.name, &tools, rounds, &mut session);
    store(&cache.join(format!("{}.json", package.slug())), &format!("{list:#}"))?;
    let lines: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    store(&cache.join("answers").join(format!("{}.jsonl", package.slug())), &lines)?;
    Ok(format!("{} tools, {} answers", tools.len(), answers.len()))
}

fn list(package: &Package, session: &mut Session) -> Result<Value> {
    let instructions = session.initialize()?;
    Ok(json!({
        "package": package.name,
        "version": package.version,
        "registry": package.registry.name(),
        "licence": package.licence,
        "instructions": instructions,
        "tools": session.list("tools", "tools")?,
        // Few servers have any of these.
        "prompts": session.list("prompts", "prompts").unwrap_or_default(),
        "resources": session.list("resources", "resources").unwrap_or_default(),
    }))
}

/// Writes a file that is there whole or not at all.
fn store(path: &Path, text: &str) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    let directory = path.parent().with_context(fail)?;
    fs::create_dir_all(directory).with_context(fail)?;
    let part = path.with_extension("part");
    fs::write(&part, text).with_context(fail)?;
    fs::rename(&part, path).with_context(fail)
}
