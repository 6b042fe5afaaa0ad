//! Tables of what runs, of what the host has, and of whether that is what a declaration demands.

use super::*;
use crate::terms::ServerId;

const ACME: FileId = FileId { device: 1, inode: 10 };
const EVIL: FileId = FileId { device: 1, inode: 66 };
const NODE: FileId = FileId { device: 1, inode: 20 };
const SCRIPT: FileId = FileId { device: 1, inode: 30 };
/// The mount of the host, and one of another namespace.
const ROOT: Option<u64> = Some(1);
const OTHER: Option<u64> = Some(2);

/// What the host has: path, what that leads to, file; whether it is root's.
const HOST: [(&str, &str, Option<FileId>, bool); 9] = [
    ("/usr/bin/acme", "/usr/bin/acme", Some(ACME), true),
    ("/usr/local/bin/acme", "/opt/acme-1.3/bin/acme", Some(ACME), true),
    ("/usr/bin/gone", "/usr/bin/gone", None, true),
    ("/srv/acme.js", "/srv/acme.js", Some(SCRIPT), false),
    ("/usr/bin/node", "/usr/bin/node", Some(NODE), true),
    ("/usr/bin/dash", "/usr/bin/dash", Some(NODE), true),
    ("/usr/bin/cat", "/usr/bin/cat", Some(NODE), true),
    ("/home/u/bin/node", "/home/u/bin/node", Some(NODE), false),
    ("/tmp/evil", "/tmp/evil", Some(EVIL), false),
];

fn host(path: &str) -> HostFile {
    let known = HOST.iter().find(|(known, ..)| *known == path);
    let (_, resolved, file, is_roots) = known.copied().unwrap_or((path, path, None, false));
    HostFile { path: path.into(), resolved: resolved.into(), file, mount: ROOT, is_roots, interpreter: None }
}

/// What runs: the path that the kernel gives, the file, the mount.
type Runs<'a> = (&'a str, FileId, Option<u64>);

fn files((path, runs, mount): Runs<'_>, declared: &Declared) -> Files {
    let named = declared.executables.iter().chain(&declared.interpreter);
    Files {
        runs: Some(runs),
        mount,
        at_path: host(path.strip_suffix(DELETED).unwrap_or(path)),
        demanded: named.map(|path| host(path)).collect(),
        ..Files::default()
    }
}

fn declared(executable: &str, interpreter: Option<&str>) -> Declared {
    Declared {
        id: ServerId("acme".into()),
        command: "acme".into(),
        args: Vec::new(),
        executables: vec![executable.into()],
        interpreter: interpreter.map(str::to_owned),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// What is demanded; what runs; whether it ran before the agent; whether that is it.
#[test]
fn program_is_its_file_and_not_its_path() {
    let acme = "/usr/bin/acme";
    let link = "/usr/local/bin/acme";
    let cases: [(&str, &str, Runs<'_>, bool, bool); 19] = [
        ("the program", acme, (acme, ACME, ROOT), false, true),
        ("by a link", link, ("/opt/acme-1.3/bin/acme", ACME, ROOT), false, true),
        ("by another name", acme, ("/usr/bin/acme2", ACME, ROOT), false, true),
        ("in a sandbox with the host's files", acme, (acme, ACME, OTHER), false, true),
        ("another program", acme, ("/tmp/evil", EVIL, ROOT), false, false),
        ("a bind mount over its path", acme, (acme, EVIL, OTHER), false, false),
        ("a bind mount, found running", acme, (acme, EVIL, OTHER), true, false),
        ("another image with that path", acme, (acme, FileId { device: 9, inode: 10 }, OTHER), false, false),
        ("a bind mount whose file is removed", acme, ("/usr/bin/acme (deleted)", EVIL, OTHER), false, false),
        ("the same, found running", acme, ("/usr/bin/acme (deleted)", EVIL, OTHER), true, false),
        ("replaced by an upgrade", acme, ("/usr/bin/acme (deleted)", EVIL, ROOT), true, true),
        ("it runs itself again after an upgrade", acme, ("/usr/bin/acme (deleted)", EVIL, ROOT), false, true),
        ("removed", "/usr/bin/gone", ("/usr/bin/gone (deleted)", EVIL, ROOT), true, true),
        ("the version before, found running", link, ("/opt/acme-1.2/bin/acme", EVIL, ROOT), true, true),
        ("the version before, removed", link, ("/opt/acme-1.2/bin/acme (deleted)", EVIL, ROOT), false, true),
        ("the version before, run now", link, ("/opt/acme-1.2/bin/acme", EVIL, ROOT), false, false),
        ("another one, removed", acme, ("/usr/bin/evil (deleted)", EVIL, ROOT), true, false),
        ("another one, found running", acme, ("/tmp/evil", EVIL, ROOT), true, false),
        ("nothing is there, and something runs", "/usr/bin/gone", ("/tmp/evil", EVIL, ROOT), true, false),
    ];
    for (name, executable, runs, adopted, expected) in cases {
        let declared = declared(executable, None);
        let files = files(runs, &declared);
        let argv = words("acme --serve");
        let running =
            Running { argv: &argv, cwd: Some("/"), executable: Some(runs.0), files: Some(&files), adopted };
        assert_eq!(is_served_by(&declared, &running), expected, "{name}");
    }
    let declared = declared(acme, None);
    let ended = Files { demanded: vec![host("/usr/bin/gone")], ..Files::default() };
    let argv = words("acme");
    let running = Running { argv: &argv, cwd: None, executable: None, files: Some(&ended), adopted: true };
    assert!(!is_served_by(&declared, &running), "a process that has ended, and nothing is there");
}

/// What a script's own interpreter is, and what it is told to run.
struct Case<'a> {
    name: &'a str,
    line: &'a str,
    runs: Runs<'a>,
    interpreter: Option<&'a str>,
    script: Option<FileId>,
    has_own_mounts: bool,
    expected: bool,
}

#[test]
fn script_is_its_file_and_its_interpreter() {
    const HERE: Option<FileId> = Some(SCRIPT);
    let node: Runs<'_> = ("/usr/bin/node", NODE, ROOT);
    let home: Runs<'_> = ("/home/u/bin/node", NODE, ROOT);
    let given = Some("/home/u/bin/node");
    #[rustfmt::skip]
    let cases = [
        Case { name: "the script", line: "node /srv/acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "with options", line: "node --no-warnings /srv/acme.js --x", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "below the working directory", line: "node acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "by another name of its interpreter", line: "sh /srv/acme.js", runs: ("/usr/bin/dash", NODE, ROOT), interpreter: None, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "a program that is called so", line: "node /srv/acme.js", runs: ("/tmp/evil", EVIL, ROOT), interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "a program of root's that is called so", line: "node /srv/acme.js", runs: ("/usr/bin/cat", NODE, ROOT), interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "a bind mount over the interpreter", line: "node /srv/acme.js", runs: ("/usr/bin/node", EVIL, OTHER), interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "a bind mount over the script", line: "node /srv/acme.js", runs: node, interpreter: None, script: Some(EVIL), has_own_mounts: false, expected: false },
        Case { name: "a namespace of the user's", line: "node /srv/acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: true, expected: false },
        Case { name: "a script that the process does not have", line: "node /srv/acme.js", runs: node, interpreter: None, script: None, has_own_mounts: false, expected: false },
        Case { name: "another path to it", line: "node /tmp/link.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "another script", line: "node /tmp/x.js /srv/acme.js", runs: node, interpreter: None, script: Some(EVIL), has_own_mounts: false, expected: false },
        Case { name: "a text", line: "node -e 1 /srv/acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "a runner", line: "node /tmp/tsx /srv/acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "a runner as a module", line: "python -m mcp run /srv/acme.js", runs: ("/usr/bin/python3", NODE, ROOT), interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "in another interpreter's words", line: "bash -c x /srv/acme.js", runs: node, interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "the user's interpreter", line: "node /srv/acme.js", runs: home, interpreter: None, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "the declared interpreter", line: "node /srv/acme.js", runs: home, interpreter: given, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "another than the declared one", line: "node /srv/acme.js", runs: ("/tmp/evil", EVIL, ROOT), interpreter: given, script: HERE, has_own_mounts: false, expected: false },
        Case { name: "an upgraded interpreter", line: "node /srv/acme.js", runs: ("/usr/bin/node (deleted)", EVIL, ROOT), interpreter: None, script: HERE, has_own_mounts: false, expected: true },
        Case { name: "one that is removed elsewhere", line: "node /srv/acme.js", runs: ("/usr/bin/node (deleted)", EVIL, OTHER), interpreter: None, script: HERE, has_own_mounts: false, expected: false },
    ];
    for case in cases {
        let Case { name, line, runs, interpreter, script, has_own_mounts, expected } = case;
        let declared = declared("/srv/acme.js", interpreter);
        let files = Files { script, has_own_mounts, ..files(runs, &declared) };
        let argv = words(line);
        let running = Running {
            argv: &argv,
            cwd: Some("/srv"),
            executable: Some(runs.0),
            files: Some(&files),
            adopted: false,
        };
        assert_eq!(is_served_by(&declared, &running), expected, "{name}");
    }
}

/// Whether the interpreter that the script's first line names may be anybody's.
#[test]
fn script_may_name_its_interpreter() {
    let declared = declared("/srv/acme.js", None);
    for (first_line, runs, expected) in [
        (Some("/home/u/bin/node"), ("/home/u/bin/node", NODE, ROOT), true),
        (Some("/home/u/bin/node"), ("/tmp/evil", EVIL, ROOT), false),
        (None, ("/home/u/bin/node", NODE, ROOT), false),
        (Some("/tmp/evil"), ("/usr/bin/node", NODE, ROOT), true),
    ] {
        let mut files = Files { script: Some(SCRIPT), ..files(runs, &declared) };
        files.demanded[0].interpreter = first_line.map(|path| Box::new(host(path)));
        let argv = words("node /srv/acme.js");
        let running =
            Running { argv: &argv, cwd: None, executable: Some(runs.0), files: Some(&files), adopted: false };
        assert_eq!(is_served_by(&declared, &running), expected, "{first_line:?} {runs:?}");
    }
}

/// A command line, what runs, and which script is loaded.
#[test]
fn first_script_is_what_an_interpreter_loads() {
    for (line, executable, expected) in [
        ("node x.js", "/usr/bin/node", Some("/w/x.js")),
        ("node /a/x.js y.js", "/usr/bin/node", Some("/a/x.js")),
        ("python3 -u x.py", "/usr/bin/python3.12", Some("/w/x.py")),
        ("/usr/bin/ruby x.rb", "/usr/bin/ruby3.1", Some("/w/x.rb")),
        ("-sh x.sh", "/usr/bin/dash", Some("/w/x.sh")),
        ("sh x.sh", "/usr/bin/busybox", Some("/w/x.sh")),
        ("java -cp a -jar x.jar", "/usr/bin/java", Some("/w/x.jar")),
        ("node /usr/bin/npx acme", "/usr/bin/node", Some("/usr/bin/npx")),
        ("node x.js", "/usr/bin/node (deleted)", Some("/w/x.js")),
        ("python -m x", "/usr/bin/python3", None),
        ("python -c x y.py", "/usr/bin/python3", None),
        ("sh -c x", "/bin/sh", None),
        ("env node x.js", "/usr/bin/env", None),
        ("node x.js", "/usr/bin/evil", None),
        ("evil x.js", "/usr/bin/node", Some("/w/x.js")),
        ("acme", "/usr/bin/acme", None),
    ] {
        let found = loads(&words(line), Some("/w"), Some(executable));
        assert_eq!(found.as_deref(), expected, "{line}: {executable}");
    }
    assert_eq!(loads(&words("node x.js"), None, None), None, "what runs is not known");
}
