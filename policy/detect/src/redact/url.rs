//! Addresses without the secrets in them.

use super::MASK;
use super::names::is_secret_parameter;
use super::tokens::{is_known_secret, is_random};
use super::values::{is_digest, is_public};

/// An address, of which `rest` stands behind `://`.
/// `is_git`: whether what is fetched there is a repository of Git.
pub(super) fn mask_url(scheme: &str, rest: &str, is_git: bool) -> String {
    let end = |text: &str| text.find(['/', '?', '#']).unwrap_or(text.len());
    let mut host = end(rest);
    if let Some((_, password)) = rest.get(..host).and_then(|authority| authority.split_once(':'))
        && !is_number(password)
        && let Some(at) = rest.rfind('@').filter(|at| *at > host)
    {
        // A password with a slash in it, which should have been escaped.
        host = at + end(rest.get(at..).unwrap_or_default());
    }
    let (authority, path) = rest.split_at_checked(host).unwrap_or((rest, ""));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) if !is_known_secret(name) => format!("{name}:{MASK}@{host}"),
            // That of ssh and of a database is a person or a program.
            None if has_users(scheme) && is_word(user) => format!("{user}@{host}"),
            // A user without a password is a token as often as not.
            _ => format!("{MASK}@{host}"),
        },
        None => authority.to_owned(),
    };
    let mut out = format!("{scheme}://{authority}");
    let is_git = is_git || scheme == "git" || path.contains(".git");
    let is_stream = ["rtmp", "rtmps", "srt"].iter().any(|one| scheme.eq_ignore_ascii_case(one));
    let last_slash = path.rfind('/').filter(|at| is_stream && *at > 0);
    let mut is_hook = is_hook_host(&authority);
    let (mut separator, mut at) = (' ', 0);
    for part in path.split_inclusive(['/', '?', '&', '#', ';']) {
        let (text, next) = match part.char_indices().next_back() {
            Some((at, last)) if matches!(last, '/' | '?' | '&' | '#' | ';') => {
                (part.get(..at).unwrap_or(part), Some(last))
            }
            _ => (part, None),
        };
        let in_path = separator == '/';
        match text.split_once('=') {
            Some((name, value))
                if !in_path
                    && !is_public(value)
                    && (is_secret_parameter(name) && !is_state(name, value) || is_secret(value)) =>
            {
                out.extend([name, "=", MASK]);
            }
            _ if is_secret(text) && !(is_git && names_commit(text, separator))
                || in_path
                    && (is_hook && !is_word(text)
                        || last_slash.is_some_and(|slash| at > slash && !is_word(text))) =>
            {
                out.push_str(MASK)
            }
            _ => out.push_str(text),
        }
        is_hook |= in_path && is_hook_path(text);
        out.extend(next);
        separator = next.unwrap_or(' ');
        at += part.len();
    }
    out
}

/// How much in front of a scheme is looked at, in bytes: `jdbc:` and the names of a driver.
const MAX_PREFIX_BYTES: usize = 64;

/// Where in an address of a database its settings begin, `name=value` behind a `;` or what drivers have in its place:
/// `jdbc:sqlserver://host;user=u`, `jdbc:db2://host/db:user=u;`, `jdbc:mysql://(host=h,user=u)/db`, `jdbc:teradata://host/USER=u,…`.
/// `None`: there are none. `rest` stands behind `://`, and `front` in front of the scheme.
pub(super) fn settings(front: &str, rest: &str) -> Option<usize> {
    let is_end = |c: char| c.is_whitespace() || "\"'=,".contains(c);
    let front = front.get(front.floor_char_boundary(front.len().saturating_sub(MAX_PREFIX_BYTES))..)?;
    let prefix = front.rsplit(is_end).next().unwrap_or(front).to_ascii_lowercase();
    let is_jdbc = prefix.contains("jdbc:");
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest.get(..end)?;
    let first = authority.find(';');
    if !is_jdbc && first.is_none() {
        return None;
    }
    let host = authority.get(..first.unwrap_or(end))?;
    let is_login = host.split_once(':').is_some_and(|(_, port)| !is_number(port)) && !host.starts_with('[');
    let from = match host.rfind('@').or_else(|| rest.rfind('@').filter(|_| is_login)) {
        Some(at) => at + 1,
        None => 0,
    };
    let separators: &[char] = if is_jdbc { &[';', ':', ',', '(', '/'] } else { &[';'] };
    let behind = rest.get(from..)?;
    let behind = behind.get(..behind.find('?').unwrap_or(behind.len()))?;
    let is_setting = |at: &usize| {
        let named = behind.get(at + 1..).unwrap_or_default().trim_start();
        let name = named.find(|c: char| !c.is_alphanumeric() && !"_-. ".contains(c));
        name.is_some_and(|end| end > 0 && named.get(end..).is_some_and(|sign| sign.starts_with('=')))
    };
    let at = behind.match_indices(separators).map(|(at, _)| at).find(is_setting)?;
    Some(from + at + 1)
}

/// Where a secret stands in `user:SECRET@host` without a scheme, at the beginning of a text: from and to. `before` stands in
/// front of it.
pub(super) fn userinfo(text: &str, before: Option<char>) -> Option<(usize, usize)> {
    if !before.is_none_or(|c| c.is_whitespace() || "\"'=,(".contains(c)) {
        return None;
    }
    let end = text
        .find(|c: char| c.is_whitespace() || c == '"' || c == '\'')
        .unwrap_or(text.len())
        .min(MAX_USERINFO_BYTES);
    let word = text.get(..text.floor_char_boundary(end))?;
    let (user, _) = word.split_once(':')?;
    let at = word.rfind('@')?;
    let secret = word.get(user.len() + 1..at).filter(|secret| !secret.is_empty())?;
    let host = word.get(at + 1..)?;
    let is_secret = !secret.contains("//") && !secret.starts_with('/') && !secret.contains('@');
    (is_secret && !PREFIXES.contains(&user) && is_host(host)).then_some((user.len() + 1, at))
}

/// Longest `user:SECRET@host`, in bytes.
const MAX_USERINFO_BYTES: usize = 512;
/// What stands before a colon where no user does: schemes and package managers.
const PREFIXES: [&str; 24] = [
    "mailto",
    "sip",
    "sips",
    "xmpp",
    "acct",
    "npm",
    "jsr",
    "file",
    "link",
    "workspace",
    "portal",
    "patch",
    "git",
    "github",
    "gitlab",
    "bitbucket",
    "node",
    "deno",
    "pypi",
    "docker",
    "oci",
    "pkg",
    "nix",
    "cid",
];
/// What stands behind an `@` where no host does: hashes, versions and files.
const TAGS: [&str; 14] = [
    "sha256", "sha512", "latest", "next", "beta", "alpha", "canary", "stable", "rc", "aar", "jar", "pom",
    "zip", "main",
];

/// Whether this is where a host is, and what follows it: `db`, `db.test:5432/shop`, `tcp(127.0.0.1:3306)/shop`, `[::1]`, `//db`.
fn is_host(text: &str) -> bool {
    let text = text.trim_start_matches('/');
    let end = text.find([':', '/', '?', ',', '(', ';']).unwrap_or(text.len());
    let (host, _) = text.split_at(end);
    let is_address =
        host.split('.').count() == 4 && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_name = host.starts_with(|c: char| c.is_alphabetic())
        && host.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '-')
        && !TAGS.contains(&host);
    is_address || is_name || text.starts_with('[')
}

/// Hosts all of whose paths are secrets.
fn is_hook_host(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or(authority).to_ascii_lowercase();
    ["hooks.", "hook.", "webhook.", "outlook.office.com", "maker.ifttt.com", "hc-ping.com", "hook-"].iter().any(|start| host.starts_with(start))
        || [".webhook.office.com", ".m.pipedream.net"].iter().any(|end| host.ends_with(end))
        // Make: `hook.eu1.make.com`.
        || host.starts_with("hook.") || host == "webhook.site"
}

/// Parts of a path that secrets of chat hooks follow: Slack, Discord, Mattermost, Feishu, n8n, Teams, IFTTT.
fn is_hook_path(part: &str) -> bool {
    ["hook", "hooks", "webhook", "webhooks", "webhookb2", "incomingwebhook"]
        .contains(&part.to_ascii_lowercase().as_str())
}

/// `?state=open`: the state of a thing, and not that of a login.
fn is_state(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("state") && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Whether an address is one where users have names: of ssh, a database or a directory.
fn has_users(scheme: &str) -> bool {
    const SCHEMES: [&str; 18] = [
        "ssh",
        "sftp",
        "scp",
        "git+ssh",
        "svn+ssh",
        "ftp",
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "mongodb",
        "mongodb+srv",
        "oracle",
        "sqlserver",
        "mssql",
        "ldap",
        "ldaps",
        "clickhouse",
    ];
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// `name@COMMIT`, `#COMMIT`: what a package is fetched at, by a hash of Git.
fn names_commit(part: &str, separator: char) -> bool {
    let (name, hash) = part.rsplit_once('@').unwrap_or(("", part));
    let is_behind = separator == '#' || !name.is_empty() && !is_secret(name);
    is_behind && is_digest(hash)
}

/// A part of a path that a person named: short, in lower case, or a number.
fn is_word(part: &str) -> bool {
    let is_lower = part.len() <= 24
        && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte == b'_');
    let is_version = part.len() <= 3 && part.starts_with('v');
    part.is_empty() || is_lower || is_version || part.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_secret(word: &str) -> bool {
    is_known_secret(word) || is_random(word)
}
