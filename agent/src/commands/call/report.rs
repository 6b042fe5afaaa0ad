//! What came of a call: for programs one JSON object, for people the result on standard output and all else on standard error.

use anyhow::{Error, Result};
use mcpwarden_client::call::{Answer, CallTimedOut, Stopped};
use mcpwarden_client::inspect::session::TimedOut;
use mcpwarden_policy::event::{Detection, ToolStatus};
use mcpwarden_policy::guard::{RiskLevel, ToolCategory};
use mcpwarden_policy::protocol::{members, string};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::content;
use super::decision::{self, Decision, Descriptor};
use super::pending::pending;
use crate::output::{clean, escaped, print_error, print_json_line, print_line, word};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool has a result.
    Result,
    /// The tool or the server reports an error, or wants something more.
    ToolError,
    /// It would be made (`--dry-run`).
    Allowed,
    /// It was not made, or its result must not be used.
    Denied,
    /// It was not answered in time.
    TimedOut,
}

impl Outcome {
    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Result | Self::Allowed => 0,
            Self::ToolError => 1,
            Self::Denied => 3,
            Self::TimedOut => 4,
        }
    }
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub outcome: Outcome,
    pub tool_id: String,
    pub server_id: String,
    pub tool_name: String,
    /// Of the call: events of an agent that sees it have it in `traceparent`.
    pub trace_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Descriptor>,
    pub decision: Decision,
    /// The result, as the server sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// The decision on the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_decision: Option<Decision>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether nothing was to be called.
    #[serde(skip)]
    pub is_dry: bool,
}

/// An error of JSON-RPC.
#[derive(Debug, PartialEq, Serialize)]
pub struct ErrorView {
    pub code: i64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// What became of a call that was answered so.
pub fn outcome(answer: &Answer) -> Outcome {
    match answer {
        Answer::Error { .. } => Outcome::ToolError,
        Answer::Result(result) => {
            let [is_error] = members(result, ["isError"]);
            let failed = is_error.is_some_and(|value| value.get() == "true") || pending(result).is_some();
            if failed { Outcome::ToolError } else { Outcome::Result }
        }
    }
}

/// Whether an error is one of a call's outcomes.
pub fn is_outcome(error: &Error) -> bool {
    error.is::<Stopped>() || error.is::<TimedOut>() || error.is::<CallTimedOut>()
}

impl Report {
    /// Of a call that was not made yet.
    pub fn new(server: &str, tool: &str, trace_id: &str, is_dry: bool) -> Self {
        Self {
            outcome: Outcome::Denied,
            tool_id: format!("mcp:{server}:{tool}"),
            server_id: server.to_owned(),
            tool_name: tool.to_owned(),
            trace_id: trace_id.to_owned(),
            tool: None,
            decision: Decision::default(),
            result: None,
            error: None,
            result_decision: None,
            reason: None,
            is_dry,
        }
    }

    /// With the error by which a call ended without an answer.
    ///
    /// # Errors
    /// The same, where it is none of a call's outcomes.
    pub fn failed(&mut self, error: Error) -> Result<()> {
        let opening = error.downcast_ref().map(TimedOut::to_string);
        if let Some(reason) = opening.or_else(|| error.downcast_ref().map(CallTimedOut::to_string)) {
            (self.outcome, self.reason) = (Outcome::TimedOut, Some(reason));
            return Ok(());
        }
        if let Some(stopped) = error.downcast_ref::<Stopped>() {
            self.outcome = Outcome::Denied;
            self.decision = decision::stopped(stopped.to_string());
            return Ok(());
        }
        Err(error)
    }

    /// With an answer, which is left out where it must not be used.
    pub fn answered(&mut self, answer: Answer, decision: Decision) {
        self.outcome = if decision.is_denial() { Outcome::Denied } else { outcome(&answer) };
        self.result_decision = Some(decision);
        if self.outcome == Outcome::Denied {
            return;
        }
        match answer {
            Answer::Result(result) => self.result = RawValue::from_string(result).ok(),
            Answer::Error { code, message, data } => self.error = Some(ErrorView { code, message, data }),
        }
    }

    /// Prints it.
    pub fn print(&self, json: bool) {
        if json {
            return print_json_line(self);
        }
        self.warn();
        if self.is_dry {
            self.describe().into_iter().for_each(print_line);
        }
        let say = |text: String| print_error(format!("mcpwarden: {text}"));
        let id = escaped(&self.tool_id);
        match (&self.outcome, &self.result, &self.error) {
            (Outcome::Denied, ..) => match self.result_decision.as_ref().filter(|one| one.is_denial()) {
                Some(decision) => {
                    say(format!("the result of {id} is denied {}", escaped(&decision.denial())))
                }
                None => say(format!(
                    "the call of {id} is denied {}{}",
                    escaped(&self.decision.denial()),
                    self.advice()
                )),
            },
            (Outcome::TimedOut, ..) => {
                let reason = self.reason.as_deref().unwrap_or("there is no answer");
                say(format!("{id}: {}", escaped(reason)));
            }
            (_, _, Some(ErrorView { code, message, data })) => {
                let data = data
                    .as_ref()
                    .map_or_else(String::new, |data| format!("; data: {}", clean(&data.to_string())));
                say(format!(
                    "the server answers the call of {id} with the error {code}: {}{data}",
                    clean(message)
                ));
            }
            (outcome, Some(result), None) => {
                content::lines(result.get()).into_iter().for_each(print_line);
                match pending(result.get()) {
                    Some(pending) => say(format!("{id}: {pending}")),
                    None if *outcome == Outcome::ToolError => say(format!("{id} reports an error")),
                    None => {}
                }
            }
            (_, None, None) => {}
        }
    }

    /// What an operator can do about a denial, where that is plain.
    fn advice(&self) -> String {
        match self.decision.decided.code.as_deref() {
            Some("approval_required" | "approval_timed_out") => {
                format!(
                    "; `mcpwarden approve {}:{}` approves the tool",
                    escaped(&self.server_id),
                    escaped(&self.tool_name)
                )
            }
            Some("server_blocked") => "; `mcpwarden blocks` lists the blocks".to_owned(),
            _ => String::new(),
        }
    }

    /// Prints what is worth a look, though nothing is denied for it.
    fn warn(&self) {
        let warn = |text: String| print_error(format!("mcpwarden: warning: {text}"));
        if let Some(tool) = &self.tool {
            found(&tool.detections, "the definition of the tool");
            if tool.pin == Some(ToolStatus::Changed) {
                warn(
                    "the definition of the tool differs from its pin; `mcpwarden pins diff` compares them"
                        .to_owned(),
                );
            }
        }
        for (decision, what) in
            [(Some(&self.decision), "the arguments"), (self.result_decision.as_ref(), "the result")]
        {
            let Some(decision) = decision else { continue };
            found(&decision.detections, what);
            if !decision.is_denial() {
                decision.decided.warnings.iter().for_each(|text| warn(escaped(text)));
            }
        }
    }

    /// The tool, and the decision, for people.
    fn describe(&self) -> Vec<String> {
        let mut lines = vec![row("tool", &escaped(&self.tool_id))];
        if let Some(tool) = &self.tool {
            let [title, description, annotations] =
                members(tool.definition.get(), ["title", "description", "annotations"]);
            let title = string(title);
            if !title.is_empty() {
                lines.push(row("title", &clean(&title)));
            }
            let description = string(description);
            for (index, line) in description.trim().lines().enumerate() {
                lines.push(row(if index == 0 { "description" } else { "" }, &escaped(line)));
            }
            let hash = tool.hash.as_deref().unwrap_or_default();
            let pin = match tool.pin {
                Some(status) => word(&status),
                None => "not compared: the pins cannot be read".to_owned(),
            };
            lines.push(row("definition", &format!("{} {pin}", hash.get(..12).unwrap_or(hash))));
            lines.extend(effects(tool));
            if let Some(annotations) = annotations {
                lines.push(row("annotations", &clean(annotations.get())));
            }
        }
        let decision = match self.decision.is_denial() {
            true => format!("denied {}", escaped(&self.decision.denial())),
            false => "allowed".to_owned(),
        };
        lines.push(row("decision", &decision));
        lines
    }
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<12} {value}").trim_end().to_owned()
}

/// What a tool does.
fn effects(tool: &Descriptor) -> Option<String> {
    let category: ToolCategory = tool.category?;
    let risk: RiskLevel = tool.risk_level?;
    let effects: Vec<&str> = tool.side_effect_tags.iter().map(String::as_str).collect();
    let effects = if effects.is_empty() { "none known".to_owned() } else { effects.join(" ") };
    Some(row(
        "category",
        &format!("{}, risk {}, side effects: {}", word(&category), word(&risk), escaped(&effects)),
    ))
}

/// Prints what was found in a text.
fn found(detections: &[Detection], what: &str) {
    for detection in detections {
        let (pattern, field) = (clean(&detection.pattern), clean(&detection.field));
        let severity = detection.severity.name();
        print_error(format!("mcpwarden: warning: found in {what}: {severity} {pattern} {field}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_outcome() {
        let result = |json: &str| Answer::Result(json.to_owned());
        for (answer, expected, said) in [
            (result(r#"{"content":[]}"#), Outcome::Result, None),
            (result(r#"{"content":[],"isError":false}"#), Outcome::Result, None),
            (result(r#"{"resultType":"complete","content":[]}"#), Outcome::Result, None),
            (result(r#"{"content":[],"isError":true}"#), Outcome::ToolError, None),
            (
                result(
                    r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Who?"}}}}"#,
                ),
                Outcome::ToolError,
                Some("elicitation/create \"Who?\""),
            ),
            (result(r#"{"resultType":"input_required"}"#), Outcome::ToolError, Some("does not say what")),
            (
                result(r#"{"task":{"taskId":"7","status":"working"}}"#),
                Outcome::ToolError,
                Some("made the task 7 of the call (working)"),
            ),
            (
                result(r#"{"task":{"taskId":"7","status":"input_required"}}"#),
                Outcome::ToolError,
                Some("requires input"),
            ),
            (
                result(r#"{"resultType":"x\u001b[31m"}"#),
                Outcome::ToolError,
                Some("unknown type `x\\u{1b}[31m`"),
            ),
            (Answer::Error { code: -32602, message: "m".to_owned(), data: None }, Outcome::ToolError, None),
        ] {
            assert_eq!(outcome(&answer), expected, "{answer:?}");
            let pending = match &answer {
                Answer::Result(result) => pending(result),
                Answer::Error { .. } => None,
            };
            match (&pending, said) {
                (None, None) => {}
                (Some(text), Some(part)) => assert!(text.contains(part), "{text}"),
                _ => panic!("{answer:?}: {pending:?}"),
            }
        }
    }

    #[test]
    fn some_errors_are_outcomes() {
        use mcpwarden_policy::config::Period;
        let second = Period(std::time::Duration::from_secs(1));
        for (error, expected) in [
            (Error::from(TimedOut(second)).context("a"), Some(Outcome::TimedOut)),
            (Error::from(CallTimedOut(second)), Some(Outcome::TimedOut)),
            (Error::from(Stopped).context("a"), Some(Outcome::Denied)),
            (anyhow::anyhow!("other"), None),
        ] {
            let mut report = Report::new("s", "t", "", false);
            assert_eq!(is_outcome(&error), expected.is_some(), "{error:#}");
            let outcome = report.failed(error).ok().map(|()| report.outcome);
            assert_eq!(outcome, expected);
            assert_eq!(report.decision.is_denial(), expected == Some(Outcome::Denied));
        }
    }

    #[test]
    fn exit_status_tells_the_outcome() {
        let all = [Outcome::Result, Outcome::Allowed, Outcome::ToolError, Outcome::Denied, Outcome::TimedOut];
        assert_eq!(all.map(Outcome::status), [0, 0, 1, 3, 4]);
    }
}
