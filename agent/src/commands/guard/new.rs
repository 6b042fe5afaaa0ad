//! `guard new`: the files of a guard, in one of three languages.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    cli::{GuardLanguage, GuardNew},
    output::{escaped, print_line},
};

/// Recorded frames to try the guard on.
const FRAMES: &str = include_str!("templates/frames.jsonl");
/// What stands for the name of the guard.
const NAME: &str = "NAME";

/// The files of a language, but the interface and the frames.
fn files(language: GuardLanguage) -> &'static [(&'static str, &'static str)] {
    match language {
        GuardLanguage::Rust => &[
            ("Cargo.toml", include_str!("templates/rust/Cargo.toml")),
            ("src/lib.rs", include_str!("templates/rust/lib.rs")),
        ],
        GuardLanguage::Js => &[
            ("package.json", include_str!("templates/js/package.json")),
            ("build.js", include_str!("templates/js/build.js")),
            ("guard.js", include_str!("templates/js/guard.js")),
        ],
        GuardLanguage::Python => &[
            ("requirements.txt", include_str!("templates/python/requirements.txt")),
            ("app.py", include_str!("templates/python/app.py")),
        ],
    }
}

/// Writes the files into a directory, which is made.
///
/// # Errors
/// The directory is there already, its name is none for a package, or it cannot be written.
pub fn run(options: &GuardNew) -> Result<()> {
    let directory = &options.directory;
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    ensure!(
        is_plain,
        "{}: the directory's name becomes the guard's: lower-case ASCII letters, digits and `-`",
        escaped(&directory.display().to_string())
    );
    if directory.exists() {
        bail!("{} is there already; choose another directory", escaped(&directory.display().to_string()));
    }
    let write = |path: &str, text: &str| -> Result<()> {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("wit/guard.wit", mcpwarden_wasm::WIT)?;
    write("frames.jsonl", FRAMES)?;
    for (path, text) in files(options.lang) {
        write(path, &text.replace(NAME, name))?;
    }
    let shown = escaped(&directory.display().to_string());
    print_line(format!(
        "{shown} holds a guard that denies calls with the word `secret` in their arguments. Next:"
    ));
    print_line(format!("  mcpwarden guard build {shown}"));
    print_line(format!("  mcpwarden guard test {shown}/{name}.wasm --frames {shown}/frames.jsonl"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaffold_has_every_file_and_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for (lang, expected) in [
            (GuardLanguage::Rust, &["Cargo.toml", "src/lib.rs"][..]),
            (GuardLanguage::Js, &["package.json", "build.js", "guard.js"]),
            (GuardLanguage::Python, &["requirements.txt", "app.py"]),
        ] {
            let options =
                GuardNew { directory: directory.path().join(format!("{lang:?}").to_lowercase()), lang };
            run(&options).unwrap();
            for path in expected.iter().chain(&["wit/guard.wit", "frames.jsonl"]) {
                let text = fs::read_to_string(options.directory.join(path)).unwrap();
                assert!(!text.contains(NAME), "{path}");
            }
            let error = run(&options).unwrap_err().to_string();
            assert!(error.contains("is there already"), "{error}");
        }
        for name in ["", "Upper", "1a", "a b", "a/..", "ä"] {
            let options = GuardNew { directory: directory.path().join(name), lang: GuardLanguage::Js };
            assert!(run(&options).is_err(), "{name}");
        }
    }
}
