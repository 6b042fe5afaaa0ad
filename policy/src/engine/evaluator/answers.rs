//! Answers: put before the guards, reported, and searched where no guard does.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::entries::{as_all_read, beside_entries};
use super::inspection;
use super::listing::page_of;
use super::rounds::GoesOn;
use super::verdict::{Evaluation, report_verdict};
use super::{About, Context, Evaluator, Scope, Seen};
use crate::detect::{INSTRUCTIONS, Inspection, Reader, Structure};
use crate::engine::asked::{Answered, Asked};
use crate::engine::connection::RESOURCE;
use crate::engine::seen::{Earlier, Reading};
use crate::event::{Detection, MessageKind, Subject};
use crate::guard::{Operation, Recorded, ToolFacts};
use crate::guards;
use crate::protocol::{Kind, Message, decode_str, members, meta, respell, string, without};

/// What an answer is of.
fn subject(asked: &Asked) -> Subject {
    match asked {
        Asked::Call { .. } => Subject::Result,
        Asked::Initialize(_) | Asked::Discover(_) => Subject::Instructions,
        Asked::List { .. } => Subject::Definition,
        Asked::Other { method } if method.starts_with("tasks/") => Subject::Result,
        Asked::Other { method } if method.starts_with("prompts/") => Subject::Prompt,
        Asked::Other { method } if method.starts_with("resources/") && !method.ends_with("subscribe") => {
            Subject::Resource
        }
        Asked::Other { .. } => Subject::Message,
    }
}

/// Code of the error that asks a user to open a URL (MCP 2025-11-25, "Elicitation").
const URL_ELICITATION_REQUIRED: i64 = -32042;

fn is_elicitation(message: &Message<'_>) -> bool {
    matches!(message.kind, Kind::Error { code: URL_ELICITATION_REQUIRED, .. })
}

/// The result of an answer, or its error.
fn answered<'a>(message: &Message<'a>) -> (Option<&'a RawValue>, Option<&'a RawValue>) {
    match &message.kind {
        Kind::Response { result, .. } => (Some(*result), None),
        _ => (None, members(message.raw, ["error"])[0]),
    }
}

/// Reports the result of a call: of the first of several tries, where there were several.
fn report_result(
    cx: &mut Context<'_>,
    scope: &Scope,
    seen: Seen<'_>,
    (message, tool_name): (&Message<'_>, &Arc<str>),
    to: Answered<'_>,
    evaluation: &Evaluation,
) {
    let (id, asked_at, rounds) = to.first();
    let latency = seen.time.nanos_since(asked_at);
    let answer = (message, &evaluation.recorded);
    let recorder = cx.reporter.recorder;
    let mut said = recorder.result(tool_name, id.clone(), answer, seen.bytes, latency, &scope.server);
    said.rounds = rounds;
    evaluation.write(&mut said.decided);
    cx.reporter.report(scope.clone(), seen.time, said);
}

/// Forgets what was found behind the first `known` and is one of them: by the rules of results and of definitions alike.
fn forget_repeated(found: &mut Inspection, known: usize) {
    let more = found.detections.split_off(known);
    let is_known = |one: &Detection| {
        found.detections.iter().any(|known| (&known.pattern, &known.field) == (&one.pattern, &one.field))
    };
    let news: Vec<Detection> = more.into_iter().filter(|one| !is_known(one)).collect();
    found.detections.extend(news);
}

/// Where a result says who serves, as a JSON Pointer.
const INFO_FIELD: &str = "/_meta/io.modelcontextprotocol~1serverInfo";

/// Remembers the resources that a server lists as its own and that are fetched over the network.
fn note_resources(cx: &mut Context<'_>, scope: &Scope, result: &RawValue) {
    let [resources] = members(result.get(), ["resources"]);
    let listed: Vec<&RawValue> =
        resources.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    for resource in listed {
        let uri = string(members(resource.get(), ["uri"])[0]);
        if guards::is_of_network(&uri) {
            cx.is_reported(scope.connection, RESOURCE, &uri);
        }
    }
}

impl Evaluator {
    /// Reports what is found in who says that it serves, in `_meta` of a result.
    pub(in crate::engine) fn report_server_info(
        &self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        info: &RawValue,
    ) {
        let Some(reader) = cx.reader() else { return };
        let found = inspection::under(INFO_FIELD, reader.tool(info.get()));
        cx.report_found(scope, seen.time, &About::of(Subject::Server), &found);
    }

    /// Reports an answer for `scope`, what guards decided, and what was found in it.
    pub(in crate::engine) fn report_answer(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        message: &Message<'_>,
        to: Answered<'_>,
    ) {
        let goes_on = self.follow(cx, scope, seen, answered(message), to);
        let is_pending = goes_on.is_pending;
        let recorded = self.judge_answer(cx, scope, seen, message, (to, goes_on));
        // The result of a call has an event of its own.
        if cx.config.verbose && (is_pending || !matches!(to.asked, Asked::Call { .. })) {
            let answers = Some(to.asked.method());
            let said = cx.reporter.recorder.message(
                seen.direction,
                (message, &recorded),
                seen.bytes,
                answers,
                Some(to.id),
            );
            cx.reporter.report(scope.clone(), seen.time, said);
        }
    }

    /// Evaluates an answer, and reports what guards decided and what was found in it. What is to be recorded in place of what was
    /// sent.
    pub(super) fn judge_answer(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        message: &Message<'_>,
        (to, goes_on): (Answered<'_>, GoesOn),
    ) -> Recorded {
        let Answered { asked, id, .. } = to;
        let (time, method) = (seen.time, asked.method());
        let made_by = self.made_by(cx, scope, to);
        let seen = Seen { id: Some(id), began: Some(made_by.as_ref().unwrap_or(to.first().0)), ..seen };
        let (result, error) = answered(message);
        // What no client has taken is inspected, and nothing is known by it.
        let is_taken = seen.reading.earlier != Earlier::Taken;
        let whole_list = match (result.filter(|_| is_taken), page_of(asked)) {
            (Some(result), Some(list)) => self.listed(cx, scope, seen, list, result),
            (Some(result), None) if method == "resources/list" => {
                note_resources(cx, scope, result);
                false
            }
            (Some(result), None) if matches!(asked, Asked::Initialize(_) | Asked::Discover(_)) => {
                self.instructed(cx, scope, seen, result);
                false
            }
            _ => false,
        };
        if let (Asked::Other { method }, Some(result)) = (asked, result.filter(|_| is_taken)) {
            self.interfaces(cx, scope, seen, (method, result));
        }
        let result = goes_on.rest.as_deref().or(result);
        let response = Operation::Response { method, result, error };
        let mut evaluation = match asked {
            Asked::Call { tool_name } if !goes_on.is_pending => {
                let operations = [Operation::ToolResult { tool_name, result, error }, response];
                self.evaluate(cx, scope, seen, &operations, Some(tool_name))
            }
            _ if whole_list => self.evaluate_list(cx, scope, seen, response),
            _ => self.evaluate(cx, scope, seen, &[response], None),
        };
        match asked {
            // The call has its result.
            Asked::Call { .. } if !is_taken => {}
            Asked::Call { tool_name } if !goes_on.is_pending => {
                report_result(cx, scope, seen, (message, tool_name), to, &evaluation);
            }
            _ => {
                let kind = if result.is_some() { MessageKind::Response } else { MessageKind::Error };
                report_verdict(&mut cx.reporter, scope, time, (kind, method, id), &evaluation);
                self.report_cross_server(cx, scope, seen, (method, None), &evaluation);
            }
        }
        let tool_name = match asked {
            Asked::Call { tool_name } => Some(tool_name.clone()),
            _ => None,
        };
        let subject = if is_elicitation(message) { Subject::Elicitation } else { subject(asked) };
        let about =
            About { tool_name, id: Some(id.clone()), action: evaluation.action, ..About::of(subject) };
        let mut found = std::mem::take(&mut evaluation.found);
        let parts = (result, error, goes_on.is_pending);
        for more in self.inspect_answer(cx.reader(), scope, parts, asked, seen.reading) {
            let known = found.detections.len();
            found.detections.extend(more.detections);
            forget_repeated(&mut found, known);
            found.bounds.add(more.bounds);
        }
        inspection::find_repeated(cx.config.inspection.as_ref(), message, &mut found);
        if let (Earlier::Taken, Some(inspection)) = (seen.reading.earlier, &cx.config.inspection) {
            cx.reporter.counters.irregular_messages += 1;
            inspection.detector.irregular(Structure::RepeatedAnswer, method, "/id", &mut found);
        }
        cx.report_found(scope, time, &about, &found);
        evaluation.recorded
    }

    /// Inspects what neither guards nor the comparison with what was known do: what a server says of itself, lists of what is not
    /// compared, and the answers to all other requests, whatever they ask for.
    fn inspect_answer(
        &mut self,
        reader: Option<Reader<'_>>,
        scope: &Scope,
        (result, error, is_pending): (Option<&RawValue>, Option<&RawValue>, bool),
        asked: &Asked,
        reading: Reading<'_>,
    ) -> Vec<Inspection> {
        let Some(reader) = reader else { return Vec::new() };
        let Some(result) = result else {
            // The URL that a user is to open comes as an error as well (URL elicitation, code -32042).
            let data = error.and_then(|error| members(error.get(), ["data"])[0]);
            let asks = |data: &&RawValue| {
                let respelled = respell(data.get());
                let json = respelled.as_ref().map_or(data.get(), |respelled| &respelled.json);
                members(json, ["elicitations"])[0].is_some()
            };
            let data = data.filter(asks);
            return data
                .map(|data| inspection::under("/error/data", reader.sampling(data.get())))
                .into_iter()
                .collect();
        };
        match asked {
            Asked::Initialize(_) | Asked::Discover(_) => {
                let of_meta = meta::server_info_of_meta(result);
                let mut found = Vec::new();
                for given in as_all_read(result, reading.respelled, "instructions") {
                    found.push(match decode_str(given.get()) {
                        Some(text) => reader.text(INSTRUCTIONS, &text),
                        // Some clients take whatever it is.
                        None => {
                            let tools = self.tool_names(&scope.session);
                            inspection::under(INSTRUCTIONS, reader.result(given.get(), tools))
                        }
                    });
                }
                let infos = as_all_read(result, reading.respelled, "serverInfo").into_iter();
                found.extend(infos.map(|info| inspection::under("/serverInfo", reader.tool(info.get()))));
                found.extend(of_meta.map(|info| inspection::under(INFO_FIELD, reader.tool(info.get()))));
                let rest = without(result.get(), &["instructions", "serverInfo"]);
                found.push(reader.result(&rest, self.tool_names(&scope.session)));
                found
            }
            // Guards read it as a result.
            Asked::Other { method } if &**method == "resources/read" => {
                vec![reader.interfaces(result.get())]
            }
            // A list of resources is made of definitions as well.
            Asked::Other { method } if method.ends_with("list") => {
                vec![reader.know(&mut self.definitions, None, result.get()).found.clone()]
            }
            Asked::List { .. } if reading.earlier == Earlier::Taken => {
                vec![reader.know(&mut self.definitions, None, result.get()).found.clone()]
            }
            Asked::List { kind, .. } => {
                let result = reading.respelled.unwrap_or(result);
                vec![reader.result(&beside_entries(*kind, result), self.tool_names(&scope.session))]
            }
            Asked::Other { method } if !guards::brings_text(method) => {
                vec![reader.result(result.get(), self.tool_names(&scope.session))]
            }
            // No guard inspects what is not the end of a call.
            Asked::Call { .. } if is_pending => {
                vec![reader.result(result.get(), self.tool_names(&scope.session))]
            }
            _ => Vec::new(),
        }
    }

    /// Evaluates the list of tools that a connection has given, all pages of it, and forgets the tools that guards leave
    /// out.
    fn evaluate_list(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        response: Operation<'_>,
    ) -> Evaluation {
        // Not copied: there may be ten thousand of them. By name.
        let Some(connection) = cx.connections.get_mut(scope.connection) else { return Evaluation::default() };
        let (mut tools, removed): (Vec<ToolFacts>, Vec<ToolFacts>) =
            std::mem::take(&mut connection.tools).into_values().partition(|facts| !facts.removed);
        for facts in &mut tools {
            super::refresh(facts, self.registry.tool(scope.connection, &facts.name).as_ref());
        }
        let operations = [Operation::ToolsList { tools: &tools }, response];
        let mut evaluation = self.evaluate(cx, scope, seen, &operations, None);
        for kept in &evaluation.kept {
            let kept: HashSet<&str> = kept.iter().map(String::as_str).collect();
            let left_out = tools.iter().map(|tool| &tool.name).filter(|name| !kept.contains(&***name));
            evaluation.left_out.extend(left_out.map(|name| name.to_string()));
        }
        evaluation.left_out.sort();
        evaluation.left_out.dedup();
        if let Some(connection) = cx.connections.get_mut(scope.connection) {
            let all = tools.into_iter().chain(removed);
            connection.tools = all.map(|facts| (facts.name.clone(), facts)).collect();
            for name in &evaluation.left_out {
                connection.forget_tool(name);
                self.registry.leave_out(scope.connection, name);
            }
        }
        // Clients list again and again; what is remarked on the list need not be reported as often.
        let remarks = format!("{:?}{:?}", evaluation.warnings, evaluation.left_out);
        let remarked = !evaluation.warnings.is_empty() || !evaluation.left_out.is_empty();
        if remarked && cx.is_reported(scope.connection, "tools/list", &remarks) {
            evaluation.warnings.clear();
            evaluation.left_out.clear();
        }
        evaluation
    }
}
