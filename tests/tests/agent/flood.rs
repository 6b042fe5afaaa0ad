//! A channel on which messages go by without end, as fast as two processes can write and read.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::script::Step;
use mcpwarden_tests::sender::{Sending, call, initialize};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A user who is not root: others are heard beside a flood of his.
const NOBODY: u32 = 65_534;

/// Writers and readers of a pipeline, ended with it.
struct Flood(Child);

impl Flood {
    fn start() -> Result<Self> {
        // The first `cat` is what a server looks like, and an MCP server by what it is asked.
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let pipeline = format!("yes '{request}' | cat | cat >/dev/null");
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", &pipeline]).uid(NOBODY).gid(NOBODY).process_group(0).spawn();
        Ok(Self(child.context("cannot start the flood")?))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        // Ended already, or cannot be: the test does not depend on it.
        let _ = i32::try_from(self.0.id()).map(|pid| killpg(Pid::from_raw(pid), Signal::SIGKILL));
        let _ = self.0.wait();
    }
}

#[test]
fn flood_does_not_stall_the_agent() -> Result<()> {
    let flood = Flood::start()?;
    thread::sleep(Duration::from_millis(200));
    // Starts in time, or this fails.
    let agent = Agent::start_plain(&["--ring-bytes", "1048576"])?;
    // Others are heard while it goes on.
    let steps =
        vec![Step::line(&initialize()), Step::AwaitLines(1), Step::line(&call(1, 20)), Step::AwaitLines(2)];
    Sending::new(steps).start()?.finish(&agent)?;
    drop(flood);
    let lost = agent.wait_for("what the flood lost", |event| is(event, "mcp_capture_gap"))?;
    ensure!(lost["bytes"].as_u64() > Some(0), "{lost}");
    agent.stop().map(drop)
}
