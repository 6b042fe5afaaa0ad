//! What is found in definitions, for people and for machines.

use std::collections::HashSet;
use std::sync::Arc;

use mcpwarden_client::Definition;
use mcpwarden_policy::detect::{Detector, Harmless, OrderedNames, score_of};
use mcpwarden_policy::event::{Category, Detection, Form, Identity, Match, Severity};
use mcpwarden_policy::hash::{bounded_name, json_digest, json_hash};
use mcpwarden_policy::mutes::{MuteSubject, Mutes};
use mcpwarden_policy::protocol::decode_str;
use mcpwarden_policy::redact::redact_argv;
use mcpwarden_policy::registry::{
    ItemKind, MemoryStore, Offer, Page, Peer, PinKey, Registry, RegistrySettings,
};
use mcpwarden_policy::{ConnectionId, ServerId, SessionId, Timestamp};
use serde_json::json;

use super::entry::Entry;
use crate::output::{clean, print_error, print_json_line, print_line};

/// Bytes that the registry may keep of the definitions of all servers together: as many as one may send, and its names.
const STORE_BYTES: usize = 256 << 20;

/// What is said of a server's name that another before it has.
const REPEATED: &str = "a server before it has this name, and a client starts one of them, mostly the last";

/// What was found in one definition.
struct Finding {
    definition: Definition,
    detections: Vec<Detection>,
}

/// Inspects definitions, server by server, and prints what is found.
pub struct Report {
    detector: Arc<Detector>,
    registry: Registry,
    mutes: Mutes,
    threshold: Severity,
    json: bool,
    servers: u64,
    /// Whether there were too many to compare.
    is_crowded: bool,
    /// The project whose servers come now.
    project: Option<String>,
    /// Of all servers so far: their project, and their name.
    names: HashSet<(Option<String>, String)>,
    found: bool,
    failed: bool,
}

impl Report {
    /// A report of nothing yet.
    pub fn new(
        detector: Arc<Detector>,
        registry: RegistrySettings,
        mutes: Mutes,
        (threshold, json): (Severity, bool),
    ) -> Self {
        let registry = Registry::new(registry, Box::new(MemoryStore::new(STORE_BYTES)));
        Self {
            detector,
            registry,
            mutes,
            threshold,
            json,
            servers: 0,
            is_crowded: false,
            project: None,
            names: HashSet::new(),
            found: false,
            failed: false,
        }
    }

    /// Whether something was at or above the threshold, and whether a server could not be inspected.
    pub fn outcome(&self) -> (bool, bool) {
        (self.found, self.failed)
    }

    /// The servers that come now are this project's, or all projects'. A project may name a server as another does.
    pub fn enter(&mut self, project: Option<&str>) {
        self.project = project.map(str::to_owned);
    }

    /// Whether a server of this name came before.
    fn is_repeated(&mut self, name: &str) -> bool {
        !self.names.insert((self.project.clone(), name.to_owned()))
    }

    /// Definitions that are no server's in particular.
    pub fn definitions(&mut self, definitions: Vec<Definition>) {
        let mut findings = self.inspect("", definitions);
        self.mark("", &mut findings, &mut []);
        self.print(None, &findings, &[]);
    }

    /// All definitions of one server; compared with those of the servers before it.
    pub fn server(&mut self, name: &str, definitions: Vec<Definition>) {
        let mut findings = self.inspect(name, definitions);
        let mut of_server = self.compare(name, &mut findings);
        self.mark(name, &mut findings, &mut of_server);
        self.print(Some(name), &findings, &of_server);
    }

    /// A server that a file declares and that is not asked: its command line without its secrets, and what its name has
    /// against it beside those before it.
    pub fn declared(&mut self, name: &str, entry: &Entry) {
        let mut found = self.compare(name, &mut []);
        self.mark(name, &mut [], &mut found);
        self.found |= Detection::worst(&found) >= Some(self.threshold);
        let words = redact_argv(&entry.words());
        // Of a mere switch nothing is known but the name.
        let has_id = !words.is_empty();
        let id = if has_id { entry.server_id() } else { "-".to_owned() };
        if self.json {
            let mut row = json!({ "name": name, "command": words });
            if has_id {
                row["server_id"] = json!(id);
            }
            if let Some(project) = &self.project {
                row["project"] = json!(project);
            }
            if entry.is_off() {
                row["disabled"] = json!(true);
            }
            if let Some(member) = entry.unused() {
                row["unused"] = json!(member);
            }
            if !found.is_empty() {
                row["max_severity"] = json!(Detection::worst(&found));
                row["detections"] = json!(found);
            }
            return print_json_line(&row);
        }
        let project = self.project.iter().map(|project| format!("project {project}"));
        let unused =
            entry.unused().map(|member| format!("`{member}` has another target, which a client may take"));
        let off = entry.is_off().then(|| "disabled".to_owned());
        let remarks: Vec<String> = project.chain(off).chain(unused).collect();
        let remarks = if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join(", ")) };
        let words = clean(&(words.join(" ") + &remarks));
        print_line(format!("{:<24} {:<32} {words}", clean(name), clean(&id)));
        for detection in &found {
            let severity = severity(detection);
            let why = detection.matches.first().map(|found| clean(&found.context)).unwrap_or_default();
            print_line(format!("  {severity}: {}: {why}", clean(&detection.pattern)));
        }
    }

    /// A server that could not be inspected.
    pub fn failure(&mut self, name: &str, error: &anyhow::Error) {
        self.failed = true;
        // A server's own words are in it.
        let mut why = clean(&format!("{error:#}"));
        if self.is_repeated(name) {
            why += &format!("; {REPEATED}");
        }
        if self.json {
            print_json_line(&json!({ "server": name, "error": why }));
        } else {
            print_line(format!("{}: not inspected: {why}", clean(name)));
        }
    }

    /// A list of a server that did not come to its end.
    pub fn incomplete(&mut self, name: &str, why: &str) {
        self.failed = true;
        if self.json {
            print_json_line(&json!({ "server": name, "incomplete": why }));
        } else {
            print_line(format!("{}: not all of it: {why}", clean(name)));
        }
    }

    fn inspect(&self, server: &str, definitions: Vec<Definition>) -> Vec<Finding> {
        let mut known = Harmless::default();
        let inspect = |definition: Definition| {
            let inspection = match definition.kind {
                ItemKind::Instructions => {
                    let text = decode_str(&definition.json).unwrap_or_default();
                    self.detector.text("/instructions", &text)
                }
                ItemKind::Tool => self.detector.tool_of(server, &definition.json, &mut known),
                _ => self.detector.tool(&definition.json),
            };
            Finding { definition, detections: inspection.detections }
        };
        definitions.into_iter().map(inspect).collect()
    }

    /// Adds what names have against them beside those of earlier servers; gives what the server's own has.
    fn compare(&mut self, name: &str, findings: &mut [Finding]) -> Vec<Detection> {
        self.servers += 1;
        let (id, now) = (ConnectionId(self.servers), Timestamp(self.servers));
        let key = PinKey { uid: None, server: ServerId(name.into()), program: String::new() };
        // Whoever inspects servers together has chosen them, as one who declares them.
        let peer = Peer {
            session: SessionId("inspect".into()),
            key,
            formerly: Vec::new(),
            also: Vec::new(),
            hands_over: false,
            version: None,
            identity: Identity::Declared,
        };
        let refused = self.registry.counters().servers_refused;
        let of_server = self.registry.connect(id, peer);
        if of_server.is_err() || self.registry.counters().servers_refused > refused {
            // Once: it is so of all behind it.
            if !std::mem::replace(&mut self.is_crowded, true) {
                print_error(format!(
                    "mcpwarden: {}: too many servers came before to compare it, and those behind it, with",
                    clean(name)
                ));
            }
        }
        let mut of_server: Vec<Detection> = of_server.ok().flatten().into_iter().collect();
        // Clients put names of servers in front of those of tools, and so into the prompt. An address (`--server`) is none.
        let is_address = name.contains("://") && !name.contains(char::is_whitespace);
        if !is_address {
            of_server.extend(self.detector.text("/server_id", name).detections);
        }
        if self.is_repeated(name) {
            of_server.push(repeated(name));
        }
        for kind in [ItemKind::Tool, ItemKind::Prompt, ItemKind::ResourceTemplate] {
            let of_kind = |finding: &&mut Finding| finding.definition.kind == kind;
            let definitions: Vec<(&Definition, [u8; 32], OrderedNames)> = findings
                .iter()
                .map(|finding| &finding.definition)
                .filter(|definition| definition.kind == kind)
                .map(|definition| {
                    (definition, json_digest(&definition.json), OrderedNames::of(&definition.json))
                })
                .collect();
            let offers: Vec<Offer<'_>> = definitions
                .iter()
                .map(|(Definition { name, json, .. }, hash, ordered)| Offer {
                    name,
                    json,
                    hash,
                    former: None,
                    max_severity: None,
                    ordered,
                })
                .collect();
            let outcome = self.registry.page(
                id,
                &Page { kind, first: true, last: true, beside: false, offers: &offers },
                now,
            );
            if outcome.refused > 0 {
                print_error(format!(
                    "mcpwarden: {}: {} definitions are too many to compare with other servers'",
                    clean(name),
                    outcome.refused
                ));
            }
            for change in outcome.changes {
                let named =
                    |finding: &&mut Finding| bounded_name(&finding.definition.name) == change.item.name;
                let Some(found) = change.finding else { continue };
                if change.connection != id {
                    // Of a server that was printed before.
                    of_server.push(found.detection);
                } else if let Some(finding) = findings.iter_mut().filter(of_kind).find(named) {
                    finding.detections.push(found.detection);
                }
            }
        }
        of_server
    }

    /// Marks what the configuration mutes.
    fn mark(&self, server: &str, findings: &mut [Finding], of_server: &mut [Detection]) {
        let key = PinKey { uid: None, server: ServerId(server.into()), program: String::new() };
        for Finding { definition, detections } in findings {
            let tool = Some(&*definition.name).filter(|_| definition.kind == ItemKind::Tool);
            self.mutes.mark(&MuteSubject { key: &key, tool, hash: None }, detections);
        }
        self.mutes.mark(&MuteSubject { key: &key, tool: None, hash: None }, of_server);
    }

    fn print(&mut self, server: Option<&str>, findings: &[Finding], of_server: &[Detection]) {
        let all = || findings.iter().flat_map(|finding| &finding.detections).chain(of_server);
        self.found |= all().any(|found| !found.is_muted() && found.severity >= self.threshold);
        if self.json {
            return print_json(server, findings, of_server);
        }
        let rows = findings.iter().flat_map(|Finding { definition, detections }| {
            detections.iter().map(move |detection| (shown(definition), detection))
        });
        for (name, detection) in
            rows.chain(of_server.iter().map(|detection| ("server".to_owned(), detection)))
        {
            let first = detection.matches.first().map(|found| clean(&found.text)).unwrap_or_default();
            print_line(format!(
                "{:<9} {:<24} {:<28} {}  {first:?}",
                severity(detection),
                clean(&name),
                clean(&detection.pattern),
                clean(&detection.field),
            ));
        }
        let prefix = server.map(|name| clean(name) + ": ").unwrap_or_default();
        let found =
            findings.iter().filter(|finding| !finding.detections.is_empty()).count() + of_server.len();
        match found {
            0 => print_line(format!("{prefix}{}, nothing found", counts(findings))),
            _ => print_line(format!("{prefix}{}, something found in {found}", counts(findings))),
        }
    }
}

/// What a definition is called in a table.
fn shown(definition: &Definition) -> String {
    match definition.kind {
        ItemKind::Tool => definition.name.clone(),
        ItemKind::Prompt => format!("prompt {}", definition.name),
        ItemKind::ResourceTemplate => format!("template {}", definition.name),
        ItemKind::Instructions => "instructions".to_owned(),
        ItemKind::Interface => format!("interface {}", definition.name),
    }
}

fn counts(findings: &[Finding]) -> String {
    let count = |kind| findings.iter().filter(|finding| finding.definition.kind == kind).count();
    let plural = |count: usize, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut text = plural(count(ItemKind::Tool), "tool");
    for (kind, word) in [(ItemKind::Prompt, "prompt"), (ItemKind::ResourceTemplate, "resource template")] {
        if count(kind) > 0 {
            text = format!("{text}, {}", plural(count(kind), word));
        }
    }
    if count(ItemKind::Instructions) > 0 { text + ", instructions" } else { text }
}

/// What is against a name that a server before has: whoever reads the file may take the one for the other.
fn repeated(name: &str) -> Detection {
    let context = format!("{name}; {REPEATED}");
    Detection {
        pattern: "same_server".to_owned(),
        category: Category::NameSimilarity,
        severity: Severity::Medium,
        field: "/server_id".to_owned(),
        matches: vec![Match { text: name.to_owned(), position: 0, context }],
        score: score_of(Severity::Medium),
        form: Form::Raw,
        muted_by: None,
    }
}

/// How bad a detection is, for people.
fn severity(detection: &Detection) -> &'static str {
    if detection.is_muted() { "muted" } else { detection.severity.name() }
}

fn print_json(server: Option<&str>, findings: &[Finding], of_server: &[Detection]) {
    for Finding { definition, detections } in findings {
        let mut row = json!({
            "kind": definition.kind,
            "name": definition.name,
            "hash": json_hash(&definition.json),
            "max_severity": Detection::worst(detections),
            "detections": detections,
        });
        if let (Some(server), Some(row)) = (server, row.as_object_mut()) {
            row.insert("server".to_owned(), server.into());
        }
        print_json_line(&row);
    }
    if !of_server.is_empty() {
        print_json_line(&json!({
            "server": server,
            "kind": "server",
            "max_severity": Detection::worst(of_server),
            "detections": of_server,
        }));
    }
}
