use std::{
    fs::{self, File},
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
};

use super::*;

/// What standard output is, and whether a command that waits for something to print notices that nobody reads it.
#[test]
fn gone_reader_is_noticed_while_nothing_is_printed() {
    let device = |path: &str| OwnedFd::from(File::options().write(true).open(path).unwrap());
    let file = || OwnedFd::from(tempfile::tempfile().unwrap());
    let keep = |ends: (io::PipeReader, io::PipeWriter)| {
        std::mem::forget(ends.0);
        OwnedFd::from(ends.1)
    };
    let full = || {
        let (reader, mut writer) = io::pipe().unwrap();
        std::mem::forget(reader);
        writer.write_all(&[0; 1 << 16]).unwrap();
        OwnedFd::from(writer)
    };
    let socket = |is_open: bool| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        if is_open {
            std::mem::forget(theirs);
        }
        OwnedFd::from(ours)
    };
    let terminal = |is_open: bool| {
        let pty = nix::pty::openpty(None, None).unwrap();
        if is_open {
            std::mem::forget(pty.master);
        }
        pty.slave
    };
    let cases = [
        ("a pipe with a reader", keep(io::pipe().unwrap()), true),
        ("a full pipe with a reader", full(), true),
        ("a pipe without a reader", io::pipe().unwrap().1.into(), false),
        ("a socket", socket(true), true),
        ("a socket that is closed", socket(false), false),
        ("a terminal", terminal(true), true),
        ("a terminal that is gone", terminal(false), false),
        ("a file", file(), true),
        ("/dev/null", device("/dev/null"), true),
        ("/dev/full", device("/dev/full"), true),
    ];
    for (name, output, is_there) in cases {
        let start = Instant::now();
        let found = is_read(output.as_fd(), Duration::from_millis(20));
        assert_eq!(found.is_ok(), is_there, "{name}: {found:?}");
        // The kernel counts whole milliseconds.
        assert_eq!(start.elapsed() >= Duration::from_millis(15), is_there, "{name}: {:?}", start.elapsed());
    }
}

/// The code of a file that runs in the agent: without its tests, and without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs")
            && !name.ends_with("tests.rs")
            && !["build.rs", "toolchain.rs"].contains(&&*name)
        {
            found.push(path);
        }
    }
}

/// A macro that prints, and panics where that is impossible: a full disk, or a reader that is gone, would end the agent.
fn panicking(code: &str) -> Option<&'static str> {
    let is_name = |before: char| before.is_alphanumeric() || before == '_';
    ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!("]
        .into_iter()
        .find(|name| code.match_indices(name).any(|(at, _)| !code[..at].ends_with(is_name)))
}

#[test]
fn no_code_panics_where_it_cannot_print() {
    for (text, expected) in [
        ("println!(\"x\");", Some("println!(")),
        ("anstream::eprintln!(\"x\");", Some("eprintln!(")),
        ("std::print!(\"x\")", Some("print!(")),
        ("dbg!(x)", Some("dbg!(")),
        ("    eprint!(\"x\")", Some("eprint!(")),
        ("writeln!(out, \"x\")", None),
        ("// println!(\"x\")", None),
        ("fn a() {}\n#[cfg(test)]\nmod tests {\n println!(\"x\"); }", None),
        ("my_print!(x)", None),
        ("footprint!(x)", None),
    ] {
        assert_eq!(panicking(&code(text)), expected, "{text}");
    }
    let mut files = Vec::new();
    sources(Path::new(env!("CARGO_MANIFEST_DIR")), &mut files);
    assert!(files.len() > 200, "{}", files.len());
    // A benchmark prints its figures.
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "benches"));
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            panicking(&code(&text)),
            None,
            "{}: print with `output::print_error` or `log`",
            path.display()
        );
    }
}
