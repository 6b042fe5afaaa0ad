//! A command line taken apart into what it really runs.

mod inline;
mod launchers;
mod runners;
mod scripts;
mod targets;
mod tasks;

use super::options::{self, is_in};
use super::piece::{Piece, Role};
use super::wrappers::{self, Wrapper};
use super::{containers, names, places, shell, tables, windows};
use runners::runs;
use targets::Inner;

/// Commands within commands (`sh -c "env X=1 npx …"`) that are followed.
pub(super) const MAX_LEVELS: usize = 10;
/// Arguments that are looked at.
const MAX_ARGS: usize = 256;
/// Pieces and lines that are kept.
const MAX_PIECES: usize = 64;
/// Programs that are what they are called.
pub(super) const MULTI_CALL: [&str; 2] = ["busybox", "toybox"];

/// A command line, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    /// What it runs, outermost first.
    pub(super) pieces: Vec<Piece>,
    /// It and the commands in it as lines, programs without their directory.
    pub(super) lines: Vec<String>,
    /// The commands in the texts of shells, without the assignments in front: what a shell runs of an argument.
    pub(super) texts: Vec<Vec<String>>,
    /// The directory that it says it works in.
    pub(super) directory: Option<String>,
    /// The same in front of what the outermost bridge runs.
    outer_directory: Option<String>,
    /// Whether that is in a container: whose processes are not this one's children.
    pub(super) in_container: bool,
    /// The image, container or service that it runs in.
    pub(super) container: Option<String>,
    /// The version that it names of what it runs: the first.
    pub(super) version: Option<String>,
    /// The path of the script that its own interpreter loads first, whatever that runs in turn; empty where it loads something
    /// else.
    pub(super) loads: Option<String>,
    /// The piece with the name of a project's script or task, if nothing stands behind that.
    script_name: Option<usize>,
    /// What the outermost bridge or runner stands for: see [`targets::target`].
    pub(super) target: Option<String>,
    /// How many pieces stand in front of what the outermost bridge runs, and the innermost.
    pub(super) bridged: Option<(usize, usize)>,
}

/// Takes a command line apart.
pub(super) fn read(argv: &[String]) -> Command {
    let mut command = Command::default();
    let argv: Vec<_> = argv.iter().take(MAX_ARGS).map(|word| windows::slashed(word)).collect();
    let argv: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    // npm gives its process a title, which is one argument with blanks in it.
    match argv.as_slice() {
        [title] if title.contains(' ') && !windows::is_absolute(title) => {
            command.read(&title.split_whitespace().collect::<Vec<_>>(), 0);
        }
        argv => command.read(argv, 0),
    }
    command
}

impl Command {
    /// Takes the words of one command apart.
    pub(super) fn read(&mut self, argv: &[&str], level: usize) {
        let Some((program, args)) = argv.split_first() else { return };
        if level >= MAX_LEVELS || self.lines.len() >= MAX_PIECES {
            return;
        }
        if is_assignment(program) {
            return self.read(args, level + 1);
        }
        // A login shell's name starts with a dash.
        let name = names::base(program.trim_start_matches('-'));
        let name = name
            .split_once('@')
            .map_or(name, |(manager, _)| if is_in(tables::MANAGERS, manager) { manager } else { name });
        self.lines.push(std::iter::once(name).chain(args.iter().copied()).collect::<Vec<_>>().join(" "));
        // Windows knows `NPX.CMD`, too.
        let lower = places::program_ending(name).map(|_| plain(name).to_ascii_lowercase());
        let plain = lower.as_deref().unwrap_or_else(|| plain(name));
        if is_unknown(program) {
            return;
        }
        self.aim(&[name, plain], args, level);
        if self.launcher(plain, args, level) || self.wrapper(plain, args, level) || is_no_server(plain) {
            return;
        }
        if let Some(inner) = [name, plain].iter().find_map(|name| targets::inner(name, args)) {
            self.file(Role::Program, program);
            return self.bridged(inner, level);
        }
        if !is_in(tables::TOOLS, plain) {
            self.unknown(program, args, level);
        } else if level == 0 {
            // In a shell's text it stands beside the server; alone it may be one, or stand for it.
            self.push(Role::Tool, plain, Some(program));
        }
    }

    /// Programs whose arguments say what runs. Whether `name` is one.
    fn launcher(&mut self, name: &str, args: &[&str], level: usize) -> bool {
        match name {
            "sh" | "bash" | "dash" | "zsh" | "ash" | "ksh" | "mksh" | "fish" | "rbash" => {
                self.shell(args, level)
            }
            name if MULTI_CALL.contains(&name) => self.read(args, level + 1),
            name if ["cmd", "%ComSpec%"].iter().any(|known| name.eq_ignore_ascii_case(known)) => {
                if let Some(text) = windows::cmd_text(args) {
                    self.text(&text, &[], level);
                }
            }
            "eval" => self.text(&args.join(" "), &[], level),
            "cd" | "pushd" | "Set-Location" | "Push-Location" => {
                // `cd /d C:\DIR` of cmd.exe
                let directory = args.iter().rfind(|arg| !arg.starts_with('-'));
                self.directory = directory.map(|directory| (*directory).to_owned());
            }
            "node" | "nodejs" | "electron" => self.interpreted(args, &tables::NODE, level),
            "deno" => self.deno(args, level),
            "bun" => self.bun(args, level),
            "npx" | "pnpx" => self.package(args, &tables::NPM, level),
            "bunx" => self.package(args, &tables::DLX, level),
            "dnx" => self.package(args, &tables::DOTNET, level),
            "npm" => self.packages(args, "exec x", &tables::NPM, level),
            "pnpm" => self.packages(args, "dlx exec", &tables::DLX, level),
            "yarn" | "yarnpkg" => self.packages(args, "dlx exec", &tables::DLX, level),
            "uvx" => self.package(args, &tables::UVX, level),
            "uv" => self.uv(args, level),
            "pipx" => self.packages(args, "run", &tables::PIPX, level),
            "docker" | "podman" | "nerdctl" | "docker-compose" | "podman-compose" | "apptainer"
            | "singularity" => self.container(name, args, level),
            "pwsh" | "powershell" => self.powershell(args, level),
            "java" => self.java(args),
            "jbang" => self.jbang(args, level),
            "dotnet" => self.dotnet(args, level),
            "wasmtime" | "wasmer" | "wasmedge" => {
                let rest = match tables::WASM.behind(args) {
                    ["run", rest @ ..] => tables::WASM.behind(rest),
                    rest => rest,
                };
                self.script(rest, level);
            }
            "go" => self.go(args, level),
            "cargo" => self.cargo(args),
            "swift" | "stack" | "cabal" | "dart" | "crystal" | "nim" => self.built(name, args, level),
            "nix" if wrappers::NIX.behind(args).first() == Some(&"run") => self.nix_run(args),
            "flatpak" | "snap" => self.app(args, level),
            name if is_in(tables::INTERPRETERS, name) => self.scripting(name, args, level),
            _ if is_python(name) => self.python(args, level),
            _ => return self.runner(name, args, level),
        }
        true
    }

    /// A program that runs another command, if `name` is one.
    fn wrapper(&mut self, name: &str, args: &[&str], level: usize) -> bool {
        let Some((wrapper, front, args)) = wrappers::find(name, args) else {
            return wrappers::is_name(name) && targets::inner(name, args).is_none();
        };
        self.enter(options::value(front, wrapper.directory));
        match wrapper.expanded(args) {
            Some(words) => {
                let words: Vec<&str> =
                    std::iter::once(name).chain(words.iter().map(String::as_str)).collect();
                self.read(&words, level + 1);
                self.in_text(&words);
            }
            None => self.wrapped(wrapper, args, level),
        }
        true
    }

    /// Goes on with what a program or package of these names runs, if it is a bridge to a command.
    pub(super) fn cross(&mut self, names: &[&str], args: &[&str], level: usize) {
        if let Some(inner) = names.iter().find_map(|name| targets::inner(name, args)) {
            self.bridged(inner, level);
        }
    }

    /// What a bridge runs. The bridge itself, among the pieces by now, says less of the server than that.
    fn bridged(&mut self, inner: Inner<'_>, level: usize) {
        if let Inner::Task(name, file) = &inner {
            self.task_of_project(name.as_deref(), file.as_deref());
            if name.is_none() {
                return;
            }
        }
        let here = self.pieces.len();
        if self.bridged.is_none() {
            self.outer_directory.clone_from(&self.directory);
        }
        self.bridged = Some((self.bridged.map_or(here, |(outermost, _)| outermost), here));
        match inner {
            Inner::Command(words, directory) => {
                self.enter(directory);
                self.read(&words, level + 1);
            }
            Inner::Within(place, words) => {
                // As a container's: where nothing in it says more.
                self.push(Role::Tool, &place, None);
                self.read(&words, level + 1);
            }
            // Of several commands it is not clear which is the server, but where the others only prepare it.
            Inner::Text(text) => {
                let commands = shell::commands(&text, &[]);
                if commands.iter().filter(|words| !is_preparation(words)).count() == 1 {
                    self.text(&text, &[], level);
                }
            }
            Inner::Package(name) => {
                self.versioned(names::version(name));
                self.push(Role::Package, &names::package(name), None);
            }
            Inner::Name(name) => self.push(Role::Program, name, None),
            Inner::Task(name, _) => self.push_script_name(&name.unwrap_or_default()),
            Inner::Image(image) => {
                self.versioned(names::image_version(image));
                self.push(Role::Image, &names::image(image), None);
            }
        }
    }

    fn wrapped(&mut self, wrapper: &Wrapper, args: &[&str], level: usize) {
        let dashes = args.iter().position(|arg| *arg == "--");
        let before = args.get(..dashes.unwrap_or(args.len())).unwrap_or(args);
        // The options of the command are none of the wrapper's, but where these may stand behind its arguments.
        let own =
            if wrapper.own > 0 || wrapper.behind_dashes { before } else { wrapper.options.before(args) };
        self.enter(options::value(wrapper.options.before(args), wrapper.directory));
        if let Some(text) = options::value(own, wrapper.text) {
            return self.text(text, &[], level);
        }
        if let Some(at) = args.iter().position(|arg| is_in(wrapper.command, arg)) {
            return self.read(args.get(at + 1..).unwrap_or_default(), level + 1);
        }
        let mut rest = match dashes.filter(|_| wrapper.behind_dashes) {
            Some(at) => args.get(at + 1..).unwrap_or_default(),
            None => wrapper.options.behind(args).get(wrapper.own..).unwrap_or_default(),
        };
        // `setarch x86_64 -R COMMAND`, and `--`.
        while let [option, behind @ ..] = rest
            && option.len() > 1
            && option.starts_with('-')
        {
            rest = behind;
        }
        match rest {
            [text] if wrapper.is_text => self.text(text, &[], level),
            [first, args @ ..] if wrapper.has_environments => {
                let program = first.rsplit_once(':').map_or(*first, |(_, program)| program);
                self.read(
                    &std::iter::once(program).chain(args.iter().copied()).collect::<Vec<_>>(),
                    level + 1,
                );
            }
            _ => self.read(rest, level + 1),
        }
    }

    /// A program that is not known. Behind it another command may begin, where a launcher stands.
    fn unknown(&mut self, program: &str, args: &[&str], level: usize) {
        self.file(Role::Program, program);
        if only_registers(args) {
            return;
        }
        let is_beginning = |word: &&str| is_in(tables::BEGINNINGS, names::base(word));
        let dashes = args.iter().position(|arg| *arg == "--").map(|at| at + 1);
        let behind_dashes =
            dashes.filter(|at| args.get(*at).is_some_and(|word| is_launcher(plain(names::base(word)))));
        let at = behind_dashes.or_else(|| args.iter().position(is_beginning));
        if let Some(command) = at.and_then(|at| args.get(at..)).filter(|command| command.len() > 1) {
            self.read(command, level + 1);
        }
    }

    /// A shell's text: every command in it.
    pub(super) fn text(&mut self, text: &str, arguments: &[&str], level: usize) {
        if level >= MAX_LEVELS {
            return;
        }
        for command in shell::commands(text, arguments) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            self.read(&words, level + 1);
            self.in_text(&words);
        }
    }

    /// These words are a command in an argument.
    pub(super) fn in_text(&mut self, words: &[&str]) {
        if self.texts.len() < MAX_PIECES {
            let words = words.iter().skip_while(|word| is_assignment(word));
            self.texts.push(words.map(|word| (*word).to_owned()).collect());
        }
    }

    /// It says that it works in this directory, or in that of a project's file (`pixi --manifest-path DIR/pixi.toml`).
    pub(super) fn enter(&mut self, directory: Option<&str>) {
        let Some(directory) = directory else { return };
        let manifest = directory.rsplit_once('/').filter(|(_, file)| file.ends_with(".toml"));
        self.directory = Some(manifest.map_or(directory, |(directory, _)| directory).to_owned());
    }

    /// The directory that it says it works in, without what a bridge runs elsewhere.
    pub(super) fn own_directory(&self) -> Option<&str> {
        if self.bridged.is_some() { &self.outer_directory } else { &self.directory }.as_deref()
    }

    fn shell(&mut self, args: &[&str], level: usize) {
        let minus = |arg: &&'_ str| if *arg == "+o" { "-o" } else { "-+" };
        let args: Vec<&str> =
            args.iter().map(|arg| if arg.starts_with('+') { minus(arg) } else { arg }).collect();
        let rest = tables::SHELL.behind(&args);
        let is_flag = |arg: &&str| {
            arg.starts_with('-') && !arg.starts_with("--") && arg.contains('c') || *arg == "--command"
        };
        let has_text = tables::SHELL.before(&args).iter().any(is_flag);
        match rest.split_first() {
            Some((text, arguments)) if has_text => self.text(text, arguments, level),
            _ => self.script(rest, level),
        }
    }

    /// A script that an interpreter runs; launchers and runners are scripts too (`node /usr/bin/npx …`).
    pub(super) fn script(&mut self, rest: &[&str], level: usize) {
        let Some((path, args)) = rest.split_first() else { return };
        if level >= MAX_LEVELS {
            return;
        }
        self.load(path);
        let package = names::node_package(path).or_else(|| names::python_module(path));
        let package_name = package.as_deref().unwrap_or_default();
        self.aim(&[package_name, plain(path)], args, level);
        let package = names::node_package(path).filter(|package| !package.contains('/'));
        let name = plain(package.as_deref().unwrap_or(path));
        if is_in(tables::LAUNCHERS, plain(path)) {
            self.read(rest, level + 1);
        } else if !self.runner(name, args, level + 1) && !self.runner(plain(path), args, level + 1) {
            self.file(Role::Script, path);
            self.cross(&[package_name, plain(path)], args, level);
        }
    }

    /// A program or package of these names runs with these arguments: it may be a bridge. What is in a bridge, the bridge's
    /// target names already.
    pub(super) fn aim(&mut self, names: &[&str], args: &[&str], level: usize) {
        if self.target.is_none() && level < MAX_LEVELS {
            self.target = names.iter().find_map(|name| targets::target(name, args, level));
        }
    }

    /// The outermost interpreter loads this before all else.
    pub(super) fn load(&mut self, path: &str) {
        if self.lines.len() == 1 && self.loads.is_none() {
            self.loads = Some(path.to_owned());
        }
    }

    /// What it runs is of this version.
    pub(super) fn versioned(&mut self, version: Option<&str>) {
        if self.version.is_none() {
            self.version = version.map(str::to_owned);
        }
    }

    /// Something that lies somewhere.
    pub(super) fn file(&mut self, role: Role, path: &str) {
        self.versioned(places::version(path));
        // `file.py:object`
        let file = path.split_once(".py:").and_then(|(stem, _)| path.get(..stem.len() + 3)).unwrap_or(path);
        if let Some(name) = names::node_package(file) {
            self.push(Role::Package, &name, None);
        } else if let Some(name) = names::python_module(file) {
            self.push(Role::Module, &name, None);
        }
        let title = names::title(file);
        self.push(role, title, Some(path));
        // What lies in `…/mcp-server-weather/dist/index.js` is called after the directory.
        if names::telling_part(title, role).is_none()
            && let Some(name) = names::telling_directory(file, None)
        {
            self.push(role, &name, None);
        }
    }

    pub(super) fn push(&mut self, role: Role, name: &str, path: Option<&str>) {
        // What follows in a shell's text is the server, and what the script is called says nothing of it (`npm run sync; node x.js`).
        if let Some(name) = self.script_name.take().and_then(|at| self.pieces.get_mut(at)) {
            name.role = Role::Tool;
        }
        if self.pieces.len() < MAX_PIECES {
            self.pieces.push(Piece { role, name: name.to_owned(), path: path.map(str::to_owned) });
        }
    }

    /// The name of a project's script or task.
    pub(super) fn push_script_name(&mut self, name: &str) {
        self.push(Role::Program, name, None);
        self.script_name = self.pieces.len().checked_sub(1);
    }

    fn container(&mut self, engine: &str, args: &[&str], level: usize) {
        // docs.docker.com/ai/mcp-catalog-and-toolkit: the engine runs a plugin of this name.
        if let ["mcp", "gateway", "run", ..] = args {
            return self.push(Role::Program, "docker-mcp", None);
        }
        let Some(run) = containers::read(engine, args) else { return };
        self.in_container = true;
        self.container = run.container;
        if let Some(image) = &run.image {
            self.versioned(run.version.as_deref());
            self.push(Role::Image, image, None);
            let arguments: Vec<&str> = run.arguments.iter().map(String::as_str).collect();
            self.aim(&[names::base(image)], &arguments, level);
        }
        if let (None, Some(place)) = (&run.image, &self.container) {
            let place = place.clone();
            self.push(Role::Tool, &place, None);
        }
        self.read(&run.words.iter().map(String::as_str).collect::<Vec<_>>(), level + 1);
    }
}

/// A program's name, without directory, ending, and `-cli`.
pub(super) fn plain(path: &str) -> &str {
    names::stem(path).trim_end_matches("-cli")
}

/// Whether this name begins a command whose arguments say what runs.
fn is_launcher(name: &str) -> bool {
    is_in(tables::LAUNCHERS, name)
        || is_in(tables::BEGINNINGS, name)
        || is_python(name)
        || matches!(
            name,
            "node" | "deno" | "bun" | "docker" | "podman" | "java" | "dotnet" | "sh" | "bash" | "env"
        )
}

fn is_no_server(name: &str) -> bool {
    is_in(tables::NO_SERVERS, name) || name.starts_with("containerd-shim")
}

/// Whether a command of a shell's text stands beside the server and is none: the shell's own commands and usual tools (`cd`,
/// `source`, `export`), what only makes something (`npm ci`, `uv sync`), assignments alone, `eval "$(…)"`, and `exec` that only redirects.
fn is_preparation(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str).skip_while(|word| is_assignment(word));
    let Some(program) = words.next() else { return true };
    let first = words.next();
    match program {
        "eval" => first.is_some_and(is_unknown) && words.next().is_none(),
        "exec" => first.is_none(),
        program => {
            let plain = plain(names::base(program));
            let mut words = first.into_iter().chain(words).filter(|word| !word.starts_with('-'));
            let makes = |word: &str| is_in(tables::MAKING, word) || tasks::is_build(word);
            is_in(tables::TOOLS, plain)
                || is_no_server(plain)
                || is_in(tables::MAKERS, plain)
                    && words.find(|word| !is_in(tables::MAKERS_GROUPS, word)).is_some_and(makes)
        }
    }
}

/// Whether a client only takes down a command that it is to run later: `claude mcp add NAME -- npx …`.
fn only_registers(args: &[&str]) -> bool {
    const VERBS: &str = "add add-json remove rm get list install uninstall enable disable";
    args.windows(2).any(|words| matches!(words, ["mcp", verb] if is_in(VERBS, verb)))
}

/// Whether only the shell knows which program this is.
fn is_unknown(program: &str) -> bool {
    program.starts_with("$(")
        || program.starts_with(['`', '<', '>'])
        || program.starts_with('$') && !program.contains('/')
}

/// Whether a word where a program may stand sets a variable: env(1) and sudo(8) take any name for one (`spring.datasource.password=…`),
/// and a secret is never to be the name of a server.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && !name.starts_with('-') && !name.contains('/') && !name.contains(char::is_whitespace)
}

fn is_python(name: &str) -> bool {
    // The launcher `py` (docs.python.org/3/using/windows.html, and python-launcher on Unix) takes the same arguments.
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    matches!(name, "py" | "pyw" | "pythonw")
        || version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}
