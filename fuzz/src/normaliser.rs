//! Every form that a text can be read in, with one rule that matches everywhere: offsets must lie in the text.

use std::sync::LazyLock;

use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};

const ANYWHERE: &str =
    "rules: [{id: any, title: t, why: w, category: exfiltration, severity: low, patterns: ['[a-z]']}]";

static DETECTOR: LazyLock<Detector> = LazyLock::new(|| {
    Detector::new(RuleSet::parse("anywhere", ANYWHERE).unwrap(), &DetectConfig::default()).unwrap()
});

/// Runs one input, where it is text.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    {
        for detection in DETECTOR.text("", text).detections {
            for found in detection.matches {
                assert!(text.is_char_boundary(found.position as usize));
            }
        }
    }
}
