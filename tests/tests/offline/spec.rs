//! The examples and schemas of the MCP specification, where they are: each is read as what it is, and nothing in them is unknown
//! by chance.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_policy::definition::{json_hash, text_hash};
use mcpwarden_policy::protocol::meta::{self, RequestMeta};
use mcpwarden_policy::protocol::{self, Kind, Method, all_members, error_name};
use mcpwarden_tests::places;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Requests and notifications that pass by name, and why nothing more is known of them.
const BY_NAME: [(&str, &str); 2] = [
    (
        "subscriptions/listen",
        "its answer only ends it; what comes over it are notifications, which are known",
    ),
    ("notifications/subscriptions/acknowledged", "it repeats what the client asked for"),
];

/// Results without a request of their name, and what they are.
const RESULTS: [(&str, &str); 10] = [
    ("CacheableResult", "members of the lists: `ttlMs`, `cacheScope`"),
    ("CancelTaskResult", "a task, whose texts are inspected with the answer to `tasks/cancel`"),
    ("ClientResult", "any result of a client"),
    ("CreateTaskResult", "a task in place of the result of a call, inspected as that"),
    ("EmptyResult", "nothing"),
    ("GetTaskPayloadResult", "the result of a task, inspected with the answer to `tasks/result`"),
    ("InputRequiredResult", "in place of the result of a call, a prompt or a resource, inspected as that"),
    ("PaginatedResult", "a member of the lists: `nextCursor`"),
    ("Result", "any result"),
    ("ServerResult", "any result of a server"),
];

/// What is no message by itself: part of one, inspected with it.
const PARTS: [&str; 35] = [
    "AudioContent",
    "BlobResourceContents",
    "BooleanSchema",
    "ClientCapabilities",
    "ElicitRequestFormParams",
    "ElicitRequestURLParams",
    "EmbeddedResource",
    "ImageContent",
    "InputRequests",
    "InputResponses",
    "ModelPreferences",
    "NumberSchema",
    "Resource",
    "ResourceLink",
    "Root",
    "SamplingMessage",
    "ServerCapabilities",
    "StringSchema",
    "TextContent",
    "TextResourceContents",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "Tool",
    "ToolResultContent",
    "ToolUseContent",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
    "CallToolRequestParams",
    "CancelledNotificationParams",
    "CompleteRequestParams",
    "CreateMessageRequestParams",
    "GetPromptRequestParams",
    "LoggingMessageNotificationParams",
    "PaginatedRequestParams",
    "ProgressNotificationParams",
];

/// Where the specification is: `MCPWARDEN_SPEC`, or beside the checkout. `None` where it is not there, which is counted.
fn specification(test: &str) -> Option<PathBuf> {
    let path = match env::var_os("MCPWARDEN_SPEC") {
        Some(path) => path.into(),
        None => places::sources().join("../../shared/spec"),
    };
    if path.is_dir() {
        return Some(path);
    }
    places::skipped(test, &format!("no specification in {} (MCPWARDEN_SPEC)", path.display()));
    None
}

fn definitions(specification: &Path, revision: &str) -> Result<Value> {
    let path = specification.join(revision).join("schema.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema: Value = serde_json::from_str(&text)?;
    Ok(schema["$defs"].clone())
}

/// The method of a request or notification in the schema.
fn method_of<'a>(definitions: &'a Value, name: &str) -> Option<&'a str> {
    definitions[name]["properties"]["method"]["const"].as_str()
}

fn is_known(method: &str) -> bool {
    Method::from(std::borrow::Cow::Borrowed(method)).is_mcp()
        || BY_NAME.iter().any(|(name, _)| *name == method)
}

#[test]
fn every_example_is_read_as_what_its_folder_says() -> Result<()> {
    let Some(specification) = specification("every_example_is_read_as_what_its_folder_says") else {
        return Ok(());
    };
    let definitions = definitions(&specification, "2026-07-28")?;
    let mut read = 0;
    for folder in fs::read_dir(specification.join("2026-07-28/examples"))? {
        let folder = folder?.path();
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        for file in fs::read_dir(&folder)? {
            let file = file?.path();
            let text = fs::read_to_string(&file)?;
            example(&definitions, &name, &text).with_context(|| format!("{}", file.display()))?;
            read += 1;
        }
    }
    ensure!(read > 100, "only {read} examples");
    Ok(())
}

/// Reads an example as what `name` is in the schema.
fn example(definitions: &Value, name: &str, text: &str) -> Result<()> {
    let value: Value = serde_json::from_str(text)?;
    ensure!(json_hash(text) != text_hash(text), "it has no canonical form");
    if let Some(method) = method_of(definitions, name) {
        ensure!(value["method"] == method, "another method than {method}");
        ensure!(is_known(method), "{method} is not known");
        return message(text, |kind| match kind {
            Kind::Request { method: found, params, .. } => {
                let meta = RequestMeta::of(*params);
                let has_meta = value["params"]["_meta"].is_object();
                let is_of_client = !value["jsonrpc"].is_null();
                ensure!(
                    !is_of_client || has_meta == meta.protocol_version.is_some(),
                    "its revision is not read"
                );
                ensure!(found.as_str() == method, "it is {found:?}");
                Ok(())
            }
            // What a server asks within a result has no id.
            Kind::Notification { method: found, .. } => {
                ensure!(found.as_str() == method, "it is {found:?}");
                Ok(())
            }
            other => bail!("it is {other:?}"),
        });
    }
    match name {
        _ if name.ends_with("ResultResponse") => message(text, |kind| match kind {
            Kind::Response { result, .. } => result_of(&value["result"], result),
            other => bail!("it is {other:?}"),
        }),
        _ if name.ends_with("Result") => {
            let response = json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string();
            message(&response, |kind| match kind {
                Kind::Response { result, .. } => result_of(&value, result),
                other => bail!("it is {other:?}"),
            })
        }
        _ if name.ends_with("Error") => error(&value),
        _ if name.ends_with("NotificationParams") || PARTS.contains(&name) => {
            ensure!(
                all_members(text).is_some_and(|members| !members.is_empty()) || value.as_object().is_some()
            );
            Ok(())
        }
        _ => bail!("nothing is known of {name}"),
    }
}

fn message(text: &str, check: impl FnOnce(&Kind<'_>) -> Result<()>) -> Result<()> {
    let mut scratch = String::new();
    let parsed = protocol::parse(text.as_bytes(), &mut scratch)?;
    ensure!(!parsed.batch && !parsed.lossy && !parsed.repaired && parsed.messages.len() == 1, "{parsed:?}");
    ensure!(protocol::respell(text).is_none(), "a key is taken for another: {:?}", protocol::respell(text));
    check(&parsed.messages[0].kind)
}

/// What every result says of its server is read.
fn result_of(value: &Value, result: &RawValue) -> Result<()> {
    let info = &value["_meta"]["io.modelcontextprotocol/serverInfo"];
    let found =
        meta::server_info(result).map(|info| serde_json::from_str::<Value>(info.get())).transpose()?;
    ensure!(found.as_ref().unwrap_or(&Value::Null) == info, "its server is not read");
    Ok(())
}

/// An error, or the message that it is in; each has a name.
fn error(value: &Value) -> Result<()> {
    let error = if value["error"].is_object() { &value["error"] } else { value };
    let code = error["code"].as_i64().context("it has no code")?;
    ensure!(error_name(code).is_some(), "{code} has no name");
    let whole = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
    message(&whole, |kind| match kind {
        Kind::Error { code: found, is_regular: true, .. } if *found == code => Ok(()),
        other => bail!("it is {other:?}"),
    })
}

#[test]
fn every_type_of_the_schemas_is_known_or_on_a_list() -> Result<()> {
    let Some(specification) = specification("every_type_of_the_schemas_is_known_or_on_a_list") else {
        return Ok(());
    };
    let mut all: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for revision in REVISIONS {
        let definitions = definitions(&specification, revision)?;
        let names = definitions.as_object().context("no definitions")?;
        for name in names.keys() {
            if let Some(method) = method_of(&definitions, name) {
                ensure!(is_known(method), "{revision}: {name} ({method}) is neither known nor on a list");
                all.entry(method.to_owned()).or_default().insert(revision);
            } else if let Some(of) = name.strip_suffix("Result") {
                let is_answer = method_of(&definitions, &format!("{of}Request")).is_some();
                let is_listed = RESULTS.iter().any(|(listed, _)| listed == name);
                ensure!(is_answer || is_listed, "{revision}: {name} is neither an answer nor on a list");
            }
        }
    }
    // What only one revision has is known as its own. Tasks went into an extension, and what servers ask into results.
    for (method, revisions) in &all {
        let is_elsewhere = method.contains("tasks/") || method.starts_with("roots/");
        let only = Method::from(std::borrow::Cow::Borrowed(method.as_str())).era();
        ensure!(
            (revisions.len() == 1) == only.is_some() || is_elsewhere && only.is_none(),
            "{method} of {revisions:?} is one of {only:?}"
        );
    }
    Ok(())
}
