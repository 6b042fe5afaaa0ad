//! The documentation in itself: every relative link leads to a file that exists, every anchor to a heading in it, and every
//! configuration that is shown is valid.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mcpwarden_policy::config;

#[test]
fn every_link_in_the_docs_resolves() {
    let (root, pages) = all_pages();
    let (mut checked, mut broken) = (0, Vec::new());
    for page in &pages {
        for target in links(&fs::read_to_string(page).unwrap()) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let text = if file.is_dir() { Ok(String::new()) } else { fs::read_to_string(&file) };
            checked += 1;
            if !text.is_ok_and(|text| anchor.is_empty() || anchors(&text).iter().any(|one| one == anchor)) {
                broken.push(format!("{}: {target}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(pages.len() > 20 && checked > 100, "{} pages, {checked} links", pages.len());
}

#[test]
fn every_configuration_in_the_docs_is_valid() {
    let mut checked = 0;
    for page in all_pages().1 {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        // A scrape configuration of Prometheus, a rule file, and an object of Kubernetes.
        let others = ["scrape_configs:", "rules:", "apiVersion:"];
        let is_ours = |block: &&str| !others.iter().any(|key| block.starts_with(key));
        for block in blocks.filter(is_ours) {
            checked += 1;
            let filled = block.replace("sha256:…", &format!("sha256:{}", "0".repeat(64)));
            if let Err(problems) = config::parse(filled.as_bytes()) {
                panic!("{}: {problems:?}\n{block}", page.display());
            }
        }
    }
    assert!(checked > 15, "{checked} configurations");
}

/// A file for each question: each with the first sentence of its documentation.
#[test]
fn documented_files_are_those_of_the_tree() {
    const BEGIN: &str = "<!-- files: made by policy/tests/docs.rs; UPDATE_DOCS=1 writes it -->\n";
    let (root, _) = all_pages();
    let path = root.join("docs/internals/files.md");
    let text = fs::read_to_string(&path).unwrap();
    let (front, _) = text.split_once(BEGIN).unwrap();
    let mut table = String::new();
    for folder in ["ebpf", "policy", "agent", "xtask"] {
        let mut files = Vec::new();
        find_sources(&root.join(folder), &mut files);
        files.sort();
        assert!(files.len() > 10, "{folder}: {files:?}");
        table += &format!("\n## {folder}\n\n| file | content |\n|---|---|\n");
        for file in files {
            let source = fs::read_to_string(&file).unwrap();
            let shown = file.strip_prefix(&root).unwrap().display().to_string();
            let sentence = first_sentence(&source);
            assert!(!sentence.is_empty(), "{shown} does not say what it is about");
            table += &format!("| `{shown}` | {} |\n", sentence.replace('|', "\\|"));
        }
    }
    let expected = format!("{front}{BEGIN}{table}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, expected).unwrap();
    } else {
        assert!(text == expected, "docs/internals/files.md: run this test with UPDATE_DOCS=1");
    }
}

/// Source files of the program, without tests, benchmarks, templates and what is built.
fn find_sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_other =
            ["tests", "tests.rs", "benches", "templates", "target", "testing.rs", "build.rs", "toolchain.rs"];
        if is_other.contains(&name) || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            find_sources(&path, files);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

/// The first sentence of a file's documentation, links as text.
fn first_sentence(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let text = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].trim_end_matches('.').replace(['[', ']'], "")
}

/// Files move; who looks for one in CONTRIBUTING finds it there.
#[test]
fn files_in_contributing_exist() {
    let (root, pages) = all_pages();
    let page =
        fs::read_to_string(pages.iter().find(|page| page.ends_with("CONTRIBUTING.md")).unwrap()).unwrap();
    let code = page.split('`').skip(1).step_by(2);
    let files: Vec<&str> =
        code.filter(|text| text.ends_with(".rs") && text.contains("/src/") && !text.contains(' ')).collect();
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        assert!(root.join(file).is_file(), "CONTRIBUTING.md names {file}, which is not there");
    }
}

#[test]
fn links_and_anchors_are_parsed_like_github() {
    let page = "# One *page*: `a_b`\n[x](a.md#b) ![y](c.svg)\n```\n# no [z](d.md)\n```\n\
                `[q](e.md)` [r](https://example.com) [s](#one-page-a_b)\n## Two\n## Two\n";
    assert_eq!(links(page), ["a.md#b", "c.svg", "#one-page-a_b"]);
    assert_eq!(anchors(page), ["one-page-a_b", "two", "two-1"]);
}

/// The root of the repository, and its pages.
fn all_pages() -> (PathBuf, Vec<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    find_pages(&root.join("docs"), &mut pages);
    (root, pages)
}

fn find_pages(directory: &Path, pages: &mut Vec<PathBuf>) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            find_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// The lines outside of fenced blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of a page's links and images, but for those on other hosts. Code is not read.
fn links(page: &str) -> Vec<String> {
    let text: String = prose(page).flat_map(|line| [line, "\n"]).collect();
    let text: String = text.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchors of a page's headings.
fn anchors(page: &str) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let headings = prose(page)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings
        .map(|title| {
            let kept = title.trim().to_lowercase();
            let kept = kept.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
            let anchor: String = kept.map(|one| if one == ' ' { '-' } else { one }).collect();
            let earlier = seen.entry(anchor.clone()).or_default();
            *earlier += 1;
            if *earlier == 1 { anchor } else { format!("{anchor}-{}", *earlier - 1) }
        })
        .collect()
}
