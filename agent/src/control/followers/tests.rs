use std::future::poll_fn;

use mcpwarden_policy::{Timestamp, event::StoreFailing};
use serde_json::Value;

use super::*;

/// An event of no severity, and a line for it of so many bytes.
fn event() -> Event {
    Event::agent(Timestamp(1), StoreFailing::default().into())
}

fn text(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes]
}

/// The next lines that a follower gets; `None`: the end.
async fn next(following: &mut Following) -> Option<Vec<Vec<u8>>> {
    let frame = poll_fn(|context| Pin::new(&mut *following).poll_frame(context)).await?.unwrap();
    let chunk = frame.into_data().unwrap();
    let lines = chunk.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
    Some(lines.map(<[u8]>::to_vec).collect())
}

/// Text behind the `?`, and what it asks for, or what is wrong with it.
#[test]
fn follow_query_is_parsed_or_refused() {
    let of = |types: &[&str], sessions: &[&str], servers: &[&str], severity| {
        let list = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        Ok((list(types), list(sessions), list(servers), severity))
    };
    let found = |text| {
        let Query { types, sessions, servers, severity, .. } = query(text)?;
        Ok((types, sessions, servers, severity))
    };
    let cases = [
        (None, of(&[], &[], &[], None)),
        (Some(""), of(&[], &[], &[], None)),
        (Some("severity=high"), of(&[], &[], &[], Some(Severity::High))),
        (Some("type=agent_loss&type=mcp_detection"), of(&["agent_loss", "mcp_detection"], &[], &[], None)),
        (Some("session=a%2Fb&server=x+y&server=%C3%A9"), of(&[], &["a/b"], &["x y", "é"], None)),
        (Some("severity=low&severity=high"), Err("severity: it stands there twice")),
        (Some("severity=High"), Err("severity: unknown variant `High`")),
        (Some("severity"), Err("severity: unknown variant ``")),
        (Some("types=agent_loss"), Err("`types` cannot be asked for: there are type, session, server")),
        (Some("type=mcp_*"), Err("there is no type \"mcp_*\" of events; expected one of ")),
        (Some("%E2%80%AE=1"), Err("`\\u{202e}` cannot be asked for")),
    ];
    for (text, expected) in cases {
        match (found(text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text:?}"),
            (Err(Refusal { code, message }), Err(part)) => {
                assert!(code == Code::Unusable && message.contains(part), "{text:?}: {message}");
            }
            (found, expected) => panic!("{text:?}: {found:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn follower_receives_only_matching_live_events() {
    let followers = Followers::new();
    followers.offer(&event(), b"before");
    let (mut all, _seat) = followers.follow(Query::default(), Rights::Read).unwrap();
    let (mut losses, seat) = followers.follow(query(Some("type=agent_loss")).unwrap(), Rights::Read).unwrap();
    followers.offer(&event(), b"1");
    followers.offer(&Event::agent(Timestamp(1), AgentLoss::default().into()), b"2");
    assert_eq!(next(&mut all).await.unwrap(), [b"1", b"2"]);
    assert_eq!(next(&mut losses).await.unwrap(), [b"2"]);
    assert_eq!(followers.counters(), FollowerCounters { now: 2, refused: 0, sent: 3, lost: 0 });
    drop(seat);
    followers.offer(&event(), b"3");
    followers.end();
    assert_eq!(next(&mut all).await.unwrap(), [b"3"]);
    assert_eq!(next(&mut all).await, None);
}

/// Nobody waits for who does not read, and the number of what is missing is exact, wherever it is.
#[tokio::test]
async fn slow_follower_receives_the_exact_loss_count() {
    const LINE_BYTES: usize = 1 << 10;
    let followers = Followers::new();
    let (mut slow, _seat) = followers.follow(Query::default(), Rights::Read).unwrap();
    let room = QUEUE_BYTES / (LINE_BYTES + OVERHEAD_BYTES);
    let mut total = 0;
    for missing in [1, 1_000] {
        (0..room + missing).for_each(|_| followers.offer(&event(), &text(LINE_BYTES)));
        // What there is room for again does not come in between.
        let mut lines = next(&mut slow).await.unwrap();
        followers.offer(&event(), b"small");
        while lines.len() < room + 1 {
            lines.extend(next(&mut slow).await.unwrap());
        }
        let lost = missing as u64 + 1;
        total += lost;
        let last: Value = serde_json::from_slice(&lines.pop().unwrap()).unwrap();
        assert_eq!(lines, vec![text(LINE_BYTES); room]);
        let received = [&last["type"], &last["counter"], &last["count"], &last["total"], &last["seq"]];
        assert_eq!(
            received.map(Value::to_string).join(" "),
            format!("\"agent_loss\" \"{LOST}\" {lost} {total} null")
        );
        // Then it goes on, and is said once.
        followers.offer(&event(), b"after");
        assert_eq!(next(&mut slow).await.unwrap(), [b"after"]);
    }
    let sent = 2 * (room as u64 + 1);
    assert_eq!(followers.counters(), FollowerCounters { now: 1, refused: 0, sent, lost: total });
}

#[tokio::test]
async fn oversized_event_is_delivered_when_alone() {
    let followers = Followers::new();
    let (mut one, _seat) = followers.follow(Query::default(), Rights::Read).unwrap();
    for _ in 0..2 {
        followers.offer(&event(), &text(QUEUE_BYTES));
        assert_eq!(next(&mut one).await.unwrap(), [text(QUEUE_BYTES)]);
    }
    assert_eq!(followers.counters().lost, 0);
}
