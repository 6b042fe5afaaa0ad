//! Small crates, made up, and the circles in them.

use std::path::Path;

use super::{Circle, of};
use crate::layers::source;

type Files<'a> = &'a [(&'a str, &'a str)];

fn circles(files: Files<'_>) -> Vec<Circle> {
    let read = |path: &Path| {
        let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some(file.1.to_owned())
    };
    of("c", &source::parse(Path::new("src/lib.rs"), &read).unwrap())
}

/// Each as `crate::a: b, c`.
fn shown(circles: &[Circle]) -> Vec<String> {
    let show = |circle: &Circle| {
        let names: Vec<&str> = circle.modules.iter().map(String::as_str).collect();
        format!("{}: {}", circle.within, names.join(", "))
    };
    circles.iter().map(show).collect()
}

#[test]
fn module_cycles_are_detected() {
    let cases: &[(&str, Files<'_>, &[&str])] = &[
        ("an empty crate", &[("src/lib.rs", "")], &[]),
        ("one way", &[("src/lib.rs", "mod a { use crate::b::B; } mod b { pub struct B; }")], &[]),
        (
            "both ways, by `use`",
            &[("src/lib.rs", "mod a { use crate::b::B; pub struct A; } mod b { use super::a::A; pub struct B; }")],
            &["crate: a, b"],
        ),
        (
            "both ways, by paths in code",
            &[("src/lib.rs", "mod a { pub fn f() { crate::b::g() } } mod b { pub fn g(x: super::a::X) {} }")],
            &["crate: a, b"],
        ),
        (
            "by a path in a macro",
            &[("src/lib.rs", "mod a { fn f() { p!(\"{}\", crate::b::G) } } mod b { use crate::a; }")],
            &["crate: a, b"],
        ),
        (
            "by a path in a macro's definition",
            &[("src/lib.rs", "mod a { macro_rules! m { () => { $crate::b::G } } } mod b { use crate::a; }")],
            &["crate: a, b"],
        ),
        (
            "by a path in an attribute",
            &[("src/lib.rs", "mod a { #[x(y = crate::b::G)] struct S; } mod b { use crate::a; }")],
            &["crate: a, b"],
        ),
        (
            "by a pattern",
            &[("src/lib.rs", "mod a { fn f() { let crate::b::B { .. } = x; } } mod b { use crate::a; }")],
            &["crate: a, b"],
        ),
        (
            "three, in files, and a fourth that is none of them",
            &[
                ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
                ("src/a.rs", "use crate::{b::{B, self}, d::D};"),
                ("src/b/mod.rs", "use crate::c as see;"),
                ("src/c.rs", "use super::a::*;"),
                ("src/d.rs", ""),
            ],
            &["crate: a, b, c"],
        ),
        (
            "two apart",
            &[("src/lib.rs", "mod a { use crate::b; } mod b { use crate::a; } mod c { use crate::d; } mod d { use crate::c; }")],
            &["crate: a, b", "crate: c, d"],
        ),
        (
            "by what lies below",
            &[
                ("src/lib.rs", "mod a; mod b { use crate::a::A; pub struct B; }"),
                ("src/a.rs", "mod inner; pub struct A;"),
                ("src/a/inner.rs", "use crate::b::B;"),
            ],
            &["crate: a, b"],
        ),
        (
            "below another module",
            &[
                ("src/lib.rs", "mod a;"),
                ("src/a.rs", "mod x; mod y;"),
                ("src/a/x.rs", "use super::y::Y;"),
                ("src/a/y.rs", "use crate::a::x::X;"),
            ],
            &["crate::a: x, y"],
        ),
        (
            "a child uses what its parent defines, a parent its child",
            &[("src/lib.rs", "mod a { pub struct A; use x::X; mod x { use super::A; pub struct X; } }")],
            &[],
        ),
        (
            "what the parent imports from a sibling",
            &[("src/lib.rs", "mod a; mod b { use super::A; pub struct B; } pub use a::A;"), ("src/a.rs", "use crate::b::B;")],
            &["crate: a, b"],
        ),
        (
            "the same under another name",
            &[("src/lib.rs", "mod a; mod b { use super::Other; pub struct B; } use a::A as Other;"), ("src/a.rs", "use crate::b::B;")],
            &["crate: a, b"],
        ),
        (
            "the same of everything",
            &[("src/lib.rs", "mod a; mod b { use super::*; fn f(a: A) {} } pub use a::*;"), ("src/a.rs", "pub struct A; use crate::b;")],
            &["crate: a, b"],
        ),
        (
            "everything of the parent, and of it nothing of the sibling's",
            &[("src/lib.rs", "mod a; mod b { use super::*; fn f(a: Own) {} } pub use a::*; struct Own;"), ("src/a.rs", "pub struct A; use crate::b;")],
            &[],
        ),
        (
            "a module that everything of the parent names",
            &[("src/lib.rs", "mod a; mod b { use super::*; fn f() { a::f() } }"), ("src/a.rs", "use crate::b;")],
            &["crate: a, b"],
        ),
        (
            "what an ancestor imports from afar is the ancestor's arrow too",
            &[
                ("src/lib.rs", "mod a; mod far { use crate::a::A; pub struct F; }"),
                ("src/a.rs", "pub use crate::far::F; pub struct A; mod x { use super::F; }"),
            ],
            &["crate: a, far"],
        ),
        (
            "what another re-exports is used where it is re-exported",
            &[("src/lib.rs", "mod a { use crate::b::C; } mod b { pub use crate::c::C; } mod c { pub struct C; }")],
            &[],
        ),
        (
            "tests do not count",
            &[
                ("src/lib.rs", "mod a; mod b { use crate::a; }"),
                ("src/a.rs", "#[cfg(test)] mod tests; #[cfg(test)] use crate::b; #[test] fn f() { crate::b::f() }
                              #[cfg(test)] impl S { fn f() { crate::b::f() } } impl S { #[cfg(test)] fn f() { crate::b::f() } }"),
            ],
            &[],
        ),
        (
            "what only tests leave out does",
            &[("src/lib.rs", "mod a { #[cfg(not(test))] use crate::b; } mod b { use crate::a; }")],
            &["crate: a, b"],
        ),
        (
            "other crates do not count",
            &[("src/lib.rs", "mod a { use b::B; use ::b::C; } mod b { use crate::a; }")],
            &[],
        ),
        (
            "a crate of the same name as an import",
            &[("src/lib.rs", "mod a { use b::b; fn f() { b::c() } } mod b { use crate::a; }")],
            &[],
        ),
        (
            "a local variable of the same name as a function",
            &[("src/lib.rs", "mod a; mod b { use super::*; fn f(a: u8) { a; } } pub use a::a;"), ("src/a.rs", "pub fn a() {} use crate::b;")],
            &[],
        ),
        (
            "a file of its own choice",
            &[("src/lib.rs", "#[path = \"other.rs\"] mod a; mod b { use crate::a; }"), ("src/other.rs", "use crate::b;")],
            &["crate: a, b"],
        ),
        (
            "imports in a circle end",
            &[("src/lib.rs", "mod a { pub use super::b::*; use X; } mod b { pub use super::a::*; }")],
            &["crate: a, b"],
        ),
    ];
    for (name, files, expected) in cases {
        assert_eq!(shown(&circles(files)), *expected, "{name}");
    }
}

#[test]
fn cycle_report_lists_each_offending_line() {
    let found = circles(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("src/a.rs", "use std::fmt;\nuse crate::{\n    b::B,\n};\n"),
        ("src/b.rs", "\nfn f() { super::c::g() }\n"),
        ("src/c.rs", "use crate::a::A;\nuse crate::b;\n"),
    ]);
    let expected = "c crate: a circle of 3 modules: a, b, c
  b -> c
    src/b.rs:2: fn f() { super::c::g() }
  c -> b
    src/c.rs:2: use crate::b;
";
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, [expected]);
}
