//! How servers do, by what they did lately.
//!
//! Whether the agent can list a declared server is said once, when that changes, and holds until it changes again: of these
//! events the last one counts, however old it is. A server that is down would else be healthy, or unknown, once the hour
//! in which that was said is over.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use mcpwarden_policy::{Timestamp, event::CallStatus};
use mcpwarden_store::conditions::Conditions;
use rusqlite::Connection;
use serde::Serialize;

use super::count;

/// What is looked at: so long back from now.
pub const LATELY: Duration = Duration::from_secs(3_600);
/// Fewer answers than this tell nothing of how many fail.
pub const FEWEST_ANSWERS: u64 = 5;
/// Part of the answers that fail, from which on a server is degraded.
pub const DEGRADED_FAILING: f64 = 0.1;
/// Part of the answers that fail, from which on a server is unhealthy.
pub const UNHEALTHY_FAILING: f64 = 0.5;
/// Crashes from which on a server is unhealthy, though it was started again after each.
pub const UNHEALTHY_CRASHES: u64 = 3;
/// Signals by which clients end their servers: SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM (signal(7)).
const USUAL_ENDS: [i64; 5] = [1, 2, 9, 13, 15];
/// What shells and runtimes add to a signal's number for an exit code.
const BY_SIGNAL: i64 = 128;

/// How a server does. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers.
    Healthy,
    /// Some of it fails.
    Degraded,
    /// It is down, or much of it fails.
    Unhealthy,
}

/// What a server did lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lately {
    /// Anything at all.
    pub seen: bool,
    /// Answers to calls.
    pub answers: u64,
    /// Answers that say that they are errors.
    pub errors: u64,
    /// Requests unanswered for longer than the server may take (`timeout_ms`).
    pub timed_out: u64,
    /// Ends that no client brought about.
    pub crashes: u64,
    /// How it ended last, where it crashed and was not started since.
    pub down: Option<String>,
    /// Why it cannot be listed, where that is what was said last, and nothing came of it since.
    pub unreachable: Option<String>,
    /// When it was last gone, one way or the other, and the number of that event.
    gone: (i64, i64),
}

impl Lately {
    /// How a server does that did this, and why it is not healthy; `None` where nothing was seen of it.
    pub fn health(&self) -> (Option<Health>, Vec<String>) {
        if !self.seen {
            return (None, Vec::new());
        }
        let mut found: Vec<(Health, String)> = Vec::new();
        if let Some(how) = &self.down {
            found.push((Health::Unhealthy, format!("it ended with {how}, and was not started again")));
        }
        if let Some(why) = &self.unreachable {
            found.push((Health::Unhealthy, format!("it cannot be reached: {why}")));
        }
        if self.crashes >= UNHEALTHY_CRASHES {
            found.push((Health::Unhealthy, format!("it crashed {} times", self.crashes)));
        } else if self.crashes > 0 && self.down.is_none() {
            found.push((Health::Degraded, "it crashed, and was started again".to_owned()));
        }
        if self.timed_out > 0 {
            let text = format!("{} requests were not answered in time", self.timed_out);
            found.push((Health::Degraded, text));
        }
        let (failing, all) = (self.errors + self.timed_out, self.answers + self.timed_out);
        let part = failing as f64 / all.max(1) as f64;
        if all >= FEWEST_ANSWERS && part >= DEGRADED_FAILING {
            let health = if part >= UNHEALTHY_FAILING { Health::Unhealthy } else { Health::Degraded };
            found.push((health, format!("{failing} of {all} calls failed")));
        }
        let worst = found.iter().map(|(health, _)| *health).max().unwrap_or(Health::Healthy);
        (Some(worst), found.into_iter().map(|(_, why)| why).collect())
    }

    /// Takes an event, in order.
    fn take(&mut self, sight: Sight) {
        self.seen = true;
        match sight.kind.as_str() {
            // At an address it is also said of one that lets its first request wait.
            "mcp_server_started" => self.down = None,
            "mcp_server_initialized" | "mcp_tool_seen" | "mcp_server_reachable" => self.is_there(),
            "mcp_request_timed_out" => self.timed_out += 1,
            "mcp_server_unreachable" => {
                (self.unreachable, self.gone) = (Some(sight.reason.unwrap_or_default()), sight.at);
            }
            "mcp_tls_mismatch" => {
                let why = "its certificate is not the one of its tls_fingerprint";
                (self.unreachable, self.gone) = (Some(why.to_owned()), sight.at);
            }
            "mcp_server_exited" => {
                self.down = crash(sight.exit_code, sight.signal);
                // A client that is done with a server takes nothing back of what that answered.
                if self.down.is_some() {
                    (self.crashes, self.gone) = (self.crashes + 1, sight.at);
                }
            }
            _ => {}
        }
    }

    /// Takes an answer, in any order, after all else.
    fn answered(&mut self, status: CallStatus, at: (i64, i64)) {
        self.seen = true;
        self.answers += 1;
        self.errors += u64::from(status == CallStatus::Error);
        if at > self.gone {
            self.is_there();
        }
    }

    fn is_there(&mut self) {
        (self.down, self.unreachable) = (None, None);
    }
}

/// How a process ended that no client ended; `None` of one that did what it should.
fn crash(exit_code: Option<i64>, signal: Option<i64>) -> Option<String> {
    match (exit_code, signal) {
        (_, Some(signal)) if !USUAL_ENDS.contains(&signal) => Some(format!("signal {signal}")),
        (Some(code), None) if code != 0 && !USUAL_ENDS.contains(&(code - BY_SIGNAL)) => {
            Some(format!("exit code {code}"))
        }
        _ => None,
    }
}

/// An event of a server, but for answers.
struct Sight {
    kind: String,
    /// When, and in which place.
    at: (i64, i64),
    reason: Option<String>,
    exit_code: Option<i64>,
    signal: Option<i64>,
}

/// What each server did lately, by its id.
///
/// # Errors
/// It cannot be read.
pub fn lately(db: &Connection, now: Timestamp) -> Result<BTreeMap<String, Lately>> {
    const KINDS: [&str; 5] = [
        "mcp_server_started",
        "mcp_server_initialized",
        "mcp_tool_seen",
        "mcp_request_timed_out",
        "mcp_server_exited",
    ];
    // An agent that starts says anew of each server that it lists how that does. What one before it said of a server that is
    // declared no more would hold for ever.
    const LISTED: &str = "SELECT max(seq) FROM events
        WHERE type IN ('mcp_server_reachable', 'mcp_server_unreachable', 'mcp_tls_mismatch') AND server IS NOT NULL
            AND seq > (SELECT coalesce(max(seq), 0) FROM events WHERE type = 'agent_started')
        GROUP BY server";
    let conditions =
        Conditions::default().between("time_ns", Some(now.before(LATELY)), None).holds("server IS NOT NULL");
    let rare = conditions.clone().any("type", &KINDS);
    let mut find = db.prepare(&format!(
        "SELECT server, type, time_ns, seq, text ->> 'reason' AS reason, text ->> 'exit_code' AS exit_code,
            text ->> 'signal' AS signal
         FROM (SELECT *, CAST(body AS TEXT) AS text FROM events{}
            UNION ALL SELECT *, CAST(body AS TEXT) FROM events WHERE seq IN ({LISTED})) ORDER BY time_ns, seq",
        rare.sql()
    ))?;
    let mut rows = find.query(rare.values())?;
    let mut found: BTreeMap<String, Lately> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let sight = Sight {
            kind: row.get("type")?,
            at: (row.get("time_ns")?, row.get("seq")?),
            reason: row.get("reason")?,
            exit_code: row.get("exit_code")?,
            signal: row.get("signal")?,
        };
        found.entry(row.get("server")?).or_default().take(sight);
    }
    // Of these there may be millions, and they are counted as they lie.
    let answers = conditions.any("type", &["mcp_tool_result"]);
    let mut find = db.prepare(&format!("SELECT server, time_ns, seq, body FROM events{}", answers.sql()))?;
    let mut rows = find.query(answers.values())?;
    while let Some(row) = rows.next()? {
        let server = row.get_ref(0)?.as_str()?;
        if !found.contains_key(server) {
            found.insert(server.to_owned(), Lately::default());
        }
        if let Some(lately) = found.get_mut(server) {
            lately.answered(count::answer(row.get_ref(3)?.as_blob()?), (row.get(1)?, row.get(2)?));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server did, how it does, and why.
    #[test]
    fn health_follows_errors_and_exits() {
        use Health::{Degraded, Healthy, Unhealthy};
        let seen = Lately { seen: true, ..Lately::default() };
        for (lately, health, reasons) in [
            (Lately::default(), None, &[][..]),
            (seen.clone(), Some(Healthy), &[]),
            (Lately { answers: 100, errors: 9, ..seen.clone() }, Some(Healthy), &[]),
            (
                Lately { answers: 100, errors: 10, ..seen.clone() },
                Some(Degraded),
                &["10 of 100 calls failed"],
            ),
            (
                Lately { answers: 100, errors: 50, ..seen.clone() },
                Some(Unhealthy),
                &["50 of 100 calls failed"],
            ),
            (Lately { answers: 4, errors: 4, ..seen.clone() }, Some(Healthy), &[]),
            (
                Lately { answers: 4, timed_out: 1, ..seen.clone() },
                Some(Degraded),
                &["1 requests were not answered in time", "1 of 5 calls failed"],
            ),
            (Lately { crashes: 1, ..seen.clone() }, Some(Degraded), &["it crashed, and was started again"]),
            (Lately { crashes: 3, ..seen.clone() }, Some(Unhealthy), &["it crashed 3 times"]),
            (
                Lately { crashes: 1, down: Some("signal 11".into()), ..seen.clone() },
                Some(Unhealthy),
                &["it ended with signal 11, and was not started again"],
            ),
            (
                Lately { unreachable: Some("401".into()), ..seen.clone() },
                Some(Unhealthy),
                &["it cannot be reached: 401"],
            ),
        ] {
            assert_eq!(
                lately.health(),
                (health, reasons.iter().map(|why| (*why).to_owned()).collect()),
                "{lately:?}"
            );
        }
    }

    /// What a server did, in order, an answer of its by the place that it was given at, and whether it is there.
    #[test]
    fn later_answer_marks_a_server_as_present() {
        let sight = |kind: &str, place: i64| Sight {
            kind: kind.into(),
            at: (7, place),
            reason: Some("401".into()),
            exit_code: Some(1),
            signal: None,
        };
        let (exited, unreachable, started) =
            ("mcp_server_exited", "mcp_server_unreachable", "mcp_server_started");
        let (reachable, mismatch) = ("mcp_server_reachable", "mcp_tls_mismatch");
        for (kinds, answer, is_there) in [
            (&[][..], 1, true),
            (&[exited], 1, false),
            (&[exited], 3, true),
            (&[unreachable], 1, false),
            (&[unreachable], 3, true),
            (&[exited, started], 1, true),
            (&[unreachable, reachable], 1, true),
            (&[unreachable, started], 1, false),
            (&[reachable, unreachable], 1, false),
            (&[mismatch], 1, false),
            (&[mismatch], 3, true),
            (&[mismatch, reachable], 1, true),
        ] {
            let mut lately = Lately::default();
            (2..).zip(kinds).for_each(|(place, kind)| lately.take(sight(kind, place)));
            lately.answered(CallStatus::Ok, (7, answer));
            let found = lately.down.is_none() && lately.unreachable.is_none();
            assert_eq!(found, is_there, "{kinds:?} {answer}");
            assert_eq!((lately.answers, lately.seen), (1, true), "{kinds:?} {answer}");
        }
    }

    /// Exit code, signal, and what is said of such an end.
    #[test]
    fn crash_excludes_regular_exits() {
        for (code, signal, expected) in [
            (Some(0), None, None),
            (None, None, None),
            (Some(3), None, Some("exit code 3")),
            (Some(143), None, None),
            (Some(139), None, Some("exit code 139")),
            (None, Some(15), None),
            (None, Some(9), None),
            (None, Some(11), Some("signal 11")),
        ] {
            assert_eq!(crash(code, signal).as_deref(), expected, "{code:?} {signal:?}");
        }
    }
}
