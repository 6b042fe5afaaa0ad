//! Who decides what stands in a file.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use nix::libc;

/// Whether a file belongs to one of these, and nobody else may write to it.
///
/// # Errors
/// What is otherwise.
pub fn owned_by(file: &Metadata, owners: &[u32]) -> Result<(), String> {
    if !owners.contains(&file.uid()) {
        return Err(format!("it belongs to user {}, not to root", file.uid()));
    }
    if file.mode() & 0o022 != 0 {
        return Err(format!("others may write to it (mode {:04o}); chmod go-w it", file.mode() & 0o7777));
    }
    Ok(())
}

/// Whether root and whom this runs as alone decide what stands in a file: it and its directory are theirs, and nobody else
/// may write to them.
///
/// # Errors
/// What is otherwise.
pub fn ours_alone(path: &Path, file: &Metadata) -> Result<(), String> {
    let owners = [0, nix::unistd::geteuid().as_raw()];
    owned_by(file, &owners)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(above) = fs::metadata(directory) else { return Ok(()) };
    // In one with the sticky bit, such as /tmp, nobody can move the files of others.
    if above.mode() & libc::S_ISVTX != 0 && owners.contains(&above.uid()) {
        return Ok(());
    }
    owned_by(&above, &owners).map_err(|problem| format!("its directory: {problem}"))
}
