//! The files that a process runs code of.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    path::PathBuf,
};

/// Most files of a process that are named: browsers map some hundreds.
const MOST_FILES: usize = 1_024;
/// How much of a memory map is read. Bytes: a process has as many mappings as it likes, each with a path as long as it likes.
const MOST_BYTES: u64 = 8 << 20;

/// A file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its path, as the process sees it, as `/proc` writes it.
    pub path: String,
    /// What leads to it from here: also where it is in another mount namespace, or deleted.
    pub link: PathBuf,
}

/// The files that a process runs code of, each once.
///
/// # Errors
/// There is no such process, or its memory map cannot be read.
pub fn code_of(pid: i32) -> io::Result<Vec<Mapped>> {
    let directory = format!("/proc/{pid}");
    let maps = BufReader::new(File::open(format!("{directory}/maps"))?.take(MOST_BYTES));
    let mut found: BTreeMap<(String, String), Mapped> = BTreeMap::new();
    for line in maps.split(b'\n') {
        if found.len() >= MOST_FILES {
            break;
        }
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some((file, range, path)) = code(&line) {
            let link = PathBuf::from(format!("{directory}/map_files/{range}"));
            found.entry(file).or_insert_with(|| Mapped { path: path.to_owned(), link });
        }
    }
    Ok(found.into_values().collect())
}

/// Of a line of a memory map (proc_pid_maps(5)): the device and inode of a file that it maps to be run, where it maps it, in the form in which
/// `map_files` names it, and the path.
fn code(line: &str) -> Option<((String, String), String, &str)> {
    let mut fields = line.splitn(6, ' ');
    let (range, permissions) = (fields.next()?, fields.next()?);
    let (device, inode) = (fields.nth(1)?, fields.next()?);
    let path = fields.next()?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = format!("{:x}-{:x}", number(from)?, number(to)?);
    Some(((device.to_owned(), inode.to_owned()), range, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_code_is_told_from_other_mappings() {
        let file = |range: &str, path: &'static str| {
            Some((("fe:01".to_owned(), "1234".to_owned()), range.to_owned(), path))
        };
        let cases = [
            (
                "00400000-00452000 r-xp 00000000 fe:01 1234      /usr/bin/dbus",
                file("400000-452000", "/usr/bin/dbus"),
            ),
            (
                "7f0000000000-7f0000001000 r-xp 00000000 fe:01 1234 /a b",
                file("7f0000000000-7f0000001000", "/a b"),
            ),
            ("7f0000000000-7f0000001000 r--p 00000000 fe:01 1234 /usr/bin/dbus", None),
            ("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 ", None),
            ("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [vdso]", None),
            ("x-y r-xp 00000000 fe:01 1234 /usr/bin/dbus", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(code(line), expected, "{line}");
        }
    }

    #[test]
    fn own_program_is_found() {
        let own = std::env::current_exe().unwrap();
        let found = code_of(std::process::id().try_into().unwrap()).unwrap();
        assert!(found.iter().any(|mapped| std::path::Path::new(&mapped.path) == own), "{found:?}");
    }
}
