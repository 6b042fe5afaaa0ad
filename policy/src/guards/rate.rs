//! How often may be called: a token bucket for every server, and one for every tool that has a limit of its own.
//! (Requirements: docs/requirements.md, "policy".)

use std::any::Any;
use std::collections::BTreeMap;

use super::{allow, deny, short};
use crate::config::{Rate, RateLimits};
use crate::glob::{GlobError, NameGlob};
use crate::guard::{Answer, Facts, Guard, GuardError, GuardKind, Operation};
use crate::ids::Timestamp;

/// Most buckets that are not full at once.
const MAX_BUCKETS: usize = 10_000;
const NANOS_PER_MINUTE: u64 = 60_000_000_000;

/// The key of a bucket: its user, its server and, of a tool's own, the tool, as bytes, so that a look-up allocates
/// nothing. Users have buckets of their own, so that nobody empties another's with a server of the same name.
fn write_key(key: &mut Vec<u8>, user: Option<u32>, server: &str, tool: Option<&str>) {
    key.clear();
    key.push(u8::from(user.is_some()) | u8::from(tool.is_some()) << 1);
    key.extend(user.unwrap_or_default().to_le_bytes());
    key.extend(server.len().to_le_bytes());
    key.extend(server.bytes().chain(tool.unwrap_or_default().bytes()));
}

/// `rate_limit`. A call that another guard denies takes its token nonetheless: it was asked for.
#[derive(Debug)]
pub(super) struct Limiter {
    default: Rate,
    per_server: Vec<(NameGlob, Rate)>,
    per_tool: Vec<(NameGlob, Rate)>,
    /// Of every bucket that is not full, when it will be (the "theoretical arrival time" of the generic cell rate
    /// algorithm, which is a token bucket in one number).
    full_at: BTreeMap<Box<[u8]>, u64>,
    /// Room for the two keys of a call, and for the id of a tool.
    keys: [Vec<u8>; 2],
    id: String,
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
            keys: Default::default(),
            id: String::new(),
            evicted: 0,
        })
    }

    /// When the bucket will be full with one token less; `Err` where it has none.
    fn take(&self, key: &[u8], limit: Rate, now: Timestamp) -> Result<u64, ()> {
        let interval = NANOS_PER_MINUTE.checked_div(u64::from(limit.calls_per_minute)).ok_or(())?;
        let burst = u64::from(limit.burst.unwrap_or(limit.calls_per_minute).max(1));
        let full_at = self.full_at.get(key).copied().unwrap_or(0).max(now.0);
        if full_at - now.0 > interval.saturating_mul(burst - 1) {
            return Err(());
        }
        Ok(full_at.saturating_add(interval))
    }

    /// The limit of a tool's own.
    fn tool_limit(&mut self, server: &str, tool: &str) -> Option<Rate> {
        if self.per_tool.is_empty() {
            return None;
        }
        self.id.clear();
        self.id.extend(["mcp:", server, ":", tool]);
        limit_for(&self.per_tool, &[tool, &self.id])
    }

    fn put(&mut self, key: &[u8], full_at: u64, now: Timestamp) {
        if let Some(known) = self.full_at.get_mut(key) {
            *known = full_at;
            return;
        }
        if self.full_at.len() >= MAX_BUCKETS {
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
        self.full_at.insert(key.into(), full_at);
    }
}

/// The strictest limit that is written for one of these names itself, or else whose glob stands for one.
fn limit_for(limits: &[(NameGlob, Rate)], names: &[&str]) -> Option<Rate> {
    let exact = limits.iter().filter(|(glob, _)| names.contains(&glob.as_str()));
    let matching = limits.iter().filter(|(glob, _)| names.iter().any(|name| glob.matches(name)));
    let strictness = |(_, limit): &&(NameGlob, Rate)| limit.calls_per_minute;
    exact.min_by_key(strictness).or_else(|| matching.min_by_key(strictness)).map(|(_, limit)| *limit)
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

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Answer, GuardError> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return allow() };
        let server = &*facts.server.0;
        let server_limit = limit_for(&self.per_server, &[server]).unwrap_or(self.default);
        let [mut server_key, mut tool_key] = std::mem::take(&mut self.keys);
        write_key(&mut server_key, facts.uid, server, None);
        write_key(&mut tool_key, facts.uid, server, Some(tool));
        let tool_limit = self.tool_limit(server, tool);
        let server_full_at = self.take(&server_key, server_limit, now);
        let tool_full_at = tool_limit.map(|limit| self.take(&tool_key, limit, now).map_err(|()| limit));
        let answer = match (server_full_at, tool_full_at.transpose()) {
            (Err(()), _) => exceeded(&format!("server '{}'", short(server)), server_limit),
            (_, Err(limit)) => {
                exceeded(&format!("tool '{}' of server '{}'", short(tool), short(server)), limit)
            }
            (Ok(server_full_at), Ok(tool_full_at)) => {
                if let Some(full_at) = tool_full_at {
                    self.put(&tool_key, full_at, now);
                }
                self.put(&server_key, server_full_at, now);
                allow()
            }
        };
        self.keys = [server_key, tool_key];
        answer
    }

    fn succeed(&mut self, before: &mut dyn Any) {
        if let Some(before) = before.downcast_mut::<Self>() {
            self.full_at = std::mem::take(&mut before.full_at);
            self.evicted = before.evicted;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("rate_buckets_evicted", self.evicted)]
    }

    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>) -> Option<String> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return None };
        let server = &*facts.server.0;
        let limit = limit_for(&self.per_server, &[server]).unwrap_or(self.default);
        let mut why = format!("its server may be called {} times a minute", limit.calls_per_minute);
        if let Some(limit) = limit_for(&self.per_tool, &[tool, &format!("mcp:{server}:{tool}")]) {
            why.push_str(&format!(", it {} times", limit.calls_per_minute));
        }
        Some(why + ", and was not called so often")
    }
}

#[cfg(test)]
mod tests;
