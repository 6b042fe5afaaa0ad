//! A process that is ended at any moment while it writes. What it was told is stored is there, and whole.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    thread,
};

use mcpwarden_policy::{
    ServerId,
    registry::{HASH_VERSION, Item, ItemKind, PinKey, PinRecord, Store as _},
};
use mcpwarden_store::{
    registry::Pins,
    testing::{TestAgent, settings},
};

use super::*;

/// How often it is ended: in the full tier, and in every other run.
const KILLS: [u64; 2] = [200, 40];
/// The variable that says which: `cargo xtask test --full` sets it.
const FULL: &str = "MCPWARDEN_TEST_FULL";
/// Where the process that is ended writes.
const DIRECTORY: &str = "MCPWARDEN_TEST_WRITES_IN";
/// After so many another database is begun: each is read whole after each end.
const KILLS_OF_ONE: u64 = 20;
const PINS: u64 = 50;

fn key() -> PinKey {
    PinKey { uid: Some(1), server: ServerId("s".into()), program: "/bin/x".into() }
}

/// Pins, each with the number of the time when it was written.
fn pin(number: u64) -> (Item, PinRecord) {
    let record = PinRecord {
        first_seen: Timestamp(1),
        last_seen: Timestamp(number),
        hash: "h".into(),
        pinned: true,
        approved: None,
        max_severity: None,
        current: "h".into(),
        listed: true,
        said: vec![],
        denied: vec![],
        version: None,
        hash_version: HASH_VERSION,
        bare: None,
        limited: Box::default(),
    };
    (Item { kind: ItemKind::Tool, name: format!("t{}", number % PINS) }, record)
}

/// The last pin that is there. Those before it are, too, each as it was written last.
fn pinned(directory: &Path) -> u64 {
    let (mut pins, replaced) = Pins::open(directory, None).unwrap();
    assert_eq!(replaced, None, "pins are damaged");
    let records = pins.load(&key()).unwrap();
    let last = records.values().map(|record| record.last_seen.0).max().unwrap_or_default();
    for number in last.saturating_sub(PINS) + 1..=last {
        let (item, record) = pin(number);
        assert_eq!(records.get(&item), Some(&record), "{number} of {last}");
    }
    last
}

/// Writes events and pins until it is ended, and says how many are written.
fn write(directory: &Path) {
    let mut next = pinned(directory) + 1;
    let (mut pins, _) = Pins::open(directory, None).unwrap();
    let mut agent = TestAgent::start(settings(directory));
    loop {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        let now = Timestamp(now.as_nanos() as u64);
        let event = |n| {
            let body = AgentLoss { meaning: "x".repeat(n as usize * 10), ..AgentLoss::default() };
            Event::agent(now, body.into())
        };
        agent.send((0..1 + next % 40).map(event).collect());
        pins.put(&key(), &[pin(next)], &[]).unwrap();
        println!("wrote {} {next}", agent.stored());
        std::io::stdout().flush().unwrap();
        next += 1;
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn store_survives_a_kill_at_any_moment() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return write(Path::new(&directory));
    }
    let mut directory = tempfile::tempdir().unwrap();
    let mut last = 0;
    let [all, some] = KILLS;
    for kill in 0..if std::env::var_os(FULL).is_some() { all } else { some } {
        if kill % KILLS_OF_ONE == 0 {
            directory = tempfile::tempdir().unwrap();
            last = 0;
        }
        let path = directory.path().join("x.db");
        let name = thread::current().name().unwrap().to_owned();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut reported = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let numbers = |line: String| {
            let (events, pins) = line.strip_prefix("wrote ")?.split_once(' ')?;
            Some((events.parse::<u64>().ok()?, pins.parse::<u64>().ok()?))
        };
        // In the middle of opening what the one before left, or of writing.
        let first = if kill % 4 == 3 { None } else { reported.by_ref().find_map(numbers) };
        assert!(first.is_some() || kill % 4 == 3, "it wrote nothing");
        // Other moments each time, over some rounds of the writer.
        thread::sleep(Duration::from_micros(kill * 79_190 % 150_000));
        child.kill().unwrap();
        let (stored, written) = reported.filter_map(numbers).last().or(first).unwrap_or_default();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it was ended by nothing else");
        let verdict = verdict(&path, None, None).unwrap();
        assert!(verdict.intact, "{kill}: {verdict:?}");
        let end = verdict.last.unwrap_or_default();
        assert!(end >= stored.max(last), "{kill}: stored {stored}, {last} before, and the end is {end}");
        let pinned = pinned(directory.path());
        assert!(pinned >= written, "{kill}: {written} pins were written, the last is {pinned}");
        last = end;
    }
    assert!(last > KILLS_OF_ONE, "{last} events were written");
}
