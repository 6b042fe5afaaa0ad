//! Other names of keys: where two of the requirements call one thing by two names, or put it elsewhere, the second is
//! read as the first, and said.

use super::path::KeyPath;
use super::problem::{Problem, Problems};
use super::tree::{Entry, Kind, Node};
use crate::steps;

/// Another place, and the place that counts. `[]` is each entry of a list, and a new entry of it in the second.
pub(super) const MOVED: &[(&str, &str)] = &[
    ("mcp.inspection.enabled", "inspection.enabled"),
    ("mcp.inspection.server_patterns", "discovery.server_patterns"),
    ("mcp.inspection.custom_servers", "discovery.custom_servers"),
    ("mcp.inspection.registry", "registry"),
    ("mcp.inspection.detection.builtin", "inspection.builtin"),
    ("mcp.inspection.detection.custom_patterns", "inspection.custom_patterns"),
    ("mcp.inspection.detection.alert_threshold", "inspection.alert_threshold"),
    ("mcp.inspection.on_detection", "inspection.on_detection"),
    ("mcp_servers", "servers"),
    ("security_guards", "guards"),
    ("sandbox.mcp.servers", "servers"),
    ("sandbox.mcp.cross_server", "cross_server"),
    ("sandbox.mcp.fail_closed", "policy.fail_closed"),
    ("sandbox.mcp.server_policy", "policy.server_policy"),
    ("sandbox.mcp.allowed_servers", "policy.allowed_servers"),
    ("sandbox.mcp.denied_servers", "policy.denied_servers"),
    ("sandbox.mcp.tool_policy", "policy.tool_policy"),
    ("sandbox.mcp.allowed_tools", "policy.allowed_tools"),
    ("sandbox.mcp.denied_tools", "policy.denied_tools"),
    ("sandbox.mcp.version_pinning", "policy.version_pinning"),
    ("sandbox.mcp.rate_limits", "policy.rate_limits"),
    ("policy.version_pinning.auto_trust_first", "registry.pin_on_first_use"),
];

/// What says something that another key says here, in a form of its own; and which.
pub(super) const NO_EFFECT: &[(&str, &str)] = &[
    // What is enforced is said of each way that it can be, and never turned on by another name.
    (
        "sandbox.mcp.enforce_policy",
        "no effect: what is enforced say `enforcement.network` and `enforcement.stdio`",
    ),
    ("registry.path", "no effect: `store.path` says where"),
];

/// Another form of something, which is not just moved: how it is written, as what it is read, and who reads it.
#[allow(dead_code, reason = "docs/reference/configuration.md is made of the first two")]
pub(super) struct Form {
    pub(super) written: &'static str,
    pub(super) read: &'static str,
    resolve: fn(&mut Node, &mut Problems),
}

/// All of them, in the order in which they are read.
pub(super) const FORMS: &[Form] = &[
    Form {
        written: "`inspection.on_detection.require_approval: true`",
        read: "`inspection.on_detection.action: require_approval`",
        resolve: require_approval,
    },
    Form {
        written: "`inspection.on_detection.webhook_url`",
        read: "an entry of `sinks` with `kind: webhook` and a filter for `mcp_detection`",
        resolve: webhook,
    },
    Form { written: "`servers[].transport`", read: "`servers[].type`", resolve: transport },
    Form {
        written: "`servers[].command` as a list",
        read: "`servers[].command`, and the rest as `args`",
        resolve: command,
    },
    Form { written: "`guards[].kind: server_whitelist`", read: "`server_access`", resolve: server_whitelist },
    Form {
        written: "`guards[].config.alert_threshold`",
        read: "`guards[].config.min_detections`",
        resolve: alert_threshold,
    },
];

/// Reads every other name as the one that counts.
pub(super) fn resolve(root: &mut Node, problems: &mut Problems) {
    for (from, to) in MOVED {
        rename(root, from, to, KeyPath::dotted(from), problems);
    }
    for (path, message) in NO_EFFECT {
        if let Some(entry) = take(root, path) {
            problems.add(Problem::warning(entry.key_at, KeyPath::dotted(path), (*message).to_owned()));
        }
    }
    prune(root, &["mcp", "inspection", "detection"]);
    prune(root, &["sandbox", "mcp"]);
    for form in FORMS {
        (form.resolve)(root, problems);
    }
}

/// Puts what stands at a place of `node` where it counts; `path` is what the place is called.
fn rename(node: &mut Node, from: &str, to: &str, path: KeyPath, problems: &mut Problems) {
    let Some(entry) = take(node, from) else { return };
    let at = entry.key_at;
    let name = to.rsplit('.').next().unwrap_or(to);
    let moved = Entry { key: name.to_owned(), ..entry };
    problems.add(match put(node, to, moved) {
        true => Problem::warning(at, path, format!("another name of `{to}`, as which it is read")),
        false => Problem::error(at, path, format!("another name of `{to}`, which is there as well")),
    });
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

/// `inspection.on_detection.require_approval` is an action; `false` says nothing of which.
fn require_approval(root: &mut Node, problems: &mut Problems) {
    const PATH: &str = "inspection.on_detection.require_approval";
    let Some(mut entry) = take(root, PATH) else { return };
    let (key_at, at) = (entry.key_at, entry.value.at);
    let problem = match entry.value.kind {
        Kind::Null => return,
        Kind::Bool(is_required) => {
            entry.value.kind = Kind::Text("require_approval".into());
            entry.key = "action".into();
            if is_required && !put(root, "inspection.on_detection.action", entry) {
                let message = "another name of `action: require_approval`, and `action` is there as well";
                Problem::error(key_at, KeyPath::dotted(PATH), message.into())
            } else {
                let message = "another name of `action: require_approval`, as which it is read";
                Problem::warning(key_at, KeyPath::dotted(PATH), message.into())
            }
        }
        _ => Problem::error(at, KeyPath::dotted(PATH), "expected true or false".into()),
    };
    problems.add(problem);
}

/// The entries of a list of the file, each with its number.
fn each<'a>(root: &'a mut Node, key: &str) -> impl Iterator<Item = (usize, &'a mut Node)> {
    let list = match child(root, key).map(|entry| &mut entry.value.kind) {
        Some(Kind::List(list)) => Some(list),
        _ => None,
    };
    list.into_iter().flatten().enumerate()
}

/// In `servers`: `transport` is `type`.
fn transport(root: &mut Node, problems: &mut Problems) {
    for (index, server) in each(root, "servers") {
        let path = KeyPath(steps!["servers", index, "transport"]);
        rename(server, "transport", "type", path, problems);
    }
}

/// In `servers`: a list as `command` is the program and its arguments.
fn command(root: &mut Node, problems: &mut Problems) {
    for (index, server) in each(root, "servers") {
        let Some(command) = child(server, "command") else { continue };
        let Kind::List(words) = &mut command.value.kind else { continue };
        if words.is_empty() {
            continue;
        }
        let (at, program) = (command.key_at, words.remove(0));
        let words = std::mem::take(words);
        command.value = program;
        let args = Entry { key: "args".into(), key_at: at, value: Node::new(at, Kind::List(words)) };
        let path = KeyPath(steps!["servers", index, "command"]);
        problems.add(match put(server, "args", args) {
            true => Problem::warning(
                at,
                path,
                "a list is another form of `command` and `args`, as which it is read".into(),
            ),
            false => Problem::error(
                at,
                path,
                "a list is another form of `command` and `args`, and `args` is there as well".into(),
            ),
        });
    }
}

/// `inspection.on_detection.webhook_url` is one more sink, for detections; an empty one is none.
fn webhook(root: &mut Node, problems: &mut Problems) {
    const PATH: &str = "inspection.on_detection.webhook_url";
    let Some(url) = take(root, PATH) else { return };
    let at = url.key_at;
    problems.add(Problem::warning(
        at,
        KeyPath::dotted(PATH),
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

/// In `guards`: `server_whitelist` is `server_access`.
fn server_whitelist(root: &mut Node, problems: &mut Problems) {
    for (index, guard) in each(root, "guards") {
        if let Some(kind) = child(guard, "kind")
            && matches!(&kind.value.kind, Kind::Text(text) if text == "server_whitelist")
        {
            kind.value.kind = Kind::Text("server_access".into());
            let message = "`server_whitelist` is another name of `server_access`, as which it is read";
            let path = KeyPath(steps!["guards", index, "kind"]);
            problems.add(Problem::warning(kind.value.at, path, message.into()));
        }
    }
}

/// In `guards`: a whole number as `alert_threshold` is `min_detections`.
fn alert_threshold(root: &mut Node, problems: &mut Problems) {
    for (index, guard) in each(root, "guards").filter(|(_, guard)| !guard.bad) {
        let path = KeyPath(steps!["guards", index, "config", "alert_threshold"]);
        rename(guard, "config.alert_threshold", "config.min_detections", path, problems);
    }
}
