//! Names of tools as clients write them, back to the server and the tool that they mean.
//!
//! Clients put the name of the server before that of the tool, so that two servers may have tools of one name, and write both
//! within what the API allows: letters, digits, `_` and `-`, 64 at most.
//!
//! | client writes | of server `my files` and tool `read.file` |
//! |---|---|
//! | `mcp__server__tool`, `mcp_server_tool` | `mcp__my_files__read_file` |
//! | `server__tool`, `server_tool`, `server-tool`, `server.tool`, `server/tool`, `server:tool` | `my_files-read_file` |
//! | the tool alone | `read_file` |
//! | the beginning, and a hash of all of it | `mcp__my_files__read_f_1a2b3c4d` |
//! | the beginning and the end | `mcp__my_fi___ad_file` |

use std::collections::BTreeMap;
use std::ops::Bound;

/// How certain it is that a name means a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It is one of the forms, to the letter.
    Exact,
    /// It is one of the forms, but for letters that the client replaced.
    Normalized,
    /// It ends with the name of the tool, and begins with another name of the server than those that are known.
    ToolOnly,
    /// It is the beginning of one of the forms, with a hash behind it, or its beginning and end.
    Truncated,
}

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping<T> {
    /// This tool.
    One(T, Certainty),
    /// One of these tools.
    Several(Vec<T>, Certainty),
    /// None that is known: a tool of the client's own, mostly.
    Unknown,
}

/// The forms in which a server's tool is named by clients. `s` and `t` stand for both names.
const SEPARATORS: [&str; 7] = ["__", "_", "-", ".", "/", ":", "::"];
/// What stands before it all.
const PREFIXES: [&str; 3] = ["mcp__", "mcp_", ""];
/// Fewest characters of a beginning that say what it is the beginning of.
const MIN_BEGINNING: usize = 12;
/// Fewest and most digits of a hash.
const HASH_DIGITS: std::ops::RangeInclusive<usize> = 4..=64;
/// What stands between the beginning and the end of a name without its middle.
const GAP: &str = "___";
/// Most tools that a name is said to mean.
const MAX_CANDIDATES: usize = 16;

/// The tools that are known, by every name that clients may give them. `T` is what a tool is known as.
#[derive(Clone, Debug)]
pub struct ToolNames<T> {
    tools: Vec<T>,
    exact: BTreeMap<Box<str>, Vec<usize>>,
    normalized: BTreeMap<Box<str>, Vec<usize>>,
    /// By the normalized name of the tool alone.
    bare: BTreeMap<Box<str>, Vec<usize>>,
}

impl<T> Default for ToolNames<T> {
    fn default() -> Self {
        Self { tools: Vec::new(), exact: BTreeMap::new(), normalized: BTreeMap::new(), bare: BTreeMap::new() }
    }
}

impl<T: Clone> ToolNames<T> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool of a server that clients may know by each of these names.
    pub fn add<'n>(&mut self, servers: impl IntoIterator<Item = &'n str>, tool: &str, is: T) {
        let number = self.tools.len();
        self.tools.push(is);
        let insert = |map: &mut BTreeMap<Box<str>, Vec<usize>>, name: String| {
            let numbers = map.entry(name.into()).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        };
        let (allowed_tool, bare) = (allowed(tool), normalized(tool));
        insert(&mut self.exact, tool.to_owned());
        insert(&mut self.exact, allowed_tool.clone());
        insert(&mut self.normalized, bare.clone());
        insert(&mut self.bare, bare);
        for server in servers {
            for (server, tool) in [(server, tool), (&*allowed(server), &*allowed_tool)] {
                for prefix in PREFIXES {
                    for separator in SEPARATORS {
                        let name = format!("{prefix}{server}{separator}{tool}");
                        insert(&mut self.normalized, normalized(&name));
                        insert(&mut self.exact, name);
                    }
                }
            }
        }
    }

    /// What a name means; of a call with a namespace, that as well.
    pub fn find(&self, namespace: Option<&str>, name: &str) -> Mapping<T> {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
            return self.find_name(name);
        };
        let separator = if namespace.ends_with(['_', '-', '.', '/', ':']) { "" } else { "__" };
        match self.find_name(&format!("{namespace}{separator}{name}")) {
            Mapping::Unknown => self.find_name(name),
            found => found,
        }
    }

    fn find_name(&self, name: &str) -> Mapping<T> {
        let loose = normalized(name);
        if let Some(numbers) = self.exact.get(name) {
            return self.mapping(numbers, Certainty::Exact);
        }
        if let Some(numbers) = self.normalized.get(&*loose) {
            return self.mapping(numbers, Certainty::Normalized);
        }
        match self.tool_only(name) {
            Mapping::Unknown => self.truncated(name),
            found => found,
        }
    }

    /// By the end of a name, behind a separator: the longest that is the name of a tool. A single `_` or `-` separates words
    /// as well, and says something only in a name that begins as those of MCP do.
    fn tool_only(&self, name: &str) -> Mapping<T> {
        let is_mcp = normalized(name).starts_with("mcp_");
        let separators = SEPARATORS.iter().filter(|separator| is_mcp || !matches!(**separator, "_" | "-"));
        let ends = separators.flat_map(|separator| name.match_indices(separator));
        let mut ends: Vec<usize> = ends.map(|(at, separator)| at + separator.len()).collect();
        ends.sort_unstable();
        let found = ends.into_iter().filter_map(|at| self.bare.get(&*normalized(name.get(at..)?))).next();
        found.map_or(Mapping::Unknown, |numbers| self.mapping(numbers, Certainty::ToolOnly))
    }

    fn truncated(&self, name: &str) -> Mapping<T> {
        let mut numbers = Vec::new();
        if let Some((beginning, end)) = name.split_once(GAP) {
            let (beginning, end) = (normalized(beginning), normalized(end));
            self.beginning_with(&beginning, &mut numbers, |form| form.ends_with(&*end));
        }
        let digits = name.bytes().rev().take_while(u8::is_ascii_hexdigit).count();
        // Hexadecimal digits may as well be the end of the name.
        for digits in HASH_DIGITS.filter(|most| *most <= digits) {
            if numbers.is_empty()
                && let Some(beginning) = name.get(..name.len() - digits)
            {
                let beginning = normalized(beginning);
                self.beginning_with(&beginning, &mut numbers, |form| form.len() > beginning.len());
            }
        }
        if numbers.is_empty() { Mapping::Unknown } else { self.mapping(&numbers, Certainty::Truncated) }
    }

    /// The tools that have a form which begins so.
    fn beginning_with(&self, beginning: &str, numbers: &mut Vec<usize>, is: impl Fn(&str) -> bool) {
        if beginning.len() < MIN_BEGINNING {
            return;
        }
        let forms = self.normalized.range::<str, _>((Bound::Included(beginning), Bound::Unbounded));
        let forms = forms.take_while(|(form, _)| form.starts_with(beginning));
        for number in forms.filter(|(form, _)| is(form)).flat_map(|(_, numbers)| numbers) {
            if numbers.len() <= MAX_CANDIDATES && !numbers.contains(number) {
                numbers.push(*number);
            }
        }
    }

    fn mapping(&self, numbers: &[usize], certainty: Certainty) -> Mapping<T> {
        let tools = numbers.iter().filter_map(|number| self.tools.get(*number).cloned());
        let mut tools: Vec<T> = tools.take(MAX_CANDIDATES).collect();
        match tools.len() {
            0 => Mapping::Unknown,
            1 => tools.pop().map_or(Mapping::Unknown, |tool| Mapping::One(tool, certainty)),
            _ => Mapping::Several(tools, certainty),
        }
    }
}

/// With `_` for what the API does not allow in names.
fn allowed(name: &str) -> String {
    name.chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') { letter } else { '_' },
        )
        .collect()
}

/// In small letters, and with one `_` for all that stands between letters and digits.
fn normalized(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_alphanumeric() {
            true => text.push(letter.to_ascii_lowercase()),
            false if text.ends_with('_') || text.is_empty() => {}
            false => text.push('_'),
        }
    }
    text.truncate(text.trim_end_matches('_').len());
    text
}
