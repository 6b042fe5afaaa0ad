//! `guard test`: a component over recorded frames, with what it answers and how long that takes.

use std::{cell::RefCell, collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use mcpwarden_policy::{
    EngineConfig, GuardQuestion, Inspect, Output,
    config::Config,
    engine::{Engine, Judge},
    replay::Replay,
    terms::contract::{GuardFailure, GuardOperation, GuardReply},
};
use mcpwarden_wasm::{Guard, Limits, Runtime, RuntimeOptions, config_from_json};
use serde_json::{Value, json};

use crate::{
    cli::GuardTest,
    commands::lines,
    external::External,
    output::{escaped, print_error, print_json_line, print_line, table, table_text},
};

/// One question and its answer.
struct Row {
    what: String,
    answer: String,
    why: String,
    took: Duration,
    logs: Vec<String>,
}

/// Asks a component about all operations of a recording. Whether it answered each.
///
/// # Errors
/// The component is no guard, or the recording cannot be read.
pub fn run(options: &GuardTest) -> Result<bool> {
    let path = &options.file;
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let values = options.config.as_deref().map(values).transpose()?.unwrap_or_default();
    let runtime = Runtime::new(RuntimeOptions::default())?;
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("guard");
    let guard = Guard::load(&runtime, name, &bytes, config_from_json(&values), Limits::default())
        .with_context(|| path.display().to_string())?;
    let rows = RefCell::new(Vec::new());
    let (file, input) = lines::open(&options.frames)?;
    let mut replay = Replay::new(engine()?).with_guards(Box::new(|question| {
        let answered = External::run(&guard, question, Duration::from_millis(options.timeout_ms));
        let logs = answered
            .report
            .iter()
            .flat_map(|report| &report.logs)
            .map(|line| escaped(&line.text).to_string());
        let (answer, why) = words(&answered.answer);
        rows.borrow_mut().push(Row {
            what: what(question),
            answer,
            why,
            took: answered.elapsed,
            logs: logs.collect(),
        });
        Some(answered.answer)
    }));
    let mut outputs: Vec<Output> = Vec::new();
    lines::each(&file, input, |line| {
        outputs.clear();
        Ok(replay.line(line, &mut outputs)?)
    })?;
    drop(replay);
    let rows = rows.into_inner();
    if rows.is_empty() {
        print_error(format!("{}: nothing in it is put to a guard", escaped(&file)));
    }
    print(&rows, options.json);
    Ok(rows.iter().all(|row| !row.answer.starts_with("failed")))
}

/// An engine that asks the one guard about everything.
fn engine() -> Result<Engine> {
    let yaml = "{ cross_server: { enabled: false }, guards: [{ kind: wasm, name: guard, failure_mode: fail_open, \
                config: { module_path: /guard.wasm } }] }";
    let config = mcpwarden_policy::config::parse(yaml.as_bytes()).map(|(config, _): (Config, _)| config);
    let config = config.map_err(|_| anyhow::anyhow!("the configuration of the test is invalid"))?;
    let inspect = Inspect::built_in().map_err(|_| anyhow::anyhow!("a built-in rule is invalid"))?;
    let judge = Judge::new(&config, Vec::new(), &inspect.detector)?;
    Ok(Engine::new(EngineConfig::new([0; 32])).with_judge(judge))
}

/// The values of `wasm_config`, of a YAML or JSON file.
fn values(path: &Path) -> Result<BTreeMap<String, Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no map of values", path.display()))
}

fn what(question: &GuardQuestion) -> String {
    match &question.request.operation {
        GuardOperation::ListTools { tools } => format!("list of {} tools", tools.len()),
        GuardOperation::CallTool { tool_name, .. } => format!("call {tool_name}"),
        GuardOperation::ToolResponse { tool_name, .. } => format!("result of {tool_name}"),
        GuardOperation::GetPrompt { prompt_name, .. } => format!("prompt {prompt_name}"),
        GuardOperation::ReadResource { uri } => format!("resource {uri}"),
    }
}

/// An answer, and why.
fn words(answer: &Result<GuardReply, GuardFailure>) -> (String, String) {
    match answer {
        Ok(GuardReply::Allow) => ("allow".to_owned(), String::new()),
        Ok(GuardReply::Deny { reason }) => {
            ("deny".to_owned(), format!("{}: {}", reason.code, reason.message))
        }
        Ok(GuardReply::Modify { action }) => ("modify".to_owned(), action.clone()),
        Err(failure) => ("failed".to_owned(), failure.to_string()),
    }
}

fn print(rows: &[Row], json: bool) {
    if json {
        for row in rows {
            let Row { what, answer, why, took, logs } = row;
            print_json_line(&json!({
                "operation": what, "answer": answer, "reason": why, "took_us": took.as_micros() as u64, "log": logs
            }));
        }
        return;
    }
    let mut table = table(["OPERATION", "ANSWER", "REASON", "TOOK"]);
    for row in rows {
        let took = format!("{:.3} ms", row.took.as_secs_f64() * 1e3);
        table.add_row([
            escaped(&row.what).to_string(),
            row.answer.clone(),
            escaped(&row.why).to_string(),
            took,
        ]);
    }
    print_line(table_text(&table));
    for line in rows.iter().flat_map(|row| &row.logs) {
        print_line(format!("log: {line}"));
    }
    let mut took: Vec<Duration> = rows.iter().map(|row| row.took).collect();
    took.sort_unstable();
    let count = |answer: &str| rows.iter().filter(|row| row.answer == answer).count();
    if let (Some(middle), Some(last)) = (took.get(took.len() / 2), took.last()) {
        print_line(format!(
            "{} questions: {} allowed, {} denied, {} modified, {} failed; median {:.3} ms, longest {:.3} ms",
            rows.len(),
            count("allow"),
            count("deny"),
            count("modify"),
            count("failed"),
            middle.as_secs_f64() * 1e3,
            last.as_secs_f64() * 1e3
        ));
    }
}
