use mcpwarden_abi::{
    RECORD_CONNECT, RECORD_EXIT, RECORD_GATE,
    record::{Record as Parsed, parse},
};

use super::*;

const HEADER: u64 = size_of::<RecordHeader>() as u64;

/// Bytes of a connection of a user, which begin at an offset.
fn data(uid: u32, connection: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let length = u32::try_from(bytes).unwrap();
    let header = RecordHeader { kind: RECORD_DATA, uid, connection, offset, length, ..Default::default() };
    // As it lies in the ring: in a class of more bytes.
    [bytes_of(&header), &vec![b'x'; bytes + 100]].concat()
}

fn fact(uid: u32, kind: u8) -> Vec<u8> {
    let header = RecordHeader { kind, uid, ..Default::default() };
    [bytes_of(&header), &[0; 200]].concat()
}

/// What comes out: user, connection, and offset and bytes of data, or of a gap with a minus.
fn all(queue: &mut Queue, cost: impl Fn(u32) -> u64) -> Vec<(u32, u64, i64, i64)> {
    let mut out = Vec::new();
    while let Some((uid, record)) = queue.pop() {
        queue.charge(uid, cost(uid));
        let header = *parse(&record).unwrap().header();
        let bytes = match parse(&record) {
            Some(Parsed::Data(_, data)) => data.len() as i64,
            Some(Parsed::Gap(header)) => {
                assert_eq!(header.cause, GAP_USER_SHARE);
                -i64::from(header.value)
            }
            _ => 0,
        };
        assert_eq!(header.uid, uid);
        out.push((uid, header.connection, header.offset as i64, bytes));
    }
    assert!(queue.is_empty() && queue.users.is_empty() && queue.bytes == 0, "{queue:?}");
    out
}

fn users(out: &[(u32, u64, i64, i64)]) -> Vec<u32> {
    out.iter().map(|(uid, ..)| *uid).collect()
}

/// In order as long as nobody costs much; then users in turn, each in order.
#[test]
fn costly_users_wait_for_the_others() {
    const HALF: u64 = QUANTUM / 2;
    // Name, whose records came, what one of user 1's costs (others' cost nothing), whose come out.
    type Case = (&'static str, &'static [u32], u64, &'static [u32]);
    let cases: [Case; 10] = [
        ("one user", &[1, 1, 1], 0, &[1, 1, 1]),
        ("one costly user", &[1, 1, 1], QUANTUM * 9, &[1, 1, 1]),
        ("cheap users", &[1, 2, 1, 3, 2], 0, &[1, 2, 1, 3, 2]),
        ("a user within the credit", &[1, 2, 1, 2], HALF, &[1, 2, 1, 2]),
        ("a user beyond it", &[1, 1, 1, 2, 2], HALF, &[1, 1, 2, 2, 1]),
        ("a user far beyond it", &[1, 1, 2, 2, 3], QUANTUM * 100, &[1, 2, 2, 3, 1]),
        ("a costly user who comes last", &[2, 3, 1, 1], QUANTUM, &[2, 3, 1, 1]),
        ("others between", &[1, 2, 1, 2, 1, 2], QUANTUM, &[1, 2, 2, 2, 1, 1]),
        ("one record each", &[1, 2, 3, 4], QUANTUM, &[1, 2, 3, 4]),
        ("the most that a record can cost", &[1, 1, 2], u64::MAX, &[1, 2, 1]),
    ];
    for (name, came, cost, expected) in cases {
        let mut queue = Queue::new(1 << 20);
        for (offset, uid) in came.iter().enumerate() {
            queue.push(&data(*uid, u64::from(*uid), offset as u64, 10));
        }
        let out = all(&mut queue, |uid| if uid == 1 { cost } else { 0 });
        assert_eq!(users(&out), expected, "{name}");
        let in_order = |uid| {
            let of: Vec<i64> = out.iter().filter(|one| one.0 == uid).map(|one| one.2).collect();
            of.is_sorted()
        };
        assert!((1..5).all(in_order), "{name}: {out:?}");
    }
}

/// Two costly users get the same time, however many records they have.
#[test]
fn equally_costly_users_take_turns() {
    let mut queue = Queue::new(1 << 20);
    for offset in 0..40 {
        queue.push(&data(1, 1, offset, 10));
    }
    for offset in 0..10 {
        queue.push(&data(2, 2, offset, 10));
    }
    let out = users(&all(&mut queue, |_| QUANTUM));
    let last = out.iter().rposition(|uid| *uid == 2).unwrap();
    assert!(last <= 20, "{out:?}");
}

/// A connection gets half of what is left to its user, and a user twice what is free: whoever comes then has room.
#[test]
fn connections_get_half_of_what_is_left() {
    const RECORD: u64 = 1000;
    let size = RECORD_BYTES + HEADER + RECORD;
    // Name, users who flood, records of the queue's capacity, how many of each get in, and of one who comes then.
    for (name, loud, capacity, expected, other) in [
        ("one", 1, 100, 50, 25),
        ("two", 2, 100, 33, 17),
        ("three", 3, 90, 22, 11),
        ("nine", 9, 120, 12, 6),
        ("one, and a small queue", 1, 8, 4, 2),
    ] {
        let mut queue = Queue::new(capacity * size);
        for offset in 0..capacity * 2 {
            for uid in 1..=loud {
                queue.push(&data(uid, u64::from(uid), offset * RECORD, 1000));
            }
        }
        for offset in 0..capacity * 2 {
            queue.push(&data(77, 77, offset * RECORD, 1000));
        }
        let (bytes, capacity_bytes) = queue.fill();
        assert!(bytes <= capacity_bytes, "{name}");
        let out = all(&mut queue, |_| 0);
        let got = |uid: u32| out.iter().filter(|one| one.0 == uid && one.3 > 0).count() as u64;
        assert!((1..=loud).all(|uid| got(uid).abs_diff(expected) <= 1), "{name}: {}", got(1));
        assert!(got(77).abs_diff(other) <= 1, "{name}: {}", got(77));
        for uid in (1..=loud).chain([77]) {
            let bytes: i64 = out.iter().filter(|one| one.0 == uid).map(|one| one.3.abs()).sum();
            assert_eq!(
                bytes as u64,
                capacity * 2 * RECORD,
                "{name}: every byte of {uid} is there or missing"
            );
        }
    }
}

/// What is beyond a share is one gap for each stretch, where the bytes would have been.
#[test]
fn refused_bytes_become_gaps_in_place() {
    const RECORD: usize = 1000;
    let size = RECORD_BYTES + HEADER + RECORD as u64;
    let mut queue = Queue::new(size * 5);
    // Three get in: two of one connection, and one of the other.
    let push = |queue: &mut Queue, connection, number: u64| {
        queue.push(&data(1, connection, number * RECORD as u64, RECORD));
    };
    for number in 0..6 {
        push(&mut queue, 1 + number % 2, number / 2);
    }
    // What waits has to be half of what is left before more gets in.
    for _ in 0..2 {
        queue.pop().unwrap();
    }
    push(&mut queue, 1, 3);
    let out = all(&mut queue, |_| 0);
    let expected = [(1, 1, 1000, 1000), (1, 1, 2000, -1000), (1, 1, 3000, 1000), (1, 2, 1000, -2000)];
    assert_eq!(out, expected);
    assert_eq!(queue.refused_in_all(), Refused { bytes: 3000, facts: 0 });
}

/// What stands before or behind a gap stays there.
#[test]
fn gaps_of_a_stream_keep_their_order() {
    let size = RECORD_BYTES + HEADER + 1000;
    // Name, offsets that are refused, and the gaps.
    type Case = (&'static str, &'static [u64], &'static [(i64, i64)]);
    let cases: [Case; 7] = [
        ("one", &[5000], &[(5000, -1000)]),
        ("one behind the other", &[5000, 6000, 7000], &[(5000, -3000)]),
        // The kernel half refused those between.
        ("with bytes between", &[5000, 7000], &[(5000, -3000)]),
        ("swapped", &[6000, 5000], &[(5000, -2000)]),
        ("the same twice", &[5000, 5000], &[(5000, -1000)]),
        // Behind and in front of what came in.
        ("around", &[500, 5000], &[(500, -1000), (5000, -1000)]),
        ("far", &[5000, 1 << 40], &[(5000, -1000), (1 << 40, -1000)]),
    ];
    for (name, refused, expected) in cases {
        let mut queue = Queue::new(size * 2);
        queue.push(&data(1, 1, 0, 1000));
        for offset in refused {
            queue.push(&data(1, 1, *offset, 1000));
        }
        let gaps: Vec<_> = all(&mut queue, |_| 0).into_iter().skip(1).map(|one| (one.2, one.3)).collect();
        assert_eq!(gaps, expected, "{name}");
    }
}

/// A flood over one connection leaves room for the user's others, and many for other users.
#[test]
fn quiet_connections_get_in_beside_loud_ones() {
    let size = RECORD_BYTES + HEADER + 1000;
    for loud in [1, 2, 5, 20, 100] {
        let mut queue = Queue::new(size * 200);
        for offset in 0..300 {
            for connection in 0..loud {
                queue.push(&data(1, 10 + connection, offset * 1000, 1000));
            }
        }
        let before = queue.refused_in_all();
        assert!(before.bytes > 0, "{loud}");
        if loud <= 20 {
            queue.push(&data(1, 5, 0, 1000));
        }
        queue.push(&data(2, 6, 0, 1000));
        assert_eq!(queue.refused_in_all(), before, "{loud} loud connections");
        let (bytes, capacity) = queue.fill();
        assert!(
            bytes <= capacity * 2 / 3 + size * 2,
            "{loud} connections of one user: {bytes} of {capacity}"
        );
    }
}

/// The kernel half refuses every second of a user's small writes, and each time tells of that with a record: neither those nor gaps of the
/// queue's own take more than the user's share, and every byte is there or missing once.
#[test]
fn gaps_between_small_writes_take_no_others_room() {
    const BYTES: u64 = 80;
    for (name, of_kernel) in [("none of the kernel's", 0), ("every second", 1), ("two of three", 2)] {
        let mut queue = Queue::new(100_000);
        let mut offset = 0;
        for _ in 0..20_000 {
            queue.push(&data(1, 1, offset, BYTES as usize));
            offset += BYTES;
            for _ in 0..of_kernel {
                let (kind, value) = (RECORD_GAP, BYTES as u32);
                let cause = GAP_USER_SHARE;
                let gap =
                    RecordHeader { kind, cause, uid: 1, connection: 1, offset, value, ..Default::default() };
                queue.push(bytes_of(&gap));
                offset += BYTES;
            }
        }
        let (bytes, capacity) = queue.fill();
        assert!(bytes <= capacity * 2 / 3 + 1_000, "{name}: {bytes} of {capacity}");
        queue.push(&data(2, 2, 0, 1000));
        queue.push(&fact(2, RECORD_EXIT));
        assert!(!queue.refused.contains_key(&Some(2)), "{name}: another user's are refused");
        let out = all(&mut queue, |_| 0);
        let mut next = 0;
        for (_, _, begin, bytes) in out.iter().filter(|one| one.0 == 1) {
            assert_eq!(*begin, next, "{name}");
            next += bytes.abs();
        }
        assert_eq!(next as u64, offset, "{name}: every byte is there or missing");
    }
}

/// Records of facts get in where bytes do not any more, up to their own bound.
#[test]
fn facts_get_in_where_bytes_do_not() {
    for kind in [RECORD_EXIT, RECORD_GATE, RECORD_CONNECT] {
        let mut queue = Queue::new(100_000);
        let mut number = 0;
        while queue.refused_in_all().bytes == 0 {
            queue.push(&data(1, 1, number * 1000, 1000));
            number += 1;
        }
        queue.push(&fact(1, kind));
        assert_eq!(queue.refused_in_all().facts, 0, "{kind}");
        while queue.refused_in_all().facts == 0 {
            queue.push(&fact(1, kind));
        }
        let (bytes, capacity) = queue.fill();
        assert!(bytes <= capacity * 2 / 3, "{kind}: {bytes} of {capacity}");
        queue.push(&fact(2, kind));
        assert_eq!(queue.refused_in_all().facts, 1, "{kind}: another user's");
        assert_eq!(queue.take_refused(9).len(), 1, "{kind}");
    }
}

#[test]
fn refused_users_are_taken_out_loudest_first() {
    let mut queue = Queue::new(0);
    for (uid, times) in [(1, 1), (2, 3), (3, 2)] {
        for _ in 0..times {
            queue.push(&data(uid, u64::from(uid), 0, 10));
        }
    }
    queue.push(&fact(4, RECORD_EXIT));
    let taken = |queue: &mut Queue, most| -> Vec<_> {
        queue
            .take_refused(most)
            .into_iter()
            .map(|(uid, refused)| (uid, refused.bytes, refused.facts))
            .collect()
    };
    assert_eq!(taken(&mut queue, 2), [(Some(2), 30, 0), (Some(3), 20, 0)]);
    assert_eq!(taken(&mut queue, 9), [(Some(1), 10, 0), (Some(4), 0, 1)]);
    assert_eq!(taken(&mut queue, 9), []);
    for uid in 0..2 * u32::try_from(USERS_MOST).unwrap() {
        queue.push(&fact(uid, RECORD_EXIT));
    }
    assert_eq!(queue.refused.len(), USERS_MOST + 1, "users that are remembered, and one for all others");
    assert_eq!(queue.refused.get(&None).map(|refused| refused.facts), Some(USERS_MOST as u64));
}

/// A number is passed when all records before it came out, whoever's.
#[test]
fn oldest_record_is_found_among_spent_users() {
    let mut queue = Queue::new(1 << 20);
    assert_eq!(queue.oldest(), None);
    for offset in 0..3 {
        queue.push(&data(1, 1, offset, 10));
    }
    queue.push(&data(2, 2, 0, 10));
    let goal = queue.next_number();
    let (uid, _) = queue.pop().unwrap();
    queue.charge(uid, QUANTUM * 2);
    queue.push(&data(2, 2, 10, 10));
    assert_eq!(queue.pop().map(|(uid, _)| uid), Some(2));
    assert_eq!(queue.oldest(), Some(1), "user 1's second record waits");
    all(&mut queue, |_| 0);
    assert!(queue.oldest().is_none_or(|oldest| oldest >= goal));
}

/// Bytes come out in pieces, each at its place in the stream; what is no stream's comes out whole.
#[test]
fn large_records_come_out_in_pieces() {
    const PIECE: i64 = PIECE_BYTES as i64;
    // Name, bytes of a record, offsets and bytes of what comes out.
    type Case = (&'static str, usize, &'static [(i64, i64)]);
    let cases: [Case; 10] = [
        ("nothing", 0, &[(7, 0)]),
        ("a byte", 1, &[(7, 1)]),
        ("one less than a piece", PIECE_BYTES - 1, &[(7, PIECE - 1)]),
        ("a piece", PIECE_BYTES, &[(7, PIECE)]),
        ("one more", PIECE_BYTES + 1, &[(7, PIECE), (7 + PIECE, 1)]),
        ("two", PIECE_BYTES * 2, &[(7, PIECE), (7 + PIECE, PIECE)]),
        ("two and one", PIECE_BYTES * 2 + 1, &[(7, PIECE), (7 + PIECE, PIECE), (7 + 2 * PIECE, 1)]),
        (
            "two and a half",
            PIECE_BYTES * 5 / 2,
            &[(7, PIECE), (7 + PIECE, PIECE), (7 + 2 * PIECE, PIECE / 2)],
        ),
        ("a small class", 1024, &[(7, 1024)]),
        (
            "three less one",
            PIECE_BYTES * 3 - 1,
            &[(7, PIECE), (7 + PIECE, PIECE), (7 + 2 * PIECE, PIECE - 1)],
        ),
    ];
    for (name, bytes, expected) in cases {
        let mut queue = Queue::new(1 << 20);
        queue.push(&data(1, 2, 7, bytes));
        let header = RecordHeader { kind: RECORD_DATA, uid: 1, ..Default::default() };
        let record = [bytes_of(&header), &vec![0; bytes]].concat();
        assert_eq!(queue.fill().0, size_in_pieces(&header, &record), "{name}: all of it is counted");
        let pieces: Vec<_> = all(&mut queue, |_| 0).into_iter().map(|one| (one.2, one.3)).collect();
        assert_eq!(pieces, expected, "{name}");
    }
    let mut queue = Queue::new(1 << 20);
    let whole = [&fact(1, RECORD_EXIT)[..], &[0; 3 * PIECE_BYTES]].concat();
    queue.push(&whole);
    assert_eq!(queue.pop(), Some((1, whole.into())));
}

/// Between two pieces of a record others get their turn.
#[test]
fn turn_ends_within_a_large_record() {
    let mut queue = Queue::new(1 << 20);
    queue.push(&data(1, 1, 0, 8 * PIECE_BYTES));
    queue.push(&data(2, 2, 0, 10));
    queue.push(&data(2, 2, 10, 10));
    let out = users(&all(&mut queue, |uid| if uid == 1 { QUANTUM } else { 0 }));
    assert_eq!(out, [1, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
}

/// What of a user came before a number is taken in, whatever waits of others.
#[test]
fn users_are_taken_in_each_by_itself() {
    // Name, whose records came, how many came out, of whom all before the third record is taken in.
    type Case = (&'static str, &'static [u32], usize, [bool; 3]);
    let cases: [Case; 10] = [
        ("nothing came", &[], 0, [true, true, true]),
        ("nothing came out", &[1, 2, 1], 0, [false, false, false]),
        ("the first of one", &[1, 2, 1], 1, [true, false, false]),
        ("both", &[1, 2, 1], 2, [true, true, true]),
        ("all", &[1, 2, 1], 3, [true, true, true]),
        ("one user alone", &[1, 1, 1], 0, [false, true, false]),
        ("one user alone, one out", &[1, 1, 1], 1, [false, true, false]),
        ("one user alone, two out", &[1, 1, 1], 2, [true, true, true]),
        ("only what comes later", &[3, 3, 2, 1], 0, [true, true, false]),
        ("the other first", &[2, 2, 1, 1], 1, [true, false, false]),
    ];
    for (name, came, count, expected) in cases {
        let mut queue = Queue::new(1 << 20);
        for (offset, uid) in came.iter().enumerate() {
            queue.push(&data(*uid, u64::from(*uid), offset as u64, 10));
        }
        for _ in 0..count {
            queue.pop().unwrap();
        }
        let taken = [Some(1), Some(2), None].map(|uid| queue.has_taken(uid, 2));
        assert_eq!(taken, expected, "{name}");
        // They come out in their order, since nobody costs anything.
        let mut waiting: Vec<u32> = queue.waiting().collect();
        waiting.sort_unstable();
        let mut rest: Vec<u32> = came[count..].to_vec();
        rest.sort_unstable();
        rest.dedup();
        assert_eq!(waiting, rest, "{name}");
    }
}

/// A record of which not even the header is there comes out as it went in: capture counts it.
#[test]
fn broken_records_pass_through() {
    let mut queue = Queue::new(1 << 20);
    for record in [&[][..], &[1], &[RECORD_DATA; 20]] {
        queue.push(record);
        assert_eq!(queue.pop(), Some((0, record.into())));
        assert!(queue.is_empty());
    }
}
