//! Runners of scripts, modules and web applications by their own rules: `mcp run FILE`, `npx tsx FILE`, `uvicorn MODULE:app`.

use super::{Command, targets};
use crate::discovery::options::{self, is_in};
use crate::discovery::piece::Role;
use crate::discovery::tables;

impl Command {
    /// A program that runs another script by its own rules, if `name` is one.
    pub(super) fn runner(&mut self, name: &str, args: &[&str], level: usize) -> bool {
        match runs(name, args) {
            // `fastmcp run URL`
            Some(Runs::Script([url, ..])) if is_in(tables::MCP_RUNNERS, name) && targets::is_url(url) => {
                self.file(Role::Script, &targets::place(url));
            }
            Some(Runs::Script(script)) if is_in(tables::MCP_RUNNERS, name) => {
                self.file(Role::Script, script.first().unwrap_or(&""))
            }
            Some(Runs::Script(script)) => self.script(script, level),
            Some(Runs::Module(module)) => {
                self.enter(options::value(args, "--app-dir --chdir"));
                self.push(Role::Module, module, None);
            }
            Some(Runs::Watched(module, args)) => self.module(module, args, level),
            Some(Runs::Text(text)) => self.text(&text, &[], level),
            None => return false,
        }
        true
    }
}

/// What a runner runs.
pub(super) enum Runs<'a, 'b> {
    /// A script and its arguments; not empty.
    Script(&'b [&'a str]),
    Module(&'a str),
    /// A module as Python runs it, and its arguments.
    Watched(&'a str, &'b [&'a str]),
    /// A shell's text.
    Text(String),
}

/// What the runner of this name runs; `None`: it is no runner, or nothing is there to be run.
pub(super) fn runs<'a, 'b>(name: &str, args: &'b [&'a str]) -> Option<Runs<'a, 'b>> {
    let script = if is_in(tables::MCP_RUNNERS, name) {
        let (word, rest) = args.split_first()?;
        is_in(tables::MCP_RUNNER_SUBCOMMANDS, word).then(|| tables::MCP_RUNNER.behind(rest))?
    } else if is_in(tables::WEB_RUNNERS, name) {
        let application = tables::WEB_RUNNER.behind(args).first()?;
        return Some(Runs::Module(application.split(':').next().unwrap_or(application)));
    } else if is_in(tables::PYTHON_TOOLS, name) {
        let rest = match args {
            ["run", rest @ ..] => rest,
            rest => rest,
        };
        let before = tables::PYTHON_TOOL.before(rest);
        if let Some(at) = before.iter().position(|arg| matches!(*arg, "-m" | "--module")) {
            let (module, args) = rest.get(at + 1..)?.split_first()?;
            return Some(Runs::Watched(module, args));
        }
        tables::PYTHON_TOOL.behind(rest)
    } else if name == "nodemon" {
        if let Some(text) = options::value(args, "-x --exec") {
            let behind = tables::NODEMON.behind(args).iter();
            return Some(Runs::Text(
                std::iter::once(&text).chain(behind).copied().collect::<Vec<_>>().join(" "),
            ));
        }
        tables::NODEMON.behind(args)
    } else if is_in(tables::NODE_RUNNERS, name) {
        match tables::NODE_RUNNER.behind(args) {
            [word, rest @ ..] if is_in(tables::NODE_RUNNER_SUBCOMMANDS, word) => {
                tables::NODE_RUNNER.behind(rest)
            }
            rest => rest,
        }
    } else {
        return None;
    };
    (!script.is_empty()).then_some(Runs::Script(script))
}
