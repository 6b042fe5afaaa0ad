use super::*;
use ToolCategory::{Compute, Read, Send, Unknown, Write};

fn classifier() -> Classifier {
    Classifier::default()
}

#[test]
fn category_follows_documented_prefixes() {
    for (prefixes, expected) in [
        ("read_ get_ query_ list_ fetch_ search_ find_ lookup_", Read),
        ("write_ update_ set_ create_ delete_ remove_ put_ insert_", Write),
        ("send_ post_ upload_ http_ email_ notify_ publish_ push_", Send),
        ("run_ exec_ eval_ execute_ invoke_ call_", Compute),
        ("reads_ getter_ sender weather_ do_ mypost_ _", Unknown),
    ] {
        for prefix in prefixes.split(' ') {
            let name = format!("{prefix}thing");
            assert_eq!(classifier().category("s", &name), expected, "{name}");
        }
    }
}

#[test]
fn category_is_derived_from_words_in_any_spelling() {
    for (name, expected) in [
        ("readFile", Read),
        ("ReadFile", Read),
        ("read-file", Read),
        ("files.read", Read),
        ("read.file", Read),
        ("fs/read_file", Read),
        ("mcp__files__read_file", Read),
        ("mcp__send__read_file", Read),
        ("mcp__files__", Unknown),
        ("HTTPGet", Send),
        ("fetch", Read),
        ("send", Send),
        ("SEND", Send),
        ("email", Send),
        ("slack_post_message", Send),
        ("gmail.sendEmail", Send),
        ("notion-create-page", Write),
        ("todo_list", Read),
        ("blog_post_get", Read),
        ("user_email", Unknown),
        ("feature_set", Unknown),
        ("api_call", Unknown),
        ("spreadsheet", Unknown),
        ("postgres", Unknown),
        ("", Unknown),
        ("__", Unknown),
        ("größe_lesen", Unknown),
        ("verylongwordthatisnoneatallreally_send", Send),
        // As a model reads them: look-alike letters, full-width ones, accents, characters that nobody sees.
        ("\u{455}\u{435}nd_mail", Send),
        ("re\u{430}dFile", Read),
        ("\u{ff52}\u{ff45}\u{ff41}\u{ff44}\u{ff3f}\u{ff46}\u{ff49}\u{ff4c}\u{ff45}", Read),
        ("se\u{200b}nd_mail", Send),
        ("s\u{e9}nd_mail", Send),
        ("mcp__mail__\u{2060}send", Send),
        ("files\u{ff0e}read", Read),
    ] {
        assert_eq!(classifier().category("s", name), expected, "{name}");
    }
}

#[test]
fn classifier_overrides_precede_word_rules() {
    let overrides: Vec<ClassifierOverride> = serde_json::from_value(serde_json::json!([
        {"server": "mail*", "tool": "list_*", "category": "send"},
        {"tool": "weather", "category": "read", "risk_level": "critical", "side_effect_tags": ["payments"]},
        {"tool": "list_*", "risk_level": "high"},
    ]))
    .unwrap();
    let classifier = Classifier::new(&overrides, true).unwrap();
    assert_eq!(classifier.category("mailer", "list_x"), Send);
    assert_eq!(classifier.category("files", "list_x"), Read);
    assert_eq!(classifier.classify("files", "list_x", "").risk, RiskLevel::High);
    let weather = classifier.classify("s", "weather", "reads");
    assert_eq!((weather.category, weather.risk), (Read, RiskLevel::Critical));
    assert_eq!(weather.side_effects, BTreeSet::from(["payments".to_owned()]));
}

#[test]
fn risk_level_is_derived_from_whole_words() {
    for (name, description, expected) in [
        ("delete_file", "", RiskLevel::Critical),
        ("d\u{435}lete_file", "", RiskLevel::Critical),
        ("x", "del\u{ad}etes a file", RiskLevel::Critical),
        ("x", "Drops a table", RiskLevel::Critical),
        ("x", "destroys it", RiskLevel::Critical),
        ("x", "Makes a payment.", RiskLevel::Critical),
        ("write_file", "", RiskLevel::High),
        ("read_file", "updates the cache", RiskLevel::High),
        ("x", "modifies it", RiskLevel::High),
        ("createIssue", "", RiskLevel::High),
        ("x", "uses the network", RiskLevel::Medium),
        ("fetch", "", RiskLevel::Medium),
        ("http_get", "", RiskLevel::Medium),
        ("x", "calls an API", RiskLevel::Medium),
        ("read", "", RiskLevel::Low),
        ("get_time", "", RiskLevel::Low),
        ("x", "Lists files", RiskLevel::Low),
        ("search", "", RiskLevel::Low),
        ("echo", "", RiskLevel::Low),
        // No whole words: they tell nothing.
        ("undeleted", "", RiskLevel::Medium),
        ("backdrop", "wallpaper", RiskLevel::Medium),
        ("spread", "target", RiskLevel::Medium),
        ("x", "", RiskLevel::Medium),
    ] {
        assert_eq!(classifier().classify("s", name, description).risk, expected, "{name}: {description}");
    }
}

#[test]
fn side_effects_are_derived_from_whole_words() {
    for (name, description, expected) in [
        ("write_file", "", "fs.write"),
        ("delete_file", "", "fs.delete"),
        ("x", "over the network", "network.http"),
        ("x", "payment", "payments"),
        ("execute_command", "", "system.exec"),
        ("x", "Running shell commands", "system.exec"),
        ("x", "Deletes, then writes", "fs.delete fs.write"),
        ("read_file", "Reads a file", ""),
        ("overwrite", "", ""),
    ] {
        let told = classifier().classify("s", name, description);
        assert_eq!(
            told.side_effects.into_iter().collect::<Vec<_>>().join(" "),
            expected,
            "{name}: {description}"
        );
    }
}
