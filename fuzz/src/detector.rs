//! Any text, as a definition, a result, arguments and a request.

use std::sync::LazyLock;

use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet, ToolNames};

static DETECTOR: LazyLock<Detector> =
    LazyLock::new(|| Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap());

/// Runs one input, where it is text.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    {
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
    }
}
