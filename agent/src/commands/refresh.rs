//! `mcpwarden tools --refresh`: a running agent lists a declared server now.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::Method;

use crate::{
    control::{LISTINGS, ListingView, Listings, NewListing, RequestedListing, client::query_agent},
    output::{clean, escaped, print_json_line, print_line},
};

/// How long a listing is waited for, and how often it is asked for: the agent gives each server 10 s, and lists four at once.
const WAIT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(100));

/// Has the server be listed, waits for that, and prints what came of it.
///
/// # Errors
/// No agent answers, it refuses, or the server cannot be listed.
pub fn run(server: &str, json: bool, socket: &Path) -> Result<()> {
    let new = NewListing { server: server.to_owned() };
    let RequestedListing { request, .. } = query_agent(socket, Method::POST, LISTINGS, &new)?;
    let view = wait(server, request, socket)?;
    if let Some(error) = &view.error {
        bail!("{} cannot be listed: {}", escaped(server), escaped(error));
    }
    if json {
        print_json_line(&view);
    } else {
        sentences(&view).into_iter().for_each(print_line);
    }
    Ok(())
}

fn wait(server: &str, request: u64, socket: &Path) -> Result<ListingView> {
    let until = Instant::now() + WAIT.0;
    loop {
        let Listings { listings } = query_agent(socket, Method::GET, LISTINGS, &())?;
        let found = listings.into_iter().find(|view| view.server == server && view.request >= request);
        if let Some(found) = found {
            return Ok(found);
        }
        if Instant::now() > until {
            return Err(anyhow::anyhow!(
                "the agent did not list {} within {} s",
                escaped(server),
                WAIT.0.as_secs()
            ))
            .context("see `mcpwarden status`");
        }
        std::thread::sleep(WAIT.1);
    }
}

/// What came of it, for people.
fn sentences(view: &ListingView) -> Vec<String> {
    let count = |count: usize| if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") };
    let mut lines =
        vec![format!("{} at {} lists {}", escaped(&view.server), clean(&view.url), count(view.tools))];
    for (what, names) in [("new", &view.new), ("changed", &view.changed), ("gone", &view.removed)] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| clean(name)).collect();
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    }
    if view.inspecting {
        let server = escaped(&view.server);
        lines.push(format!(
            "its definitions are long and still being inspected; `mcpwarden tools --server {server}` shows what is new"
        ));
    } else if lines.len() == 1 {
        lines.push("nothing is new or changed".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{Timestamp, event::ServerType};

    use super::*;

    #[test]
    fn listing_is_described_for_people() {
        let view = ListingView {
            server: "crm".into(),
            server_type: ServerType::Http,
            url: "http://127.0.0.1:1/mcp".into(),
            listed: Timestamp(1),
            request: 1,
            error: None,
            tools: 2,
            new: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            inspecting: false,
        };
        let head = "crm at http://127.0.0.1:1/mcp lists 2 tools";
        for (view, expected) in [
            (view.clone(), &[head, "nothing is new or changed"][..]),
            (
                ListingView {
                    new: vec!["a".into(), "b\u{1b}".into()],
                    changed: vec!["c".into()],
                    removed: vec!["d".into()],
                    ..view.clone()
                },
                &[head, "new: a, b\\u{1b}", "changed: c", "gone: d"],
            ),
            (
                ListingView { tools: 1, new: vec!["a".into()], ..view.clone() },
                &["crm at http://127.0.0.1:1/mcp lists 1 tool", "new: a"],
            ),
            (
                ListingView { inspecting: true, ..view },
                &[
                    head,
                    "its definitions are long and still being inspected; `mcpwarden tools --server crm` shows what is new",
                ],
            ),
        ] {
            assert_eq!(sentences(&view), expected);
        }
    }
}
