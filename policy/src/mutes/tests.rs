//! What mutes apply to, and for how long.

use super::*;
use crate::terms::{Category, Form, Severity};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * SECOND)
}

fn key(server: &str, uid: u32, program: &str) -> PinKey {
    PinKey { uid: Some(uid), server: ServerId(server.into()), program: program.to_owned() }
}

fn detection(rule: &str) -> Detection {
    Detection {
        pattern: rule.to_owned(),
        category: Category::HiddenInstructions,
        severity: Severity::High,
        field: "/description".to_owned(),
        matches: Vec::new(),
        score: 100,
        form: Form::Raw,
        muted_by: None,
    }
}

/// A mute of an operator for ten seconds from 1,000 on, which `change` changes.
fn mute(change: impl FnOnce(&mut Mute)) -> Mute {
    let mut mute = Mute {
        mute_id: String::new(),
        source: MuteSource::Operator,
        rule: Some("learned_scorer".into()),
        server: None,
        whose: Whose::default(),
        tool: None,
        tool_hash: None,
        until: Some(at(1_010)),
        reason: "reviewed".into(),
        by: Some("ann".into()),
    };
    change(&mut mute);
    named(mute)
}

fn of(mutes: impl IntoIterator<Item = Mute>) -> Mutes {
    let mut all = Mutes::default();
    mutes.into_iter().for_each(|mute| all.add(mute, at(1_000)).unwrap());
    all
}

fn is_muted(mutes: &Mutes, key: &PinKey, (tool, hash): (Option<&str>, Option<&str>), rule: &str) -> bool {
    let mut found = [detection(rule)];
    mutes.mark(&MuteSubject { key, tool, hash }, &mut found);
    found[0].is_muted()
}

/// What a mute is changed by, and what is muted: server, user, program, tool, its hash, and the rule.
#[test]
fn mutes_apply_within_their_scope() {
    type Change = fn(&mut Mute);
    type Case<'a> = (&'a str, u32, &'a str, Option<&'a str>, Option<&'a str>, &'a str, bool);
    const ALL: Case<'static> =
        ("files", 1000, "/bin/files", Some("read"), Some("h1"), "learned_scorer", true);
    let cases: [(&str, Change, &[Case<'_>]); 9] = [
        (
            "a rule everywhere",
            |_| {},
            &[
                ALL,
                ("mail", 0, "", None, None, "learned_scorer", true),
                ("files", 1000, "/bin/files", Some("read"), Some("h1"), "pseudo-tag", false),
                ("files", 1000, "/bin/files", Some("read"), Some("h1"), "learned_scorer2", false),
            ],
        ),
        (
            "a glob of rules",
            |mute| mute.rule = Some("shadow_*".into()),
            &[
                ("files", 1000, "/bin/files", Some("read"), None, "shadow_tool", true),
                ("files", 1000, "/bin/files", Some("read"), None, "similar_tool", false),
            ],
        ),
        (
            "a server",
            |mute| mute.server = Some("files".into()),
            &[ALL, ("files2", 1000, "/bin/files", Some("read"), Some("h1"), "learned_scorer", false)],
        ),
        (
            "a server of one owner",
            |mute| {
                mute.server = Some("files".into());
                mute.whose = Whose { uid: Some(1000), program: Some("/bin/files".into()) };
            },
            &[
                ALL,
                ("files", 1000, "/bin/files", None, None, "learned_scorer", true),
                ("files", 1001, "/bin/files", Some("read"), Some("h1"), "learned_scorer", false),
                ("files", 1000, "/tmp/files", Some("read"), Some("h1"), "learned_scorer", false),
            ],
        ),
        (
            "an id is no glob",
            |mute| mute.server = Some("f*".into()),
            &[
                ("f*", 1000, "/bin/files", None, None, "learned_scorer", true),
                ("files", 1000, "/bin/files", None, None, "learned_scorer", false),
            ],
        ),
        (
            "a tool",
            |mute| mute.tool = Some("read".into()),
            &[
                ALL,
                ("mail", 0, "", Some("read"), None, "learned_scorer", true),
                ("files", 1000, "/bin/files", Some("write"), Some("h1"), "learned_scorer", false),
                ("files", 1000, "/bin/files", None, None, "learned_scorer", false),
            ],
        ),
        (
            "one definition of a tool",
            |mute| {
                mute.tool = Some("read".into());
                mute.tool_hash = Some("h1".into());
            },
            &[
                ALL,
                ("files", 1000, "/bin/files", Some("read"), Some("h2"), "learned_scorer", false),
                ("files", 1000, "/bin/files", Some("read"), None, "learned_scorer", false),
            ],
        ),
        (
            "every rule of a tool",
            |mute| {
                mute.rule = None;
                mute.tool = Some("read".into());
            },
            &[ALL, ("files", 1000, "/bin/files", Some("read"), Some("h1"), "pseudo-tag", true)],
        ),
        (
            "globs of a configuration",
            |mute| {
                mute.source = MuteSource::Configuration;
                mute.server = Some("f*".into());
                mute.tool = Some("re?d".into());
            },
            &[
                ALL,
                ("mail", 1000, "/bin/files", Some("read"), Some("h1"), "learned_scorer", false),
                ("files", 1000, "/bin/files", Some("write"), Some("h1"), "learned_scorer", false),
            ],
        ),
    ];
    for (name, change, found) in cases {
        let mutes = of([mute(change)]);
        for (server, uid, program, tool, hash, rule, expected) in found {
            let key = key(server, *uid, program);
            assert_eq!(
                is_muted(&mutes, &key, (*tool, *hash), rule),
                *expected,
                "{name}: {server} {uid} {program} {tool:?} {hash:?} {rule}"
            );
        }
    }
}

#[test]
fn unusable_mutes_are_refused() {
    type Change = fn(&mut Mute);
    let cases: [(&str, Change, Option<&str>); 9] = [
        ("good", |_| {}, None),
        ("every rule everywhere", |mute| mute.rule = Some("*".into()), Some("every rule of every server")),
        ("no rule", |mute| mute.rule = None, Some("every rule of every server")),
        ("nearly every rule", |mute| mute.rule = Some("*[a-z]*".into()), Some("every rule of every server")),
        (
            "every rule of one server",
            |mute| {
                mute.rule = None;
                mute.server = Some("files".into());
            },
            None,
        ),
        ("no glob", |mute| mute.rule = Some("[".into()), Some("is no glob")),
        ("no reason", |mute| mute.reason = " ".into(), Some("the reason has 1 bytes")),
        ("a long reason", |mute| mute.reason = "x".repeat(MAX_REASON_BYTES + 1), Some("the reason has")),
        ("over", |mute| mute.until = Some(at(999)), Some("which is over")),
    ];
    for (name, change, expected) in cases {
        let mut mutes = Mutes::default();
        let refused = mutes.add(mute(change), at(1_000)).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), expected.is_some(), "{name}: {refused:?}");
        let (refused, expected) = (refused.unwrap_or_default(), expected.unwrap_or_default());
        assert!(refused.contains(expected), "{name}: {refused}");
    }
}

#[test]
fn mutes_end_once_at_their_time() {
    let mut mutes = of([mute(|_| {}), mute(|mute| mute.until = Some(at(1_020)))]);
    // The second has taken the place of the first: it is for the same.
    assert_eq!(mutes.iter().count(), 1);
    mutes.add(mute(|mute| mute.rule = Some("other".into())), at(1_000)).unwrap();
    let key = key("files", 0, "");
    let muted = |mutes: &Mutes| {
        [is_muted(mutes, &key, (None, None), "learned_scorer"), is_muted(mutes, &key, (None, None), "other")]
    };
    for (now, ended, in_force, next) in [
        (1_000, 0, [true, true], Some(1_010)),
        (1_009, 0, [true, true], Some(1_010)),
        (1_010, 1, [true, false], Some(1_020)),
        // The clock goes back, and nothing comes back.
        (500, 0, [true, false], Some(1_020)),
        (1_020, 1, [false, false], None),
        (1_020, 0, [false, false], None),
    ] {
        assert_eq!(mutes.expire(at(now)).len(), ended, "{now}");
        assert_eq!(muted(&mutes), in_force, "{now}");
        assert_eq!(mutes.next_end(), next.map(at), "{now}");
    }
}

#[test]
fn configured_entries_that_are_over_end_silently_at_start_only() {
    let configured = |until: u64| {
        mute(|mute| {
            mute.source = MuteSource::Configuration;
            mute.until = Some(at(until));
        })
    };
    let mut mutes = Mutes::default();
    assert_eq!(mutes.configure(&[configured(900), configured(1_010)]), Ok(true));
    assert_eq!(mutes.expire(at(1_000)), []);
    assert_eq!(mutes.iter().count(), 1);
    assert_eq!(mutes.expire(at(1_010)).len(), 1);
    // A clock that went back does not bring an entry back that is read again.
    assert_eq!(mutes.expire(at(100)), []);
    assert_eq!(mutes.configure(&[configured(900), configured(1_010)]), Ok(false));
    assert!(mutes.is_empty());
    assert_eq!(mutes.configure(&[configured(1_020)]), Ok(true));
    assert_eq!(mutes.configure(&[configured(1_020)]), Ok(false));
}

#[test]
fn ten_thousand_mutes_are_bounded() {
    let mut mutes = Mutes::default();
    let mut refused = 0;
    for number in 0..10_000 {
        let new = mute(|mute| mute.rule = Some(format!("rule-{number}")));
        match mutes.add(new, at(1_000)) {
            Ok(()) => {}
            Err(MuteError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((mutes.iter().count(), refused), (MAX_BY_HAND, 10_000 - MAX_BY_HAND));
    // One for the same still takes the place of the one before, and where one ends there is room.
    mutes
        .add(
            mute(|mute| {
                mute.rule = Some("rule-7".into());
                mute.reason = "again".into();
            }),
            at(1_000),
        )
        .unwrap();
    let id = mutes.iter().next().unwrap().mute_id.clone();
    mutes.remove(&id);
    mutes.add(mute(|mute| mute.rule = Some("one-more".into())), at(1_000)).unwrap();
    assert_eq!(mutes.iter().count(), MAX_BY_HAND);
}

#[test]
fn mutes_are_found_by_id() {
    let configured = mute(|mute| mute.source = MuteSource::Configuration);
    let by_hand = mute(|_| {});
    assert_ne!(configured.mute_id, by_hand.mute_id);
    let mut mutes = of([by_hand.clone()]);
    mutes.configure(std::slice::from_ref(&configured)).unwrap();
    assert_eq!(mutes.find(&by_hand.mute_id), Ok(&by_hand));
    assert_eq!(mutes.find(&configured.mute_id), Err(MuteError::Configured(configured.mute_id.clone())));
    assert_eq!(mutes.find("0"), Err(MuteError::Unknown("0".into())));
    // The first that applies is the one that detections name: that of the configuration.
    let mut found = [detection("learned_scorer")];
    mutes.mark(&MuteSubject { key: &key("a", 0, ""), tool: None, hash: None }, &mut found);
    assert_eq!(mutes.of(&found[0]), Some(MutedBy::from(&configured)));
    mutes.configure(&[]).unwrap();
    assert_eq!(mutes.of(&found[0]), None);
}
