//! Compiled guards on disk.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use mcpwarden_terms::contract::GuardReply;
use mcpwarden_wasm::{Runtime, RuntimeError, RuntimeOptions};

use crate::support::{Source, evaluate, load, operations, request};

fn runtime(directory: &Path) -> Result<Runtime, RuntimeError> {
    Runtime::new(RuntimeOptions { cache: Some(directory.to_owned()), ..RuntimeOptions::default() })
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn allows(directory: &Path, bytes: &[u8]) -> bool {
    let guard = load(&runtime(directory).unwrap(), bytes).unwrap();
    evaluate(&guard, &request("s", operations("x")[0].clone())).0 == Ok(GuardReply::Allow)
}

#[test]
fn second_start_reads_what_the_first_compiled() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("a/guards");
    let bytes = Source::one("(call $allow)").build();
    assert!(allows(&directory, &bytes));
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    let [file] = files(&directory).try_into().unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(allows(&directory, &bytes));
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "it was compiled again");
    assert!(allows(&directory, &Source::one("(nop) (call $allow)").build()));
    assert_eq!(files(&directory).len(), 2);
}

#[test]
fn damaged_files_are_replaced() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("guards");
    let bytes = Source::one("(call $allow)").build();
    assert!(allows(&directory, &bytes));
    let [file] = files(&directory).try_into().unwrap();
    let intact = fs::read(&file).unwrap();
    let changed = |index: usize| {
        let mut bytes = intact.clone();
        bytes[index] ^= 1;
        bytes
    };
    for damaged in [
        vec![],
        intact[..20].to_vec(),
        intact[..intact.len() - 1].to_vec(),
        changed(3),
        changed(20),
        changed(5000),
    ] {
        fs::write(&file, &damaged).unwrap();
        assert!(allows(&directory, &bytes));
        assert_eq!(fs::read(&file).unwrap(), intact);
    }
}

#[test]
fn files_that_others_may_change_are_not_read() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("guards");
    let bytes = Source::one("(call $allow)").build();
    assert!(allows(&directory, &bytes));
    let [file] = files(&directory).try_into().unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
    assert!(allows(&directory, &bytes));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it was not replaced");
    // A link to another place: not followed, and replaced.
    let elsewhere = temporary.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(allows(&directory, &bytes));
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
}

#[test]
fn directories_that_are_not_private_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    fs::create_dir(path("shared")).unwrap();
    fs::set_permissions(path("shared"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(path("private")).unwrap();
    fs::set_permissions(path("private"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink(path("private"), path("link")).unwrap();
    fs::write(path("file"), "").unwrap();
    for (name, expected) in [
        ("shared", "mode 0750"),
        ("link", "symbolic link"),
        ("link/", "symbolic link"),
        ("file", "not a directory"),
    ] {
        match runtime(&path(name)).map(drop) {
            Err(error @ RuntimeError::UnsafeCache { .. }) => {
                assert!(error.to_string().contains(expected), "{name}: {error}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(matches!(runtime(&path("file/below")).map(drop), Err(RuntimeError::Cache { .. })));
    runtime(&path("private")).unwrap();
}

#[test]
fn oldest_files_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("guards");
    assert!(allows(&directory, &Source::one("(call $allow)").build()));
    for index in 0..70 {
        fs::write(directory.join(format!("{index:03}.cwasm")), "").unwrap();
    }
    fs::write(directory.join("notes.txt"), "").unwrap();
    assert!(allows(&directory, &Source::one("(nop) (call $allow)").build()));
    let left = files(&directory);
    assert_eq!(left.len(), 65, "64 and the file of another kind");
    assert!(left.contains(&directory.join("notes.txt")) && left.contains(&directory.join("069.cwasm")));
}
