//! A long message is inspected apart: by whoever has time for it, before it is read.
//!
//! Which of its texts are inspected, and how, follows from what it is and, of an answer, from what was asked. What is not foreseen
//! here is inspected when the message is read, up to a bound: see [`Ahead`].

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::asked::Asked;
use super::evaluator::{as_all_read, beside_entries, listed_entries};
use super::io::Inspected;
use crate::detect::{Ahead, DefinitionCache, Detector, ToolNames, Way};
use crate::protocol::{
    self, Id, IdKey, Kind, Message, Method, Otherwise, decode_str, members, members_once, meta, without,
};
use crate::registry::ItemKind;
use crate::terms::{Direction, ServerId};
use crate::wire;

/// What an answer is of, as far as it says how that is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerTo {
    /// What the server says of itself.
    Greeting,
    /// A list that is compared with pins.
    List(ItemKind),
    /// Another list.
    OtherList,
    /// Resources, among which user interfaces may be.
    Resources,
    /// Anything else.
    Other,
}

impl AnswerTo {
    pub(super) fn of(asked: &Asked) -> Self {
        match asked {
            Asked::Initialize(_) | Asked::Discover(_) => Self::Greeting,
            Asked::List { kind, .. } => Self::List(*kind),
            Asked::Other { method } if &**method == "resources/read" => Self::Resources,
            Asked::Other { method } if method.ends_with("list") => Self::OtherList,
            Asked::Call { .. } | Asked::Other { .. } => Self::Other,
        }
    }
}

/// A long message that waits to be inspected.
#[derive(Debug)]
pub struct LongMessage {
    pub(super) id: u64,
    pub(super) frame: Arc<[u8]>,
    pub(super) direction: Direction,
    pub(super) detector: Arc<Detector>,
    /// The names of the session's tools.
    pub(super) tools: Arc<ToolNames>,
    pub(super) server: ServerId,
    pub(super) definitions: DefinitionCache,
    /// What was asked in the other direction, by ids.
    pub(super) asked: HashMap<IdKey, AnswerTo>,
}

impl LongMessage {
    /// The number of its inspection.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Inspects it: pure, on any thread.
    pub fn inspect(mut self) -> Inspected {
        let mut ahead = Ahead::of(self.frame.len());
        let frame = Arc::clone(&self.frame);
        self.frame(&frame, &mut ahead);
        Inspected { id: self.id, detector: Some(self.detector), ahead: Some(Arc::new(ahead)) }
    }

    /// The messages of a frame, and those that some readers find in it.
    fn frame(&mut self, frame: &[u8], ahead: &mut Ahead) {
        let mut scratch = String::new();
        let parsed = protocol::parse(frame, &mut scratch);
        let is_json = parsed.is_ok();
        for message in parsed.iter().flat_map(|parsed| &parsed.messages) {
            let Otherwise { respelled, others, .. } = Otherwise::of(message.raw, self.direction);
            let result = respelled.as_ref().and_then(protocol::Respelled::result);
            self.message(message, result, ahead);
            for json in respelled.iter().map(|respelled| &respelled.json).chain(&others) {
                let mut scratch = String::new();
                if let Ok(parsed) = protocol::parse(json.as_bytes(), &mut scratch) {
                    parsed.messages.iter().for_each(|message| self.message(message, None, ahead));
                }
            }
        }
        wire::messages_within(frame, is_json, &mut |bytes, _| self.frame(bytes, ahead));
    }

    /// `respelled`: its result, as it is for readers that do not regard case.
    fn message(&mut self, message: &Message<'_>, respelled: Option<&RawValue>, ahead: &mut Ahead) {
        let is_of_server = self.direction == Direction::ServerToClient;
        match &message.kind {
            Kind::Request { method: Method::ToolsCall, params: Some(params), .. } if !is_of_server => {
                let ([arguments], _) = members_once(params.get(), ["arguments"]);
                self.one(Way::Arguments, arguments, ahead);
            }
            Kind::Request { method, params, .. } | Kind::Notification { method, params } if is_of_server => {
                let is_asked = matches!(method, Method::SamplingCreateMessage | Method::ElicitationCreate);
                self.one(if is_asked { Way::Request } else { Way::Result }, *params, ahead);
            }
            Kind::Response { id, result } if is_of_server => self.answer(*id, result, respelled, ahead),
            Kind::Error { .. } => {
                let [error] = members(message.raw, ["error"]);
                let [data] = members(error.map_or("null", RawValue::get), ["data"]);
                self.one(Way::Result, error, ahead);
                self.one(Way::Request, data, ahead);
            }
            _ => {}
        }
        if let Some(rest) = message.rest().filter(|_| is_of_server) {
            ahead.inspect(&self.detector, Way::Result, &rest, &self.tools);
        }
        if let Some((id, result)) = message.beside.filter(|_| is_of_server) {
            self.answer(id, result, None, ahead);
        }
    }

    fn answer(&mut self, id: Id<'_>, result: &RawValue, respelled: Option<&RawValue>, ahead: &mut Ahead) {
        let key = id.key();
        let number = key.of_other_type();
        let asked = self.asked.get(&key).or_else(|| self.asked.get(number.as_ref()?));
        match asked.copied() {
            Some(AnswerTo::Greeting) => self.greeting(result, respelled, ahead),
            Some(AnswerTo::List(kind)) => self.list(kind, result, respelled, ahead),
            Some(AnswerTo::OtherList) => {
                ahead.know(&self.detector, &mut self.definitions, None, result.get());
            }
            Some(AnswerTo::Resources) => {
                self.one(Way::Interfaces, Some(result), ahead);
                self.one(Way::Result, Some(result), ahead);
            }
            Some(AnswerTo::Other) => self.one(Way::Result, Some(result), ahead),
            // Its request is still to come: whatever it may be of.
            None => {
                let kinds = [ItemKind::Tool, ItemKind::Prompt, ItemKind::ResourceTemplate];
                kinds.into_iter().for_each(|kind| self.list(kind, result, respelled, ahead));
                self.one(Way::Result, Some(result), ahead);
            }
        }
    }

    fn greeting(&mut self, result: &RawValue, respelled: Option<&RawValue>, ahead: &mut Ahead) {
        for given in as_all_read(result, respelled, "instructions") {
            match decode_str(given.get()) {
                Some(text) => ahead.inspect(&self.detector, Way::Text, &text, &self.tools),
                None => self.one(Way::Result, Some(given), ahead),
            }
        }
        for info in as_all_read(result, respelled, "serverInfo") {
            self.one(Way::Definition, Some(info), ahead);
        }
        self.one(Way::Definition, meta::server_info_of_meta(result), ahead);
        let rest = without(result.get(), &["instructions", "serverInfo"]);
        ahead.inspect(&self.detector, Way::Result, &rest, &self.tools);
    }

    fn list(&mut self, kind: ItemKind, result: &RawValue, respelled: Option<&RawValue>, ahead: &mut Ahead) {
        let server = (kind == ItemKind::Tool).then_some(&*self.server.0);
        for entry in listed_entries(kind, result, respelled).unwrap_or_default() {
            ahead.know(&self.detector, &mut self.definitions, server, entry.get());
        }
        ahead.inspect(
            &self.detector,
            Way::Result,
            &beside_entries(kind, respelled.unwrap_or(result)),
            &self.tools,
        );
    }

    fn one(&self, way: Way, json: Option<&RawValue>, ahead: &mut Ahead) {
        if let Some(json) = json {
            ahead.inspect(&self.detector, way, json.get(), &self.tools);
        }
    }
}
