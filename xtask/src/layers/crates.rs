//! Which crate lies on which layer.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// Every crate of the workspace and its layer. A crate depends on crates of lower layers only. One that does not exist is no
/// error; one that is missing here is.
const LAYERS: &[(&str, u8)] = &[
    ("mcpwarden-abi", 0),
    ("mcpwarden-gate", 0),
    ("mcpwarden-ebpf", 1),
    ("mcpwarden-terms", 1),
    ("mcpwarden-protocol", 2),
    ("mcpwarden-http", 3),
    ("mcpwarden-detect", 3),
    ("mcpwarden-yara", 4),
    ("mcpwarden-event", 4),
    ("mcpwarden-intent", 4),
    ("mcpwarden-config", 5),
    ("mcpwarden-policy", 6),
    ("mcpwarden-text", 7),
    ("mcpwarden-system", 7),
    ("mcpwarden-capture", 8),
    ("mcpwarden-tls", 8),
    ("mcpwarden-kernel", 8),
    ("mcpwarden-store", 8),
    ("mcpwarden-sinks", 8),
    ("mcpwarden-client", 8),
    ("mcpwarden-hooks", 8),
    ("mcpwarden-wasm", 8),
    ("mcpwarden", 9),
    ("mcpwarden-tests", 10),
    ("mcpwarden-train", 11),
    ("mcpwarden-ocsf", 10),
    ("xtask", 10),
];

/// A crate outside the workspace, and the crates that may depend on it: where none of the first exists yet, the second.
struct Reserved {
    name: &'static str,
    only: &'static str,
    until_then: &'static str,
    /// These may depend on it optionally: types of their own implement its traits.
    optional: &'static [&'static str],
}

const RESERVED: &[Reserved] = &[
    Reserved {
        name: "aya",
        only: "mcpwarden-kernel",
        until_then: "mcpwarden",
        // `Pod` of what lies in maps.
        optional: &["mcpwarden-abi", "mcpwarden-gate"],
    },
    Reserved { name: "aya-log", only: "mcpwarden-kernel", until_then: "mcpwarden", optional: &[] },
    Reserved { name: "yara-x", only: "mcpwarden-yara", until_then: "mcpwarden-yara", optional: &[] },
    Reserved { name: "wasmtime", only: "mcpwarden-wasm", until_then: "mcpwarden-wasm", optional: &[] },
    Reserved { name: "aya-ebpf", only: "mcpwarden-ebpf", until_then: "mcpwarden-ebpf", optional: &[] },
    Reserved { name: "aya-log-ebpf", only: "mcpwarden-ebpf", until_then: "mcpwarden-ebpf", optional: &[] },
];

/// One crate of the workspace.
pub struct Package {
    pub name: String,
    manifest: PathBuf,
    /// The text of its manifest.
    text: String,
    /// What it depends on, tests aside.
    dependencies: Vec<Dependency>,
    /// The root files of its library and its programs.
    pub roots: Vec<PathBuf>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    /// `None`: a normal one.
    kind: Option<String>,
    optional: bool,
}

/// All crates of this workspace.
pub fn workspace() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Described>,
    }
    #[derive(Deserialize)]
    struct Described {
        name: String,
        manifest_path: PathBuf,
        dependencies: Vec<Dependency>,
        targets: Vec<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        kind: Vec<String>,
        src_path: PathBuf,
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let package = |described: Described| {
        let Described { name, manifest_path: manifest, mut dependencies, targets } = described;
        dependencies.retain(|dependency| dependency.kind.as_deref() != Some("dev"));
        let is_code = |target: &Target| target.kind.iter().any(|kind| kind == "lib" || kind == "bin");
        let roots = targets.into_iter().filter(is_code).map(|target| target.src_path).collect();
        let text = std::fs::read_to_string(&manifest)?;
        Ok(Package { name, manifest, text, dependencies, roots })
    };
    metadata.packages.into_iter().map(package).collect()
}

/// What is wrong with the crates, a line each.
pub fn faults(packages: &[Package]) -> Vec<String> {
    let layers: BTreeMap<&str, u8> = LAYERS.iter().copied().collect();
    let mut faults = Vec::new();
    for package in packages {
        let Some(layer) = layers.get(package.name.as_str()) else {
            faults.push(format!(
                "{}: crate {} has no layer: add it to LAYERS in {}",
                package.manifest.display(),
                package.name,
                file!()
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(below) = layers.get(dependency.name.as_str())
                && below >= layer
            {
                faults.push(format!(
                    "{}: {} (layer {layer}) must not depend on {} (layer {below})",
                    package.position(&dependency.name),
                    package.name,
                    dependency.name
                ));
            }
            for reserved in RESERVED.iter().filter(|reserved| reserved.name == dependency.name) {
                let exists = packages.iter().any(|other| other.name == reserved.only);
                let only = if exists { reserved.only } else { reserved.until_then };
                let may = package.name == only
                    || dependency.optional && reserved.optional.contains(&package.name.as_str());
                if !may {
                    faults.push(format!(
                        "{}: only {only} depends on {}, not {}",
                        package.position(&dependency.name),
                        reserved.name,
                        package.name
                    ));
                }
            }
        }
    }
    faults
}

impl Package {
    /// Where its manifest names a crate: `file:line`.
    fn position(&self, dependency: &str) -> String {
        let names = |line: &str| {
            let rest = line.trim_start().strip_prefix(dependency);
            rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        };
        let line = self.text.lines().position(names).map_or(0, |line| line + 1);
        format!("{}:{line}", relative(&self.manifest).display())
    }
}

/// A path as one says it: from the root of the workspace, where it lies below that.
pub fn relative(path: &Path) -> &Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path)
}

/// Crates made up: name, and the lines of `[dependencies]`.
#[cfg(test)]
fn made_up(crates: &[(&str, &[&str])]) -> Vec<Package> {
    let dependency = |line: &&str| Dependency {
        name: line.split(['.', ' ']).next().unwrap().to_owned(),
        kind: None,
        optional: line.contains("optional"),
    };
    let package = |(name, lines): &(&str, &[&str])| Package {
        name: (*name).to_owned(),
        manifest: format!("{name}/Cargo.toml").into(),
        text: format!("[dependencies]\n{}\n", lines.join("\n")),
        dependencies: lines.iter().map(dependency).collect(),
        roots: Vec::new(),
    };
    crates.iter().map(package).collect()
}

#[test]
fn forbidden_crate_dependencies_are_reported() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])], &'a [&'a str]);
    let cases: &[Case] = &[
        ("nothing", &[], &[]),
        ("downwards", &[("mcpwarden-policy", &["mcpwarden-terms.workspace = true"])], &[]),
        (
            "upwards",
            &[("mcpwarden-terms", &["serde = \"1\"", "mcpwarden-policy = { workspace = true }"])],
            &[
                "mcpwarden-terms/Cargo.toml:3: mcpwarden-terms (layer 1) must not depend on mcpwarden-policy (layer 6)",
            ],
        ),
        (
            "across",
            &[("mcpwarden-store", &["mcpwarden-sinks.workspace = true"])],
            &[
                "mcpwarden-store/Cargo.toml:2: mcpwarden-store (layer 8) must not depend on mcpwarden-sinks (layer 8)",
            ],
        ),
        (
            "a prefix of another's name",
            &[("mcpwarden-terms", &["mcpwarden-gate.workspace = true", "mcpwarden = \"1\""])],
            &[
                "mcpwarden-terms/Cargo.toml:3: mcpwarden-terms (layer 1) must not depend on mcpwarden (layer 9)",
            ],
        ),
        ("aya before the split", &[("mcpwarden", &["aya.workspace = true"])], &[]),
        (
            "aya after the split",
            &[("mcpwarden", &["aya.workspace = true"]), ("mcpwarden-kernel", &["aya.workspace = true"])],
            &["mcpwarden/Cargo.toml:2: only mcpwarden-kernel depends on aya, not mcpwarden"],
        ),
        ("Pod of shared types", &[("mcpwarden-abi", &["aya = { workspace = true, optional = true }"])], &[]),
        (
            "aya where the kernel half goes too",
            &[("mcpwarden-abi", &["aya.workspace = true"])],
            &["mcpwarden-abi/Cargo.toml:2: only mcpwarden depends on aya, not mcpwarden-abi"],
        ),
    ];
    for (name, crates, expected) in cases {
        assert_eq!(faults(&made_up(crates)), *expected, "{name}");
    }
    let unknown = faults(&made_up(&[("mcpwarden-new", &[])]));
    assert!(
        unknown.len() == 1 && unknown[0].contains("crate mcpwarden-new has no layer: add it"),
        "{unknown:?}"
    );
}
