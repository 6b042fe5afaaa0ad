//! Another configuration while the agent runs. It is read and made settings of aside, and then counts as a whole; or the one
//! before still does.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpwarden_policy::{
    EngineConfig, Timestamp,
    engine::Judge,
    event::{ConfigRefused, ConfigReloaded},
    http::LINK,
    network::NetworkRules,
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Agent, WATCHING, measure};
use crate::host::process;
use crate::{
    cli::RunOptions,
    config::{self, Config, StdioEnforcement},
    control::{Answer, Code, Refusal},
    network::finished,
    output::escaped,
};

/// Keys that are looked at when the agent starts, and not again.
const AT_START: &[&str] = &[
    "/capture/backend",
    "/capture/ring_bytes",
    "/capture/max_message_bytes",
    "/capture/reassembly_bytes",
    "/capture/per_uid_bytes",
    "/control",
    "/enforcement/persist",
    "/metrics/listen",
    "/network/cgroup_path",
    "/network/resolver/listen",
    "/registry/persistent",
    "/store",
];

/// Everything that follows from a configuration.
pub struct Prepared {
    config: Config,
    settings: EngineConfig,
    judge: Judge,
    rules: NetworkRules,
    /// The files that it is made of, and how they were.
    files: Vec<PathBuf>,
    read: Vec<Stamp>,
}

/// A file as it was: another one, or another content, has another of these.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// Who waits to hear what came of it.
type Answering = Option<oneshot::Sender<Result<Answer, Refusal>>>;

/// A file that is being read.
struct UnderWay {
    task: Option<JoinHandle<Result<Prepared, String>>>,
    reason: String,
    /// Who waits for what comes of it.
    answer: Answering,
}

/// The configuration that counts, and where it comes from.
pub struct Reload {
    /// None where the agent was started without a file.
    path: Option<PathBuf>,
    key: [u8; 32],
    verbose: bool,
    show_payloads: bool,
    /// The configuration that the agent was started with.
    started: Config,
    /// The one that counts.
    current: Config,
    /// What is looked at for changes, the file itself first.
    files: Vec<PathBuf>,
    /// How they were when they were read last, and when they were looked at last.
    read: Vec<Stamp>,
    looked: Vec<Stamp>,
    under_way: Option<UnderWay>,
    /// It was asked for since, why, and by whom.
    again: Option<(String, Answering)>,
    /// What is wrong with the file that was read last.
    error: Option<String>,
    at: Timestamp,
}

impl Reload {
    /// That of an agent that starts with this configuration.
    pub fn new(options: &RunOptions, config: Config, key: [u8; 32], now: Timestamp) -> Self {
        let RunOptions { config: path, verbose, show_payloads, .. } = options;
        let path = path.clone().filter(|path| path != Path::new("-"));
        let files = files(path.as_deref(), &config);
        let read = stamps(&files);
        Self {
            path,
            key,
            verbose: *verbose,
            show_payloads: *show_payloads,
            started: config.clone(),
            current: config,
            files,
            looked: read.clone(),
            read,
            under_way: None,
            again: None,
            error: None,
            at: now,
        }
    }

    /// Whether the configuration was usable when it was read last.
    pub fn succeeded(&self) -> bool {
        self.error.is_none()
    }

    /// What is wrong with the file that was read last, if something is.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The configuration that counts, and its file.
    pub fn current(&self) -> (&Config, Option<&Path>) {
        (&self.current, self.path.as_deref())
    }

    /// When a usable one was read last.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Waits for what is being read; for ever where nothing is. `None`: that failed without a word.
    pub async fn prepared(&mut self) -> Option<Result<Prepared, String>> {
        match &mut self.under_way {
            Some(under_way) => finished(&mut under_way.task).await,
            None => std::future::pending().await,
        }
    }
}

impl Agent {
    /// Begins to read the configuration again, or does so when what is being read counts. `reason`: why, as it is said.
    pub(super) fn reload(&mut self, reason: String, answer: Answering) {
        // Whoever sent the signal waits for a word, whatever comes of it.
        self.manager.reloading();
        if self.reload.under_way.is_some() {
            // What has changed since may not be in what is being read.
            match (&self.reload.again, answer) {
                (None, answer) => self.reload.again = Some((reason, answer)),
                // That one will have read it.
                (Some(_), None) => {}
                // Whoever asked may be gone.
                (Some(_), Some(answer)) => {
                    let why = "the configuration is being read already, and is then read again: try again";
                    drop(answer.send(Err(Code::Busy.because(why))));
                }
            }
            return;
        }
        let Some(path) = self.reload.path.clone() else {
            let why = "the agent was started without a configuration file (`run --config FILE`): there is nothing to reload";
            self.manager.ready(WATCHING);
            match answer {
                Some(answer) => drop(answer.send(Err(Code::NotFound.because(why)))),
                None => tracing::error!("{reason}: {why}"),
            }
            return;
        };
        let Reload { key, verbose, show_payloads, .. } = self.reload;
        self.reload.read = stamps(&self.reload.files);
        let task = tokio::task::spawn_blocking(move || {
            prepare(&path, key, verbose, show_payloads).map_err(|error| format!("{error:#}"))
        });
        self.reload.under_way = Some(UnderWay { task: Some(task), reason, answer });
    }

    /// Reads the configuration again where it changed, and stays as it is now.
    pub(super) fn look_for_change(&mut self) {
        let now = stamps(&self.reload.files);
        let still = now == self.reload.looked;
        let is_there = now.first().is_some_and(Option::is_some);
        if still && is_there && now != self.reload.read && self.reload.under_way.is_none() {
            self.reload("changed".into(), None);
        }
        self.reload.looked = now;
    }

    /// Goes by what was read, or says why not.
    pub(super) fn take_over(&mut self, prepared: Option<Result<Prepared, String>>) {
        let Some(under_way) = self.reload.under_way.take() else { return };
        let (Some(path), reason) = (&self.reload.path, under_way.reason) else { return };
        let path = path.display().to_string();
        let prepared = prepared.unwrap_or_else(|| Err("reading it failed".to_owned()));
        let outcome = prepared.and_then(|prepared| self.swap(prepared));
        // By whichever rules count now.
        self.deny_found();
        self.reload.error = outcome.as_ref().err().cloned();
        let answer = match outcome {
            Ok((config, config_hash)) => {
                // Whoever asked for it goes by what is denied from now on.
                self.renew_gate();
                self.reload.at = self.clock.now();
                let reloaded = ConfigReloaded {
                    path,
                    config_hash,
                    reason,
                    needs_restart: needs_restart(&self.reload.started, &config),
                };
                self.identity = measure::identity(&config, self.kernel.backend());
                self.say(reloaded.clone().into());
                self.manager.ready(WATCHING);
                Ok(Answer::Reloaded(Box::new(reloaded)))
            }
            Err(error) => {
                tracing::error!("the configuration of before still counts: {}", escaped(&error));
                self.manager.ready(&format!(
                    "watching; the configuration of before still counts: {}",
                    escaped(&error)
                ));
                self.say(ConfigRefused { path, reason, error: error.clone() }.into());
                Err(Code::Unusable.because(format!("the configuration of before still counts: {error}")))
            }
        };
        let _ = under_way.answer.map(|to| to.send(answer));
        process::give_memory_back();
        if let Some((reason, answer)) = self.reload.again.take() {
            self.reload(reason, answer);
        }
    }

    /// Goes by another configuration: first what may fail, and the whole of it or nothing. That, and its hash.
    fn swap(&mut self, prepared: Prepared) -> Result<(Config, String), String> {
        let Prepared { config, settings, judge, rules, files, read } = prepared;
        if config.enforcement.stdio != StdioEnforcement::Observe {
            self.check_gate(&config)?;
        }
        let before = self.network.rules().clone();
        let in_their_order: Vec<_> = rules.servers.iter().map(|server| server.id.clone()).collect();
        let listed = self.network.configure(&config, rules, self.kernel.addresses(), &self.clock);
        listed.map_err(|error| error.to_string())?;
        let rest = self.sinks.configure(&config.sinks).and_then(|()| self.listing.configure(&config));
        if let Err(error) = rest {
            // What could be installed before can be again: nothing else has changed.
            let current = &self.reload.current;
            if let Err(again) = self.network.configure(current, before, self.kernel.addresses(), &self.clock)
            {
                tracing::error!("network: {again}");
            }
            return Err(format!("{error:#}"));
        }
        self.engine.configure(settings, judge);
        let servers: Vec<_> = self.engine.servers().collect();
        for (connection, server) in servers {
            if connection.0 & LINK == 0 {
                self.confirm(connection, &server);
            }
        }
        (self.reload.files, self.reload.read) = (files, read);
        self.reload.current = config.clone();
        self.set_gate(&config);
        // An agent that starts with this configuration would go on with what is kept, where servers have the numbers that they
        // have after a start.
        let (hash, numbered) = (config::hash(&config), &self.network.rules().servers);
        let is_as_new = numbered.iter().map(|server| &server.id).eq(&in_their_order);
        self.kernel.now_keeps(is_as_new.then_some(hash.as_str()));
        Ok((config, hash))
    }
}

/// Reads a file and makes everything of it that can be made aside.
fn prepare(path: &Path, key: [u8; 32], verbose: bool, show_payloads: bool) -> anyhow::Result<Prepared> {
    // As each was before it was read: what changes meanwhile is read again.
    let mut read = stamps(&[path.to_owned()]);
    let source = config::read(Some(path))?;
    let files = files(Some(path), &source.config);
    read.extend(stamps(files.get(1..).unwrap_or_default()));
    let (settings, judge) = config::settings(&source, key, verbose, show_payloads)?;
    let config = source.config;
    let rules = config::network_rules(&config)?;
    Ok(Prepared { config, settings, judge, rules, files, read })
}

/// The files that a configuration is made of.
fn files(path: Option<&Path>, config: &Config) -> Vec<PathBuf> {
    let rules = config.inspection.rule_files.iter().map(|file| PathBuf::from(file.as_str()));
    path.map(Path::to_owned).into_iter().chain(rules).collect()
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    files.iter().map(|file| std::fs::metadata(file).ok().map(stamp)).collect()
}

/// What of a configuration counts only after a restart.
fn needs_restart(started: &Config, config: &Config) -> Vec<String> {
    let [before, now] = [started, config].map(|config| serde_json::to_value(config).unwrap_or_default());
    let changed = AT_START.iter().filter(|key| before.pointer(key) != now.pointer(key));
    changed.map(|key| key.trim_start_matches('/').replace('/', ".")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_start_only_settings_need_a_restart() {
        let config = |yaml: &str| mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap().0;
        for (before, now, expected) in [
            ("", "", &[][..]),
            ("", "policy: { fail_closed: true }", &[]),
            ("", "capture: { ring_bytes: 4096 }", &["capture.ring_bytes"]),
            ("", "metrics: { listen: null }", &["metrics.listen"]),
            ("store: { path: /a }", "store: { path: /b }", &["store"]),
            ("store: { path: /a }", "", &["store"]),
            (
                "",
                "network: { cgroup_path: /x, resolver: { listen: false } }",
                &["network.cgroup_path", "network.resolver.listen"],
            ),
        ] {
            assert_eq!(needs_restart(&config(before), &config(now)), expected, "{before:?} {now:?}");
        }
        // Each of them is a key: a name that is none would never differ.
        let full = config(
            "capture: { backend: tracepoints }\ncontrol: { group: x }\nnetwork: { cgroup_path: /x }\nstore: { path: /x }",
        );
        let full = serde_json::to_value(full).unwrap();
        for key in AT_START {
            assert!(full.pointer(key).is_some(), "{key} of {full}");
        }
    }
}
