//! The official MCP clients, driving real servers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::places;
use crate::transcript::{Dir, read_log};

/// An official client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The Python SDK: pipes.
    Python,
    /// The TypeScript SDK: Unix socket pairs.
    TypeScript,
    /// Its second edition, of which the client is a package of its own; over HTTP only with a mode.
    TypeScript2,
    /// The Rust SDK: pipes; over stdio alone, and with a mode. What only all tests need installs it.
    Rust,
}

/// The program of the Rust SDK, a client and (with `--serve`) a server with the tool `add`.
pub fn rust_sdk() -> PathBuf {
    places::real_servers().join("rust/debug/mcpwarden-rust-sdk")
}

impl Client {
    /// All but the Rust SDK's.
    pub const ALL: [Self; 3] = [Self::Python, Self::TypeScript, Self::TypeScript2];

    /// Starts the client on a plan; it logs what it sends and receives to `log`.
    ///
    /// # Errors
    /// The plan cannot be written or the client not be started.
    pub fn start(self, plan: &Plan, directory: &Path) -> Result<Driven> {
        let certificate = plan.certificate.as_ref();
        let (plan_path, log) = (directory.join("plan.json"), directory.join("log.jsonl"));
        let mut plan = serde_json::to_value(plan).context("cannot write the plan")?;
        if self == Self::TypeScript2 {
            plan["sdk"] = json!(2);
        }
        let text = plan.to_string();
        fs::write(&plan_path, text).with_context(|| format!("cannot write {}", plan_path.display()))?;
        let drivers = places::sources().join("clients");
        let mut command = match self {
            Self::Rust => Command::new(rust_sdk()),
            Self::Python => {
                let mut command = Command::new(places::real_servers().join("venv/bin/python"));
                command.arg(drivers.join("driver.py"));
                command
            }
            Self::TypeScript | Self::TypeScript2 => {
                let mut command = Command::new("node");
                command
                    .arg(drivers.join("driver.mjs"))
                    .env("MCPWARDEN_NODE", places::real_servers().join("node"));
                command
            }
        };
        let stderr = directory.join("stderr.txt");
        for name in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
            command.envs(certificate.map(|path| (name, path)));
        }
        command
            .args([&plan_path, &log])
            .stdin(Stdio::null())
            // Servers greet there; it is worth reading only where something failed.
            .stderr(File::create(&stderr).with_context(|| format!("cannot create {}", stderr.display()))?);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?} (`cargo xtask setup --tests` installs it)"))?;
        Ok(Driven { child, log, stderr })
    }
}

/// A client at work.
#[derive(Debug)]
pub struct Driven {
    child: Child,
    log: PathBuf,
    stderr: PathBuf,
}

impl Driven {
    /// The client's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and gives what it sent and received.
    ///
    /// # Errors
    /// It failed: something was not answered.
    pub fn finish(mut self) -> Result<Vec<(Dir, Value)>> {
        let status = self.child.wait().context("cannot wait for the client")?;
        if !status.success() {
            let said = fs::read_to_string(&self.stderr).unwrap_or_default();
            bail!("the client ended with {status}; it and its server said:\n{said}");
        }
        read_log(&self.log)
    }
}

/// What a client is to do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// Where the server is, if it is no program of the client's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is spoken there: `http` or `sse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// The server's program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: Value,
    /// Which tools to call: `{"name", "arguments"}`.
    pub calls: Vec<Value>,
    /// How the client settles the era of the protocol: `auto`, `legacy` or a version (the second editions of the SDKs).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// Where to write what each call gives its caller (the drivers say how), in place of ending where one fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<PathBuf>,
    /// What is asked for first, over a connection of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<String>,
    /// A certificate that the client trusts besides (PEM).
    #[serde(skip)]
    pub certificate: Option<PathBuf>,
    /// Wait with the calls until this file exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<PathBuf>,
}

/// A real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealServer {
    /// npm `@modelcontextprotocol/server-everything`.
    Everything,
    /// npm `@modelcontextprotocol/server-filesystem`.
    Filesystem,
    /// npm `@modelcontextprotocol/server-memory`.
    Memory,
    /// PyPI `mcp-server-time`.
    Time,
    /// PyPI `mcp-server-git`.
    Git,
}

impl RealServer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Everything, Self::Filesystem, Self::Memory, Self::Time, Self::Git];

    /// How to start it and what to call, with what it needs made in `directory`.
    ///
    /// # Errors
    /// `directory` cannot be filled.
    pub fn plan(self, directory: &Path) -> Result<Plan> {
        let path = |name: &str| directory.join(name).display().to_string();
        Ok(match self {
            Self::Everything => npm(
                "server-everything",
                &[],
                json!({}),
                &[("echo", json!({"message": "hallo"})), ("get-sum", json!({"a": 2, "b": 3}))],
            ),
            Self::Filesystem => {
                fs::create_dir_all(directory.join("files")).context("cannot make a directory")?;
                fs::write(directory.join("files/a.txt"), "naïve\n").context("cannot write a file")?;
                npm(
                    "server-filesystem",
                    &[&path("files")],
                    json!({}),
                    &[
                        ("list_directory", json!({"path": path("files")})),
                        ("read_text_file", json!({"path": path("files/a.txt")})),
                    ],
                )
            }
            Self::Memory => npm(
                "server-memory",
                &[],
                json!({"MEMORY_FILE_PATH": path("memory.jsonl")}),
                &[
                    (
                        "create_entities",
                        json!({"entities": [{
                            "name": "Ada", "entityType": "person", "observations": ["wrote the first program"],
                        }]}),
                    ),
                    ("read_graph", json!({})),
                ],
            ),
            Self::Time => pypi(
                "mcp-server-time",
                &["--local-timezone", "UTC"],
                &[
                    ("get_current_time", json!({"timezone": "Europe/Oslo"})),
                    (
                        "convert_time",
                        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
                    ),
                ],
            ),
            Self::Git => {
                repository(&directory.join("repository"))?;
                let repository = path("repository");
                pypi(
                    "mcp-server-git",
                    &["--repository", &repository],
                    &[
                        ("git_status", json!({"repo_path": repository})),
                        ("git_log", json!({"repo_path": repository})),
                    ],
                )
            }
        })
    }
}

fn npm(package: &str, args: &[&str], env: Value, calls: &[(&str, Value)]) -> Plan {
    let script = places::real_servers().join("node/node_modules/@modelcontextprotocol").join(package);
    let script = script.join("dist/index.js").display().to_string();
    let args = [script].into_iter().chain(args.iter().map(|arg| (*arg).to_owned())).collect();
    Plan { command: "node".into(), args, env, calls: calls.iter().map(call).collect(), ..Plan::default() }
}

fn pypi(package: &str, args: &[&str], calls: &[(&str, Value)]) -> Plan {
    Plan {
        command: places::real_servers().join("venv/bin").join(package),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: json!({}),
        calls: calls.iter().map(call).collect(),
        ..Plan::default()
    }
}

fn call((name, arguments): &(&str, Value)) -> Value {
    json!({"name": name, "arguments": arguments})
}

/// A repository with one commit.
fn repository(path: &Path) -> Result<()> {
    let steps: [&[&str]; 2] = [
        &["init", "-q"],
        &[
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "Begin",
        ],
    ];
    fs::create_dir_all(path).context("cannot make a directory")?;
    for arguments in steps {
        // A developer's own settings (hooks, signing) stay out of it.
        let status = Command::new("git")
            .args(arguments)
            .current_dir(path)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .status()
            .context("cannot start git (`cargo xtask setup --tests` installs it)")?;
        if !status.success() {
            bail!("git {arguments:?} failed ({status})");
        }
    }
    Ok(())
}
