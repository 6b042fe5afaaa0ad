//! What guards have changed of an operation, so that those after them see it.

use std::collections::HashSet;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use serde_json_path::JsonPath;

use crate::guard::{GuardError, Modification, Operation, Recorded, ToolFacts};

/// The parts of an operation that are not as they were sent.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// `params` of a request.
    params: Option<Box<RawValue>>,
    /// Arguments of a call or prompt, or a result.
    body: Option<Box<RawValue>>,
    tools: Option<Vec<ToolFacts>>,
}

impl Changed {
    /// The operation as it is now.
    pub(super) fn view<'a>(&'a self, operation: &Operation<'a>) -> Operation<'a> {
        let body = self.body.as_deref();
        match *operation {
            Operation::Request { method, params } => {
                Operation::Request { method, params: self.params.as_deref().or(params) }
            }
            Operation::Response { method, result, error } => {
                Operation::Response { method, result: body.or(result), error }
            }
            Operation::ToolsList { tools } => {
                Operation::ToolsList { tools: self.tools.as_deref().unwrap_or(tools) }
            }
            Operation::ToolInvoke { tool_name, arguments } => {
                Operation::ToolInvoke { tool_name, arguments: body.or(arguments) }
            }
            Operation::ToolResult { tool_name, result, error } => {
                Operation::ToolResult { tool_name, result: body.or(result), error }
            }
            Operation::PromptRequest { name, arguments } => {
                Operation::PromptRequest { name, arguments: body.or(arguments) }
            }
            Operation::ResourceRequest { .. } => *operation,
        }
    }

    /// What is to be recorded in place of what was sent.
    pub(super) fn recorded(self) -> Recorded {
        let text = |json: Option<Box<RawValue>>| json.map(|json| json.get().to_owned());
        Recorded { params: text(self.params), body: text(self.body) }
    }

    /// Changes the operation as a guard has said.
    pub(super) fn apply(
        &mut self,
        operation: &Operation<'_>,
        modification: &Modification,
    ) -> Result<(), GuardError> {
        match (modification, self.view(operation)) {
            (Modification::AddWarning { .. } | Modification::NoteMuted { .. }, _) => {}
            (Modification::ReplaceTools(kept), Operation::ToolsList { tools }) => {
                let kept: HashSet<&str> = kept.iter().map(String::as_str).collect();
                let kept = tools.iter().filter(|tool| kept.contains(&*tool.name)).cloned().collect();
                self.tools = Some(kept);
            }
            (Modification::ReplaceTools(_), _) => {
                return Err(GuardError::Internal("there are no tools to replace in this phase".to_owned()));
            }
            (Modification::RedactFields { paths, replacement }, Operation::Request { params, .. }) => {
                let Some(params) = redacted(params, paths, replacement)? else { return Ok(()) };
                // The specific phase of the same request sees a part of this.
                self.body = params.get("arguments").map(to_raw).transpose()?;
                self.params = Some(to_raw(&params)?);
            }
            (Modification::RedactFields { paths, replacement }, view) => {
                let body = match view {
                    Operation::Response { result, .. } | Operation::ToolResult { result, .. } => result,
                    Operation::ToolInvoke { arguments, .. } | Operation::PromptRequest { arguments, .. } => {
                        arguments
                    }
                    _ => None,
                };
                if let Some(body) = redacted(body, paths, replacement)? {
                    self.body = Some(to_raw(&body)?);
                }
            }
        }
        Ok(())
    }
}

fn to_raw(value: &Value) -> Result<Box<RawValue>, GuardError> {
    to_raw_value(value).map_err(|error| GuardError::Internal(error.to_string()))
}

fn redacted(
    json: Option<&RawValue>,
    paths: &[String],
    replacement: &str,
) -> Result<Option<Value>, GuardError> {
    let Some(json) = json else { return Ok(None) };
    let mut value = serde_json::from_str(json.get())
        .map_err(|error| GuardError::Internal(format!("cannot redact: {error}")))?;
    redact(&mut value, paths, replacement)?;
    Ok(Some(value))
}

/// Replaces everything in `value` that one of the JSONPath expressions (RFC 9535) selects, and says how many places
/// that were.
///
/// # Errors
/// [`GuardError::Config`]: an expression is none. Nothing is replaced then.
pub fn redact(value: &mut Value, paths: &[String], replacement: &str) -> Result<usize, GuardError> {
    let mut pointers = Vec::new();
    for path in paths {
        let parsed = JsonPath::parse(path)
            .map_err(|error| GuardError::Config(format!("`{path}` is no JSONPath: {error}")))?;
        pointers.extend(parsed.query_located(value).locations().map(|found| found.to_json_pointer()));
    }
    // What lies within what is replaced goes with it.
    pointers.sort();
    pointers.dedup();
    let mut replaced = 0;
    for pointer in pointers {
        if let Some(place) = value.pointer_mut(&pointer) {
            *place = Value::String(replacement.to_owned());
            replaced += 1;
        }
    }
    Ok(replaced)
}
