//! Requests and notifications: put before the guards and reported.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::inspection::{self, under};
use super::rounds::Try;
use super::verdict::{Evaluation, report_verdict};
use super::{About, Context, Evaluator, Scope, Seen, Topic};
use crate::definition::{bare_digest, hex};
use crate::detect::Inspection;
use crate::engine::recorder::{Call, MAX_NAME_BYTES, clip, tool_id};
use crate::engine::rounds::{Attempt, Denied, First};
use crate::event::{CrossServerBlocked, Detection, MessageKind, Severity, Subject};
use crate::guard::{DenialDetails, Operation, Recorded};
use crate::protocol::{Id, Kind, Message, Method, members, name_text};
use crate::terms::{ConnectionId, Direction, Timestamp};

impl Evaluator {
    /// Evaluates a tool call: what it is asked with, and the arguments in it.
    fn evaluate_call(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        call: &Call<'_>,
        (is_retry, is_approved): (bool, bool),
    ) -> Evaluation {
        let Call { tool_name, params, arguments, .. } = call;
        let operations = [
            Operation::Request { method: "tools/call", params: *params },
            Operation::ToolInvoke { tool_name, arguments: *arguments },
        ];
        let topic =
            Topic { tool: Some(tool_name), seen: Some(seen), is_retry, is_approved, ..Topic::default() };
        self.evaluate_try(cx, scope, seen, &operations, topic)
    }

    /// Reports which rules across servers object to a call, or, where there is no `tool`, to another request or an answer.
    pub(super) fn report_cross_server(
        &self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (method, tool): (&str, Option<&str>),
        evaluation: &Evaluation,
    ) {
        for (_, denial) in evaluation.across_servers() {
            // A guard that failed names no rule.
            let broken = match &denial.details {
                Some(DenialDetails::Rule(broken)) => Some(broken),
                _ => None,
            };
            let connection = cx.connections.get(scope.connection);
            let known = tool.and_then(|tool| connection?.tool(tool));
            let method = clip(method, MAX_NAME_BYTES);
            let name = tool.unwrap_or(&method).to_owned();
            let blocked = CrossServerBlocked {
                rule: broken.map_or(denial.code, |broken| broken.rule).name().to_owned(),
                severity: broken.map_or(Severity::Critical, |broken| broken.severity),
                reason: denial.message.clone(),
                jsonrpc_id: seen.id.cloned().unwrap_or_default(),
                request_id: seen.turn.map(|turn| clip(turn, MAX_NAME_BYTES)),
                blocked_server_id: scope.server.clone(),
                blocked_tool_id: tool_id(&scope.server, &name),
                blocked_tool_name: name,
                blocked_tool_hash: known.map(|known| known.hash.to_string()),
                original_server_id: broken.and_then(|broken| broken.original_server_id.clone()),
                related_calls: broken.map_or_else(Vec::new, |broken| broken.related.clone()),
                also_denied_by: evaluation.objections_but(denial),
                enforced: evaluation.enforced,
                method,
            };
            cx.reporter.report(scope.clone(), seen.time, blocked);
        }
    }

    /// Evaluates any other request, of the client's or of the server's, and reports what is denied or found, with the fields of that
    /// below `place`. `first`: the first try of the request, where this is another; what was denied then is not reported again.
    /// What is to be recorded in place of what was sent, and who denies.
    pub(super) fn judge_request(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (id, message): (&Value, &Message<'_>),
        place: &str,
        first: Option<&First>,
    ) -> (Recorded, Denied) {
        let Kind::Request { method, params, .. } = &message.kind else { return Default::default() };
        let seen = Seen { id: Some(id), ..seen };
        let json = params.map_or("null", RawValue::get);
        let [name, uri, arguments] = members(json, ["name", "uri", "arguments"]);
        let [name, uri] = [name, uri].map(|name| name.and_then(name_text).unwrap_or_default());
        let request = Operation::Request { method: method.as_str(), params: *params };
        let topic = Topic { seen: Some(seen), is_retry: first.is_some(), ..Topic::default() };
        let evaluation = match method {
            Method::PromptsGet => {
                let prompt = Operation::PromptRequest { name: &name, arguments };
                self.evaluate_try(cx, scope, seen, &[request, prompt], topic)
            }
            Method::ResourcesRead => {
                let connection = cx.connections.get(scope.connection);
                let is_listed = connection.is_some_and(|connection| connection.lists_resource(&uri));
                let resource = Operation::ResourceRequest { uri: &uri, is_listed };
                self.evaluate_try(cx, scope, seen, &[request, resource], topic)
            }
            _ => {
                let connection = cx.connections.get(scope.connection).filter(|_| !uri.is_empty());
                let lists_resource = connection.is_some_and(|connection| connection.lists_resource(&uri));
                self.evaluate_try(cx, scope, seen, &[request], Topic { lists_resource, ..topic })
            }
        };
        let subject =
            if *method == Method::ElicitationCreate { Subject::Elicitation } else { Subject::Sampling };
        let about = About { id: Some(id.clone()), action: evaluation.action, ..About::of(subject) };
        let found = under(place, evaluation.found.clone());
        cx.report_found(scope, seen.time, &about, &found);
        let denied = evaluation.code();
        if !first.is_some_and(|first| is_as_before(denied, first)) {
            let reported = (MessageKind::Request, method.as_str(), id);
            report_verdict(&mut cx.reporter, scope, seen.time, reported, &evaluation);
            self.report_cross_server(cx, scope, seen, (method.as_str(), None), &evaluation);
        }
        (evaluation.recorded, denied)
    }

    /// Reports a message that did not reach its server: no answer is waited for.
    pub(in crate::engine) fn report_refused(
        &mut self,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        self.report_sent(cx, seen.connection, &[seen.connection], seen, message);
        if let (Kind::Request { method: Method::ToolsCall, params, .. }, Some(scope)) =
            (&message.kind, cx.connections.scope(seen.connection))
        {
            let call = cx.call(seen.connection, *params);
            self.settle_call(cx, &scope, seen, &call.tool_name);
        }
    }

    /// Reports a request or a notification as `target`'s: which of several tries it is. A call that has no id is a notification by the
    /// letter, but there are servers that run it: it is evaluated as any other, and no answer is waited for.
    pub(in crate::engine) fn report_sent(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen<'_>,
        message: &Message<'_>,
    ) -> Attempt {
        let (id, params) = match &message.kind {
            Kind::Request { id, method: Method::ToolsCall, params } => (*id, *params),
            Kind::Notification { method: Method::ToolsCall, params } => (Id("null"), *params),
            Kind::Request { .. } => return self.report_request(cx, target, seen, message),
            _ => {
                report_repeated(cx, target, seen.time, message);
                self.report_unasked(cx, target, seen, message);
                cx.report_message(target, seen, message);
                return Attempt::default();
            }
        };
        let call = cx.call(target, params);
        let attempt = self.report_call(cx, target, over, seen, (message, id, &call));
        if let (Kind::Notification { .. }, Some(scope)) = (&message.kind, cx.connections.scope(target)) {
            self.settle_call(cx, &scope, seen, &call.tool_name);
        }
        attempt
    }

    /// Reports a request that is no call as `target`'s: which of several tries it is.
    pub(in crate::engine) fn report_request(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) -> Attempt {
        let (Some(scope), Kind::Request { id, method, params }) =
            (cx.connections.scope(target), &message.kind)
        else {
            cx.report_message(target, seen, message);
            return Attempt::default();
        };
        let id = cx.reporter.recorder.id(*id);
        let one = Try { id: &id, method: method.as_str(), params: *params, tool: None };
        let mut attempt = self.tried(cx, &scope, seen, one);
        cx.reporter.counters.retries += u64::from(attempt.first.is_some());
        let first = attempt.first.as_deref();
        let (recorded, denied) = self.judge_request(cx, &scope, seen, (&id, message), "", first);
        report_repeated(cx, target, seen.time, message);
        self.report_unasked(cx, target, seen, message);
        cx.report_recorded(target, seen, (message, &recorded));
        attempt.begin(&id, seen.time, denied, false);
        attempt
    }

    /// Reports what was found in what a server says unasked: each text once of a connection, since servers say some again and again.
    fn report_unasked(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let (Some(scope), Direction::ServerToClient) = (cx.connections.scope(target), seen.direction) else {
            return;
        };
        let rest = self.notified(cx, &scope, seen, message);
        let id = match &message.kind {
            Kind::Request { id, .. } => Some(cx.reporter.recorder.id(*id)),
            _ => None,
        };
        match (&message.kind, rest) {
            (Kind::Notification { method, .. }, Some(rest)) => {
                let kind = Kind::Notification { method: method.clone(), params: Some(&rest) };
                self.search_unasked(cx, &scope, seen, (id, &Message { kind, ..message.clone() }), "");
            }
            _ => self.search_unasked(cx, &scope, seen, (id, message), ""),
        }
    }

    /// The same, with the fields of what was found below `place`.
    pub(super) fn search_unasked(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (id, message): (Option<Value>, &Message<'_>),
        place: &str,
    ) {
        let Some(reader) = cx.reader() else { return };
        let tools = self.tool_names(&scope.session);
        let found = inspection::inspect_unasked(reader, message, tools);
        if cx.reporter.alerts(&found).next().is_none() {
            cx.reporter.counters.inspection_bounds += found.bounds.total();
            return;
        }
        let (method, params) = match &message.kind {
            Kind::Request { method, params, .. } | Kind::Notification { method, params } => {
                (method.as_str(), *params)
            }
            _ => return,
        };
        let digest = bare_digest(params.map_or("null", RawValue::get));
        if !cx.is_reported(scope.connection, method, &hex(&digest)) {
            let about = About { id, ..About::of(Subject::Message) };
            cx.report_found(scope, seen.time, &about, &under(place, found));
        }
    }

    /// Reports what was found in an answer to nothing that was asked: some client shows it, or logs it for a model to read.
    pub(in crate::engine) fn search_unmatched(
        &mut self,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let (place, text) = match &message.kind {
            Kind::Response { result, .. } => ("/result", Some(*result)),
            _ => ("/error", members(message.raw, ["error"])[0]),
        };
        if let Some(text) = text {
            self.search_text(cx, seen, (place, text.get()));
        }
    }

    /// Reports what was found in what a server says beside the members of a message, or in place of one.
    pub(in crate::engine) fn search_rest(
        &mut self,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        if seen.direction == Direction::ServerToClient
            && let Some(rest) = message.rest()
        {
            self.search_text(cx, seen, ("", &rest));
        }
    }

    /// Reports what was found in a text of a server that no request and no method gives a meaning, each once of a connection. What a
    /// client does with it is not known, so that it is read as a result is.
    fn search_text(&mut self, cx: &mut Context<'_>, seen: Seen<'_>, (place, text): (&str, &str)) {
        let (Some(scope), Direction::ServerToClient) =
            (cx.connections.scope(seen.connection), seen.direction)
        else {
            return;
        };
        let Some(reader) = cx.reader() else { return };
        let found = reader.result(text, self.tool_names(&scope.session));
        if cx.reporter.alerts(&found).next().is_none() {
            cx.reporter.counters.inspection_bounds += found.bounds.total();
            return;
        }
        if !cx.is_reported(scope.connection, "rest", &hex(&bare_digest(text))) {
            cx.report_found(&scope, seen.time, &About::of(Subject::Message), &under(place, found));
        }
    }

    /// Reports a call as `target`'s, what guards decided, and what was found in its arguments. It is counted for every
    /// connection it went over. One that goes on with an earlier one was reported with that, unless it is denied otherwise: which of
    /// several tries it is.
    pub(in crate::engine) fn report_call(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen<'_>,
        (message, id, call): (&Message<'_>, Id<'_>, &Call<'_>),
    ) -> Attempt {
        let Some(scope) = cx.connections.scope(target) else { return Attempt::default() };
        let id = cx.reporter.recorder.id(id);
        let one = Try { id: &id, method: "tools/call", params: call.params, tool: Some(&call.tool_name) };
        let mut attempt = self.tried(cx, &scope, seen, one);
        // Who reads a message otherwise, or stopped it, knows nothing of an earlier one.
        let is_plain = message.repeated.is_none() && call.repeated.is_none() && seen.stop.is_none();
        attempt.first = attempt.first.filter(|_| is_plain);
        let seen_call = Seen { id: Some(&id), ..seen };
        let first = attempt.first.as_deref().map(|first| first.approved);
        let by = if first == Some(true) { None } else { self.limited_approval(cx, &scope, seen_call, call) };
        let is_approved = first == Some(true) || by.is_some();
        let evaluation = self.evaluate_call(cx, &scope, seen_call, call, (first.is_some(), is_approved));
        let denied = evaluation.code();
        if attempt.first.as_deref().is_some_and(|first| is_as_before(denied, first)) {
            cx.reporter.counters.retries += 1;
            cx.report_recorded(target, seen, (message, &evaluation.recorded));
            return attempt;
        }
        cx.reporter.counters.calls += 1;
        for id in over {
            if let Some(connection) = cx.connections.get_mut(*id) {
                connection.totals.calls += 1;
            }
        }
        attempt.first = None;
        attempt.begin(&id, seen.time, denied, is_approved);
        let passes = denied.is_none() && !evaluation.enforced;
        self.report_called(cx, &scope, seen, (message, id, call), evaluation);
        if let Some(by) = by.filter(|_| passes) {
            self.use_approval(cx, &scope, seen.time, &call.tool_name, &by);
        }
        attempt
    }

    /// Reports a call, what guards decided of it, and what was found in its arguments.
    fn report_called(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (message, id, call): (&Message<'_>, Value, &Call<'_>),
        mut evaluation: Evaluation,
    ) {
        let time = seen.time;
        let mut found = inspection::inspect_call((cx.config.inspection.as_ref(), cx.reader()), message, call);
        cx.mark(scope, (Some(&call.tool_name), None), &mut found.detections);
        let seen = Seen { id: Some(&id), ..seen };
        evaluation.find_in_arguments(&Detection::rules(cx.reporter.alerts(&found)));
        let mut called = cx.reporter.recorder.called(id.clone(), call, &evaluation.recorded, &scope.server);
        called.detections.clone_from(&found.detections);
        evaluation.write(&mut called.decided);
        let connection = cx.connections.get(scope.connection);
        if let Some(known) = connection.and_then(|connection| connection.tool(&call.tool_name)) {
            called.category = known.category;
            called.tool_hash = Some(Arc::clone(&known.hash));
            called.tool_detections =
                Detection::rules(&known.detections).into_iter().map(str::to_owned).collect();
        } else {
            // As the rules across servers see it: by its name.
            called.category = self.judge.category(&scope.server, &call.tool_name);
        }
        called.intent = self.intent_of(cx, scope, (&call.tool_name, call.arguments.map(RawValue::get)), time);
        cx.reporter.report(scope.clone(), time, called);
        self.report_cross_server(cx, scope, seen, ("tools/call", Some(&call.tool_name)), &evaluation);
        let about = About {
            tool_name: Some(Arc::clone(&call.tool_name)),
            id: Some(id.clone()),
            action: evaluation.action,
            ..About::of(Subject::Arguments)
        };
        cx.report_found(scope, time, &about, &found);
        if let Some((guard, denial)) = evaluation.awaits_approval() {
            self.request_approval(cx, scope, time, &call.tool_name, (*guard, denial));
        }
    }
}

/// Whether nothing is denied that was not denied of the first try.
fn is_as_before(denied: Denied, first: &First) -> bool {
    denied.is_none() || denied == first.denied
}

/// Reports that a request or notification which is no call has a member twice, if it does.
fn report_repeated(cx: &mut Context<'_>, target: ConnectionId, time: Timestamp, message: &Message<'_>) {
    let mut found = Inspection::default();
    inspection::find_repeated(cx.config.inspection.as_ref(), message, &mut found);
    if found.detections.is_empty() {
        return;
    }
    let Some(scope) = cx.connections.scope(target) else { return };
    let id = match &message.kind {
        Kind::Request { id, .. } => Some(cx.reporter.recorder.id(*id)),
        _ => None,
    };
    cx.report_found(&scope, time, &About { id, ..About::of(Subject::Arguments) }, &found);
}
