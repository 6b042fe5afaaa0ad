//! Which names say something, and how names are got out of package specifiers and paths.

use super::options::is_in;
use super::piece::{Piece, Role};
use super::places::{self, split_extension, unversioned};
use super::tables::RUNTIME_IMAGES;
use super::windows;

/// Names that every other project has.
const GENERIC: [&str; 38] = [
    "",
    ".",
    "..",
    "index",
    "main",
    "server",
    "cli",
    "app",
    "__main__",
    "dist",
    "build",
    "src",
    "bin",
    "lib",
    "run",
    "start",
    "mcp",
    "mcp-server",
    "mcp_server",
    "out",
    "esm",
    "cjs",
    "stdio",
    "target",
    "release",
    "debug",
    "scripts",
    "js",
    "node",
    "python",
    "serve",
    "program",
    "current",
    "latest",
    "mod",
    "pex",
    // Quarkus' fast-jar.
    "quarkus-run",
    // What Unity leaves out.
    "server~",
];
/// Directories that say nothing of what lies in them.
const PLACES: [&str; 54] = [
    "cmd",
    "home",
    "root",
    "usr",
    "opt",
    "tmp",
    "var",
    "local",
    "srv",
    "mnt",
    "workspace",
    "sbin",
    "share",
    "code",
    "projects",
    "users",
    "node_modules",
    "site-packages",
    "dist-packages",
    "venv",
    ".venv",
    "env",
    "virtualenv",
    "cache",
    ".cache",
    ".bin",
    ".local",
    "archive-v0",
    "builds-v0",
    "environments-v2",
    "_npx",
    "dlx",
    "pipx",
    "pnpm",
    "versions",
    "files",
    "*",
    "extensions",
    "store",
    "packages",
    "apps",
    ".pex",
    "unzipped_pexes",
    "venvs",
    "short",
    "vendor",
    "appdata",
    "roaming",
    "npm",
    "programdata",
    "program files",
    "program files (x86)",
    // Where Nitro and Quarkus build to.
    ".output",
    "quarkus-app",
];
/// Endings of archives in the address of a package.
const ARCHIVES: [&str; 5] = [".git", ".tgz", ".tar.gz", ".whl", ".zip"];
/// Tags of images that follow the newest.
const CHANNELS: &str = "latest stable main master edge dev nightly next";
/// What stands in front of a package and says where it comes from.
const SOURCES: [&str; 9] =
    ["npm:", "jsr:", "github:", "gitlab:", "bitbucket:", "gist:", "file:", "link:", "path:"];

/// Ends of domains, with which names of packages of Java begin.
const DOMAINS: &str = "com org net io dev ai app me edu gov eu de uk fr nl ch at it es pl se no jp cn in br us ru xyz tech cloud";

fn is_generic(name: &str) -> bool {
    places::is_hash(name) || GENERIC.contains(&name.to_ascii_lowercase().as_str())
}

/// The last part of a path.
pub(super) fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// The last part of a path, without what ends a script's name.
pub(super) fn stem(path: &str) -> &str {
    split_extension(base(path)).0
}

/// What a script or program is called: its stem, without a version, and without what nixpkgs puts around it.
pub(super) fn title(path: &str) -> &str {
    let stem = unversioned(stem(path));
    stem.strip_prefix('.').and_then(|stem| stem.strip_suffix("-wrapped")).unwrap_or(stem)
}

/// Whether a piece is a module of a name that every other project has (`src.server`): its directory says which it is.
pub(super) fn is_nameless_module(piece: &Piece) -> bool {
    piece.role == Role::Module && telling_part(&piece.name, piece.role).is_none()
}

/// The path by which a directory names a piece: that of a module is below the working directory.
pub(super) fn place(piece: &Piece) -> Option<&str> {
    piece.path.as_deref().or_else(|| is_nameless_module(piece).then_some("main"))
}

/// The id that a name gives, if it says something.
pub(super) fn telling_part(name: &str, role: Role) -> Option<String> {
    if role == Role::Module {
        let mut parts: Vec<&str> = name.split('.').collect();
        if is_class(&parts) {
            parts.reverse();
        }
        return parts.into_iter().find(|part| !is_generic(part)).map(str::to_owned);
    }
    let last = base(name);
    if !is_generic(last) {
        return Some(last.to_owned());
    }
    // `@playwright/mcp`, `ghcr.io/example/server`: what is in front says it.
    let before = name.trim_end_matches('/').strip_suffix(last)?.trim_end_matches('/');
    let scope = base(before).trim_start_matches('@');
    let namespaced =
        matches!(role, Role::Package | Role::Image) && !is_generic(scope) && !scope.contains('.');
    namespaced.then(|| format!("{scope}-{last}"))
}

/// Whether these are the parts of a class of Java, behind a domain that is written from its end: `com.example.tools.WeatherServer`.
fn is_class(parts: &[&str]) -> bool {
    let class = parts.last().and_then(|class| class.chars().next());
    parts.len() > 2
        && parts.first().is_some_and(|first| is_in(DOMAINS, first))
        && class.is_some_and(char::is_uppercase)
}

/// A name as those with hyphens are written: `WeatherMCPServer`, `Weather::Mcp.Server` and `weather_mcp_server` are `weather-mcp-server`. `None`: it
/// is so.
pub(super) fn hyphenated(name: &str) -> Option<String> {
    let mut hyphenated = String::new();
    let mut letters = name.chars().peekable();
    let mut before = '-';
    while let Some(letter) = letters.next() {
        let begins_word = letter.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && letters.peek().is_some_and(char::is_ascii_lowercase));
        let is_break = matches!(letter, '_' | '.' | ':' | '-');
        if (begins_word || is_break) && !hyphenated.ends_with('-') {
            hyphenated.push('-');
        }
        if !is_break {
            hyphenated.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    (hyphenated != name).then_some(hyphenated)
}

/// The nearest directory above a script that says something, and stays.
pub(super) fn telling_directory(path: &str, cwd: Option<&str>) -> Option<String> {
    let whole = match cwd {
        _ if windows::is_absolute(path) => path.to_owned(),
        Some(cwd) => format!("{}/{path}", windows::slashed(cwd)),
        None => path.to_owned(),
    };
    let lasting = places::lasting(&whole);
    let mut parts: Vec<&str> = lasting.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    parts.pop();
    let drive = usize::from(parts.first().is_some_and(|part| windows::is_drive_name(part)));
    // A user's home is named for the user, not for the server.
    let homes = drive + if matches!(parts.get(drive), Some(&("home" | "Users"))) { 2 } else { 0 };
    let named = |part: &&&str| {
        // What a client fills in (`${__dirname}`, `{{ root }}`) is no name.
        let is_filled_in = part.contains(['$', '{', '}']);
        !is_generic(part)
            && !is_filled_in
            && !part.ends_with('*')
            && !PLACES.contains(&part.to_ascii_lowercase().as_str())
    };
    parts.get(homes..).unwrap_or_default().iter().rev().find(named).map(|part| (*part).to_owned())
}

/// The package in a path under `node_modules`, scope included; `None` for `.bin`, whose entries are programs.
pub(super) fn node_package(path: &str) -> Option<String> {
    let (_, inside) = path.rsplit_once("node_modules/")?;
    let mut parts = inside.split('/');
    match parts.next()? {
        "" | ".bin" => None,
        scope if scope.starts_with('@') => Some(format!("{scope}/{}", parts.next()?)),
        name => Some(name.to_owned()),
    }
}

/// The module in a path under `site-packages`.
pub(super) fn python_module(path: &str) -> Option<String> {
    let (_, inside) = path.rsplit_once("site-packages/")?;
    let name = stem(inside.split('/').next()?);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The name in a package specifier of npm, PyPI, NuGet or JSR: no version, no extras, no place it is fetched from.
pub(super) fn package(spec: &str) -> String {
    let spec = spec.trim_matches(['"', '\'']);
    // `name @ https://…` (PEP 508)
    let spec = spec.split(" @ ").next().unwrap_or(spec);
    // The same without blanks.
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.[],".contains(c))
    };
    if let Some((name, address)) = spec.split_once('@')
        && is_name(name)
        && is_source(address)
    {
        return name.split('[').next().unwrap_or(name).to_owned();
    }
    if let Some(part) = part_of_repository(spec) {
        return part.to_owned();
    }
    let spec = SOURCES.iter().find_map(|source| spec.strip_prefix(source)).unwrap_or(spec);
    let spec = spec.split(['#', '?']).next().unwrap_or(spec);
    if spec.contains("://") || spec.starts_with(['.', '~']) || windows::is_absolute(spec) {
        let path = spec
            .split_once("://")
            .map_or(spec, |(_, rest)| rest.split_once('/').map_or(rest, |(_, path)| path));
        let mut parts = path.trim_end_matches('/').rsplit('/').map(located);
        return parts
            .clone()
            .find(|part| !is_generic(part))
            .or_else(|| parts.next())
            .unwrap_or_default()
            .into();
    }
    let name = spec.split(['[', '=', '<', '>', '!', ' ', ';', '^']).next().unwrap_or(spec);
    let version = name.char_indices().skip(1).find(|(_, character)| *character == '@').map(|(at, _)| at);
    let name = name.get(..version.unwrap_or(name.len())).unwrap_or(name).trim_end_matches('~');
    // `npx -y github-user/repo` and JSR's `@scope/name/entry`: at most a scope and a name.
    let parts: Vec<&str> = name.splitn(3, '/').take(2).collect();
    parts.join("/")
}

/// Whether a text says where a package is fetched from.
fn is_source(text: &str) -> bool {
    SOURCES.iter().any(|source| text.starts_with(source))
        || ["http://", "https://", "git:", "git+"].iter().any(|scheme| text.starts_with(scheme))
}

/// What an alias stands for, which npm knows a package by here and nowhere else: `NAME@npm:PACKAGE@1.2`, `NAME@https://…` (npm-install(1)).
pub(super) fn unaliased(spec: &str) -> &str {
    let spec = spec.trim_matches(['"', '\'']);
    let mut aliases =
        spec.match_indices('@').filter(|(at, _)| *at > 0 && !spec.get(..*at).is_some_and(is_source));
    aliases.find_map(|(at, _)| spec.get(at + 1..).filter(|rest| is_source(rest))).unwrap_or(spec)
}

/// The package in a repository of several, behind `#`: `egg=NAME`, `subdirectory=DIR` (pip.pypa.io/en/stable/topics/vcs-support), `path:DIR`
/// (pnpm.io/package-sources).
fn part_of_repository(spec: &str) -> Option<&str> {
    let (_, fragment) = spec.split_once('#')?;
    let value = |name: &str| fragment.split('&').find_map(|part| part.strip_prefix(name));
    let egg = value("egg=").and_then(|egg| egg.split(['[', '=']).next());
    let directory = value("subdirectory=").or_else(|| value("path:"));
    let telling = |path: &'_ str| -> bool { !is_generic(path) && !PLACES.contains(&path) };
    let mut parts = egg.into_iter().chain(directory.into_iter().flat_map(|path| path.rsplit('/')));
    parts.find(|part| telling(part))
}

/// What a program of a package is called, where that says which of several servers of the package it is: where the package is a
/// directory of a repository, or has another name. `None`: the package says it.
pub(super) fn entry<'a>(spec: &str, program: &'a str) -> Option<&'a str> {
    let program = title(program);
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
        words.filter(|word| !is_in(NO_NAMES, word)).collect()
    };
    let package = package(spec);
    let is_named = |name: &str| name.to_ascii_lowercase().contains("mcp");
    let own = words(program);
    if is_generic(program) || own.is_empty() {
        return None;
    }
    let known = words(&package);
    let is_other = !own.iter().all(|word| known.contains(word));
    // `NAME @ ADDRESS` has the name of the package.
    let is_part = spec.contains("subdirectory=") && !spec.contains(" @ ");
    let is_better = is_named(program) || !is_named(base(&package));
    (is_better && (is_other || is_part)).then_some(program)
}

/// Words of names that say nothing of which server it is.
const NO_NAMES: &str = "mcp server servers cli stdio";

/// The version in a package specifier: `name@1.2`, `name==1.2`, `https://…/name.git@v1.2`. A range (`>=1`) is none.
pub(super) fn version(spec: &str) -> Option<&str> {
    let spec = spec.trim_matches(['"', '\'']);
    // `github:owner/name#v1.2` (npm-install(1))
    let tag = spec.split_once('#').map(|(_, tag)| tag.strip_prefix("semver:").unwrap_or(tag));
    if let Some(tag) = tag.filter(|tag| places::is_version(tag)) {
        return Some(tag);
    }
    let spec = spec.split([';', '#', '?']).next()?;
    // `https://example.com/name@v1.2/mod.ts`: the last part with one, and no user of the host.
    let path = spec.split_once("://").map(|(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let last = path.map_or(spec, |path| path.rsplit('/').find(|part| part.contains('@')).unwrap_or_default());
    let (name, version) = last.rsplit_once("==").or_else(|| last.rsplit_once('@'))?;
    let version = version.split([',', '/']).next()?.trim();
    let is_version = version.starts_with(|first: char| first.is_ascii_alphanumeric());
    (!name.trim().is_empty() && is_version).then_some(version)
}

/// The digest or the tag of an image.
pub(super) fn image_version(reference: &str) -> Option<&str> {
    if let Some((_, digest)) = reference.split_once('@') {
        return Some(digest);
    }
    let (_, tag) = reference.rsplit_once(':')?;
    (!tag.is_empty() && !tag.contains('/')).then_some(tag)
}

/// The name in one part of a package's address: `name.git@v1`, `name-1.2.tgz`.
fn located(part: &str) -> &str {
    let name = part.split('@').next().unwrap_or(part);
    ARCHIVES.iter().find_map(|end| name.strip_suffix(end)).map_or_else(|| title(name), unversioned)
}

/// The name of a Go package: the last part of its path that is no version.
pub(super) fn go_package(path: &str) -> &str {
    let path = path.split('@').next().unwrap_or(path).trim_end_matches('/');
    let is_major = |part: &&str| {
        part.strip_prefix('v').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut parts = path.rsplit('/').filter(|part| !is_major(part));
    // `…/weather-mcp/cmd/server`
    let telling = parts.clone().find(|part| !is_generic(part) && *part != "cmd");
    telling.filter(|part| !part.contains('.')).or_else(|| parts.next()).unwrap_or(path)
}

/// The name of a flake's package: the attribute, or the repository where that is the default one (nix3-flake(1)).
pub(super) fn flake(reference: &str) -> String {
    let (source, attribute) = reference.split_once('#').unwrap_or((reference, ""));
    let attribute = attribute.split('^').next().unwrap_or(attribute);
    let last = attribute.rsplit('.').next().unwrap_or(attribute);
    if !last.is_empty() && last != "default" {
        return last.to_owned();
    }
    let (source, query) = source.split_once('?').unwrap_or((source, ""));
    // `github:owner/repository?dir=DIR`
    let directory = query.split('&').find_map(|part| part.strip_prefix("dir="));
    if let Some(part) = directory.and_then(|path| path.rsplit('/').find(|part| !is_generic(part))) {
        return part.to_owned();
    }
    match source.split_once(':') {
        // `github:owner/repository/branch`
        Some(("github" | "gitlab" | "sourcehut", path)) => {
            path.splitn(3, '/').take(2).collect::<Vec<_>>().join("/")
        }
        _ => package(source.split_once('+').map_or(source, |(_, rest)| rest)),
    }
}

/// The name of a container image: no tag, no digest.
pub(super) fn image(reference: &str) -> String {
    let name = reference.split('@').next().unwrap_or(reference);
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    match name.rsplit_once(':') {
        // A colon in front of a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => name.to_owned(),
        _ => name.to_owned(),
    }
}

/// The name and the version in the name of an image's file: `apptainer pull` calls it `NAME_TAG.sif`.
pub(super) fn image_file(path: &str) -> (&str, Option<&str>) {
    let is_tag = |tag: &str| {
        let number = tag.strip_prefix('v').unwrap_or(tag);
        number.starts_with(|first: char| first.is_ascii_digit()) || is_in(CHANNELS, tag)
    };
    if let Some((name, tag)) =
        path.rsplit_once('_').filter(|(name, tag)| !base(name).is_empty() && is_tag(tag))
    {
        return (name, Some(tag));
    }
    let last = base(path);
    let name = path.get(..path.len() - last.len() + unversioned(last).len()).unwrap_or(path);
    (name, places::version(path))
}

/// An image's repository as an engine resolves it: `docker.io/library/node` is `node`.
pub(super) fn repository(image: &str) -> String {
    let image = image.to_ascii_lowercase();
    let image =
        ["docker.io/", "index.docker.io/"].iter().find_map(|host| image.strip_prefix(host)).unwrap_or(&image);
    image.strip_prefix("library/").unwrap_or(image).to_owned()
}

/// Whether an image only brings an interpreter or a launcher, so that the command in it is the server.
pub(super) fn is_runtime(image: &str) -> bool {
    let repository = repository(image);
    let mut parts = repository.rsplit('/');
    let (last, owner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    owner != "mcp" && (is_in(RUNTIME_IMAGES, last) || is_in(RUNTIME_IMAGES, &format!("{owner}/{last}")))
}
