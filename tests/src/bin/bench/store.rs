//! What it takes to find something among many stored events.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::places;

use crate::agent::{Agent, Sink};
use crate::report::{heading, quantile};

/// Over how many days they are spread.
const DAYS: u64 = 30;
/// What is asked, and within how many seconds it is to be answered, where there is an aim.
const QUESTIONS: [(&[&str], Option<f64>); 6] = [
    (&["events", "--since", "24h"], Some(1.0)),
    (&["events", "--since", "24h", "--limit", "0"], Some(1.0)),
    (&["events", "--since", "24h", "--severity", "high", "--type", "mcp_detection"], Some(1.0)),
    (&["events", "--since", "30d", "--type", "mcp_detection", "--session", "none"], None),
    (&["calls", "--since", "24h"], None),
    (&["servers", "--since", "24h"], None),
];

/// Makes a database of so many events, asks it each question `rounds` times, and says how long the answers took.
pub fn store(events: u64, rounds: usize) -> Result<()> {
    let state = Agent::start(&[], Sink::Nowhere)?.stop()?;
    let database = state.path().join("state").join("mcpwarden.db");
    eprintln!("{events} events are written …");
    fill(&database, events)?;
    let size = std::fs::metadata(&database)?.len() >> 20;
    heading(&format!("{events} events over {DAYS} days, {size} MiB, no agent writing; {rounds} rounds"));
    for (question, aim) in QUESTIONS {
        let (mut took, mut lines) = (Vec::new(), 0);
        for _ in 0..rounds {
            let began = Instant::now();
            let mut command = Command::new(places::agent());
            command.args(question).arg("--json").arg("--path").arg(&database);
            let said = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
            took.push(began.elapsed().as_secs_f64());
            ensure!(said.status.success(), "{question:?}: {}", said.status);
            lines = said.stdout.iter().filter(|byte| **byte == b'\n').count();
        }
        let [median, least, most] = [0.5, 0.0, 1.0].map(|share| quantile(&took, share));
        let aim = aim.map_or(String::new(), |aim| format!("   target {aim:.2} s"));
        println!(
            "  {:<66} {lines:>7} lines in {median:.3} s ({least:.3} to {most:.3}){aim}",
            question.join(" ")
        );
    }
    Ok(())
}

/// Events as an agent stores them, one in a hundred a detection, the newest now.
fn fill(database: &Path, events: u64) -> Result<()> {
    let seconds = DAYS * 86_400;
    let sql = format!(
        "PRAGMA synchronous = OFF;
         WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {events}),
         event(seq, time, type, severity) AS (
             SELECT n + 1000, (unixepoch() - {seconds} + n * {seconds} / {events}) * 1000000000,
                 CASE n % 100 WHEN 0 THEN 'mcp_detection' ELSE 'mcp_tool_called' END,
                 CASE n % 100 WHEN 0 THEN n / 100 % 4 END
             FROM number)
         INSERT INTO events SELECT seq, time, type, severity, 's-' || seq % 50, 'server-' || seq % 20, 'tool', 0,
             zeroblob(32), CAST(json_object('seq', seq, 'type', type, 'timestamp', strftime('%FT%TZ', time / 1000000000, 'unixepoch'),
             'server_id', 'server-' || seq % 20, 'session_id', 's-' || seq % 50, 'tool', 'tool', 'jsonrpc_id', seq,
             'arguments', json_object('text', 'string[20]')) AS BLOB)
         FROM event;"
    );
    let status = Command::new("sqlite3").arg(database).arg(sql).status();
    ensure!(status.context("sqlite3 is needed (apt install sqlite3)")?.success(), "sqlite3 failed");
    Ok(())
}
