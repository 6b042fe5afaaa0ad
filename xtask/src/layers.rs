//! Arrows between crates and between modules point one way: a test, run by `cargo test -p xtask`.
//!
//! Cargo refuses circles of crates, and nothing refuses an arrow that points upwards, nor a circle of modules inside a crate.
//! Either knots the house: whoever reads one part has to read all of them. [`crates`] says which crate lies on which layer;
//! [`circles`] finds what imports itself by way of others.

mod circles;
mod crates;
mod source;

#[test]
fn crates_depend_on_lower_layers_only() {
    let workspace = crates::workspace().unwrap();
    let faults = crates::faults(&workspace);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn sibling_modules_form_no_cycle() {
    let mut found: Vec<String> = Vec::new();
    for package in crates::workspace().unwrap() {
        for root in &package.roots {
            let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
            let tree = source::parse(root, &read).unwrap();
            found.extend(circles::of(&package.name, &tree).iter().map(ToString::to_string));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
