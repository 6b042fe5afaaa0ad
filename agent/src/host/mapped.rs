//! The files that a process runs code of.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use procfs::{
    ProcError,
    process::{MMPermissions, MMapPath, Process},
};

/// Most files of a process that are named: browsers map some hundreds.
const MOST_FILES: usize = 1_024;

/// A file that is mapped.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Its path, as the process sees it.
    pub path: String,
    /// What leads to it from here: also where it is in another mount namespace, or deleted.
    pub link: PathBuf,
}

/// The files that a process runs code of, each once.
///
/// # Errors
/// There is no such process, or its memory map cannot be read.
pub fn code_of(pid: i32) -> Result<Vec<Mapped>, ProcError> {
    let maps = Process::new(pid)?.maps()?;
    let mut found: BTreeMap<(i32, i32, u64), Mapped> = BTreeMap::new();
    for map in maps {
        let MMapPath::Path(path) = &map.pathname else { continue };
        if !map.perms.contains(MMPermissions::EXECUTE) || found.len() >= MOST_FILES {
            continue;
        }
        let (from, to) = map.address;
        let link = Path::new("/proc").join(format!("{pid}/map_files/{from:x}-{to:x}"));
        let mapped = || Mapped { path: path.display().to_string(), link };
        found.entry((map.dev.0, map.dev.1, map.inode)).or_insert_with(mapped);
    }
    Ok(found.into_values().collect())
}
