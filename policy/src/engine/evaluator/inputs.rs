//! What servers ask of clients within answers and tasks, and what clients answer there: evaluated as the requests and answers that
//! it stands for (MCP 2026-07-28, "Multi round-trip requests").

use serde_json::Value;
use serde_json::value::RawValue;

use super::inspection::{self, under};
use super::verdict::report_verdict;
use super::{About, Context, Evaluator, Scope, Seen};
use crate::detect::{Inspection, Structure};
use crate::engine::ledger::Digest;
use crate::engine::recorder::clip;
use crate::event::{MessageKind, Subject};
use crate::guard::Operation;
use crate::protocol::{
    self, Id, Kind, Message, Method, Otherwise, decode_str, every_member, members, members_once, without,
};
use crate::terms::{Direction, escape_pointer};

/// The member of an answer under which they stand.
const INPUTS: &str = "inputRequests";
/// Most requests, or answers to them, of one message that are evaluated one by one.
const MAX_INPUTS: usize = 1_000;
/// Longest key of one in the field of a detection. Bytes.
const MAX_KEY_BYTES: usize = 64;
/// Where requests of a server stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    /// The object that has them, as a JSON Pointer.
    pub(super) field: &'a str,
    pub(super) json: &'a RawValue,
    /// The task that asks them, again with each sight of it.
    pub(super) task: Option<Digest>,
}

impl Evaluator {
    /// Evaluates what a server asks within an answer, or a task, `id` being that of the client's request.
    pub(super) fn judge_inputs(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        id: &Value,
        Inputs { field, json, task }: Inputs<'_>,
    ) {
        let Some(entries) = protocol::entries(json) else { return };
        self.report_skipped(cx, scope, seen, (id, field), entries.len());
        for (key, entry) in entries.into_iter().take(MAX_INPUTS) {
            if let Some(task) = task {
                let known = Digest::of(&[task.bytes(), key.as_bytes(), entry.get().as_bytes()]);
                if cx.is_reported(scope.connection, "inputRequests", &known.hex()) {
                    continue;
                }
            }
            cx.reporter.counters.input_requests += 1;
            let field = pointer(field, &key);
            let message = request_of(entry);
            report_repeated_input(cx, scope, seen, id, &message, &field);
            // A client may take another of members with one name.
            let Otherwise { respelled, others, .. } = Otherwise::of(entry.get(), Direction::ServerToClient);
            let others = others.into_iter().chain(respelled.map(|respelled| respelled.json));
            let others: Vec<Box<RawValue>> =
                others.filter_map(|json| RawValue::from_string(json).ok()).collect();
            let readings = std::iter::once(message).chain(others.iter().map(|json| request_of(json)));
            let mut known: Vec<(String, Option<&str>)> = Vec::new();
            for mut message in readings {
                let Kind::Request { method, params, .. } = &message.kind else { continue };
                let asked = (method.as_str().to_owned(), params.map(RawValue::get));
                if known.contains(&asked) {
                    continue;
                }
                known.push(asked);
                message.misdirected(Direction::ServerToClient);
                self.judge_request(cx, scope, seen, (id, &message), &format!("{field}/params"), None);
                self.search_unasked(cx, scope, seen, (Some(id.clone()), &message), &field);
            }
        }
    }

    /// Reports that more is asked than is evaluated one by one: it is inspected as the answer that it stands in.
    fn report_skipped(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (id, field): (&Value, &str),
        count: usize,
    ) {
        let Some(skipped) = count.checked_sub(MAX_INPUTS).filter(|skipped| *skipped > 0) else { return };
        cx.reporter.counters.input_requests_skipped += skipped as u64;
        let Some(inspection) = &cx.config.inspection else { return };
        let mut found = Inspection::default();
        inspection.detector.irregular(Structure::Budget, "", field, &mut found);
        let about = About { id: Some(id.clone()), ..About::of(Subject::Message) };
        cx.report_found(scope, seen.time, &about, &found);
    }

    /// Evaluates what a client answers to such requests, as the answers to requests of servers are.
    pub(super) fn judge_responses(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        id: &Value,
        json: &RawValue,
    ) {
        const FIELD: &str = "/params/inputResponses";
        let Some(entries) = protocol::entries(json) else { return };
        self.report_skipped(cx, scope, seen, (id, FIELD), entries.len());
        for (key, entry) in entries.into_iter().take(MAX_INPUTS) {
            let method = answered_method(entry);
            let response = Operation::Response { method, result: Some(entry), error: None };
            let seen = Seen { id: Some(id), ..seen };
            let evaluation = self.evaluate(cx, scope, seen, &[response], None);
            let reported = (MessageKind::Response, method, id);
            report_verdict(&mut cx.reporter, scope, seen.time, reported, &evaluation);
            self.report_cross_server(cx, scope, seen, (method, None), &evaluation);
            let mut found = evaluation.found.clone();
            if let Some(reader) = cx.reader() {
                let answer = reader.result(entry.get(), self.tool_names(&scope.session));
                found.detections.extend(answer.detections);
                found.bounds.add(answer.bounds);
            }
            let about =
                About { id: Some(id.clone()), action: evaluation.action, ..About::of(Subject::Message) };
            cx.report_found(scope, seen.time, &about, &under(&pointer(FIELD, &key), found));
        }
    }
}

/// The request that an entry of `inputRequests` is.
fn request_of(entry: &RawValue) -> Message<'_> {
    let ([method, params], repeated) = members_once(entry.get(), ["method", "params"]);
    let method = method.and_then(|method| decode_str(method.get())).unwrap_or_default();
    let kind = Kind::Request { id: Id("null"), method: Method::from(method), params };
    Message { kind, raw: entry.get(), versioned: true, repeated, beside: None, has_more: false }
}

/// The request that a client answers with this, by its form: the keys are the server's own.
fn answered_method(answer: &RawValue) -> &'static str {
    let [action, roots] = members(answer.get(), ["action", "roots"]);
    match (action, roots) {
        (Some(_), _) => "elicitation/create",
        (_, Some(_)) => "roots/list",
        _ => "sampling/createMessage",
    }
}

/// Reports that such a request has a member twice, if it does.
fn report_repeated_input(
    cx: &mut Context<'_>,
    scope: &Scope,
    seen: Seen<'_>,
    id: &Value,
    message: &Message<'_>,
    field: &str,
) {
    let mut found = Inspection::default();
    inspection::find_repeated(cx.config.inspection.as_ref(), message, &mut found);
    let about = About { id: Some(id.clone()), ..About::of(Subject::Arguments) };
    cx.report_found(scope, seen.time, &about, &under(field, found));
}

/// A JSON Pointer to this member of what stands at `field`.
fn pointer(field: &str, key: &str) -> String {
    format!("{field}/{}", escape_pointer(&clip(key, MAX_KEY_BYTES)))
}

/// Every member by this name: which of them counts differs from reader to reader.
pub(super) fn all_inputs(json: &RawValue) -> Vec<&RawValue> {
    every_member(json.get(), INPUTS).unwrap_or_default()
}

/// What is left of an answer, or a task, for whoever inspects it: without these parts of it, which are inspected by themselves, and
/// without what its requests are evaluated with. `None` where all of it is.
pub(super) fn rest(json: &RawValue, parts: &[Option<&RawValue>]) -> Option<Box<RawValue>> {
    let is_part = |value: &RawValue| parts.iter().flatten().any(|part| std::ptr::eq(part.get(), value.get()));
    if parts.iter().all(Option::is_none) && all_inputs(json).is_empty() {
        return None;
    }
    let members = protocol::all_members(json.get())?;
    // Of a long answer no copy is made for nothing.
    if !members
        .iter()
        .any(|(key, value)| is_part(value) || key == INPUTS && protocol::entries(value).is_some())
    {
        return None;
    }
    let mut text = String::from("{");
    for (key, value) in members {
        let requests = if key == INPUTS { protocol::entries(value) } else { None };
        if is_part(value) {
            continue;
        }
        text.push_str(if text.len() > 1 { "," } else { "" });
        text.extend([Value::from(key).to_string().as_str(), ":"]);
        match requests {
            Some(requests) => push_rest_of(&mut text, &requests),
            None => text.push_str(value.get()),
        }
    }
    text.push('}');
    RawValue::from_string(text).ok()
}

/// Writes what is left of requests.
fn push_rest_of(text: &mut String, requests: &[(String, &RawValue)]) {
    text.push('{');
    for (index, (key, entry)) in requests.iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        text.extend([Value::from(key.as_str()).to_string().as_str(), ":", &left_of(entry, index)]);
    }
    text.push('}');
}

/// What is left of a request at this place: nothing evaluates its other members.
fn left_of(entry: &RawValue, index: usize) -> std::borrow::Cow<'_, str> {
    if index < MAX_INPUTS {
        without(entry.get(), &["method", "params"])
    } else {
        std::borrow::Cow::Borrowed(entry.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_of_an_answer_has_everything_else() {
        let cases: [(&str, &[&str], Option<&str>); 11] = [
            (r#"{"content":[]}"#, &[], None),
            (r#"{"content":[]}"#, &["result"], None),
            (r#"["content"]"#, &["result"], None),
            (r#"{"inputRequests":"x"}"#, &[], None),
            (
                r#"{"inputRequests":{"a":{"method":"roots/list","params":{},"x":1}}}"#,
                &[],
                Some(r#"{"inputRequests":{"a":{"x":1}}}"#),
            ),
            (
                r#"{"resultType":"input_required","inputRequests":{"a":{"method":"x"},"b":"text"}}"#,
                &[],
                Some(r#"{"resultType":"input_required","inputRequests":{"a":{},"b":"text"}}"#),
            ),
            (r#"{"inputRequests":[{"method":"x"}]}"#, &[], Some(r#"{"inputRequests":{"0":{}}}"#)),
            (r#"{"taskId":"t","result":{"a":1}}"#, &["result"], Some(r#"{"taskId":"t"}"#)),
            (r#"{"result":{"a":1},"result":{"b":1}}"#, &["result"], Some(r#"{"result":{"a":1}}"#)),
            (r#"{ "result":{}, "inputRequests":{ } }"#, &["result"], Some(r#"{"inputRequests":{}}"#)),
            (
                r#"{"inputRequests":{"a\"b":{"method":"x"}},"inputRequests":{"c":{}}}"#,
                &[],
                Some(r#"{"inputRequests":{"a\"b":{}},"inputRequests":{"c":{}}}"#),
            ),
        ];
        for (json, names, expected) in cases {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let parts: Vec<Option<&RawValue>> =
                names.iter().map(|name| members(raw.get(), [name])[0]).collect();
            let rest = rest(&raw, &parts);
            assert_eq!(rest.as_deref().map(RawValue::get), expected, "{json}");
        }
    }
}
