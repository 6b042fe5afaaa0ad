//! Messages as they are put into events.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::recorded;
use super::config::Payloads;
use super::pairing::{Asked, Client};
use crate::event::{
    CallStatus, Decided, Message as MessageEvent, MessageKind, ServerInitialized, ToolCalled, ToolResult,
};
use crate::guard::{Recorded, ToolCategory};
use crate::hash::bounded_name;
use crate::ids::{Direction, ServerId};
use crate::protocol::{Id, Kind, MAX_ID_BYTES, Message, Method, decode_str, members, value};
use crate::redact::Redactor;
use crate::registry::ItemKind;

/// Longest name (of a tool, a method, a server) in an event, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 256;
/// Longest text (a description, an error) in an event, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Longest capabilities in an event, in bytes of JSON.
const MAX_CAPABILITIES_BYTES: usize = 64 * 1024;

/// Puts values into events as they may be put there.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) redactor: Redactor,
    pub(super) payloads: Payloads,
}

impl Recorder {
    pub(super) fn is_full(&self) -> bool {
        self.payloads == Payloads::Full
    }

    /// A value, whole or redacted. What no [`Value`] can hold is its text, with full payloads.
    fn payload(&self, json: &str) -> Value {
        match self.payloads {
            Payloads::Redacted => self.redactor.redact(json),
            Payloads::Full => value(json).unwrap_or_else(|| Value::String(json.to_owned())),
        }
    }

    fn optional(&self, json: Option<&RawValue>) -> Value {
        json.map_or(Value::Null, |json| self.payload(json.get()))
    }

    /// An id as it was sent; a long one may be anything, and is redacted to one leaf.
    pub(super) fn id(&self, id: Id<'_>) -> Value {
        let Id(raw) = id;
        match raw.as_bytes().first() {
            _ if raw.len() <= MAX_ID_BYTES => id.value(),
            Some(b'"') => self.redactor.redact(raw),
            _ => self.redactor.leaf("truncated", raw.as_bytes(), Some(raw.len())),
        }
    }

    /// A call, as it is to be recorded.
    pub(super) fn called(
        &self,
        id: Value,
        (params, instead): (Option<&RawValue>, &Recorded),
        server: &ServerId,
    ) -> ToolCalled {
        let tool_name = called_name(params);
        let params = recorded(params, &instead.params).unwrap_or("null");
        let [arguments] = members(params, ["arguments"]);
        ToolCalled {
            tool_id: tool_id(server, &tool_name),
            tool_name,
            tool_hash: None,
            jsonrpc_id: id,
            input: recorded(arguments, &instead.body).map_or(Value::Null, |json| self.payload(json)),
            meta: if self.is_full() { rest_of_params(params) } else { None },
            category: ToolCategory::default(),
            decided: Decided::default(),
            detections: Vec::new(),
        }
    }

    /// The answer to a call; `id` is that of the request it is said for.
    pub(super) fn result(
        &self,
        tool_name: &str,
        id: Value,
        (message, instead): (&Message<'_>, &Recorded),
        bytes: u64,
        latency_ns: u64,
        server: &ServerId,
    ) -> ToolResult {
        let mut result = ToolResult {
            tool_name: tool_name.to_owned(),
            tool_id: tool_id(server, tool_name),
            jsonrpc_id: id,
            status: CallStatus::Error,
            error_code: None,
            error_message: None,
            error_message_bytes: None,
            bytes,
            latency_ns,
            result: Value::Null,
            decided: Decided::default(),
        };
        match &message.kind {
            Kind::Response { result: answer, .. } => {
                let [is_error] = members(answer.get(), ["isError"]);
                if is_error.is_none_or(|flag| flag.get() != "true") {
                    result.status = CallStatus::Ok;
                }
                result.result = self.payload(instead.body.as_deref().unwrap_or(answer.get()));
            }
            Kind::Error { code, message, data, .. } => {
                result.error_code = Some(*code);
                result.error_message = self.is_full().then(|| clip(message, MAX_TEXT_BYTES));
                result.error_message_bytes = Some(message.len() as u64);
                result.result = self.optional(*data);
            }
            _ => {}
        }
        result
    }

    /// Any message. `answers` is the method of the request that an answer is to; `id` stands in for its own
    /// where it is said for another connection's.
    pub(super) fn message(
        &self,
        direction: Direction,
        (message, instead): (&Message<'_>, &Recorded),
        bytes: u64,
        answers: Option<&str>,
        id: Option<&Value>,
    ) -> MessageEvent {
        let raw = |json: &Option<&RawValue>| self.optional(*json);
        let (kind, method, own_id, part) = match &message.kind {
            Kind::Request { id, method, params } => {
                let params =
                    recorded(*params, &instead.params).map_or(Value::Null, |json| self.payload(json));
                (MessageKind::Request, Some(method.as_str()), Some(id), params)
            }
            Kind::Notification { method, params } => {
                (MessageKind::Notification, Some(method.as_str()), None, raw(params))
            }
            Kind::Response { id, result } => {
                let result = instead.body.as_deref().unwrap_or(result.get());
                (MessageKind::Response, answers, Some(id), self.part(result))
            }
            Kind::Error { id, .. } => {
                let [error] = members(message.raw, ["error"]);
                (MessageKind::Error, answers, Some(id), raw(&error))
            }
            Kind::Invalid => (MessageKind::Invalid, None, None, self.part(message.raw)),
        };
        let id = id.cloned().or_else(|| own_id.map(|id| self.id(*id)));
        let payload = if self.is_full() { self.whole(message.raw, id.as_ref(), instead) } else { part };
        let method = method.map(|method| clip(method, MAX_NAME_BYTES));
        MessageEvent { direction, kind, method, jsonrpc_id: id, bytes, payload }
    }

    /// A part of a message that is only wanted redacted: with full payloads the whole message is.
    fn part(&self, json: &str) -> Value {
        if self.is_full() { Value::Null } else { self.payload(json) }
    }

    fn whole(&self, raw: &str, id: Option<&Value>, instead: &Recorded) -> Value {
        let mut whole = self.payload(raw);
        for (name, json) in [("params", &instead.params), ("result", &instead.body)] {
            if let (Some(part), Some(json)) = (whole.get_mut(name), json) {
                *part = self.payload(json);
            }
        }
        if let (Some(object), Some(id)) = (whole.as_object_mut(), id)
            && object.contains_key("id")
        {
            object.insert("id".to_owned(), id.clone());
        }
        whole
    }

    /// Bytes that are no message at all.
    pub(super) fn invalid(&self, direction: Direction, frame: &[u8]) -> MessageEvent {
        let text = String::from_utf8_lossy(frame);
        let payload = match self.payloads {
            Payloads::Redacted => self.redactor.redact(&text),
            Payloads::Full => Value::String(text.into_owned()),
        };
        let bytes = frame.len() as u64;
        MessageEvent { direction, kind: MessageKind::Invalid, method: None, jsonrpc_id: None, bytes, payload }
    }
}

/// What of a request its answer will be read with.
pub(super) fn asked(method: &Method<'_>, params: Option<&RawValue>) -> Asked {
    let params = params.map_or("null", RawValue::get);
    match method {
        Method::ToolsCall => Asked::Call { tool_name: named(params) },
        Method::ToolsList | Method::PromptsList | Method::ResourcesTemplatesList => {
            let kind = match method {
                Method::ToolsList => ItemKind::Tool,
                Method::PromptsList => ItemKind::Prompt,
                _ => ItemKind::ResourceTemplate,
            };
            let [cursor] = members(params, ["cursor"]);
            Asked::List { kind, first: cursor.is_none_or(|cursor| cursor.get() == "null") }
        }
        Method::Initialize => {
            let [info, version, capabilities] =
                members(params, ["clientInfo", "protocolVersion", "capabilities"]);
            let [name, client_version] = members(info.map_or("null", RawValue::get), ["name", "version"]);
            Asked::Initialize(Box::new(Client {
                name: text(name, MAX_NAME_BYTES),
                version: text(client_version, MAX_NAME_BYTES),
                protocol_version: text(version, MAX_NAME_BYTES),
                capabilities: bounded(capabilities).map(Into::into),
            }))
        }
        other => Asked::Other { method: clip(other.as_str(), MAX_NAME_BYTES).into() },
    }
}

/// What the two sides say of themselves.
pub(super) fn initialized(client: &Client, result: &RawValue) -> ServerInitialized {
    let [info, version, capabilities, instructions] =
        members(result.get(), ["serverInfo", "protocolVersion", "capabilities", "instructions"]);
    let [name, server_version] = members(info.map_or("null", RawValue::get), ["name", "version"]);
    ServerInitialized {
        server_name: text(name, MAX_NAME_BYTES),
        server_version: text(server_version, MAX_NAME_BYTES),
        client_name: client.name.clone(),
        client_version: client.version.clone(),
        protocol_version: text(version, MAX_NAME_BYTES),
        requested_protocol_version: client.protocol_version.clone(),
        capabilities: bounded(capabilities).and_then(value).unwrap_or_default(),
        client_capabilities: client.capabilities.as_deref().and_then(value).unwrap_or_default(),
        instructions: text(instructions, MAX_TEXT_BYTES),
    }
}

/// The name of the tool that is called. Empty where there is none.
pub(super) fn called_name(params: Option<&RawValue>) -> String {
    named(params.map_or("null", RawValue::get))
}

fn named(params: &str) -> String {
    let [name] = members(params, ["name"]);
    name.and_then(|name| decode_str(name.get())).map(|name| bounded_name(&name)).unwrap_or_default()
}

/// `mcp:{server}:{tool}`.
pub(super) fn tool_id(server: &ServerId, tool_name: &str) -> String {
    format!("mcp:{server}:{tool_name}")
}

/// A string, cut off after `limit` bytes.
pub(super) fn text(json: Option<&RawValue>, limit: usize) -> Option<String> {
    json.and_then(|json| decode_str(json.get())).map(|text| clip(&text, limit))
}

/// The beginning of a text, `…` for what was cut off.
pub(super) fn clip(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

fn bounded(json: Option<&RawValue>) -> Option<&str> {
    json.map(RawValue::get).filter(|json| json.len() <= MAX_CAPABILITIES_BYTES)
}

fn rest_of_params(params: &str) -> Option<Value> {
    let rest: Map<String, Value> = match value(params)? {
        Value::Object(members) => {
            members.into_iter().filter(|(key, _)| key != "name" && key != "arguments").collect()
        }
        _ => return None,
    };
    (!rest.is_empty()).then_some(Value::Object(rest))
}
