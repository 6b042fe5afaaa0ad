use mcpwarden_policy::GapCause;

use super::*;

/// No process has it.
const NOBODY: u32 = u32::MAX >> 1;
/// A process that lives, and who forked it.
const PARENT: u32 = 78;
const GRANDPARENT: u32 = 77;
const USER_BOUND: usize = 1000;
const TOTAL_BOUND: usize = 1500;

/// What the kernel half sends.
#[derive(Clone, Copy)]
enum Sent {
    /// The connection's program started, of a user.
    Exec(u64, u32),
    /// A process of a user came by the descriptors without an exec.
    Handed(u64, u32),
    /// The connection's program started, and its parent is a fork.
    Forked(u64, u32),
    /// It ended.
    Exit(u64),
    /// A message that a process wrote.
    Written(u64, u32),
    /// A message that a process read.
    Answered(u64, u32),
    /// It ran before the agent did.
    Adopted(u64),
    /// A message that is whole, at the start.
    Line(u64, &'static str),
    /// Bytes from an offset on: an unfinished frame where it begins one, which is at 0 and 100.
    Data(u64, u64, usize),
    /// Time goes by.
    Wait,
}

impl Sent {
    /// The record; `None` where time goes by.
    fn record(self) -> Option<Vec<u8>> {
        Some(match self {
            Self::Exec(connection, uid) => exec(connection, uid, 0),
            Self::Forked(connection, parent) => forked(connection, parent),
            Self::Exit(connection) => exit(connection),
            Self::Written(connection, pid) => written(connection, pid, 0),
            Self::Answered(connection, pid) => written(connection, pid, 1),
            Self::Handed(connection, uid) => exec(connection, uid, abi::FLAG_NO_EXEC),
            Self::Adopted(connection) => exec(connection, 0, abi::FLAG_ADOPTED),
            Self::Line(connection, text) => line(connection, text),
            Self::Data(connection, offset, length) => data(connection, offset, length),
            Self::Wait => return None,
        })
    }
}

fn bytes_of<T: abi::record::Plain>(value: &T) -> Vec<u8> {
    // SAFETY: it is plain bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
}

fn exec(connection: u64, uid: u32, flags: u8) -> Vec<u8> {
    let header =
        abi::RecordHeader { kind: abi::RECORD_EXEC, flags, connection, pid: NOBODY, ..Default::default() };
    [bytes_of(&header), bytes_of(&abi::ExecInfo { uid, ..Default::default() })].concat()
}

fn forked(connection: u64, parent: u32) -> Vec<u8> {
    let header = abi::RecordHeader {
        kind: abi::RECORD_EXEC,
        flags: abi::FLAG_PARENT_IS_FORK,
        connection,
        pid: NOBODY,
        ..Default::default()
    };
    let mut ancestors = [0; abi::ANCESTORS];
    ancestors[..3].copy_from_slice(&[parent, GRANDPARENT, 1]);
    [bytes_of(&header), bytes_of(&abi::ExecInfo { ancestors, ..Default::default() })].concat()
}

fn exit(connection: u64) -> Vec<u8> {
    bytes_of(&abi::RecordHeader { kind: abi::RECORD_EXIT, connection, pid: NOBODY, ..Default::default() })
}

fn written(connection: u64, pid: u32, direction: u8) -> Vec<u8> {
    let kind = abi::RECORD_DATA;
    let header = abi::RecordHeader { kind, connection, pid, direction, length: 3, ..Default::default() };
    [&bytes_of(&header), &b"{}\n"[..]].concat()
}

fn captured(connection: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let header = abi::RecordHeader {
        kind: abi::RECORD_DATA,
        connection,
        offset,
        length: bytes.len() as u32,
        pid: NOBODY,
        ..Default::default()
    };
    [&bytes_of(&header), bytes].concat()
}

fn line(connection: u64, text: &str) -> Vec<u8> {
    captured(connection, 0, format!("{text}\n").as_bytes())
}

fn data(connection: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![b'x'; length];
    if matches!(offset, 0 | 100) {
        bytes[0] = b'{';
    }
    captured(connection, offset, &bytes)
}

/// Feeds records, and says which gaps come of them: connection, bytes, cause.
fn gaps(capture: &mut Capture, sent: &[Sent]) -> Vec<(u64, u64, GapCause)> {
    let (clock, mut now, mut gaps) = (BootTime::default(), Timestamp(1), Vec::new());
    let mut sink = |output: Output<'_>| {
        if let Output::Input(Input::Gap { connection, bytes, cause, .. }) = output {
            gaps.push((connection.0, bytes, cause));
        }
    };
    for sent in sent {
        let Some(record) = sent.record() else {
            now = now.after(EXEC_PATIENCE);
            capture.tick(&|_| false, &clock, now, &mut sink);
            continue;
        };
        capture.record(&record, &clock, now, &mut sink);
    }
    gaps
}

/// Nothing is known but what records say.
pub struct Nothing;

impl Processes for Nothing {
    fn complete(&self, _: &mut Process) {}

    fn client(&self, ancestors: &[u32], _: Parent, _: bool) -> Option<Process> {
        ancestors.first().map(|pid| Process { pid: *pid, ..Process::default() })
    }

    fn lives(&self, pid: u32, _: u64) -> bool {
        pid == PARENT
    }
}

fn capture() -> Capture {
    let limits = CaptureLimits {
        reassembly_bytes: TOTAL_BOUND,
        per_uid_bytes: USER_BOUND,
        ..CaptureLimits::default()
    };
    Capture::new(limits, &Nothing)
}

#[test]
fn largest_holder_is_given_up_when_memory_is_short() {
    use GapCause::{Memory, RingFull};
    use Sent::{Adopted, Data, Exec, Wait};
    // Name, records, gaps, connections whose exec was awaited no longer.
    type Case = (&'static str, &'static [Sent], &'static [(u64, u64, GapCause)], u64);
    let cases: [Case; 11] = [
        ("within the bounds", &[Exec(1, 5), Data(1, 0, 1000)], &[], 0),
        (
            "the longest frame of a user",
            &[Exec(1, 5), Data(1, 0, 600), Exec(2, 5), Data(2, 0, 500)],
            &[(1, 600, Memory)],
            0,
        ),
        (
            "of the user who holds the most",
            &[Exec(1, 5), Data(1, 0, 900), Exec(2, 6), Data(2, 0, 500), Exec(3, 7), Data(3, 0, 200)],
            &[(1, 900, Memory)],
            0,
        ),
        ("records that wait", &[Exec(1, 5), Data(1, 50, 1000)], &[(1, 50, Memory)], 0),
        (
            "records that wait, and their frame",
            &[Exec(1, 5), Data(1, 100, 1001)],
            &[(1, 100, Memory), (1, 1001, Memory)],
            0,
        ),
        ("records that wait long enough", &[Exec(1, 5), Data(1, 50, 500), Wait], &[(1, 50, RingFull)], 0),
        ("the exec comes", &[Data(1, 0, 800), Exec(1, 5)], &[], 0),
        ("the exec does not come", &[Data(1, 0, 800), Wait], &[], 1),
        (
            "of nobody known",
            &[Data(1, 0, 600), Data(2, 0, 600), Exec(1, 5), Exec(2, 5)],
            &[(2, 600, Memory)],
            2,
        ),
        (
            "known too late to be within his bound",
            &[Data(1, 0, 600), Exec(1, 5), Data(2, 0, 600), Exec(2, 5)],
            &[(2, 600, Memory)],
            0,
        ),
        (
            "an adopted one is nobody known's, not root's",
            &[Exec(1, 0), Data(1, 0, 700), Adopted(2), Data(2, 0, 700)],
            &[],
            0,
        ),
    ];
    for (name, sent, expected, not_awaited) in cases {
        let mut capture = capture();
        assert_eq!(gaps(&mut capture, sent), expected, "{name}");
        let refused: Vec<u64> =
            expected.iter().filter(|(.., cause)| *cause == Memory).map(|(_, bytes, _)| *bytes).collect();
        let counters = capture.counters().clone();
        assert_eq!(counters.memory_refused_bytes, refused.iter().sum::<u64>(), "{name}");
        assert_eq!(counters.memory_refused_frames, refused.len() as u64, "{name}");
        assert_eq!(counters.execs_not_awaited, not_awaited, "{name}");
        for connection in 1..=3 {
            capture.forget(connection);
        }
        assert_eq!(capture.memory.held(), 0, "{name}: what is forgotten is held no more");
    }
}

/// What comes of a process that has a connection's descriptors without an exec: who was reported as its server (by user), and
/// how many bytes were handed on, after each step.
#[test]
fn server_without_exec_is_reported_once_it_speaks() {
    use Sent::{Adopted, Data, Exec, Handed, Line, Wait};
    // Name, records, users of the execs reported, whether the message was handed on, connections whose exec was not awaited.
    type Case = (&'static str, &'static [Sent], &'static [Option<u32>], bool, u64);
    let cases: [Case; 13] = [
        ("nothing is said", &[Handed(1, 5), Wait, Wait], &[], false, 0),
        ("a message, at once", &[Handed(1, 5), Line(1, "{}")], &[], false, 0),
        ("a message, and some time", &[Handed(1, 5), Line(1, "{}"), Wait], &[Some(5)], true, 0),
        ("a message, long after", &[Handed(1, 5), Wait, Wait, Line(1, "{}"), Wait], &[Some(5)], true, 0),
        ("a message before", &[Line(1, "{}"), Handed(1, 5), Wait], &[Some(5)], true, 0),
        ("an exec follows", &[Handed(1, 5), Exec(1, 6), Line(1, "{}")], &[Some(6)], true, 0),
        ("an exec follows a message", &[Handed(1, 5), Line(1, "{}"), Exec(1, 6)], &[Some(6)], true, 0),
        ("an exec came before", &[Exec(1, 6), Handed(1, 5), Line(1, "{}"), Wait], &[Some(6)], true, 0),
        (
            "an exec long after",
            &[Handed(1, 5), Line(1, "{}"), Wait, Exec(1, 6)],
            &[Some(5), Some(6)],
            true,
            0,
        ),
        ("twice", &[Handed(1, 5), Handed(1, 7), Line(1, "{}"), Wait], &[Some(7)], true, 0),
        ("found running", &[Handed(1, 5), Adopted(1), Line(1, "{}"), Wait], &[None], true, 0),
        ("another's", &[Handed(2, 5), Line(1, "{}"), Wait], &[], true, 1),
        ("more than can wait", &[Handed(1, 5), Data(1, 0, 1001)], &[Some(5)], false, 0),
    ];
    for (name, sent, users, handed_on, not_awaited) in cases {
        let mut capture = capture();
        let (clock, mut now) = (BootTime::default(), Timestamp(1));
        let (mut execs, mut frames) = (Vec::new(), 0);
        let mut sink = |output: Output<'_>| match output {
            Output::Input(Input::Exec(exec)) => execs.push(exec.process.uid),
            Output::Input(Input::Frame { .. }) => frames += 1,
            _ => {}
        };
        for sent in sent {
            if let Some(record) = sent.record() {
                capture.record(&record, &clock, now, &mut sink);
            } else {
                now = now.after(EXEC_PATIENCE);
                capture.tick(&|_| false, &clock, now, &mut sink);
            }
        }
        assert_eq!(execs, users, "{name}");
        assert_eq!(frames > 0, handed_on, "{name}");
        assert_eq!(capture.counters().execs_not_awaited, not_awaited, "{name}");
    }
}

/// What is on its way is waited for, however long others take.
#[test]
fn records_behind_a_flood_are_awaited() {
    use Sent::*;
    // Name, records, whose records have not been taken in when the time is over, gaps, and those when they were.
    type Case = (&'static str, &'static [Sent], &'static [u32], usize, usize);
    const SWAPPED: &[Sent] = &[Exec(1, 5), Data(1, 9, 3)];
    // Whoever answers for a server, the records here are the superuser's.
    let cases: [Case; 10] = [
        ("nothing is behind", SWAPPED, &[], 1, 1),
        ("its user's", SWAPPED, &[0], 0, 1),
        ("another's", SWAPPED, &[6], 1, 1),
        ("others'", SWAPPED, &[5, 6, 7], 1, 1),
        ("its user's and another's", SWAPPED, &[0, 6], 0, 1),
        ("in order", &[Exec(1, 5), Data(1, 0, 3)], &[0], 0, 0),
        ("before the exec, its user's", &[Data(1, 9, 3)], &[0], 0, 1),
        ("before the exec, another's", &[Data(1, 9, 3)], &[5], 1, 1),
        ("before the exec, nothing is behind", &[Data(1, 9, 3)], &[], 1, 1),
        ("of two", &[Exec(1, 5), Exec(2, 6), Data(1, 9, 3), Data(2, 9, 3)], &[0], 0, 2),
    ];
    for (name, sent, behind, before, after) in cases {
        let mut capture = capture();
        let (clock, mut now, count) = (BootTime::default(), Timestamp(1), std::cell::Cell::new(0));
        let mut sink = |output: Output<'_>| {
            let is_gap = matches!(output, Output::Input(Input::Gap { .. }));
            count.set(count.get() + usize::from(is_gap));
        };
        for sent in sent {
            capture.record(&sent.record().unwrap(), &clock, now, &mut sink);
        }
        let mut found = Vec::new();
        for behind in [behind, &[]] {
            // What came before an exec is in order no sooner than it is waited for no longer.
            for _ in 0..2 {
                now = now.after(EXEC_PATIENCE);
                capture.tick(&|uid| behind.contains(&uid), &clock, now, &mut sink);
            }
            found.push(count.get());
        }
        assert_eq!(found, [before, after], "{name}");
    }
}

/// A parent that is a fork and lives may end any moment: the first who writes is the client.
#[test]
fn client_of_forked_parent_is_the_first_writer() {
    use Sent::{Answered, Exec, Exit, Forked, Wait, Written};
    const ENDED: u32 = 79;
    // Name, records, the clients of the execs reported, and whether the message was handed on.
    type Case = (&'static str, &'static [Sent], &'static [u32], bool);
    let cases: [Case; 14] = [
        ("nothing is written", &[Forked(1, PARENT)], &[], false),
        ("nothing is written for a while", &[Forked(1, PARENT), Wait], &[PARENT], false),
        ("the parent writes", &[Forked(1, PARENT), Written(1, PARENT)], &[PARENT], true),
        ("who is above it writes", &[Forked(1, PARENT), Written(1, GRANDPARENT)], &[GRANDPARENT], true),
        ("somebody else writes", &[Forked(1, PARENT), Written(1, 5)], &[PARENT], true),
        ("who is above it wrote before", &[Written(1, GRANDPARENT), Forked(1, PARENT)], &[GRANDPARENT], true),
        ("the parent wrote before", &[Written(1, PARENT), Forked(1, PARENT)], &[PARENT], true),
        ("the server speaks first", &[Forked(1, PARENT), Answered(1, NOBODY)], &[], false),
        (
            "the server speaks first, and is answered",
            &[Forked(1, PARENT), Answered(1, NOBODY), Written(1, GRANDPARENT)],
            &[GRANDPARENT],
            true,
        ),
        ("the server speaks alone", &[Forked(1, PARENT), Answered(1, NOBODY), Wait], &[PARENT], true),
        ("the parent has ended", &[Forked(1, ENDED)], &[ENDED], false),
        ("the server ends", &[Forked(1, PARENT), Exit(1)], &[PARENT], false),
        ("it runs another program", &[Forked(1, PARENT), Exec(1, 5)], &[PARENT, PARENT], false),
        (
            "it runs another program of a fork",
            &[Forked(1, PARENT), Forked(1, PARENT), Written(1, GRANDPARENT)],
            &[PARENT, PARENT],
            true,
        ),
    ];
    for (name, sent, expected, handed_on) in cases {
        let mut capture = capture();
        let (clock, mut now) = (BootTime::default(), Timestamp(1));
        let (mut clients, mut frames) = (Vec::new(), 0);
        let mut sink = |output: Output<'_>| match output {
            Output::Input(Input::Exec(exec)) => clients.extend(exec.client.map(|client| client.pid)),
            Output::Input(Input::Frame { .. }) => frames += 1,
            _ => {}
        };
        for sent in sent {
            if let Some(record) = sent.record() {
                capture.record(&record, &clock, now, &mut sink);
            } else {
                assert!(capture.next_deadline().is_some(), "{name}: nobody waits");
                now = now.after(EXEC_PATIENCE);
                capture.tick(&|_| false, &clock, now, &mut sink);
            }
        }
        assert_eq!(clients, expected, "{name}");
        assert_eq!(frames > 0, handed_on, "{name}");
        capture.forget(1);
        assert!(capture.processes.is_empty() && capture.memory.held() == 0, "{name}: nothing is left");
    }
}

#[test]
fn empty_records_before_exec_are_bounded() {
    let mut capture = capture();
    let sent: Vec<Sent> = (0..100).map(|_| Sent::Data(1, 1, 0)).collect();
    gaps(&mut capture, &sent);
    assert!(capture.memory.held() <= USER_BOUND);
    assert_eq!(capture.counters().execs_not_awaited, 1);
}

#[test]
fn kernel_counts_reveal_missing_bytes() {
    // Name, records, whether the exec is known: suspects after two looks at 9 bytes more that passed the server, each way.
    for (name, sent, known) in [
        ("known", &[Sent::Exec(1, 5), Sent::Line(1, "{}")][..], true),
        ("not known yet", &[Sent::Line(1, "{}")], false),
    ] {
        let mut capture = capture();
        gaps(&mut capture, sent);
        let streams = [(3, 12), (0, 9)].map(|(offset, far)| abi::Stream { offset, far, refused: 0 });
        let kernel = streams;
        let (now, mut reported) = (Timestamp(2), Vec::new());
        let mut sink = |output: Output<'_>| {
            if let Output::Input(Input::Gap { direction, bytes, cause, .. }) = output {
                reported.push((direction, bytes, cause));
            }
        };
        assert_eq!(capture.suspects(1), [false; 2], "{name}");
        capture.look(1, &kernel, now, &mut sink);
        capture.look(1, &kernel, now, &mut sink);
        assert_eq!(capture.suspects(1), [known; 2], "{name}");
        // Somebody is in the middle of a write; 4 bytes wait to be read.
        capture.judge(1, &kernel, [None, Some(4)], now, &mut sink);
        capture.settle(1, &kernel, now, &mut sink);
        let expected = [
            (Direction::ServerToClient, 5, GapCause::Unseen),
            (Direction::ClientToServer, 9, GapCause::Unseen),
            (Direction::ServerToClient, 4, GapCause::Unread),
        ];
        assert_eq!(reported, if known { &expected[..] } else { &[] }, "{name}");
        assert_eq!(capture.suspects(2), [false; 2], "another connection");
    }
}
