//! `enforcement.fallback`: what becomes of denied calls where nothing may be overwritten.

use anyhow::{Result, ensure};
use mcpwarden_tests::agent::Agent;
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{Gated, add, is_there};
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::wiring::Wiring;
use serde_json::json;

/// The agent may not overwrite memory: without CAP_SYS_ADMIN the kernel refuses the program.
const WITHOUT: [&str; 2] = ["setpriv", "--bounding-set=-sys_admin"];

#[test]
fn fallback_decides_where_nothing_can_be_overwritten() -> Result<()> {
    if !is_there("fallback_decides_where_nothing_can_be_overwritten")? {
        return Ok(());
    }
    for (fallback, refuses, trouble) in [
        ("", true, "denied calls are refused, not neutralized"),
        (", fallback: deny", true, "denied calls are refused, not neutralized"),
        (", fallback: observe", false, "calls are reported and not stopped"),
    ] {
        let yaml =
            format!("enforcement: {{ stdio: neutralize{fallback} }}\npolicy: {{ denied_tools: [ad*] }}");
        let (_directory, config) = configured(&yaml)?;
        let agent = Agent::start_behind(&WITHOUT, &["--config", &config])?;
        ensure!(agent.stderr().contains(trouble), "{fallback}: {}", agent.stderr());
        let status = agent.tell(&["status"])?;
        ensure!(status.stdout.contains(trouble), "{fallback}: {}", status.stdout);
        let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
        ensure!(session.peer.ask(&echo(11, "x"))?["result"].is_object(), "{fallback}");
        let written = session.peer.write(format!("{}\n", add(12)).as_bytes());
        ensure!(written.is_err() == refuses, "{fallback}: {written:?}");
        let called = session.call(&agent, 12)?;
        let found = json!([called["action"], called["enforced"]]);
        ensure!(found == json!(["block", refuses]), "{fallback}: {called}");
        agent.stop()?;
    }
    Ok(())
}
