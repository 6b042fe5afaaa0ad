//! The words of a target: addresses, names and paths without secrets, bounded.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::definition::hex;
use crate::discovery::names;
use crate::redact::redact_word;

/// Longest target that is kept as it is, in bytes.
pub(super) const MAX_BYTES: usize = 240;
/// Hexadecimal digits of a digest that stands for a secret, or for what is too long.
const DIGEST_DIGITS: usize = 12;
/// Ports that an address need not name: of its scheme.
const PORTS: [(&str, &str); 5] =
    [("http", "80"), ("https", "443"), ("ws", "80"), ("wss", "443"), ("ssh", "22")];

/// Whether a word is an address: a scheme and what stands behind `://`.
pub(in crate::discovery) fn is_url(word: &str) -> bool {
    word.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte))
    })
}

/// Scheme, host, port and path of a URL: what it leads to, and nothing that may be a secret.
pub(in crate::discovery) fn place(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return word(url) };
    let scheme = scheme.to_ascii_lowercase();
    // A password with such a character in it, which should have been escaped.
    let authority = until(rest, &['/', '?', '#', ';']);
    let is_login = !authority.contains('@')
        && !authority.starts_with('[')
        && authority.split_once(':').is_some_and(|(_, port)| !is_port(port));
    let rest = rest.rsplit_once('@').filter(|_| is_login).map_or(rest, |(_, behind)| behind);
    let rest = until(rest, &['?', '#', ';']);
    let authority = until(rest, &['/']);
    let path = rest.get(authority.len()..).unwrap_or_default();
    // What is left of a login that was cut off.
    let is_cut = is_login && authority.split_once(':').is_some_and(|(_, port)| !is_port(port));
    let authority = if is_cut { until(authority, &[':']) } else { authority };
    let host = authority.rsplit('@').next().unwrap_or(authority).to_ascii_lowercase();
    let host = PORTS
        .iter()
        .filter(|(of, _)| *of == scheme)
        .find_map(|(_, port)| host.strip_suffix(port)?.strip_suffix(':'))
        .unwrap_or(&host);
    let whole = format!("{scheme}://{host}{}", path.trim_end_matches('/'));
    let shown = redact_word(&whole);
    if shown == whole {
        return clean(&whole);
    }
    let (parts, kept): (Vec<&str>, Vec<&str>) = (whole.split('/').collect(), shown.split('/').collect());
    if parts.len() != kept.len() {
        return format!("{scheme}://{}", digest(&whole));
    }
    let parts =
        parts.iter().zip(kept).map(|(part, kept)| if *part == kept { clean(part) } else { digest(part) });
    parts.collect::<Vec<_>>().join("/")
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn until<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split(ends).next().unwrap_or(text)
}

/// A word as it stands in a target: an address without secrets, or the digest of what looks like one.
pub(super) fn word(text: &str) -> String {
    if is_url(text) {
        return place(text);
    }
    let is_open = |text: &str| redact_word(text) == text;
    match text.rsplit_once('@') {
        _ if is_open(text) => clean(text),
        // `user:password@host`
        Some((_, host)) if is_open(host) => clean(host),
        _ => digest(text),
    }
}

/// A name without the version behind it.
pub(super) fn named(operand: &str) -> Cow<'_, str> {
    match operand.char_indices().skip(1).find(|(_, character)| *character == '@') {
        Some(_) if names::version(operand).is_some() && !is_url(operand) => names::package(operand).into(),
        _ => operand.into(),
    }
}

fn clean(text: &str) -> String {
    let is_bad = |character: char| character.is_whitespace() || character.is_control();
    text.chars().map(|character| if is_bad(character) { '-' } else { character }).collect()
}

pub(super) fn digest(text: &str) -> String {
    let digest = hex(&Sha256::digest(text));
    digest.get(..DIGEST_DIGITS).unwrap_or(&digest).to_owned()
}

pub(super) fn bounded(target: String) -> String {
    if target.len() <= MAX_BYTES {
        return target;
    }
    let front = target.get(..target.floor_char_boundary(MAX_BYTES)).unwrap_or_default();
    format!("{front}…{}", digest(&target))
}
