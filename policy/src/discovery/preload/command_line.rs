//! Options by which a program loads code besides what its command line says that it runs, and whether a declaration has them.

use super::super::options::{NONE, Options, is_in};
use super::super::{Declared, names, tables};

/// The options of programs that load code.
#[derive(Clone, Copy, Debug)]
pub struct CodeOptions {
    /// The programs, without their version.
    pub programs: &'static str,
    /// Options with the code, or with the file that has it, as their value.
    pub options: &'static str,
    /// Where they are documented.
    pub source: &'static str,
    /// Options with a value, those in `options` or not.
    others: &'static Options,
    /// Whether letters can stand together (`-um`), with the value of the last one behind it (`-mNAME`).
    has_letters: bool,
    /// Options behind which all belongs to what runs.
    last: &'static str,
    /// Words that may stand in front of the options.
    subcommands: &'static str,
}

const fn words(
    programs: &'static str,
    options: &'static str,
    source: &'static str,
    others: &'static Options,
) -> CodeOptions {
    CodeOptions { programs, options, source, others, has_letters: false, last: "", subcommands: "" }
}

const fn letters(
    programs: &'static str,
    options: &'static str,
    source: &'static str,
    others: &'static Options,
) -> CodeOptions {
    CodeOptions { has_letters: true, ..words(programs, options, source, others) }
}

/// ld.so(8)
const LOADER: Options =
    Options::with(&["--argv0 --glibc-hwcaps-mask --glibc-hwcaps-prepend --inhibit-rpath"]);

/// All that are known.
pub const CODE_OPTIONS: &[CodeOptions] = &[
    words(
        "node nodejs electron",
        "-r --require --import --loader --experimental-loader --snapshot-blob -e --eval -p --print -pe",
        "nodejs.org/api/cli.html",
        &tables::NODE,
    ),
    CodeOptions {
        subcommands: "run x",
        ..words(
            "bun",
            "-r --require --preload --import -e --eval -p --print",
            "bun.com/docs/runtime",
            &tables::BUN,
        )
    },
    CodeOptions {
        subcommands: "run serve x",
        ..words("deno", "--preload --import --require", "docs.deno.com/runtime/reference/cli", &tables::DENO)
    },
    CodeOptions {
        last: "-m -c",
        ..letters("python pypy", "-m -c -W -X", "docs.python.org/3/using/cmdline.html", &tables::PYTHON)
    },
    letters("ruby", "-r -e -I", "ruby(1)", &tables::SCRIPTING),
    letters("perl", "-M -m -d -e -E -I", "perlrun(1)", &tables::SCRIPTING),
    letters("php", "-d -c -z -r --php-ini --zend-extension --run --define", "php(1)", &tables::SCRIPTING),
    letters("lua luajit", "-l -e", "lua(1)", &NONE),
    letters(
        "julia",
        "-L --load -e --eval -E --print -J --sysimage",
        "docs.julialang.org",
        &tables::SCRIPTING,
    ),
    CodeOptions {
        last: "-jar -m --module",
        ..words(
            "java",
            "-javaagent -agentpath -agentlib -Xbootclasspath/a -Xbootclasspath/p --patch-module --upgrade-module-path",
            "java(1)",
            &tables::JAVA,
        )
    },
    CodeOptions {
        subcommands: "exec",
        ..words(
            "dotnet",
            "--additional-deps --additionalprobingpath --depsfile",
            "learn.microsoft.com/dotnet/core/tools/dotnet",
            &tables::DOTNET,
        )
    },
    words(
        "ld-linux ld-linux-x86-64 ld-linux-aarch64 ld-musl-x86_64 ld-musl-aarch64 ld.so ld64",
        "--preload --audit --library-path",
        "ld.so(8)",
        &LOADER,
    ),
];

/// Most arguments that are looked at.
const MAX_ARGS: usize = 256;

/// An option that stands in a command line, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found<'a> {
    name: &'static str,
    value: &'a str,
}

/// The names of the options in front of what this program runs that load code which the declaration does not name: each once, in
/// the order of the command line.
pub fn undeclared_options(
    declared: &Declared,
    argv: &[String],
    executable: Option<&str>,
) -> Vec<&'static str> {
    let mut undeclared: Vec<&'static str> = Vec::new();
    for Found { name, value } in code_options(argv, executable) {
        if !undeclared.contains(&name) && !names_code(declared, value) {
            undeclared.push(name);
        }
    }
    undeclared
}

/// Whether a declaration names this code: as a word, as the value of an option, or in a line for a shell. What a runner of scripts
/// that it names brings along is the runner's.
fn names_code(declared: &Declared, value: &str) -> bool {
    let words = || std::iter::once(&declared.command).chain(&declared.args).map(String::as_str);
    let lines = || words().flat_map(str::split_whitespace).map(|word| word.trim_matches(['"', '\'']));
    let is_value = |word: &str| {
        let option = word.strip_suffix(value);
        option.is_some_and(|option| option.is_empty() || option.starts_with('-'))
    };
    let is_of_runner = |word: &str| {
        let runner = names::base(word).split('@').next().unwrap_or_default();
        is_in(tables::NODE_RUNNERS, runner) && value.contains(&format!("/node_modules/{runner}/"))
    };
    words().chain(lines()).any(|word| is_value(word) || is_of_runner(word))
}

/// The options of a program that load code. It is what runs, whatever it is called.
fn code_options<'a>(argv: &'a [String], executable: Option<&str>) -> Vec<Found<'a>> {
    let Some((program, args)) = argv.split_first() else { return Vec::new() };
    let row = |path: &str| CODE_OPTIONS.iter().find(|row| is_in(row.programs, family(path)));
    let Some(row) = executable.and_then(row).or_else(|| row(program)) else { return Vec::new() };
    let args: Vec<&str> = args.iter().take(MAX_ARGS).map(String::as_str).collect();
    match args.as_slice() {
        [subcommand, rest @ ..] if is_in(row.subcommands, subcommand) => row.read(rest),
        args => row.read(args),
    }
}

/// The name of a program without its version: `python3.12` is `python`, `ld-linux-x86-64.so.2` is `ld-linux-x86-64`.
fn family(path: &str) -> &str {
    let name = names::base(path).trim_start_matches('-');
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let name = name.split(".so.").next().unwrap_or(name);
    let is_version = |last: char| last.is_ascii_digit() || matches!(last, '.' | '-');
    if name.starts_with("ld") { name } else { name.trim_end_matches(is_version) }
}

impl CodeOptions {
    fn read<'a>(&self, args: &[&'a str]) -> Vec<Found<'a>> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-') && !matches!(**arg, "-" | "--"))
        {
            let next = args.get(at + 1).copied();
            let (option, values) = self.option(arg, next);
            let ends = is_in(self.last, arg) || option.is_some_and(|option| is_in(self.last, option.name));
            found.extend(option.filter(|option| brings_code(option.name, option.value)));
            if ends {
                break;
            }
            at += 1 + values;
        }
        found
    }

    /// The option in a word that loads code, if there is one, and how many of the next words are its value.
    fn option<'a>(&self, arg: &'a str, next: Option<&'a str>) -> (Option<Found<'a>>, usize) {
        let known = |name: &str| self.options.split_ascii_whitespace().find(|known| *known == name);
        let found = |name, value| Some(Found { name, value });
        if let Some(name) = known(arg) {
            return (next.and_then(|next| found(name, next)), 1);
        }
        let mut joined = ['=', ':']
            .into_iter()
            .filter_map(|by| arg.split_once(by))
            .filter(|(name, _)| !self.has_letters || name.starts_with("--"));
        if let Some((name, value)) = joined.find_map(|(name, value)| Some((known(name)?, value))) {
            return (found(name, value), 0);
        }
        if arg.starts_with("--") || self.others.has_one(arg) {
            return (None, usize::from(self.others.has_one(arg)));
        }
        if !self.has_letters {
            // Node.js takes `-rFILE`.
            let attached = known("-r").and_then(|name| found(name, arg.strip_prefix("-r")?));
            return (attached, 0);
        }
        let takes = |letter: char| {
            let name = format!("-{letter}");
            known(&name).map(Some).or_else(|| self.others.has_one(&name).then_some(None))
        };
        let letters = arg.get(1..).unwrap_or_default();
        let first =
            letters.char_indices().find_map(|(at, letter)| Some((at + letter.len_utf8(), takes(letter)?)));
        let Some((end, name)) = first else { return (None, 0) };
        let attached = letters.get(end..).filter(|rest| !rest.is_empty());
        let value = attached.or(next);
        (name.zip(value).and_then(|(name, value)| found(name, value)), usize::from(attached.is_none()))
    }
}

/// Whether this value of an option brings code; of most every one does.
fn brings_code(option: &str, value: &str) -> bool {
    match option {
        // The category of a warning is a class, whose module is loaded: `error::package.module.Category`.
        "-W" => value.split(':').nth(2).is_some_and(|category| category.contains('.')),
        "-X" => value.starts_with("presite="),
        // Of Perl a debugger (`-d:Name`), of PHP a setting.
        "-d" | "--define" => {
            let settings =
                ["auto_prepend_file", "auto_append_file", "extension", "zend_extension", "ffi.preload"];
            let name = value.split('=').next().unwrap_or(value);
            value.starts_with(':') || settings.contains(&name) || name == "opcache.preload"
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::ServerId;

    fn declared(line: &[&str]) -> Declared {
        let (command, args) = line.split_first().unwrap();
        Declared {
            id: ServerId("ours".into()),
            command: (*command).into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            executables: Vec::new(),
            interpreter: None,
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// What runs, and the options that load code which `run-it` does not name.
    #[test]
    fn options_that_load_code_are_found_by_name() {
        let cases: [(&str, &[&str]); 62] = [
            ("node s.js", &[]),
            ("node --require x s.js", &["--require"]),
            ("node --require=x s.js", &["--require"]),
            ("node -r x s.js", &["-r"]),
            ("node -r./x.js s.js", &["-r"]),
            ("node --import data:text/javascript,1 s.js", &["--import"]),
            ("node --loader ./l.mjs s.js", &["--loader"]),
            ("node --experimental-loader=./l.mjs s.js", &["--experimental-loader"]),
            ("node --max-old-space-size=1 --import x -r y s.js", &["--import", "-r"]),
            ("node --conditions x -r y s.js", &["-r"]),
            ("node -r x -r y s.js", &["-r"]),
            ("node s.js --require x", &[]),
            ("node -- s.js -r x", &[]),
            ("node --inspect s.js -r x", &[]),
            ("node -e 1", &["-e"]),
            ("node --snapshot-blob=b s.js", &["--snapshot-blob"]),
            ("/usr/bin/nodejs --require x", &["--require"]),
            ("node --require", &[]),
            ("python3 s.py", &[]),
            ("python3 -m evil s.py", &["-m"]),
            ("python3 -mevil", &["-m"]),
            ("python3.12 -um evil", &["-m"]),
            ("python3 -c pass", &["-c"]),
            ("python3 -Ic pass -m x", &["-c"]),
            ("python3 -X presite=evil s.py", &["-X"]),
            ("python3 -Xpresite=evil s.py", &["-X"]),
            ("python3 -X utf8 s.py", &[]),
            ("python3 -W error s.py", &[]),
            ("python3 -W error::evil.Warn s.py", &["-W"]),
            ("python3 -Werror::evil.Warn s.py", &["-W"]),
            ("python3 -W ignore::DeprecationWarning s.py", &[]),
            ("python3 s.py -m evil", &[]),
            ("python3 -u -B s.py -c x", &[]),
            ("ruby -r evil s.rb", &["-r"]),
            ("ruby -revil s.rb", &["-r"]),
            ("ruby -w -I /x s.rb", &["-I"]),
            ("ruby s.rb -r evil", &[]),
            ("perl -MEvil s.pl", &["-M"]),
            ("perl -w -MEvil=x s.pl", &["-M"]),
            ("perl -mEvil s.pl", &["-m"]),
            ("perl -d:Evil s.pl", &["-d"]),
            ("perl -wT s.pl", &[]),
            ("java -javaagent:/x.jar -jar s.jar", &["-javaagent"]),
            ("java -agentpath:/x.so -agentlib:jdwp=y -jar s.jar", &["-agentpath", "-agentlib"]),
            ("java -Xbootclasspath/a:/x.jar Main", &["-Xbootclasspath/a"]),
            ("java --patch-module m=/x Main", &["--patch-module"]),
            ("java -Xmx1g -cp /x -jar s.jar", &[]),
            ("java -jar s.jar -javaagent:/x.jar", &[]),
            ("/lib64/ld-linux-x86-64.so.2 --preload /x.so /bin/s", &["--preload"]),
            ("/lib64/ld-linux-x86-64.so.2 --argv0 a --audit /x.so /bin/s", &["--audit"]),
            ("/lib/ld-musl-x86_64.so.1 --library-path /x /bin/s", &["--library-path"]),
            ("deno run --preload x.ts s.ts", &["--preload"]),
            ("deno run -A --require=x.cjs s.ts", &["--require"]),
            ("deno run s.ts --preload x", &[]),
            ("bun --preload x.ts s.ts", &["--preload"]),
            ("bun -r x.ts s.ts", &["-r"]),
            ("php -d auto_prepend_file=/x s.php", &["-d"]),
            ("php -dextension=/x.so s.php", &["-d"]),
            ("php -d memory_limit=1G s.php", &[]),
            ("lua -l evil s.lua", &["-l"]),
            ("dotnet exec s.dll", &[]),
            ("mcp-server --require x", &[]),
        ];
        for (line, expected) in cases {
            let found = undeclared_options(&declared(&["run-it"]), &words(line), None);
            assert_eq!(found, expected, "{line}");
        }
        // It is what runs, and not what it calls itself.
        for (name, executable, expected) in [
            ("server", Some("/usr/bin/node"), &["-r"][..]),
            ("node", Some("/srv/server"), &["-r"]),
            ("server", Some("/usr/bin/node (deleted)"), &["-r"]),
            ("server", None, &[]),
        ] {
            let found =
                undeclared_options(&declared(&["run-it"]), &words(&format!("{name} -r x s.js")), executable);
            assert_eq!(found, expected, "{name} {executable:?}");
        }
    }

    /// A declaration, what runs for it, and the options that are not its own.
    #[test]
    fn declared_code_is_no_finding() {
        let cases: [(&[&str], &str, &[&str]); 16] = [
            (&["node", "-r", "./x.js", "s.js"], "node -r ./x.js s.js", &[]),
            (&["node", "--require=./x.js", "s.js"], "node -r ./x.js s.js", &[]),
            (&["node", "-r./x.js", "s.js"], "node --require ./x.js s.js", &[]),
            (&["node", "-r", "./x.js", "s.js"], "node -r ./y.js s.js", &["-r"]),
            (&["node", "-r", "./x.js", "s.js"], "node -r ./x.js --import y s.js", &["--import"]),
            (&["node", "-r", "./xx.js", "s.js"], "node -r x.js s.js", &["-r"]),
            (&["sh", "-c", "exec node --import './x.mjs' s.js"], "node --import ./x.mjs s.js", &[]),
            (&["/srv/s.js"], "node --import=evil /srv/s.js", &["--import"]),
            (&["uv", "run", "--module", "pkg.server"], "python3 -m pkg.server", &[]),
            (&["python3", "-m", "pkg"], "/usr/bin/python3.12 -m pkg", &[]),
            (&["python3", "s.py"], "python3 -m pdb s.py", &["-m"]),
            (&["python3", "-c", "pass"], "python3 -c pass", &[]),
            (
                &["npx", "tsx", "s.ts"],
                "node --require /h/node_modules/tsx/dist/preflight.cjs --import file:///h/node_modules/tsx/dist/loader.mjs s.ts",
                &[],
            ),
            (
                &["npx", "-y", "tsx@4", "s.ts"],
                "node --require /h/node_modules/tsx/dist/preflight.cjs s.ts",
                &[],
            ),
            (&["npx", "tsx", "s.ts"], "node --require /h/node_modules/evil/tsx.cjs s.ts", &["--require"]),
            (&["npm", "start"], "node --require /h/node_modules/tsx/dist/preflight.cjs s.ts", &["--require"]),
        ];
        for (declaration, line, expected) in cases {
            let found = undeclared_options(&declared(declaration), &words(line), None);
            assert_eq!(found, expected, "{declaration:?}: {line}");
        }
    }

    /// The page that lists them has all of them, each with what documents it.
    #[test]
    fn documented_options_match_the_table() {
        let page = std::fs::read_to_string("../docs/reference/events.md").unwrap();
        for CodeOptions { programs, options, source, .. } in CODE_OPTIONS {
            let list =
                |words: &str| words.split(' ').map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let row = format!("| {} | {} | {source} |", list(programs), list(options));
            assert!(page.contains(&row), "{row}");
        }
    }
}
