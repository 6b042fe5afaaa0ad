//! The host of a URL, as any reader may take it.

use std::net::IpAddr;

use super::Truth;
use crate::config::HostGlob;
use crate::glob::{GlobError, NameGlob};
use crate::terms::Prefix;

/// Hosts that a test names.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    names: Vec<NameGlob>,
    blocks: Vec<Prefix>,
}

impl Hosts {
    pub(super) fn new<'a>(all: impl Iterator<Item = &'a HostGlob>) -> Result<Self, GlobError> {
        let mut hosts = Self::default();
        for one in all {
            match one.block() {
                Some(block) => hosts.blocks.push(block),
                None => hosts.names.push(NameGlob::new(one.as_str().trim_end_matches('.'), false)?),
            }
        }
        Ok(hosts)
    }
}

/// Whether the host of a URL is among these. A text without a scheme is read as if it had one.
pub(super) fn is_among(text: &str, hosts: &Hosts) -> Truth {
    let Some(host) = host(text) else { return Truth::Unknown };
    match host.parse::<IpAddr>() {
        Ok(ip) => {
            let ip = Prefix::host(ip);
            let by_name = hosts.names.iter().any(|glob| glob.matches(&host));
            Truth::of(by_name || hosts.blocks.iter().any(|block| block.covers(&ip)))
        }
        Err(_) if hosts.names.iter().any(|glob| glob.matches(&host)) => Truth::Yes,
        // What the name resolves to is not known.
        Err(_) if hosts.names.is_empty() => Truth::Unknown,
        Err(_) => Truth::No,
    }
}

/// The host, in small letters, without the dot at its end; `None`: readers differ about it (RFC 3986 against the URL standard
/// of browsers).
fn host(text: &str) -> Option<String> {
    let is_odd = |character: char| character.is_control() || character.is_whitespace() || character == '\\';
    if text.is_empty() || text.contains(is_odd) || !text.is_ascii() {
        return None;
    }
    let rest = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) && rest.starts_with("//") => rest.get(2..)?,
        // A host and its port look like a scheme and its rest.
        Some((_, rest)) if rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) => text,
        Some((scheme, _)) if is_scheme(scheme) => return None,
        _ => text.strip_prefix("//").unwrap_or(text),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains(['@', '%']) || rest.starts_with('/') {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => {
            let (ip, port) = rest.split_once(']')?;
            let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_digits);
            let ip: IpAddr = ip.parse().ok().filter(|_| is_port)?;
            return Some(ip.to_canonical().to_string());
        }
        None => match authority.split_once(':') {
            Some((host, port)) => is_digits(port).then_some(host)?,
            None => authority,
        },
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(is_plain) {
        return None;
    }
    // 0x7f.1, 127.1 and 2130706433 are addresses to some readers.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = is_digits(last) || last.strip_prefix("0x").is_some_and(is_hexadecimal);
    match host.parse::<IpAddr>() {
        Ok(ip) => Some(ip.to_string()),
        Err(_) if is_number => None,
        Err(_) => Some(host),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn host_is_what_every_reader_takes() {
        for (text, expected) in [
            ("https://Example.com/a?b#c", Some("example.com")),
            ("https://example.com.:443", Some("example.com")),
            ("example.com/a", Some("example.com")),
            ("example.com:8080/a", Some("example.com")),
            ("//example.com/a", Some("example.com")),
            ("http://127.0.0.1:80/", Some("127.0.0.1")),
            ("http://[::FFFF:127.0.0.1]/", Some("127.0.0.1")),
            ("http://[::1]:8080", Some("::1")),
            ("ftp://a_b.example/", Some("a_b.example")),
            ("", None),
            ("https://", None),
            ("https:///a", None),
            ("https:/example.com", None),
            ("mailto:a@example.com", None),
            ("https://good.example@evil.example/", None),
            ("https://good.example\\@evil.example/", None),
            ("https://evil.example\t/", None),
            (" https://evil.example", None),
            ("https://e%76il.example/", None),
            ("https://\u{ff45}vil.example/", None),
            ("http://127.1/", None),
            ("http://0x7f000001/", None),
            ("http://2130706433/", None),
            ("http://0x7f.1/", None),
            ("http://127.0.0.1:80:90/", None),
            ("http://[::1/", None),
            ("http://[::1]x/", None),
        ] {
            assert_eq!(host(text).as_deref(), expected, "{text:?}");
        }
    }
}
