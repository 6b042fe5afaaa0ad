//! Entries of `inspection.muted`.

use super::*;

#[test]
fn entries_that_mute_too_much_are_refused_or_warned_about() {
    table(&[
        (
            "inspection: { muted: [{ rule: learned_scorer, server: 'a*', tool: b, until: 2026-01-31, reason: r }] }",
            &[],
        ),
        ("inspection: { muted: [{ rule: 'shadow_*', until: '2026-01-31T10:00:00+01:00', reason: r }] }", &[]),
        (
            "inspection: { muted: [{ reason: r }] }",
            &[("1:23 error inspection.muted[0].rule: ", "it needs `rule`, `server` or `tool`")],
        ),
        (
            "inspection: { muted: [{ rule: '*', reason: r }, { server: '**', tool: '?*', reason: r }] }",
            &[
                ("1:31 error inspection.muted[0].rule: ", "it mutes every rule of every server"),
                ("1:49 error inspection.muted[1].rule: ", "it mutes every rule of every server"),
            ],
        ),
        (
            "inspection: { muted: [{ server: a, reason: r }, { rule: '*', tool: b, reason: r }] }",
            &[
                ("1:23 warning inspection.muted[0]: ", "it mutes every rule: "),
                ("1:49 warning inspection.muted[1]: ", "it mutes every rule: "),
            ],
        ),
        (
            "inspection: { enabled: false, muted: [{ rule: a, reason: r }] }",
            &[("1:39 warning inspection.muted[0]: ", "while `inspection.enabled` is false")],
        ),
        (
            "inspection: { muted: [{ rule: a }, { rule: a, reason: '' }, { rule: a, reason: r, until: soon }, { rule: 'a[', reason: r }] }",
            &[
                ("1:23 error inspection.muted[0]: ", "`reason` is missing"),
                ("1:55 error inspection.muted[1].reason: ", ""),
                ("1:90 error inspection.muted[2].until: ", "a date such as 2026-01-31"),
                ("1:106 error inspection.muted[3].rule: ", "is not a glob"),
            ],
        ),
    ]);
    let entry = "{ rule: a, reason: r },";
    let of = |count: usize| format!("inspection: {{ muted: [{}] }}", entry.repeat(count));
    table(&[(&of(256), &[]), (&of(257), &[("1:22 error inspection.muted: ", "256")])]);
}
