//! The calls of one answer, from their names to their whole arguments.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::{Value, each, is_value, member, some_text};
use crate::{
    AnswerOutput, Arguments, ContentDigest, Dialect, Executor, IntentCounters, IntentLimits, Missing, Tokens,
    ToolCall,
};

/// Takes what comes out.
pub(crate) type Sink<'a> = dyn FnMut(AnswerOutput<'_>) + 'a;

/// Who runs a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Runs {
    #[default]
    Client,
    Provider,
    ProviderMcp(Box<str>),
}

/// What is known of a call before its arguments are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) id: Value<'a>,
    pub(crate) name: Value<'a>,
    pub(crate) namespace: Value<'a>,
    pub(crate) runs: Runs,
}

#[derive(Debug, Default)]
struct Call {
    id: Option<Box<str>>,
    name: String,
    namespace: Option<Box<str>>,
    runs: Runs,
    /// As far as they came, and how many bytes they have.
    arguments: String,
    bytes: u64,
    /// Whether they are a text, of a tool that takes one.
    is_text: bool,
    is_unread: bool,
    is_called: bool,
}

impl Call {
    fn view(&self, number: u64) -> ToolCall<'_> {
        let executor = match &self.runs {
            Runs::Client => Executor::Client,
            Runs::Provider => Executor::Provider,
            Runs::ProviderMcp(server) => Executor::ProviderMcp { server },
        };
        let (id, namespace) = (self.id.as_deref(), self.namespace.as_deref());
        ToolCall { number, id, name: &self.name, namespace, executor }
    }
}

/// What is known of an answer.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limits: IntentLimits,
    pub(crate) counters: IntentCounters,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) tokens: Tokens,
    stop: Option<Box<str>>,
    calls: BTreeMap<u64, Call>,
    missing: Vec<Missing>,
    /// Items that were said as a whole, by their numbers.
    seen: BTreeSet<u64>,
    /// The call in progress, of a dialect that does not number them.
    pub(crate) open: Option<u64>,
    is_over: bool,
    next: u64,
}

impl State {
    pub(crate) fn new(limits: IntentLimits) -> Self {
        Self {
            limits,
            counters: IntentCounters::default(),
            dialect: None,
            tokens: Tokens::default(),
            stop: None,
            calls: BTreeMap::new(),
            missing: Vec::new(),
            seen: BTreeSet::new(),
            open: None,
            is_over: false,
            next: 0,
        }
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.calls.values().map(|call| size_of::<Call>() + call.name.len() + call.arguments.len()).sum()
    }

    /// A number that no other call of the answer has, where the dialect has none.
    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// A name within its bound.
    pub(crate) fn cut<'t>(&mut self, text: &'t str) -> &'t str {
        let end = text.floor_char_boundary(self.limits.name_bytes);
        self.counters.names_cut += u64::from(end < text.len());
        text.get(..end).unwrap_or_default()
    }

    /// It shows that it is the answer of a model. Said once.
    pub(crate) fn begin(&mut self, dialect: Dialect, id: Value<'_>, model: Value<'_>, sink: &mut Sink<'_>) {
        if self.dialect.replace(dialect).is_none() {
            self.counters.answers += 1;
            let (id, model) = (some_text(id), some_text(model));
            let id = id.as_deref().map(|id| self.cut(id));
            let model = model.as_deref().map(|model| self.cut(model));
            sink(AnswerOutput::Begun { dialect, id, model });
        }
    }

    /// Something of it is missing.
    pub(crate) fn miss(&mut self, missing: Missing, sink: &mut Sink<'_>) {
        match missing {
            Missing::TooManyCalls => self.counters.calls_dropped += 1,
            Missing::TooLong => self.counters.values_too_long += 1,
            Missing::Invalid => self.counters.invalid += 1,
        }
        // Of what is no answer of a model nothing is missing.
        if self.dialect.is_some() && !self.missing.contains(&missing) {
            self.missing.push(missing);
            sink(AnswerOutput::Missing(missing));
        }
    }

    /// More is known of a call: what of its name and id is new. `false`: there are too many.
    pub(crate) fn name(&mut self, number: u64, head: &Head<'_>, sink: &mut Sink<'_>) -> bool {
        if !self.calls.contains_key(&number) && self.calls.len() >= self.limits.calls {
            // Pieces of one call are one.
            if head.name.is_some() {
                self.miss(Missing::TooManyCalls, sink);
            }
            return false;
        }
        let bound = self.limits.name_bytes;
        let call = self.calls.entry(number).or_default();
        let mut is_new = false;
        let mut cuts = 0;
        // A name comes in one piece, in several, or again with each piece of the arguments.
        if let Some(name) = some_text(head.name)
            && call.bytes == 0
            && call.name != *name
            && !call.is_called
        {
            let room = bound.saturating_sub(call.name.len());
            let end = name.floor_char_boundary(room);
            cuts += u64::from(end < name.len());
            call.name.push_str(name.get(..end).unwrap_or_default());
            is_new |= end > 0;
        }
        for (slot, value) in [(&mut call.id, head.id), (&mut call.namespace, head.namespace)] {
            if slot.is_none()
                && let Some(text) = some_text(value)
            {
                let end = text.floor_char_boundary(bound);
                cuts += u64::from(end < text.len());
                *slot = text.get(..end).map(Box::from);
                is_new = true;
            }
        }
        if call.runs == Runs::Client {
            call.runs = head.runs.clone();
        }
        if is_new && !call.name.is_empty() && !call.is_called {
            sink(AnswerOutput::Named(call.view(number)));
        }
        self.counters.names_cut += cuts;
        true
    }

    /// The next piece of the arguments of a call.
    pub(crate) fn extend(&mut self, number: u64, piece: &str) {
        let Some(call) = self.calls.get_mut(&number).filter(|call| !call.is_called) else { return };
        call.bytes += piece.len() as u64;
        if call.bytes <= self.limits.argument_bytes as u64 {
            call.arguments.push_str(piece);
        } else {
            call.arguments = String::new();
        }
    }

    /// The whole arguments of a call, whatever came of them before: JSON, or the text that has it.
    pub(crate) fn arguments(&mut self, number: u64, arguments: &str) {
        if let Some(call) = self.calls.get_mut(&number).filter(|call| !call.is_called) {
            (call.arguments, call.bytes) = (String::new(), 0);
        }
        self.extend(number, arguments);
    }

    /// The arguments of a call are a text.
    pub(crate) fn is_text(&mut self, number: u64) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.is_text = true;
        }
    }

    /// The arguments of a call are in a form that is not read.
    pub(crate) fn is_unread(&mut self, number: u64) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.is_unread = true;
        }
    }

    /// The arguments of a call are whole.
    pub(crate) fn call(&mut self, number: u64, sink: &mut Sink<'_>) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if std::mem::replace(&mut call.is_called, true) || call.name.is_empty() {
            return;
        }
        let text = std::mem::take(&mut call.arguments);
        let arguments = match text.trim() {
            _ if call.is_unread => Arguments::Unread,
            _ if call.bytes > self.limits.argument_bytes as u64 => Arguments::TooLong(call.bytes),
            _ if call.is_text => Arguments::Text(&text),
            // Of a tool without parameters.
            "" => Arguments::Json("{}"),
            text if is_value(text) => Arguments::Json(text),
            text => Arguments::Text(text),
        };
        self.counters.arguments_too_long += u64::from(matches!(arguments, Arguments::TooLong(_)));
        self.counters.arguments_unread += u64::from(matches!(arguments, Arguments::Unread));
        sink(AnswerOutput::Called { call: call.view(number), arguments });
    }

    /// The arguments of the calls with these numbers are whole.
    pub(crate) fn call_all(&mut self, numbers: impl std::ops::RangeBounds<u64>, sink: &mut Sink<'_>) {
        let numbers: Vec<u64> = self.calls.range(numbers).map(|(number, _)| *number).collect();
        for number in numbers {
            self.call(number, sink);
        }
    }

    /// A call with its whole arguments.
    pub(crate) fn whole(&mut self, number: u64, head: &Head<'_>, arguments: &str, sink: &mut Sink<'_>) {
        if self.name(number, head, sink) {
            self.arguments(number, arguments);
            self.call(number, sink);
        }
    }

    /// Whether a call is known by name.
    pub(crate) fn is_named(&self, number: u64) -> bool {
        self.calls.get(&number).is_some_and(|call| !call.name.is_empty())
    }

    /// The provider has asked a server for its tools.
    pub(crate) fn provider_tools(&mut self, server: Value<'_>, tools: Value<'_>, sink: &mut Sink<'_>) {
        let server = crate::json::text(server);
        let server = self.cut(&server);
        each(tools, &mut |tool| {
            let name = crate::json::text(member(Some(tool), "name"));
            let (name, definition) = (self.cut(&name), tool.get());
            sink(AnswerOutput::ProviderTool { server, name, definition });
        });
    }

    /// The provider has run a tool.
    pub(crate) fn result(&mut self, id: Value<'_>, is_error: bool, content: Value<'_>, sink: &mut Sink<'_>) {
        let id = crate::json::text(id);
        let (id, content) = (self.cut(&id), ContentDigest::of(content));
        sink(AnswerOutput::ProviderResult { id, is_error, content });
    }

    /// Whether something of an answer is said for the first time. `false` as well where there is too much of it.
    pub(crate) fn is_first(&mut self, number: u64, sink: &mut Sink<'_>) -> bool {
        if self.seen.contains(&number) {
            return false;
        }
        if self.seen.len() >= self.limits.calls {
            self.miss(Missing::TooManyCalls, sink);
            return false;
        }
        self.seen.insert(number)
    }

    /// The provider reports an error.
    pub(crate) fn fail(&mut self, kind: &str, sink: &mut Sink<'_>) {
        if self.dialect.is_some() {
            let kind = self.cut(kind);
            sink(AnswerOutput::Failed { kind });
        }
    }

    /// Why the model stopped.
    pub(crate) fn stop(&mut self, reason: Value<'_>) {
        if let Some(reason) = some_text(reason) {
            self.stop = Some(self.cut(&reason).into());
        }
    }

    /// What it cost; numbers that are not there stay as they are.
    pub(crate) fn cost(&mut self, [input, output, cached]: [Option<u64>; 3]) {
        let Tokens { input: old_input, output: old_output, cached: old_cached } = self.tokens;
        self.tokens = Tokens {
            input: input.or(old_input),
            output: output.or(old_output),
            cached: cached.or(old_cached),
        };
    }

    /// Nothing more comes. Calls whose arguments are whole as far as they came are calls.
    pub(crate) fn end(&mut self, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if self.dialect.is_none() {
            self.counters.unrecognised += 1;
            return;
        }
        let is_whole = |call: &Call| {
            !call.is_called && call.bytes > 0 && (call.arguments.is_empty() || is_value(&call.arguments))
        };
        let whole: Vec<u64> =
            self.calls.iter().filter(|(_, call)| is_whole(call)).map(|(number, _)| *number).collect();
        for number in whole {
            self.call(number, sink);
        }
        let unfinished = self.calls.values().filter(|call| !call.is_called && !call.name.is_empty());
        self.counters.calls_unfinished += unfinished.count() as u64;
        self.calls.clear();
        let stop = self.stop.take();
        sink(AnswerOutput::Ended { stop: stop.as_deref(), tokens: self.tokens });
    }
}
