//! What in a text is written to misuse the model that reads it: a definition, a result, a call's arguments, a server's
//! request. Texts in, `Detection`s out, the same ones every time; what follows from one is for others to say. Its two most
//! important types are [`RuleSet`], what is looked for, and [`Detector`], the rules compiled. docs/internals/detection.md explains the
//! method. Beside it lies what may be recorded of values ([`redact`]), which a detection's evidence goes by.
//!
//! | module | job |
//! |---|---|
//! | `walk` | every string and key of a JSON text |
//! | `fold`, `decode`, `view` | other forms of a text, and the way back to the original |
//! | `orders` | names that a definition orders something about |
//! | `rules`, `pattern` | what a rule file says, tried on its examples; a pattern compiled |
//! | `structure` | what a rule looks for that is no pattern |
//! | `scanner` | rules that another engine runs |
//! | `finder`, `index`, `rarity` | where words of patterns stand, and so where a pattern may match |
//! | `probe` | a text in, hits out |
//! | `sentence`, `window` | hits of two sentences added up |
//! | `severity` | the severity of a score |
//! | `config`, `inspection` | what is looked for besides the rules; what was found, and which bounds were reached |
//! | `apps` | user interfaces, as what they are |
//! | `schema` | what a text of a definition is for: an icon, a header, a value |
//! | `budget` | how much of this one message may take |
//! | `segment` | a long text in parts, and which come first |
//! | `learned` | what wording, concepts and relations together are worth: a model |
//! | `inspect` | all of it for one field after the other |
//! | `cache`, `ahead` | what was inspected before: definitions, and texts of the message at hand |

mod ahead;
mod apps;
mod budget;
mod cache;
mod config;
mod decode;
mod evidence;
mod finder;
mod fold;
mod harmless;
mod index;
mod inspect;
mod inspection;
pub mod learned;
mod names;
mod orders;
mod pattern;
mod probe;
mod rarity;
pub mod redact;
mod rules;
mod scanner;
mod schema;
mod segment;
mod sentence;
mod severity;
mod signs;
mod structure;
mod view;
mod walk;
mod window;

use std::sync::Arc;

pub use ahead::{Ahead, INSTRUCTIONS, Reader, Way};
pub use cache::{DefinitionCache, Known};
pub use config::{CustomPattern, DetectConfig, ScorerModel, ServerPatterns};
pub use fold::folded;
pub use harmless::Harmless;
pub use inspection::{Bounds, Inspection};
pub use names::ToolNames;
pub use orders::{OrderedNames, digest, order_about};
pub use pattern::{GAP_BYTES, SHORT_GAP_BYTES};
pub use rules::{Examples, Rule, RuleError, RulePlace, RuleSet, ScannedRule, Scope};
pub use scanner::{RuleMatch, Scanned, Scanner};
pub use severity::{score_of, severity_of};
pub use structure::Structure;

use mcpwarden_protocol::definition::VARYING;
use mcpwarden_protocol::message::meta::META;
use mcpwarden_terms::glob::NameGlob;

use evidence::Masking;
use inspect::{Inspector, Items, Joined};
use learned::{Context, Document, Explained, Finished, Model, Scorer, Subject};
use probe::Matcher;
use signs::Signs;
use view::View;
use walk::{Leaf, walk};

/// Longest name that the protocol allows (revision 2025-11-25: 1 to 128 characters), and the last provider takes. Bytes.
const MAX_NAME: usize = 128;

/// The rules, compiled. Making one takes tens of milliseconds; using one takes no lock and no memory that stays.
#[derive(Debug)]
pub struct Detector {
    definition: Matcher,
    name: Matcher,
    result: Matcher,
    argument: Matcher,
    argument_signs: Signs,
    request: Matcher,
    value: Matcher,
    read_only: Matcher,
    scorer: Option<Arc<Model>>,
    /// What is looked for in the tools of some servers besides.
    of_servers: Vec<(Vec<NameGlob>, Self)>,
}

impl Detector {
    /// Compiles `rules` and the user's patterns, without the categories that are switched off.
    ///
    /// # Errors
    /// A custom pattern does not compile, or has the name of another rule; a glob is none.
    pub fn new(rules: RuleSet, config: &DetectConfig) -> Result<Self, Vec<RuleError>> {
        let of_servers = config.of_servers.iter().map(|entry| {
            let globs = entry.servers.iter().map(|glob| NameGlob::new(glob, entry.case_sensitive));
            let globs = globs.collect::<Result<_, _>>();
            let globs =
                globs.map_err(|error| vec![RuleError::nowhere("servers", error.to_string(), "globs")])?;
            let own = DetectConfig {
                disabled: config.disabled.clone(),
                custom_patterns: entry.patterns.clone(),
                of_servers: Vec::new(),
                scorer: ScorerModel::Off,
            };
            Ok((globs, Self::new(RuleSet::default(), &own)?))
        });
        let of_servers = of_servers.collect::<Result<_, Vec<RuleError>>>()?;
        // Without rules nothing is looked for at all.
        let scorer = match &config.scorer {
            _ if rules.rules.is_empty() => None,
            ScorerModel::BuiltIn => Model::built_in(),
            ScorerModel::Given(model) => Some(Arc::clone(model)),
            ScorerModel::Off => None,
        };
        let rules = rules.with(RuleSet::custom(&config.custom_patterns)?)?;
        let scanner = rules.scanner.clone();
        let kept: Vec<Rule> =
            rules.rules.into_iter().filter(|rule| !config.disabled.contains(&rule.category)).collect();
        let matcher = |scope| {
            Matcher::new(&kept, scope, scanner.as_ref())
                .map_err(|what| vec![RuleError::nowhere("rules", what, "rules that compile")])
        };
        let argument = matcher(Scope::Argument)?;
        Ok(Self {
            definition: matcher(Scope::Definition)?,
            name: matcher(Scope::Name)?,
            result: matcher(Scope::Result)?,
            argument_signs: Signs::new(&argument),
            argument,
            request: matcher(Scope::Request)?,
            value: matcher(Scope::Value)?,
            read_only: matcher(Scope::ReadOnly)?,
            scorer,
            of_servers,
        })
    }

    /// The patterns for the tools of this server, by their place among [`DetectConfig::of_servers`].
    fn own_patterns(&self, server: &str) -> Option<usize> {
        self.of_servers.iter().position(|(globs, _)| globs.iter().any(|glob| glob.matches(server)))
    }

    /// Inspects a definition as [`tool`](Self::tool) does, and by the patterns for the tools of this server.
    pub fn tool_of(&self, server: &str, json: &str, known: &mut Harmless) -> Inspection {
        let mut found = self.tool_among(json, known);
        if let Some((_, own)) = self.own_patterns(server).and_then(|place| self.of_servers.get(place)) {
            found.add(own.tool(json));
        }
        found
    }

    /// Inspects the JSON text of a definition: every string and name in it, without what varies in `_meta`, as the
    /// definition's hash has it. The texts of neighbouring parameters are read as one as well.
    pub fn tool(&self, json: &str) -> Inspection {
        self.tool_among(json, &mut Harmless::default())
    }

    /// The same of one of several definitions: what `known` has, which belongs to this detector, is not read again.
    pub fn tool_among(&self, json: &str, known: &mut Harmless) -> Inspection {
        self.inspect_tool(json, known, self.scorer_of_tool(json)).0
    }

    fn scorer_of_tool(&self, json: &str) -> Option<Scorer> {
        let model = Arc::clone(self.scorer.as_ref()?);
        Some(Scorer::new(model, Subject::Definition, schema::context(json)))
    }

    /// Inspects a definition or a result as [`tool`](Self::tool) and [`result`](Self::result) do, and explains the score of
    /// the learned scorer, if that is on and there is any text.
    pub fn explain(&self, subject: Subject, json: &str) -> (Inspection, Option<Explained>) {
        let (found, finished) = match subject {
            Subject::Definition => {
                let scorer = self.scorer_of_tool(json).map(Scorer::explaining);
                self.inspect_tool(json, &mut Harmless::default(), scorer)
            }
            Subject::Result => {
                let scorer = self.scorer_of_result().map(Scorer::explaining);
                self.inspect_result(json, &ToolNames::default(), scorer)
            }
        };
        (found, finished.explained)
    }

    /// What the learned scorer reads of a definition, for training, and what rules alone find.
    pub fn record_tool(&self, json: &str) -> (Inspection, Document) {
        let scorer = Scorer::blank(Subject::Definition, schema::context(json));
        let (found, finished) = self.inspect_tool(json, &mut Harmless::default(), Some(scorer));
        (found, finished.document.unwrap_or_default())
    }

    fn inspect_tool(
        &self,
        json: &str,
        known: &mut Harmless,
        scorer: Option<Scorer>,
    ) -> (Inspection, Finished) {
        let mut inspector = Inspector::scoring(scorer);
        let mut joined = Joined::default();
        let only_reads = schema::only_reads(json);
        let complete = walk(json, |path, leaf, text| {
            let of_meta = path.root() == META;
            if of_meta && VARYING.contains(&path.below_root()) || schema::is_icon(path, leaf, &text) {
                return;
            }
            inspector.enter(path.keys().any(|key| key == "properties"), path.in_array());
            if leaf == Leaf::Text && !path.is("name") {
                self.schema_text(&mut inspector, path, &text, only_reads);
                if known.has(&text) {
                    inspector.collect(&self.definition, &text, || path.pointer());
                    inspector.score(&self.definition, &View::raw(&text), &text, &|| path.pointer());
                } else if inspector.text(&self.definition, &text, || path.pointer()) {
                    known.add(&text);
                }
                joined.push(path, &text);
                return;
            }
            if leaf == Leaf::DuplicateKey {
                inspector.structure(&self.definition, Structure::DuplicateKey, &text, || path.pointer());
            }
            let mut above = path.keys().skip(1);
            if text.len() > MAX_NAME && (path.is("name") || above.next() == Some("properties")) {
                inspector.structure(&self.name, Structure::LongName, &text, || path.pointer());
            }
            let names = (!of_meta && path.root() != "outputSchema").then_some(&self.name);
            inspector.name(names, &self.definition, &text, || path.pointer());
        });
        joined.inspect(&mut inspector, &self.definition);
        inspector.finish_scored(&self.definition, complete)
    }

    /// Inspects a text of a definition by what it is for.
    fn schema_text(&self, inspector: &mut Inspector, path: &walk::Path<'_>, text: &str, only_reads: bool) {
        if schema::repeats_secret(path, text) {
            inspector.structure(&self.definition, Structure::SecretHeader, text, || path.pointer());
        }
        if only_reads {
            inspector.text(&self.read_only, text, || path.pointer());
        }
        if let Some(parameter) = schema::parameter_of_value(path)
            && !inspector.text(&self.value, text, || path.pointer())
            && !schema::is_for_file(parameter)
        {
            inspector.structure(&self.definition, Structure::MisplacedKeyPath, text, || path.pointer());
        }
    }

    /// Inspects one text that a server says outside of any definition (instructions, a prompt), which `field` names.
    pub fn text(&self, field: &str, text: &str) -> Inspection {
        let mut inspector = Inspector::default();
        inspector.text(&self.definition, text, || field.to_owned());
        inspector.finish(&self.definition, true)
    }

    /// Inspects the JSON text of a tool's result, by rules that are stricter than those of definitions: a result
    /// may be any document. Neighbouring items are read as one text as well. `tools` are the names of the session's tools.
    pub fn result(&self, json: &str, tools: &ToolNames) -> Inspection {
        self.inspect_result(json, tools, self.scorer_of_result()).0
    }

    fn scorer_of_result(&self) -> Option<Scorer> {
        let model = Arc::clone(self.scorer.as_ref()?);
        Some(Scorer::new(model, Subject::Result, Context::default()))
    }

    /// What the learned scorer reads of a result, for training, and what rules alone find.
    pub fn record_result(&self, json: &str, tools: &ToolNames) -> (Inspection, Document) {
        let scorer = Scorer::blank(Subject::Result, Context::default());
        let (found, finished) = self.inspect_result(json, tools, Some(scorer));
        (found, finished.document.unwrap_or_default())
    }

    fn inspect_result(
        &self,
        json: &str,
        tools: &ToolNames,
        scorer: Option<Scorer>,
    ) -> (Inspection, Finished) {
        let mut inspector = Inspector::scoring(scorer);
        let mut items = Items::default();
        let complete = walk(json, |path, leaf, text| match leaf {
            Leaf::Text if is_blob(path) && !decode::may_be_text(&text) => {}
            Leaf::Text => {
                inspector.result_text(&self.result, tools, &text, || path.pointer());
                items.push(path, text);
            }
            _ => {
                if leaf == Leaf::DuplicateKey {
                    inspector.structure(&self.result, Structure::DuplicateKey, &text, || path.pointer());
                }
                inspector.name(None, &self.result, &text, || path.pointer());
            }
        });
        items.inspect(&mut inspector, &self.result);
        inspector.finish_scored(&self.result, complete)
    }

    /// Inspects the JSON text of a call's arguments for secrets and sensitive paths. Evidence is masked.
    pub fn arguments(&self, json: &str) -> Inspection {
        // The usual case: everyday work names no secrets.
        if self.argument.scanner.is_none() && self.argument_signs.are_missing(json) {
            Inspection::default()
        } else {
            self.search_arguments(json)
        }
    }

    fn search_arguments(&self, json: &str) -> Inspection {
        let mut inspector = Inspector::masking(Masking::Alone);
        let complete = walk(json, |path, leaf, text| {
            if leaf == Leaf::DuplicateKey {
                inspector.structure(&self.argument, Structure::DuplicateKey, &text, || path.pointer());
            }
            inspector.text(&self.argument, &text, || path.pointer());
            if let (Leaf::Text, false, Some(key)) = (leaf, path.in_array(), path.keys().next()) {
                inspector.assigned(&self.argument, key, &text, || path.pointer());
            }
        });
        inspector.finish(&self.argument, complete)
    }

    /// What there is to say of a text that there was no time for.
    fn uninspected(&self) -> Inspection {
        Inspector::exhausted().finish(&self.result, true)
    }

    /// Adds that a member by which a message is read stands there twice. `field`: its JSON Pointer in the message.
    pub fn repeated(&self, field: &str, inspection: &mut Inspection) {
        let key = field.rsplit('/').next().unwrap_or_default();
        self.irregular(Structure::DuplicateMember, key, field, inspection);
    }

    /// Adds that a message is not as it should be: what is odd about it, in the words of the message or a word for it, and where, as
    /// a JSON Pointer.
    pub fn irregular(&self, structure: Structure, text: &str, field: &str, inspection: &mut Inspection) {
        let mut inspector = Inspector::default();
        inspector.structure(&self.argument, structure, text, || field.to_owned());
        inspection.detections.extend(inspector.finish(&self.argument, true).detections);
        inspection.detections.sort_by_key(|found| std::cmp::Reverse(found.score));
    }

    /// Inspects the JSON text of the parameters of `sampling/createMessage` or `elicitation/create`: what a server
    /// says to the model, or asks of the user.
    pub fn sampling(&self, json: &str) -> Inspection {
        let mut inspector = Inspector::default();
        let complete = walk(json, |path, leaf, text| {
            // Of the protocol, as `progressToken` is: neither the model nor the user sees it.
            if path.root() == "_meta" {
                return;
            }
            if leaf == Leaf::Text {
                if path.is("includeContext") && text == "allServers" {
                    inspector.structure(&self.request, Structure::ForeignContext, &text, || path.pointer());
                }
                inspector.text(&self.definition, &text, || path.pointer());
                inspector.text(&self.request, &text, || path.pointer());
            } else {
                if leaf == Leaf::DuplicateKey {
                    inspector.structure(&self.definition, Structure::DuplicateKey, &text, || path.pointer());
                }
                inspector.name(Some(&self.request), &self.definition, &text, || path.pointer());
            }
        });
        inspector.finish(&self.definition, complete)
    }
}

/// Whether a string stands where an image, a sound or a file does, in base64
/// (`content[].data`, `contents[].blob`, `content[].resource.blob`).
fn is_blob(path: &walk::Path<'_>) -> bool {
    let mut keys = path.keys();
    match keys.next() {
        Some("data") => keys.next() == Some("content") && keys.next().is_none(),
        Some("blob") => matches!(keys.next(), Some("contents" | "resource")),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
