//! A guard of mcpwarden. It denies calls whose arguments contain the configured `word`.

wit_bindgen::generate!({ world: "security-guard", path: "wit" });

use exports::mcp::security_guard::guard::{Decision, DenyReason, GuardContext, Guest, Tool};
use mcp::security_guard::host;

struct Guard;

impl Guest for Guard {
    fn evaluate_tools_list(_: Vec<Tool>, _: GuardContext) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }

    /// `arguments` is JSON.
    fn evaluate_tool_call(tool_name: String, arguments: String, _: GuardContext) -> Result<Decision, String> {
        let word = host::get_config("word").unwrap_or_else(|| "secret".to_owned());
        if !arguments.contains(&word) {
            return Ok(Decision::Allow);
        }
        host::log(host::LogLevel::Info, &format!("{tool_name}: the word is in the arguments"));
        Ok(Decision::Deny(DenyReason {
            code: "word".to_owned(),
            message: format!("the arguments of {tool_name} contain a word that must not leave"),
            details: Some(serde_json::json!({ "valid_for": "10m" }).to_string()),
        }))
    }

    fn evaluate_tool_response(_: String, _: String, _: GuardContext) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }

    fn evaluate_prompt_request(_: String, _: String, _: GuardContext) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }

    fn evaluate_resource_request(_: String, _: GuardContext) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }
}

export!(Guard);
