//! A guard against the loss of data: card numbers, keys and configured words.
//!
//! Configuration: `words`, a list of words that must not occur, for example names of projects.

mod find;

wit_bindgen::generate!({ world: "security-guard", path: "../../../../agent/wasm/wit" });

use exports::mcp::security_guard::guard::{Decision, DenyReason, GuardContext, Guest, Tool};
use mcp::security_guard::host;

struct Guard;

impl Guest for Guard {
    /// Definitions of tools are public texts.
    fn evaluate_tools_list(_: Vec<Tool>, _: GuardContext) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }

    fn evaluate_tool_call(tool_name: String, arguments: String, _: GuardContext) -> Result<Decision, String> {
        judge(&format!("the arguments of {tool_name}"), &arguments)
    }

    fn evaluate_tool_response(
        tool_name: String,
        result: String,
        _: GuardContext,
    ) -> Result<Decision, String> {
        judge(&format!("the result of {tool_name}"), &result)
    }

    fn evaluate_prompt_request(
        prompt_name: String,
        arguments: String,
        _: GuardContext,
    ) -> Result<Decision, String> {
        judge(&format!("the arguments of the prompt {prompt_name}"), &arguments)
    }

    fn evaluate_resource_request(uri: String, _: GuardContext) -> Result<Decision, String> {
        judge("the address of a resource", &uri)
    }
}

/// Denies a text with something in it that must stay inside. The message names the kind, never the text itself.
fn judge(place: &str, text: &str) -> Result<Decision, String> {
    let words = words(host::get_config("words").as_deref())?;
    let Some(kind) = find::kind(text, &words) else { return Ok(Decision::Allow) };
    host::log(host::LogLevel::Warn, &format!("{kind} in {place}"));
    host::record_metric("dlp_findings", 1.0, &[("kind".to_owned(), kind.to_owned())]);
    Ok(Decision::Deny(DenyReason {
        code: "dlp".to_owned(),
        message: format!("{place} contain(s) {kind}"),
        details: Some(serde_json::json!({ "kind": kind }).to_string()),
    }))
}

/// The configured words; values that are not strings arrive as JSON.
fn words(config: Option<&str>) -> Result<Vec<String>, String> {
    match config {
        None => Ok(Vec::new()),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| format!("`words` is not a list of strings: {error}"))
        }
    }
}

export!(Guard);
