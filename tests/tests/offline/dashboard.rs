//! The dashboard is one that Grafana knows, and asks Prometheus what can be asked.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::places;
use mcpwarden_tests::scrape::promtool;
use serde_json::{Value, json};

fn dashboard() -> Result<Value> {
    let path = places::sources().join("../deploy/grafana/mcpwarden.json");
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

/// The places of what Grafana's own types do not know.
fn unknown(dashboard: &Value) -> Result<Vec<String>> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), dashboard.to_string())?;
    let said = Command::new(places::real_servers().join("venv/bin/python"))
        .arg(places::sources().join("grafana/dashboard.py"))
        .arg(file.path())
        .output()
        .context("cannot run Python (`cargo xtask setup --tests` installs what it takes)")?;
    let error = String::from_utf8_lossy(&said.stderr);
    ensure!(matches!(said.status.code(), Some(0 | 1)) && error.is_empty(), "{error}");
    Ok(String::from_utf8_lossy(&said.stdout)
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect())
}

#[test]
fn dashboard_uses_only_known_grafana_fields() -> Result<()> {
    let found = unknown(&dashboard()?)?;
    ensure!(found.is_empty(), "{found:?}");
    let mut misspelt = dashboard()?;
    misspelt["panels"][1]["gridpos"] = json!({});
    misspelt["panels"][1]["fieldConfig"]["defaults"]["units"] = json!("s");
    let found = unknown(&misspelt)?;
    ensure!(found.len() == 2, "{found:?}");
    Ok(())
}

#[test]
fn prometheus_accepts_every_dashboard_query() -> Result<()> {
    let Some(promtool) = promtool("prometheus_accepts_every_dashboard_query") else { return Ok(()) };
    let dashboard = dashboard()?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let asked = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let rules: Vec<Value> = asked
        .filter_map(|target| target["expr"].as_str())
        .map(|expr| expr.replace("$__rate_interval", "5m").replace("$instance", ".*"))
        .enumerate()
        .map(|(number, expr)| json!({ "record": format!("asked:{number}"), "expr": expr }))
        .collect();
    ensure!(rules.len() > 30, "{} are asked", rules.len());
    let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    fs::write(file.path(), json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())?;
    let said = Command::new(promtool).args(["check", "rules"]).arg(file.path()).output()?;
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{text}");
    Ok(())
}
