use serde_json::json;

use super::super::tests::{World, at, call, decide, entries, guards, policy, tool, word};
use super::*;
use crate::config::{Config, Inspection, OnDetection};
use crate::guard::{Decision, Modification};
use crate::terms::{Category, Form};

fn detection(field: &str, severity: Severity) -> Detection {
    Detection {
        pattern: "pseudo_tag".to_owned(),
        category: Category::HiddenInstructions,
        severity,
        field: field.to_owned(),
        matches: Vec::new(),
        score: 100,
        form: Form::Raw,
        muted_by: None,
    }
}

fn poisoned(detections: &[(&str, Severity)]) -> ToolFacts {
    let detections: Vec<Detection> =
        detections.iter().map(|(field, severity)| detection(field, *severity)).collect();
    let max_severity = detections.iter().map(|detection| detection.severity).max();
    ToolFacts { detections, max_severity, ..tool("read") }
}

#[test]
fn shadowing_tool_is_blocked_until_approved() {
    let shadowing = ToolFacts { shadows: Some(ServerId("first".into())), ..tool("search") };
    let approved = ToolFacts { approved: true, ..shadowing.clone() };
    for (known, expected) in [
        (shadowing.clone(), "shadow_tool"),
        (approved, "allow"),
        // The first provider's tool shadows nobody.
        (tool("search"), "allow"),
    ] {
        let world = World::server("second").with(known);
        assert_eq!(call(&mut ToolShadowing, &world, "search", at(0.0)), expected);
    }
    let world = World::server("second").with(shadowing);
    let operation = Operation::ToolInvoke { tool_name: "search", arguments: None };
    let answer = ToolShadowing.check(&operation, &world.facts(), at(0.0)).unwrap();
    let Decision::Deny(denial) = answer else { panic!("{answer:?}") };
    assert_eq!(denial.message, "tool 'search' was shadowed: originally from 'first', now served by 'second'");
    let broken = BrokenRule {
        rule: DenialCode::ShadowTool,
        severity: Severity::Critical,
        original_server_id: Some(ServerId("first".into())),
        related: Vec::new(),
        turn: None,
    };
    assert_eq!((denial.code, denial.details), (DenialCode::ShadowTool, Some(DenialDetails::Rule(broken))));
}

#[test]
fn shadow_tool_rule_applies_with_one_server() {
    let world = World::default().with(ToolFacts { shadows: Some(ServerId("x".into())), ..tool("read") });
    let mut config = Config::default();
    assert_eq!(decide(&mut guards(&config), &world, "read", at(0.0)), "tool_shadowing: shadow_tool");
    config.cross_server.shadow_tool.enabled = false;
    assert_eq!(decide(&mut guards(&config), &world, "read", at(0.0)), "allow");
    config.cross_server.shadow_tool.enabled = true;
    config.cross_server.enabled = false;
    assert_eq!(decide(&mut guards(&config), &world, "read", at(0.0)), "allow");
}

#[test]
fn changed_pin_is_decided_by_on_change() {
    use OnChange::{Alert, Allow, Block};
    use PinState::{Changed, Pinned, Unpinned};
    for (on_change, pin, pin_on_first_use, approved, expected) in [
        (Block, Changed, true, false, "tool_changed"),
        (Alert, Changed, true, false, "warn"),
        (Allow, Changed, true, false, "allow"),
        (Block, Changed, true, true, "allow"),
        (Block, Pinned, true, false, "allow"),
        (Block, Unpinned, true, false, "allow"),
        // auto_trust_first: false
        (Block, Unpinned, false, false, "approval_required"),
        (Alert, Unpinned, false, false, "warn"),
        (Block, Unpinned, false, true, "allow"),
    ] {
        let world = World::default().with(ToolFacts { pin, approved, ..tool("read") });
        let mut guard = RugPull { on_change, pin_on_first_use };
        let said = call(&mut guard, &world, "read", at(0.0));
        assert_eq!(said, expected, "{on_change:?} {pin:?} {pin_on_first_use:?} {approved}");
    }
    let unknown = World::default();
    let mut guard = RugPull { on_change: Block, pin_on_first_use: false };
    assert_eq!(call(&mut guard, &unknown, "read", at(0.0)), "allow");
}

#[test]
fn on_detection_acts_from_its_threshold_on() {
    use DetectionAction::{Alert, Block, RequireApproval};
    use Severity::{Critical, High, Medium};
    for (action, severity, trust, approved, expected) in [
        (Alert, High, Trust::Medium, false, "warn"),
        (Alert, Medium, Trust::Medium, false, "allow"),
        (RequireApproval, Critical, Trust::Medium, false, "approval_required"),
        (RequireApproval, High, Trust::Medium, false, "approval_required"),
        (RequireApproval, Medium, Trust::Medium, false, "allow"),
        (RequireApproval, High, Trust::Medium, true, "allow"),
        (Block, High, Trust::Low, false, "tool_poisoned"),
        (Block, High, Trust::Medium, true, "allow"),
        // Findings about a server of high trust never block.
        (Block, Critical, Trust::High, false, "warn"),
    ] {
        let on_detection = OnDetection { action, ..OnDetection::default() };
        let inspection = Inspection { on_detection, ..Inspection::default() };
        let mut guard = ToolPoisoning::new(&GuardSettings::default(), &inspection);
        let known = ToolFacts { approved, ..poisoned(&[("/description", severity)]) };
        let world = World { trust, ..World::default() }.with(known);
        let said = call(&mut guard, &world, "read", at(0.0));
        assert_eq!(said, expected, "{action:?} {severity:?} {trust:?} {approved}");
    }
}

#[test]
fn tool_poisoning_honors_strict_mode_and_scan_fields() {
    use Severity::{High, Low};
    let description = ("/description", High);
    for (config, detections, expected) in [
        (json!({}), vec![description], "tool_poisoned"),
        (json!({}), vec![("/description", Low)], "allow"),
        (json!({}), vec![], "allow"),
        (json!({"strict_mode": true}), vec![("/description", Low)], "tool_poisoned"),
        (json!({"strict_mode": true}), vec![], "allow"),
        (json!({"scan_fields": ["name"]}), vec![description], "allow"),
        (json!({"scan_fields": ["name", "description"]}), vec![description], "tool_poisoned"),
        (
            json!({"scan_fields": ["input_schema"]}),
            vec![("/inputSchema/properties/x/description", High)],
            "tool_poisoned",
        ),
        (json!({"scan_fields": ["input_schema"]}), vec![("/inputSchemas", High)], "allow"),
        (json!({"min_detections": 2}), vec![description], "allow"),
        (json!({"min_detections": 2}), vec![description, ("/title", High)], "tool_poisoned"),
        // One rule in one field, whatever forms of the text show it.
        (json!({"min_detections": 2}), vec![description, description], "allow"),
        (json!({"min_detections": 2}), vec![description, ("/title", Low)], "allow"),
        // The integer that the requirements call alert_threshold.
        (json!({"min_detections": 2}), vec![description], "allow"),
        (json!({"min_detections": 1}), vec![description], "tool_poisoned"),
    ] {
        let mut all = Config::default();
        all.inspection.on_detection.action = DetectionAction::Block;
        all.guards = entries(json!([{"kind": "tool_poisoning", "config": config.clone()}]));
        let world = World::default().with(poisoned(&detections));
        let decided = decide(&mut guards(&all), &world, "read", at(0.0));
        assert_eq!(decided.rsplit(": ").next(), Some(expected), "{config} {detections:?}");
    }
}

#[test]
fn tool_list_is_warned_about_but_never_denied() {
    let bad = |index: usize| ToolFacts {
        name: format!("t{index}").into(),
        pin: PinState::Changed,
        shadows: Some(ServerId("x".into())),
        ..poisoned(&[("/description", Severity::Critical)])
    };
    let list: Vec<ToolFacts> = (0..12).map(bad).chain([tool("good")]).collect();
    let names = "'t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7', 't8', 't9' and 2 more";
    let mut inspection = Inspection::default();
    inspection.on_detection.action = DetectionAction::Block;
    let world = World::default();
    let judges: [(Box<dyn Guard>, &str); 3] = [
        (Box::new(ToolShadowing), "tools have names of another server's"),
        (
            Box::new(RugPull { on_change: OnChange::Block, pin_on_first_use: true }),
            "tools changed, or are not pinned",
        ),
        (Box::new(ToolPoisoning::new(&GuardSettings::default(), &inspection)), "tools have detections"),
    ];
    for (mut guard, what) in judges {
        let answer = guard.check(&Operation::ToolsList { tools: &list }, &world.facts(), at(0.0));
        let Ok(Decision::Modify(Modification::AddWarning { message, .. })) = &answer else {
            panic!("{answer:?}")
        };
        assert_eq!(*message, format!("{what}: {names}"));
        let clean = guard.check(&Operation::ToolsList { tools: &[tool("good")] }, &world.facts(), at(0.0));
        assert_eq!(word(&clean), "allow");
    }
}

#[test]
fn guards_only_alert_by_default() {
    let known = ToolFacts { pin: PinState::Changed, ..poisoned(&[("/description", Severity::Critical)]) };
    let world = World::default().with(known);
    assert_eq!(decide(&mut guards(&policy(json!({}))), &world, "read", at(0.0)), "warn");
}
