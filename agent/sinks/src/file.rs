//! A file with an event a line, put aside when it is large.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::config;
use mcpwarden_system::files::{beside, remove, rename};
use nix::libc;

use super::queue::{Queue, add};

/// Where the configuration does not say.
const ROTATE_BYTES: u64 = 100 << 20;
const ROTATE_KEEP: u32 = 10;
/// Bytes written at once.
const BATCH_BYTES: usize = 256 << 10;
/// How long more events are waited for, to be written with the first.
const LINGER: Duration = Duration::from_millis(20);
/// Where writing failed, it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// The file, and those that were put aside: `path.1` is the latest of them.
pub struct RotatingFile {
    path: PathBuf,
    rotate_bytes: u64,
    rotate_keep: u32,
    /// `None` where it could not be opened again.
    file: Option<File>,
    /// Bytes of whole lines in it.
    size: u64,
    inode: (u64, u64),
}

impl RotatingFile {
    /// Opens it, or makes it with mode 0640.
    ///
    /// # Errors
    /// It is none, or cannot be written to.
    pub fn open(config: &config::Sink) -> Result<Self> {
        let path = config.path.as_ref().context("there is no path")?;
        let mut file = Self {
            path: path.as_str().into(),
            rotate_bytes: config.rotate_bytes.map_or(ROTATE_BYTES, |bytes| bytes.0),
            rotate_keep: config.rotate_keep.unwrap_or(ROTATE_KEEP),
            file: None,
            size: 0,
            inode: (0, 0),
        };
        file.reopen().with_context(|| format!("cannot write to {}", path.as_str()))?;
        let is_file =
            file.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|found| found.is_file()));
        ensure!(is_file, "{} is not a regular file", path.as_str());
        Ok(file)
    }

    /// Writes what is in the queue until it is closed and empty.
    pub fn run(&mut self, queue: &Queue) {
        queue.drain(BATCH_BYTES, LINGER, RETRY, |lines| {
            let (written, result) = self.write(lines);
            add(&queue.counts.written, written);
            (written, result)
        });
    }

    /// Writes lines, and says how many of them are in the file whole.
    fn write(&mut self, lines: &[super::Line]) -> (usize, io::Result<()>) {
        if let Err(error) = self.follow() {
            return (0, Err(error));
        }
        let (mut bytes, mut ready) = (Vec::new(), 0);
        for line in lines {
            let full = self.size + (bytes.len() + line.text.len()) as u64 >= self.rotate_bytes;
            if full && self.size + bytes.len() as u64 > 0 {
                break;
            }
            bytes.extend_from_slice(&line.text);
            bytes.push(b'\n');
            ready += 1;
        }
        if let Err(error) = self.append(&bytes) {
            return (0, Err(error));
        }
        if ready == lines.len() {
            return (ready, Ok(()));
        }
        (ready, self.rotate())
    }

    /// All of it or nothing: half a line would corrupt the next one.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        if let Err(error) = file.write_all(bytes) {
            // Where even that cannot be done, a reader sees a line that is none.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Somebody else may have moved or removed the file, as logrotate does.
    fn follow(&mut self) -> io::Result<()> {
        let there = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if self.file.is_none() || there.ok() != Some(self.inode) {
            self.reopen()?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = None;
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o640)
            // A link would have root write to whatever it names; a pipe without a reader would hold this up.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        (self.size, self.inode) = (metadata.len(), (metadata.dev(), metadata.ino()));
        self.file = Some(file);
        Ok(())
    }

    fn aside(&self, number: u32) -> PathBuf {
        beside(&self.path, &format!(".{number}"))
    }

    /// Puts the file aside and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        if self.rotate_keep == 0 {
            remove(&self.path)?;
        } else {
            remove(&self.aside(self.rotate_keep))?;
            for number in (1..self.rotate_keep).rev() {
                rename(&self.aside(number), &self.aside(number + 1))?;
            }
            rename(&self.path, &self.aside(1))?;
        }
        self.reopen()
    }
}

#[cfg(test)]
mod tests {
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
}
