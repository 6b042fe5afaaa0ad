//! Files that are made to break the reader.

use super::*;

#[test]
fn hostile_yaml_is_refused_within_bounds() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_block = (0..10_000).map(|level| format!("{}a:\n", " ".repeat(level % 500))).collect::<String>();
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{},", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let anchors = (0..60).map(|level| format!("&a{level} [")).collect::<String>() + &"]".repeat(60);
    let nested = (1..60).fold(format!("- &a0 {}1{}\n", "[".repeat(40), "]".repeat(40)), |text, level| {
        format!("{text}- &a{level} [*a{}]\n", level - 1)
    });
    let (lists, mappings) = ("[".repeat(MAX_BYTES), "{a: ".repeat(MAX_BYTES / 4));
    let dashes = "- ".repeat(MAX_BYTES / 2);
    let twice = "capture: {}\n".repeat(MAX_BYTES / 12);
    let quadratic = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(1_000), "*a,".repeat(1_000));
    let wide = "- 1\n".repeat(200_000);
    let long = "#".repeat(MAX_BYTES + 1);
    for (name, file, start, part) in [
        ("unfinished", "capture: [", "", "no YAML"),
        ("a tabulator", "a:\n\tb: 1", "2:", "no YAML"),
        ("deep", &deep, "1:65", "no YAML"),
        ("deep blocks", &deep_block, "", ""),
        ("billion laughs", &laughs, "", "more than 100000 values"),
        ("anchors in anchors", &anchors, "1:", "expected a mapping"),
        ("1 MiB of lists", &lists, "1:65", "no YAML"),
        ("1 MiB of mappings", &mappings, "1:", "no YAML"),
        ("1 MiB of dashes", &dashes, "1:", "no YAML"),
        ("1 MiB of the same key", &twice, "2:1", "a second time"),
        ("one large alias often", &quadratic, "2:", "more than 100000 values"),
        ("deep by aliases", &nested, "", "more than 64 deep"),
        ("an alias of itself", "a: &a [*a]", "1:8", "inside of what it repeats"),
        ("an alias of nothing", "a: *b", "1:4", "no YAML"),
        ("many", &wide, "", "more than 100000"),
        ("long", &long, "1:1", "longer than 1048576"),
        ("NUL", "a: b\nc: \0", "2:4", "NUL"),
        ("two documents", "capture: {}\n---\ncapture: {}\n", "2:1", "second document"),
        ("a tag", "capture: !x {}", "1:", "tags"),
        ("a key that is a list", "[a]: b", "1:1", "a key must be a word"),
        (
            "a merge key",
            "capture: &a {}\nstore:\n  <<: *a\n",
            "3:3 store[\"<<\"]: ",
            "merge keys are not supported: write the keys out",
        ),
        ("a list", "- a", "1:1", "expected a mapping"),
        ("a word", "capture", "1:1", "expected a mapping"),
    ] {
        let problems = parse(file.as_bytes()).unwrap_err();
        let line = format!("{}:{} {}", problems[0].at.line, problems[0].at.column, problems[0]);
        assert!(line.starts_with(start), "{name}: {line}");
        assert!(line.contains(part), "{name}: {line}");
        assert!(problems.len() <= 2, "{name}: {problems:?}");
    }
    let problems = parse(b"capture:\n  payloads: \xff").unwrap_err();
    assert_eq!((problems.len(), problems[0].at.line, problems[0].at.column), (1, 2, 13));
}

#[test]
fn duplicate_keys_are_refused() {
    table(&[
        (
            "capture: {}\nservers: []\ncapture: { payloads: ful, rings: 2 }",
            &[("3:1 error capture: ", "a second time")],
        ),
        ("capture: {}\ncapture: {}\ncapture: {}\n", &[("2:1 error capture: ", "a second time")]),
        ("capture: { payloads: full, payloads: redacted }", &[("1:28 error payloads: ", "a second time")]),
    ]);
}

#[test]
fn reported_config_problems_are_bounded() {
    let file = (0..5_000).map(|number| format!("unknown{number}: 1\n")).collect::<String>();
    let problems = parse(file.as_bytes()).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert_eq!(problems.last().unwrap().message, "4900 more problems are not listed");
}
