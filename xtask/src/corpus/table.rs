//! The table of pinned servers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

/// Packages of one publisher at most, so that no author dominates the figures.
const MAX_OF_PUBLISHER: usize = 5;

/// Where a package is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registry {
    Npm,
    PyPi,
}

impl Registry {
    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::PyPi => "pypi",
        }
    }
}

/// One pinned server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub registry: Registry,
    pub name: String,
    pub version: String,
    /// As an SPDX expression, by the metadata of the package.
    pub licence: String,
    /// Of the archive: `sha512-` and base64 (npm), `sha256=` and hex (PyPI).
    pub integrity: String,
    /// The program, by its name in the package, and its arguments.
    pub command: Vec<String>,
    /// Variables without which the server does not start; each gets a placeholder.
    pub environment: Vec<String>,
}

impl Package {
    /// A file name of its own.
    pub fn slug(&self) -> String {
        format!("{}_{}", self.registry.name(), self.name.replace(['/', '@'], "_"))
    }

    /// The scope of an npm package; of others, the name.
    fn publisher(&self) -> &str {
        self.name.split_once('/').map_or(&*self.name, |(scope, _)| scope)
    }
}

/// The packages of a table: one a line, columns parted by tabs, `-` for none; lines with `#` are comments.
///
/// # Errors
/// A line is not of that form, is out of order, or a publisher has too many.
pub fn parse(text: &str) -> Result<Vec<Package>> {
    let mut packages: Vec<Package> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let package = row(line).with_context(|| format!("in line {}", number + 1))?;
        if let Some(last) = packages.last() {
            let is_later = (last.registry, &last.name) < (package.registry, &package.name);
            ensure!(is_later, "line {} is not in order: registry, then name, each once", number + 1);
        }
        packages.push(package);
    }
    let mut publishers: BTreeMap<&str, usize> = BTreeMap::new();
    for package in &packages {
        let count = publishers.entry(package.publisher()).or_default();
        *count += 1;
        ensure!(
            *count <= MAX_OF_PUBLISHER,
            "more than {MAX_OF_PUBLISHER} packages of {}",
            package.publisher()
        );
    }
    Ok(packages)
}

fn row(line: &str) -> Result<Package> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [registry, name, version, licence, integrity, command, environment] = columns[..] else {
        bail!("{} columns, not 7", columns.len());
    };
    let (registry, digest) = match registry {
        "npm" => (Registry::Npm, "sha512-"),
        "pypi" => (Registry::PyPi, "sha256="),
        _ => bail!("the registry is npm or pypi, not {registry:?}"),
    };
    // Names and versions become arguments of npm and pip, and parts of paths.
    let is_plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@')
            && !text.contains("..")
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@/._-+".contains(&byte))
    };
    ensure!(is_plain(name) && is_plain(version), "invalid name or version: {name:?} {version:?}");
    ensure!(
        integrity.len() > digest.len() + 32 && integrity.starts_with(digest),
        "no {digest} digest: {integrity:?}"
    );
    let words = |text: &str| -> Vec<String> {
        if text == "-" { Vec::new() } else { text.split(' ').map(str::to_owned).collect() }
    };
    let command = words(command);
    ensure!(command.first().is_some_and(|program| is_plain(program) && !program.contains('/')), "no command");
    Ok(Package {
        registry,
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        integrity: integrity.to_owned(),
        command,
        environment: words(environment),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NPM: &str =
        "npm\t@a/b\t1.0.0\tMIT\tsha512-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\tb /data\tB_KEY B_URL";
    const PYPI: &str =
        "pypi\tc\t2.0\tMIT\tsha256=0000000000000000000000000000000000000000000000000000000000000000\tc\t-";

    #[test]
    fn rows_are_read_in_order() {
        let packages = parse(&format!("# a comment\n{NPM}\n{PYPI}\n")).unwrap();
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].command, ["b", "/data"]);
        assert_eq!(packages[0].environment, ["B_KEY", "B_URL"]);
        assert_eq!(packages[0].slug(), "npm__a_b");
        assert_eq!((packages[1].registry, &*packages[1].version), (Registry::PyPi, "2.0"));
        assert!(packages[1].environment.is_empty());
    }

    #[test]
    fn invalid_rows_are_refused() {
        let many: String =
            (0..6).map(|number| format!("{}\n", NPM.replace("@a/b", &format!("@a/{number}")))).collect();
        for text in [
            NPM.replace("npm\t", "cargo\t"),
            NPM.replace("\tMIT", ""),
            NPM.replace("sha512-", "sha1-"),
            NPM.replace("sha512-AAAA", "sha512-").replace('A', ""),
            NPM.replace("@a/b", "--prefix"),
            NPM.replace("@a/b", "@a/../b"),
            NPM.replace("@a/b", "a b"),
            NPM.replace("1.0.0", "^1.0.0"),
            NPM.replace("1.0.0", "latest --registry=x"),
            NPM.replace("b /data", "-"),
            NPM.replace("b /data", "../b"),
            NPM.replace("b /data", "/bin/sh"),
            PYPI.replace("sha256=", "sha512-"),
            format!("{PYPI}\n{NPM}"),
            format!("{NPM}\n{NPM}"),
            format!("{NPM}\n\n{PYPI}"),
            many,
        ] {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn table_of_the_tree_is_valid() {
        let packages = parse(include_str!("../../../tests/corpus/servers.tsv")).unwrap();
        assert!(!packages.is_empty());
    }
}
