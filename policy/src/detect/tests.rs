//! The detector as a whole: every rule with its examples, every subject, every bound.

use super::*;
use crate::event::Form;

fn detector() -> Detector {
    Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap()
}

/// What one rule alone finds in an example, given any weight.
fn finds(rule: &Rule, example: &str) -> bool {
    let mut alone = rule.clone();
    alone.support = false;
    alone.weights.values_mut().for_each(|weight| *weight = 100);
    let detector = Detector::new(RuleSet { rules: vec![alone] }, &DetectConfig::default()).unwrap();
    let json = serde_json::to_string(example).unwrap();
    rule.weights.keys().any(|scope| {
        let found = match scope {
            Scope::Definition => detector.text(Subject::Instructions, "", example),
            Scope::Name => detector.tool(&format!(r#"{{"inputSchema": {{"properties": {{{json}: 1}}}}}}"#)),
            Scope::Result => detector.result(&json, &ToolNames::default()),
            Scope::Argument => detector.arguments(&json),
            Scope::Request => {
                let [names, texts] =
                    [format!(r#"{{{json}: 1}}"#), json.clone()].map(|json| detector.sampling(&json));
                return !names.detections.is_empty() || !texts.detections.is_empty();
            }
        };
        !found.detections.is_empty()
    })
}

#[test]
fn every_rule_matches_what_it_must_and_nothing_it_must_not() {
    let mut wrong = Vec::new();
    for rule in RuleSet::built_in().unwrap().rules() {
        for (examples, expected) in [(&rule.examples.matches, true), (&rule.examples.passes, false)] {
            for example in examples {
                if finds(rule, example) != expected {
                    wrong.push(format!(
                        "{}: {example:?} must {}match",
                        rule.id,
                        if expected { "" } else { "not " }
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
