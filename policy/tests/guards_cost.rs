//! What a call costs that no guard objects to: no memory, and little time. `cargo test --release -p mcpwarden-policy
//! --test guards_cost -- --nocapture` prints the time.

#[path = "support/counting.rs"]
mod counting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use mcpwarden_policy::classify::Classifier;
use mcpwarden_policy::config::Config;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet, ToolNames};
use mcpwarden_policy::event::Identity;
use mcpwarden_policy::guard::{
    Facts, Listing, Operation, PinState, Profile, RiskLevel, ToolCategory, ToolFacts, Trust, Verdict,
};
use mcpwarden_policy::guards::{Question, build};
use mcpwarden_policy::{ConnectionId, ServerId, SessionId, Timestamp};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use counting::Memory;

#[test]
fn allowed_call_allocates_nothing() {
    let detector = Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap();
    let mut guards =
        build(&Config::default(), &Arc::new(detector), &Arc::new(Classifier::default())).unwrap();
    let params: Box<RawValue> =
        to_raw_value(&json!({"name": "read_file", "arguments": {"path": "x".repeat(160)}})).unwrap();
    let tool = ToolFacts {
        name: "read_file".into(),
        hash: format!("sha256:{}", "a".repeat(64)).into(),
        pin: PinState::Pinned,
        category: ToolCategory::Read,
        risk: RiskLevel::Low,
        side_effects: BTreeSet::new(),
        ..ToolFacts::default()
    };
    let classifier = Classifier::default();
    assert_eq!(classifier.category("files", "read_file"), ToolCategory::Read);
    let (names, profile, session) = (ToolNames::default(), Profile::default(), SessionId("sess_1".into()));
    let servers = [ServerId("files".into()), ServerId("mail".into())];
    let operations = [
        Operation::Request { method: "tools/call", params: Some(&params) },
        Operation::ToolInvoke { tool_name: "read_file", arguments: Some(&params) },
    ];
    let id = json!(7);
    let (rounds, warm_up) = (20_000_u32, 2_000);
    let (mut before, mut start) = (0, Instant::now());
    for round in 0..rounds + warm_up {
        if round == warm_up {
            before = Memory::now().allocations;
            start = Instant::now();
        }
        // Two servers, so that the rules across servers are at work; a call a second, so that none is a burst.
        let server = servers.get(usize::from(round % 7 == 0)).unwrap();
        let facts = Facts {
            server,
            also: &[],
            identity: Identity::Derived,
            enabled: true,
            trust: Trust::Medium,
            listing: Listing::Listed,
            session: &session,
            connection: ConnectionId(1),
            jsonrpc_id: Some(&id),
            host: None,
            uid: Some(1000),
            turn: None,
            is_retry: false,
            lists_resource: false,
            tool: Some(&tool),
            tool_names: &names,
            ahead: None,
            conditions: mcpwarden_policy::guard::Conditions::OfCall,
            profile: &profile,
            block: None,
            standing: &[],
            mutes: mcpwarden_policy::mutes::MutesOf::default(),
            metadata: &Value::Null,
        };
        let now = Timestamp(u64::from(round) * 1_000_000_000);
        assert_eq!(classifier.category(&server.0, "mcp__mail__sendMessage"), ToolCategory::Send);
        let question = Question { operations: &operations, facts: &facts, now };
        let outcome = guards.ask(&question, None);
        assert_eq!(outcome, Verdict::default());
        guards.settle(&question, &Verdict::default());
    }
    println!("{} ns a call", start.elapsed().as_nanos() / u128::from(rounds));
    // A table that entries come to and go from is rebuilt now and then; no call allocates.
    let allocated = Memory::now().allocations - before;
    assert!(allocated < u64::from(rounds) / 1_000, "{allocated} in {rounds} calls");
}
