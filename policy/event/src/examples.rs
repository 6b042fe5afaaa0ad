//! One event of each type, for what has to deal with all of them: the tests of this crate and of others.

use mcpwarden_protocol::definition::Diff;
use mcpwarden_terms::contract::DenialScope;
use mcpwarden_terms::{Direction, GuardKind, ItemKind, Mode, Phase, ProfileKey, RiskLevel, ToolCategory};
use serde_json::json;

use super::*;

fn about(body: impl Into<EventBody>) -> Event {
    Event {
        timestamp: Timestamp(1_767_695_400_000_000_000),
        session_id: Some(SessionId("sess_0123456789ab".into())),
        server_id: Some(ServerId("server-git".into())),
        server_type: Some(ServerType::Stdio),
        via: vec![ServerId("relay".into())],
        connection: Some(ConnectionId(7)),
        trace: Trace {
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            tracestate: Some("a=b".into()),
        },
        repeats: Some(3),
        body: body.into(),
        link: Some(Link { seq: 9, previous: format!("sha256:{:064}", 0) }),
        owner: None,
    }
}

/// One of each, with as many fields as it can have, and one with as few.
pub fn examples() -> Vec<Event> {
    let detection = Detection {
        pattern: "p".into(),
        category: Category::CredentialTheft,
        severity: Severity::High,
        field: "/description".into(),
        matches: vec![Match { text: "m".into(), position: 3, context: "a m b".into() }],
        score: 100,
        form: Form::Raw,
    };
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
        detections: vec![detection.clone()],
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
    let objection =
        Objection { guard: GuardKind::ServerAccess, code: "server_denied".into(), reason: "r".into() };
    let called = ToolCalled {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: Some("ab".into()),
        jsonrpc_id: json!("a"),
        input: Json::from(&json!({"path": {"type": "string", "length": 3, "hash": "0"}})),
        meta: Some(json!({"_meta": {}})),
        category: ToolCategory::Read,
        decided: Decided {
            action: Action::Block,
            enforced: true,
            guard: Some(GuardKind::ToolAccess),
            code: Some("tool_denied".into()),
            reason: Some("r".into()),
            also_denied_by: vec![objection.clone()],
            warnings: vec!["w".into()],
        },
        detections: vec![],
        tool_detections: vec!["pseudo-tag".into()],
    };
    let result = ToolResult {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        jsonrpc_id: json!(1),
        status: CallStatus::Error,
        error_code: Some(-32_601),
        error_name: Some("header_mismatch".into()),
        error_message: Some("no".into()),
        error_message_bytes: Some(2),
        bytes: 10,
        latency_ns: 5,
        rounds: 2,
        result: Json::default(),
        decided: called.decided.clone(),
    };
    let tool = ToolSeen {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: "ab".into(),
        description: Some("reads".into()),
        definition: Some(json!({"name": "read"})),
        ui_resource: Some("ui://git/log".into()),
        ui_grants: vec!["csp.connectDomains https://x.example".into(), "visibility model".into()],
        status: ToolStatus::New,
        category: ToolCategory::Read,
        risk_level: RiskLevel::High,
        side_effect_tags: ["fs.write".to_owned()].into(),
        detections: vec![detection.clone()],
        max_severity: Some(Severity::High),
    };
    let message = Message {
        direction: Direction::ServerToClient,
        kind: MessageKind::Request,
        method: Some("roots/list".into()),
        jsonrpc_id: Some(json!(1.5)),
        error_name: None,
        bytes: 3,
        payload: Json::from(&json!([1])),
    };
    let gap = CaptureGap {
        direction: Direction::ClientToServer,
        bytes: 9,
        cause: GapCause::IoUringFixed,
        offset: Some(1),
        pid: Some(2),
    };
    let started_agent = AgentStarted {
        boot_id: Some("b".into()),
        programs: vec!["exec".into()],
        blind_spots: vec!["io_uring".into()],
        taken_over: Some(TakenOver { programs: 9, resumed: false, unread_records: 1, unread_bytes: 120 }),
        ..Default::default()
    };
    let loss = AgentLoss { counter: "c".into(), count: 1, total: 2, meaning: "m".into(), uid: Some(1000) };
    let reloaded = ConfigReloaded {
        path: "/etc/x.yaml".into(),
        config_hash: "00".into(),
        reason: "changed".into(),
        needs_restart: vec!["store".into()],
    };
    let refused_config =
        ConfigRefused { path: "/etc/x.yaml".into(), reason: "SIGHUP".into(), error: "1:1: no".into() };
    let stopped = AgentStopped { reason: "SIGTERM".into(), counters: [("frames".to_owned(), 1)].into() };
    let exited = ServerExited { exit_code: Some(0), signal: Some(9), ..Default::default() };
    let detection = tool.detections[0].clone();
    let found = Detected {
        subject: Subject::Definition,
        tool_name: Some("read".into()),
        tool_id: Some("mcp:server-git:read".into()),
        tool_hash: Some("ab".into()),
        jsonrpc_id: Some(json!(1)),
        action: Action::Alert,
        detection: detection.clone(),
    };
    let instructions = Detected {
        subject: Subject::Instructions,
        tool_name: None,
        tool_id: None,
        tool_hash: None,
        jsonrpc_id: None,
        ..found.clone()
    };
    let changed = ToolChanged {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        previous_hash: "ab".into(),
        new_hash: "cd".into(),
        diff: Diff::of(r#"{"a":1}"#, r#"{"b":1}"#),
        detections: vec![detection],
        max_severity: Some(Severity::High),
        action: Action::Alert,
    };
    let redefined = DefinitionChanged {
        kind: ItemKind::Instructions,
        name: String::new(),
        previous_hash: "ab".into(),
        new_hash: "cd".into(),
        diff: Diff::unknown(),
        detections: vec![],
        max_severity: None,
        action: Action::Alert,
    };
    let interface = InterfaceSeen {
        uri: "ui://git/log".into(),
        interface_hash: Some("ab".into()),
        status: ToolStatus::New,
        ui_grants: vec!["csp.connectDomains https://x.example".into()],
    };
    let silent_interface = InterfaceSeen {
        interface_hash: None,
        status: ToolStatus::Unpinned,
        ui_grants: Vec::new(),
        ..interface.clone()
    };
    let removed = ToolRemoved {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: "ab".into(),
    };
    let related = RelatedCall {
        timestamp: Timestamp(5),
        server_id: ServerId("files".into()),
        connection: Some(ConnectionId(3)),
        jsonrpc_id: json!(4),
        request_id: Some("req-1".into()),
        method: "tools/call".into(),
        tool_name: "read".into(),
        tool_id: "mcp:files:read".into(),
        category: ToolCategory::Read,
        action: Action::Allow,
    };
    let cross = CrossServerBlocked {
        rule: "read_then_send".into(),
        severity: Severity::Critical,
        reason: "r".into(),
        method: "tools/call".into(),
        jsonrpc_id: json!(5),
        request_id: None,
        blocked_server_id: ServerId("mail".into()),
        blocked_tool_name: "send".into(),
        blocked_tool_id: "mcp:mail:send".into(),
        blocked_tool_hash: Some("ab".into()),
        original_server_id: Some(ServerId("files".into())),
        related_calls: vec![related],
        also_denied_by: vec![objection.clone()],
        enforced: false,
    };
    let (name, id, hash) = ("read".to_owned(), "mcp:server-git:read".to_owned(), "ab".to_owned());
    let requested = ApprovalRequested {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: Some("/bin/x".into()) },
        guard: GuardKind::ToolPoisoning,
        code: "approval_required".into(),
        reason: "r".into(),
        shadows: Some(ServerId("files".into())),
        detections: tool.detections.clone(),
        max_severity: None,
        expires: Timestamp(9),
    };
    let granted = ApprovalGranted {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: Some("/usr/bin/mcp-files".into()) },
        by: "root".into(),
        limits: None,
    };
    let limits = GrantLimits {
        arguments: [("/path".to_owned(), json!({ "below": "/tmp" }))].into(),
        once: true,
        until: Some(Timestamp(9)),
    };
    let limited = ApprovalGranted { limits: Some(limits.clone()), ..granted.clone() };
    let ended = ApprovalEnded {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: None },
        reason: ApprovalEnd::Used,
        by: "root".into(),
        limits,
    };
    let approved = DefinitionApproved {
        kind: ItemKind::Prompt,
        name: name.clone(),
        hash: hash.clone(),
        whose: Whose::default(),
        by: "root".into(),
    };
    let reset = PinsReset {
        tool_name: Some(name.clone()),
        pins: 1,
        whose: Whose { uid: Some(1000), program: None },
        by: "root".into(),
    };
    let session_set = SessionSet {
        key: ProfileKey::Project,
        configured: false,
        by: "ann (root)".into(),
        profile: SessionProfile {
            mode: Mode::Planning,
            spec_frozen: true,
            spec_hash: "a".repeat(64).parse().ok(),
            project_id: Some("billing".into()),
            policy_blacklist: ["payments".to_owned()].into(),
            admin_token: true,
        },
    };
    let denied = ApprovalDenied {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose::default(),
        by: "root".into(),
    };
    let given_up = ApprovalTimedOut {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash,
        requested: Timestamp(8),
    };
    let late = RequestTimedOut {
        jsonrpc_id: json!(1),
        method: "tools/call".into(),
        tool_name: Some(name),
        tool_id: Some(id),
        age_ns: 6,
        timeout_ms: 5,
    };
    let crowded = ConcurrencyExceeded { open_requests: 11, max_concurrent: 10 };
    let warned = RequestWarned {
        kind: MessageKind::Response,
        method: "tools/list".into(),
        jsonrpc_id: json!(1),
        warnings: vec!["w".into()],
        tools_left_out: vec!["t".into()],
    };
    let blocked = RequestBlocked {
        kind: MessageKind::Request,
        method: "prompts/get".into(),
        jsonrpc_id: None,
        guard: GuardKind::ServerAccess,
        code: "server_denied".into(),
        reason: "r".into(),
        also_denied_by: vec![objection],
        enforced: true,
    };
    let gate = GateDecided {
        action: GateAction::Neutralized,
        guard: Some(GuardKind::ToolAccess),
        code: "tool_denied".into(),
        reason: "r".into(),
        pid: 7,
        bytes: 120,
    };
    let connecting = Connecting {
        remote_addr: "[2001:db8::1]:443".into(),
        remote_name: Some("example.com".into()),
        protocol: Protocol::Tcp,
        family: Family::Ipv6,
        pid: 7,
        uid: Some(0),
        cgroup_id: Some(1),
        cgroup: Some("/x".into()),
        executable: Some("/bin/x".into()),
        action: Action::Block,
        enforced: true,
        reason: Some("network.deny[0] (::/0)".into()),
        adopted: true,
        netns: Some(4170),
    };
    let bare_connecting = Connecting {
        remote_addr: "1.2.3.4:5".into(),
        remote_name: None,
        protocol: Protocol::Other(132),
        family: Family::Ipv4,
        pid: 7,
        uid: None,
        cgroup_id: None,
        cgroup: None,
        executable: None,
        action: Action::Allow,
        enforced: false,
        reason: None,
        adopted: false,
        netns: None,
    };
    let connection = NetworkConnection { connecting: connecting.clone() };
    let egress = ServerEgress {
        connecting,
        remote_server_id: Some(ServerId("remote".into())),
        first_seen: true,
        severity: Severity::High,
    };
    let network_blocked = NetworkBlocked {
        target: "10.0.0.0/8:443".into(),
        until: Some(Timestamp(8)),
        reason: Some("r".into()),
        uid: 0,
        user: Some("root".into()),
    };
    let unblocked = NetworkUnblocked {
        target: "git".into(),
        reason: BlockEnd::AgentStopped,
        uid: Some(0),
        user: Some("root".into()),
    };
    vec![
        Event { server_type: Some(ServerType::Http), ..about(connection) },
        Event {
            session_id: None,
            ..Event::agent(Timestamp(4), NetworkConnection { connecting: bare_connecting.clone() }.into())
        },
        Event::agent(
            Timestamp(5),
            NetworkClosed {
                remote_addr: "1.2.3.4:443".into(),
                protocol: Protocol::Udp,
                closed: 2,
                left: 1,
                reason: Some("network.deny[0] (1.2.3.4)".into()),
            }
            .into(),
        ),
        about(ServerDenied {
            remote_addr: "127.0.0.1:8000".into(),
            netns: Some(4170),
            reason: "r".into(),
            enforced: true,
            until: Some(Timestamp(9)),
            obstacle: None,
        }),
        about(ServerDenied {
            remote_addr: "127.0.0.1:8000".into(),
            netns: None,
            reason: "r".into(),
            enforced: false,
            until: None,
            obstacle: Some("o".into()),
        }),
        about(network_blocked.clone()),
        about(CallsBlocked(NetworkBlocked { target: "server=git".into(), ..network_blocked.clone() })),
        about(CallsUnblocked(NetworkUnblocked { target: "server=git".into(), ..unblocked.clone() })),
        Event::agent(
            Timestamp(6),
            NetworkBlocked { until: None, reason: None, user: None, ..network_blocked }.into(),
        ),
        about(RequestRefused { status: 401, jsonrpc_id: Some(json!(1)) }),
        about(RequestRefused { status: 404, jsonrpc_id: None }),
        about(ServerReachable { url: "http://x/".into() }),
        about(ServerUnreachable { url: "http://x/".into(), reason: "r".into(), status: Some(401) }),
        about(ServerUnreachable { url: "http://x/".into(), reason: "r".into(), status: None }),
        about(TlsMismatch {
            url: "https://x/".into(),
            severity: Severity::Critical,
            expected: "sha256:0".into(),
            found: "sha256:1".into(),
        }),
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
        about(NetworkUninspected {
            remote_addr: "[::1]:80".into(),
            pid: 1,
            executable: Some("/bin/x".into()),
            reason: "r".into(),
        }),
        about(NetworkUninspected {
            remote_addr: "10.0.0.1:80".into(),
            pid: 1,
            executable: None,
            reason: "r".into(),
        }),
        about(unblocked.clone()),
        about(session_set.clone()),
        about(SessionSet { configured: true, profile: SessionProfile::default(), ..session_set }),
        Event::agent(Timestamp(8), StoreFailing { path: "/x.db".into(), reason: "r".into() }.into()),
        about(GuardDenied {
            guard: GuardKind::Wasm,
            guard_name: "data-loss".into(),
            phase: Phase::ToolInvoke,
            code: "secret".into(),
            reason: "r".into(),
            scope: DenialScope::SessionTool,
            tools: vec!["read".into()],
            name: Some("file:///x".into()),
            jsonrpc_id: Some(json!(5)),
            valid_until: Some(Timestamp(9)),
            latency_ns: 7,
            enforced: false,
        }),
        about(GuardDenied {
            guard: GuardKind::Http,
            guard_name: "policy".into(),
            phase: Phase::ToolsList,
            code: "guard_timeout".into(),
            reason: "r".into(),
            scope: DenialScope::Definition,
            tools: Vec::new(),
            name: None,
            jsonrpc_id: None,
            valid_until: None,
            latency_ns: 0,
            enforced: false,
        }),
        about(GuardModified {
            guard: GuardKind::Wasm,
            guard_name: "data-loss".into(),
            phase: Phase::ToolsList,
            action: "replace_tools".into(),
            message: "1 tools are left out".into(),
            applied: true,
            tools: vec!["read".into()],
            jsonrpc_id: Some(json!(5)),
            latency_ns: 7,
        }),
        about(GuardModified {
            guard: GuardKind::Http,
            guard_name: "policy".into(),
            phase: Phase::ToolResult,
            action: "redact_fields".into(),
            message: "m".into(),
            applied: false,
            tools: Vec::new(),
            jsonrpc_id: None,
            latency_ns: 0,
        }),
        Event::agent(
            Timestamp(8),
            GuardLoaded {
                guard: GuardKind::Wasm,
                guard_name: "data-loss".into(),
                module_hash: Some("ab".into()),
                contract: "0.1.0".into(),
            }
            .into(),
        ),
        Event::agent(
            Timestamp(8),
            GuardFailing {
                guard: GuardKind::Http,
                guard_name: "policy".into(),
                phase: Phase::ToolInvoke,
                reason: "r".into(),
                denies: true,
            }
            .into(),
        ),
        Event::agent(
            Timestamp(9),
            GuardRecovered { guard: GuardKind::Http, guard_name: "policy".into(), failures: 3 }.into(),
        ),
        Event::agent(Timestamp(8), SinkFailing { sink: "stdout".into(), reason: "r".into() }.into()),
        Event::agent(Timestamp(9), SinkRecovered { sink: "0:file".into(), events_dropped: 3 }.into()),
        about(StoreRecovered { path: "/x.db".into(), events_lost: 3, first_missing: Some(5) }),
        about(StoreRecovered::default()),
        about(AuditHead { events: 7 }),
        about(ClockStep { step_ms: -86_400_000, total_ms: -86_000_000 }),
        about(StoreReadersCut {
            path: "/x.db".into(),
            reason: CutReason::Locked,
            log_bytes: 4_096,
            pid: Some(7),
            uid: Some(1_000),
            closed_seconds: 600,
        }),
        about(StoreReadersCut { reason: CutReason::LogTooLarge, ..StoreReadersCut::default() }),
        about(StoreTrimmed { uid: Some(1_000), events: 9, bytes: 900, left_bytes: 100 }),
        about(StoreTrimmed::default()),
        about(StoreReplaced {
            path: "/x.db".into(),
            set_aside: "/x.db.damaged-1".into(),
            reason: "r".into(),
            pins_restored: Some(2),
        }),
        about(StoreReplaced::default()),
        Event::agent(Timestamp(7), NetworkUnblocked { uid: None, user: None, ..unblocked }.into()),
        about(egress.clone()),
        about(ServerEgress {
            connecting: bare_connecting,
            remote_server_id: None,
            first_seen: false,
            ..egress
        }),
        about(found),
        about(instructions),
        about(changed),
        about(redefined),
        about(interface),
        about(silent_interface),
        about(removed),
        about(ListChanged { list: ListKind::Tools }),
        about(cross),
        about(blocked),
        about(warned),
        about(gate),
        about(requested.clone()),
        about(ApprovalRequested { whose: Whose::default(), shadows: None, detections: vec![], ..requested }),
        about(granted),
        about(limited),
        about(ended),
        about(approved),
        about(reset),
        about(denied),
        about(given_up),
        about(late.clone()),
        about(RequestTimedOut { tool_name: None, tool_id: None, ..late }),
        about(crowded),
        Event::agent(Timestamp(1), started_agent.into()),
        Event::agent(Timestamp(2), loss.into()),
        Event::agent(Timestamp(3), reloaded.into()),
        Event::agent(Timestamp(3), refused_config.into()),
        Event::agent(Timestamp(3), stopped.into()),
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
        about(ProtocolViolation {
            era: Era::Stateless,
            violation: Violation::RevisionChanged,
            severity: Severity::Medium,
            direction: Direction::ClientToServer,
            method: Some("tools/list".into()),
            jsonrpc_id: Some(json!(1)),
            expected: Some("2026-07-28".into()),
            found: Some("2027-01-01".into()),
        }),
        about(ProtocolViolation {
            era: Era::Handshake,
            violation: Violation::Batch,
            severity: Severity::Medium,
            direction: Direction::ServerToClient,
            method: None,
            jsonrpc_id: None,
            expected: None,
            found: None,
        }),
        about(ServerInitialized {
            era: Some(Era::Stateless),
            server_name: Some("s".into()),
            supported_versions: vec!["2026-07-28".into()],
            capabilities: json!({}),
            ..Default::default()
        }),
        about(tool.clone()),
        about(ToolSeen {
            ui_resource: None,
            ui_grants: vec![],
            description: None,
            definition: None,
            detections: vec![],
            max_severity: None,
            ..tool
        }),
        about(called.clone()),
        about(ToolCalled { meta: None, ..called }),
        about(result.clone()),
        about(ToolResult {
            status: CallStatus::Ok,
            error_code: None,
            error_name: None,
            error_message: None,
            rounds: 0,
            decided: Decided::default(),
            ..result
        }),
        about(message),
        about(exited),
        about(ServerExited::default()),
        about(gap.clone()),
        about(CaptureGap { offset: None, pid: None, ..gap }),
    ]
}
