//! The configuration file while the agent runs: when it is read again, and what is made of it.
//!
//! A file is read and made settings of aside; then it is in force as a whole, or the configuration before stays in force.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpwarden_policy::{EngineConfig, Timestamp, config::GuardEntry, engine::Judge, network::NetworkRules};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    cli::RunOptions,
    config::{self, Config},
    control::{Answer, Code, Refusal},
    external::{Externals, Secrets},
    network::finished,
};

/// Keys that are in force only after a restart.
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
    /// The configuration itself.
    pub config: Config,
    /// The settings of the policy core.
    pub settings: EngineConfig,
    /// Its guards and detector.
    pub judge: Judge,
    /// The guards that others wrote, loaded.
    pub externals: Externals,
    /// Where processes may connect.
    pub rules: NetworkRules,
    /// The files that it was read from.
    pub source: Source,
}

/// The files of a configuration, and how they were before they were read.
pub struct Source {
    /// The file itself first.
    files: Vec<PathBuf>,
    read: Vec<Stamp>,
}

impl Source {
    /// The files of this configuration, as they are now.
    fn of(path: Option<&Path>, config: &Config) -> Self {
        let files = files(path, config);
        let read = stamps(&files);
        Self { files, read }
    }
}

/// A file as it was: another one, or another content, has another of these.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// Who waits for the outcome of a reload.
pub type Answering = Option<oneshot::Sender<Result<Answer, Refusal>>>;

/// A file that is being read.
struct Running {
    task: Option<JoinHandle<Result<Prepared, String>>>,
    reason: String,
    answer: Answering,
}

/// A file that was read.
pub struct Finished {
    /// Its path.
    pub path: String,
    /// Why it was read.
    pub reason: String,
    /// What was made of it, or why nothing could be.
    pub outcome: Result<Prepared, String>,
    /// Who waits for the outcome.
    pub answer: Answering,
}

/// What a configuration is made with, beside its file.
#[derive(Clone)]
struct Flags {
    key: [u8; 32],
    verbose: bool,
    show_payloads: bool,
    state_dir: Option<PathBuf>,
}

/// The configuration in force, and the file that it is read from.
pub struct Reload {
    /// `None` where the agent was started without a file.
    path: Option<PathBuf>,
    flags: Flags,
    /// The configuration that the agent was started with.
    started: Config,
    /// The configuration in force.
    current: Config,
    /// The files that are watched for changes, as they were when they were read last.
    source: Source,
    /// How they were when they were looked at last.
    looked: Vec<Stamp>,
    running: Option<Running>,
    /// A reload was requested since: why, and by whom.
    again: Option<(String, Answering)>,
    /// What is wrong with the file that was read last.
    error: Option<String>,
    /// When a usable file was read last.
    at: Timestamp,
}

impl Reload {
    /// The state of an agent that starts with this configuration.
    pub fn new(options: &RunOptions, config: Config, key: [u8; 32], now: Timestamp) -> Self {
        let RunOptions { config: path, verbose, show_payloads, state_dir, .. } = options;
        let path = path.clone().filter(|path| path != Path::new("-"));
        Self::of(
            path,
            Flags {
                key,
                verbose: *verbose,
                show_payloads: *show_payloads,
                state_dir: Some(state_dir.clone()),
            },
            config,
            now,
        )
    }

    fn of(path: Option<PathBuf>, flags: Flags, config: Config, now: Timestamp) -> Self {
        let source = Source::of(path.as_deref(), &config);
        Self {
            path,
            flags,
            started: config.clone(),
            current: config,
            looked: source.read.clone(),
            source,
            running: None,
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

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.current
    }

    /// The file that it is read from.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// When a usable one was read last.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Begins to read the configuration again, or does so after the reading that runs. False where there is no file to read.
    pub fn request(&mut self, reason: String, answer: Answering) -> bool {
        if self.running.is_some() {
            self.request_again(reason, answer);
            return true;
        }
        let Some(path) = self.path.clone() else {
            let why = "the agent was started without a configuration file (`run --config FILE`): there is nothing to reload";
            match answer {
                Some(answer) => drop(answer.send(Err(Code::NotFound.because(why)))),
                None => tracing::error!("cannot reload ({reason}): {why}"),
            }
            return false;
        };
        self.source.read = stamps(&self.source.files);
        let flags = self.flags.clone();
        let task =
            tokio::task::spawn_blocking(move || prepare(&path, flags).map_err(|error| format!("{error:#}")));
        self.running = Some(Running { task: Some(task), reason, answer });
        true
    }

    /// What has changed since the reading began may not be in what is being read.
    fn request_again(&mut self, reason: String, answer: Answering) {
        match (&self.again, answer) {
            (None, answer) => self.again = Some((reason, answer)),
            // The next reading is for this request, too.
            (Some(_), None) => {}
            // Whoever requested it may be gone.
            (Some(_), Some(answer)) => {
                let why = "a reload is running, and the next one is queued already: try again";
                drop(answer.send(Err(Code::Busy.because(why))));
            }
        }
    }

    /// The request that came while a file was read.
    pub fn take_again(&mut self) -> Option<(String, Answering)> {
        self.again.take()
    }

    /// Whether the files changed since they were read, and stayed as they are since this was called last.
    pub fn has_changed(&mut self) -> bool {
        let now = stamps(&self.source.files);
        let still = now == self.looked;
        let is_there = now.first().is_some_and(Option::is_some);
        let changed = still && is_there && now != self.source.read && self.running.is_none();
        self.looked = now;
        changed
    }

    /// Waits for what is being read; for ever where nothing is. `None`: reading ended without a result.
    pub async fn prepared(&mut self) -> Option<Result<Prepared, String>> {
        match &mut self.running {
            Some(running) => finished(&mut running.task).await,
            None => std::future::pending().await,
        }
    }

    /// What was read, as [`Self::prepared`] returned it. `None` where nothing was requested.
    pub fn finish(&mut self, prepared: Option<Result<Prepared, String>>) -> Option<Finished> {
        let Running { reason, answer, .. } = self.running.take()?;
        let path = self.path.as_ref()?.display().to_string();
        let outcome = prepared.unwrap_or_else(|| Err("the thread that read it failed".to_owned()));
        Some(Finished { path, reason, outcome, answer })
    }

    /// This configuration is in force.
    pub fn put_in_force(&mut self, config: Config, source: Source) {
        (self.current, self.source) = (config, source);
    }

    /// The outcome of the last reading; `None`: it is in force since `now`.
    pub fn set_outcome(&mut self, error: Option<String>, now: Timestamp) {
        if error.is_none() {
            self.at = now;
        }
        self.error = error;
    }

    /// The keys in which the configuration in force differs from that of the start, and that are in force only after a restart.
    pub fn needs_restart(&self) -> Vec<String> {
        needs_restart(&self.started, &self.current)
    }
}

/// Reads a file and makes everything of it that can be made aside.
fn prepare(path: &Path, flags: Flags) -> anyhow::Result<Prepared> {
    // As each was before it was read: what changes meanwhile is read again.
    let mut read = stamps(&[path.to_owned()]);
    let source = config::read(Some(path))?;
    let files = files(Some(path), &source.config);
    read.extend(stamps(files.get(1..).unwrap_or_default()));
    let (settings, judge) = config::settings(&source, flags.key, flags.verbose, flags.show_payloads)?;
    let externals = config::externals(&source, flags.state_dir.as_deref(), Secrets::ForEachRequest)?;
    let config = source.config;
    let rules = config::network_rules(&config)?;
    Ok(Prepared { config, settings, judge, externals, rules, source: Source { files, read } })
}

/// The files that a configuration is made of.
fn files(path: Option<&Path>, config: &Config) -> Vec<PathBuf> {
    let rules = config.inspection.rule_files.iter().map(|file| PathBuf::from(file.as_str()));
    let model = config.inspection.learned_scorer.model_file.iter().map(|file| PathBuf::from(file.as_str()));
    let module = |entry: &GuardEntry| {
        let path = entry.config.as_ref()?.module_path.as_ref()?;
        entry.enabled.then(|| PathBuf::from(path.as_str()))
    };
    let modules = config.guards.iter().filter_map(module);
    path.map(Path::to_owned).into_iter().chain(rules).chain(model).chain(modules).collect()
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    files.iter().map(|file| std::fs::metadata(file).ok().map(stamp)).collect()
}

/// The keys that differ and are in force only after a restart.
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

    fn reload(path: Option<&Path>) -> Reload {
        let config = mcpwarden_policy::config::parse(b"").unwrap().0;
        let flags = Flags { key: [0; 32], verbose: false, show_payloads: false, state_dir: None };
        Reload::of(path.map(Path::to_owned), flags, config, Timestamp(0))
    }

    /// A file that was written, and whether it is to be read when it is looked at.
    #[tokio::test]
    async fn changed_file_is_reloaded_once_it_rests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, "").unwrap();
        let mut reload = reload(Some(&path));
        assert!(!reload.has_changed(), "as it was read");
        std::fs::write(&path, "policy: {}").unwrap();
        assert!(!reload.has_changed(), "it may still be written");
        assert!(reload.has_changed(), "it rests");
        assert!(reload.request("changed".into(), None));
        assert!(!reload.has_changed(), "it is being read");
        let prepared = reload.prepared().await;
        let finished = reload.finish(prepared).unwrap();
        let prepared = finished.outcome.unwrap();
        reload.put_in_force(prepared.config, prepared.source);
        assert!(!reload.has_changed(), "it was read");
        std::fs::remove_file(&path).unwrap();
        assert!(![reload.has_changed(), reload.has_changed()].contains(&true), "it is not there");
    }

    #[tokio::test]
    async fn reload_requests_are_queued_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, "no_such_key: 1").unwrap();
        let mut reload = reload(Some(&path));
        let (first, mut refused) = (oneshot::channel(), oneshot::channel());
        assert!(reload.request("SIGHUP".into(), None));
        assert!(reload.request("the first".into(), Some(first.0)));
        assert!(reload.request("SIGHUP".into(), None), "read with the first");
        assert!(reload.request("the second".into(), Some(refused.0)));
        let refusal = refused.1.try_recv().unwrap().unwrap_err();
        assert_eq!(refusal.code, Code::Busy);
        let prepared = reload.prepared().await;
        let finished = reload.finish(prepared).unwrap();
        assert!(finished.outcome.is_err_and(|error| error.contains("no_such_key")));
        assert_eq!(finished.reason, "SIGHUP");
        let (reason, answer) = reload.take_again().unwrap();
        assert!(reason == "the first" && answer.is_some() && reload.take_again().is_none());
    }

    #[test]
    fn reload_without_a_file_is_refused() {
        let mut reload = reload(None);
        let (sender, mut receiver) = oneshot::channel();
        assert!(!reload.request("user 0".into(), Some(sender)));
        assert_eq!(receiver.try_recv().unwrap().unwrap_err().code, Code::NotFound);
    }
}
