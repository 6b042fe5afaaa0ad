//! Programs that stand in an argument (`python -c`, `node -e`): what their text says that they run. It is looked through for the
//! usual forms of a server's start, and is not understood.

use crate::discovery::options::is_in;

/// Statements that are looked at.
const MAX_STATEMENTS: usize = 64;
/// Modules that come with Python, or that a server is built with.
const PYTHON_MODULES: &str = "sys os runpy asyncio importlib json logging warnings signal pathlib site functools typing subprocess time re \
    anyio uvloop uvicorn dotenv mcp fastmcp multiprocessing threading traceback io types builtins __future__ pkg_resources";
/// Modules that come with Node, or that a server is built with.
const NODE_MODULES: &str = "fs path os url util http https net tls events stream child_process process module worker_threads crypto \
    dotenv dotenv/config tsx ts-node ts-node/register source-map-support source-map-support/register";

/// What is run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inline<'a> {
    Script(&'a str),
    Module(&'a str),
    Package(&'a str),
}

/// `runpy.run_path('FILE')`, `exec(open('FILE').read())`, `runpy.run_module('NAME')`, `from NAME import main; main()`, where there is nothing
/// else of the kind.
pub(super) fn of_python(text: &str) -> Option<Inline<'_>> {
    let statements = text.split([';', '\n']).map(str::trim).take(MAX_STATEMENTS);
    the_one(statements.filter_map(of_python_statement))
}

/// What a text runs, if that is one thing: what else it loads may be what really serves.
fn the_one<'a>(mut all: impl Iterator<Item = Inline<'a>>) -> Option<Inline<'a>> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

fn of_python_statement(statement: &str) -> Option<Inline<'_>> {
    if let Some(path) =
        ["run_path(", "exec(open(", "execfile("].iter().find_map(|call| quoted(statement, call))
    {
        return Some(Inline::Script(path));
    }
    let called =
        ["run_module(", "import_module(", "__import__("].iter().find_map(|call| quoted(statement, call));
    let imported = || {
        let (word, rest) = statement.split_once(char::is_whitespace)?;
        matches!(word, "from" | "import").then(|| rest.trim_start().split([' ', ',', '(']).next())?
    };
    let module = called.or_else(imported)?;
    let first = module.split('.').next().unwrap_or(module);
    (!first.is_empty() && !is_in(PYTHON_MODULES, first)).then_some(Inline::Module(module))
}

/// `require('NAME')`, `import('FILE')`, `import 'NAME'`: where there is one of these.
pub(super) fn of_node(text: &str) -> Option<Inline<'_>> {
    let statements = text.split([';', '\n']).map(str::trim).take(MAX_STATEMENTS);
    let loaded = statements.filter_map(|statement| {
        ["require(", "import(", "import ", " from "].iter().find_map(|call| quoted(statement, call))
    });
    let own = loaded.filter(|name| !name.starts_with("node:") && !is_in(NODE_MODULES, name));
    the_one(own.map(|name| {
        let name = name.strip_prefix("file://").unwrap_or(name);
        if name.starts_with(['.', '/']) { Inline::Script(name) } else { Inline::Package(name) }
    }))
}

/// The text in quotes right behind these words.
fn quoted<'a>(statement: &'a str, call: &str) -> Option<&'a str> {
    let (_, rest) = statement.split_once(call)?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"' | '`'))?;
    rest.get(1..)?.split_once(quote).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_argument_says_what_it_runs() {
        use Inline::{Module, Package, Script};
        let cases = [
            (
                "import runpy; runpy.run_path('/opt/a/server.py', run_name='__main__')",
                Some(Script("/opt/a/server.py")),
            ),
            ("exec(open(\"a.py\").read())", Some(Script("a.py"))),
            ("import runpy\nrunpy.run_module('kelp.server')", Some(Module("kelp.server"))),
            ("from kelp_mcp.server import main; main()", Some(Module("kelp_mcp.server"))),
            ("import sys, os; import kelp_mcp; kelp_mcp.run()", Some(Module("kelp_mcp"))),
            ("import asyncio; from kelp import main; asyncio.run(main())", Some(Module("kelp"))),
            ("exec(open('/tmp/evil.py').read()); import kelp_mcp", None),
            ("print(1)", None),
            ("import sys; sys.exit()", None),
            ("from", None),
            ("run_path('a", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of_python(text), expected, "{text}");
        }
        let cases = [
            ("require('@bay/kelp-mcp').start()", Some(Package("@bay/kelp-mcp"))),
            ("import('/srv/kelp/index.mjs')", Some(Script("/srv/kelp/index.mjs"))),
            ("import 'dotenv/config'; import { run } from \"kelp-mcp\"; run()", Some(Package("kelp-mcp"))),
            ("import('file:///srv/kelp.js')", Some(Script("/srv/kelp.js"))),
            ("const fs = require('node:fs')", None),
            ("require('./evil.js');require('kelp-mcp')", None),
            ("1 + 1", None),
            ("require(`", None),
            ("require('ü", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of_node(text), expected, "{text}");
        }
    }
}
