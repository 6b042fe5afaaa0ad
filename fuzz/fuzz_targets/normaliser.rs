//! Every form that a text can be read in, with one rule that matches everywhere: offsets must lie in the text.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};

const ANYWHERE: &str = "rules: [{id: any, title: t, why: w, category: exfiltration, severity: low, patterns: ['[a-z]']}]";

static DETECTOR: LazyLock<Detector> =
    LazyLock::new(|| Detector::new(RuleSet::parse("anywhere", ANYWHERE).unwrap(), &DetectConfig::default()).unwrap());

fuzz_target!(|text: &str| {
    for detection in DETECTOR.text("", text).detections {
        for found in detection.matches {
            assert!(text.is_char_boundary(found.position as usize));
        }
    }
});
