//! Which tool of which server is meant.

use anyhow::{Result, anyhow, bail};
use mcpwarden_policy::config::{Finding, Server};

use crate::output::clean;

/// What a tool's id begins with.
const PREFIX: &str = "mcp:";
/// Most names that an error lists.
const MAX_NAMES: usize = 20;

/// The declared server and the tool that `mcp:SERVER:TOOL` names; `mcp:` may be missing. Ids and names can have colons: of all
/// declared ids that the text begins with, the longest is meant.
///
/// # Errors
/// The text names no declared server, or no tool of it.
pub fn parse<'a, 't>(text: &'t str, servers: &'a [Server]) -> Result<(&'a Server, &'t str)> {
    let id = text.strip_prefix(PREFIX).unwrap_or(text);
    let tool_of = |server: &Server| id.strip_prefix(server.id.as_str())?.strip_prefix(':');
    let longest =
        servers.iter().filter(|server| tool_of(server).is_some()).max_by_key(|server| server.id.len());
    if let Some((server, tool)) = longest.and_then(|server| Some((server, tool_of(server)?))) {
        if tool.is_empty() {
            bail!(
                "`{}` names no tool of the server {}; expected mcp:SERVER:TOOL",
                clean(text),
                clean(&server.id)
            );
        }
        return Ok((server, tool));
    }
    let Some((wrong, _)) = id.split_once(':') else {
        bail!("`{}` names no server and no tool of it; expected mcp:SERVER:TOOL", clean(text));
    };
    if servers.is_empty() {
        bail!("there is no server {}: the configuration declares none (`servers`)", clean(wrong));
    }
    let names = servers.iter().map(|server| server.id.as_str());
    Err(unknown("the configuration declares no server", wrong, "it declares", names))
}

/// An error for a name that is not among the known ones: with the nearest of these, and with all of them.
pub fn unknown<'a>(
    what: &str,
    wrong: &str,
    known_as: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> anyhow::Error {
    let nearest = Finding::new(Vec::new(), String::new()).nearest_of(wrong, known.clone()).nearest;
    let meant = nearest.map_or_else(String::new, |name| format!("; did you mean `{}`?", clean(&name)));
    let count = known.clone().count();
    let listed: Vec<String> = known.take(MAX_NAMES).map(clean).collect();
    let more = if count > MAX_NAMES { format!(" and {} more", count - MAX_NAMES) } else { String::new() };
    anyhow!("{what} `{}`{meant} ({known_as} {}{more})", clean(wrong), listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_is_split_at_the_longest_declared_id() {
        let yaml =
            "servers: [{ id: files, command: a }, { id: 'files:ro', command: b }, { id: mcp, command: c }]";
        let (config, _) = mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap();
        for (text, expected) in [
            ("mcp:files:read", Ok(("files", "read"))),
            ("files:read", Ok(("files", "read"))),
            ("mcp:files:a:b", Ok(("files", "a:b"))),
            ("mcp:files:ro:read", Ok(("files:ro", "read"))),
            ("mcp:files:ro", Ok(("files", "ro"))),
            ("mcp:mcp:read", Ok(("mcp", "read"))),
            ("mcp:read", Err("no server and no tool")),
            ("read", Err("no server and no tool")),
            ("mcp:files:", Err("names no tool of the server files")),
            ("mcp:file:read", Err("did you mean `files`? (it declares files, files:ro, mcp)")),
            ("mcp:zzz:read", Err("declares no server `zzz` (it declares files, files:ro, mcp)")),
            ("mcp:\u{1b}[31m:read", Err("`\\u{1b}[31m`")),
        ] {
            match (parse(text, &config.servers), expected) {
                (Ok((server, tool)), Ok(expected)) => {
                    assert_eq!((server.id.as_str(), tool), expected, "{text}");
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
                (Ok(_), Err(part)) => panic!("{text}: no error with {part}"),
                (Err(error), Ok(_)) => panic!("{text}: {error}"),
            }
        }
        assert!(parse("mcp:a:b", &[]).unwrap_err().to_string().contains("declares none"));
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let names: Vec<String> = (0..25).map(|number| format!("tool{number}")).collect();
        let error =
            unknown("there is no tool", "x", "it lists", names.iter().map(String::as_str)).to_string();
        assert!(error.contains("tool19 and 5 more)") && !error.contains("tool20"), "{error}");
    }
}
