//! Messages, written in every form that JSON has for them, and what the gate is to make of each.

use std::fmt::Write as _;

/// The same as the configuration says.
pub fn is_denied_by_name(name: &str) -> bool {
    name == "add" || name.starts_with("delete_") || name.starts_with('工')
}

/// Longer names cannot be told. Bytes.
const LONG_NAME: usize = 192;
/// What a message has that the gate reads, in the order in which it stands there.
#[derive(Clone)]
enum Part {
    Method(&'static str),
    Name(String),
    Uri,
}

/// Whether the gate is to stop a message of these: each of several names and methods counts; two names before the method that mean
/// different things (one is listed, one is not) are one that cannot be told, as is a long one.
fn is_denied(parts: &[Part]) -> bool {
    let is_stopped = |name: &String| is_denied_by_name(name) || name.len() > LONG_NAME;
    let (mut is_call, mut names) = (false, Vec::<&String>::new());
    for part in parts {
        match part {
            Part::Name(name) => {
                if is_call && is_stopped(name) {
                    return true;
                }
                names.push(name);
            }
            Part::Method("tools/call") => {
                is_call = true;
                let listed = names.iter().filter(|name| **name == "echo").count();
                if names.iter().any(|name| is_stopped(name)) || (1..names.len()).contains(&listed) {
                    return true;
                }
            }
            Part::Method(_) | Part::Uri => {}
        }
    }
    false
}

/// Some JSON, and what the gate reads of it.
#[derive(Clone, Default)]
struct Json {
    text: String,
    parts: Vec<Part>,
}

impl Json {
    fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), parts: Vec::new() }
    }
}

/// A request.
pub struct Message {
    pub id: u64,
    pub text: String,
    pub is_denied: bool,
    /// Of a form that the gate reads as the engine does.
    pub is_usual: bool,
    /// A line break within it: nothing of its write gets through.
    pub is_broken: bool,
    pub is_call: bool,
    /// It has a URI, too.
    pub is_located: bool,
}

/// What its server reads at once: a message or a batch.
pub struct Frame {
    pub text: String,
    pub messages: Vec<Message>,
}

/// A generator of numbers (xorshift64*): what fails can be run again by its seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap_or_default() % bound
    }

    pub fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A string as JSON spells it, in one of many ways.
    fn string(&mut self, text: &str) -> String {
        let mut spelt = String::from("\"");
        for letter in text.chars() {
            if matches!(letter, '"' | '\\') {
                spelt.extend(['\\', letter]);
            } else if self.one_in(12) {
                let units = letter.encode_utf16(&mut [0; 2]).to_vec();
                let _ = units.iter().try_for_each(|unit| write!(spelt, "\\u{unit:04x}"));
            } else {
                spelt.push(letter);
            }
        }
        spelt + "\""
    }

    fn blank(&mut self) -> &'static str {
        self.pick(&["", "", "", " ", "  ", "\t"])
    }

    /// An object of members in any order.
    fn object(&mut self, mut members: Vec<(&str, Json)>) -> Json {
        let mut all = Json::of("{");
        while !members.is_empty() {
            let (key, value) = members.swap_remove(self.below(members.len()));
            let (a, key, b, c) = (self.blank(), self.string(key), self.blank(), self.blank());
            let _ = write!(all.text, "{a}{key}{b}:{c}{}", value.text);
            all.parts.extend(value.parts);
            if !members.is_empty() {
                all.text.push(',');
            }
        }
        all.text.push('}');
        all
    }

    /// A value that means nothing, with what would mean something elsewhere.
    fn noise(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 7 }) {
            0 => self.below(1_000).to_string(),
            1 => self.string("name\":\"add"),
            2 => self.string("{\"method\":\"tools/call\"}"),
            3 => self.pick(&["true", "null", "-1e5", "\"\""]).to_owned(),
            4 => {
                let members = [("name", "add"), ("params", "add"), ("method", "tools/call"), ("uri", "x")];
                let members = members.map(|(key, value)| (key, Json::of(self.string(value))));
                self.object(members.to_vec()).text
            }
            5 => format!("[{},{}]", self.noise(depth - 1), self.noise(depth - 1)),
            _ => {
                let inner = Json::of(self.noise(depth - 1));
                let key = self.pick(&["params", "name"]);
                self.object(vec![(key, inner)]).text
            }
        }
    }

    fn arguments(&mut self) -> Json {
        if !self.one_in(25) {
            return Json::of(self.noise(3));
        }
        let depth = 40 + self.below(40);
        let (open, close) = self.pick(&[("[", "]"), ("{\"params\":", "}"), ("{\"name\":", "}")]);
        Json::of(format!("{}{}{}", open.repeat(depth), self.noise(1), close.repeat(depth)))
    }

    fn name(&mut self) -> Json {
        let name = self
            .pick(&["add", "echo", "ad", "addd", "Add", "delete_x", "größe", "工具", "tools/call", ""])
            .to_owned();
        let name = match self.below(40) {
            // The longest that can be told, and longer ones.
            0 => name.clone() + &"o".repeat(LONG_NAME - name.len()),
            1 => name + &"o".repeat(LONG_NAME + self.below(200)),
            _ => name,
        };
        Json { text: self.string(&name), parts: vec![Part::Name(name)] }
    }

    fn method(&mut self) -> Json {
        let call = "tools/call";
        let method =
            self.pick(&[call, call, call, call, "ping", "tools/call2", "prompts/get", "resources/read"]);
        Json { text: self.string(method), parts: vec![Part::Method(method)] }
    }

    fn params(&mut self, is_usual: &mut bool) -> Json {
        let key = self.key(is_usual, "name", &["Name", "NAME"]);
        let mut members = vec![(key, self.name()), ("arguments", self.arguments())];
        if self.one_in(40) {
            members.push((self.pick(&["name", "nAme"]), self.name()));
            *is_usual = false;
        }
        if self.one_in(3) {
            members.push(("_meta", Json::of(self.noise(2))));
        }
        if self.one_in(3) {
            let uri = self.pick(&["file:///add", "add", "工具://x"]);
            members.push(("uri", Json { text: self.string(uri), parts: vec![Part::Uri] }));
        }
        self.object(members)
    }

    /// A key as it should be, or as only some readers take it.
    fn key(&mut self, is_usual: &mut bool, key: &'static str, others: &[&'static str]) -> &'static str {
        if !self.one_in(80) {
            return key;
        }
        *is_usual = false;
        self.pick(others)
    }

    fn message(&mut self, id: u64) -> Message {
        let mut is_usual = true;
        let mut members = vec![("jsonrpc", Json::of("\"2.0\"")), ("id", Json::of(id.to_string()))];
        members.push((self.key(&mut is_usual, "method", &["Method", "METHOD"]), self.method()));
        members.push((self.key(&mut is_usual, "params", &["Params", "paramſ"]), self.params(&mut is_usual)));
        if self.one_in(40) {
            is_usual = false;
            members.push(if self.one_in(2) {
                ("method", self.method())
            } else {
                ("params", self.params(&mut is_usual))
            });
        }
        let Json { mut text, parts } = self.object(members);
        let is_broken = self.one_in(300);
        if is_broken {
            text.insert(1, self.pick(&['\r', '\n']));
        }
        is_usual &= !parts.iter().any(|part| matches!(part, Part::Name(name) if name.len() > LONG_NAME));
        let is_call = parts.iter().any(|part| matches!(part, Part::Method("tools/call")));
        let is_denied = is_denied(&parts) || is_broken;
        let is_located = parts.iter().any(|part| matches!(part, Part::Uri));
        Message { id, text, is_denied, is_usual: is_usual && !is_broken, is_broken, is_call, is_located }
    }

    /// Up to eight messages: alone, and in batches.
    pub fn frames(&mut self, id: &mut u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut left = 1 + self.below(8);
        while left > 0 {
            let is_batch = self.one_in(8);
            let count = if is_batch { 1 + self.below(left) } else { 1 };
            let messages: Vec<Message> = (0..count).map(|at| self.message(*id + at as u64)).collect();
            (*id, left) = (*id + count as u64, left - count);
            let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
            let text = if is_batch { format!("[{}]", texts.join(",")) } else { texts.concat() };
            frames.push(Frame { text, messages });
        }
        frames
    }
}
