//! Rules tried on their own examples: one that does not find what it says it finds is no rule.

use serde_json::json;

use super::{Rule, RuleSet, Scope};
use crate::{DetectConfig, Detector, ScorerModel, ToolNames};

/// The examples of a rule that it is wrong about: its text, and whether it must match.
///
/// # Errors
/// The rule does not compile by itself.
pub(crate) fn wrong(rule: &Rule) -> Result<Vec<(&str, bool)>, String> {
    let mut alone = rule.clone();
    // Support is found only beside others, and what weighs little adds up with them: an example is about the match.
    alone.support.clear();
    alone.weights.values_mut().for_each(|weight| *weight = 100);
    let config = DetectConfig { scorer: ScorerModel::Off, ..DetectConfig::default() };
    let detector = Detector::new(RuleSet { rules: vec![alone], scanner: None }, &config);
    let detector = detector.map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    let must = rule.examples.matches.iter().map(|text| (text.as_str(), true));
    let must_not = rule.examples.passes.iter().map(|text| (text.as_str(), false));
    Ok(must.chain(must_not).filter(|(text, must)| finds(&detector, rule, text) != *must).collect())
}

/// Whether the rule finds something in the text, in some scope that it looks at.
fn finds(detector: &Detector, rule: &Rule, example: &str) -> bool {
    let text = json!(example).to_string();
    let name = json!({"properties": {example: 1}}).to_string();
    rule.weights.keys().any(|scope| {
        let inspections =
            match scope {
                Scope::Definition => vec![detector.text("", example)],
                Scope::Name => vec![detector.tool(&name)],
                Scope::Result => vec![detector.result(&text, &ToolNames::default())],
                Scope::Argument => vec![detector.arguments(&text)],
                Scope::Request => vec![detector.sampling(&name), detector.sampling(&text)],
                Scope::Value => {
                    vec![detector.tool(&json!({"properties": {"path": {"default": example}}}).to_string())]
                }
                Scope::ReadOnly => vec![detector.tool(
                    &json!({"description": example, "annotations": {"readOnlyHint": true}}).to_string(),
                )],
            };
        inspections.iter().any(|inspection| !inspection.detections.is_empty())
    })
}
