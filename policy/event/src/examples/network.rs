//! Connections and blocks; servers at addresses.

use super::about;
use crate::*;

pub(super) fn examples() -> Vec<Event> {
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
        about(ServerReachable { url: "http://x/".into() }),
        about(ServerUnreachable { url: "http://x/".into(), reason: "r".into(), status: Some(401) }),
        about(ServerUnreachable { url: "http://x/".into(), reason: "r".into(), status: None }),
        about(TlsMismatch {
            url: "https://x/".into(),
            severity: Severity::Critical,
            expected: "sha256:0".into(),
            found: "sha256:1".into(),
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
        Event::agent(Timestamp(7), NetworkUnblocked { uid: None, user: None, ..unblocked }.into()),
        about(egress.clone()),
        about(ServerEgress {
            connecting: bare_connecting,
            remote_server_id: None,
            first_seen: false,
            ..egress
        }),
    ]
}
