//! The running agent: the wiring of its parts. Records go into capture, inputs into the policy core, and outputs to where they
//! are carried out.

mod configuration;
mod end;
mod listings;
mod mutes;
mod over_tls;
mod reconcile;
mod requests;
mod resume;
mod serve;
mod status;

use std::collections::{BTreeMap, VecDeque};

use mcpwarden_abi::{Counter, SET_ALL, SOCKET};
use mcpwarden_capture::{Capture, KernelAction, Output as Captured, SideRecord, Sink};
use mcpwarden_client::listing::{self as own, Listing};
use mcpwarden_kernel::{Kernel, ProgramStats, pins::Pins};
use mcpwarden_policy::{
    ConnectionId, Engine, Event, EventBody, Input, Inspected, Output, ServerId, Timestamp, http::LINK,
};

use super::{
    counters,
    fd_scans::FdScans,
    gate::Gate,
    guards::Guards,
    inspections::Inspections,
    manager::Manager,
    measure,
    reconciler::Reconciler,
    reload::Reload,
    reporter::Reporter,
    ring::{Refused, RingReader},
    shares::{self, ShareWatch},
    tls::{Searched, Tls},
    uncaptured::Uncaptured,
};
use crate::{
    control::{Control, ListingView},
    external::Answered,
    host::{clock::Clock, files, namespaces::Namespaces},
    loss::LossWatch,
    metrics::{Sample, Snapshot, TIMED},
    network::{Network, NetworkUpdate},
};

/// The status of an agent that works, as the service manager shows it.
const WATCHING: &str = "watching";

/// The parts of the agent.
pub struct Agent {
    /// The programs and tables in the kernel.
    pub kernel: Kernel,
    /// What agents before this one left, and this one leaves.
    pub pins: Pins,
    /// Records into streams and frames.
    pub capture: Capture,
    /// The policy core.
    pub engine: Engine,
    /// Outputs of capture and the policy core that wait for these to return.
    pub pending: Pending,
    /// Long messages that are inspected apart.
    pub inspections: Inspections,
    /// Clients whose TLS is read.
    pub tls: Tls,
    /// Guards that others wrote.
    pub guards: Guards,
    /// Where processes may connect.
    pub network: Network,
    /// Which calls are stopped.
    pub gate: Gate,
    /// The listing of declared servers by the agent itself.
    pub listing: Listing,
    /// What came of it last, by server.
    pub listings: BTreeMap<String, ListingView>,
    /// The requests of operators.
    pub control: Control,
    /// The configuration in force.
    pub reload: Reload,
    /// What events go to.
    pub reporter: Reporter,
    /// The service manager.
    pub manager: Manager,
    /// What is to be compared with the captured streams.
    pub reconciler: Reconciler,
    /// Scans of descriptors.
    pub scans: FdScans,
    /// Processes with standard streams that are not captured.
    pub uncaptured: Uncaptured,
    /// Losses that were reported.
    pub loss: LossWatch,
    /// What the queue behind the ring refused, as of when records were last taken in.
    pub refused: Refused,
    /// What users lost to their shares in the kernel half, as it was reported.
    pub shares: ShareWatch,
    /// Metrics that change with the configuration alone.
    pub identity: Vec<Sample>,
    /// The namespaces of the agent.
    pub namespaces: Namespaces,
    /// Numbers of the kernel half's programs, as they were read last.
    pub programs: Vec<ProgramStats>,
    /// The clocks of this host.
    pub clock: Clock,
    /// Steps of the wall clock that were reported.
    pub steps: u64,
    /// When the agent was started.
    pub since: Timestamp,
}

/// Outputs that wait until the part that made them has returned.
#[derive(Default)]
pub struct Pending {
    /// Of the policy core.
    outputs: Vec<Output>,
    /// Of capture: records that are no part of a stream.
    records: VecDeque<SideRecord>,
    /// Of capture: changes in the kernel half.
    actions: Vec<KernelAction>,
}

impl Agent {
    /// Takes in one record of the kernel half.
    fn take(&mut self, record: &[u8], now: Timestamp) {
        let timed = self.capture.counters().records.is_multiple_of(TIMED);
        self.feed(now, timed, |capture, clock, sink| capture.record(record, clock, now, sink));
        while let Some(record) = self.pending.records.pop_front() {
            self.take_aside(record, now, timed);
        }
        self.execute();
    }

    /// Takes in a record that is no part of a stream.
    fn take_aside(&mut self, record: SideRecord, now: Timestamp, timed: bool) {
        match record {
            SideRecord::Connect(header, info) => {
                if let Some(connect) = self.network.connect(&header, &info, &self.clock) {
                    self.feed(now, timed, |_, _, sink| sink(Input::Connect(connect).into()));
                }
            }
            SideRecord::Socket(header, info) => {
                let id = header.connection;
                match self.network.connected(&header, &info) {
                    Some(connected) => {
                        let (client, uid) =
                            ((connected.client.pid, connected.client.start_ns), connected.client.uid);
                        let is_over_tls = connected.is_over_tls;
                        self.feed(now, timed, |capture, clock, sink| {
                            capture.open_socket(id, connected, clock, now, sink);
                        });
                        if is_over_tls {
                            self.connected_over_tls(client, uid);
                        }
                    }
                    None => self.forget_socket(header.offset, id),
                }
            }
            SideRecord::Gate(header, info) => {
                let (connection, time) = (ConnectionId(header.connection), self.clock.wall(header.time_ns));
                let connection = self.capture.sockets().link_of(connection).unwrap_or(connection);
                let decided = self.gate.decided(&header, &info);
                self.handle(Input::Gate { connection, time, decided });
            }
        }
    }

    /// Stops reading a TCP connection.
    fn forget_socket(&mut self, key: u64, number: u64) {
        self.kernel.remove_socket(key, number);
        self.capture.forget(number);
    }

    /// Has capture do something. The inputs that come of it go into the policy core at once, and all else waits for
    /// [`Self::execute`]. `timed`: the policy core is timed.
    fn feed(&mut self, now: Timestamp, timed: bool, body: impl FnOnce(&mut Capture, &Clock, &mut Sink<'_>)) {
        let Self { capture, engine, clock, reporter, pending, .. } = self;
        let Pending { outputs, records, actions } = pending;
        body(capture, clock, &mut |captured| match captured {
            Captured::Input(mut input) => {
                if let Input::Exec(exec) = &mut input {
                    files::complete(&mut exec.process, engine.declared());
                }
                reporter.metrics.time(timed, || engine.handle(input, now, outputs));
            }
            Captured::Record(record) => records.push_back(record),
            Captured::Kernel(action) => actions.push(action),
        });
    }

    /// Has capture do something, and carries out what comes of it.
    fn with_capture(&mut self, body: impl FnOnce(&mut Capture, &Clock, Timestamp, &mut Sink<'_>)) {
        let now = self.clock.now();
        self.feed(now, false, |capture, clock, sink| body(capture, clock, now, sink));
        self.execute();
    }

    /// Hands an input to the policy core. Its outputs wait for [`Self::execute`].
    fn handle(&mut self, input: Input<'_>) {
        self.engine.handle(input, self.clock.now(), &mut self.pending.outputs);
    }

    /// Does what is due by now.
    fn tick(&mut self, ring: &RingReader) {
        let now = self.clock.now();
        let users = ring.waiting();
        let is_behind = |uid| users.contains(&uid);
        self.feed(now, false, |capture, clock, sink| capture.tick(&is_behind, clock, now, sink));
        self.engine.tick(now, &mut self.pending.outputs);
        self.execute();
    }

    /// Has long messages inspected apart, as many at once as the policy core wants.
    pub(super) fn start_inspections(&mut self) {
        while let Some(long) = self.engine.next_inspection() {
            self.inspections.start(long);
        }
    }

    /// Takes in what was found in a long message, and all that waited for it.
    pub(super) fn take_inspected(&mut self, inspected: Inspected) {
        self.handle(Input::Inspected(inspected));
        self.execute();
    }

    /// Takes in what a guard that others wrote answered.
    pub(super) fn take_answer(&mut self, answered: Answered) {
        let Answered { id, answer, .. } = &answered;
        self.handle(Input::Answered { id, answer: answer.as_ref() });
        self.guards.note(&answered, self.clock.now());
        self.reporter.metrics.guard(&answered);
        self.execute();
    }

    /// Carries out what the policy core and capture have put out.
    fn execute(&mut self) {
        let mut outputs = std::mem::take(&mut self.pending.outputs);
        for output in outputs.drain(..) {
            self.execute_output(output);
        }
        self.pending.outputs = outputs;
        for action in std::mem::take(&mut self.pending.actions) {
            match action {
                KernelAction::Lift(key) => self.kernel.lift_socket(key),
                KernelAction::Found(endpoint, is_server) => self.kernel.found(&endpoint, is_server),
                KernelAction::Ended(number) => self.kernel.gate().end(number),
                KernelAction::Drop { key, number } => {
                    self.kernel.remove_socket(key, number);
                    self.with_capture(|capture, clock, now, sink| capture.close(number, clock, now, sink));
                }
            }
        }
    }

    fn execute_output(&mut self, output: Output) {
        match output {
            Output::Event(event) => self.emit(event),
            // Of the agent's own conversations nothing is captured.
            Output::Confirm { connection, .. } | Output::Drop(connection) if own::is_own(connection) => {}
            Output::Confirm { connection, .. } if connection.0 & (LINK | SOCKET) != 0 => {
                let now = self.clock.now();
                self.feed(now, false, |capture, _, sink| capture.sockets().confirm(connection, sink));
            }
            Output::Drop(connection) if connection.0 & (LINK | SOCKET) != 0 => {
                let now = self.clock.now();
                if let Some(key) = self.capture.sockets().key(connection.0)
                    && let Some(socket) = self.kernel.socket(key, connection.0)
                {
                    self.gate.forget_endpoint(&socket.endpoint);
                }
                self.feed(now, false, |capture, _, sink| capture.sockets().drop_link(connection, sink));
            }
            Output::Confirm { connection, server } => {
                self.confirm(connection, &server);
                self.scans.request(tokio::time::Instant::now());
            }
            // The kernel half goes on judging it.
            Output::Refuse(id) => self.capture.forget(id.0),
            Output::Drop(id) => {
                self.kernel.remove(id.0);
                self.capture.forget(id.0);
            }
            Output::Found(found) => {
                self.network.found(&found);
                self.deny_found();
            }
            Output::Ask(question) => self.guards.ask(question),
            Output::GateStale { since } => self.gate.is_stale_since(since),
            // Answered to the operator who commanded it.
            Output::Failed(_) => {}
        }
    }

    /// Holds a server to its rules.
    fn confirm(&mut self, connection: ConnectionId, server: &ServerId) {
        // Rules that it is denied by under any of its names; its own before others.
        let also = self.engine.names(connection);
        let sets = std::iter::once(server).chain(&also).map(|server| self.network.set_of(server));
        let set = sets.into_iter().find(|set| *set != SET_ALL).unwrap_or(SET_ALL);
        // Of one whose program is not known, the agent before may have known it: its rules stay in force.
        let is_new = self.capture.is_known(connection.0) || !self.kernel.is_confirmed(connection.0);
        if set != SET_ALL || is_new {
            self.kernel.confirm(connection.0, set);
        }
    }

    /// Denies the undeclared servers for which that is due.
    fn deny_found(&mut self) {
        for (found, denied) in self.network.judge_found(self.kernel.addresses(), &self.clock) {
            self.emit(Event {
                session_id: found.session,
                server_id: Some(found.server),
                server_type: Some(found.kind),
                ..Event::agent(self.clock.now(), denied.into())
            });
        }
    }

    /// Reports an event.
    fn emit(&mut self, event: Event) {
        self.gate.see_session(event.session_id.as_ref());
        self.reporter.emit(event, &self.clock);
    }

    /// Reports an event of the agent itself.
    fn report(&mut self, body: EventBody) {
        self.reporter.report(body, &self.clock);
    }

    /// Brings the gate's tables up to the facts of now.
    pub fn renew_gate(&mut self) {
        let (config, clock) = (self.reload.config(), &self.clock);
        let sockets = self.capture.sockets();
        let since = self.gate.renew(config, &mut self.engine, &mut self.kernel, clock, sockets);
        if let Some(since) = since {
            self.reporter.metrics.gate(since, self.clock.now());
        }
    }

    /// Takes in what the network has found out.
    fn take_network(&mut self, update: NetworkUpdate) {
        match update {
            NetworkUpdate::Answers(answers) => {
                self.network.answered(answers, self.kernel.addresses(), &self.clock);
            }
            NetworkUpdate::Opened(opened) => {
                for connect in opened.adopted {
                    self.handle(Input::Connect(connect));
                }
                self.execute();
                opened.closed.into_iter().for_each(|one| self.report(one.into()));
                self.network.close(&self.clock);
            }
        }
    }

    /// Everything that is counted anywhere, by name.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let Self { capture, kernel, network, control, reporter, gate, scans, .. } = self;
        let mut all = self.engine.counters_by_name();
        all.extend(capture.http_counters().into_iter().map(|(name, value)| (format!("http_{name}"), value)));
        all.extend(counters::of_programs(&self.programs));
        let mut add = |named: &[(&str, u64)]| {
            all.extend(named.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        };
        add(&counters::of_scans(scans));
        add(&counters::of_clock(self.steps));
        add(&counters::of_capture(capture.counters()));
        add(&counters::of_tls(capture.tls_counters()));
        add(&counters::of_queue(self.refused));
        add(&counters::of_kernel(kernel));
        add(&counters::of_network(&network.counters()));
        add(&counters::of_control(&control.counters()));
        add(&counters::of_followers(&reporter.followers.counters()));
        add(&counters::of_metrics(&reporter.metrics.counters()));
        add(&counters::of_sinks(reporter.sinks.counters()));
        add(&counters::of_log());
        add(&counters::of_store(&reporter.outbox.store().status()));
        add(&counters::of_gate(&gate.counters()));
        add(&self.guards.reports().counters());
        all.extend(self.listing.counters().into_iter().map(|(name, value)| (name.to_owned(), value)));
        all
    }

    /// What the agent cannot see on this kernel, and from where it runs.
    fn blind_spots(&self) -> Vec<String> {
        let mut blind_spots = self.kernel.blind_spots().to_vec();
        blind_spots.extend(self.namespaces.blind_spots(self.reload.config()));
        blind_spots
    }

    /// Metrics that change with the configuration alone.
    pub fn measure_identity(&self) -> Vec<Sample> {
        let blind_spots = self.blind_spots().len() as u64;
        measure::of_identity(self.reload.config(), self.kernel.backend(), blind_spots).into()
    }

    /// Makes these counters, and what is measured now, the metrics from now on.
    fn publish(&self, counters: BTreeMap<String, u64>, ring: &mut RingReader) {
        let mut samples = self.identity.clone();
        samples.extend(measure::of_reload(&self.reload, &self.clock));
        samples.push(measure::of_clock(&self.clock));
        samples.extend(measure::of_ring(&ring.usage()));
        samples.extend(measure::of_reporter(&self.reporter));
        samples.extend(measure::of_kernel(&self.kernel));
        samples.push(measure::of_http(&counters));
        samples.extend(measure::of_engine(&self.engine));
        samples.extend(measure::of_guards(&self.guards));
        self.reporter.metrics.publish(Snapshot { counters, samples });
    }

    /// Reports the losses since this was called last, by these counters.
    fn report_losses(&mut self, counters: &BTreeMap<String, u64>) {
        for loss in self.loss.look(counters) {
            self.report(loss.into());
        }
    }

    /// Reports who lost something to a share since this was called last.
    fn report_shares(&mut self, ring: &RingReader) {
        let queue = shares::of_queue(&ring.take_refused(shares::LOUD_MOST), self.refused);
        let total = self.kernel.counter(Counter::ShareRefusedRecords);
        let kernel = self.shares.look(&self.kernel.shares(), total);
        queue.into_iter().chain(kernel).for_each(|loss| self.report(loss.into()));
    }

    /// Closes the outputs, within bounds of time, and ends all else.
    pub fn finish(self) {
        let Self { reporter, .. } = self;
        reporter.finish();
    }
}
