//! docs/reference/rules.md and the rule files say the same.

use super::*;

const BEGIN: &str = "<!-- rules: made by the tests of policy/detect/src; UPDATE_DOCS=1 writes it -->\n";
const END: &str = "<!-- /rules -->";

fn table() -> String {
    let mut table = String::from("| rule | category | weight | what |\n|---|---|---|---|\n");
    for rule in RuleSet::built_in().unwrap().rules() {
        let weights: Vec<String> = rule
            .weights
            .iter()
            .map(|(scope, weight)| {
                let support = if rule.support.contains(scope) { " (support)" } else { "" };
                format!("{} {weight}{support}", format!("{scope:?}").to_lowercase())
            })
            .collect();
        let category = serde_json::to_value(rule.category).unwrap();
        let category = category.as_str().unwrap();
        table += &format!("| `{}` | {category} | {} | {} |\n", rule.id, weights.join(", "), rule.title);
    }
    table
}

#[test]
fn documented_rule_table_matches_the_rule_files() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rules.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert!(text == expected, "docs/reference/rules.md: run this test with UPDATE_DOCS=1");
    }
}
