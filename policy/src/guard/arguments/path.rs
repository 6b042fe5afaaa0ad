//! Whether a path lies below a directory, by its text alone.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::Truth;

/// Whether `text`, once normalized, is `directory` or lies below it. `directory` is absolute, or `.`, the working directory,
/// which is not known: of a path from the root nobody can tell then, and of a relative one nobody can tell where it is.
///
/// What leads elsewhere than its text says cannot be told: `~`, variables, `/proc/self/root` and its kin, percent-escapes of
/// dots and slashes, backslashes, control characters. Symbolic links of the file system are not looked up.
pub(super) fn is_below(text: &str, directory: &str) -> Truth {
    let Some(path) = plain(text) else { return Truth::Unknown };
    let Some(parts) = normalized(&path) else {
        // It leads out of the working directory.
        return if directory == "." { Truth::No } else { Truth::Unknown };
    };
    match (path.starts_with('/'), directory.starts_with('/')) {
        (true, true) => {
            if is_alias(&parts) {
                return Truth::Unknown;
            }
            let directory = normalized(directory).unwrap_or_default();
            Truth::of(parts.starts_with(&directory))
        }
        (false, false) => Truth::Yes,
        _ => Truth::Unknown,
    }
}

/// Paths that are what they say, as regular expressions: from the root, relative ones; and those from the root that may not be,
/// since every process has links there.
pub(super) const PLAIN: [&str; 4] = [
    r"(?-u:/|(?:/\.{0,2}[0-9A-Za-z_+=@,-][0-9A-Za-z_+=@,.-]*)+/?)",
    r"(?-u:\.{0,2}[0-9A-Za-z_+=@,-][0-9A-Za-z_+=@,.-]*(?:/\.{0,2}[0-9A-Za-z_+=@,-][0-9A-Za-z_+=@,.-]*)*/?)",
    "/proc/(?s:.*)",
    "/dev/(?s:.*)",
];

static IS_PLAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let [absolute, relative, ..] = PLAIN;
    Regex::new(&format!("^(?:{absolute}|{relative})$")).ok()
});

/// Whether a path is what it says, by [`PLAIN`].
pub(super) fn is_plain(text: &str) -> bool {
    let is_odd = text.ends_with('\n') || text.starts_with("/proc/") || text.starts_with("/dev/");
    !is_odd && IS_PLAIN.as_ref().is_some_and(|plain| plain.is_match(text))
}

/// A regular expression of the plain paths that are a directory or lie below it.
pub(super) fn expression(directory: &str) -> String {
    let parts = normalized(directory).unwrap_or_default();
    let directory: String = parts.iter().map(|part| format!("/{}", regex::escape(part))).collect();
    format!("{directory}(?:/(?s:.*))?")
}

/// A path without the scheme of a `file:` URL; `None`: what it leads to cannot be told.
fn plain(text: &str) -> Option<Cow<'_, str>> {
    let path = match text.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("file:") => {
            let rest = text.get(5..).unwrap_or_default();
            let rest = match rest.strip_prefix("//") {
                Some(rest) => {
                    let at = rest.find('/')?;
                    let (host, path) = rest.split_at(at);
                    (host.is_empty() || host.eq_ignore_ascii_case("localhost")).then_some(path)?
                }
                None => rest,
            };
            // Of an address a reader decodes the rest: `%2e%2e`, `%00`.
            (!rest.contains(['%', '?', '#'])).then_some(rest)?
        }
        _ => text,
    };
    let lower = path.to_ascii_lowercase();
    let is_odd = path.is_empty()
        || path.starts_with('~')
        || path != path.trim()
        || path.contains(['\\', '$', '`', '\u{ff0e}', '\u{ff0f}', '\u{2024}', '\u{2215}', '\u{2044}'])
        || path.chars().any(char::is_control)
        || path.contains("://")
        || ["%2e", "%2f", "%5c", "%25", "%00"].iter().any(|escape| lower.contains(escape));
    (!is_odd).then_some(Cow::Borrowed(path))
}

/// The parts of a path, without `.`, `..` and empty ones; `None`: a relative path leads out of where it begins.
fn normalized(path: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // Above the root is the root.
            ".." if parts.pop().is_none() && !path.starts_with('/') => return None,
            ".." => {}
            part => parts.push(part),
        }
    }
    Some(parts)
}

/// Whether the kernel gives another place by this path: links that every process has.
fn is_alias(parts: &[&str]) -> bool {
    match parts {
        ["proc", process, kind, ..] => {
            let is_process = matches!(*process, "self" | "thread-self")
                || process.bytes().all(|byte| byte.is_ascii_digit());
            is_process && matches!(*kind, "root" | "cwd" | "fd" | "exe" | "task" | "map_files")
        }
        ["dev", "fd", ..] | ["dev", "stdin" | "stdout" | "stderr", ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Truth::{No, Unknown, Yes};
    use super::is_below;

    #[test]
    fn paths_are_compared_once_normalized() {
        for (path, directory, expected) in [
            ("/srv/data", "/srv/data", Yes),
            ("/srv/data/", "/srv/data/", Yes),
            ("/srv/data/a/b", "/srv/data", Yes),
            ("//srv///data/./a", "/srv/data", Yes),
            ("/srv/other/../data/a", "/srv/data", Yes),
            ("/../srv/data/a", "/srv/data", Yes),
            ("/anything", "/", Yes),
            ("file:///srv/data/a", "/srv/data", Yes),
            ("FILE://localhost/srv/data/a", "/srv/data", Yes),
            ("/srv/datax", "/srv/data", No),
            ("/srv", "/srv/data", No),
            ("/srv/data/../x", "/srv/data", No),
            ("/srv/data/a/../../../etc/passwd", "/srv/data", No),
            ("/SRV/data/a", "/srv/data", No),
            ("a/b", ".", Yes),
            ("./a/../b", ".", Yes),
            ("..", ".", No),
            ("a/../../b", ".", No),
            ("a/b", "/srv/data", Unknown),
            ("../b", "/srv/data", Unknown),
            ("/srv/data/a", ".", Unknown),
            ("", "/srv/data", Unknown),
            ("~/a", "/srv/data", Unknown),
            ("~root/.ssh", "/srv/data", Unknown),
            ("$HOME/a", "/srv/data", Unknown),
            ("/srv/data/${X}", "/srv/data", Unknown),
            ("/srv/data/`id`", "/srv/data", Unknown),
            ("/srv/data/%2e%2e/x", "/srv/data", Unknown),
            ("/srv/data/..%2fx", "/srv/data", Unknown),
            ("/srv/data/%252e", "/srv/data", Unknown),
            ("/srv/data/..\\..\\x", "/srv/data", Unknown),
            ("/srv/data/a\0b", "/srv/data", Unknown),
            ("/srv/data/a\n", "/srv/data", Unknown),
            (" /srv/data/a", "/srv/data", Unknown),
            ("/srv/data/\u{ff0e}\u{ff0e}/x", "/srv/data", Unknown),
            ("/proc/self/root/srv/data", "/srv/data", Unknown),
            ("/proc/self/cwd/a", "/proc", Unknown),
            ("/proc/17/root/etc/shadow", "/proc", Unknown),
            ("/proc/./self//fd/3", "/proc", Unknown),
            ("/dev/fd/3", "/dev", Unknown),
            ("/dev/stdin", "/dev", Unknown),
            ("/proc/meminfo", "/proc", Yes),
            ("file://host/srv/data/a", "/srv/data", Unknown),
            ("file:///srv/data/%2e%2e/x", "/srv/data", Unknown),
            ("https://example.com/srv/data", "/srv/data", Unknown),
        ] {
            assert_eq!(is_below(path, directory), expected, "{path:?} {directory}");
        }
    }
}
