//! How often may be called: a token bucket for every server, and one for every tool that has a limit of its own.
//! (Requirements: docs/internals/requirements.md, "policy".)

use std::any::Any;
use std::collections::BTreeMap;

use super::{allow, deny, short};
use crate::config::{Glob, Rate, RateLimits};
use crate::glob::{GlobError, NameGlob};
use crate::guard::{Decision, DenialCode, Facts, Guard, GuardError, Operation};
use crate::terms::{GuardKind, Timestamp};

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
pub(crate) struct Limiter {
    default: Rate,
    per_server: Vec<(NameGlob, Rate)>,
    per_tool: Vec<([NameGlob; 2], Rate)>,
    /// Of every bucket that is not full, when it will be (the "theoretical arrival time" of the generic cell rate
    /// algorithm, which is a token bucket in one number).
    full_at: BTreeMap<Box<[u8]>, u64>,
    /// Room for the two keys of a call.
    keys: [Vec<u8>; 2],
    evicted: u64,
}

impl Limiter {
    pub(crate) fn new(limits: &RateLimits, case_sensitive: bool) -> Result<Self, GlobError> {
        let of_server = |(server, limit): (&Glob, &Rate)| Ok((server.compile(case_sensitive)?, *limit));
        let of_tool = |(text, limit): (&Glob, &Rate)| {
            let (server, tool) = text.server_and_tool();
            Ok(([server.compile(case_sensitive)?, tool.compile(case_sensitive)?], *limit))
        };
        Ok(Self {
            default: Rate { calls_per_minute: limits.default_rpm, burst: limits.default_burst },
            per_server: limits.per_server.iter().map(of_server).collect::<Result<_, GlobError>>()?,
            per_tool: limits.per_tool.iter().map(of_tool).collect::<Result<_, GlobError>>()?,
            full_at: BTreeMap::new(),
            keys: Default::default(),
            evicted: 0,
        })
    }

    /// When the bucket will be full with one token less; `Err` where it has none.
    fn take(&self, key: &[u8], limit: Rate, now: Timestamp) -> Result<u64, ()> {
        let (interval, slack) = interval_and_slack(limit).ok_or(())?;
        let full_at = self.full_at.get(key).copied().unwrap_or(0).max(now.0);
        if full_at - now.0 > slack {
            return Err(());
        }
        Ok(full_at.saturating_add(interval))
    }

    /// The limit of a server.
    pub(crate) fn server_limit(&self, server: &str) -> Rate {
        let is_plain = |glob: &NameGlob| glob.is_plain() && glob.matches(server);
        limit_for(&self.per_server, is_plain, |glob| glob.matches(server)).unwrap_or(self.default)
    }

    /// The limit of a tool's own.
    pub(crate) fn tool_limit(&self, server: &str, tool: &str) -> Option<Rate> {
        let is_plain = |[of_server, of_tool]: &[NameGlob; 2]| {
            let server_too = of_server.is_any() || (of_server.is_plain() && of_server.matches(server));
            of_tool.is_plain() && of_tool.matches(tool) && server_too
        };
        limit_for(&self.per_tool, is_plain, |[of_server, of_tool]| {
            of_tool.matches(tool) && of_server.matches(server)
        })
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

/// How long a token takes to come, and how far the bucket may be from full when one is taken. Nanoseconds; `None`: there are
/// no tokens.
pub(crate) fn interval_and_slack(limit: Rate) -> Option<(u64, u64)> {
    let interval = NANOS_PER_MINUTE.checked_div(u64::from(limit.calls_per_minute))?;
    let burst = u64::from(limit.burst.unwrap_or(limit.calls_per_minute).max(1));
    Some((interval, interval.saturating_mul(burst - 1)))
}

/// The strictest limit that is written plainly for a name, or else whose glob stands for it.
fn limit_for<T>(
    limits: &[(T, Rate)],
    is_plain: impl Fn(&T) -> bool,
    matches: impl Fn(&T) -> bool,
) -> Option<Rate> {
    let strictest = |counts: &dyn Fn(&T) -> bool| {
        let limits = limits.iter().filter(|(name, _)| counts(name)).map(|(_, limit)| *limit);
        limits.min_by_key(|limit| limit.calls_per_minute)
    };
    strictest(&is_plain).or_else(|| strictest(&matches))
}

fn exceeded(what: &str, limit: Rate) -> Result<Decision, GuardError> {
    if limit.calls_per_minute == 0 {
        return deny(
            DenialCode::RateLimited,
            format!("{what} is blocked: its rate limit is 0 calls a minute"),
        );
    }
    let burst = limit.burst.unwrap_or(limit.calls_per_minute);
    let message = format!("{what} exceeded {} calls a minute (burst {burst})", limit.calls_per_minute);
    deny(DenialCode::RateLimited, message)
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
    ) -> Result<Decision, GuardError> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return allow() };
        // Its first try took the token.
        if facts.is_retry {
            return allow();
        }
        let server = &*facts.server.0;
        let server_limit = self.server_limit(server);
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

    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return None };
        let server = &*facts.server.0;
        let limit = self.server_limit(server);
        let mut why = format!("its server may be called {} times a minute", limit.calls_per_minute);
        if let Some(limit) = self.tool_limit(server, tool) {
            why.push_str(&format!(", it {} times", limit.calls_per_minute));
        }
        Some(why + ", and was not called so often")
    }
}

#[cfg(test)]
mod tests;
