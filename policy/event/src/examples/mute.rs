//! Mutes of detections: begun, over.

use super::about;
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    let by_hand = Mute {
        mute_id: "0123456789ab".into(),
        source: MuteSource::Operator,
        rule: Some("learned_scorer".into()),
        server: Some("server-git".into()),
        whose: Whose { uid: Some(1000), program: Some("/bin/x".into()) },
        tool: Some("read".into()),
        tool_hash: Some("ab".into()),
        until: Some(Timestamp(9)),
        reason: "r".into(),
        by: Some("root".into()),
    };
    let configured = Mute {
        source: MuteSource::Configuration,
        server: None,
        whose: Whose::default(),
        tool: None,
        tool_hash: None,
        until: None,
        by: None,
        ..by_hand.clone()
    };
    let unmuted =
        DetectionUnmuted { ended: MuteEnd::Unmuted, unmuted_by: Some("root".into()), mute: by_hand.clone() };
    let expired = DetectionUnmuted { ended: MuteEnd::Expired, unmuted_by: None, mute: configured.clone() };
    vec![
        about(DetectionMuted { mute: by_hand }),
        about(DetectionMuted { mute: configured }),
        about(unmuted),
        about(expired),
    ]
}
