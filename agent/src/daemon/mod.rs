//! `mcpwarden run`: the ring is drained into the policy core, what comes out is carried out.

mod control;
mod counters;
mod effects;
mod end;
mod gate;
mod listing;
mod manager;
mod measure;
mod outbox;
mod reconcile;
mod reload;
mod resume;
mod status;

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use mcpwarden_abi as abi;
use mcpwarden_capture::{Capture, SideRecord};
use mcpwarden_client::listing::Listing;
use mcpwarden_kernel::{
    Backend, Kernel, Met, ProgramStats, Ring, Setup, boot_ns,
    fd_scan::{self, FdScan},
    fill::Fill,
    pins::Pins,
    requirements,
};
use mcpwarden_policy::{Engine, EventBody, Input, Timestamp, event::AgentStarted};
use mcpwarden_sinks::Sinks;
use mcpwarden_system::instance;
use mcpwarden_system::instance::REDACTION_KEY;
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};

use crate::host::{cgroup, clock::Clock, process};
use crate::{
    cli::RunOptions,
    config::{self, StdioEnforcement},
    control::Control,
    log,
    loss::LossWatch,
    metrics::{Metrics, Sample, Stage, TIMED},
    network::{self, Belonging, Network, NetworkUpdate},
    output::{PATIENCE, Writer},
};
use gate::Gate;
use manager::Manager;
use outbox::{Outbox, Stores};
use reload::Reload;

/// After a wake-up the reader waits this long and then drains to the end: half the cost of draining at once.
const NAP: Duration = Duration::from_millis(2);
/// Records taken before signals and timers get a turn.
const BATCH_RECORDS: usize = 4096;
/// How often positions are compared with the kernel's.
const RECONCILE_EVERY: Duration = Duration::from_secs(1);
/// How often holders are counted when nothing asks for it sooner.
const FD_SCAN_EVERY: Duration = Duration::from_secs(5);
/// How soon after a server was confirmed: somebody else may hold its channels (a client that forked twice).
const FD_SCAN_SOON: Duration = Duration::from_millis(10);
/// How long the start waits for the addresses of names.
const FIRST_NAMES: Duration = Duration::from_secs(3);
/// How long an ending agent waits for its sinks.
const LAST_SENT: Duration = Duration::from_millis(400);

/// Runs until a signal or a closed output ends it.
pub fn run(options: RunOptions) -> Result<()> {
    let source = config::read(options.config.as_deref())?;
    if let Some(need) = requirements::check(cgroup::mounted()).into_iter().find(|need| need.problem.is_some())
    {
        bail!("{}: {}", need.name, need.problem.unwrap_or_default());
    }
    let ring_bytes = options.ring_bytes.map_or(source.config.capture.ring_bytes.0, u64::from);
    let ring_bytes = config::check_ring(ring_bytes).map_err(anyhow::Error::msg)?;
    let _lock = instance::lock(&options.runtime_dir)?;
    let key = REDACTION_KEY.get(&options.state_dir)?;
    let mut engine = config::engine(&source, key, options.verbose, options.show_payloads)?;
    let config = source.config;
    let stores = Stores::open(&config, &options.state_dir)?;
    if let Some(pins) = stores.pins {
        engine = engine.with_store(Box::new(pins));
    }
    let mut network = Network::new(&config, config::network_rules(&config)?)?;
    let watched = config.network.cgroup_path.as_ref();
    let cgroup = watched.map_or_else(cgroup::root, |path| path.as_str().into());
    let backend = match options.backend.unwrap_or(config.capture.backend) {
        config::Backend::Auto => None,
        config::Backend::Trampolines => Some(Backend::Trampolines),
        config::Backend::Tracepoints => Some(Backend::Tracepoints),
    };
    let pins = Pins::of(&options.runtime_dir);
    if config.enforcement.persist {
        pins.prepare()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::new();
        let manager = Manager::find();
        let metrics = Metrics::start(config.metrics.listen)?;
        let sinks = Sinks::start(&config.sinks, &options.state_dir)?;
        let control = Control::start(&config.control, &options.runtime_dir)?;
        let hash = config::hash(&config);
        let keep = config.enforcement.persist.then_some((&pins, hash.as_str()));
        let setup = Setup { backend, ring_bytes, cgroup: &cgroup, keep };
        let mut kernel = Kernel::attach(&setup, |addresses| {
            network.go_on(addresses)?;
            network.install(addresses, &clock)
        })?;
        if let Some(reason) = kernel.unusable() {
            tracing::error!("cannot go on with what the agent before left, and attaches its own: {reason}");
        }
        let ring = kernel.ring()?;
        if let Some(messages) = kernel.messages()? {
            tokio::spawn(log::show(messages));
        }
        let fill = Fill::map(&ring, ring_bytes).context("cannot see how full the ring is")?;
        // SAFETY: the ring owns its descriptor and keeps it open and the same until it is dropped.
        let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
            .context("cannot wait for the ring")?;
        let writer = Writer::start().context("cannot start the output thread")?;
        let format = options.output.format();
        let identity = measure::identity(&config, kernel.backend());
        let mut agent = Agent {
            kernel,
            pins,
            capture: Capture::new(config::limits(&config), &process::Proc),
            engine,
            network,
            control,
            manager,
            metrics,
            sinks,
            identity,
            reload: Reload::new(&options, config.clone(), key, clock.now()),
            since: clock.now(),
            fill,
            ring_most: 0,
            listing: Listing::start(&config, process::this())?,
            gate: Gate::default(),
            clock,
            outbox: Outbox::new(format, writer.sender(), stores.events, stores.head),
            outputs: Vec::new(),
            fd_scan_soon: false,
            programs: Vec::new(),
            counted: None,
            positions: None,
            sockets: None,
            waited: VecDeque::new(),
            read_ns: 0,
            loss: LossWatch::default(),
            censuses_failed: 0,
            tasks_skipped: 0,
        };
        let met = agent.kernel.met();
        if let Some(met) = &met {
            agent.meet(met);
        }
        stores.said.into_iter().for_each(|body| agent.say_of_store(body));
        if config.enforcement.stdio != StdioEnforcement::Observe {
            agent.check_gate(&config).map_err(anyhow::Error::msg)?;
        }
        agent.set_gate(&config);
        let result = agent.serve(ring, options.config.as_ref(), met).await;
        let (outbox, sinks) = agent.into_ends();
        let until = Instant::now() + PATIENCE;
        outbox.finish(until);
        writer.finish(until);
        sinks.finish(LAST_SENT);
        result
    })
}

struct Agent {
    kernel: Kernel,
    /// What agents before this one left, and this one leaves.
    pins: Pins,
    capture: Capture,
    engine: Engine,
    network: Network,
    control: Control,
    manager: Manager,
    metrics: Metrics,
    sinks: Sinks,
    /// Metrics that change with the configuration alone.
    identity: Vec<Sample>,
    reload: Reload,
    /// When it was started.
    since: Timestamp,
    fill: Fill,
    /// Most that was in the ring when it was drained, since it was last said. Bytes.
    ring_most: u64,
    listing: Listing,
    gate: Gate,
    clock: Clock,
    outbox: Outbox,
    outputs: Vec<mcpwarden_policy::Output>,
    /// Somebody asked for an fd scan before the next regular one.
    fd_scan_soon: bool,
    programs: Vec<ProgramStats>,
    /// An fd scan that was taken and not yet held against the streams.
    counted: Option<FdScan>,
    /// The kernel's positions, read and not yet held against the streams.
    positions: Option<Vec<(u64, abi::Connection)>>,
    /// The same of TCP connections; `None` of those that are not there any more.
    sockets: Option<Vec<(u64, Option<[abi::Stream; 2]>)>>,
    /// Records that come before those in the ring.
    waited: VecDeque<Box<[u8]>>,
    /// When the latest of these was read; nanoseconds since boot.
    read_ns: u64,
    loss: LossWatch,
    censuses_failed: u64,
    tasks_skipped: u64,
}

/// Whether the ring was drained to its end.
#[derive(PartialEq)]
enum Drained {
    All,
    Part,
}

/// What an agent does that is ready, for people.
const WATCHING: &str = "watching";

/// What went wrong where an fd scan at start fails.
const NO_FD_SCAN: &str = "cannot read the fd scan";

impl Agent {
    async fn serve(
        &mut self,
        mut ring: AsyncFd<Ring>,
        config: Option<&PathBuf>,
        met: Option<Met>,
    ) -> Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut ended = self.first_names(&mut interrupt, &mut terminate).await;
        let found = match met {
            Some(_) => self.adopt_behind(ring.get_mut())?,
            None => self.adopt()?,
        };
        // What existed when the fd scan ended is taken in first; what comes meanwhile does not hold the start up.
        while ended.is_none()
            && self.drain(ring.get_mut()) == Drained::Part
            && self.capture.latest_ns() <= found.ended_ns
        {
            ended = self.flush(&mut interrupt, &mut terminate).await;
        }
        if ended.is_none() {
            self.with_capture(|capture, _, _, sink| capture.go_on(sink));
            self.collect(&found);
            met.into_iter().for_each(|met| self.part(&met));
        }
        // What is judged by the one before is from now on judged by this one, too.
        if ended.is_none() {
            self.renew_gate();
        }
        // Whoever ends before it is ready leaves to the one before what that does.
        let taken_over = if ended.is_none() { self.succeed()? } else { None };
        self.say(EventBody::AgentStarted(AgentStarted {
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: requirements::release(),
            backend: self.kernel.backend().name().into(),
            boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|id| id.trim().to_owned()),
            config: config.map(|path| path.display().to_string()),
            programs: self.kernel.attached().to_vec(),
            blind_spots: self.kernel.blind_spots().to_vec(),
            servers_adopted: self.engine.counters().servers,
            taken_over,
        }));
        self.publish(self.counters());
        self.metrics.stage(Stage::Running);
        // That is on its way before anybody hears that the agent is ready.
        if ended.is_none() {
            ended = self.flush(&mut interrupt, &mut terminate).await;
        }
        self.renew_gate();
        self.manager.ready(WATCHING);
        process::give_memory_back();
        process::give_program_back();
        let belonging = Belonging { members: self.kernel.members().all(), sets: self.kernel.confirmed() };
        self.network.adopt(belonging, &self.clock);
        let mut fd_scan: Option<JoinHandle<std::io::Result<FdScan>>> = None;
        let start = tokio::time::Instant::now();
        let (mut next_reconcile, mut next_fd_scan) = (start + RECONCILE_EVERY, start + FD_SCAN_EVERY);
        let reason = loop {
            // Not asked again after the first word to end.
            if let Some(reason) = ended.take() {
                break reason;
            }
            self.renew_gate();
            if let Some(reason) = self.flush(&mut interrupt, &mut terminate).await {
                break reason;
            }
            // What was read from the kernel's tables is held against a ring that was drained since, up to what came
            // later. Events that come of it are handed on in between, so that they do not pile up.
            if self.counted.is_some() || self.positions.is_some() {
                if self.drain(ring.get_mut()) == Drained::Part && self.capture.latest_ns() <= self.read_ns {
                    continue;
                }
                self.compare();
                continue;
            }
            if std::mem::take(&mut self.fd_scan_soon) {
                next_fd_scan = next_fd_scan.min(tokio::time::Instant::now() + FD_SCAN_SOON);
            }
            let deadline = self.deadline().min(next_reconcile).min(next_fd_scan);
            tokio::select! {
                biased;
                _ = interrupt.recv() => break "SIGINT",
                _ = terminate.recv() => break "SIGTERM",
                _ = self.outbox.closed() => break "output closed",
                _ = hangup.recv() => self.reload("SIGHUP".into(), None),
                prepared = self.reload.prepared() => self.take_over(prepared),
                done = network::finished(&mut fd_scan) => {
                    let done = done.and_then(Result::ok);
                    // Without one nothing is collected and nobody new is found until the next.
                    self.censuses_failed += u64::from(done.is_none());
                    self.counted = done;
                    self.read_ns = boot_ns();
                }
                news = self.network.news() => self.hear(news),
                Some(request) = self.control.next() => self.obey(request),
                Some(report) = self.listing.next() => self.hear_server(report),
                () = tokio::time::sleep_until(deadline) => {
                    let now = tokio::time::Instant::now();
                    self.tick();
                    self.expire_blocks();
                    self.deny_found();
                    self.network.ask();
                    if now >= next_reconcile {
                        next_reconcile = now + RECONCILE_EVERY;
                        self.housekeeping();
                        // What no event tells, such as that a list is whole.
                        self.gate.touch();
                    }
                    if now >= next_fd_scan && fd_scan.is_none() {
                        next_fd_scan = now + FD_SCAN_EVERY;
                        match self.kernel.fd_scan() {
                            Ok(file) => {
                                let asked = self.suspects();
                                fd_scan = Some(tokio::task::spawn_blocking(move || fd_scan::take(file, &asked)));
                            }
                            Err(_) => self.censuses_failed += 1,
                        }
                    }
                }
                ready = ring.readable_mut() => {
                    let Ok(mut ready) = ready else { break "the ring cannot be waited for" };
                    tokio::time::sleep(NAP).await;
                    if self.drain(ready.get_inner_mut()) == Drained::All {
                        ready.clear_ready();
                    }
                }
            }
        };
        self.end(ring, reason, &mut interrupt, &mut terminate).await;
        Ok(())
    }

    /// Asks for all names, and waits for them no longer than is good for a start. A signal that came meanwhile.
    async fn first_names(&mut self, interrupt: &mut Signal, terminate: &mut Signal) -> Option<&'static str> {
        self.network.ask();
        if self.network.is_asking() {
            tokio::select! {
                _ = interrupt.recv() => return Some("SIGINT"),
                _ = terminate.recv() => return Some("SIGTERM"),
                news = self.network.news() => self.hear(news),
                () = tokio::time::sleep(FIRST_NAMES) => {}
            }
        }
        None
    }

    /// Takes in what the network was asked.
    fn hear(&mut self, news: NetworkUpdate) {
        match news {
            NetworkUpdate::Answers(answers) => {
                self.network.answered(answers, self.kernel.addresses(), &self.clock)
            }
            NetworkUpdate::Opened(opened) => {
                let now = self.clock.now();
                for connect in opened.adopted {
                    self.engine.handle(Input::Connect(connect), now, &mut self.outputs);
                }
                self.carry_out();
                opened.closed.into_iter().for_each(|one| self.say(one.into()));
                self.network.close(&self.clock);
            }
        }
    }

    /// Has the kernel half register servers that already run.
    fn adopt(&mut self) -> Result<FdScan> {
        self.kernel.adopt(true)?;
        let first = fd_scan::take(self.kernel.fd_scan()?, &HashSet::new());
        self.kernel.adopt(false)?;
        self.kernel.members().adopt(&process::parents());
        first.context(NO_FD_SCAN)?;
        // Once more: a client that is nobody's parent was passed before its server's channels were known.
        fd_scan::take(self.kernel.fd_scan()?, &HashSet::new()).context(NO_FD_SCAN)
    }

    /// When the next thing is due that no record announces.
    fn deadline(&self) -> tokio::time::Instant {
        let now = self.clock.now();
        let expiry = self.network.next_expiry(&self.clock);
        let next = [self.engine.next_deadline(), self.capture.next_deadline(), expiry, self.gate.until()]
            .into_iter()
            .flatten()
            .min();
        let wait = next.map_or(RECONCILE_EVERY, |at| Duration::from_nanos(at.nanos_since(now)));
        // Not sooner than a millisecond: what is due now is done together with what comes until then.
        tokio::time::Instant::now() + wait.max(Duration::from_millis(1))
    }

    fn drain(&mut self, ring: &mut Ring) -> Drained {
        let mut now = self.clock.now();
        self.ring_most = self.ring_most.max(self.fill.used());
        for count in 0..BATCH_RECORDS {
            if self.outbox.is_full() {
                return Drained::Part;
            }
            if count % 64 == 63 {
                now = self.clock.now();
            }
            if let Some(record) = self.waited.pop_front() {
                self.take(&record, now);
            } else if let Some(record) = ring.pop() {
                self.take(&record, now);
            } else {
                self.metrics.drained();
                self.manager.drained();
                return Drained::All;
            }
        }
        Drained::Part
    }

    /// Takes in one record.
    fn take(&mut self, record: &[u8], now: Timestamp) {
        let (engine, outputs, metrics) = (&mut self.engine, &mut self.outputs, &self.metrics);
        let timed = self.capture.counters().records.is_multiple_of(TIMED);
        let sink = &mut |input: Input<'_>| metrics.time(timed, || engine.handle(input, now, outputs));
        match self.capture.record(record, &self.clock, now, sink) {
            Some(SideRecord::Connect(header, info)) => {
                if let Some(connect) = self.network.connect(&header, &info, &self.clock) {
                    sink(Input::Connect(connect));
                }
            }
            Some(SideRecord::Socket(header, info)) => {
                let id = header.connection;
                match self.network.connected(&header, &info) {
                    Some(connected) => self.capture.open_socket(id, connected, &self.clock, now, sink),
                    None => {
                        self.kernel.remove_socket(header.offset, id);
                        self.capture.forget(id);
                    }
                }
            }
            Some(SideRecord::Gate(header, info)) => self.hear_gate(&header, &info),
            None => {}
        }
        self.carry_out();
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        let (engine, outputs) = (&mut self.engine, &mut self.outputs);
        self.capture.tick(&self.clock, now, &mut |input| engine.handle(input, now, outputs));
        engine.tick(now, outputs);
        self.carry_out();
    }

    /// Hands on what capture finds.
    fn with_capture(
        &mut self,
        body: impl FnOnce(&mut Capture, &Clock, Timestamp, &mut dyn FnMut(Input<'_>)),
    ) {
        let now = self.clock.now();
        let (engine, outputs) = (&mut self.engine, &mut self.outputs);
        body(&mut self.capture, &self.clock, now, &mut |input| engine.handle(input, now, outputs));
        self.carry_out();
    }

    /// Hands the events on. Waits while the store or whoever reads the output is behind; a signal or a closed output ends
    /// the wait, and is returned as the reason to stop.
    async fn flush(&mut self, interrupt: &mut Signal, terminate: &mut Signal) -> Option<&'static str> {
        // Signals first, so that a flood of records cannot keep them away. The events stay where they are until there is
        // a place for them: there are last words.
        tokio::select! {
            biased;
            _ = interrupt.recv() => Some("SIGINT"),
            _ = terminate.recv() => Some("SIGTERM"),
            taken = self.outbox.flush() => (!taken).then_some("output closed"),
        }
    }

    /// The outbox alone: all else ends.
    fn into_ends(self) -> (Outbox, Sinks) {
        (self.outbox, self.sinks)
    }
}
