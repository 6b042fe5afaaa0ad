//! Arrows between crates and between modules point one way: a test, run by `cargo test -p xtask`.
//!
//! Cargo refuses circles of crates, and nothing refuses an arrow that points upwards, nor a circle of modules inside a crate.
//! Either knots the house: whoever reads one part has to read all of them. [`crates`] says which crate lies on which layer;
//! [`circles`] finds what imports itself by way of others.

mod circles;
mod crates;
mod source;

use circles::Known;

/// Circles that are still there. Nothing is added: cut the circle instead. What is cut has to go from here.
const KNOWN: &[Known] = &[
    Known {
        krate: "mcpwarden-policy",
        within: "crate::engine",
        modules: &[
            "connection",
            "connections",
            "context",
            "evaluator",
            "exchange",
            "recorder",
            "remote",
            "reporter",
            "timers",
        ],
    },
    Known { krate: "mcpwarden-policy", within: "crate::engine::exchange", modules: &["pairing", "relays"] },
    Known {
        krate: "mcpwarden-policy",
        within: "crate::guards",
        modules: &["access", "blocked", "build", "executor", "gates"],
    },
    Known { krate: "mcpwarden-policy", within: "crate::registry", modules: &["pin", "store"] },
    Known { krate: "mcpwarden-policy", within: "crate::discovery", modules: &["command", "names"] },
];

#[test]
fn crates_depend_on_lower_layers_only() {
    let workspace = crates::workspace().unwrap();
    let faults = crates::faults(&workspace);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn sibling_modules_form_no_cycle() {
    let mut found = Vec::new();
    for package in crates::workspace().unwrap() {
        for root in &package.roots {
            let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
            let tree = source::parse(root, &read).unwrap();
            found.extend(circles::of(&package.name, &tree));
        }
    }
    let faults = circles::faults(&found, KNOWN);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
