//! The store of events.

use super::about;
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    vec![
        Event::agent(Timestamp(8), StoreFailing { path: "/x.db".into(), reason: "r".into() }.into()),
        about(StoreRecovered { path: "/x.db".into(), events_lost: 3, first_missing: Some(5) }),
        about(StoreRecovered::default()),
        about(AuditHead { events: 7 }),
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
    ]
}
