//! `mcpwarden sessions set`: what a session's calls are judged by, said by an operator.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use mcpwarden_policy::EventBody;
use mcpwarden_policy::config::Mode;
use mcpwarden_policy::guards::{ProfileKey, Setting};

use crate::{
    cli::SessionSetOptions,
    control::{NewSetting, SESSIONS, SetSession, client::query_agent},
    output::{escaped, print_error, print_json_line, print_line},
};

/// What stands for no project, no frozen specification, no forbidden side effects.
const NONE: &str = "none";

/// Has it set, and says what counts for the session now.
///
/// # Errors
/// The value is none of that key, no agent answers, or it refuses.
pub fn set(options: SessionSetOptions) -> Result<()> {
    let SessionSetOptions { session, key, value, reset: _, by, json, agent } = options;
    let (set, reset) = match value {
        Some(value) => (Some(setting(key, &value)?), None),
        None => (None, Some(key)),
    };
    let new = NewSetting { session, set, reset, by };
    let SetSession { event, idle } = query_agent(&agent.socket, Method::POST, SESSIONS, &new)?;
    if json {
        print_json_line(&event);
    } else {
        print_line(sentence(&new.session, key, &event.body));
    }
    if let Some(idle) = idle {
        print_error(format!("mcpwarden: warning: {}", escaped(&idle)));
    }
    Ok(())
}

/// What is said of a key, in words.
fn setting(key: ProfileKey, value: &str) -> Result<Setting> {
    let given = Some(value).filter(|value| *value != NONE);
    Ok(match key {
        ProfileKey::Mode => Setting::Mode(match value {
            "planning" => Mode::Planning,
            "execution" => Mode::Execution,
            _ => bail!("invalid mode `{}`; expected planning or execution", escaped(value)),
        }),
        ProfileKey::Project => Setting::Project(given.map(str::to_owned)),
        ProfileKey::Spec => {
            let hash = given.map(|hash| hash.parse().map_err(anyhow::Error::msg)).transpose();
            Setting::Spec(hash.with_context(|| {
                let value = escaped(value);
                format!("`{value}` is no hash of a specification; expected 64 hexadecimal digits, with `sha256:` before them or without, or none")
            })?)
        }
        ProfileKey::Blacklist => {
            let tags: BTreeSet<String> =
                given.into_iter().flat_map(|tags| tags.split(',')).map(|tag| tag.trim().to_owned()).collect();
            Setting::Blacklist(tags)
        }
        ProfileKey::AdminToken => Setting::AdminToken(match value {
            "true" => true,
            "false" => false,
            _ => bail!("`{}` is neither true nor false", escaped(value)),
        }),
    })
}

/// What counts now.
fn sentence(session: &str, key: ProfileKey, body: &EventBody) -> String {
    let EventBody::SessionSet(set) = body else { return body.kind().to_owned() };
    let value = set.profile.word(key);
    let why = if set.configured { ", as configured" } else { "" };
    format!("{} of {} is {}{why}", key.name().replace('_', "-"), escaped(session), escaped(&value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Key, value, what is asked for; or a part of what is wrong.
    #[test]
    fn session_values_are_parsed_by_key() {
        use ProfileKey::{AdminToken, Blacklist, Mode, Project, Spec};
        let hash = "a".repeat(64);
        for (key, value, expected) in [
            (Mode, "planning", Ok(json!("planning"))),
            (Mode, "execution", Ok(json!("execution"))),
            (Mode, "plan", Err("expected planning or execution")),
            (Project, "billing", Ok(json!("billing"))),
            (Project, "none", Ok(json!(null))),
            (Spec, &hash, Ok(json!(hash))),
            (Spec, "none", Ok(json!(null))),
            (Spec, "abc", Err("expected 64 hexadecimal digits")),
            (Blacklist, "payments, fs.write", Ok(json!(["fs.write", "payments"]))),
            (Blacklist, "none", Ok(json!([]))),
            (AdminToken, "true", Ok(json!(true))),
            (AdminToken, "false", Ok(json!(false))),
            (AdminToken, "yes", Err("neither true nor false")),
        ] {
            match (setting(key, value), expected) {
                (Ok(setting), Ok(expected)) => {
                    assert_eq!(json!(setting), json!({ "key": key, "value": expected }), "{key} {value}");
                }
                (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{value}: {error:#}"),
                (reported, _) => panic!("{key} {value}: {reported:?}"),
            }
        }
    }
}
