//! What stands in the file, and where.

use super::path::{KeyPath, Step};
use super::problem::Position;
use super::tree::{Kind, Node};

/// What stands in a file that was read: which keys are written, and which entry an entry is. For whoever has more to say of
/// the file than this module knows.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a>(&'a Node);

impl<'a> Written<'a> {
    pub(super) fn new(root: &'a Node) -> Self {
        Self(root)
    }

    /// What an entry of a list at the top is called in messages: `guards[2]`. The file's entries are counted, those that are
    /// wrong, too.
    pub fn entry_name(&self, list: &str, index: usize) -> String {
        let located = locate(self.0, &[list.into(), index.into()]);
        located.map_or_else(|| format!("{list}[{index}]"), |(_, path)| path.to_string())
    }

    /// Calls `say` with every path that is written and goes along `steps`; `[]` is any entry of a list.
    pub fn each(&self, steps: &[&str], mut say: impl FnMut(&[Step])) {
        each_written(self.0, steps, &mut Vec::new(), &mut say);
    }
}

/// The place of a path, or of the nearest thing above it that is written, and the path as it stands in the file, where
/// entries that are wrong count, too. `None` where what is written was reported as wrong: a bad `url` is no missing one.
pub(super) fn locate(root: &Node, path: &[Step]) -> Option<(Position, KeyPath)> {
    let (mut node, mut at, mut written) = (root, root.at, KeyPath::default());
    for step in path {
        match (step, &node.kind) {
            (Step::Key(key), Kind::Map(entries)) => {
                written.0.push(step.clone());
                let Some(entry) = entries.iter().find(|entry| entry.key == *key) else { break };
                node = &entry.value;
                if node.bad {
                    return None;
                }
                at = if matches!(node.kind, Kind::Map(_) | Kind::List(_)) { entry.key_at } else { node.at };
            }
            (Step::Index(index), Kind::List(list)) => {
                let good = list.iter().enumerate().filter(|(_, node)| !node.bad).nth(*index);
                let Some((index, entry)) = good else { break };
                written.0.push(index.into());
                (node, at) = (entry, entry.at);
            }
            _ => break,
        }
    }
    Some((at, written))
}

/// Calls `say` with every path that is written and goes along `steps`.
fn each_written(node: &Node, steps: &[&str], path: &mut Vec<Step>, say: &mut impl FnMut(&[Step])) {
    let Some((step, rest)) = steps.split_first() else {
        if !node.is_null() {
            say(path);
        }
        return;
    };
    let below: Vec<(Step, &Node)> = match &node.kind {
        Kind::Map(entries) => {
            let entries = entries.iter().filter(|entry| entry.key == *step);
            entries.map(|entry| (Step::from(entry.key.as_str()), &entry.value)).collect()
        }
        Kind::List(list) if *step == "[]" => {
            // An index counts what is right, as in the configuration that was read.
            let good = list.iter().filter(|node| !node.bad);
            good.enumerate().map(|(index, node)| (Step::from(index), node)).collect()
        }
        _ => Vec::new(),
    };
    for (step, node) in below {
        path.push(step);
        each_written(node, rest, path, say);
        path.pop();
    }
}
