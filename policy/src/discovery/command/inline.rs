//! Programs that stand in an argument (`python -c`, `node -e`, `Rscript -e`): what their text says that they run. It is looked through for the
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

/// Libraries that come with other languages, or that a server is built with: of R, Julia, Ruby, Perl, Lua and Elixir.
const LIBRARIES: &str = "stats utils methods tools base parallel devtools pkgload renv rlang jsonlite Pkg Base Logging LinearAlgebra Sockets \
    Dates Distributed Revise JSON JSON3 HTTP json bundler rubygems logger set time uri net socket stringio fileutils yaml pp optparse \
    open3 mcp fast_mcp strict warnings utf8 feature lib vars parent base constant FindBin JSON::PP POSIX Data::Dumper cjson lfs IO \
    Mix System Application Process Code File Enum Logger Kernel";
/// Words behind which a file stands, in quotes.
const FILES: [&str; 12] = [
    "source(",
    "include(",
    "include ",
    "include_once ",
    "require_once ",
    "require_once(",
    "require_relative ",
    "load ",
    "load(",
    "do ",
    "dofile(",
    "require_file(",
];
/// Words behind which a library stands.
const USES: [&str; 7] =
    ["library(", "require(", "require ", "requireNamespace(", "using ", "import ", "use "];

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

/// What the programs in arguments of another language run, with the libraries that options load: `PACKAGE::f()` and `library(PACKAGE)`
/// of R, `using MODULE`, `require 'LIBRARY'`, `use MODULE`, `include("FILE")`, `Module.f()` of Elixir; where there is one of these.
pub(super) fn of_code<'a>(language: &str, libraries: &[&'a str], texts: &[&'a str]) -> Option<Inline<'a>> {
    let statements =
        texts.iter().flat_map(|text| text.split([';', '\n'])).map(str::trim).take(MAX_STATEMENTS);
    let found = statements.filter_map(|statement| of_statement(language, statement));
    let loaded = libraries.iter().map(|library| of_library(library));
    // `use v5.36`, `use 5.010`
    let is_version =
        |name: &str| name.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
    let is_own =
        |one: &Inline<'_>| !matches!(one, Inline::Module(name) if is_in(LIBRARIES, name) || is_version(name));
    the_one(loaded.chain(found).filter(is_own))
}

fn of_statement<'a>(language: &str, statement: &'a str) -> Option<Inline<'a>> {
    if let Some(path) = FILES.iter().find_map(|call| quoted(statement, call)) {
        return Some(Inline::Script(path));
    }
    let used = USES.iter().find_map(|word| statement.strip_prefix(word));
    if let Some(used) = used.map(|used| used.trim_start_matches([' ', '(', '\'', '"'])) {
        return Some(of_library(used)).filter(|library| *library != Inline::Module(""));
    }
    let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
    match language {
        "Rscript" | "R" => {
            let (before, _) = statement.split_once("::")?;
            Some(Inline::Module(before.rsplit(|character| !is_name(character)).next()?))
        }
        "elixir" => {
            let (called, _) = statement.split_once('(').unwrap_or((statement, ""));
            let (module, _) = called.rsplit_once('.')?;
            let is_module =
                module.starts_with(|first: char| first.is_ascii_uppercase()) && module.chars().all(is_name);
            is_module.then_some(Inline::Module(module))
        }
        _ => None,
    }
    .filter(|one| !matches!(one, Inline::Module("")))
}

/// A library by its name, of which other parts may follow (`kelp/server`, `Kelp: serve`), or a file.
fn of_library(text: &str) -> Inline<'_> {
    if text.starts_with(['/', '.']) {
        let end = text.find(['\'', '"', ')', ' ']).unwrap_or(text.len());
        return Inline::Script(text.get(..end).unwrap_or(text));
    }
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | ':' | '.');
    let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
    Inline::Module(text.get(..end).unwrap_or(text).trim_end_matches([':', '.']))
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

    #[test]
    fn text_of_other_languages_says_what_it_runs() {
        use Inline::{Module, Script};
        type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Option<Inline<'a>>);
        let cases: [Case<'_>; 13] = [
            ("Rscript", &[], &["kelp::serve(tools = reef::tools())"], Some(Module("kelp"))),
            ("Rscript", &[], &["devtools::load_all('/srv/x')", "x <- kelp::serve()"], Some(Module("kelp"))),
            ("Rscript", &[], &["library(\"kelp\"); serve()"], Some(Module("kelp"))),
            ("Rscript", &[], &["library(kelp); evil::run()"], None),
            ("Rscript", &[], &["cat(1)"], None),
            ("julia", &[], &["using Pkg; Pkg.activate(\"/srv/x\"); using Kelp: serve"], Some(Module("Kelp"))),
            ("julia", &[], &["include(\"/srv/kelp.jl\")"], Some(Script("/srv/kelp.jl"))),
            ("ruby", &["json", "kelp_mcp"], &["KelpMCP.run"], Some(Module("kelp_mcp"))),
            ("ruby", &["./kelp.rb"], &["run"], Some(Script("./kelp.rb"))),
            ("ruby", &["kelp_mcp"], &["require 'evil'"], None),
            ("perl", &[], &["use v5.36; use Kelp::MCP qw(run); run()"], Some(Module("Kelp::MCP"))),
            ("elixir", &[], &["Kelp.Server.start(:stdio)"], Some(Module("Kelp.Server"))),
            ("elixir", &[], &["IO.puts(\"ü\")"], None),
        ];
        for (language, libraries, texts, expected) in cases {
            assert_eq!(of_code(language, libraries, texts), expected, "{language}: {texts:?}");
        }
    }
}
