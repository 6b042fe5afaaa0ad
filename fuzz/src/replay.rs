//! Any lines as a recording, through the whole engine with everything on: the same lines give the same events.

use std::sync::{Arc, LazyLock};

use mcpwarden_policy::config::{Config, parse};
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::replay::Replay;
use mcpwarden_policy::{Engine, EngineConfig, Inspect, Output, settings};

static DETECTOR: LazyLock<Arc<Detector>> = LazyLock::new(|| {
    Arc::new(Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap())
});

/// So that there is something to wait for and to decide.
const SETTINGS: &[u8] = b"
inspection: { on_detection: { action: require_approval } }
policy: { fail_closed: true, rate_limits: { default_rpm: 60, default_burst: 2 } }
";

static CONFIG: LazyLock<Config> = LazyLock::new(|| parse(SETTINGS).unwrap().0);

/// What takes long to make is made once: the rules, and the patterns of names.
static ENGINE: LazyLock<EngineConfig> = LazyLock::new(|| EngineConfig {
    verbose: true,
    inspection: Some(Inspect {
        detector: DETECTOR.clone(),
        alert_threshold: CONFIG.inspection.alert_threshold,
    }),
    registry: settings::registry(&CONFIG),
    ..EngineConfig::new([0; 32])
});

fn events(lines: &[u8]) -> Vec<u8> {
    let engine = Engine::new(ENGINE.clone()).with_judge(Judge::new(&CONFIG, Vec::new(), &DETECTOR).unwrap());
    let (mut replay, mut outputs, mut events) = (Replay::new(engine), Vec::new(), Vec::new());
    let mut print = |outputs: &mut Vec<Output>| {
        for output in outputs.drain(..) {
            if let Output::Event(event) = output {
                serde_json::to_writer(&mut events, &event).unwrap();
            }
        }
    };
    for line in lines.split(|byte| *byte == b'\n') {
        let _ = replay.line(line, &mut outputs);
        print(&mut outputs);
    }
    while replay.wait(&mut outputs) {
        print(&mut outputs);
    }
    events
}

/// Runs one input.
pub fn run(lines: &[u8]) {
    assert_eq!(events(lines), events(lines));
}
