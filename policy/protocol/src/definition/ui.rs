//! What the user interface of an MCP App may do, as a definition says in `_meta.ui` (MCP Apps, 2026-01-26): which resource it is,
//! who may call the tool, which origins it may reach, which permissions its frame has.

use std::collections::BTreeSet;

use serde_json::Value;

/// Most grants of one definition that are compared.
const MAX_GRANTS: usize = 256;
/// Longest grant. Bytes.
const MAX_BYTES: usize = 512;

/// What an interface may do: `visibility model`, `csp.connectDomains https://x.example`, `permissions.camera`. Bounded.
///
/// A tool is visible to both the model and its interface where nothing else is said.
pub fn grants(definition: &Value) -> BTreeSet<String> {
    let ui = &definition["_meta"]["ui"];
    let mut all = BTreeSet::new();
    if !ui.is_object() {
        return all;
    }
    match ui["visibility"].as_array() {
        Some(who) => all.extend(who.iter().filter_map(Value::as_str).map(|who| format!("visibility {who}"))),
        None => all.extend(["model", "app"].map(|who| format!("visibility {who}"))),
    }
    for (directive, origins) in ui["csp"].as_object().into_iter().flatten() {
        let origins = origins.as_array().map_or_else(|| vec![origins.clone()], Clone::clone);
        all.extend(origins.iter().map(|origin| {
            let origin = origin.as_str().map_or_else(|| origin.to_string(), str::to_owned);
            format!("csp.{directive} {origin}")
        }));
    }
    let is_given = |given: &Value| !matches!(given, Value::Null | Value::Bool(false));
    let permissions =
        ui["permissions"].as_object().into_iter().flatten().filter(|(_, given)| is_given(given));
    all.extend(permissions.map(|(name, _)| format!("permissions.{name}")));
    let cut =
        |grant: String| grant.get(..grant.floor_char_boundary(MAX_BYTES)).unwrap_or_default().to_owned();
    all.into_iter().take(MAX_GRANTS).map(cut).collect()
}

/// What an interface may do now and could not before, where it had any before.
pub(super) fn widened(previous: &Value, new: &Value) -> Vec<String> {
    let before = grants(previous);
    grants(new).into_iter().filter(|grant| !before.contains(grant)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `_meta.ui` before and after, and what the interface may do besides.
    #[test]
    fn widened_grants_are_told_from_other_changes() {
        let csp = |origins: &[&str]| json!({"csp": {"connectDomains": origins}});
        for (name, before, after, expected) in [
            ("the same", csp(&["https://a"]), csp(&["https://a"]), &[][..]),
            (
                "an origin more",
                csp(&["https://a"]),
                csp(&["https://a", "https://b"]),
                &["csp.connectDomains https://b"],
            ),
            ("an origin less", csp(&["https://a", "https://b"]), csp(&["https://b"]), &[]),
            ("in another order", csp(&["https://a", "https://b"]), csp(&["https://b", "https://a"]), &[]),
            ("another origin", csp(&["https://a"]), csp(&["https://b"]), &["csp.connectDomains https://b"]),
            ("any origin", csp(&["https://a"]), csp(&["*"]), &["csp.connectDomains *"]),
            (
                "another directive",
                csp(&["https://a"]),
                json!({"csp": {"connectDomains": ["https://a"], "frameDomains": ["https://a"]}}),
                &["csp.frameDomains https://a"],
            ),
            ("a first policy", json!({}), csp(&["https://a"]), &["csp.connectDomains https://a"]),
            ("no list", json!({}), json!({"csp": {"connectDomains": "*"}}), &["csp.connectDomains *"]),
            ("a permission", json!({}), json!({"permissions": {"camera": {}}}), &["permissions.camera"]),
            ("a permission that is none", json!({}), json!({"permissions": {"camera": false}}), &[]),
            (
                "another permission",
                json!({"permissions": {"camera": {}}}),
                json!({"permissions": {"camera": {}, "microphone": {}}}),
                &["permissions.microphone"],
            ),
            ("no permission any more", json!({"permissions": {"camera": {}}}), json!({}), &[]),
            (
                "seen by the model",
                json!({"visibility": ["app"]}),
                json!({"visibility": ["app", "model"]}),
                &["visibility model"],
            ),
            ("seen by all, by default", json!({"visibility": ["app"]}), json!({}), &["visibility model"]),
            ("said instead of the default", json!({}), json!({"visibility": ["model", "app"]}), &[]),
            ("another resource", json!({"resourceUri": "ui://a"}), json!({"resourceUri": "ui://b"}), &[]),
        ] {
            let definition = |ui: &Value| json!({"name": "t", "_meta": {"ui": ui}});
            assert_eq!(widened(&definition(&before), &definition(&after)), expected, "{name}");
        }
        let none = json!({"name": "t"});
        assert_eq!(widened(&none, &json!({"_meta": {"ui": {}}})), ["visibility app", "visibility model"]);
        assert_eq!(widened(&json!({"_meta": {"ui": {}}}), &none), [""; 0]);
        assert_eq!(grants(&json!({"_meta": {"ui": [1]}})), BTreeSet::new());
        let many: Vec<String> =
            (0..1_000).map(|number| format!("https://{number}{}", "x".repeat(1_000))).collect();
        let bounded = grants(&json!({"_meta": {"ui": {"csp": {"connectDomains": many}}}}));
        assert!(bounded.len() == MAX_GRANTS && bounded.iter().all(|grant| grant.len() <= MAX_BYTES));
    }
}
