//! The agent itself: started, reloaded, losses, sinks, the clock.

use super::about;
use crate::*;

pub(super) fn examples() -> Vec<Event> {
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
    vec![
        Event::agent(Timestamp(8), SinkFailing { sink: "stdout".into(), reason: "r".into() }.into()),
        Event::agent(Timestamp(9), SinkRecovered { sink: "0:file".into(), events_dropped: 3 }.into()),
        about(ClockStep { step_ms: -86_400_000, total_ms: -86_000_000 }),
        Event::agent(Timestamp(1), started_agent.into()),
        Event::agent(Timestamp(2), loss.into()),
        Event::agent(Timestamp(3), reloaded.into()),
        Event::agent(Timestamp(3), refused_config.into()),
        Event::agent(Timestamp(3), stopped.into()),
    ]
}
