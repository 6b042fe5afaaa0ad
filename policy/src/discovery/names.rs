//! Which names say something, and how names are got out of package specifiers and paths.

use super::piece::Role;

/// Names that every other project has.
const GENERIC: [&str; 34] = [
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
];
/// Directories that say nothing of what lies in them.
const PLACES: [&str; 16] = [
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
];
/// Endings of scripts and programs that are not part of their name.
const EXTENSIONS: [&str; 17] = [
    ".mjs", ".cjs", ".js", ".mts", ".cts", ".ts", ".tsx", ".pyz", ".pyw", ".py", ".jar", ".rb", ".php",
    ".sh", ".dll", ".exe", ".bash",
];

fn is_generic(name: &str) -> bool {
    GENERIC.contains(&name.to_ascii_lowercase().as_str())
}

/// The last part of a path.
pub(super) fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// The last part of a path, without what ends a script's name.
pub(super) fn stem(path: &str) -> &str {
    let base = base(path);
    EXTENSIONS.iter().find_map(|end| base.strip_suffix(end)).filter(|stem| !stem.is_empty()).unwrap_or(base)
}

/// The id that a name gives, if it says something.
pub(super) fn telling_part(name: &str, role: Role) -> Option<String> {
    if role == Role::Module {
        return name.split('.').find(|part| !is_generic(part)).map(str::to_owned);
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

/// The nearest directory above a script that says something.
pub(super) fn telling_directory(path: &str, cwd: Option<&str>) -> Option<String> {
    let whole = match cwd {
        _ if path.starts_with('/') => path.to_owned(),
        Some(cwd) => format!("{cwd}/{path}"),
        None => path.to_owned(),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.pop();
    // A user's home is named for the user, not for the server.
    let homes = if parts.first() == Some(&"home") { 2 } else { 0 };
    let named = |part: &&&str| !is_generic(part) && !PLACES.contains(&part.to_ascii_lowercase().as_str());
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

/// The name in a package specifier of npm, PyPI or JSR: no version, no extras, no place it is fetched from.
pub(super) fn package(spec: &str) -> String {
    let spec = spec.trim_matches(['"', '\'']);
    let spec =
        ["npm:", "jsr:", "github:"].iter().find_map(|prefix| spec.strip_prefix(prefix)).unwrap_or(spec);
    let spec = spec.split(['#', '?']).next().unwrap_or(spec);
    if spec.contains("://") || spec.starts_with(['.', '/', '~']) {
        let name = base(spec.split_once("://").map_or(spec, |(_, rest)| rest));
        let name = name.split('@').next().unwrap_or(name);
        return [".git", ".tgz", ".tar.gz", ".whl"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name)
            .into();
    }
    let name = spec.split(['[', '=', '<', '>', '!', ' ', ';', '^']).next().unwrap_or(spec);
    let version = name.char_indices().skip(1).find(|(_, character)| *character == '@').map(|(at, _)| at);
    let name = name.get(..version.unwrap_or(name.len())).unwrap_or(name).trim_end_matches('~');
    // `npx -y github-user/repo` and JSR's `@scope/name/entry`: at most a scope and a name.
    let parts: Vec<&str> = name.splitn(3, '/').take(2).collect();
    parts.join("/")
}

/// The name of a container image: no tag, no digest.
pub(super) fn image(reference: &str) -> String {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        // A colon in front of a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => name.to_owned(),
        _ => name.to_owned(),
    }
}
