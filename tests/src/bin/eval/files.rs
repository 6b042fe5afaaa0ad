//! Files of a corpus.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files of a directory with this extension, in order.
pub fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    paths.sort();
    Ok(paths)
}
