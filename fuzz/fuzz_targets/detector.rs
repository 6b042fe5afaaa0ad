//! Any text, as a definition, a result, arguments and a request.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet, ToolNames};

static DETECTOR: LazyLock<Detector> =
    LazyLock::new(|| Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap());

fuzz_target!(|text: &str| {
    let tools = ToolNames::new(["send_mail", "read_file"]);
    for inspection in [
        DETECTOR.tool(text),
        DETECTOR.result(text, &tools),
        DETECTOR.arguments(text),
        DETECTOR.sampling(text),
        DETECTOR.text("", text),
    ] {
        assert!(inspection.detections.len() <= 64);
    }
});
