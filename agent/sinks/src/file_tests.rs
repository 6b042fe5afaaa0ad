use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use super::super::Line;
use super::*;

fn sink(path: &Path, rotate_bytes: u64, keep: u32) -> config::Sink {
    let text = format!(
        "sinks: [{{ kind: file, path: {}, rotate_bytes: 65536, rotate_keep: {keep} }}]",
        path.display()
    );
    let mut sink = config::parse(text.as_bytes()).unwrap().0.sinks.remove(0);
    sink.rotate_bytes = Some(config::Bytes(rotate_bytes));
    sink
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("({error})"))
}

fn write(file: &mut RotatingFile, texts: &[&str]) {
    let lines: Vec<Line> = texts.iter().map(|text| Line::plain(text)).collect();
    let mut rest = &lines[..];
    while !rest.is_empty() {
        let (written, result) = file.write(rest);
        result.unwrap();
        rest = &rest[written..];
    }
}

/// What is kept, and what is where after 7 lines of 4 bytes with room for 8.
#[test]
fn full_log_files_are_rotated() {
    for (keep, expected) in [
        (2, ["g00\n", "e00\nf00\n", "c00\nd00\n", "no"]),
        (3, ["g00\n", "e00\nf00\n", "c00\nd00\n", "a00\nb00\n"]),
        (0, ["g00\n", "no", "no", "no"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let mut file = RotatingFile::open(&sink(&path, 8, keep)).unwrap();
        write(&mut file, &["a00", "b00", "c00", "d00", "e00", "f00", "g00"]);
        for (number, expected) in expected.iter().enumerate() {
            let name = if number == 0 { path.clone() } else { file.aside(number as u32) };
            if *expected == "no" {
                assert!(!name.exists(), "{keep} {number}");
            } else {
                assert_eq!(read(name), *expected, "{keep} {number}");
            }
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !0o640, 0, "{mode:o}");
    }
}

#[test]
fn oversized_line_gets_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let mut file = RotatingFile::open(&sink(&path, 8, 5)).unwrap();
    write(&mut file, &["a", "123456789", "b"]);
    assert_eq!([read(&path), read(file.aside(1)), read(file.aside(2))], ["b\n", "123456789\n", "a\n"]);
}

#[test]
fn moved_or_removed_log_file_is_reopened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let mut file = RotatingFile::open(&sink(&path, 1 << 20, 5)).unwrap();
    write(&mut file, &["a"]);
    fs::rename(&path, directory.path().join("moved")).unwrap();
    write(&mut file, &["b"]);
    fs::remove_file(&path).unwrap();
    write(&mut file, &["c"]);
    assert_eq!([read(directory.path().join("moved")), read(&path)], ["a\n", "c\n"]);
    drop(file);
    write(&mut RotatingFile::open(&sink(&path, 1 << 20, 5)).unwrap(), &["d"]);
    assert_eq!(read(&path), "c\nd\n", "an old one is gone on with");
}

#[test]
fn log_path_must_be_a_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("else"), "").unwrap();
    symlink("else", at("link")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["link", "directory", "pipe", "none/x"] {
        let error = RotatingFile::open(&sink(&at(name), 8, 1)).err();
        assert!(error.is_some_and(|error| format!("{error:#}").contains(name)), "{name}");
    }
}

/// `/dev/full` has no room; what is waiting is dropped at the end, and counted.
#[test]
fn full_disk_drops_pending_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let mut file = RotatingFile::open(&sink(&path, 1 << 20, 1)).unwrap();
    file.file = Some(File::options().append(true).open("/dev/full").unwrap());
    let queue = Queue::new(1 << 20, config::Overflow::DropNewest);
    queue.push(Line::plain("a"));
    queue.close();
    file.run(&queue);
    let counters = queue.counters();
    assert_eq!((counters.written, counters.dropped, counters.failures), (0, 1, 1));
}

/// What is done with a file of the sink: by the sink, or by somebody else.
enum Do {
    /// The sink writes lines.
    Write(&'static [&'static str]),
    /// logrotate with `copytruncate`, or `> file`.
    Empty,
    /// Somebody cuts it to so many bytes.
    Cut(u64),
    /// Somebody appends to it.
    Append(&'static str),
    /// Somebody puts another file in its place.
    Replace(&'static str),
    /// logrotate with `create`.
    Move,
    Remove,
    /// The agent starts anew.
    Restart,
}

/// What is done to a file that is rotated at 16 bytes, and the file and those that were put aside after it.
#[test]
fn file_sink_follows_what_others_do_to_its_file() {
    use Do::{Append, Cut, Empty, Move, Remove, Replace, Restart, Write};
    let long = &["aaa", "bbb", "ccc"];
    let cases: [(&str, &[Do], &[&str]); 17] = [
        ("nothing", &[Write(long)], &["aaa\nbbb\nccc\n"]),
        ("full", &[Write(long), Write(&["ddd", "eee"])], &["eee\n", "aaa\nbbb\nccc\nddd\n"]),
        ("emptied", &[Write(long), Empty, Write(&["ddd"])], &["ddd\n"]),
        ("emptied when nearly full", &[Write(long), Empty, Write(long)], &["aaa\nbbb\nccc\n"]),
        (
            "emptied time and again",
            &[Write(long), Empty, Write(long), Empty, Write(long), Empty, Write(&["d"])],
            &["d\n"],
        ),
        (
            "emptied, and full later",
            &[Write(long), Empty, Write(long), Write(&["ddd", "eee"])],
            &["eee\n", "aaa\nbbb\nccc\nddd\n"],
        ),
        ("emptied before a restart", &[Write(long), Empty, Restart, Write(&["ddd"])], &["ddd\n"]),
        ("emptied after a restart", &[Write(long), Restart, Empty, Write(&["ddd"])], &["ddd\n"]),
        ("cut at a line", &[Write(long), Cut(4), Write(&["ddd"])], &["aaa\nddd\n"]),
        (
            "made longer",
            &[Write(&["aaa"]), Append("xxxxxxxxxxx\n"), Write(&["b"])],
            &["b\n", "aaa\nxxxxxxxxxxx\n"],
        ),
        ("replaced", &[Write(long), Replace("x\n"), Write(&["ddd"])], &["x\nddd\n"]),
        (
            "replaced by a full one",
            &[Write(&["aaa"]), Replace("xxxxxxxxxxxxxxx\n"), Write(&["d"])],
            &["d\n", "xxxxxxxxxxxxxxx\n"],
        ),
        ("moved", &[Write(long), Move, Write(&["ddd"])], &["ddd\n"]),
        ("removed", &[Write(long), Remove, Write(&["ddd"])], &["ddd\n"]),
        ("killed within a line", &[Write(&["a"]), Append("{\"b"), Restart, Write(&["c"])], &["a\n{\"b\nc\n"]),
        (
            "killed within a line, and emptied",
            &[Write(&["a"]), Append("{\"b"), Restart, Empty, Write(&["c"])],
            &["c\n"],
        ),
        (
            "killed within a line of a full file",
            &[Write(long), Append("{\"ddd"), Restart, Write(&["e"])],
            &["e\n", "aaa\nbbb\nccc\n{\"ddd"],
        ),
    ];
    for (name, steps, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let config = sink(&path, 17, 5);
        let mut file = RotatingFile::open(&config).unwrap();
        let options = |append| File::options().write(true).append(append).open(&path).unwrap();
        for step in steps {
            match step {
                Write(texts) => write(&mut file, texts),
                Empty => options(false).set_len(0).unwrap(),
                Cut(length) => options(false).set_len(*length).unwrap(),
                Append(text) => io::Write::write_all(&mut options(true), text.as_bytes()).unwrap(),
                Replace(text) => {
                    fs::write(directory.path().join("new"), text).unwrap();
                    fs::rename(directory.path().join("new"), &path).unwrap();
                }
                Move => fs::rename(&path, directory.path().join("moved")).unwrap(),
                Remove => fs::remove_file(&path).unwrap(),
                Restart => file = RotatingFile::open(&config).unwrap(),
            }
        }
        let names = (0..).map(|number| if number == 0 { path.clone() } else { file.aside(number) });
        let found: Vec<String> = names.take_while(|name| name.exists()).map(read).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// What is in a file, how long it was before the write that failed, what it is then, and whether its end is torn.
#[test]
fn half_written_lines_are_cut_off() {
    for (name, content, before, expected, torn) in [
        ("nothing was written", "a\n", 2, "a\n", false),
        ("half a line", "a\n{\"b", 2, "a\n", false),
        ("a line and a half", "a\nb\n{\"c", 2, "a\n", false),
        ("half of the first line", "{\"a", 0, "", false),
        ("nothing in an empty file", "", 0, "", false),
        ("emptied meanwhile", "", 1_000, "", false),
        ("emptied, and half a line written", "{\"a", 1_000, "{\"a", true),
        ("emptied, and a line written", "a\n", 1_000, "a\n", false),
        ("cut meanwhile", "a\nb\n", 6, "a\nb\n", false),
        ("cut within a line meanwhile", "a\n{\"b", 100, "a\n{\"b", true),
        ("torn before", "a\n{\"b\n{\"c", 5, "a\n{\"b", true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, content).unwrap();
        let file = File::options().read(true).append(true).open(&path).unwrap();
        assert_eq!((cut(&file, before).unwrap(), read(&path).as_str()), (torn, expected), "{name}");
    }
}

/// A line that could be neither written whole nor removed is ended, so that the next one stands alone.
#[test]
fn torn_line_is_ended_before_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let mut file = RotatingFile::open(&sink(&path, 1 << 20, 1)).unwrap();
    write(&mut file, &["a"]);
    io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"{\"b").unwrap();
    file.torn = true;
    write(&mut file, &["c", "d"]);
    write(&mut file, &["e"]);
    assert_eq!(read(&path), "a\n{\"b\nc\nd\ne\n");
}
