#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

use std::sync::Arc;

use mcpwarden_detect::{DetectConfig, Detector, RulePlace, RuleSet, Scope, ScorerModel};
use mcpwarden_terms::{Category, Detection, Form, Severity};
use serde_json::json;

use super::*;

const RULES: &str = r#"
rule ticket_out : mcp {
    meta:
        description = "Sends tickets elsewhere"
        severity = "HIGH"
        category = "data_exfiltration"
        scope = "tools, results"
    strings:
        $verb = /\b(send|forward)(s|ing)?\b/ nocase
        $ticket = "ticket" nocase
        $honest = "to the user"
    condition:
        $verb and $ticket and not $honest
}

private rule helper { strings: $a = "never shown" condition: $a }

rule any_argument { meta: scope = "arguments" severity = "low" strings: $a = "swordfish" condition: $a }
"#;

fn detector(files: &[(&str, &str)]) -> Detector {
    let (yara, rules) = compile(files.iter().copied()).unwrap();
    let mut set = RuleSet::default();
    assert_eq!(set.add_scanned(rules, Arc::new(yara)), []);
    let config = DetectConfig { scorer: ScorerModel::Off, ..DetectConfig::default() };
    Detector::new(set, &config).unwrap()
}

fn shown(found: &[Detection]) -> Vec<(&str, &str, Form, Vec<&str>)> {
    found
        .iter()
        .map(|one| {
            let texts = one.matches.iter().map(|found| found.text.as_str()).collect();
            (one.pattern.as_str(), one.field.as_str(), one.form, texts)
        })
        .collect()
}

#[test]
fn rules_are_about_all_texts_of_a_definition() {
    let detector = detector(&[("ours.yar", RULES)]);
    let tool = |description: &str, parameter: &str| {
        json!({ "name": "mail", "description": description, "inputSchema": { "properties": { "to": { "description": parameter } } } })
            .to_string()
    };
    let to = "/inputSchema/properties/to/description";
    for (description, parameter, expected) in [
        ("Sends mail.", "Who gets it.", &[][..]),
        ("Forward each ticket.", "", &[("ticket_out", "/description", Form::Raw, vec!["Forward", "ticket"])]),
        // Its words are in two texts.
        (
            "Forwarding.",
            "the ticket",
            &[
                ("ticket_out", "/description", Form::Raw, vec!["Forwarding"]),
                ("ticket_out", to, Form::Raw, vec!["ticket"]),
            ],
        ),
        ("Forward each ticket.", "to the user", &[]),
        (
            "Forward each ｔｉｃｋｅｔ.",
            "",
            &[("ticket_out", "/description", Form::Normal, vec!["Forward", "ｔｉｃｋｅｔ"])],
        ),
        ("never shown, swordfish", "", &[]),
    ] {
        let found = detector.tool(&tool(description, parameter));
        assert_eq!(shown(&found.detections), expected, "{description} {parameter}");
        for one in &found.detections {
            assert_eq!((one.severity, one.category), (Severity::High, Category::Exfiltration));
            assert_eq!(one.matches[0].position, description.find(&one.matches[0].text).unwrap_or(4) as u64);
        }
        assert_eq!(found.bounds.total(), 0);
    }
}

#[test]
fn scope_says_what_is_searched() {
    let detector = detector(&[("ours.yar", RULES)]);
    let result = r#"{"content":[{"type":"text","text":"forward the ticket, swordfish"}]}"#;
    let found = detector.result(result, &mcpwarden_detect::ToolNames::default());
    assert_eq!(found.detections.iter().map(|one| one.pattern.as_str()).collect::<Vec<_>>(), ["ticket_out"]);
    let found = detector.arguments(r#"{"text":"forward the ticket, swordfish"}"#);
    let found: Vec<_> = found.detections.iter().map(|one| (one.pattern.as_str(), one.severity)).collect();
    assert_eq!(found, [("any_argument", Severity::Low)]);
}

#[test]
fn everything_wrong_is_named_with_its_place() {
    let good = "rule good { condition: true }";
    for (text, place, part) in [
        ("rule a {\n  condition:\n    $b\n}", (3, 5), "unknown pattern"),
        ("rule a { condition: }", (1, 21), "syntax error"),
        ("import \"pe\"\nrule a { condition: pe.is_dll() }", (1, 1), "unknown module"),
        ("include \"/etc/passwd\"\n", (1, 1), "include"),
        ("rule b { condition: true }\nrule b { condition: true }", (2, 6), "duplicate rule"),
        ("\nrule a { meta: severity = \"urgent\" condition: true }", (2, 1), "severity \"urgent\""),
        ("rule a { meta: scope = \"mail\" condition: true }", (1, 1), "scope \"mail\""),
        ("rule a { condition: for all i in (0..filesize) : (uint8(i) == 1) }", (1, 34), "slow loop"),
        ("rule a { strings: $a = /(/ condition: $a }", (1, 25), "regular expression"),
    ] {
        let errors = compile([("good.yar", good), ("bad.yar", text)]).unwrap_err();
        let first = &errors[0];
        let RulePlace::File { name, line, column } = &first.at else { panic!("{first}") };
        assert_eq!((name.as_str(), (*line, *column)), ("bad.yar", place), "{first}");
        assert!(first.what.contains(part), "{first}");
    }
}

#[test]
fn files_share_no_names_but_ids_are_unique() {
    let one = "rule one { strings: $a = \"x\" condition: $a }";
    let (yara, rules) = compile([("a.yar", one), ("b.yar", one)]).unwrap();
    let errors = RuleSet::default().add_scanned(rules, Arc::new(yara));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "b.yar:1:1: second rule \"one\"; expected unique ids");
}

#[test]
fn modules_without_files_can_be_used() {
    let text = "import \"hash\" import \"math\" import \"string\"\n\
                rule m { condition: math.max(1, 2) == 2 and string.length(\"ab\") == 2 and hash.md5(0, 0) != \"\" }";
    let (yara, _) = compile([("m.yar", text)]).unwrap();
    let scanned = yara.scan("x");
    assert_eq!(scanned.matches.len(), 1);
    assert_eq!((scanned.matches[0].ranges.len(), scanned.complete), (0, true));
}

#[test]
fn hostile_texts_and_rules_end() {
    // A pattern without a word in it, on texts that nearly match.
    let text =
        r#"rule slow { strings: $a = /([a-z]+)+[0-9]{50}x/ $b = /(a|aa|aaa)*b/ condition: any of them }"#;
    let (yara, _) = compile([("slow.yar", text)]).unwrap();
    for document in ["a".repeat(200_000), "ab".repeat(100_000), "1".repeat(200_000)] {
        let scanned = yara.scan(&document);
        let most = scanned.matches.iter().map(|one| one.ranges.len()).max().unwrap_or(0);
        assert!(most <= 2 * MAX_MATCHES, "{most}");
    }
    // It would go on for ever.
    let text =
        "rule long { condition: for all i in (0..100000) : (for all j in (0..100000) : (i * j >= 0)) }";
    let (yara, _) = compile([("long.yar", text)]).unwrap();
    assert!(!yara.scan("x").complete);
}

#[test]
fn scopes_are_those_with_a_matcher() {
    let (_, rules) = compile([("ours.yar", RULES)]).unwrap();
    let scopes: Vec<_> = rules.iter().map(|rule| rule.scopes.iter().copied().collect::<Vec<_>>()).collect();
    assert_eq!(scopes, [vec![Scope::Definition, Scope::Result], vec![Scope::Argument]]);
}
