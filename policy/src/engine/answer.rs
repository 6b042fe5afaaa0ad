//! Answers: put before the guards, said, and searched where no guard does.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::inspect::About;
use super::io::Output;
use super::judged::Judged;
use super::listing::page_of;
use super::pairing::{Answered, Asked};
use super::traffic::Seen;
use super::{Engine, Place};
use crate::detect::Inspection;
use crate::event::{MessageKind, Subject};
use crate::guard::{Operation, ToolFacts};
use crate::protocol::{Kind, Message, members, string};
use crate::terms::Timestamp;

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

impl Engine {
    /// Says an answer for `place`, what guards say of it, and what was found in it.
    pub(super) fn say_answer(
        &mut self,
        place: Place,
        seen: Seen,
        message: &Message<'_>,
        to: Answered<'_>,
        out: &mut Vec<Output>,
    ) {
        let Answered { asked, id, time: asked_at } = to;
        let (time, method) = (seen.time, asked.method());
        let (result, error) = match &message.kind {
            Kind::Response { result, .. } => (Some(*result), None),
            _ => (None, members(message.raw, ["error"])[0]),
        };
        let whole_list = match (result, page_of(asked)) {
            (Some(result), Some(list)) => self.listed(&place, time, list, result, out),
            (Some(result), None) if matches!(asked, Asked::Initialize(_)) => {
                self.instructed(&place, time, result, out);
                false
            }
            _ => false,
        };
        let response = Operation::Response { method, result, error };
        let mut judged = match asked {
            Asked::Call { tool_name } => {
                let operations = [Operation::ToolResult { tool_name, result, error }, response];
                self.judge(&place, &operations, Some(tool_name), time)
            }
            _ if whole_list => self.judge_list(&place, response, time),
            _ => self.judge(&place, &[response], None, time),
        };
        if let Asked::Call { tool_name } = asked {
            let latency = time.nanos_since(asked_at);
            let recorded = &judged.recorded;
            let mut said = self.recorder.result(
                tool_name,
                id.clone(),
                (message, recorded),
                seen.bytes,
                latency,
                &place.server,
            );
            judged.write(&mut said.decided);
            self.say(place.clone(), time, said, out);
        } else {
            let kind = if result.is_some() { MessageKind::Response } else { MessageKind::Error };
            self.say_judged(&place, time, (kind, method, id), &judged, out);
        }
        let tool_name = match asked {
            Asked::Call { tool_name } => Some(tool_name.clone()),
            _ => None,
        };
        let subject = subject(asked);
        let about = About {
            tool_name,
            id: Some(id.clone()),
            action: judged.action,
            ..About::of(subject.unwrap_or(Subject::Result))
        };
        let mut found = std::mem::take(&mut judged.found);
        if let Some(more) = subject.and_then(|_| self.inspect_answer(message, asked)) {
            found.detections.extend(more.detections);
            found.bounds = more.bounds;
        }
        self.find_repeated(message, &mut found);
        self.say_found(&place, time, &about, &found, out);
        if self.config.verbose && !matches!(asked, Asked::Call { .. }) {
            let answers = Some(method);
            let said = self.recorder.message(
                seen.direction,
                (message, &judged.recorded),
                seen.bytes,
                answers,
                Some(id),
            );
            self.say(place, time, said, out);
        }
    }

    /// Inspects what no guard does: instructions, lists of what is not compared with what was known.
    fn inspect_answer(&mut self, message: &Message<'_>, asked: &Asked) -> Option<Inspection> {
        let detector = self.config.inspection.as_ref().map(|inspection| inspection.detector.clone())?;
        match (&message.kind, asked) {
            (Kind::Response { result, .. }, Asked::Initialize(_)) => {
                let [instructions] = members(result.get(), ["instructions"]);
                Some(detector.text("/instructions", &string(instructions)))
            }
            (Kind::Response { result, .. }, Asked::Other { method }) if method.ends_with("list") => {
                // A list of resources is made of definitions as well.
                Some(self.definitions.know(Some(&detector), result.get()).found.clone())
            }
            _ => None,
        }
    }

    /// Judges the list of tools that a connection has given, all pages of it, and forgets the tools that guards leave
    /// out.
    fn judge_list(&mut self, place: &Place, response: Operation<'_>, time: Timestamp) -> Judged {
        // Not copied: there may be ten thousand of them. By name.
        let Some(connection) = self.connections.get_mut(&place.connection) else { return Judged::default() };
        let (mut tools, removed): (Vec<ToolFacts>, Vec<ToolFacts>) =
            std::mem::take(&mut connection.tools).into_values().partition(|facts| !facts.removed);
        for facts in &mut tools {
            super::judge::refresh(facts, self.registry.tool(place.connection, &facts.name).as_ref());
        }
        let operations = [Operation::ToolsList { tools: &tools }, response];
        let mut judged = self.judge(place, &operations, None, time);
        for kept in &judged.kept {
            let kept: HashSet<&str> = kept.iter().map(String::as_str).collect();
            let left_out = tools.iter().map(|tool| &tool.name).filter(|name| !kept.contains(&***name));
            judged.left_out.extend(left_out.map(|name| name.to_string()));
        }
        judged.left_out.sort();
        judged.left_out.dedup();
        if let Some(connection) = self.connections.get_mut(&place.connection) {
            let all = tools.into_iter().chain(removed);
            connection.tools = all.map(|facts| (facts.name.clone(), facts)).collect();
            for name in &judged.left_out {
                connection.forget_tool(name);
                self.registry.leave_out(place.connection, name);
            }
        }
        // Clients list again and again; what is remarked on the list need not be said as often.
        let remarks = format!("{:?}{:?}", judged.warnings, judged.left_out);
        let remarked = !judged.warnings.is_empty() || !judged.left_out.is_empty();
        if remarked && self.said_before(place.connection, "tools/list", &remarks) {
            judged.warnings.clear();
            judged.left_out.clear();
        }
        judged
    }
}

/// The JSON text that a part of a message is recorded as.
pub(super) fn recorded<'a>(sent: Option<&'a RawValue>, instead: &'a Option<String>) -> Option<&'a str> {
    instead.as_deref().or(sent.map(RawValue::get))
}
