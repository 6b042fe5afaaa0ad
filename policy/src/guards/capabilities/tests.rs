use serde_json::json;

use super::super::rules::tool_rules;
use super::super::tests::{World, at, call, tool};
use super::*;
use crate::guard::{Profile, ToolFacts};

fn gate(kind: GuardKind, tools: serde_json::Value) -> CapabilityCheck {
    let rules: Vec<crate::config::ToolRule> = serde_json::from_value(tools).unwrap();
    let tools = tool_rules(&rules, true).unwrap();
    CapabilityCheck { kind, tools, classifier: Arc::new(Classifier::default()) }
}

fn known(risk: RiskLevel, tags: &[&str]) -> Option<ToolFacts> {
    let side_effects = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Some(ToolFacts { risk, side_effects, ..tool("x") })
}

#[test]
fn each_capability_check_denies_by_profile_and_tool_risk() {
    use GuardKind::{AdminToken, DisabledTool, Mode, ProjectBinding, SideEffects, SpecFrozen};
    use RiskLevel::{Critical, High, Low, Medium};
    let none = Profile::default();
    let planning = Profile { planning: true, ..Profile::default() };
    let frozen = Profile { spec_frozen: true, spec_hash: Some("h".into()), ..Profile::default() };
    let unhashed = Profile { spec_frozen: true, ..Profile::default() };
    let unfrozen = Profile { spec_hash: Some("h".into()), ..Profile::default() };
    let project = Profile { project_id: Some("p".into()), ..Profile::default() };
    let blacklist = Profile { policy_blacklist: ["payments".to_owned()].into(), ..Profile::default() };
    let admin = Profile { admin_token: true, ..Profile::default() };
    for (kind, tools, profile, known, expected) in [
        // 1. Disabled tools.
        (DisabledTool, json!(["x"]), &none, known(Low, &[]), "tool_disabled"),
        (DisabledTool, json!([{"server": "mail", "tool": "x"}]), &none, known(Low, &[]), "allow"),
        (DisabledTool, json!(["y"]), &none, known(Low, &[]), "allow"),
        // 2. No side effects while planning.
        (Mode, json!([]), &planning, known(Low, &["fs.write"]), "planning_mode"),
        (Mode, json!([]), &planning, known(Critical, &[]), "allow"),
        (Mode, json!([]), &none, known(Low, &["fs.write"]), "allow"),
        // Nor what may have any.
        (Mode, json!([]), &planning, None, "planning_mode"),
        (Mode, json!([]), &none, None, "allow"),
        // 3. High risks need a frozen specification in execution mode: both the mark and the hash.
        (SpecFrozen, json!([]), &none, known(High, &[]), "spec_not_frozen"),
        (SpecFrozen, json!([]), &none, known(Critical, &[]), "spec_not_frozen"),
        (SpecFrozen, json!([]), &none, known(Medium, &[]), "allow"),
        (SpecFrozen, json!([]), &unhashed, known(High, &[]), "spec_not_frozen"),
        (SpecFrozen, json!([]), &unfrozen, known(High, &[]), "spec_not_frozen"),
        (SpecFrozen, json!([]), &frozen, known(High, &[]), "allow"),
        (SpecFrozen, json!([]), &planning, known(High, &[]), "allow"),
        // 4. Medium risks need a project.
        (ProjectBinding, json!([]), &none, known(Medium, &[]), "project_required"),
        (ProjectBinding, json!([]), &none, known(Low, &[]), "allow"),
        (ProjectBinding, json!([]), &project, known(Critical, &[]), "allow"),
        // 5. Side effects that are forbidden.
        (SideEffects, json!([]), &blacklist, known(Low, &["fs.write", "payments"]), "side_effect_denied"),
        (SideEffects, json!([]), &blacklist, known(Low, &["fs.write"]), "allow"),
        (SideEffects, json!([]), &none, known(Low, &["payments"]), "allow"),
        // 6. Tools that need a token.
        (AdminToken, json!(["x"]), &none, known(Low, &[]), "admin_token_required"),
        (AdminToken, json!(["x"]), &admin, known(Low, &[]), "allow"),
        (AdminToken, json!(["y"]), &none, known(Low, &[]), "allow"),
    ] {
        let world = World { profile: profile.clone(), tool: known.clone(), ..World::default() };
        let said = call(&mut gate(kind, tools.clone()), &world, "x", at(0.0));
        assert_eq!(said, expected, "{kind:?} {tools} {profile:?} {known:?}");
    }
}

#[test]
fn unlisted_tool_is_classified_by_its_name() {
    let planning = Profile { planning: true, ..Profile::default() };
    for (kind, name, profile, expected) in [
        (GuardKind::Mode, "delete_file", planning, "planning_mode"),
        (GuardKind::SpecFrozen, "delete_file", Profile::default(), "spec_not_frozen"),
        (GuardKind::ProjectBinding, "weather", Profile::default(), "project_required"),
        (GuardKind::ProjectBinding, "read_file", Profile::default(), "allow"),
    ] {
        let world = World { profile, ..World::default() };
        assert_eq!(call(&mut gate(kind, json!([])), &world, name, at(0.0)), expected, "{kind:?} {name}");
    }
}

/// A gate, and what it says for people of a tool of high risk.
#[test]
fn gate_reasons_use_event_vocabulary() {
    let world = World { tool: known(RiskLevel::High, &[]), ..World::default() };
    let operation = Operation::ToolInvoke { tool_name: "x", arguments: None };
    for (kind, denial, reason) in [
        (GuardKind::SpecFrozen, "is of high risk, which needs spec_frozen and spec_hash", "its risk is high"),
        (GuardKind::ProjectBinding, "is of high risk, which needs project_id", "its risk is high"),
    ] {
        let mut gate = gate(kind, json!([]));
        let Ok(crate::guard::Decision::Deny(said)) = gate.check(&operation, &world.facts(), at(0.0)) else {
            panic!("{kind:?} lets it through")
        };
        assert!(said.message.ends_with(denial), "{}", said.message);
        assert_eq!(gate.why(&operation, &world.facts(), Timestamp::default()).as_deref(), Some(reason));
    }
}
