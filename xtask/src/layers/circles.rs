//! Sibling modules that import each other in a circle, each with all that lies below it.
//!
//! An arrow goes from the module that names a path to the module that the path leads to. It counts where the two part: between
//! the children of their nearest common ancestor. A child may use what its ancestors define themselves; what they merely
//! import counts as used where it comes from. What no path names, such as a method of a type of another module, is not seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    crates::relative,
    source::{Module, Names, Tree},
};

/// A circle.
pub struct Circle {
    krate: String,
    within: String,
    /// All that can be reached from each other.
    modules: BTreeSet<String>,
    /// The shortest way around: each arrow, and what makes it.
    chain: Vec<(String, Vec<String>)>,
}

/// What makes the arrows between the children of one module: by from and to.
type Arrows<'a> = BTreeMap<String, BTreeMap<String, Vec<Line<'a>>>>;

/// A line that names a path.
#[derive(PartialEq, Eq)]
struct Line<'a> {
    module: usize,
    line: usize,
    text: &'a str,
}

/// More lines than these say nothing new of one arrow.
const MOST_LINES: usize = 8;
/// A chain of imports is never so long, unless it comes round.
const MOST_IMPORTS: usize = 32;

/// The circles of a crate.
pub fn of(krate: &str, tree: &Tree) -> Vec<Circle> {
    let names = Resolver { tree };
    let mut levels: BTreeMap<usize, Arrows<'_>> = BTreeMap::new();
    for (from, module) in tree.iter().enumerate() {
        for mention in &module.mentions {
            let Some(found) = names.look_up(from, from, &mention.path, 0) else { continue };
            let Some((level, near, far)) = names.parting(from, found.module) else { continue };
            let arrows = levels.entry(level).or_default();
            let lines = arrows.entry(tree[near].name.clone()).or_default();
            let lines = lines.entry(tree[far].name.clone()).or_default();
            let line = Line { module: from, line: mention.line, text: &mention.text };
            // What a `use` has imported says no more than that does.
            let is_imported = module.imports.contains_key(&mention.path[0]);
            if !lines.iter().any(|other| *other == line || is_imported && other.module == from) {
                lines.push(line);
            }
        }
    }
    let mut circles = Vec::new();
    for (level, arrows) in &levels {
        for modules in knots(arrows) {
            let (krate, within) = (krate.to_owned(), path_of(tree, *level));
            circles.push(Circle { krate, within, chain: way_around(tree, arrows, &modules), modules });
        }
    }
    circles
}

impl std::fmt::Display for Circle {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        writeln!(
            to,
            "{} {}: a circle of {} modules: {}",
            self.krate,
            self.within,
            names.len(),
            names.join(", ")
        )?;
        for (arrow, lines) in &self.chain {
            writeln!(to, "  {arrow}")?;
            for line in lines.iter().take(MOST_LINES) {
                writeln!(to, "    {line}")?;
            }
            if lines.len() > MOST_LINES {
                writeln!(to, "    and {} more", lines.len() - MOST_LINES)?;
            }
        }
        Ok(())
    }
}

/// `crate::run::network`
fn path_of(tree: &Tree, module: usize) -> String {
    match tree[module].parent {
        Some(parent) => format!("{}::{}", path_of(tree, parent), tree[module].name),
        None => tree[module].name.clone(),
    }
}

/// Sets of modules each of which reaches all others.
fn knots(arrows: &Arrows<'_>) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|from| (from, reached(arrows, from))).collect();
    let mut knots: Vec<BTreeSet<String>> = Vec::new();
    for (from, reached) in &reach {
        let is_mutual = |to: &&String| reach.get(to).is_some_and(|back| back.contains(*from));
        if reached.contains(*from) && !knots.iter().any(|knot| knot.contains(*from)) {
            knots.push(reached.iter().filter(is_mutual).cloned().collect());
        }
    }
    knots
}

/// All to which arrows lead from a module.
fn reached(arrows: &Arrows<'_>, from: &str) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(at) = left.pop() {
        for to in arrows.get(at).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                left.push(to);
            }
        }
    }
    reached
}

/// The shortest way from a module of a knot back to it, of all of them.
fn way_around(tree: &Tree, arrows: &Arrows<'_>, knot: &BTreeSet<String>) -> Vec<(String, Vec<String>)> {
    let shortest = knot.iter().filter_map(|start| way_back(arrows, start)).min_by_key(Vec::len);
    let arrow = |pair: &[&str]| {
        let lines = arrows.get(pair[0]).and_then(|to| to.get(pair[1])).into_iter().flatten();
        let said = |line: &Line<'_>| {
            let file = relative(&tree[line.module].file).display();
            format!("{file}:{}: {}", line.line, line.text)
        };
        (format!("{} -> {}", pair[0], pair[1]), lines.map(said).collect())
    };
    shortest.unwrap_or_default().windows(2).map(arrow).collect()
}

/// The shortest way from a module back to it: its stations.
fn way_back<'a>(arrows: &'a Arrows<'_>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for to in arrows.get(at).into_iter().flat_map(BTreeMap::keys) {
            if to == start {
                let mut way = vec![start, at];
                while let Some(before) = way.last().and_then(|last| from.get(last)) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(to.as_str()) {
                from.insert(to, at);
                queue.push_back(to);
            }
        }
    }
    None
}

/// Where a path leads.
struct Found {
    module: usize,
    /// Whether to the module itself; else to something in it.
    is_module: bool,
}

/// Finds the modules that paths lead to.
struct Resolver<'a> {
    tree: &'a Tree,
}

impl Resolver<'_> {
    /// Where a path leads that stands in `scope`, as seen from the module `from`; `None`: out of the crate, or nowhere else.
    fn look_up(&self, from: usize, scope: usize, path: &[String], depth: usize) -> Option<Found> {
        let (first, module) = (path.first()?.as_str(), &self.tree[scope]);
        if depth > MOST_IMPORTS {
            return None;
        }
        match first {
            "crate" => return self.walk(from, 0, &path[1..], depth),
            "self" => return self.walk(from, scope, &path[1..], depth),
            "super" => return self.walk(from, module.parent?, &path[1..], depth),
            _ => {}
        }
        if module.children.contains_key(first) {
            return self.walk(from, scope, path, depth);
        }
        if module.own.contains(first) {
            return None;
        }
        // `use name::…::name` imports from another crate.
        if let Some(import) = module.imports.get(first).filter(|import| import[0] != first) {
            return self.look_up(from, scope, &joined(import, &path[1..]), depth + 1);
        }
        if module.imports.contains_key(first) {
            return None;
        }
        let through = self.globs(scope, depth).find(|glob| self.provides(*glob, first, depth + 1));
        through.and_then(|glob| self.walk(from, glob, path, depth + 1))
    }

    /// Where a path leads that begins in a module.
    fn walk(&self, from: usize, mut at: usize, path: &[String], depth: usize) -> Option<Found> {
        for (index, name) in path.iter().enumerate() {
            let module = &self.tree[at];
            if name == "self" {
                continue;
            }
            if name == "super" {
                at = module.parent?;
                continue;
            }
            if let Some(child) = module.children.get(name) {
                at = *child;
                continue;
            }
            let here = Some(Found { module: at, is_module: false });
            if module.own.contains(name) || !self.is_above(at, from) || depth > MOST_IMPORTS {
                return here;
            }
            let rest = &path[index..];
            if let Some(import) = module.imports.get(name).filter(|import| import[0] != *name) {
                return self.look_up(from, at, &joined(import, &rest[1..]), depth + 1);
            }
            let through = self.globs(at, depth).find(|glob| self.provides(*glob, name, depth + 1));
            return match through {
                Some(glob) => self.walk(from, glob, rest, depth + 1),
                None => here,
            };
        }
        Some(Found { module: at, is_module: true })
    }

    /// The modules of which one imports everything.
    fn globs(&self, module: usize, depth: usize) -> impl Iterator<Item = usize> {
        let target = move |path: &Names| {
            let found = self.look_up(module, module, path, depth + 1)?;
            (found.is_module && found.module != module).then_some(found.module)
        };
        self.tree[module].globs.iter().filter_map(target)
    }

    /// Whether a module has something of that name, its own or imported.
    fn provides(&self, module: usize, name: &str, depth: usize) -> bool {
        let Module { children, own, imports, .. } = &self.tree[module];
        children.contains_key(name)
            || own.contains(name)
            || imports.contains_key(name)
            || depth <= MOST_IMPORTS
                && self.globs(module, depth).any(|glob| self.provides(glob, name, depth + 1))
    }

    /// Whether a module is another, or an ancestor of it.
    fn is_above(&self, above: usize, module: usize) -> bool {
        self.line(module).contains(&above)
    }

    /// A module's ancestors, from the root to itself.
    fn line(&self, module: usize) -> Vec<usize> {
        let mut line: Vec<usize> = std::iter::successors(Some(module), |at| self.tree[*at].parent).collect();
        line.reverse();
        line
    }

    /// Where two modules part: their common ancestor, and its children towards each. `None`: one is above the other.
    fn parting(&self, from: usize, to: usize) -> Option<(usize, usize, usize)> {
        let (from, to) = (self.line(from), self.line(to));
        let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        Some((from[common - 1], *from.get(common)?, *to.get(common)?))
    }
}

fn joined(import: &[String], rest: &[String]) -> Names {
    [import, rest].concat()
}

#[cfg(test)]
mod tests;
