//! What an operation does, as the rules across servers see it.

use std::borrow::Cow;
use std::net::IpAddr;

use serde_json::value::RawValue;

use crate::classify::Classifier;
use crate::guard::{Facts, Operation};
use crate::protocol::{Course, ResultKind, accepts, members, string};
use crate::terms::ToolCategory;

/// Schemes of resources that whoever reads them fetches over the network.
const NETWORK: [&str; 19] = [
    "http",
    "https",
    "ws",
    "wss",
    "ftp",
    "ftps",
    "sftp",
    "scp",
    "ssh",
    "mailto",
    "gopher",
    "ldap",
    "ldaps",
    "dict",
    "tftp",
    "smb",
    "rtsp",
    "git+https",
    "git+ssh",
];

/// Schemes of servers' own resources as often as of the network: `git://main/README.md`. Which it is the host tells.
const NAMED_BY_HOST: [&str; 2] = ["git", "svn"];

/// Something that a client asks of a server or answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Act<'a> {
    /// The method of the request, or of that which is answered.
    pub(super) method: &'a str,
    /// The tool that is called.
    pub(super) tool: Option<&'a str>,
    pub(super) category: ToolCategory,
    /// Whether something was read with it, besides what its category says.
    pub(super) reads: bool,
    /// Whether the server will answer.
    pub(super) is_asked: bool,
}

impl<'a> Act<'a> {
    /// What an operation is; nothing where no data goes.
    pub(super) fn of(operation: &Operation<'a>, facts: &Facts<'_>, classifier: &Classifier) -> Option<Self> {
        use ToolCategory::{Read, Send};
        let asks = |method, category| Self { method, tool: None, category, reads: false, is_asked: true };
        match *operation {
            Operation::ToolInvoke { tool_name, .. } => {
                let category = match facts.tool {
                    Some(known) => known.category,
                    None => classifier.category(&facts.server.0, tool_name),
                };
                Some(Self { tool: Some(tool_name), ..asks("tools/call", category) })
            }
            Operation::PromptRequest { .. } => Some(asks("prompts/get", Read)),
            Operation::ResourceRequest { uri, is_listed: false } if is_elsewhere(uri, facts.host) => {
                // What is asked for there is told with it, and what is there is read.
                Some(Self { reads: true, ..asks("resources/read", Send) })
            }
            Operation::ResourceRequest { .. } => Some(asks("resources/read", Read)),
            // Its server watches what is there, and asks for it.
            Operation::Request { method: method @ "resources/subscribe", params }
                if !facts.lists_resource =>
            {
                let [uri] = members(params.map_or("null", RawValue::get), ["uri"]);
                is_elsewhere(&string(uri), facts.host).then(|| asks(method, Send))
            }
            Operation::Request { method: method @ "completion/complete", .. } => Some(asks(method, Send)),
            Operation::Response { method, result: Some(result), .. } if gives_data(method, result) => {
                Some(Self { is_asked: false, ..asks(method, Send) })
            }
            _ => None,
        }
    }

    /// How it is named where there is no tool.
    pub(super) fn name(&self) -> &'a str {
        self.tool.unwrap_or(self.method)
    }
}

/// An answer to what [`Act::of`] counts as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    /// The tool of which it is the result.
    pub(super) tool: Option<&'a str>,
    /// Whether the request waits for no more. One that requires input is made again.
    pub(super) is_end: bool,
    /// Whether data came with it. None comes with an error, a task that is only begun, and what requires input.
    pub(super) has_data: bool,
    /// Whether none will come any more: it is an error, or nobody waits for it.
    pub(super) is_failed: bool,
}

impl<'a> Answer<'a> {
    /// What an operation answers, if it is an answer to something that counts.
    pub(super) fn of(operation: &Operation<'a>) -> Option<Self> {
        match *operation {
            Operation::ToolResult { tool_name, result, .. } => Some(Self {
                tool: Some(tool_name),
                is_end: true,
                has_data: has_data(result),
                is_failed: result.is_none(),
            }),
            Operation::Response { method, result, .. } => {
                let goes_on = |result: &RawValue| Course::of(result.get()).kind == ResultKind::InputRequired;
                let is_end = matches!(
                    method,
                    "prompts/get" | "resources/read" | "resources/subscribe" | "completion/complete"
                ) && !result.is_some_and(goes_on);
                // The result of a call whose answer was its task (MCP 2025-11-25).
                let of_task = method == "tasks/result";
                (is_end || of_task).then(|| Self {
                    tool: None,
                    is_end,
                    has_data: has_data(result),
                    is_failed: result.is_none(),
                })
            }
            _ => None,
        }
    }
}

fn has_data(result: Option<&RawValue>) -> bool {
    let Some(result) = result.filter(|result| result.get() != "null") else { return false };
    let course = Course::of(result.get());
    // The answer that makes a task has a member `task` and no contents (MCP 2025-11-25).
    let begins_task = || members(result.get(), ["task"])[0].is_some() && !Course::has_contents(result.get());
    course.kind == ResultKind::Complete && !(course.task.is_some() && begins_task())
}

/// Whether a client's answer to a server tells it something: a text of the model, or what a user has entered.
fn gives_data(method: &str, result: &RawValue) -> bool {
    match method {
        "sampling/createMessage" => true,
        "elicitation/create" => accepts(result.get()),
        _ => false,
    }
}

/// An address as a parser of URLs reads it: without control characters and blanks around it, and without tabs and ends of lines in
/// it (url.spec.whatwg.org, "basic URL parser").
fn read(uri: &str) -> Cow<'_, str> {
    let uri = uri.trim_matches(|c: char| c <= ' ' || c.is_whitespace());
    if uri.contains(['\t', '\n', '\r']) { uri.replace(['\t', '\n', '\r'], "").into() } else { uri.into() }
}

/// What follows the scheme of a resource that is fetched over the network. Under a scheme that is in no list that is so where a
/// host of the internet is named and something is told it: `fetch://host.example/?q=…`.
fn of_network(uri: &str) -> Option<&str> {
    let (scheme, rest) = if uri.starts_with("//") { ("", uri) } else { uri.split_once(':')? };
    let is_one_of = |schemes: &[&str]| schemes.iter().any(|one| one.eq_ignore_ascii_case(scheme));
    let is_of_network = scheme.is_empty() || is_one_of(&NETWORK) || {
        let (place, told) = rest.split_once('?').unwrap_or((rest, ""));
        let place = place.strip_prefix("//").unwrap_or_default();
        names_host(place)
            && (told.contains('=') || is_one_of(&NAMED_BY_HOST) && place.trim_end_matches('/').contains('/'))
    };
    is_of_network.then_some(rest)
}

/// Whether an address without its scheme begins with a host of the internet: a name with a top-level domain, or an address.
fn names_host(place: &str) -> bool {
    let host = place.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if host.starts_with('[') {
        return true;
    }
    let host = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    let top = host.rsplit_once('.').map_or("", |(_, top)| top);
    host.parse::<IpAddr>().is_ok() || top.len() > 1 && top.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a resource is fetched over the network: what its server lists of these is to be told with a request for one.
pub(crate) fn is_of_network(uri: &str) -> bool {
    of_network(&read(uri)).is_some()
}

/// Whether a resource is fetched over the network from another host than that of its server: `own`, or, of a process, this one.
fn is_elsewhere(uri: &str, own: Option<&str>) -> bool {
    let uri = read(uri);
    let Some(rest) = of_network(&uri) else { return false };
    let authority =
        rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[').and_then(|bracketed| bracketed.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_own = own.is_some_and(|own| own.trim_matches(['[', ']']).eq_ignore_ascii_case(&host));
    let is_here = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    !is_own && !is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_elsewhere_is_told_by_its_host() {
        for (uri, own, expected) in [
            ("https://evil.example/?q=1", None, true),
            ("HTTP://EVIL.example", None, true),
            (" https:\\\\evil.example", None, true),
            ("https://user:pass@evil.example:8443/a", None, true),
            ("https://localhost@evil.example/", None, true),
            ("wss://192.0.2.1/socket", None, true),
            ("https://[2001:db8::1]/a", None, true),
            ("ftp://files.example/a", None, true),
            ("mailto:ann@evil.example", None, true),
            ("ht\ttps://evil.example/?q=1", None, true),
            ("\u{1}https:/\n/evil.example", None, true),
            ("//evil.example/a", None, true),
            ("//evil.example:443/?q=1", None, true),
            ("fetch://evil.example./?q=1", None, true),
            ("fetch://203.0.113.7/?q=1", None, true),
            ("fetch://[2001:db8::1]/?q=1", None, true),
            ("fetch://evil.example/?q=1", None, true),
            ("proxy://evil.example:8443/a?q=1&b=2", None, true),
            ("gopher://evil.example/1", None, true),
            ("git+https://evil.example/a", None, true),
            ("git://git.example.org/a.git", None, true),
            ("git://lena@192.0.2.1:9418/a", None, true),
            ("svn://svn.example/trunk", None, true),
            ("git://main/docs/a.md", None, false),
            ("git://v1/src?at=2", None, false),
            ("git://readme.md", None, false),
            ("svn://trunk/a", None, false),
            ("weather://nyc?unit=c", None, false),
            ("notes://a.md", None, false),
            ("https://localhost.evil.example/", None, true),
            ("https://api.example/a", Some("other.example"), true),
            ("https://api.example/a", Some("api.example"), false),
            ("https://API.example:443/a", Some("api.EXAMPLE"), false),
            ("https://[::2]/a", Some("[::2]"), false),
            ("http://192.0.2.1/a", Some("192.0.2.1"), false),
            ("http://localhost:3000/a", None, false),
            ("http://app.localhost./a", None, false),
            ("http://127.0.0.9/a", None, false),
            ("http://[::1]:80/a", None, false),
            ("file:///etc/hosts", None, false),
            ("postgres://db.example/table", None, false),
            ("github://repos/a", None, false),
            ("note", None, false),
            ("", None, false),
        ] {
            assert_eq!(is_elsewhere(uri, own), expected, "{uri} of {own:?}");
        }
    }
}
