//! What stands already: pins and decisions in the agent's database, and what a running agent blocks.

use std::io;
use std::path::Path;

use anyhow::Result;
use hyper::Method;
use mcpwarden_policy::ServerId;
use mcpwarden_policy::guards::{CallBlock, Callee};
use mcpwarden_policy::registry::{MemoryStore, Store as _};
use mcpwarden_store::database::DatabaseError;
use mcpwarden_store::registry::{PINS, SCHEMA, each};

use crate::control::{
    BLOCKS, BlockView, Blocks,
    client::{Unreachable, query_agent},
};
use crate::output::one_line;

/// The pins of a server, beside the database of events at `events`. They are not written. `Err`: why they are not known, in words.
///
/// # Errors
/// See above.
pub fn pins(events: &Path, server: &ServerId) -> Result<MemoryStore, String> {
    let path = events.with_file_name(PINS);
    let mut store = MemoryStore::default();
    let db = match SCHEMA.read(&path) {
        // Nothing is pinned where no agent ever ran.
        Err(DatabaseError::Missing(_)) => return Ok(store),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let read = each(&db, |pin| {
        if pin.key.server == *server {
            store.put(&pin.key, &[(pin.item, pin.record)], &[])?;
        }
        Ok(())
    });
    read.map_err(|error| format!("{error:#}"))?;
    Ok(store)
}

/// The blocks of a running agent that are about a server. None where no agent runs; else, why they are not known, in words.
///
/// # Errors
/// See above.
pub fn blocks(socket: &Path, server: &ServerId) -> Result<Vec<CallBlock>, String> {
    let nobody = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    match query_agent::<Blocks>(socket, Method::GET, BLOCKS, &()) {
        Ok(all) => Ok(all.blocks.into_iter().filter_map(|block| of_server(block, server)).collect()),
        Err(error)
            if error.downcast_ref().is_some_and(|error: &Unreachable| nobody.contains(&error.kind)) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(one_line(&format!("{error:#}"))),
    }
}

/// A block as one of calls, if it is about this server: of its calls, or of the declared server.
fn of_server(block: BlockView, server: &ServerId) -> Option<CallBlock> {
    let is_declared = block.server_type.is_some() && *block.target == *server.0;
    let is_called = Callee::parse(&block.target) == Some(Callee::Server(server.clone()));
    (is_declared || is_called).then(|| CallBlock {
        callee: Callee::Server(server.clone()),
        until: block.until,
        reason: block.reason,
    })
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::Timestamp;
    use mcpwarden_policy::event::ServerType;

    use super::*;

    #[test]
    fn blocks_of_the_server_alone_count() {
        let server = ServerId("files".into());
        for (target, server_type, expected) in [
            ("server=files", None, true),
            ("server=other", None, false),
            ("session=files", None, false),
            ("files", Some(ServerType::Http), true),
            ("other", Some(ServerType::Http), false),
            // A host of that name.
            ("files", None, false),
            ("192.0.2.1", None, false),
        ] {
            let block = BlockView {
                target: target.into(),
                server_type,
                since: Timestamp(1),
                until: Some(Timestamp(2)),
                reason: Some("odd".into()),
                uid: 0,
                user: None,
                addresses: Vec::new(),
                connections: None,
            };
            let expected = expected.then(|| CallBlock {
                callee: Callee::Server(server.clone()),
                until: Some(Timestamp(2)),
                reason: Some("odd".into()),
            });
            assert_eq!(of_server(block, &server), expected, "{target}");
        }
    }

    #[test]
    fn no_agent_blocks_and_pins_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let server = ServerId("files".into());
        assert_eq!(blocks(&directory.path().join("control.sock"), &server), Ok(Vec::new()));
        let mut store = pins(&directory.path().join("mcpwarden.db"), &server).unwrap();
        assert_eq!(store.keys(&server), Ok(Vec::new()));
        std::fs::write(directory.path().join(PINS), "no database").unwrap();
        assert!(pins(&directory.path().join("mcpwarden.db"), &server).is_err());
    }
}
