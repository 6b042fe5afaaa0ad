//! Servers: found, running, gone.

use serde_json::json;

use super::{about, detection};
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    let started = ServerStarted {
        pid: Some(1),
        uid: Some(0),
        cgroup_id: Some(u64::MAX),
        executable: Some("/bin/x".into()),
        argv: vec!["x".into(), "***".into()],
        argv_truncated: true,
        cwd: Some("/".into()),
        url: Some("http://127.0.0.1:1/mcp".into()),
        client: Some(ProcessInfo { pid: 2, executable: None, argv: vec![] }),
        matched_by: MatchedBy::Name,
        pattern: Some("*-mcp".into()),
        identity: Identity::Derived,
        mistaken_for: Some(ServerId("git".into())),
        adopted: true,
        version: Some("1.2".into()),
        chain: vec!["npx".into()],
        detections: vec![detection()],
    };
    let bare = ServerStarted {
        pid: None,
        uid: None,
        cgroup_id: None,
        executable: None,
        argv: vec![],
        argv_truncated: false,
        url: None,
        cwd: None,
        client: None,
        matched_by: MatchedBy::Behaviour,
        pattern: None,
        mistaken_for: None,
        version: None,
        chain: vec![],
        detections: vec![],
        adopted: false,
        ..started.clone()
    };
    let executed = ServerExecuted {
        pid: 3,
        executable: Some("/bin/y".into()),
        argv: vec!["y".into()],
        argv_truncated: true,
        serves: true,
        identity: Identity::Derived,
        mistaken_for: Some(ServerId("git".into())),
    };
    let exited = ServerExited { exit_code: Some(0), signal: Some(9), ..Default::default() };
    vec![
        about(ServerUncaptured {
            pid: 7,
            uid: Some(1000),
            executable: Some("/bin/x".into()),
            transport: Transport::Pty,
            reason: "r".into(),
        }),
        about(ServerUncaptured {
            pid: 7,
            uid: None,
            executable: None,
            transport: Transport::PacketSocket,
            reason: "r".into(),
        }),
        about(started),
        about(bare),
        about(executed.clone()),
        about(ServerExecuted {
            executable: None,
            argv: vec![],
            argv_truncated: false,
            serves: false,
            mistaken_for: None,
            ..executed
        }),
        about(ServerPreloaded {
            pid: 1,
            executable: Some("/bin/x".into()),
            variables: vec!["LD_PRELOAD".into()],
            options: vec!["--require".into()],
        }),
        about(ServerVersionChanged {
            version: "1.3".into(),
            previous_version: "1.2".into(),
            definitions_changed: 1,
        }),
        about(CapacityExceeded { table: Table::Pins, uid: Some(0), refused: 3 }),
        about(CapacityExceeded { table: Table::Connections, uid: None, refused: 1 }),
        about(ServerInitialized::default()),
        about(ServerInitialized {
            era: Some(Era::Stateless),
            server_name: Some("s".into()),
            supported_versions: vec!["2026-07-28".into()],
            capabilities: json!({}),
            ..Default::default()
        }),
        about(exited),
        about(ServerExited::default()),
    ]
}
