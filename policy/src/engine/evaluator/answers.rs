//! Answers: put before the guards, reported, and searched where no guard does.

use std::collections::HashSet;

use super::inspection;
use super::listing::page_of;
use super::requests::report_verdict;
use super::verdict::Evaluation;
use super::{About, Context, Evaluator, Scope, Seen};
use crate::detect::Inspection;
use crate::engine::asked::{Answered, Asked};
use crate::engine::config::EngineConfig;
use crate::event::{MessageKind, Subject};
use crate::guard::{Operation, ToolFacts};
use crate::protocol::{Kind, Message, members, string};

/// What an answer is of, where the engine searches it or guards of this program do.
fn subject(asked: &Asked) -> Option<Subject> {
    match asked {
        Asked::Call { .. } => Some(Subject::Result),
        Asked::Initialize(_) => Some(Subject::Instructions),
        Asked::List { .. } => Some(Subject::Definition),
        Asked::Other { method } if **method == *"tasks/result" => Some(Subject::Result),
        Asked::Other { method } if method.starts_with("prompts/") => Some(Subject::Prompt),
        Asked::Other { method } if method.starts_with("resources/") => Some(Subject::Resource),
        Asked::Other { .. } => None,
    }
}

impl Evaluator {
    /// Reports an answer for `scope`, what guards decided, and what was found in it.
    pub(in crate::engine) fn report_answer(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        message: &Message<'_>,
        to: Answered<'_>,
    ) {
        let Answered { asked, id, time: asked_at } = to;
        let (time, method) = (seen.time, asked.method());
        let (result, error) = match &message.kind {
            Kind::Response { result, .. } => (Some(*result), None),
            _ => (None, members(message.raw, ["error"])[0]),
        };
        let whole_list = match (result, page_of(asked)) {
            (Some(result), Some(list)) => self.listed(cx, scope, seen, list, result),
            (Some(result), None) if matches!(asked, Asked::Initialize(_)) => {
                self.instructed(cx, scope, seen, result);
                false
            }
            _ => false,
        };
        let response = Operation::Response { method, result, error };
        let mut evaluation = match asked {
            Asked::Call { tool_name } => {
                let operations = [Operation::ToolResult { tool_name, result, error }, response];
                self.evaluate(cx, scope, seen, &operations, Some(tool_name))
            }
            _ if whole_list => self.evaluate_list(cx, scope, seen, response),
            _ => self.evaluate(cx, scope, seen, &[response], None),
        };
        if let Asked::Call { tool_name } = asked {
            let latency = time.nanos_since(asked_at);
            let recorded = &evaluation.recorded;
            let mut said = cx.reporter.recorder.result(
                tool_name,
                id.clone(),
                (message, recorded),
                seen.bytes,
                latency,
                &scope.server,
            );
            evaluation.write(&mut said.decided);
            cx.reporter.report(scope.clone(), time, said);
        } else {
            let kind = if result.is_some() { MessageKind::Response } else { MessageKind::Error };
            report_verdict(&mut cx.reporter, scope, time, (kind, method, id), &evaluation);
        }
        let tool_name = match asked {
            Asked::Call { tool_name } => Some(tool_name.clone()),
            _ => None,
        };
        let subject = subject(asked);
        let about = About {
            tool_name,
            id: Some(id.clone()),
            action: evaluation.action,
            ..About::of(subject.unwrap_or(Subject::Result))
        };
        let mut found = std::mem::take(&mut evaluation.found);
        if let Some(more) = subject.and_then(|_| self.inspect_answer(cx.config, message, asked)) {
            found.detections.extend(more.detections);
            found.bounds = more.bounds;
        }
        inspection::find_repeated(cx.config.inspection.as_ref(), message, &mut found);
        cx.reporter.report_found(scope, time, &about, &found);
        if cx.config.verbose && !matches!(asked, Asked::Call { .. }) {
            let answers = Some(method);
            let said = cx.reporter.recorder.message(
                seen.direction,
                (message, &evaluation.recorded),
                seen.bytes,
                answers,
                Some(id),
            );
            cx.reporter.report(scope.clone(), time, said);
        }
    }

    /// Inspects what no guard does: instructions, lists of what is not compared with what was known.
    fn inspect_answer(
        &mut self,
        config: &EngineConfig,
        message: &Message<'_>,
        asked: &Asked,
    ) -> Option<Inspection> {
        let detector = &config.inspection.as_ref()?.detector;
        match (&message.kind, asked) {
            (Kind::Response { result, .. }, Asked::Initialize(_)) => {
                let [instructions] = members(result.get(), ["instructions"]);
                Some(detector.text("/instructions", &string(instructions)))
            }
            (Kind::Response { result, .. }, Asked::Other { method }) if method.ends_with("list") => {
                // A list of resources is made of definitions as well.
                Some(self.definitions.know(Some(detector), result.get()).found.clone())
            }
            _ => None,
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
