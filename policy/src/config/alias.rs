//! Other names of keys: where two of the requirements call one thing by two names, or put it elsewhere, the second is
//! read as the first, and said.

use super::problem::{Problem, Problems};
use super::tree::{Entry, Kind, Node};

/// Another place, and the place that counts. `[]` is each entry of a list, and a new entry of it in the second.
const MOVED: &[(&str, &str)] = &[
    ("mcp.inspection.enabled", "inspection.enabled"),
    ("mcp.inspection.server_patterns", "discovery.server_patterns"),
    ("mcp.inspection.custom_servers", "discovery.custom_servers"),
    ("mcp.inspection.registry", "registry"),
    ("mcp.inspection.detection.builtin", "inspection.builtin"),
    ("mcp.inspection.detection.custom_patterns", "inspection.custom_patterns"),
    ("mcp.inspection.detection.alert_threshold", "inspection.alert_threshold"),
    ("mcp.inspection.on_detection", "inspection.on_detection"),
    ("policy.version_pinning.auto_trust_first", "registry.pin_on_first_use"),
];

/// Reads every other name as the one that counts.
pub(super) fn resolve(root: &mut Node, problems: &mut Problems) {
    for (from, to) in MOVED {
        if let Some(entry) = take(root, from) {
            let at = entry.key_at;
            let name = to.rsplit('.').next().unwrap_or(to);
            let moved = Entry { key: name.to_owned(), ..entry };
            let problem = match put(root, to, moved) {
                true => Problem::warning(at, from, format!("another name of `{to}`, as which it is read")),
                false => Problem::error(at, from, format!("another name of `{to}`, which is there as well")),
            };
            problems.add(problem);
        }
    }
    prune(root, &["mcp", "inspection", "detection"]);
    webhook(root, problems);
    guards(root, problems);
}

fn entries(node: &mut Node) -> Option<&mut Vec<Entry>> {
    if let Kind::Map(entries) = &mut node.kind { Some(entries) } else { None }
}

fn child<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Entry> {
    entries(node)?.iter_mut().find(|entry| entry.key == key)
}

/// Takes what stands at a path out of the tree.
fn take(root: &mut Node, path: &str) -> Option<Entry> {
    let (head, last) = path.rsplit_once('.').map_or((None, path), |(head, last)| (Some(head), last));
    let mut node = root;
    for key in head.into_iter().flat_map(|head| head.split('.')) {
        node = &mut child(node, key)?.value;
    }
    let entries = entries(node)?;
    let index = entries.iter().position(|entry| entry.key == last)?;
    Some(entries.remove(index))
}

/// Puts something at a path, unless something is there.
fn put(root: &mut Node, path: &str, entry: Entry) -> bool {
    let mut node = root;
    let heads = path.rsplit_once('.').map(|(head, _)| head);
    for key in heads.into_iter().flat_map(|head| head.split('.')) {
        let at = entry.key_at;
        let Some(list) = entries(node) else { return false };
        let index = list.iter().position(|known| known.key == key).unwrap_or_else(|| {
            list.push(Entry { key: key.to_owned(), key_at: at, value: Node::new(at, Kind::Map(Vec::new())) });
            list.len() - 1
        });
        let Some(next) = list.get_mut(index) else { return false };
        if next.value.is_null() {
            next.value.kind = Kind::Map(Vec::new());
        }
        node = &mut next.value;
    }
    match entries(node) {
        Some(list) if list.iter().all(|known| known.key != entry.key) => {
            list.push(entry);
            true
        }
        _ => false,
    }
}

/// Removes mappings that have become empty, from the innermost on.
fn prune(root: &mut Node, keys: &[&str]) {
    let Some((first, rest)) = keys.split_first() else { return };
    if let Some(entry) = child(root, first) {
        prune(&mut entry.value, rest);
        if entries(&mut entry.value).is_some_and(|entries| entries.is_empty()) {
            take(root, first);
        }
    }
}

/// `inspection.on_detection.webhook_url` is one more sink, for detections; an empty one is none.
fn webhook(root: &mut Node, problems: &mut Problems) {
    const PATH: &str = "inspection.on_detection.webhook_url";
    let Some(url) = take(root, PATH) else { return };
    let at = url.key_at;
    problems.add(Problem::warning(
        at,
        PATH,
        "another name of an entry of `sinks` with `kind: webhook` and a filter for `mcp_detection`".into(),
    ));
    if url.value.is_null() || matches!(&url.value.kind, Kind::Text(text) if text.is_empty()) {
        return;
    }
    let word = |key: &str, value: Node| Entry { key: key.to_owned(), key_at: at, value };
    let kind = Node::new(at, Kind::Text("webhook".into()));
    let types = Kind::List(vec![Node::new(at, Kind::Text("mcp_detection".into()))]);
    let filter = Node::new(at, Kind::Map(vec![word("types", Node::new(at, types))]));
    let sink = vec![word("kind", kind), word("url", url.value), word("filter", filter)];
    let sink = Node::new(at, Kind::Map(sink));
    match child(root, "sinks").map(|entry| &mut entry.value.kind) {
        Some(Kind::List(list)) => list.push(sink),
        Some(kind @ Kind::Null) => *kind = Kind::List(vec![sink]),
        Some(_) => {}
        None => {
            let list = word("sinks", Node::new(at, Kind::List(vec![sink])));
            put(root, "sinks", list);
        }
    }
}

/// In `guards`: `server_whitelist` is `server_access`, and a whole number as `alert_threshold` is `min_detections`.
fn guards(root: &mut Node, problems: &mut Problems) {
    let Some(Kind::List(list)) = child(root, "guards").map(|entry| &mut entry.value.kind) else { return };
    for (index, guard) in list.iter_mut().enumerate() {
        if let Some(kind) = child(guard, "kind")
            && matches!(&kind.value.kind, Kind::Text(text) if text == "server_whitelist")
        {
            kind.value.kind = Kind::Text("server_access".into());
            let path = format!("guards[{index}].kind");
            let message = "`server_whitelist` is another name of `server_access`, as which it is read";
            problems.add(Problem::warning(kind.value.at, &path, message.into()));
        }
        if let Some(threshold) = take(guard, "config.alert_threshold") {
            let (at, path) = (threshold.key_at, format!("guards[{index}].config.alert_threshold"));
            let moved = Entry { key: "min_detections".into(), ..threshold };
            problems.add(match put(guard, "config.min_detections", moved) {
                true => Problem::warning(
                    at,
                    &path,
                    "another name of `min_detections`, as which it is read".into(),
                ),
                false => Problem::error(
                    at,
                    &path,
                    "another name of `min_detections`, which is there as well".into(),
                ),
            });
        }
    }
}
