//! `mcpwarden inspect`: definitions from a file, through the same rules as what the kernel sees.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_policy::config::Config;
use mcpwarden_policy::detect::Detector;
use mcpwarden_policy::discovery::server_id;
use mcpwarden_policy::event::{Detection, Severity};
use mcpwarden_policy::protocol::{decode_str, members, string};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cli::InspectOptions;
use crate::config;
use crate::output::{clean, write_json};

/// Longest file. Bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Exit status where the input is of no use.
const UNUSABLE: u8 = 2;

/// What a file holds.
enum Contents<'a> {
    /// Definitions of tools.
    Tools(Vec<&'a RawValue>),
    /// Servers that a client's configuration declares: name, command line or address.
    Servers(Vec<(String, Vec<String>)>),
}

/// What was found in one definition.
struct Finding {
    name: String,
    detections: Vec<Detection>,
}

/// Prints what is found. Exit status 0: nothing at or above the threshold; 1: something; 2: the input cannot be used.
pub fn run(options: &InspectOptions) -> ExitCode {
    match inspect(options) {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(error) => {
            anstream::eprintln!("mcpwarden: {error:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Whether something is at or above the threshold.
fn inspect(options: &InspectOptions) -> Result<bool> {
    let config = options.config.as_deref().map_or_else(|| Ok(Config::default()), config::read)?;
    let text = read(&options.file)?;
    match contents(&text).with_context(|| options.file.display().to_string())? {
        Contents::Servers(servers) => {
            list(&servers, options.json);
            Ok(false)
        }
        Contents::Tools(tools) => {
            let detector = config::detector(&config)?;
            let findings: Vec<Finding> = tools.into_iter().map(|tool| finding(&detector, tool)).collect();
            if options.json {
                print_json(&findings)
            } else {
                print_table(&findings)
            }
            let threshold = config.inspection.alert_threshold;
            Ok(findings
                .iter()
                .flat_map(|finding| &finding.detections)
                .any(|found| found.severity >= threshold))
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?)
    };
    let mut bytes = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "{name} is longer than {} MiB", MAX_BYTES >> 20);
    String::from_utf8(bytes).with_context(|| format!("{name} is no text"))
}

/// Tells what a file is by what it has: a definition has a name, a list of them is an array or stands under `tools`, a
/// client's configuration has `mcpServers`.
fn contents(text: &str) -> Result<Contents<'_>> {
    let whole: &RawValue = serde_json::from_str(text).context("this is no JSON")?;
    if let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
        return Ok(Contents::Tools(tools));
    }
    let [result, tools, servers, more_servers, name] =
        members(whole.get(), ["result", "tools", "mcpServers", "servers", "name"]);
    if let Some(result) = result {
        return contents(result.get());
    }
    if let Some(tools) = tools {
        let tools = serde_json::from_str(tools.get()).context("`tools` is no list")?;
        return Ok(Contents::Tools(tools));
    }
    if let Some(servers) = servers.or(more_servers) {
        let servers: serde_json::Map<String, Value> =
            serde_json::from_str(servers.get()).context("the servers are no mapping")?;
        return Ok(Contents::Servers(
            servers.into_iter().map(|(name, server)| (name, words(&server))).collect(),
        ));
    }
    if name.is_some_and(|name| decode_str(name.get()).is_some()) {
        return Ok(Contents::Tools(vec![whole]));
    }
    bail!("this is no definition, no list of them, no answer to tools/list and no client's configuration");
}

/// The command line of a declared server, or its address.
fn words(server: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let args = server.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(text);
    let first = server.get("command").or_else(|| server.get("url")).and_then(text);
    first.into_iter().chain(args).collect()
}

fn finding(detector: &Detector, tool: &RawValue) -> Finding {
    let [name] = members(tool.get(), ["name"]);
    Finding { name: string(name).into_owned(), detections: detector.tool(tool.get()).detections }
}

fn list(servers: &[(String, Vec<String>)], json: bool) {
    for (name, words) in servers {
        let id = server_id(words, None);
        if json {
            line(&json!({ "name": name, "command": words, "server_id": id }));
        } else {
            anstream::println!("{:<24} {:<32} {}", clean(name), clean(&id.0), clean(&words.join(" ")));
        }
    }
}

fn print_json(findings: &[Finding]) {
    for Finding { name, detections } in findings {
        let worst = detections.iter().map(|detection| detection.severity).max();
        line(&json!({ "tool_name": name, "max_severity": worst, "detections": detections }));
    }
}

fn line(value: &Value) {
    let mut line = Vec::new();
    write_json(value, &mut line);
    anstream::println!("{}", String::from_utf8_lossy(&line));
}

fn print_table(findings: &[Finding]) {
    let mut worst: Option<Severity> = None;
    for Finding { name, detections } in findings {
        for detection in detections {
            worst = worst.max(Some(detection.severity));
            let severity = json!(detection.severity);
            let first = detection.matches.first().map(|found| clean(&found.text)).unwrap_or_default();
            anstream::println!(
                "{:<9} {:<24} {:<28} {}  {first:?}",
                severity.as_str().unwrap_or_default(),
                clean(name),
                clean(&detection.pattern),
                clean(&detection.field),
            );
        }
    }
    let found = findings.iter().filter(|finding| !finding.detections.is_empty()).count();
    match worst {
        None => anstream::println!("{} tools, nothing found", findings.len()),
        Some(_) => anstream::println!("{} tools, something found in {found}", findings.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_what_they_have() {
        let tools = |text: &str| match contents(text) {
            Ok(Contents::Tools(tools)) => Ok(tools.len()),
            Ok(Contents::Servers(servers)) => Err(format!("{servers:?}")),
            Err(error) => Err(format!("{error:#}")),
        };
        let cases = [
            (r#"{"name":"a"}"#, 1),
            (r#"[{"name":"a"},{"name":"b"}]"#, 2),
            (r#"{"tools":[{"name":"a"}]}"#, 1),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, 0),
        ];
        for (text, expected) in cases {
            assert_eq!(tools(text), Ok(expected), "{text}");
        }
        let servers =
            tools(r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"]},"b":{"url":"https://y"}}}"#);
        assert_eq!(servers, Err(r#"[("a", ["npx", "-y", "x"]), ("b", ["https://y"])]"#.to_owned()));
        for (text, expected) in
            [("{", "no JSON"), ("{}", "no definition"), (r#"{"tools":5}"#, "no list"), ("5", "no definition")]
        {
            assert!(tools(text).unwrap_err().contains(expected), "{text}");
        }
    }
}
