//! Messages as they are put into events.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::asked::{Asked, Client};
use super::config::Payloads;
use crate::event::{
    CallStatus, Decided, Era, Json, Message as MessageEvent, MessageKind, ServerInitialized, ToolCalled,
    ToolResult,
};
use crate::guard::{Recorded, ToolCategory};
use crate::protocol::meta::{self, RequestMeta};
use crate::protocol::{Id, Kind, MAX_ID_BYTES, Message, Method, decode_str, error_name, members, value};
use crate::redact::{Redactor, mask_value};
use crate::registry::ItemKind;
use crate::terms::{Direction, ServerId};

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
    pub(super) fn payload(&self, json: &str) -> Json {
        match self.payloads {
            Payloads::Redacted => self.redactor.redact(json),
            Payloads::Full => Json::from(&full(json)),
        }
    }

    fn optional(&self, json: Option<&str>) -> Json {
        json.map_or_else(Json::default, |json| self.payload(json))
    }

    /// An id as it was sent; a long one may be anything, and is redacted to one leaf.
    pub(super) fn id(&self, id: Id<'_>) -> Value {
        let Id(raw) = id;
        match raw.as_bytes().first() {
            _ if raw.len() <= MAX_ID_BYTES => id.value(),
            Some(b'"') => self.redactor.redact(raw).value(),
            _ => self.redactor.leaf("truncated", raw).value(),
        }
    }

    /// A call, as it is to be recorded.
    pub(super) fn called(
        &self,
        id: Value,
        call: &Call<'_>,
        instead: &Recorded,
        server: &ServerId,
    ) -> ToolCalled {
        let Call { tool_name, params, .. } = call;
        let arguments = match &instead.params {
            Some(params) => members(params, ["arguments"])[0],
            None => call.arguments,
        };
        ToolCalled {
            tool_id: tool_id(server, tool_name),
            tool_name: Arc::clone(tool_name),
            tool_hash: None,
            jsonrpc_id: id,
            input: self.optional(recorded(arguments, &instead.body)),
            meta: recorded(*params, &instead.params).filter(|_| self.is_full()).and_then(rest_of_params),
            category: ToolCategory::default(),
            decided: Decided::default(),
            detections: Vec::new(),
            tool_detections: Vec::new(),
            intent: None,
        }
    }

    /// The answer to a call; `id` is that of the request it is reported for.
    pub(super) fn result(
        &self,
        tool_name: &Arc<str>,
        id: Value,
        (message, instead): (&Message<'_>, &Recorded),
        bytes: u64,
        latency_ns: u64,
        server: &ServerId,
    ) -> ToolResult {
        let mut result = ToolResult {
            tool_name: Arc::clone(tool_name),
            tool_id: tool_id(server, tool_name),
            jsonrpc_id: id,
            status: CallStatus::Error,
            error_code: None,
            error_name: None,
            error_message: None,
            error_message_bytes: None,
            bytes,
            latency_ns,
            rounds: 0,
            result: Json::default(),
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
                result.error_name = error_name(*code).map(str::to_owned);
                result.error_message = self.is_full().then(|| clip(message, MAX_TEXT_BYTES));
                result.error_message_bytes = Some(message.len() as u64);
                result.result = self.optional(data.map(RawValue::get));
            }
            _ => {}
        }
        result
    }

    /// Any message. `answers` is the method of the request that an answer is to; `id` stands in for its own
    /// where it is reported for another connection's.
    pub(super) fn message(
        &self,
        direction: Direction,
        (message, instead): (&Message<'_>, &Recorded),
        bytes: u64,
        answers: Option<&str>,
        id: Option<&Value>,
    ) -> MessageEvent {
        let raw = |json: &Option<&RawValue>| self.optional(json.map(RawValue::get));
        let (kind, method, own_id, part) = match &message.kind {
            Kind::Request { id, method, params } => {
                let params = recorded(*params, &instead.params);
                (MessageKind::Request, Some(method.as_str()), Some(id), self.optional(params))
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
        let payload = if self.is_full() { whole(message.raw, id.as_ref(), instead) } else { part };
        let method = method.map(|method| clip(method, MAX_NAME_BYTES));
        let error_name = match &message.kind {
            Kind::Error { code, .. } => error_name(*code).map(str::to_owned),
            _ => None,
        };
        MessageEvent { direction, kind, method, jsonrpc_id: id, error_name, bytes, payload }
    }

    /// A part of a message that is only wanted redacted: with full payloads the whole message is.
    fn part(&self, json: &str) -> Json {
        if self.is_full() { Json::default() } else { self.payload(json) }
    }

    /// Bytes that are no message at all.
    pub(super) fn invalid(&self, direction: Direction, frame: &[u8]) -> MessageEvent {
        let text = String::from_utf8_lossy(frame);
        let payload = match self.payloads {
            Payloads::Redacted => self.redactor.redact(&text),
            Payloads::Full => Json::from(&Value::from(text)),
        };
        let bytes = frame.len() as u64;
        MessageEvent {
            direction,
            kind: MessageKind::Invalid,
            method: None,
            jsonrpc_id: None,
            error_name: None,
            bytes,
            payload,
        }
    }
}

/// What no [`Value`] can hold is its text.
fn full(json: &str) -> Value {
    value(json).unwrap_or_else(|| json.into())
}

/// A message with all that it holds, but for what is recorded otherwise.
fn whole(raw: &str, id: Option<&Value>, instead: &Recorded) -> Json {
    let mut whole = full(raw);
    for (name, json) in [("params", &instead.params), ("result", &instead.body)] {
        if let (Some(part), Some(json)) = (whole.get_mut(name), json) {
            *part = full(json);
        }
    }
    if let (Some(object), Some(id)) = (whole.as_object_mut(), id)
        && object.contains_key("id")
    {
        object.insert("id".to_owned(), id.clone());
    }
    Json::from(&whole)
}

/// A tool call, as it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    /// Empty where there is none.
    pub(super) tool_name: Arc<str>,
    pub(super) params: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
    /// The member of the params that stands there twice.
    pub(super) repeated: Option<&'static str>,
}

/// What of a request its answer will be read with.
pub(super) fn asked(method: &Method<'_>, params: Option<&RawValue>, call: Option<&Call<'_>>) -> Asked {
    let (sent, params) = (params, params.map_or("null", RawValue::get));
    if let Some(call) = call {
        return Asked::Call { tool_name: Arc::clone(&call.tool_name) };
    }
    match method {
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
            Asked::Initialize(Box::new(client(info, text(version, MAX_NAME_BYTES), capabilities)))
        }
        Method::ServerDiscover => Asked::Discover(Box::new(client_of(&RequestMeta::of(sent)))),
        other => Asked::Other { method: clip(other.as_str(), MAX_NAME_BYTES).into() },
    }
}

/// What a client says of itself in the `_meta` of a request.
pub(super) fn client_of(meta: &RequestMeta<'_>) -> Client {
    let version = meta.protocol_version.as_deref().map(|version| clip(version, MAX_NAME_BYTES));
    client(meta.client_info, version, meta.client_capabilities)
}

fn client(
    info: Option<&RawValue>,
    protocol_version: Option<String>,
    capabilities: Option<&RawValue>,
) -> Client {
    let [name, version] = members(info.map_or("null", RawValue::get), ["name", "version"]);
    Client {
        name: text(name, MAX_NAME_BYTES),
        version: text(version, MAX_NAME_BYTES),
        protocol_version,
        capabilities: bounded(capabilities).map(Into::into),
    }
}

/// What the two sides say of themselves.
pub(super) fn initialized(era: Era, client: &Client, result: &RawValue) -> ServerInitialized {
    let [version, capabilities, instructions] =
        members(result.get(), ["protocolVersion", "capabilities", "instructions"]);
    let info = meta::server_info(result);
    let [name, server_version] = members(info.map_or("null", RawValue::get), ["name", "version"]);
    let supported_versions = supported_versions(result);
    let is_supported =
        |version: &&String| supported_versions.is_empty() || supported_versions.contains(version);
    let in_use = match era {
        Era::Handshake => text(version, MAX_NAME_BYTES),
        Era::Stateless => client.protocol_version.as_ref().filter(is_supported).cloned(),
    };
    ServerInitialized {
        era: Some(era),
        server_name: text(name, MAX_NAME_BYTES),
        server_version: text(server_version, MAX_NAME_BYTES),
        client_name: client.name.clone(),
        client_version: client.version.clone(),
        protocol_version: in_use,
        requested_protocol_version: client.protocol_version.clone(),
        supported_versions,
        capabilities: bounded(capabilities).and_then(value).map(mask_value).unwrap_or_default(),
        client_capabilities: client
            .capabilities
            .as_deref()
            .and_then(value)
            .map(mask_value)
            .unwrap_or_default(),
        instructions: text(instructions, MAX_TEXT_BYTES),
    }
}

/// Most revisions of one answer.
const MAX_VERSIONS: usize = 32;

/// The revisions that an answer to `server/discover` names, bounded.
pub(super) fn supported_versions(result: &RawValue) -> Vec<String> {
    let [supported] = members(result.get(), ["supportedVersions"]);
    let all: Vec<&RawValue> =
        supported.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    let texts = all.into_iter().take(MAX_VERSIONS);
    texts.filter_map(|version| text(Some(version), MAX_NAME_BYTES)).collect()
}

/// `mcp:{server}:{tool}`.
pub(super) fn tool_id(server: &ServerId, tool_name: &str) -> String {
    ["mcp:", &server.0, ":", tool_name].concat()
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

/// The JSON text that a part of a message is recorded as.
fn recorded<'a>(sent: Option<&'a RawValue>, instead: &'a Option<String>) -> Option<&'a str> {
    instead.as_deref().or(sent.map(RawValue::get))
}
