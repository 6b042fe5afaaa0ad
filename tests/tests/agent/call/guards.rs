//! Guards that others wrote: a call waits for them.

use std::fs;

use anyhow::{Result, ensure};
use mcpwarden_tests::guard_service::GuardService;
use serde_json::json;

use super::{Bench, calling_as, servers};
use crate::guards::component;

/// A service is asked before the call is made, and again before its result is printed; one that fails denies or not, as configured.
#[test]
fn guards_of_others_are_awaited() -> Result<()> {
    let heard = tempfile::tempdir()?;
    let (module, heard) = (heard.path().join("guard.wasm"), heard.path().join("heard"));
    fs::write(&module, component())?;
    let service = GuardService::start(|request| {
        let data = &request["operation"]["data"];
        let deny = |code: &str| {
            (200, json!({ "decision": "deny", "reason": { "code": code, "message": "not so" } }))
        };
        match (request["phase"].as_str(), data["arguments"]["do"].as_str()) {
            (Some("tool_invoke"), Some("deny")) => deny("bad"),
            (Some("tool_result"), _) if data.to_string().contains("done") => deny("worse"),
            (Some("tools_list"), _) if data.to_string().contains("poison") => deny("worst"),
            (_, Some("fail")) => (500, json!({})),
            _ => (200, json!({ "decision": "allow" })),
        }
    })?;
    let entry =
        |variant: &str| calling_as("works", variant, &format!(", env: {{ HEARD: \"{}\" }}", heard.display()));
    let http = |mode: &str, phases: &str, more: &str| {
        format!(
            "guards: [{{ kind: http, name: judge, failure_mode: {mode}, runs_on: [{phases}], \
             config: {{ url: \"http://{}/x\", share: full{more} }} }}]\n",
            service.address
        )
    };
    let wasm =
        format!("guards: [{{ kind: wasm, name: words, config: {{ module_path: {} }} }}]\n", module.display());
    let holds = ", hold_until_judged: true";
    for (name, guards, variant, what, code, sent, part) in [
        ("allows", http("fail_closed", "tool_invoke", ""), "works", "it", 0, true, ""),
        (
            "denies",
            http("fail_open", "tool_invoke", ""),
            "works",
            "deny",
            3,
            false,
            "denied by judge (bad): not so",
        ),
        (
            "fails closed",
            http("fail_closed", "tool_invoke", ""),
            "works",
            "fail",
            3,
            false,
            "by judge (guard_error)",
        ),
        (
            "fails open",
            http("fail_open", "tool_invoke", ""),
            "works",
            "fail",
            0,
            true,
            "the guard judge has no answer",
        ),
        (
            "denies the result",
            http("fail_open", "tool_result", ""),
            "works",
            "it",
            3,
            true,
            "the result of mcp:works:t is denied by judge (worse)",
        ),
        ("judges the list first", http("fail_closed", "tools_list", holds), "works", "it", 0, true, ""),
        (
            "denies the definition",
            http("fail_closed", "tools_list", holds),
            "poison",
            "it",
            3,
            false,
            "the guard judge denied it: not so",
        ),
        ("a component allows", wasm.clone(), "works", "it", 0, true, ""),
        ("a component denies", wasm, "works", "deny", 3, false, "denied by words (bad): not so"),
    ] {
        let bench = Bench::new(&(servers(&[entry(variant)]) + &guards))?;
        let arguments = json!({ "do": what }).to_string();
        let said = bench.call("mcp:works:t", &["--arguments", &arguments])?;
        said.expect(name, code, if code == 0 { "done\n" } else { "" })?;
        ensure!(said.stderr.contains(part) && (code == 0 || said.stdout.is_empty()), "{name}: {said:?}");
        let heard = fs::read_to_string(&heard)?;
        ensure!(heard.contains("tools/call") == sent, "{name}: {heard}");
    }
    Ok(())
}
