//! `mcpwarden run`: the parts of the agent are made here, wired in [`agent`], and each lives in a file of its own.

mod agent;
mod counters;
mod fd_scans;
mod gate;
mod guards;
mod inspections;
mod manager;
mod measure;
mod outbox;
mod reconciler;
mod reload;
mod reporter;
mod ring;
mod shares;
mod signals;
mod sink_watch;
mod stores;
mod tls;
mod uncaptured;

use std::{fs::File, io, os::fd::AsFd as _};

use anyhow::{Context as _, Result, bail};
use mcpwarden_capture::Capture;
use mcpwarden_client::listing::Listing;
use mcpwarden_kernel::{Backend, Kernel, Setup, pins::Pins, requirements};
use mcpwarden_sinks::Sinks;
use mcpwarden_system::instance::{self, REDACTION_KEY};

use crate::{
    cli::RunOptions,
    config::{self, Config, StdioEnforcement},
    control::Control,
    external::Secrets,
    host::{cgroup, clock::Clock, namespaces::Namespaces, process},
    log,
    loss::LossWatch,
    metrics::Metrics,
    network::Network,
    output::Dates,
};
use agent::{Agent, Pending};
use fd_scans::FdScans;
use gate::Gate;
use guards::Guards;
use inspections::Inspections;
use manager::Manager;
use outbox::Outbox;
use reconciler::Reconciler;
use reload::Reload;
use reporter::Reporter;
use ring::{Refused, RingReader};
use shares::ShareWatch;
use sink_watch::SinkWatch;
use stores::Stores;
use tls::Tls;
use uncaptured::Uncaptured;

/// Runs until a signal ends it.
pub fn run(options: RunOptions) -> Result<()> {
    let source = config::read(options.config.as_deref())?;
    if let Some(need) = requirements::check(cgroup::mounted()).into_iter().find(|need| need.problem.is_some())
    {
        bail!("{}: {}", need.name, need.problem.unwrap_or_default());
    }
    let namespaces = Namespaces::here();
    if let Some(refusal) = namespaces.refusal(&source.config) {
        bail!("{refusal}");
    }
    let ring_bytes = options.ring_bytes.map_or(source.config.capture.ring_bytes.0, u64::from);
    let ring_bytes = config::check_ring(ring_bytes).map_err(anyhow::Error::msg)?;
    let _lock = instance::lock(&options.runtime_dir)?;
    let key = REDACTION_KEY.get(&options.state_dir)?;
    let mut engine = config::engine(&source, key, options.verbose, options.show_payloads)?;
    let externals = config::externals(&source, Some(&options.state_dir), Secrets::ForEachRequest)?;
    let config = source.config;
    let mut stores = Stores::open(&config, &options.state_dir)?;
    let mut newest = None;
    if let Some(mut pins) = stores.pins.take() {
        newest = pins.newest();
        engine = engine.with_store(Box::new(pins));
    }
    let mut network = Network::new(&config, config::network_rules(&config)?)?;
    let pins = Pins::of(&options.runtime_dir);
    if config.enforcement.persist {
        pins.prepare()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::behind(newest);
        let manager = Manager::find();
        let metrics = Metrics::start(config.metrics.listen)?;
        let mut sinks = Sinks::start(&config.sinks, &options.state_dir)?;
        let control = Control::start(&config.control, &options.runtime_dir)?;
        let mut kernel = attach(&options, &config, ring_bytes, &pins, &mut network, &clock)?;
        let ring = RingReader::new(kernel.ring()?, ring_bytes)?;
        if let Some(messages) = kernel.messages()? {
            tokio::spawn(log::show(messages));
        }
        sinks.print_to(standard_output().context("cannot print")?)?;
        let outbox = Outbox::new(options.output.format(), Dates::of(clock.now()), stores.events, stores.head);
        let mut guards = Guards::default();
        let guards_loaded = guards.configure(&externals).context("cannot start threads for guards")?;
        let mut agent = Agent {
            kernel,
            pins,
            capture: Capture::new(config::limits(&config), &process::Proc),
            engine,
            pending: Pending::default(),
            inspections: Inspections::default(),
            tls: Tls::open(&options.state_dir),
            guards,
            network,
            gate: Gate::default(),
            listing: Listing::start(&config, process::this())?,
            listings: std::collections::BTreeMap::new(),
            reporter: Reporter {
                outbox,
                sinks,
                sink_watch: SinkWatch::default(),
                followers: control.followers(),
                metrics,
            },
            control,
            reload: Reload::new(&options, config.clone(), key, clock.now()),
            manager,
            reconciler: Reconciler::default(),
            scans: FdScans::new(tokio::time::Instant::now()),
            uncaptured: Uncaptured::default(),
            loss: LossWatch::default(),
            refused: Refused::default(),
            shares: ShareWatch::default(),
            identity: Vec::new(),
            namespaces,
            programs: Vec::new(),
            since: clock.now(),
            steps: 0,
            clock,
        };
        agent.identity = agent.measure_identity();
        let met = agent.kernel.met();
        if let Some(met) = &met {
            agent.continue_from(met);
        }
        for body in stores.events_of_start {
            agent.reporter.report_store(body, &agent.clock);
        }
        for loaded in guards_loaded {
            agent.reporter.report(loaded.into(), &agent.clock);
        }
        if config.enforcement.stdio != StdioEnforcement::Observe {
            let checked = agent.gate.check(&config, &mut agent.engine, &agent.clock);
            checked.map_err(anyhow::Error::msg)?;
        }
        agent.gate.configure(&config, &mut agent.kernel);
        let result = agent.serve(ring, options.config.as_ref(), met).await;
        agent.finish();
        result
    })
}

/// Standard output, without the buffer and the lock of the standard library: how much of a text was written is known.
fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Loads and attaches the kernel half, or resumes that of an earlier agent.
fn attach(
    options: &RunOptions,
    config: &Config,
    ring_bytes: u32,
    pins: &Pins,
    network: &mut Network,
    clock: &Clock,
) -> Result<Kernel> {
    let backend = match options.backend.unwrap_or(config.capture.backend) {
        config::Backend::Auto => None,
        config::Backend::Trampolines => Some(Backend::Trampolines),
        config::Backend::Tracepoints => Some(Backend::Tracepoints),
    };
    let watched = config.network.cgroup_path.as_ref();
    let cgroup = watched.map_or_else(cgroup::root, |path| path.as_str().into());
    let hash = config::hash(config);
    let keep = config.enforcement.persist.then_some((pins, hash.as_str()));
    let setup = Setup { backend, ring_bytes, cgroup: &cgroup, keep };
    let kernel = Kernel::attach(&setup, |addresses| {
        network.resume(addresses)?;
        network.install(addresses, clock)
    })?;
    if let Some(reason) = kernel.unusable() {
        tracing::error!("cannot resume the programs of the previous agent, and attaches its own: {reason}");
    }
    Ok(kernel)
}
