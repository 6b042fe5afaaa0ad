//! `mcpwarden detections mute`, `unmute`, `muted`: detections that are recorded, and are no alerts.

use anyhow::Result;
use comfy_table::Cell;
use hyper::Method;
use mcpwarden_policy::{EventBody, event::Mute};
use mcpwarden_text::describe_mute;

use crate::{
    cli::{MuteOptions, MutedOptions, UnmuteOptions},
    control::{ChangedMute, MUTES, Mutes, NewMute, OldMute, client::query_agent},
    output::{self, escaped, print_json_line, print_line, seconds, word},
};

/// What stands for what there is not.
const NONE: &str = "-";

/// Mutes detections.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn mute(options: MuteOptions) -> Result<()> {
    let MuteOptions {
        rule,
        server,
        uid,
        program,
        tool,
        any_definition,
        hash,
        period,
        until,
        reason,
        by,
        json,
        agent,
    } = options;
    let (rule, until) = (Some(rule), until.map(|until| until.0));
    let new = NewMute { rule, server, uid, program, tool, any_definition, hash, period, until, reason, by };
    let changed: ChangedMute = query_agent(&agent.socket, Method::POST, MUTES, &new)?;
    print(&changed, json);
    Ok(())
}

/// Has muted detections be alerts again.
///
/// # Errors
/// No agent answers, or it refuses; or there is no such mute.
pub fn unmute(options: UnmuteOptions) -> Result<()> {
    let UnmuteOptions { id, by, json, agent } = options;
    let changed: ChangedMute = query_agent(&agent.socket, Method::DELETE, MUTES, &OldMute { id, by })?;
    print(&changed, json);
    Ok(())
}

/// Prints all mutes.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn list(options: &MutedOptions) -> Result<()> {
    let Mutes { mutes } = query_agent(&options.agent.socket, Method::GET, MUTES, &())?;
    if options.json {
        mutes.iter().for_each(print_json_line);
    } else if mutes.is_empty() {
        print_line("nothing is muted");
    } else {
        print_line(output::list_text(&table(&mutes)));
    }
    Ok(())
}

fn print(changed: &ChangedMute, json: bool) {
    if json {
        print_json_line(&changed.event);
    } else {
        print_line(sentence(&changed.event.body));
    }
}

/// What was done.
fn sentence(body: &EventBody) -> String {
    match body {
        EventBody::DetectionMuted(muted) => {
            let mute = &muted.mute;
            let until = mute.until.map(|until| format!(" until {}", seconds(until))).unwrap_or_default();
            let what = describe_mute(mute);
            format!("muted {what}{until}; `mcpwarden detections unmute {}` ends it", escaped(&mute.mute_id))
        }
        EventBody::DetectionUnmuted(unmuted) => format!("unmuted {}", describe_mute(&unmuted.mute)),
        other => other.kind().to_owned(),
    }
}

fn table(mutes: &[Mute]) -> comfy_table::Table {
    let header = &["ID", "RULE", "SERVER", "TOOL", "DEFINITION", "UNTIL", "BY", "REASON"];
    let mut table = output::list(header);
    for mute in mutes {
        let text = |text: &Option<String>, any: &str| text.as_deref().map_or_else(|| any.to_owned(), escaped);
        let hash = mute.tool_hash.as_deref().map(|hash| escaped(hash.get(..12).unwrap_or(hash)));
        let row = [
            escaped(&mute.mute_id),
            text(&mute.rule, "*"),
            text(&mute.server, "*"),
            text(&mute.tool, NONE),
            hash.unwrap_or_else(|| NONE.to_owned()),
            mute.until.map_or_else(|| NONE.to_owned(), seconds),
            text(&mute.by, &word(&mute.source)),
            escaped(&mute.reason),
        ];
        table.add_row(output::line(row.map(Cell::new)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpwarden_policy::{
        Timestamp,
        event::{DetectionMuted, DetectionUnmuted, MuteEnd, MuteSource, Whose},
    };

    fn by_hand() -> Mute {
        Mute {
            mute_id: "0123456789ab".into(),
            source: MuteSource::Operator,
            rule: Some("learned_\u{1b}[31m".into()),
            server: Some("files".into()),
            whose: Whose::default(),
            tool: Some("read".into()),
            tool_hash: Some("cdefcdefcdefcdef".into()),
            until: Some(Timestamp(1_767_695_700_000_000_000)),
            reason: "a\u{1b}[2Jb".into(),
            by: Some("ann".into()),
        }
    }

    #[test]
    fn mutes_are_shown_escaped() {
        let configured =
            Mute { source: MuteSource::Configuration, until: None, by: None, tool: None, ..by_hand() };
        let text = table(&[by_hand(), configured]).to_string();
        for part in [
            "0123456789ab",
            "learned_\\u{1b}[31m",
            "cdefcdefcdef ",
            "2026-01-06 10:35:00Z",
            "ann",
            "configuration",
            "a\\u{1b}[2Jb",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn changes_of_mutes_are_said_in_words() {
        let muted = EventBody::from(DetectionMuted { mute: by_hand() });
        let unmuted = DetectionUnmuted { ended: MuteEnd::Unmuted, unmuted_by: None, mute: by_hand() };
        for (body, parts) in [
            (muted, ["muted learned_", "of files:read (cdefcdefcdef)", "unmute 0123456789ab"]),
            (unmuted.into(), ["unmuted learned_", "of files:read", "(cdefcdefcdef)"]),
        ] {
            let text = sentence(&body);
            assert!(parts.iter().all(|part| text.contains(part)) && !text.contains('\u{1b}'), "{text}");
        }
    }
}
