//! Every way to write and to read: what goes through is reported message for message, and what cannot be seen is
//! reported as a gap of its exact size.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gate::Gate;
use mcpwarden_tests::io_methods::{ReadMethod, WriteMethod};
use mcpwarden_tests::script::Step;
use mcpwarden_tests::sender::{Sending, call, initialize};
use mcpwarden_tests::wiring::Wiring;

/// Streams are looked at every few seconds, and what is missing must be so twice.
const NOTICED: Duration = Duration::from_secs(15);
const WIRINGS: [Wiring; 2] = [Wiring::Pipes, Wiring::Sockets];

/// A short call, one larger than a page, one larger than a pipe.
fn conversation(write: WriteMethod) -> Vec<Step> {
    let large = if write == WriteMethod::OneByte { 5_000 } else { 100_000 };
    vec![
        Step::line(&initialize()),
        Step::AwaitLines(1),
        Step::line(&call(1, 20)),
        Step::AwaitLines(2),
        Step::line(&call(2, 5_000)),
        Step::line(&call(3, large)),
        Step::AwaitLines(4),
    ]
}

#[test]
fn every_observable_write_method_is_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        for write in WriteMethod::value_variants() {
            if write.works_on(wiring) && write.is_seen() {
                let sending = Sending { wiring, write: *write, ..Sending::new(conversation(*write)) };
                let what = || format!("{write:?} over {wiring:?}");
                let sent = sending.run(&agent).with_context(what)?;
                sent.check(&agent).with_context(what)?;
                ensure!(sent.count("mcp_tool_called") == 3, "{}: not three calls", what());
            }
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn every_read_method_is_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        for read in ReadMethod::value_variants() {
            if read.works_on(wiring) && read.is_seen() {
                let mut sending =
                    Sending { wiring, read: *read, ..Sending::new(conversation(WriteMethod::Write)) };
                if *read != ReadMethod::OneByte {
                    // Whole lines back: large answers.
                    sending.server.retain(|argument| argument != "--short");
                }
                let what = || format!("{read:?} over {wiring:?}");
                sending.run(&agent).and_then(|sent| sent.check(&agent)).with_context(what)?;
            }
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn unobservable_write_is_reported_as_gap() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        for write in WriteMethod::value_variants() {
            if !write.works_on(wiring) || write.is_seen() {
                continue;
            }
            let hidden = call(1, 3_000);
            let steps = vec![
                Step::line(&initialize()),
                Step::AwaitLines(1),
                Step::line(&hidden).by(*write, 0),
                Step::AwaitLines(2),
                Step::line(&call(2, 20)),
                Step::AwaitLines(3),
            ];
            let what = || format!("{write:?} over {wiring:?}");
            let sent = Sending { wiring, ..Sending::new(steps) }.run(&agent).with_context(what)?;
            let cause = match write {
                WriteMethod::SpliceFile | WriteMethod::SplicePipe => "splice",
                WriteMethod::Vmsplice => "vmsplice",
                WriteMethod::Tee => "tee",
                WriteMethod::Sendfile => "sendfile",
                _ => "io_uring_fixed",
            };
            let gaps = sent.gaps();
            let bytes: u64 = gaps.iter().map(|(_, _, bytes)| bytes).sum();
            ensure!(
                bytes == hidden.len() as u64 + 1,
                "{}: {} bytes hidden, gaps {gaps:?}",
                what(),
                hidden.len() + 1
            );
            ensure!(
                gaps.iter().all(|(direction, found, _)| direction == "c2s" && found == cause),
                "{}: gaps {gaps:?}",
                what()
            );
            // The call after it is seen, the hidden one is not made up.
            ensure!(sent.count("mcp_tool_called") == 1, "{}: {:#?}", what(), sent.events);
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn spliced_answers_are_reported_as_gaps() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        let sending =
            Sending { wiring, read: ReadMethod::Splice, ..Sending::new(conversation(WriteMethod::Write)) };
        let sent = sending.run(&agent)?;
        let gaps = sent.gaps();
        let bytes: u64 = gaps.iter().map(|(_, _, bytes)| bytes).sum();
        ensure!(
            bytes == sent.received.len() as u64,
            "{wiring:?}: {} bytes read, gaps {gaps:?}",
            sent.received.len()
        );
        ensure!(gaps.iter().all(|(direction, cause, _)| direction == "s2c" && cause == "splice"), "{gaps:?}");
        ensure!(sent.count("mcp_tool_called") == 3, "{wiring:?}: the calls were seen");
    }
    agent.stop()?;
    Ok(())
}

/// The kernel does not tell which request such a completion is of. What the server wrote tells how much it was. Where the
/// functions below are looked at, they are seen like any other.
#[test]
fn answers_read_unobserved_are_reported_as_gaps() -> Result<()> {
    let agent = Agent::start(&[])?;
    let cases = [
        (Wiring::Pipes, ReadMethod::UringReadMultishot),
        (Wiring::Sockets, ReadMethod::UringReadMultishot),
        (Wiring::Sockets, ReadMethod::UringRecvMultishot),
    ];
    if agent.backend() == "trampolines" {
        for (wiring, read) in cases {
            let mut sending = Sending { wiring, read, ..Sending::new(conversation(WriteMethod::Write)) };
            sending.server.retain(|argument| argument != "--short");
            let what = || format!("{read:?} over {wiring:?}");
            sending.run(&agent).and_then(|sent| sent.check(&agent)).with_context(what)?;
        }
        return agent.stop().map(drop);
    }
    for (wiring, read) in cases {
        let gate = Gate::new()?;
        let steps = [conversation(WriteMethod::Write), vec![gate.step()]].concat();
        let mut sending = Sending { wiring, read, ..Sending::new(steps) };
        sending.server.retain(|argument| argument != "--short");
        let sender = sending.start()?;
        let reached = gate.reached()?;
        let connection = agent.connection_of_client(sender.pid())?;
        // While the connection lives, when it is still: what the pipe holds is known.
        agent.wait_for_within(NOTICED, "a gap", |event| {
            is(event, "mcp_capture_gap") && event["connection"] == connection && event["cause"] == "unseen"
        })?;
        drop(reached);
        let sent = sender.finish(&agent)?;
        let what = || format!("{read:?} over {wiring:?}: {:?}", sent.gaps());
        let bytes: u64 = sent.gaps().iter().map(|(_, _, bytes)| bytes).sum();
        ensure!(bytes == sent.received.len() as u64, "{}, not {} bytes", what(), sent.received.len());
        ensure!(
            sent.gaps().iter().all(|(direction, cause, _)| direction == "s2c" && cause == "unseen"),
            "{}",
            what()
        );
        ensure!(sent.count("mcp_tool_called") == 3, "{}: the calls were seen", what());
    }
    let counters = &agent.stop()?["counters"];
    ensure!(counters["kernel_io_uring_untold"].as_u64() >= Some(9), "{}", counters["kernel_io_uring_untold"]);
    Ok(())
}
