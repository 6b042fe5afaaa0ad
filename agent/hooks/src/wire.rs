//! A request as JSON. Texts of the contract that hold JSON become values of the body, byte for byte as they were sent:
//! numbers keep their digits, and objects the order of their members.

use mcpwarden_terms::contract::{GuardContext, GuardIdentity, GuardOperation, GuardRequest, GuardTool};
use serde::Serialize;
use serde_json::value::RawValue;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// A text of the contract is not the JSON that it should be.
    #[error("{0} is not JSON")]
    NotJson(&'static str),
    /// The body would be longer than allowed.
    #[error("the request is longer than {0} bytes")]
    TooLong(usize),
}

#[derive(Serialize)]
struct Body<'a> {
    phase: &'static str,
    operation: Operation<'a>,
    context: Context<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "type", content = "data")]
enum Operation<'a> {
    ListTools { tools: Vec<Tool<'a>> },
    CallTool { tool_name: &'a str, arguments: &'a RawValue },
    ToolResponse { tool_name: &'a str, result: &'a RawValue },
    GetPrompt { prompt_name: &'a str, arguments: &'a RawValue },
    ReadResource { uri: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: Option<&'a str>,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
struct Context<'a> {
    server_name: &'a str,
    identity: Option<Identity<'a>>,
    metadata: &'a RawValue,
}

#[derive(Serialize)]
struct Identity<'a> {
    sub: &'a str,
    email: Option<&'a str>,
    groups: &'a [String],
    claims: &'a RawValue,
}

/// The body of a request, of at most so many bytes.
pub(crate) fn encode(request: &GuardRequest, max_bytes: usize) -> Result<Vec<u8>, EncodeError> {
    // Before anything is copied: the body is never shorter than the texts in it.
    let bytes = request.operation.bytes();
    if bytes > max_bytes {
        return Err(EncodeError::TooLong(max_bytes));
    }
    let body = Body {
        phase: request.operation.phase().name(),
        operation: operation(&request.operation)?,
        context: context(&request.context)?,
    };
    let mut text =
        Vec::with_capacity(bytes.saturating_add(request.context.metadata.len()).saturating_add(512));
    serde_json::to_writer(&mut text, &body).map_err(|_| EncodeError::NotJson("the request"))?;
    if text.len() > max_bytes { Err(EncodeError::TooLong(max_bytes)) } else { Ok(text) }
}

fn operation(operation: &GuardOperation) -> Result<Operation<'_>, EncodeError> {
    Ok(match operation {
        GuardOperation::ListTools { tools } => {
            Operation::ListTools { tools: tools.iter().map(tool).collect::<Result<_, _>>()? }
        }
        GuardOperation::CallTool { tool_name, arguments } => {
            Operation::CallTool { tool_name, arguments: value(arguments, "null", "arguments")? }
        }
        GuardOperation::ToolResponse { tool_name, result } => {
            Operation::ToolResponse { tool_name, result: value(result, "null", "result")? }
        }
        GuardOperation::GetPrompt { prompt_name, arguments } => {
            Operation::GetPrompt { prompt_name, arguments: value(arguments, "null", "arguments")? }
        }
        GuardOperation::ReadResource { uri } => Operation::ReadResource { uri },
    })
}

fn tool(tool: &GuardTool) -> Result<Tool<'_>, EncodeError> {
    let input_schema = value(&tool.input_schema, "{}", "input_schema")?;
    Ok(Tool { name: &tool.name, description: tool.description.as_deref(), input_schema })
}

fn context(context: &GuardContext) -> Result<Context<'_>, EncodeError> {
    let metadata = value(&context.metadata, "{}", "metadata")?;
    let identity = context.identity.as_ref().map(identity).transpose()?;
    Ok(Context { server_name: &context.server_name, identity, metadata })
}

fn identity(identity: &GuardIdentity) -> Result<Identity<'_>, EncodeError> {
    let GuardIdentity { sub, email, groups, claims } = identity;
    Ok(Identity { sub, email: email.as_deref(), groups, claims: value(claims, "{}", "claims")? })
}

/// The text as one JSON value; an empty one, which the contract's defaults have, as `empty`.
fn value<'a>(text: &'a str, empty: &'static str, field: &'static str) -> Result<&'a RawValue, EncodeError> {
    let text = if text.is_empty() { empty } else { text };
    // Without this check a text could end its member and begin others.
    serde_json::from_str(text).map_err(|_| EncodeError::NotJson(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> GuardRequest {
        GuardRequest {
            operation: GuardOperation::CallTool {
                tool_name: "t".to_owned(),
                arguments: arguments.to_owned(),
            },
            context: GuardContext::default(),
        }
    }

    /// Arguments as sent, and as a member of the body.
    #[test]
    fn json_texts_are_embedded_as_sent() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for (arguments, expected) in [
            ("null", Some("null")),
            ("", Some("null")),
            (
                r#"{"b":1.0,"a":1e400,"b":12345678901234567890123}"#,
                Some(r#"{"b":1.0,"a":1e400,"b":12345678901234567890123}"#),
            ),
            (r#" {"a": "\ud800\u0000é"} "#, Some(r#"{"a": "\ud800\u0000é"}"#)),
            (&*deep, Some(&*deep)),
            (r#"{}},"context":{}"#, None),
            ("{} {}", None),
            ("NaN", None),
            ("{'a':1}", None),
            ("{\"a\":\"\n\"}", None),
            ("{", None),
        ] {
            let found = encode(&call(arguments), 1 << 20).map(|body| String::from_utf8(body).unwrap());
            let expected = expected.map(|arguments| {
                format!(
                    r#"{{"phase":"tool_invoke","operation":{{"type":"call_tool","data":{{"tool_name":"t","arguments":{arguments}}}}},"context":{{"server_name":"","identity":null,"metadata":{{}}}}}}"#
                )
            });
            assert_eq!(found, expected.ok_or(EncodeError::NotJson("arguments")), "{arguments:.40}");
        }
    }

    #[test]
    fn bodies_have_a_longest_length() {
        let length = encode(&call("[1]"), 1 << 20).unwrap().len();
        assert!(encode(&call("[1]"), length).is_ok());
        for max_bytes in [0, 3, length - 1] {
            assert_eq!(encode(&call("[1]"), max_bytes), Err(EncodeError::TooLong(max_bytes)));
        }
    }
}
