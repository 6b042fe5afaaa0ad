use mcpwarden_policy::Input;

use super::*;
use crate::{bounds::CaptureCounters, output::Output, socket::Sockets, tests::Nothing};

/// What is done with a stream: the kernel's positions (offset, far), and what is known beside them.
enum Step {
    Data(u64, &'static [u8]),
    Look(u64, u64),
    /// So many bytes wait to be read.
    Judge(u64, u64, u64),
    Settle(u64, u64),
    /// The same of a connection without messages.
    SettleSilent(u64, u64),
}

fn positions(offset: u64, far: u64) -> abi::Stream {
    abi::Stream { offset, far, refused: 0 }
}

/// The gaps that a stream reports.
fn gaps(direction: Direction, steps: &[Step]) -> Vec<(u64, GapCause)> {
    let mut stream = Stream::new(ConnectionId(1), direction, Limits::default());
    let (mut counters, mut gaps, now) = (CaptureCounters::default(), Vec::new(), Timestamp(0));
    let mut sink = |output: Output<'_>| {
        if let Output::Input(Input::Gap { bytes, cause, .. }) = output {
            gaps.push((bytes, cause));
        }
    };
    let mut sockets = Sockets::new(0, 0, 0, &Nothing);
    let out = &mut Outlet { sockets: &mut sockets, counters: &mut counters, sink: &mut sink };
    for step in steps {
        match step {
            Step::Data(offset, bytes) => {
                stream.data(Position { offset: *offset, ..Position::default() }, bytes, now, out);
            }
            Step::Look(offset, far) => stream.look(&positions(*offset, *far), now, out),
            Step::Judge(offset, far, waiting) => {
                stream.judge(&positions(*offset, *far), *waiting, now, out);
            }
            Step::Settle(offset, far) => stream.settle(&positions(*offset, *far), true, now, out),
            Step::SettleSilent(offset, far) => {
                stream.settle(&positions(*offset, *far), false, now, out);
            }
        }
    }
    let total: u64 = gaps.iter().map(|(bytes, _)| bytes).sum();
    assert_eq!(counters.missing_bytes, total);
    gaps
}

#[test]
fn missing_stream_bytes_are_reported_as_gaps() {
    use Direction::{ClientToServer, ServerToClient};
    use GapCause::{RingFull, Unread, Unseen};
    use Step::{Data, Judge, Look, Settle, SettleSilent};
    type Case = (&'static str, Direction, &'static [Step], &'static [(u64, GapCause)]);
    let cases: [Case; 16] = [
        ("all there", ClientToServer, &[Data(0, b"ab"), Look(2, 2), Look(2, 2), Settle(2, 2)], &[]),
        ("not read yet", ClientToServer, &[Data(0, b"ab"), Look(2, 0), Look(2, 0), Judge(2, 0, 0)], &[]),
        ("lost, seen once", ClientToServer, &[Look(5, 5)], &[]),
        ("lost, seen twice", ClientToServer, &[Look(5, 5), Look(9, 9)], &[(5, RingFull)]),
        ("lost, at the end", ClientToServer, &[Look(5, 5), Settle(9, 9)], &[(9, RingFull)]),
        ("taken and not given", ClientToServer, &[Look(0, 7), Look(0, 7), Judge(0, 7, 0)], &[(7, Unseen)]),
        ("looked at once", ClientToServer, &[Look(0, 7), Judge(0, 7, 0)], &[]),
        ("moved between looks", ClientToServer, &[Look(0, 5), Look(0, 7), Judge(0, 7, 0)], &[]),
        ("moved since", ClientToServer, &[Look(0, 7), Look(0, 7), Judge(7, 7, 0)], &[]),
        (
            "reported once",
            ClientToServer,
            &[Look(0, 7), Look(0, 7), Judge(0, 7, 0), Look(0, 7), Judge(0, 7, 0), Settle(0, 9)],
            &[(7, Unseen), (2, Unseen)],
        ),
        ("waits to be read", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 7)], &[]),
        ("may wait to be read", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 512)], &[]),
        ("some waits", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 3)], &[(4, Unseen)]),
        (
            "never read",
            ServerToClient,
            &[Look(0, 7), Look(0, 7), Judge(0, 7, 3), Settle(0, 7)],
            &[(4, Unseen), (3, Unread)],
        ),
        ("never read, and no messages", ServerToClient, &[SettleSilent(0, 7)], &[]),
        ("taken and not given, and no messages", ClientToServer, &[SettleSilent(0, 7)], &[(7, Unseen)]),
    ];
    for (name, direction, steps, expected) in cases {
        assert_eq!(gaps(direction, steps), expected, "{name}");
    }
}

/// What the gate did before bytes came, and what the policy core gets of them.
#[test]
fn gated_frame_is_reported_as_the_client_wrote_it() {
    enum Gate {
        Neutralize(u64, u8),
        Rewrite(u64, &'static str, &'static str),
        Refuse(u64, &'static [u8]),
        Data(u64, &'static [u8]),
    }
    use Gate::{Data, Neutralize, Refuse, Rewrite};
    let cases: [(&str, &[Gate], &[&str]); 20] = [
        ("nothing", &[Data(0, b"{\"a\":1}\n")], &["passed {\"a\":1}"]),
        ("one byte", &[Neutralize(4, b'x'), Data(0, b"{\"ab\x7f\"}\n")], &["neutralized {\"abx\"}"]),
        (
            "another byte",
            &[Neutralize(3, b'x'), Data(0, b"{\"ab\x7f\"}\n{}\n")],
            &["passed {\"ab\x7f\"}", "passed {}"],
        ),
        (
            "and no other",
            &[Neutralize(3, b'x'), Data(0, b"{\"a\x7f\"}\n{}\n")],
            &["neutralized {\"ax\"}", "passed {}"],
        ),
        (
            "twice the same, since there was no room",
            &[Neutralize(3, b'x'), Neutralize(3, b'x'), Data(0, b"{\"a\x7f\"}\n"), Data(7, b"{\"\x7f\"}\n")],
            &["neutralized {\"ax\"}", "passed {\"\x7f\"}"],
        ),
        (
            "given up, and another in its place",
            &[Neutralize(3, b'x'), Data(0, b"{\"abc\"}\n"), Data(8, b"{\"\x7f\"}\n")],
            &["passed {\"abc\"}", "passed {\"\x7f\"}"],
        ),
        (
            "of two messages of one write",
            &[Neutralize(3, b'x'), Neutralize(9, b'y'), Data(0, b"{\"a\x7f\"}\n{\"\x7f\"}\n")],
            &["neutralized {\"ax\"}", "neutralized {\"y\"}"],
        ),
        (
            "beside one of the client's own",
            &[Neutralize(5, b'x'), Data(0, b"{\"a\x7f \x7f\"}\n{\"\x7f\"}\n")],
            &["neutralized {\"a\x7f x\"}", "passed {\"\x7f\"}"],
        ),
        (
            "one that never came, and then what does",
            &[Neutralize(30, b'z'), Neutralize(3, b'x'), Data(0, b"{\"a\x7f\"}\n{\"\x7f\"}\n")],
            &["neutralized {\"ax\"}", "passed {\"\x7f\"}"],
        ),
        (
            "in the second piece",
            &[Data(0, b"{\"a"), Neutralize(3, b'x'), Data(3, b"\x7f\"}\n")],
            &["neutralized {\"ax\"}"],
        ),
        (
            "refused, whole or the end of what is there",
            &[Refuse(0, b"{}\n[1]"), Data(0, b"{\"a"), Refuse(3, b"\"}"), Data(3, b"b\"}\n")],
            &["refused {}", "refused [1]", "refused {\"a\"}", "passed {\"ab\"}"],
        ),
        (
            "refused, since the second of two could not be overwritten",
            &[Neutralize(3, b'x'), Refuse(0, b"{\"a\x7f\"}\n{\"y\"}\n"), Data(0, b"{\"\x7f\x7f\"}\n")],
            &["refused {\"ax\"}", "refused {\"y\"}", "passed {\"\x7f\x7f\"}"],
        ),
        (
            "a name",
            &[Rewrite(2, "delete", "no"), Data(0, b"{\"no    \"}\n{}\n")],
            &["neutralized {\"delete\"}", "passed {}"],
        ),
        (
            "a name and its arguments",
            &[
                Rewrite(2, "add\",\"arguments\":{\"a\":1}", "no"),
                Data(0, b"{\"no\",\"arguments\":{}      }\n{}\n"),
            ],
            &["neutralized {\"add\",\"arguments\":{\"a\":1}}", "passed {}"],
        ),
        (
            "a name, in three pieces",
            &[Rewrite(2, "delete", "no"), Data(0, b"{\"n"), Data(3, b"o "), Data(5, b"   \"}\n")],
            &["neutralized {\"delete\"}"],
        ),
        (
            "another in its place, after one piece",
            &[Rewrite(2, "delete", "no"), Data(0, b"{\"no"), Data(4, b"de  \"}\n")],
            &["neutralized {\"dede  \"}"],
        ),
        (
            "another in its place",
            &[Rewrite(2, "delete", "no"), Data(0, b"{\"create\"}\n")],
            &["passed {\"create\"}"],
        ),
        (
            "a name, written again as it was left",
            &[Rewrite(2, "delete", "no"), Rewrite(2, "no    ", "not so"), Data(0, b"{\"not so\"}\n{}\n")],
            &["neutralized {\"delete\"}", "passed {}"],
        ),
        (
            "two names",
            &[
                Rewrite(2, "delete", "no"),
                Rewrite(13, "create", "no"),
                Data(0, b"{\"no    \"}\n{\"no    \"}\n"),
            ],
            &["neutralized {\"delete\"}", "neutralized {\"create\"}"],
        ),
        (
            "a name, and then the write is refused",
            &[Rewrite(2, "delete", "no"), Refuse(0, b"{\"no    \"}\n"), Data(0, b"{\"no    \"}\n")],
            &["refused {\"delete\"}", "passed {\"no    \"}"],
        ),
    ];
    for (name, steps, expected) in cases {
        let mut stream = Stream::new(ConnectionId(1), Direction::ClientToServer, Limits::default());
        let (mut counters, mut reported, now) = (CaptureCounters::default(), Vec::new(), Timestamp(0));
        let mut sink = |output: Output<'_>| {
            let Output::Input(input) = output else { panic!("{name}: {output:?}") };
            let (word, bytes) = match input {
                Input::Frame { bytes, .. } => ("passed", bytes),
                Input::Stopped { bytes, is_refused: false, .. } => ("neutralized", bytes),
                Input::Stopped { bytes, is_refused: true, .. } => ("refused", bytes),
                other => panic!("{name}: {other:?}"),
            };
            reported.push(format!("{word} {}", String::from_utf8_lossy(bytes)));
        };
        let mut sockets = Sockets::new(0, 0, 0, &Nothing);
        let out = &mut Outlet { sockets: &mut sockets, counters: &mut counters, sink: &mut sink };
        for step in steps {
            match step {
                Neutralize(offset, original) => stream.overwrite(*offset, Overwritten::byte(*original)),
                Rewrite(offset, original, text) => {
                    stream.overwrite(*offset, Overwritten::rewritten(original.as_bytes(), text.as_bytes()));
                }
                Refuse(offset, bytes) => stream.refuse(*offset, bytes.to_vec(), now, out),
                Data(offset, bytes) => {
                    stream.data(Position { offset: *offset, ..Position::default() }, bytes, now, out);
                }
            }
        }
        assert_eq!(reported, expected, "{name}");
    }
}
