//! Bytes of a stdio server through the whole core, as the agent hands them in, with the default policy.

#![allow(dead_code, reason = "no test needs all of it")]

use std::sync::{Arc, LazyLock};

use mcpwarden_policy::config::Config;
use mcpwarden_policy::detect::{Detector, RuleSet};
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::{
    ConnectionId, Cut, Direction, Engine, EngineConfig, EngineLimits, FrameCutter, GapCause, Input, Inspect,
    Limits, Output, ServerId, SessionId, Timestamp, settings,
};
use serde_json::Value;

pub const C2S: Direction = Direction::ClientToServer;
pub const S2C: Direction = Direction::ServerToClient;

const SECOND: u64 = 1_000_000_000;

/// An engine with the default configuration.
pub fn engine(detector: &Arc<Detector>) -> Engine {
    engine_of(&Config::default(), detector)
}

/// An engine as the agent makes one.
pub fn engine_of(config: &Config, detector: &Arc<Detector>) -> Engine {
    let alert_threshold = config.inspection.alert_threshold;
    let inspect = Inspect { detector: Arc::clone(detector), alert_threshold };
    let base = EngineConfig::new([7; 32]);
    let settings = EngineConfig {
        // Kept on purpose, up to a number of them: too many to be reached where it is counted what stays.
        limits: EngineLimits { departed: 4, ..base.limits.clone() },
        patterns: settings::patterns(config).unwrap(),
        declared: settings::declared(config),
        inspection: config.inspection.enabled.then_some(inspect),
        registry: settings::registry(config),
        ..base
    };
    Engine::new(settings).with_judge(Judge::new(config, Vec::new(), detector).unwrap())
}

/// The built-in rules.
pub static DETECTOR: LazyLock<Arc<Detector>> = LazyLock::new(|| {
    Arc::new(Detector::new(RuleSet::built_in().unwrap(), &settings::detect(&Config::default())).unwrap())
});

/// Servers whose bytes go through cutters into one engine.
pub struct Wire {
    pub engine: Engine,
    pub out: Vec<Output>,
    pub now: Timestamp,
    cutters: Vec<(ConnectionId, [FrameCutter; 2])>,
}

impl Wire {
    pub fn new(engine: Engine) -> Self {
        Self { engine, out: Vec::new(), now: Timestamp(SECOND), cutters: Vec::new() }
    }

    /// A connection of which it is not known what it is.
    pub fn attach(&mut self, connection: u64) {
        let cutters = [Limits::default(), Limits::default()].map(FrameCutter::new);
        self.cutters.push((ConnectionId(connection), cutters));
    }

    /// A server of the session `s`.
    pub fn open(&mut self, connection: u64, server: &str) {
        self.attach(connection);
        let (connection, session) = (ConnectionId(connection), SessionId("s".into()));
        let server = ServerId(server.into());
        self.input(|time| Input::Open { connection, time, session, server });
    }

    /// Bytes that were written in pieces, a second after what was before.
    pub fn pieces<'a>(
        &mut self,
        connection: u64,
        direction: Direction,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) {
        self.wait(1);
        let Self { engine, out, now, cutters } = self;
        let Some((id, cutters)) = cutters.iter_mut().find(|(id, _)| id.0 == connection) else { return };
        let cutter = &mut cutters[usize::from(direction == S2C)];
        for piece in pieces {
            cutter.push(piece, *now, &mut |cut| {
                engine.handle_at_once(input(*id, direction, *now, cut), *now, out)
            });
        }
    }

    /// Nobody holds the connection any more.
    pub fn close(&mut self, connection: u64) {
        let Some(at) = self.cutters.iter().position(|(id, _)| id.0 == connection) else { return };
        let (id, cutters) = self.cutters.remove(at);
        let Self { engine, out, now, .. } = self;
        for (mut cutter, direction) in cutters.into_iter().zip([C2S, S2C]) {
            cutter.finish(&mut |cut| engine.handle_at_once(input(id, direction, *now, cut), *now, out));
        }
        self.input(|time| Input::Closed { connection: id, time });
    }

    pub fn input<'a>(&mut self, input: impl FnOnce(Timestamp) -> Input<'a>) {
        self.engine.handle_at_once(input(self.now), self.now, &mut self.out);
    }

    /// Lets seconds go by.
    pub fn wait(&mut self, seconds: u64) {
        self.now = Timestamp(self.now.0 + seconds * SECOND);
        self.engine.tick(self.now, &mut self.out);
    }

    /// What was said since the last time, as JSON.
    pub fn events(&mut self) -> Vec<Value> {
        let events = self.out.drain(..).filter_map(|output| match output {
            Output::Event(event) => Some(serde_json::to_value(event).unwrap()),
            Output::Confirm { .. }
            | Output::Found(_)
            | Output::Drop(_)
            | Output::Refuse(_)
            | Output::GateStale { .. }
            | Output::Ask(_) => None,
            Output::Failed(error) => panic!("nothing was asked for: {error}"),
        });
        events.collect()
    }
}

/// As the agent's capture has it.
fn input(connection: ConnectionId, direction: Direction, time: Timestamp, cut: Cut<'_>) -> Input<'_> {
    match cut {
        Cut::Frame { bytes, time } => {
            Input::Frame { connection, direction, time, bytes, http: None, turn: None }
        }
        Cut::Ambiguous(framing) => Input::Ambiguous { connection, direction, time, framing },
        Cut::Junk { bytes, .. } => Input::Junk { connection, direction, time, bytes, broken: false },
        Cut::Lost { bytes } => Input::Junk { connection, direction, time, bytes, broken: true },
        Cut::TooLong { bytes } => {
            let cause = GapCause::TooLong;
            Input::Gap { connection, direction, time, bytes, cause, pid: None, offset: None }
        }
    }
}
