//! How often may be called: a token bucket for every server, and one for every tool that has a limit of its own.
//! (Requirements: docs/requirements.md, "policy".)

use std::collections::BTreeMap;

use super::{allow, deny, short};
use crate::config::{Rate, RateLimits};
use crate::glob::{GlobError, NameGlob};
use crate::guard::{Answer, Facts, Guard, GuardError, GuardKind, Operation, Phase};
use crate::ids::Timestamp;

/// Most buckets that are not full at once.
const MAX_BUCKETS: usize = 10_000;
const NANOS_PER_MINUTE: u64 = 60_000_000_000;

/// A bucket's user, server and, of a tool's own, tool. Users have buckets of their own, so that nobody empties
/// another's with a server of the same name.
type Key = (Option<u32>, String, Option<String>);

/// `rate_limit`. A call that another guard denies takes its token nonetheless: it was asked for.
#[derive(Debug)]
pub(super) struct Limiter {
    default: Rate,
    per_server: Vec<(NameGlob, Rate)>,
    per_tool: Vec<(NameGlob, Rate)>,
    /// Of every bucket that is not full, when it will be (the "theoretical arrival time" of the generic cell rate
    /// algorithm, which is a token bucket in one number).
    full_at: BTreeMap<Key, u64>,
    evicted: u64,
}

impl Limiter {
    pub(super) fn new(limits: &RateLimits, case_sensitive: bool) -> Result<Self, GlobError> {
        let compile = |limits: &BTreeMap<String, Rate>| {
            let compile =
                |(glob, limit): (&String, &Rate)| Ok((NameGlob::new(glob, case_sensitive)?, *limit));
            limits.iter().map(compile).collect::<Result<Vec<_>, GlobError>>()
        };
        Ok(Self {
            default: Rate { calls_per_minute: limits.default_rpm, burst: limits.default_burst },
            per_server: compile(&limits.per_server)?,
            per_tool: compile(&limits.per_tool)?,
            full_at: BTreeMap::new(),
            evicted: 0,
        })
    }

    /// When the bucket will be full with one token less; `Err` where it has none.
    fn take(&self, key: &Key, limit: Rate, now: Timestamp) -> Result<u64, ()> {
        let interval = NANOS_PER_MINUTE.checked_div(u64::from(limit.calls_per_minute)).ok_or(())?;
        let burst = u64::from(limit.burst.unwrap_or(limit.calls_per_minute).max(1));
        let full_at = self.full_at.get(key).copied().unwrap_or(0).max(now.0);
        if full_at - now.0 > interval.saturating_mul(burst - 1) {
            return Err(());
        }
        Ok(full_at.saturating_add(interval))
    }

    fn put(&mut self, key: Key, full_at: u64, now: Timestamp) {
        if self.full_at.len() >= MAX_BUCKETS && !self.full_at.contains_key(&key) {
            // A full bucket is as good as none.
            self.full_at.retain(|_, full_at| *full_at > now.0);
            if self.full_at.len() >= MAX_BUCKETS {
                let fullest = self.full_at.iter().min_by_key(|(_, full_at)| **full_at);
                if let Some(key) = fullest.map(|(key, _)| key.clone()) {
                    self.full_at.remove(&key);
                    self.evicted += 1;
                }
            }
        }
        self.full_at.insert(key, full_at);
    }
}

/// The limit that is written for one of these names itself, or else the strictest whose glob stands for one.
fn limit_for(limits: &[(NameGlob, Rate)], names: &[&str]) -> Option<Rate> {
    let exact = limits.iter().find(|(glob, _)| names.contains(&glob.as_str()));
    let matching = || limits.iter().filter(|(glob, _)| names.iter().any(|name| glob.matches(name)));
    exact.or_else(|| matching().min_by_key(|(_, limit)| limit.calls_per_minute)).map(|(_, limit)| *limit)
}

fn exceeded(what: &str, limit: Rate) -> Result<Answer, GuardError> {
    if limit.calls_per_minute == 0 {
        return deny("rate_limited", format!("{what} is blocked: its rate limit is 0 calls a minute"));
    }
    let burst = limit.burst.unwrap_or(limit.calls_per_minute);
    let message = format!("{what} exceeded {} calls a minute (burst {burst})", limit.calls_per_minute);
    deny("rate_limited", message)
}

impl Guard for Limiter {
    fn kind(&self) -> GuardKind {
        GuardKind::RateLimit
    }

    fn phases(&self) -> &'static [Phase] {
        &[Phase::ToolInvoke]
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Answer, GuardError> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return allow() };
        let server = facts.server.0.as_str();
        let server_limit = limit_for(&self.per_server, &[server]).unwrap_or(self.default);
        let server_key: Key = (facts.uid, server.to_owned(), None);
        let Ok(server_full_at) = self.take(&server_key, server_limit, now) else {
            return exceeded(&format!("server '{}'", short(server)), server_limit);
        };
        if !self.per_tool.is_empty()
            && let Some(limit) = limit_for(&self.per_tool, &[tool, &format!("mcp:{server}:{tool}")])
        {
            let key: Key = (facts.uid, server.to_owned(), Some(tool.to_owned()));
            let Ok(full_at) = self.take(&key, limit, now) else {
                return exceeded(&format!("tool '{}' of server '{}'", short(tool), short(server)), limit);
            };
            self.put(key, full_at, now);
        }
        self.put(server_key, server_full_at, now);
        allow()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("rate_buckets_evicted", self.evicted)]
    }
}

#[cfg(test)]
mod tests;
