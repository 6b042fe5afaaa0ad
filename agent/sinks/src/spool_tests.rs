use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

const ROOM: u64 = 1 << 20;

fn line(seq: u64) -> Line {
    Line::plain(&format!("{{\"seq\":{seq}}}"))
}

fn lines(numbers: std::ops::Range<u64>) -> Vec<Line> {
    numbers.map(line).collect()
}

fn open(directory: &Path, capacity: u64) -> (Spool, Counts) {
    let counts = Counts::default();
    (Spool::open(directory, capacity, &counts).unwrap().unwrap(), counts)
}

/// The places of all events that are left, in order; each batch is one array.
fn drain(spool: &mut Spool, counts: &Counts) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(parcel) = spool.first(counts).unwrap() {
        let events: Vec<serde_json::Value> = serde_json::from_slice(&parcel.body).unwrap();
        assert_eq!(events.len(), parcel.events);
        found.extend(events.iter().map(|event| event["seq"].as_u64().unwrap()));
        spool.done(counts);
    }
    found
}

fn dropped(counts: &Counts) -> u64 {
    counts.dropped.load(Ordering::Relaxed)
}

fn waiting(counts: &Counts) -> u64 {
    counts.spooled_bytes.load(Ordering::Relaxed)
}

/// A line, and where it says that it stands.
#[test]
fn sequence_number_is_found_in_both_formats() {
    for (line, expected) in [
        (r#"{"type":"x","seq":7}"#, Some(7)),
        (r#"{"metadata":{"version":"1.7.0","sequence":8},"unmapped":{"mcpwarden":{"seq":8}}}"#, Some(8)),
        (r#"{"metadata":{"version":"1.7.0"},"unmapped":{}}"#, Some(0)),
        (r#"{"type":"x"}"#, Some(0)),
        (r#"{"type":"x","seq""#, None),
    ] {
        assert_eq!(place(line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn spool_batch_is_stable_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, counts) = open(directory.path(), ROOM);
    assert_eq!(spool.first(&counts).unwrap(), None);
    spool.append(&lines(1..3), &counts).1.unwrap();
    spool.append(&lines(3..4), &counts).1.unwrap();
    let first = spool.first(&counts).unwrap().unwrap();
    assert_eq!(first.body, b"[{\"seq\":1},{\"seq\":2},{\"seq\":3}]");
    assert_eq!((first.events, &first.key[..4], first.key.len()), (3, "1-3-", 20));
    // What is being sent does not grow.
    spool.append(&lines(4..6), &counts).1.unwrap();
    assert_eq!(spool.first(&counts).unwrap().as_ref(), Some(&first));
    assert!(Spool::open(directory.path(), ROOM, &counts).unwrap().is_none(), "there is one already");
    drop(spool);
    let (mut spool, counts) = open(directory.path(), ROOM);
    assert_eq!(spool.first(&counts).unwrap().as_ref(), Some(&first));
    spool.append(&lines(6..7), &counts).1.unwrap();
    assert_eq!(drain(&mut spool, &counts), [1, 2, 3, 4, 5, 6]);
    assert_eq!((dropped(&counts), waiting(&counts)), (0, 0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the lock alone is left");
}

/// What a file has at start, which events are left of it, and how many lines were damaged.
#[test]
fn damaged_spool_lines_are_dropped_and_counted() {
    let whole = "{\"seq\":1}\n{\"seq\":2}\n";
    for (name, text, left, damaged) in [
        ("nothing", "", &[][..], 0),
        ("whole", whole, &[1, 2], 0),
        ("no line feed at the end", &whole[..whole.len() - 1], &[1], 1),
        ("half a line", &whole[..14], &[1], 1),
        ("half the first line", &whole[..4], &[], 1),
        ("zeros at the end", "{\"seq\":1}\n\0\0\0\0", &[1], 1),
        ("zeros alone", "\0\0\0\0\n", &[], 1),
        ("in the middle", "{\"seq\":1}\n{\"se\u{7f}\n{\"seq\":3}\n", &[1, 3], 1),
        ("an empty line", "{\"seq\":1}\n\n{\"seq\":3}\n", &[1, 3], 1),
        ("two in a line", "{\"seq\":1}{\"seq\":2}\n{\"seq\":3}\n", &[3], 1),
        ("no object", "7\n{\"seq\":3}\n", &[3], 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(format!("{:020}.jsonl", 7));
        fs::write(&file, text).unwrap();
        fs::write(directory.path().join("7.jsonl"), "not ours").unwrap();
        let (mut spool, counts) = open(directory.path(), ROOM);
        assert_eq!(dropped(&counts), damaged, "{name}");
        drop(spool);
        // Nothing is counted twice.
        let (again, counts) = open(directory.path(), ROOM);
        spool = again;
        assert_eq!(dropped(&counts), 0, "{name}");
        spool.append(&lines(9..10), &counts).1.unwrap();
        assert_eq!(drain(&mut spool, &counts), [left, &[9]].concat(), "{name}");
    }
}

/// Room for four batches, the oldest of them being sent or not.
#[test]
fn full_spool_drops_its_oldest_batches() {
    for taken in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut spool, counts) = open(directory.path(), 64 << 10);
        // 16 lines of 1 KiB are a batch.
        let long = |seq: u64| Line::plain(&format!("{{\"seq\":{seq},\"x\":\"{}\"}}", "x".repeat(1_000)));
        let mut seq = 0;
        while spool.batches.len() < 4 {
            spool.append(&[long(seq)], &counts).1.unwrap();
            seq += 1;
        }
        let per_batch = spool.batches[0].events as u64;
        if taken {
            spool.first(&counts).unwrap();
        }
        let all = seq + 2 * per_batch;
        for seq in seq..all {
            assert_eq!(spool.append(&[long(seq)], &counts).0, 1);
            assert!(waiting(&counts) <= 64 << 10, "{taken} {seq}");
        }
        let left = drain(&mut spool, &counts);
        assert_eq!(left.len() as u64 + dropped(&counts), all, "{taken}");
        assert!(dropped(&counts) > 0 && dropped(&counts).is_multiple_of(per_batch), "{taken}");
        assert_eq!(left.contains(&0), taken, "what is being sent stays");
        assert!(left.is_sorted() && left.contains(&(all - 1)), "{taken}: {left:?}");
    }
}

#[test]
fn spool_bound_applies_to_lines_and_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, counts) = open(directory.path(), ROOM);
    let long = Line::plain(&format!("{{\"x\":\"{}\"}}", "x".repeat(ROOM as usize)));
    assert_eq!(spool.append(&[line(1), long, line(2)], &counts).0, 3);
    assert_eq!((drain(&mut spool, &counts), dropped(&counts)), (vec![1, 2], 1));
    let middle = Line::plain(&format!("{{\"seq\":3,\"x\":\"{}\"}}", "x".repeat(600 << 10)));
    spool.append(&[middle, line(4)], &counts).1.unwrap();
    drop(spool);
    let (mut spool, counts) = open(directory.path(), 64 << 10);
    assert_eq!((drain(&mut spool, &counts), dropped(&counts)), (vec![4], 1));
}

#[test]
fn spool_handles_foreign_file_changes() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, counts) = open(directory.path(), ROOM);
    spool.append(&lines(1..3), &counts).1.unwrap();
    spool.first(&counts).unwrap();
    spool.append(&lines(3..4), &counts).1.unwrap();
    let mode = fs::metadata(spool.path(0)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    // The oldest is gone.
    fs::remove_file(spool.path(0)).unwrap();
    assert_eq!((drain(&mut spool, &counts), dropped(&counts)), (vec![3], 2));
    // A link stands where the next one would be.
    let victim = directory.path().join("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, spool.path(spool.next)).unwrap();
    let (done, result) = spool.append(&lines(5..6), &counts);
    assert!(done == 0 && result.is_err() && fs::read(&victim).unwrap().is_empty());
    fs::remove_file(spool.path(spool.next)).unwrap();
    spool.append(&lines(5..6), &counts).1.unwrap();
    assert_eq!(drain(&mut spool, &counts), [5]);
    // What is there and cannot be used as one.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    drop(spool);
    fs::create_dir(directory.path().join(format!("{:020}.jsonl", 1))).unwrap();
    assert!(Spool::open(directory.path(), ROOM, &counts).is_err());
}
