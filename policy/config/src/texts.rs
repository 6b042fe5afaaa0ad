//! Texts of conditions of rules (where an argument stands, hosts, directories), and of denials.

use mcpwarden_terms::{Prefix, checked_text, glob};

checked_text!(
    /// A JSON Pointer (RFC 6901) in the arguments of a call. The token `*` stands for every member or element.
    Pointer, "json-pointer", pointer
);

/// Longest pointer. Bytes.
const MOST_POINTER_BYTES: usize = 512;

fn pointer(text: &str) -> Result<(), String> {
    if !text.is_empty() && !text.starts_with('/') {
        return Err("it does not begin with /".into());
    }
    if text.len() > MOST_POINTER_BYTES {
        return Err(format!("it has {} bytes; the most is {MOST_POINTER_BYTES}", text.len()));
    }
    let is_escape = |rest: &str| rest.starts_with('0') || rest.starts_with('1');
    match text.split('~').skip(1).all(is_escape) {
        true => Ok(()),
        false => Err("`~` is written `~0`, and `/` within a name `~1`".into()),
    }
}

impl Pointer {
    /// Its tokens, without escapes.
    pub fn tokens(&self) -> impl Iterator<Item = String> {
        self.as_str().split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
    }
}

checked_text!(
    /// Hosts of URLs: a glob on names, an IP address or a CIDR block.
    HostGlob, "host-glob", host
);

fn host(text: &str) -> Result<(), String> {
    match text {
        _ if is_block(text) => text.parse::<Prefix>().map(|_| ()),
        _ if text.contains([':', '/', '@']) => {
            Err("only the host is written, without scheme, port and path".into())
        }
        _ => glob::check(text),
    }
}

/// Whether it is meant as an address, or a block of addresses.
fn is_block(text: &str) -> bool {
    let ip = text.split('/').next().unwrap_or_default();
    ip.parse::<std::net::IpAddr>().is_ok() || ip.contains(':') && !text.contains("//")
}

impl HostGlob {
    /// The block of addresses that it is; `None`: a glob on names.
    pub fn block(&self) -> Option<Prefix> {
        is_block(self.as_str()).then(|| self.as_str().parse().ok()).flatten()
    }
}

checked_text!(
    /// A directory: a path from the root, or `.`, the working directory of the server, whichever that is.
    Directory, "directory", |text| match text {
        "." => Ok(()),
        _ if !text.starts_with('/') => Err("it does not begin with /, and is not `.`".into()),
        _ if text.split('/').any(|part| part == "..") => Err("it has `..` in it".into()),
        _ => Ok(()),
    }
);

checked_text!(
    /// The denials of a code (`tool_denied`), of a guard (`tool_access`), or both (`tool_access/tool_denied`).
    DenialName, "denial-name", |text| {
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':'))
        };
        match text.split('/').count() <= 2 && text.split('/').all(is_part) && text.len() <= 128 {
            true => Ok(()),
            false => Err("it is not the code of a denial, a guard, or guard/code".into()),
        }
    }
);

/// Longest text of a denial: what the kernel half has room for. Bytes.
const MOST_DENIAL_BYTES: usize = 96;

checked_text!(
    /// What takes the place of the name of a denied tool.
    DenialText, "denial-text", |text| {
        if text.is_empty() || text.len() > MOST_DENIAL_BYTES {
            return Err(format!("it has {} bytes; it may have 1 to {MOST_DENIAL_BYTES}", text.len()));
        }
        if text.chars().any(|char| char.is_control() || matches!(char, '"' | '\\')) {
            return Err("it contains a quote, a backslash or a control character".into());
        }
        // A server could offer a tool of that name.
        match text.trim().contains(' ') {
            true => Ok(()),
            false => Err("it is one word, which may be the name of a tool; it needs a blank".into()),
        }
    }
);
