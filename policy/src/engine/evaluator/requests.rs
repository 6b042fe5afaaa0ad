//! Requests and notifications: put before the guards and reported.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::inspection;
use super::verdict::Evaluation;
use super::{About, Context, Evaluator, Reporter, Scope, Seen};
use crate::definition::{hex, json_digest};
use crate::detect::Inspection;
use crate::engine::recorder::{Call, MAX_NAME_BYTES, clip, tool_id};
use crate::event::{
    CrossServerBlocked, Detection, MessageKind, RequestBlocked, RequestWarned, Severity, Subject,
};
use crate::guard::{DenialDetails, Operation, Recorded};
use crate::protocol::{Id, Kind, Message, Method, members, string};
use crate::terms::{ConnectionId, Direction, Timestamp};

impl Evaluator {
    /// Evaluates a tool call: what it is asked with, and the arguments in it.
    pub(super) fn evaluate_call(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        call: &Call<'_>,
    ) -> Evaluation {
        let Call { tool_name, params, arguments, .. } = call;
        let operations = [
            Operation::Request { method: "tools/call", params: *params },
            Operation::ToolInvoke { tool_name, arguments: *arguments },
        ];
        self.evaluate(cx, scope, seen, &operations, Some(tool_name))
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

    /// Evaluates any other request, of the client's or of the server's, and reports what is denied or found. What is to be
    /// recorded in place of what was sent.
    pub(super) fn evaluate_request(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) -> Recorded {
        let (Some(scope), Kind::Request { id, method, params }) =
            (cx.connections.scope(target), &message.kind)
        else {
            return Recorded::default();
        };
        let (time, id) = (seen.time, cx.reporter.recorder.id(*id));
        let seen = Seen { id: Some(&id), ..seen };
        let json = params.map_or("null", RawValue::get);
        let [name, uri, arguments] = members(json, ["name", "uri", "arguments"]);
        let (name, uri) = (string(name), string(uri));
        let request = Operation::Request { method: method.as_str(), params: *params };
        let evaluation = match method {
            Method::PromptsGet => {
                let prompt = Operation::PromptRequest { name: &name, arguments };
                self.evaluate(cx, &scope, seen, &[request, prompt], None)
            }
            Method::ResourcesRead => {
                let connection = cx.connections.get(target);
                let is_listed = connection.is_some_and(|connection| connection.lists_resource(&uri));
                let resource = Operation::ResourceRequest { uri: &uri, is_listed };
                self.evaluate(cx, &scope, seen, &[request, resource], None)
            }
            _ => self.evaluate(cx, &scope, seen, &[request], None),
        };
        let subject =
            if *method == Method::ElicitationCreate { Subject::Elicitation } else { Subject::Sampling };
        let about = About { id: Some(id.clone()), action: evaluation.action, ..About::of(subject) };
        cx.reporter.report_found(&scope, time, &about, &evaluation.found);
        report_verdict(
            &mut cx.reporter,
            &scope,
            time,
            (MessageKind::Request, method.as_str(), &id),
            &evaluation,
        );
        self.report_cross_server(cx, &scope, seen, (method.as_str(), None), &evaluation);
        evaluation.recorded
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

    /// Reports a request or a notification as `target`'s. A call that has no id is a notification by the letter, but there are
    /// servers that run it: it is evaluated as any other, and no answer is waited for.
    pub(in crate::engine) fn report_sent(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let (id, params) = match &message.kind {
            Kind::Request { id, method: Method::ToolsCall, params } => (*id, *params),
            Kind::Notification { method: Method::ToolsCall, params } => (Id("null"), *params),
            Kind::Request { .. } => return self.report_request(cx, target, seen, message),
            _ => {
                report_repeated(cx, target, seen.time, message);
                self.report_unasked(cx, target, seen, message);
                return cx.report_message(target, seen, message);
            }
        };
        let call = cx.call(target, params);
        self.report_call(cx, target, over, seen, (message, id, &call));
        if let (Kind::Notification { .. }, Some(scope)) = (&message.kind, cx.connections.scope(target)) {
            self.settle_call(cx, &scope, seen, &call.tool_name);
        }
    }

    /// Reports a request that is no call as `target`'s.
    pub(in crate::engine) fn report_request(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let recorded = self.evaluate_request(cx, target, seen, message);
        report_repeated(cx, target, seen.time, message);
        self.report_unasked(cx, target, seen, message);
        cx.report_recorded(target, seen, (message, &recorded));
    }

    /// Reports what was found in what a server says unasked: each text once of a connection, since servers say some again and again.
    fn report_unasked(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let (Some(inspection), Some(scope), Direction::ServerToClient) =
            (&cx.config.inspection, cx.connections.scope(target), seen.direction)
        else {
            return;
        };
        let tools = self.tool_names(&scope.session);
        let found = inspection::inspect_unasked(&inspection.detector, message, tools);
        if cx.reporter.alerts(&found).next().is_none() {
            cx.reporter.counters.inspection_bounds += found.bounds.total();
            return;
        }
        let (id, method, params) = match &message.kind {
            Kind::Request { id, method, params } => (Some(*id), method.as_str(), *params),
            Kind::Notification { method, params } => (None, method.as_str(), *params),
            _ => return,
        };
        let digest = json_digest(params.map_or("null", RawValue::get));
        if !cx.is_reported(target, method, &hex(&digest)) {
            let id = id.map(|id| cx.reporter.recorder.id(id));
            let about = About { id, ..About::of(Subject::Message) };
            cx.reporter.report_found(&scope, seen.time, &about, &found);
        }
    }

    /// Reports a call as `target`'s, what guards decided, and what was found in its arguments. It is counted for every
    /// connection it went over.
    pub(in crate::engine) fn report_call(
        &mut self,
        cx: &mut Context<'_>,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen<'_>,
        (message, id, call): (&Message<'_>, Id<'_>, &Call<'_>),
    ) {
        cx.reporter.counters.calls += 1;
        for id in over {
            if let Some(connection) = cx.connections.get_mut(*id) {
                connection.totals.calls += 1;
            }
        }
        let Some(scope) = cx.connections.scope(target) else { return };
        let (scope, time, id) = (&scope, seen.time, cx.reporter.recorder.id(id));
        let found = inspection::inspect_call(cx.config.inspection.as_ref(), message, call);
        let seen = Seen { id: Some(&id), ..seen };
        let mut evaluation = self.evaluate_call(cx, scope, seen, call);
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
        cx.reporter.report(scope.clone(), time, called);
        self.report_cross_server(cx, scope, seen, ("tools/call", Some(&call.tool_name)), &evaluation);
        let about = About {
            tool_name: Some(Arc::clone(&call.tool_name)),
            id: Some(id.clone()),
            action: evaluation.action,
            ..About::of(Subject::Arguments)
        };
        cx.reporter.report_found(scope, time, &about, &found);
        if let Some((guard, denial)) = evaluation.awaits_approval() {
            self.request_approval(cx, scope, time, &call.tool_name, (*guard, denial));
        }
    }
}

/// Reports what is denied or remarked of a request, or an answer, that is of no tool call.
pub(super) fn report_verdict(
    reporter: &mut Reporter<'_>,
    scope: &Scope,
    time: Timestamp,
    (kind, method, id): (MessageKind, &str, &Value),
    evaluation: &Evaluation,
) {
    let (method, jsonrpc_id) = (clip(method, MAX_NAME_BYTES), id.clone());
    if let Some((guard, denial)) = &evaluation.denied {
        let blocked = RequestBlocked {
            kind,
            method,
            jsonrpc_id: Some(jsonrpc_id),
            guard: *guard,
            code: denial.code.name().to_owned(),
            reason: denial.message.clone(),
            also_denied_by: evaluation.objections_but(denial),
            enforced: evaluation.enforced,
        };
        reporter.report(scope.clone(), time, blocked);
    } else if evaluation.remarked && !evaluation.warnings.is_empty() || !evaluation.left_out.is_empty() {
        let (warnings, tools_left_out) = (evaluation.warnings.clone(), evaluation.left_out.clone());
        let warned = RequestWarned { kind, method, jsonrpc_id, warnings, tools_left_out };
        reporter.report(scope.clone(), time, warned);
    }
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
    cx.reporter.report_found(&scope, time, &About { id, ..About::of(Subject::Arguments) }, &found);
}
