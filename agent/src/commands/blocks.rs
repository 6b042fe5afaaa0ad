//! `mcpwarden block`, `unblock`, `blocks`: what the running agent denies because an operator says so.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use comfy_table::Table;
use hyper::Method;

use crate::{
    cli::{BlockOptions, BlocksOptions, UnblockOptions},
    control::{BLOCKS, BlockView, Blocks, NewBlock, OldBlock, client::query_agent},
    output::{self, escaped, print_error, print_json_line, print_line, seconds},
};

/// How long the addresses of a name are waited for, and how often they are asked for.
const NAMES: (Duration, Duration) = (Duration::from_secs(6), Duration::from_millis(100));

/// Blocks a target, and waits until something is blocked.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn block(options: BlockOptions) -> Result<()> {
    let BlockOptions { target, port, period, reason, yes, json, agent } = options;
    let new = NewBlock { target, port, period, reason, yes };
    let block = request(&agent.socket, &new)?;
    if json {
        print_json_line(&block);
    } else {
        print_line(format!("blocked {}", sentence(&block)));
    }
    if let Some(idle) = idle(&block) {
        print_error(format!("mcpwarden: {idle}"));
    }
    Ok(())
}

/// Has the agent block, and waits until something is blocked.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn request(socket: &Path, new: &NewBlock) -> Result<BlockView> {
    let mut block: BlockView = query_agent(socket, Method::POST, BLOCKS, new)?;
    let until = Instant::now() + NAMES.0;
    while block.connections.is_none() && block.addresses.is_empty() && Instant::now() < until {
        std::thread::sleep(NAMES.1);
        let all: Blocks = query_agent(socket, Method::GET, BLOCKS, &())?;
        match all.blocks.into_iter().find(|found| found.target == block.target) {
            Some(found) => block = found,
            // Its time was short.
            None => break,
        }
    }
    Ok(block)
}

/// Why a block has no effect, where it has none.
pub fn idle(block: &BlockView) -> Option<String> {
    let target = escaped(&block.target);
    match block.connections {
        Some(0) => Some(format!("{target} has no connection now: it counts for those to come")),
        None if block.addresses.is_empty() => Some(format!(
            "no address of {target} is known: nothing is denied until it has one; it is asked for again and again"
        )),
        _ => None,
    }
}

/// Lifts a block.
///
/// # Errors
/// No agent answers, or it refuses; or there is no such block.
pub fn unblock(options: UnblockOptions) -> Result<()> {
    let UnblockOptions { target, port, json, agent } = options;
    let block: BlockView = query_agent(&agent.socket, Method::DELETE, BLOCKS, &OldBlock { target, port })?;
    if json {
        print_json_line(&block);
    } else {
        print_line(format!("unblocked {}", escaped(&block.target)));
    }
    Ok(())
}

/// Prints all blocks.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn list(options: &BlocksOptions) -> Result<()> {
    let all: Blocks = query_agent(&options.agent.socket, Method::GET, BLOCKS, &())?;
    if options.json {
        print_json_line(&all.blocks);
    } else if all.blocks.is_empty() {
        print_line("nothing is blocked");
    } else {
        print_line(output::table_text(&table(&all.blocks)));
    }
    Ok(())
}

fn table(blocks: &[BlockView]) -> Table {
    let mut table = output::table(["target", "until", "since", "by", "what that is", "reason"]);
    for block in blocks {
        let by = block.user.as_deref().map_or_else(|| block.uid.to_string(), escaped);
        let until = block.until.map_or_else(|| "unblocked".to_owned(), seconds);
        let addresses = match (block.connections, addresses(block)) {
            (Some(connections), _) => connection_count(connections),
            (None, text) if text.is_empty() => "none known".to_owned(),
            (None, text) => text,
        };
        let reason = block.reason.as_deref().map(escaped).unwrap_or_default();
        table.add_row([escaped(&block.target), until, seconds(block.since), by, addresses, reason]);
    }
    table
}

/// What is blocked, until when, and what of the network that is.
pub fn sentence(block: &BlockView) -> String {
    let until = match block.until {
        Some(until) => format!("until {}", seconds(until)),
        None => "until it is unblocked, or the agent ends".to_owned(),
    };
    let addresses = block.connections.map_or_else(|| addresses(block), connection_count);
    let target = escaped(&block.target);
    if addresses.is_empty() || addresses == target {
        format!("{target} {until}")
    } else {
        format!("{target} ({addresses}) {until}")
    }
}

fn connection_count(count: usize) -> String {
    format!("{count} connection{}", if count == 1 { "" } else { "s" })
}

fn addresses(block: &BlockView) -> String {
    escaped(&block.addresses.join(", "))
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::Timestamp;

    use super::*;

    fn view(target: &str, until: Option<u64>, addresses: &[&str]) -> BlockView {
        BlockView {
            target: target.into(),
            server_type: None,
            since: Timestamp(1_767_695_400_000_000_000),
            until: until.map(|seconds| Timestamp(seconds * 1_000_000_000)),
            reason: Some("a \u{1b}[31mreason".into()),
            uid: 4_242,
            user: None,
            addresses: addresses.iter().map(|one| (*one).to_owned()).collect(),
            connections: None,
        }
    }

    #[test]
    fn block_is_described_for_people() {
        for (block, expected) in [
            (view("192.0.2.1", None, &["192.0.2.1"]), "192.0.2.1 until it is unblocked, or the agent ends"),
            (
                view("crm", Some(1_767_695_999), &["192.0.2.1:443", "192.0.2.2:443"]),
                "crm (192.0.2.1:443, 192.0.2.2:443) until 2026-01-06 10:39:59Z",
            ),
            (view("example.com", Some(1_767_695_999), &[]), "example.com until 2026-01-06 10:39:59Z"),
        ] {
            assert_eq!(sentence(&block), expected);
            let row = table(&[block]).to_string();
            for part in ["4242", "2026-01-06 10:30:00Z", "a \\u{1b}[31mreason"] {
                assert!(row.contains(part), "{row}");
            }
        }
    }
}
