//! Recorded conversations of more servers, played again through pipes and through sockets.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::places;
use mcpwarden_tests::replay::Replay;
use mcpwarden_tests::script::{Report, Step};
use mcpwarden_tests::transcript::compare;

/// Where the transcripts are: `MCPWARDEN_CORPUS`, or beside the checkout.
fn corpus() -> PathBuf {
    match env::var_os("MCPWARDEN_CORPUS") {
        Some(path) => path.into(),
        None => places::sources().join("../../shared/corpus/transcripts"),
    }
}

#[test]
fn recorded_corpus_is_reported_message_for_message() -> Result<()> {
    let corpus = corpus();
    let Ok(entries) = fs::read_dir(&corpus) else {
        places::skipped("corpus", &format!("no transcripts in {} (MCPWARDEN_CORPUS)", corpus.display()));
        return Ok(());
    };
    let mut directories: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("c2s.jsonl").is_file())
        .collect();
    directories.sort();
    ensure!(!directories.is_empty(), "{} holds no transcript", corpus.display());

    let agent = Agent::start(&[])?;
    for directory in &directories {
        for wiring in ["pipes", "sockets"] {
            replay(&agent, directory, wiring)
                .with_context(|| format!("{} over {wiring}", directory.display()))?;
        }
    }
    agent.stop()?;
    Ok(())
}

fn replay(agent: &Agent, directory: &Path, wiring: &str) -> Result<()> {
    let replay = Replay::read(directory)?;
    let report = play(&replay, directory, wiring)?;
    ensure!(report.child_code == Some(0), "the replayer failed: {report:?}");

    let connection = agent.connection_of_client(report.pid)?;
    agent.wait_for("the server's end", |event| {
        is(event, "mcp_server_exited") && event["connection"] == connection
    })?;
    compare(&replay.messages(), &agent.messages(connection)?)?;
    let gaps: Vec<_> =
        agent.events_of(connection).into_iter().filter(|event| is(event, "mcp_capture_gap")).collect();
    ensure!(gaps.is_empty(), "gaps: {gaps:?}");
    Ok(())
}

/// Plays both sides: a line of the client goes out when the one before it has been answered.
fn play(replay: &Replay, directory: &Path, wiring: &str) -> Result<Report> {
    let mut script = Vec::new();
    let mut lines = 0;
    for (line, answers) in &replay.turns {
        script.push(Step::bytes(&[line.as_slice(), b"\n"].concat()));
        lines += answers.len();
        script.push(Step::AwaitLines(lines));
    }
    let file = tempfile::NamedTempFile::new().context("no temporary file")?;
    serde_json::to_writer(&file, &script).context("cannot write the script")?;
    let output = Command::new(places::program("sender"))
        .args(["--wiring", wiring, "--script"])
        .arg(file.path())
        .arg("--")
        .arg(places::program("replayer"))
        .arg(directory)
        .output()
        .context("cannot start the sender")?;
    ensure!(output.status.success(), "the sender failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the sender's report")
}
