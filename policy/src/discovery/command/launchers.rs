//! Interpreters, package runners and build tools: what their arguments say that runs.

use super::inline::{self, Inline};
use super::scripts::DIRECTORIES;
use super::tasks::is_generic_script;
use super::{Command, is_assignment, is_launcher, is_no_server, is_python, plain, runs};
use crate::discovery::options::{self, Options, is_in};
use crate::discovery::piece::Role;
use crate::discovery::{names, places, shell, tables, wrappers};

impl Command {
    pub(super) fn interpreted(&mut self, args: &[&str], options: &Options, level: usize) {
        let is_inline = |arg: &&str| matches!(*arg, "-e" | "--eval" | "-p" | "--print" | "-pe");
        match options.before(args).iter().position(is_inline) {
            Some(at) => self.inline(args.get(at + 1).and_then(|text| inline::of_node(text))),
            None => self.script(options.behind(args), level),
        }
    }

    /// Interpreters of other languages: a script, or programs in arguments and the libraries that are loaded for them.
    pub(super) fn scripting(&mut self, language: &str, args: &[&str], level: usize) {
        let known = tables::CODE.iter().find(|(names, ..)| is_in(names, language));
        let (code, libraries) = known.map_or(("", ""), |(_, code, libraries)| (*code, *libraries));
        let options = if is_in(libraries, "-l") { &tables::LUA } else { &tables::SCRIPTING };
        // `-we TEXT`: flags of ruby and perl in front
        let is_code = |arg: &&str| {
            is_in(code, arg)
                || arg.strip_prefix('-').and_then(|letters| letters.strip_suffix('e')).is_some_and(|flags| {
                    is_in(code, "-e")
                        && !flags.is_empty()
                        && flags.chars().all(|flag| "nplwasi".contains(flag))
                })
        };
        let (mut own, mut texts, mut rest) = (Vec::new(), Vec::new(), args);
        while let Some(at) = options.before(rest).iter().position(is_code) {
            own.extend(rest.iter().take(at));
            texts.extend(rest.get(at + 1));
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        if texts.is_empty() {
            return self.script(options.behind(args), level);
        }
        own.extend(options.before(rest));
        let libraries: Vec<&str> = options::all(&own, libraries).collect();
        self.inline(inline::of_code(language, &libraries, &texts));
    }

    /// What a program in an argument (`-c`, `-e`) runs. The interpreter loads no file of its own accord.
    fn inline(&mut self, runs: Option<Inline<'_>>) {
        match runs {
            Some(Inline::Script(path)) => self.file(Role::Script, path),
            Some(Inline::Module(name)) => self.push(Role::Module, name, None),
            Some(Inline::Package(name)) => self.push(Role::Package, name, None),
            None => {}
        }
    }

    pub(super) fn deno(&mut self, args: &[&str], level: usize) {
        let rest = match tables::DENO.behind(args) {
            ["run" | "serve" | "x", rest @ ..] => tables::DENO.behind(rest),
            rest => rest,
        };
        match rest.split_first() {
            Some((spec, args))
                if spec.starts_with("npm:") || spec.starts_with("jsr:") || spec.contains("://") =>
            {
                self.spec(spec, args, level);
            }
            Some((&"task", rest)) => {
                let own = tables::DENO_TASK.before(rest);
                self.enter(options::value(own, DIRECTORIES));
                let packages: Vec<&str> = options::all(own, "-f --filter").collect();
                self.scripts(&packages, tables::DENO_TASK.behind(rest).first().copied());
            }
            Some((&("install" | "eval" | "repl" | "test" | "compile"), _)) | None => {}
            Some(_) => self.script(rest, level),
        }
    }

    pub(super) fn bun(&mut self, args: &[&str], level: usize) {
        let mut own = tables::BUN.before(args).to_vec();
        let rest = match tables::BUN.behind(args) {
            ["x", rest @ ..] => return self.package(rest, &tables::DLX, level),
            ["run", rest @ ..] => {
                own.extend(tables::BUN.before(rest));
                rest
            }
            _ => args,
        };
        self.enter(options::value(&own, DIRECTORIES));
        let packages: Vec<&str> = options::all(&own, "-F --filter").collect();
        match tables::BUN.behind(rest) {
            [script, ..] if !packages.is_empty() => self.scripts(&packages, Some(script)),
            [script, ..] if self.directory.is_some() && is_generic_script(script) => {
                self.push(Role::Script, "", Some(script));
            }
            _ => self.interpreted(rest, &tables::BUN, level),
        }
    }

    pub(super) fn python(&mut self, args: &[&str], level: usize) {
        // `-m` and `-c` end the options; `-um` is `-u -m`. The rest belongs to the module.
        let is_last =
            |arg: &&str| arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with(['m', 'c']);
        let before = tables::PYTHON.before(args);
        let Some(at) = before.iter().position(is_last) else {
            return self.script(tables::PYTHON.behind(args), level);
        };
        if args.get(at).is_some_and(|arg| arg.ends_with('c')) {
            return self.inline(args.get(at + 1).and_then(|text| inline::of_python(text)));
        }
        let Some((module, rest)) = args.get(at + 1..).and_then(<[&str]>::split_first) else { return };
        self.module(module, rest, level);
    }

    /// `python -m NAME …`: launchers are modules, too.
    pub(super) fn module(&mut self, name: &str, args: &[&str], level: usize) {
        self.load("");
        let first = name.split('.').next().unwrap_or(name);
        self.aim(&[first], args, level);
        if is_in(tables::LAUNCHERS, first) {
            self.read(&std::iter::once(first).chain(args.iter().copied()).collect::<Vec<_>>(), level + 1);
        } else if !self.runner(first, args, level)
            && !is_in(tables::NO_SERVERS, first)
            && !is_in(tables::TOOLS, first)
        {
            self.push(Role::Module, name, None);
            self.cross(&[first], args, level);
        }
    }

    /// PowerShell, whose options may be cut short and are in any case (learn.microsoft.com, about_pwsh).
    pub(super) fn powershell(&mut self, args: &[&str], level: usize) {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let rest = args.get(at + 1..).unwrap_or_default();
            let Some(option) = arg.strip_prefix(['-', '/']) else {
                return self.script(args.get(at..).unwrap_or_default(), level);
            };
            let option = option.to_ascii_lowercase();
            if "command".starts_with(&option) || "commandwithargs" == option || "cwa" == option {
                // Its escape is the backtick; `\` is a part of a path.
                return self.text(&rest.join(" ").replace('\\', "/"), &[], level);
            }
            if "file".starts_with(&option) {
                return self.script(rest, level);
            }
            at += if is_in(tables::POWERSHELL_VALUES, &option) { 2 } else { 1 };
        }
    }

    /// `jbang run GROUP:ARTIFACT:VERSION`, `jbang ALIAS@CATALOG`, `jbang FILE`.
    pub(super) fn jbang(&mut self, args: &[&str], level: usize) {
        let rest = match tables::JBANG.behind(args) {
            ["run", rest @ ..] => tables::JBANG.behind(rest),
            rest => rest,
        };
        let word = rest.first().copied().unwrap_or_default();
        if let Some((alias, _)) = word.split_once('@').filter(|(alias, _)| !alias.contains(['/', ':'])) {
            return self.push(Role::Package, alias, None);
        }
        match word.split(':').collect::<Vec<_>>().as_slice() {
            [_, artifact, version @ ..] if !word.contains("://") => {
                self.versioned(version.first().copied());
                self.push(Role::Package, artifact, None);
            }
            _ => self.script(rest, level),
        }
    }

    /// `swift run NAME`, `stack exec NAME`, `cabal run PACKAGE:exe:NAME`, `dart run PACKAGE`: what is built from sources, and run.
    pub(super) fn built(&mut self, tool: &str, args: &[&str], level: usize) {
        let options = &tables::BUILDERS;
        let rest = match options.behind(args) {
            ["pub", "global", "run", rest @ ..] => rest,
            ["run" | "exec" | "r" | "runghc", rest @ ..] => rest,
            // `dart FILE`
            [file, ..] if matches!(tool, "dart" | "crystal") && file.contains('.') => options.behind(args),
            // Servers of these tools themselves, whatever their options (dart.dev/tools/mcp-server).
            ["mcp-server" | "mcp" | "mcp-serve", ..] => return self.push(Role::Program, tool, None),
            _ => return,
        };
        let directory =
            || options::value(options.before(rest), "--package-path --stack-yaml -C --project-dir");
        match options.behind(rest).split_first() {
            Some((&"--", _)) | None => self.project(directory()),
            Some((name, _)) if !places::split_extension(name).1.is_empty() => {
                self.script(options.behind(rest), level);
            }
            Some((name, _)) => {
                let is_telling = |part: &&str| names::telling_part(part, Role::Program).is_some();
                let name = name.rsplit(':').find(is_telling).unwrap_or(name);
                self.push(Role::Program, &names::package(name), None);
            }
        }
    }

    pub(super) fn java(&mut self, args: &[&str]) {
        let before = tables::JAVA.before(args);
        let program = before.iter().position(|arg| matches!(*arg, "-jar" | "-m" | "--module"));
        match program.and_then(|at| Some((before.get(at)?, args.get(at + 1)?))) {
            Some((&"-jar", jar)) => {
                self.load(jar);
                self.file(Role::Script, jar);
            }
            Some((_, module)) => {
                self.push(Role::Module, module.split('/').next_back().unwrap_or(module), None)
            }
            None => {
                let class = tables::JAVA.behind(args).first().filter(|class| !class.starts_with('@'));
                match class {
                    // A program in one file of sources (JEP 330).
                    Some(file) if file.ends_with(".java") => self.file(Role::Script, file),
                    Some(class) => self.push(Role::Module, class, None),
                    None => {}
                }
            }
        }
    }

    pub(super) fn dotnet(&mut self, args: &[&str], level: usize) {
        match tables::DOTNET.behind(args) {
            ["tool", "run", rest @ ..] => self.read(tables::DOTNET.behind(rest), level + 1),
            ["tool", "exec" | "execute", rest @ ..] => self.package(rest, &tables::DOTNET, level),
            ["exec", rest @ ..] => self.script(tables::DOTNET.behind(rest), level),
            // `dotnet watch --project PROJECT run`
            ["run" | "watch", rest @ ..] => match options::value(rest, "--project --file") {
                Some(project) => self.file(Role::Script, project),
                None => match rest.iter().find(|word| word.ends_with(".cs")) {
                    // An application in one file (.NET 10).
                    Some(file) => self.file(Role::Script, file),
                    None => self.project(None),
                },
            },
            rest => self.script(rest, level),
        }
    }

    pub(super) fn go(&mut self, args: &[&str], level: usize) {
        let Some((&"run", rest)) = tables::GO.behind(args).split_first() else { return };
        let own = [tables::GO.before(args), tables::GO.before(rest)].concat();
        let directory = options::value(&own, "-C");
        self.enter(directory);
        match tables::GO.behind(rest).first().copied() {
            Some("." | "./" | "..." | "./...") | None => self.project(directory),
            Some(file) if file.ends_with(".go") => self.script(&[file], level),
            Some(package) if directory.is_some() && package.starts_with("./") => {
                self.project(Some(package.trim_start_matches("./")));
            }
            Some(package) => {
                let is_local = package.starts_with(['.', '/']);
                let role = if is_local { Role::Script } else { Role::Package };
                self.versioned(names::version(package).filter(|_| !is_local));
                let path = is_local.then_some(package);
                self.push(role, names::go_package(package), path);
            }
        }
    }

    pub(super) fn cargo(&mut self, args: &[&str]) {
        let args = match args {
            [toolchain, rest @ ..] if toolchain.starts_with('+') => rest,
            _ => args,
        };
        let Some((&("run" | "r"), rest)) = tables::CARGO.behind(args).split_first() else { return };
        let own = tables::CARGO.before(rest);
        match options::value(own, "--bin")
            .or_else(|| options::value(own, "-p --package"))
            .or_else(|| options::value(own, "--example"))
        {
            Some(name) => self.push(Role::Program, &names::package(name), None),
            None => self.project(
                options::value(own, "--manifest-path").map(|path| path.trim_end_matches("Cargo.toml")),
            ),
        }
    }

    /// What is built and run from the sources in a directory, or in the working directory.
    pub(super) fn project(&mut self, directory: Option<&str>) {
        let path = directory
            .map_or("main".to_owned(), |directory| format!("{}/main", directory.trim_end_matches('/')));
        self.file(Role::Script, &path);
    }

    pub(super) fn nix_run(&mut self, args: &[&str]) {
        let Some((&"run", rest)) = wrappers::NIX.behind(args).split_first() else { return };
        let rest = wrappers::NIX.behind(rest).first();
        match rest.copied() {
            Some("." | ".#" | ".#default") | None => self.project(None),
            Some(flake) => {
                // `github:OWNER/REPOSITORY/TAG`
                let tag = flake.split(['#', '?']).next().unwrap_or(flake).splitn(3, '/').nth(2);
                self.versioned(tag.filter(|tag| flake.contains(':') && places::is_version(tag)));
                self.push(Role::Package, &names::flake(flake), None)
            }
        }
    }

    /// `flatpak run`, `snap run`.
    pub(super) fn app(&mut self, args: &[&str], level: usize) {
        let Some((&"run", rest)) = tables::FLATPAK.behind(args).split_first() else { return };
        let Some((app, args)) = tables::FLATPAK.behind(rest).split_first() else { return };
        match options::value(tables::FLATPAK.before(rest), "--command") {
            Some(command) => {
                let words: Vec<&str> = std::iter::once(command).chain(args.iter().copied()).collect();
                self.read(&words, level + 1);
            }
            None => self.push(Role::Package, app, None),
        }
    }

    pub(super) fn uv(&mut self, args: &[&str], level: usize) {
        let top = tables::UV_RUN.behind(args);
        let mut own = tables::UV_RUN.before(args).to_vec();
        match top {
            ["tool", rest @ ..] => {
                if let ["run" | "x", rest @ ..] = tables::UVX.behind(rest) {
                    self.package(rest, &tables::UVX, level);
                }
            }
            ["x", rest @ ..] => self.package(rest, &tables::UVX, level),
            ["run", rest @ ..] => {
                let before = tables::UV_RUN.before(rest);
                own.extend(before);
                self.enter(options::value(&own, "--directory --project"));
                let command = tables::UV_RUN.behind(rest);
                if let Some(at) = before.iter().position(|arg| matches!(*arg, "-m" | "--module")) {
                    let Some((module, rest)) = rest.get(at + 1..).and_then(<[&str]>::split_first) else {
                        return;
                    };
                    return self.module(module, rest, level);
                }
                match command.first() {
                    Some(script)
                        if script.ends_with(".py")
                            || before.contains(&"--script")
                            || before.contains(&"-s") =>
                    {
                        self.script(command, level);
                    }
                    Some(url) if url.contains("://") => self.push(Role::Package, &names::package(url), None),
                    _ => self.read(command, level + 1),
                }
            }
            _ => {}
        }
    }

    /// `npm exec`, `pnpm dlx`: a launcher with subcommands. What is none of these may be a script of a project.
    pub(super) fn packages(&mut self, args: &[&str], subcommands: &str, options: &Options, level: usize) {
        self.enter(options::value(options.before(args), DIRECTORIES));
        match options.behind(args).split_first() {
            Some((word, rest)) if is_in(subcommands, word) => {
                let args: Vec<&str> = options.before(args).iter().chain(rest).copied().collect();
                self.package(&args, options, level);
            }
            Some(_) => self.project_script(args, options),
            None => {}
        }
    }

    /// `npx`, `uvx` and the like: a package, perhaps another program in it.
    pub(super) fn package(&mut self, args: &[&str], options: &Options, level: usize) {
        let own = options.before(args);
        // `-p` is a Python to uv.
        let names = if options.has_one("--call") || options.has_one("--allow-build") {
            "--package -p"
        } else {
            "--from --spec --package"
        };
        // Other registries know no aliases: there `NAME@URL` has to be of that name.
        let is_npm = options.has_one("--call") || options.has_one("--allow-build");
        let known = |spec| if is_npm { names::unaliased(spec) } else { spec };
        let from = options::value(own, names).map(known);
        let line = options::value(own, "-c --call").filter(|_| options.has_one("--call"));
        let words = line.map(shell::words).unwrap_or_default();
        let rest: Vec<&str> = match line {
            Some(_) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.in_text(&words);
                words
            }
            None => options.behind(args).to_vec(),
        };
        match (from, rest.split_first()) {
            // With a package given, the command is a program in it, or an interpreter (`uvx --from x python -m y`).
            (Some(from), Some((program, args))) => {
                let plain = plain(program);
                if !is_python(plain) && plain != "node" && runs(plain, args).is_none() {
                    self.versioned(names::version(from));
                    self.push(Role::Package, &names::package(from), None);
                    // Several servers may be in one package.
                    let entry = rest.iter().find(|word| !is_assignment(word)).copied().unwrap_or(program);
                    if let Some(name) = names::entry(from, entry).filter(|name| is_own_program(name, args)) {
                        self.push(Role::Entry, name, None);
                    }
                }
                self.read(&rest, level + 1);
            }
            (Some(from), None) => {
                self.versioned(names::version(from));
                self.push(Role::Package, &names::package(from), None);
            }
            (None, Some(_)) if line.is_some() => self.read(&rest, level + 1),
            (None, Some((spec, args))) => self.spec(known(spec), args, level),
            (None, None) => {}
        }
    }

    /// A package, which may be an interpreter, a wrapper or a runner.
    pub(super) fn spec(&mut self, spec: &str, args: &[&str], level: usize) {
        let name = names::package(spec);
        let plain = plain(&name);
        self.aim(&[&name, plain], args, level);
        let is_unscoped = !name.contains('/');
        if wrappers::find(&name, args).is_some()
            || is_unscoped
                && (is_python(plain)
                    || plain == "node"
                    || wrappers::find(plain, args).is_some()
                    || runs(plain, args).is_some()
                    || is_in(tables::LAUNCHERS, plain))
        {
            let command: Vec<&str> = std::iter::once(plain).chain(args.iter().copied()).collect();
            return self.read(&command, level + 1);
        }
        self.versioned(names::version(spec));
        self.push(Role::Package, &name, None);
        self.cross(&[&name, plain], args, level);
        // A wrapper that is in no list: `npx @scope/name run -- npx …`
        let at = args.iter().position(|arg| *arg == "--").map(|at| at + 1);
        let command = at.and_then(|at| args.get(at..)).unwrap_or_default();
        let is_command = command.len() > 1
            && command.first().is_some_and(|word| is_launcher(super::plain(names::base(word))));
        if is_command
            && !super::only_registers(args)
            && self.bridged.is_none()
            && !name.to_ascii_lowercase().contains("mcp")
        {
            self.read(command, level + 1);
        }
    }
}

/// Whether a program of a package is one of its own, and none that has another run.
fn is_own_program(name: &str, args: &[&str]) -> bool {
    !is_launcher(name)
        && !is_no_server(name)
        && !is_in(tables::TOOLS, name)
        && !is_in(tables::INTERPRETERS, name)
        && runs(name, args).is_none()
        && wrappers::find(name, args).is_none()
}
