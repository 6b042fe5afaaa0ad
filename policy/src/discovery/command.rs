//! A command line taken apart into what it really runs.

use super::names;
use super::piece::{Piece, Role};

/// Commands within commands (`sh -c "env X=1 npx …"`) that are followed.
const MAX_LEVELS: usize = 6;
/// Arguments that are looked at.
const MAX_ARGS: usize = 256;
/// Arguments of a container engine in front of `run` or `exec`.
const MAX_ENGINE_ARGS: usize = 16;

/// A command line, taken apart.
#[derive(Debug, Default)]
pub(super) struct Command {
    /// What it runs, outermost first.
    pub(super) pieces: Vec<Piece>,
    /// It and the commands in it as lines, programs without their directory.
    pub(super) lines: Vec<String>,
    /// The directory that it says it works in.
    pub(super) directory: Option<String>,
    /// Whether that is in a container: whose processes are not this one's children.
    pub(super) in_container: bool,
}

/// Options of a launcher: which take a value, and what a value means.
struct Options {
    with_value: &'static [&'static str],
}

const NODE: Options =
    Options { with_value: &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C"] };
const DENO: Options = Options { with_value: &["-c", "--config", "--import-map", "--lock", "--env-file"] };
const PYTHON: Options = Options { with_value: &["-W", "-X", "--check-hash-based-pycs"] };
const NPX: Options =
    Options { with_value: &["-p", "--package", "-c", "--call", "--registry", "--cache", "--prefix", "-w"] };
const UVX: Options = Options {
    with_value: &[
        "--from",
        "--with",
        "--with-editable",
        "-p",
        "--python",
        "--index-url",
        "-i",
        "--index",
        "--default-index",
        "--extra-index-url",
        "--cache-dir",
        "--directory",
        "--project",
        "--config-file",
        "--refresh-package",
        "-w",
        "--with-requirements",
        "--link-mode",
        "--resolution",
        "--prerelease",
        "-U",
        "-P",
    ],
};
const UV_RUN: Options = Options {
    with_value: &[
        "--with",
        "--with-editable",
        "-p",
        "--python",
        "--directory",
        "--project",
        "--package",
        "--extra",
        "--group",
        "--index-url",
        "-i",
        "--index",
        "--default-index",
        "--env-file",
        "--cache-dir",
        "--config-file",
        "-w",
        "--with-requirements",
    ],
};
const PIPX: Options = Options { with_value: &["--spec", "--python", "--index-url", "-i", "--pip-args"] };
const DOCKER: Options = Options {
    with_value: &[
        "-e",
        "--env",
        "-v",
        "--volume",
        "--mount",
        "--name",
        "--network",
        "--net",
        "-p",
        "--publish",
        "-w",
        "--workdir",
        "-u",
        "--user",
        "--entrypoint",
        "--env-file",
        "--platform",
        "--add-host",
        "-l",
        "--label",
        "-m",
        "--memory",
        "--cpus",
        "--gpus",
        "--hostname",
        "-h",
        "--ulimit",
        "--cap-add",
        "--cap-drop",
        "--security-opt",
        "--pull",
        "--restart",
        "--runtime",
        "--log-driver",
        "--log-opt",
        "--tmpfs",
        "--device",
        "--dns",
        "--ipc",
        "--pid",
        "--userns",
        "--shm-size",
        "--volumes-from",
        "--link",
        "--expose",
        "--stop-signal",
        "--cidfile",
        "-c",
        "--pids-limit",
        "--memory-swap",
        "--group-add",
        "--sysctl",
        "--annotation",
        "-a",
        "--attach",
    ],
};
const JAVA: Options =
    Options { with_value: &["-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-opens"] };
const WRAPPER: Options =
    Options { with_value: &["-u", "--user", "-g", "--group", "-n", "-C", "--chdir", "-s", "-k", "-p"] };

/// Takes a command line apart.
pub(super) fn read(argv: &[String]) -> Command {
    let mut command = Command::default();
    let argv: Vec<&str> = argv.iter().take(MAX_ARGS).map(String::as_str).collect();
    // npm gives its process a title, which is one argument with blanks in it.
    match argv.as_slice() {
        [title] if title.contains(' ') && !title.starts_with('/') => {
            command.read(&title.split_whitespace().collect::<Vec<_>>(), 0);
        }
        argv => command.read(argv, 0),
    }
    command
}

impl Command {
    fn read(&mut self, argv: &[&str], level: usize) {
        let Some((program, args)) = argv.split_first() else { return };
        if level >= MAX_LEVELS {
            return;
        }
        // A login shell's name starts with a dash.
        let name = names::base(program.trim_start_matches('-'));
        self.lines.push(std::iter::once(name).chain(args.iter().copied()).collect::<Vec<_>>().join(" "));
        if name.split_once('=').is_some_and(|(name, _)| is_variable(name)) {
            return self.read(args, level + 1);
        }
        let plain = names::stem(name).trim_end_matches("-cli");
        match plain {
            "env" | "sudo" | "doas" | "nohup" | "setsid" | "nice" | "ionice" | "stdbuf" | "time" | "exec"
            | "command" | "chronic" | "dumb-init" | "tini" | "catchsegv" | "strace" | "xvfb-run" => {
                self.wrapped(args, level, 0)
            }
            "timeout" | "chroot" | "flock" => self.wrapped(args, level, 1),
            "sh" | "bash" | "dash" | "zsh" | "ash" | "ksh" | "fish" | "busybox" => self.shell(args, level),
            "node" | "nodejs" | "tsx" | "ts-node" | "electron" => self.interpreted(args, &NODE, level),
            "deno" => self.deno(args, level),
            "bun" => match args.split_first() {
                Some((&"x", rest)) => self.package(rest, &NPX, level),
                Some((&"run", rest)) => self.interpreted(rest, &NODE, level),
                _ => self.interpreted(args, &NODE, level),
            },
            "npx" | "bunx" | "pnpx" | "dnx" => self.package(args, &NPX, level),
            "npm" | "pnpm" | "yarn" => {
                self.sub(args, &["exec", "x", "dlx"], |this, rest| this.package(rest, &NPX, level))
            }
            "uvx" => self.package(args, &UVX, level),
            "uv" => self.uv(args, level),
            "pipx" => self.sub(args, &["run"], |this, rest| this.package(rest, &PIPX, level)),
            "docker" | "podman" | "nerdctl" => self.container(args, level),
            "java" => self.java(args),
            "ruby" | "perl" | "php" | "dotnet" | "lua" => self.interpreted(args, &PYTHON, level),
            "go" => self.sub(args, &["run"], |this, rest| this.interpreted(rest, &NODE, level)),
            "cat" | "less" | "vim" | "vi" | "nano" | "grep" | "rg" | "git" | "pip" | "pip3" | "cargo"
            | "make" => {}
            // What runs between a container engine and the program in the container.
            "runc" | "crun" | "youki" | "runsc" | "conmon" | "docker-init" | "catatonit" => {}
            _ if plain.starts_with("containerd-shim") => {}
            _ if is_python(plain) => self.python(args, level),
            _ => self.program(program),
        }
    }

    /// Behind a wrapper: options, `skip` arguments of its own, assignments, then the command.
    fn wrapped(&mut self, args: &[&str], level: usize, skip: usize) {
        let rest = behind(args, &WRAPPER);
        let mut rest = rest.get(skip..).unwrap_or_default();
        while let Some((first, after)) = rest.split_first()
            && first.split_once('=').is_some_and(|(name, _)| is_variable(name))
        {
            rest = after;
        }
        self.read(rest, level + 1);
    }

    fn shell(&mut self, args: &[&str], level: usize) {
        let flag =
            args.iter().position(|arg| arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c'));
        let script = args.iter().position(|arg| !arg.starts_with(['-', '+']));
        match (flag, script) {
            (Some(flag), Some(text)) if flag < text => {
                let words: Vec<&str> = args.get(text).unwrap_or(&"").split_whitespace().collect();
                for command in
                    words.split(|word| matches!(*word, "&&" | "||" | ";" | "|" | "&")).take(MAX_LEVELS)
                {
                    let command: Vec<&str> =
                        command.iter().map(|word| word.trim_matches(['"', '\'', ';'])).collect();
                    match command.as_slice() {
                        ["cd", directory, ..] => self.directory = Some((*directory).to_owned()),
                        command => self.read(command, level + 1),
                    }
                }
            }
            (_, Some(script)) => self.script(args.get(script..).unwrap_or_default(), level),
            _ => {}
        }
    }

    /// A script that an interpreter runs; launchers are scripts too (`node /usr/bin/npx …`).
    fn script(&mut self, rest: &[&str], level: usize) {
        let Some((path, _)) = rest.split_first() else { return };
        let plain = names::stem(path).trim_end_matches("-cli");
        let launchers = ["npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "uv", "pipx"];
        if launchers.contains(&plain) {
            return self.read(rest, level + 1);
        }
        self.file(Role::Script, path);
    }

    fn program(&mut self, path: &str) {
        self.file(Role::Program, path);
    }

    fn file(&mut self, role: Role, path: &str) {
        if let Some(name) = names::node_package(path) {
            self.pieces.push(Piece { role: Role::Package, name, path: None });
        } else if let Some(name) = names::python_module(path) {
            self.pieces.push(Piece { role: Role::Module, name, path: None });
        }
        self.pieces.push(Piece { role, name: names::stem(path).to_owned(), path: Some(path.to_owned()) });
        // What lies in `…/mcp-server-weather/dist/index.js` is called after the directory.
        if names::telling_part(names::stem(path), role).is_none()
            && let Some(name) = names::telling_directory(path, None)
        {
            self.pieces.push(Piece { role, name, path: None });
        }
    }

    fn interpreted(&mut self, args: &[&str], options: &Options, level: usize) {
        let inline = args.first().is_some_and(|arg| matches!(*arg, "-e" | "--eval" | "-p" | "--print"));
        if !inline {
            self.script(behind(args, options), level);
        }
    }

    fn deno(&mut self, args: &[&str], level: usize) {
        self.sub(args, &["run"], |this, rest| {
            let rest = behind(rest, &DENO);
            match rest.first() {
                Some(spec)
                    if spec.starts_with("npm:") || spec.starts_with("jsr:") || spec.contains("://") =>
                {
                    this.push_package(spec);
                }
                _ => this.script(rest, level),
            }
        });
    }

    fn python(&mut self, args: &[&str], level: usize) {
        let rest = behind(args, &PYTHON);
        // `-m` ends the options; `-um` is `-u -m`. The rest belongs to the module.
        let before = args.len() - rest.len();
        let module =
            args.iter().position(|arg| !arg.starts_with("--") && arg.starts_with('-') && arg.ends_with('m'));
        if let Some(at) = module.filter(|at| *at < before) {
            match args.get(at + 1).copied() {
                Some("uv" | "pipx" | "uvx") => self.read(args.get(at + 1..).unwrap_or_default(), level + 1),
                Some(name) => {
                    self.pieces.push(Piece { role: Role::Module, name: name.to_owned(), path: None })
                }
                None => {}
            }
        } else if args.first().is_none_or(|arg| *arg != "-c") {
            self.script(rest, level);
        }
    }

    fn java(&mut self, args: &[&str]) {
        if let Some(jar) = args.iter().position(|arg| *arg == "-jar").and_then(|at| args.get(at + 1)) {
            self.file(Role::Script, jar);
        } else if let Some(class) = behind(args, &JAVA).first() {
            self.pieces.push(Piece { role: Role::Module, name: (*class).to_owned(), path: None });
        }
    }

    fn uv(&mut self, args: &[&str], level: usize) {
        if let Some(directory) = option(args, &["--directory", "--project"]) {
            self.directory = Some(directory.to_owned());
        }
        let top = behind(args, &UV_RUN);
        match top {
            ["tool", "run", rest @ ..] | ["x", rest @ ..] => self.package(rest, &UVX, level),
            ["run", rest @ ..] => {
                if let Some(directory) = option(rest, &["--directory", "--project"]) {
                    self.directory = Some(directory.to_owned());
                }
                if let Some(module) = option(before_command(rest, &UV_RUN), &["-m", "--module"]) {
                    return self.pieces.push(Piece {
                        role: Role::Module,
                        name: module.to_owned(),
                        path: None,
                    });
                }
                let command = behind(rest, &UV_RUN);
                match command.first() {
                    Some(script) if script.ends_with(".py") => self.script(command, level),
                    _ => self.read(command, level + 1),
                }
            }
            _ => {}
        }
    }

    /// `npx`, `uvx` and the like: a package, perhaps another program in it.
    fn package(&mut self, args: &[&str], options: &Options, level: usize) {
        let own = before_command(args, options);
        let from = option(own, &["--package", "--from", "--spec"]).or_else(|| {
            // `-p` is a package to npm and a Python to uv.
            if options.with_value.contains(&"--call") { option(own, &["-p"]) } else { None }
        });
        if let Some(from) = from {
            self.push_package(from);
        }
        if let Some(line) = option(own, &["-c", "--call"]).filter(|_| options.with_value.contains(&"--call"))
        {
            return self.read(&line.split_whitespace().collect::<Vec<_>>(), level + 1);
        }
        let rest = behind(args, options);
        match rest.first() {
            // With a package given, the command is a program in it, or an interpreter (`uvx --from x python -m y`).
            Some(_) if from.is_some() => self.read(rest, level + 1),
            Some(&"python" | &"python3" | &"node") => self.read(rest, level + 1),
            Some(spec) => self.push_package(spec),
            None => {}
        }
    }

    fn push_package(&mut self, spec: &str) {
        self.pieces.push(Piece { role: Role::Package, name: names::package(spec), path: None });
    }

    /// `docker run` an image, or `docker exec` in a container.
    fn container(&mut self, args: &[&str], level: usize) {
        // Options of the engine's own stand in front (`--context`, `--runtime`).
        let Some(at) = args.iter().take(MAX_ENGINE_ARGS).position(|arg| matches!(*arg, "run" | "exec"))
        else {
            return;
        };
        let rest = args.get(at + 1..).unwrap_or_default();
        self.in_container = true;
        let Some((first, command)) = behind(rest, &DOCKER).split_first() else { return };
        if args.get(at) == Some(&"exec") || args.contains(&"--rootfs") {
            return self.read(command, level + 1);
        }
        self.pieces.push(Piece { role: Role::Image, name: names::image(first), path: None });
    }

    /// Goes on behind a subcommand, wherever the launcher's own options put it (`docker container run`).
    fn sub(&mut self, args: &[&str], names: &[&str], go_on: impl FnOnce(&mut Self, &[&str])) {
        if let Some(at) = args.iter().take(4).position(|arg| names.contains(arg)) {
            go_on(self, args.get(at + 1..).unwrap_or_default());
        }
    }
}

/// Everything from the first argument that is no option.
fn behind<'a, 'b>(args: &'b [&'a str], options: &Options) -> &'b [&'a str] {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if *arg == "--" {
            at += 1;
            break;
        }
        if !arg.starts_with('-') {
            break;
        }
        at += if options.with_value.contains(arg) { 2 } else { 1 };
    }
    args.get(at..).unwrap_or_default()
}

/// The options in front of the command.
fn before_command<'a, 'b>(args: &'b [&'a str], options: &Options) -> &'b [&'a str] {
    args.get(..args.len() - behind(args, options).len()).unwrap_or(args)
}

/// The value of an option: `--name value` or `--name=value`.
fn option<'a>(args: &[&'a str], names: &[&str]) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.split_once('=') {
        Some((name, value)) if names.contains(&name) => Some(value),
        _ if names.contains(arg) => args.get(at + 1).copied(),
        _ => None,
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}
