//! What a bridge or a runner stands for: the URL, command, name or host in its arguments. It is another server for each.

mod bridges;
mod words;

use std::borrow::Cow;

use super::{Command, tasks};
use crate::discovery::options::{self, Options, is_in};
use crate::discovery::piece::Role;
use crate::discovery::{names, places, windows};
use words::{bounded, digest, named, word};
pub(super) use words::{is_url, place};

/// What `kubectl exec` takes in front of a name, in all spellings (kubectl api-resources).
const KINDS: [&str; 7] = [
    "pod pods po",
    "deploy deployment deployments",
    "sts statefulset statefulsets",
    "ds daemonset daemonsets",
    "rs replicaset replicasets",
    "svc service services",
    "job jobs",
];

/// A program that stands for another server.
#[derive(Clone, Copy, Debug)]
struct Bridge {
    /// Its names: of the program and of the package.
    names: &'static str,
    /// Words of which one phrase must stand in front; none: there is none.
    subcommands: &'static [&'static str],
    /// Its options, with those in front of the subcommand.
    options: Options,
    /// Options whose value is the URL or the shell's text that it stands for.
    targets: &'static str,
    /// Options whose value tells targets apart.
    qualifiers: &'static [&'static str],
    /// Options with the directory that the command works in.
    directory: &'static str,
    /// Options with the user and the port at the host that it names.
    login: [&'static str; 2],
    /// What its arguments are.
    operands: Operands,
    /// Which of its words is the name of a server, counted from one; 0: none.
    server: usize,
    /// Whose tasks its first word names, if it runs those of a project.
    tasks: Tasks,
}

/// Where the tasks of a project stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tasks {
    /// It has none.
    None,
    /// The program itself is a file of the project (`artisan`, `manage.py`).
    Own,
    /// In a file of this name in the working directory, or where these options say: a directory or a file.
    In(&'static str, &'static str),
}

/// What a bridge runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::discovery) enum Inner<'a> {
    /// A command, and the directory that it works in.
    Command(Vec<&'a str>, Option<&'a str>),
    /// A command in a container of this name.
    Within(String, Vec<&'a str>),
    /// A shell's text.
    Text(String),
    /// A package of a registry of servers.
    Package(&'a str),
    /// A server that is a part of a larger program.
    Name(&'a str),
    /// A task of a project: what it is called, if that says something, and the project's file where that is not the program
    /// itself.
    Task(Option<String>, Option<String>),
    Image(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// Not looked at; nor are options behind the first.
    None,
    /// A URL, or a command.
    Place,
    /// So many words.
    Words(usize),
    /// So many words and a command.
    Command(usize),
    /// So many words and a command in the form of a shell's text.
    Line(usize),
    /// A pod of Kubernetes and a command.
    Pod,
}

/// The arguments of a bridge, told apart.
#[derive(Debug, Default)]
struct Arguments<'a> {
    options: Vec<&'a str>,
    operands: Vec<&'a str>,
    command: Vec<&'a str>,
}

/// What a program of this name stands for with these arguments; `None`: it is no bridge, or nothing says it.
///
/// | what is named | how it is kept |
/// |---|---|
/// | a URL | scheme, host, port and path, without user, query and fragment; a part that looks like a secret is a digest |
/// | a command | what a pin knows its program by: package, module, image, script or program |
/// | a file or a preset of definitions | its path without versions, or its name, behind that of the option |
/// | a name, a host, a pod | the word; of a pod's name what its replicas have in common |
pub(super) fn target(name: &str, args: &[&str], level: usize) -> Option<String> {
    let name = name.replace('_', "-");
    let known = bridges::BRIDGES.iter().filter(|bridge| is_in(bridge.names, &name));
    let mut is_known = false;
    for bridge in known {
        is_known = true;
        let Some((before, rest)) = bridge.behind_subcommand(args) else { continue };
        let found = bridge.target(before, rest, level);
        if !found.is_empty() {
            return Some(bounded(found));
        }
    }
    if is_known {
        return None;
    }
    // `PROGRAM mcp NAME`: a program for much else that runs one of several servers.
    if let ["mcp", name, ..] = args
        && !name.starts_with('-')
    {
        return Some(bounded(word(&named(name))));
    }
    let is_called = |list| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| is_in(list, word));
    let defined: Vec<String> = bridges::DEFINITIONS.iter().flat_map(|names| qualified(args, names)).collect();
    if !defined.is_empty() {
        return Some(bounded(defined.join(" ")));
    }
    if is_called(bridges::GENERATOR_WORDS) {
        return document(args, bridges::SPECIFICATIONS).map(bounded);
    }
    let url = is_called(bridges::BRIDGE_WORDS).then(|| first_url(args)).flatten();
    if let Some(url) = url {
        return Some(bounded(place(url)));
    }
    is_called(bridges::COLLECTION_WORDS).then(|| document(args, bridges::COLLECTIONS)).flatten().map(bounded)
}

/// What these words say.
pub(super) fn of_words(words: &[&str]) -> String {
    bounded(words.iter().map(|one| word(one)).collect::<Vec<_>>().join(" "))
}

/// What a program makes its tools of: the value of an option that says so, or else a URL or a file that is an operand.
fn document(args: &[&str], options: &str) -> Option<String> {
    let is_file = |arg: &&&str| !arg.starts_with('-') && (is_url(arg) || is_document(arg));
    let named = options::value(args, options);
    Some(said(named.or_else(|| args.iter().find(is_file).copied())?))
}

fn is_document(arg: &str) -> bool {
    [".json", ".yaml", ".yml", ".toml", ".graphql", ".proto", ".wsdl"].iter().any(|end| arg.ends_with(end))
}

/// An address, a file or a word that says what is served.
fn said(value: &str) -> String {
    match value {
        url if is_url(url) => place(url),
        path if path.starts_with(['/', '.', '~']) || is_document(path) => word(&places::lasting(path)),
        name => word(name),
    }
}

/// The values of an option with its name: the last one, of those that it has.
fn qualified(args: &[&str], names: &str) -> Vec<String> {
    let name = names.split_ascii_whitespace().next_back().unwrap_or_default();
    options::all(args, names).map(|value| format!("{name}={}", said(value))).collect()
}

/// What a program of this name runs with these arguments, if it is a bridge to a command.
pub(super) fn inner<'a>(name: &str, args: &[&'a str]) -> Option<Inner<'a>> {
    let name = name.replace('_', "-");
    let known = bridges::BRIDGES.iter().filter(|bridge| is_in(bridge.names, &name));
    known.into_iter().find_map(|bridge| {
        let (before, rest) = bridge.behind_subcommand(args)?;
        bridge.inner(before, rest)
    })
}

impl Bridge {
    fn inner<'a>(&self, before: &[&'a str], rest: &[&'a str]) -> Option<Inner<'a>> {
        let mut found = self.arguments(rest);
        found.options.splice(..0, before.iter().copied());
        let image = options::value(&found.options, "--image").filter(|_| self.operands == Operands::Pod);
        if let Some(image) =
            image.filter(|image| found.command.is_empty() || !names::is_runtime(&names::image(image)))
        {
            return Some(Inner::Image(image));
        }
        if let Some(name) = self.server.checked_sub(1).and_then(|at| found.operands.get(at)) {
            // Of a console's commands those that serve say so.
            return match found.operands.first() {
                Some(_) if self.server == 1 => Some(Inner::Package(name)),
                Some(command) if command.starts_with("mcp") => Some(Inner::Name(name)),
                _ => self.task(&found),
            };
        }
        if self.tasks != Tasks::None {
            return self.task(&found);
        }
        match (self.operands, found.command.as_slice()) {
            (Operands::Place, [url, ..] | [_, url, ..]) if is_url(url) => None,
            (_, []) => {
                let mut values = self
                    .targets
                    .split_ascii_whitespace()
                    .filter_map(|name| options::value(&found.options, name));
                values
                    .find(|value| !is_url(value) && !value.is_empty())
                    .map(|text| Inner::Text(text.to_owned()))
            }
            (Operands::Line(_), words) => Some(Inner::Text(words.join(" "))),
            (Operands::Pod, words) => {
                let pod = found.operands.first().map(|pod| replicated(pod).into_owned()).unwrap_or_default();
                let place = names::base(&pod).trim_end_matches("-*").to_owned();
                Some(Inner::Within(place, words.to_vec()))
            }
            (_, words) => {
                Some(Inner::Command(words.to_vec(), options::value(&found.options, self.directory)))
            }
        }
    }

    /// The task of a project that it runs; `None`: there is none that serves.
    fn task<'a>(&self, found: &Arguments<'a>) -> Option<Inner<'a>> {
        // `make CC=gcc`
        let task = found.operands.first().filter(|task| !task.contains('=') && !tasks::is_build(task))?;
        let file = match self.tasks {
            Tasks::None => return None,
            Tasks::Own => None,
            Tasks::In(file, options) => Some(match options::value(&found.options, options) {
                Some(path)
                    if names::base(path).contains('.') || names::base(path).eq_ignore_ascii_case(file) =>
                {
                    path.to_owned()
                }
                Some(directory) => format!("{}/{file}", directory.trim_end_matches('/')),
                None => file.to_owned(),
            }),
        };
        Some(Inner::Task(tasks::task_name(task), file))
    }

    /// The options in front of its subcommand, and what stands behind that.
    fn behind_subcommand<'a, 'b>(&self, args: &'b [&'a str]) -> Option<(&'b [&'a str], &'b [&'a str])> {
        if self.subcommands.is_empty() {
            return Some((&[], args));
        }
        self.subcommands.iter().find_map(|phrase| {
            let mut rest = args;
            for word in phrase.split_ascii_whitespace() {
                rest = self.options.behind(rest).split_first().filter(|(first, _)| **first == word)?.1;
            }
            args.split_at_checked(args.len() - rest.len())
        })
    }

    fn target(&self, before: &[&str], rest: &[&str], level: usize) -> String {
        let mut found = self.arguments(rest);
        found.options.splice(..0, before.iter().copied());
        let mut parts: Vec<String> = Vec::new();
        match (self.operands, found.operands.as_slice()) {
            (Operands::Pod, [pod, ..]) => parts.push(word(&replicated(pod))),
            (Operands::Line(_), [host, ..]) => parts.push(self.host(host, &found.options)),
            (_, operands) => parts.extend(operands.iter().map(|operand| word(&named(operand)))),
        }
        let values = self.targets.split_ascii_whitespace();
        for value in values.filter_map(|name| options::value(&found.options, name)) {
            parts.push(if is_url(value) { place(value) } else { of_text(value, level) });
        }
        parts.extend(self.qualifiers.iter().flat_map(|names| qualified(&found.options, names)));
        match (self.operands, found.command.as_slice()) {
            (_, []) => {}
            (Operands::Place, [url, ..]) if is_url(url) => parts.push(place(url)),
            // The value of an option that is in no list.
            (Operands::Place, [_, url, ..]) if is_url(url) && !before_command(rest, &found.command) => {
                parts.push(place(url));
            }
            (Operands::Line(_), command) => parts.push(of_text(&command.join(" "), level)),
            (_, command) => parts.push(of_command(command, level)),
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }

    /// Tells arguments apart: options with their values, words, and the command behind them.
    fn arguments<'a>(&self, args: &[&'a str]) -> Arguments<'a> {
        let (count, has_command) = match self.operands {
            Operands::None => {
                return Arguments { options: self.options.before(args).to_vec(), ..Arguments::default() };
            }
            Operands::Place => (0, true),
            Operands::Words(count) => (count, false),
            Operands::Command(count) | Operands::Line(count) => (count, true),
            Operands::Pod => (1, true),
        };
        let mut found = Arguments::default();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let rest = || args.get(at..).unwrap_or_default();
            if *arg == "--" {
                // getopt(3): it ends the options; the host is still the first word behind it.
                let missing = match self.operands {
                    Operands::Line(count) => count.saturating_sub(found.operands.len()),
                    _ => 0,
                };
                let mut behind = rest().iter().skip(1).copied();
                found.operands.extend(behind.by_ref().take(missing));
                if has_command {
                    found.command = behind.collect();
                }
                break;
            }
            if arg.starts_with('-') && *arg != "-" {
                let words = 1 + self.values(arg);
                found.options.extend(rest().iter().take(words));
                at += words;
                continue;
            }
            if found.operands.len() < count {
                found.operands.push(arg);
            } else if has_command {
                found.command = rest().to_vec();
                break;
            }
            at += 1;
        }
        found
    }

    /// How many of the next words are values of this option.
    fn values(&self, option: &str) -> usize {
        let is_target = !option.contains('=') && is_in(self.targets, option);
        self.options.values(option).unwrap_or(usize::from(is_target))
    }

    /// `user@host:port`, wherever user and port are said.
    fn host(&self, host: &str, own: &[&str]) -> String {
        if is_url(host) {
            return place(host);
        }
        let [user, port] = self.login.map(|names| options::value(own, names).or_else(|| setting(own, names)));
        let user = user.filter(|_| !host.contains('@')).map(|user| format!("{user}@")).unwrap_or_default();
        let port = port.filter(|port| *port != "22").map(|port| format!(":{port}")).unwrap_or_default();
        word(&format!("{user}{host}{port}"))
    }
}

/// The value of a setting in the form of ssh_config(5): `-o Port=22`, `-oPort=22`, `-o 'Port 22'`. `names` has it as `-oPort`.
fn setting<'a>(own: &[&'a str], names: &str) -> Option<&'a str> {
    let mut before = "";
    own.iter().find_map(|arg| {
        let is_behind = std::mem::replace(&mut before, arg) == "-o";
        let text = if is_behind { arg } else { arg.strip_prefix("-o")? };
        let (name, value) = text.split_once(['=', ' '])?;
        let is_it =
            |one: &str| one.strip_prefix("-o").is_some_and(|one| one.eq_ignore_ascii_case(name.trim()));
        names.split_ascii_whitespace().any(is_it).then(|| value.trim())
    })
}

/// Whether nothing that may have a value in the next word stands in front of a command.
fn before_command(args: &[&str], command: &[&str]) -> bool {
    let front = args.len().checked_sub(command.len() + 1).and_then(|at| args.get(at));
    !front.is_some_and(|front| front.starts_with("--") && *front != "--" && !front.contains('='))
}

/// The first URL among these arguments that is an operand, or the value of an option that may name a target.
fn first_url<'a>(args: &[&'a str]) -> Option<&'a str> {
    let mut before = "";
    args.iter().find_map(|arg| {
        let option = std::mem::replace(&mut before, arg);
        let (option, value) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, value),
            _ => (option, *arg),
        };
        (is_url(value) && !is_in(bridges::OTHER_URLS, option)).then_some(value)
    })
}

/// What a pin knows a command by.
fn of_command(words: &[&str], level: usize) -> String {
    let mut command = Command::default();
    command.read(words, level + 1);
    known_by(&command, &words.join(" "))
}

/// What a pin knows the commands in a shell's text by.
fn of_text(text: &str, level: usize) -> String {
    let mut command = Command::default();
    command.text(text, &[], level + 1);
    known_by(&command, text)
}

fn known_by(command: &Command, text: &str) -> String {
    let pieces = || command.pieces.iter().rev();
    let script = pieces().find(|piece| piece.role == Role::Script && piece.path.is_some());
    let best = pieces().max_by_key(|piece| (piece.role.rank(), piece.role == Role::Entry));
    let program = match (script.or(best), &command.directory) {
        (None, _) if command.container.is_some() => String::new(),
        (None, _) => digest(text),
        (Some(piece), directory) => match (piece.path.as_deref(), directory) {
            // A program without a slash is one of `PATH`.
            (Some(path), Some(directory))
                if !windows::is_absolute(path) && (piece.role == Role::Script || path.contains('/')) =>
            {
                places::lasting(&format!("{directory}/{path}"))
            }
            (Some(path), _) => places::lasting(path),
            (None, Some(directory)) if names::is_nameless_module(piece) => {
                format!("{} in {}", piece.name, places::lasting(directory))
            }
            (None, _) => piece.name.clone(),
        },
    };
    let container = command.container.as_deref().map(|container| format!("container {container}"));
    let parts =
        [container, Some(program).filter(|program| !program.is_empty()).map(|program| word(&program))];
    let program: Vec<String> = parts.into_iter().flatten().collect();
    match command.target.as_deref().filter(|target| !target.is_empty()) {
        Some(target) => format!("{} to {target}", program.join(" ")),
        None => program.join(" "),
    }
}

/// A pod without its kind, and without the ends that Kubernetes gives to the replicas of a deployment (`NAME-HASH-xxxxx`:
/// k8s.io/apimachinery/pkg/util/rand has neither vowels nor 0, 1 and 3).
fn replicated(pod: &str) -> Cow<'_, str> {
    let (kind, name) = pod.split_once('/').unwrap_or(("pod", pod));
    let kind = kind.split('.').next().unwrap_or(kind);
    let kind = KINDS.iter().find(|names| is_in(names, kind)).and_then(|names| names.split(' ').next());
    let pod = match kind {
        Some("pod") => name,
        Some(kind) => return format!("{kind}/{name}").into(),
        None => pod,
    };
    let is_of = |part: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&part.len())
            && part.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
    };
    let is_hash = |part: &str| {
        (6..=10).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && part.bytes().any(|byte| byte.is_ascii_digit())
    };
    let Some((before, last)) = pod.rsplit_once('-').filter(|(_, last)| is_of(last, 5..=5)) else {
        return pod.into();
    };
    match before.rsplit_once('-').filter(|(_, hash)| is_hash(hash)) {
        Some((name, _)) => format!("{name}-*").into(),
        // A set's: one end alone.
        None if last.bytes().any(|byte| byte.is_ascii_digit()) => format!("{before}-*").into(),
        None => pod.into(),
    }
}

#[cfg(test)]
mod tests;
