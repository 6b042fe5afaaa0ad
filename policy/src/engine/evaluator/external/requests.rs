//! What a guard that others wrote is shown of an operation.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::Scope;
use crate::config::Share;
use crate::engine::connection::Connection;
use crate::engine::recorder::Recorder;
use crate::guard::Operation;
use crate::guards::Subjects;
use crate::protocol::{decode_str, members};
use crate::terms::Timestamp;
use crate::terms::contract::{GuardContext, GuardIdentity, GuardOperation, GuardTool};

/// An operation as a guard is asked about it, and what a denial of it is about; `None` of a phase in which no such guard is asked.
pub(super) fn operation(
    operation: &Operation<'_>,
    scope: &Scope,
    share: Share,
    recorder: &Recorder,
) -> Option<(GuardOperation, Subjects)> {
    let shown = |json: Option<&RawValue>| {
        let json = json.map_or("null", RawValue::get);
        match share {
            Share::Full => json.to_owned(),
            Share::Redacted => recorder.redactor.redact(json).to_string(),
        }
    };
    let (tools, name, asked) = match operation {
        Operation::ToolInvoke { tool_name, arguments } => {
            let asked =
                GuardOperation::CallTool { tool_name: (*tool_name).to_owned(), arguments: shown(*arguments) };
            (vec![*tool_name], "", asked)
        }
        Operation::ToolResult { tool_name, result, error } => {
            let result = shown(result.or(*error));
            (
                vec![*tool_name],
                "",
                GuardOperation::ToolResponse { tool_name: (*tool_name).to_owned(), result },
            )
        }
        Operation::PromptRequest { name, arguments } => {
            let prompt_name = (*name).to_owned();
            (Vec::new(), *name, GuardOperation::GetPrompt { prompt_name, arguments: shown(*arguments) })
        }
        Operation::ResourceRequest { uri, .. } => {
            (Vec::new(), *uri, GuardOperation::ReadResource { uri: (*uri).to_owned() })
        }
        Operation::Request { .. } | Operation::Response { .. } | Operation::ToolsList { .. } => return None,
    };
    let tools = tools.into_iter().map(|tool| (Arc::from(tool), "".into())).collect();
    let (server, session) = (scope.server.clone(), scope.session.clone());
    let (phase, owner) = (operation.phase(), scope.owner);
    Some((asked, Subjects { phase, server, session, owner, tools, name: name.into() }))
}

/// A page of a list of tools: the name of each, and its definition.
pub(super) fn list<'a>(tools: impl Iterator<Item = (&'a str, &'a RawValue)>) -> GuardOperation {
    let tools = tools.map(|(name, definition)| {
        let [description, schema] = members(definition.get(), ["description", "inputSchema"]);
        GuardTool {
            name: name.to_owned(),
            description: description.and_then(|text| decode_str(text.get())).map(|text| text.into_owned()),
            input_schema: schema.map_or_else(|| "{}".to_owned(), |schema| schema.get().to_owned()),
        }
    });
    GuardOperation::ListTools { tools: tools.collect() }
}

/// What is known of an operation besides.
pub(super) fn context(
    scope: &Scope,
    connection: Option<&Connection>,
    id: Option<&Value>,
    time: Timestamp,
) -> GuardContext {
    let mut metadata = json!({ "session_id": scope.session.0, "time": time });
    if let (Value::Object(all), Some(connection)) = (&mut metadata, connection) {
        if let Value::Object(known) = &connection.metadata {
            all.extend(known.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        all.extend(id.map(|id| ("jsonrpc_id".to_owned(), id.clone())));
    }
    let identity = scope.owner.map(|uid| GuardIdentity {
        sub: format!("uid:{uid}"),
        email: None,
        groups: Vec::new(),
        claims: json!({ "uid": uid }).to_string(),
    });
    GuardContext { server_name: scope.server.0.to_string(), identity, metadata: metadata.to_string() }
}
