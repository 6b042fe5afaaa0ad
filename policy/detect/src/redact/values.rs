//! What of a value says that it is no secret, and of a word that it is an option.

/// `-x`, `--lower-case`, `--lower-case=…`: a flag, and not a value that begins with a dash.
pub(super) fn is_plain_flag(arg: &str) -> bool {
    let name = arg.split('=').next().unwrap_or(arg);
    match name.strip_prefix("--") {
        Some(name) => name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
        None => name.len() == 2 && name.starts_with('-'),
    }
}

/// Forty or sixty-four hexadecimal digits: SHA-1 or SHA-256.
pub(super) fn is_digest(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Shortest name of a variable without braces, in bytes.
const MIN_VARIABLE: usize = 3;

/// Whether a value is a word or a reference that says no secret, whatever stands in front of it: `false`, `${NAME}`,
/// `$NAME` in capitals, `env:NAME`.
pub(super) fn is_public(value: &str) -> bool {
    let is_variable = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let is_shells = value.strip_prefix('$').is_some_and(|name| {
        name.len() >= MIN_VARIABLE && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    is_variable
        || is_shells
        || value == "-"
        || ["true", "false", "none", "null", "yes", "no", "on", "off", "stdin"].contains(&value)
        || ["env:", "file:/", "fd:", "@/"].iter().any(|beginning| value.starts_with(beginning))
}

/// Whether the value behind a name of a secret is none: a reference, a file of keys, a number of tokens.
pub(super) fn is_harmless(name: &str, value: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase();
    let is_file =
        ["key", "cert", "cookie", "cookies", "credentials", "creds"].iter().any(|end| name.ends_with(end));
    let is_amount = ["seed", "tokens", "jetons"].iter().any(|end| name.ends_with(end));
    is_public(value)
        || is_file && is_path(value)
        || name == "secret" && is_mount(value)
        // The first or the second pass of an encoder.
        || name == "pass" && value.len() == 1 && value.bytes().all(|byte| byte.is_ascii_digit())
        || is_amount && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Members of what a container is given a secret by: where it is, and where it is to stand (docker-buildx-build(1), `--secret`;
/// podman-run(1), docker-service-create(1)).
const MOUNT: [&str; 10] = ["id", "src", "source", "target", "type", "env", "mode", "uid", "gid", "required"];

/// `id=npm,src=.npmrc`, `npm,type=env,target=TOKEN`: which secret a container is given, and not what it says.
fn is_mount(value: &str) -> bool {
    let is_member = |part: &str| {
        part.split_once('=').is_some_and(|(name, value)| MOUNT.contains(&name) && !is_long(value))
    };
    let is_name = |part: &str| !part.contains('=') && !is_long(part);
    let mut parts = value.split(',');
    let first = parts.next().unwrap_or_default();
    let mut rest = parts.clone().peekable();
    (is_member(first) || is_name(first) && rest.peek().is_some()) && parts.all(is_member)
}

/// Longer than names of secrets are, and without what paths have.
fn is_long(value: &str) -> bool {
    value.len() > 32 && !value.contains(['/', '.'])
}

/// The path of a file, as it is written to be one.
fn is_path(value: &str) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|beginning| value.starts_with(beginning));
    let ends =
        [".pem", ".key", ".crt", ".cer", ".pub", ".p12", ".pfx", ".jks", ".json", ".txt", ".yaml", ".yml"];
    let is_file = ends.iter().any(|end| value.ends_with(end));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-~@".contains(c);
    value.chars().all(is_plain)
        && (is_file || begins && value.matches('/').count() > 1 && !value.chars().any(|c| c.is_ascii_digit()))
}
