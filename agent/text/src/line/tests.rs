//! Lines of single events.

use super::*;

/// A time, whether it has its date, and how the line begins.
#[test]
fn lines_begin_with_a_time_or_a_date() {
    for (nanoseconds, dated, expected) in [
        (0, false, "00:00:00.000 audit"),
        (0, true, "1970-01-01 00:00:00.000 audit"),
        (1_767_695_400_123_456_789, false, "10:30:00.123 audit"),
        (1_767_695_400_123_456_789, true, "2026-01-06 10:30:00.123 audit"),
    ] {
        let body = mcpwarden_policy::event::AuditHead { events: 1 };
        let event = Event::agent(mcpwarden_policy::Timestamp(nanoseconds), body.into());
        let mut out = Vec::new();
        write(&event, Shown { colour: false, dated }, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(expected), "{text}");
    }
}

/// The decision on a call, and what a person reads of it.
#[test]
fn decisions_are_written_for_people() {
    let denied = Decided {
        action: Action::Block,
        guard: Some(mcpwarden_policy::guard::GuardKind::RugPull),
        reason: Some("it changed".into()),
        ..Decided::default()
    };
    // Who warned first says nothing but what stands among the warnings.
    let warned = Decided {
        action: Action::Alert,
        guard: denied.guard,
        reason: Some("one".into()),
        warnings: vec!["one".into(), "t\u{1b}wo".into()],
        ..Decided::default()
    };
    for (what, expected) in [
        (Decided::default(), ""),
        (denied.clone(), "  not enforced: rug_pull: it changed"),
        (Decided { enforced: true, ..denied.clone() }, "  blocked: rug_pull: it changed"),
        (warned.clone(), "  warned: one  warned: t\\u{1b}wo"),
        (
            Decided { warnings: warned.warnings, ..denied },
            "  not enforced: rug_pull: it changed  warned: one  warned: t\\u{1b}wo",
        ),
    ] {
        let mut line = Line { colour: false, text: String::new() };
        decided(&what, &mut line);
        assert_eq!(line.text, expected, "{what:?}");
    }
}
