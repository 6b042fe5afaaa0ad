//! The text of a configuration as a tree in which every node knows where it stands.
//!
//! Deserializers stop at the first mistake and forget places; what is wrong with a configuration is said all at once,
//! so it is read into this tree first. The text may be hostile: its size, depth and number of nodes are bounded, and
//! what an alias (`*name`) repeats counts each time.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, options};
use serde_json::{Map, Number, Value};

use super::path::KeyPath;
use super::problem::{Position, Problem, Problems};

/// Longest text. Bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most nodes, those that aliases repeat included.
const MAX_NODES: usize = 100_000;
/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub at: Position,
    pub kind: Kind,
    /// Something is wrong with it: it takes no part in what is checked later.
    pub bad: bool,
}

/// As YAML's core schema resolves it (YAML 1.2.2, section 10.3.2).
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    /// The same, where it is a value: something that there is by default is not wanted.
    Off,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: Position,
    pub value: Node,
}

impl Node {
    pub fn new(at: Position, kind: Kind) -> Self {
        Self { at, kind, bad: false }
    }

    /// An empty mapping, at the start of the file.
    fn empty() -> Self {
        Self::new(Position::default(), Kind::Map(Vec::new()))
    }

    /// Nodes in it, itself included, and how deep they go.
    fn extent(&self) -> (usize, usize) {
        let below = |nodes: &mut dyn Iterator<Item = &Self>| {
            nodes
                .map(Self::extent)
                .fold((1, 1), |(count, depth), (more, deep)| (count + more, depth.max(deep + 1)))
        };
        match &self.kind {
            Kind::List(list) => below(&mut list.iter()),
            Kind::Map(entries) => below(&mut entries.iter().map(|entry| &entry.value)),
            _ => (1, 0),
        }
    }

    /// The value as JSON, without what is bad, and without keys that have no value.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null | Kind::Off => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Int(value) => Number::from_i128(*value).map_or(Value::Null, Value::Number),
            Kind::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(list) => {
                Value::Array(list.iter().filter(|node| !node.bad).map(Self::to_json).collect())
            }
            Kind::Map(entries) => {
                let kept = entries.iter().filter(|entry| !entry.value.bad && !entry.value.is_null());
                Value::Object(
                    kept.map(|entry| (entry.key.clone(), entry.value.to_json())).collect::<Map<_, _>>(),
                )
            }
        }
    }

    /// Whether it or something in it is bad.
    pub fn has_bad(&self) -> bool {
        self.bad
            || match &self.kind {
                Kind::List(list) => list.iter().any(Self::has_bad),
                Kind::Map(entries) => entries.iter().any(|entry| entry.value.has_bad()),
                _ => false,
            }
    }

    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }
}

/// A collection that is not finished.
struct Open {
    node: Node,
    anchor: usize,
    /// Keys that stood in it, and how often.
    keys: HashMap<String, usize>,
    key: Option<(String, Position, bool)>,
}

/// Reads a text. Duplicate keys are added to `problems`, once each, and the first one counts.
///
/// # Errors
/// What makes it unreadable: its size, bytes that are no text, no YAML.
pub(super) fn parse(bytes: &[u8], problems: &mut Problems) -> Result<Node, Problem> {
    let text = text(bytes)?;
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| {
            let marker = error.marker();
            let at = Position { line: marker.line(), column: marker.col() + 1, width: 1 };
            Problem::error(at, KeyPath::default(), format!("this is no YAML: {}", error.info()))
        })?;
        builder.event(event, place(&span), problems)?;
    }
    Ok(builder.root.unwrap_or_else(Node::empty))
}

/// The bytes as text.
fn text(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is longer than {MAX_BYTES} bytes");
        return Err(Problem::error(Position::default(), KeyPath::default(), message));
    }
    let upto = |end: usize, what: &str| {
        let before = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        Problem::error(Position { line, column, width: 1 }, KeyPath::default(), what.to_owned())
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| upto(error.valid_up_to(), "this byte is no UTF-8; the file must be UTF-8"))?;
    match memchr::memchr(0, bytes) {
        Some(end) => Err(upto(end, "a NUL byte; the file must be text")),
        None => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
    }
}

fn place(span: &Span) -> Position {
    let one_line = span.start.line() == span.end.line();
    let width = if one_line { span.end.col().saturating_sub(span.start.col()).max(1) } else { 1 };
    Position { line: span.start.line(), column: span.start.col() + 1, width }
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Position, problems: &mut Problems) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document begins; a configuration is one";
                    return Err(Problem::error(at, KeyPath::default(), message.into()));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text =
                    tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix() == "str");
                if tag.is_some() && !is_text {
                    return Err(tagged(at));
                }
                let plain = style == ScalarStyle::Plain && !is_text;
                let kind = if plain { resolve(&text) } else { Kind::Text(text.clone().into_owned()) };
                self.count(1, at)?;
                self.node(Node::new(at, kind), Some(&text), anchor, problems)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(at, Kind::List(Vec::new()), anchor, tag.is_some())?
            }
            Event::MappingStart(_, anchor, tag) => {
                self.begin(at, Kind::Map(Vec::new()), anchor, tag.is_some())?
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { node, anchor, .. }) = self.open.pop() {
                    self.node(node, None, anchor, problems)?;
                }
            }
            Event::Alias(id) => {
                let Some(mut node) = self.anchors.get(&id).cloned() else {
                    return Err(Problem::error(
                        at,
                        KeyPath::default(),
                        "this alias stands inside of what it repeats".into(),
                    ));
                };
                let (nodes, depth) = node.extent();
                self.count(nodes, at)?;
                if self.open.len() + depth > MAX_DEPTH {
                    return Err(too_deep(at));
                }
                node.at = at;
                let text = if let Kind::Text(text) = &node.kind { Some(text.clone()) } else { None };
                self.node(node, text.as_deref(), 0, problems)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, at: Position) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(Problem::error(
                at,
                KeyPath::default(),
                format!("there are more than {MAX_NODES} values, aliases included"),
            ));
        }
        Ok(())
    }

    fn begin(&mut self, at: Position, kind: Kind, anchor: usize, tagged_: bool) -> Result<(), Problem> {
        if tagged_ {
            return Err(tagged(at));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        self.count(1, at)?;
        self.open.push(Open { node: Node::new(at, kind), anchor, keys: HashMap::new(), key: None });
        Ok(())
    }

    /// Puts a finished node where it belongs. `text`: what it says, if it is a scalar.
    fn node(
        &mut self,
        node: Node,
        text: Option<&str>,
        anchor: usize,
        problems: &mut Problems,
    ) -> Result<(), Problem> {
        if anchor != 0 {
            // The copy is memory, too.
            self.count(node.extent().0, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.kind, open.key.take()) {
            (Kind::List(list), _) => list.push(node),
            (Kind::Map(entries), Some((key, key_at, true))) => {
                entries.push(Entry { key, key_at, value: node })
            }
            (Kind::Map(_), None) => {
                let Some(key) = text else {
                    return Err(Problem::error(
                        node.at,
                        KeyPath::default(),
                        "a key must be a word, not a list or a mapping".into(),
                    ));
                };
                let times = open.keys.entry(key.to_owned()).or_default();
                *times += 1;
                let first = *times == 1;
                // Said once, however often it stands there.
                if *times == 2 {
                    problems.add(Problem::error(
                        node.at,
                        KeyPath(vec![key.into()]),
                        format!("the key `{key}` stands here a second time"),
                    ));
                }
                open.key = Some((key.to_owned(), node.at, first));
            }
            // The value of a key that was there before.
            _ => {}
        }
        Ok(())
    }
}

fn tagged(at: Position) -> Problem {
    Problem::error(at, KeyPath::default(), "tags such as `!name` mean nothing in a configuration".into())
}

fn too_deep(at: Position) -> Problem {
    Problem::error(
        at,
        KeyPath::default(),
        format!("lists and mappings are nested more than {MAX_DEPTH} deep"),
    )
}

/// What a scalar without quotes is.
fn resolve(text: &str) -> Kind {
    let digits = |text: &str, radix| i128::from_str_radix(text, radix).ok();
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        "true" | "True" | "TRUE" => return Kind::Bool(true),
        "false" | "False" | "FALSE" => return Kind::Bool(false),
        _ => {}
    }
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let prefixed = |prefix, radix| {
        text.strip_prefix(prefix)
            .filter(|rest| !rest.starts_with(['+', '-']))
            .and_then(|rest| digits(rest, radix))
    };
    if let Some(number) = digits(text, 10).or_else(|| prefixed("0x", 16)).or_else(|| prefixed("0o", 8)) {
        return Kind::Int(number);
    }
    let float = text.parse().ok().filter(|number: &f64| number.is_finite());
    match float {
        Some(number) if text.bytes().all(is_number) => Kind::Float(number),
        _ => Kind::Text(text.to_owned()),
    }
}
