//! No module of this crate uses one that lies above it. Between crates, cargo sees to that.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

use std::fs;
use std::path::Path;

/// The modules, in layers: each uses only those before its own.
const LAYERS: [&[&str]; 12] = [
    &["testing"],
    &["network", "discovery"],
    &["mutes"],
    &["guard", "registry"],
    &["settings"],
    &["classify"],
    &["guards"],
    &["gate"],
    &["lint"],
    &["engine"],
    &["replay"],
    &["lib"],
];

#[test]
fn modules_depend_only_on_lower_layers() {
    let mut wrong = Vec::new();
    let mut modules = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        let layer = layer(module).unwrap_or_else(|| panic!("{module} is in no layer"));
        modules += usize::from(path.is_file());
        walk(&path, &mut |file, used| {
            // A name that is no module here is a crate, which lies below all of them.
            let is_above = used != module && self::layer(used).is_some_and(|used| used >= layer);
            // What is re-exported at the root may come from anywhere.
            if is_above || used.is_empty() || used.starts_with(char::is_uppercase) {
                wrong.push(format!("{} uses crate::{used}", file.display()));
            }
        });
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(modules, LAYERS.concat().len(), "a layer names a module that is not there");
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Calls `uses` with every module that is named behind `crate::` in the Rust files at `path`.
fn walk(path: &Path, uses: &mut impl FnMut(&Path, &str)) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| walk(&entry.unwrap().path(), uses));
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    for rest in code.flat_map(|line| line.split("crate::").skip(1)) {
        let end = rest.find(|byte: char| !byte.is_alphanumeric() && byte != '_').unwrap_or(rest.len());
        uses(path, &rest[..end]);
    }
}
