use serde_json::json;

use super::super::tests::{World, at, call};
use super::*;

fn limiter(limits: serde_json::Value) -> Limiter {
    let limits: RateLimits = serde_json::from_value(limits).unwrap();
    Limiter::new(&limits, true).unwrap()
}

/// How many of so many calls at these seconds pass.
fn passed(limiter: &mut Limiter, server: &str, tool: &str, seconds: impl Iterator<Item = f64>) -> usize {
    let world = World::server(server);
    seconds.filter(|second| call(limiter, &world, tool, at(*second)) == "allow").count()
}

#[test]
fn bucket_starts_at_burst_and_refills_per_minute() {
    let all = |count: u32| (0..count).map(|_| 0.0);
    for (limits, expected) in [
        (json!({}), 60),
        (json!({"default_rpm": 10}), 10),
        (json!({"default_rpm": 10, "default_burst": 3}), 3),
        (json!({"default_rpm": 1, "default_burst": 5}), 5),
        (json!({"default_rpm": 0}), 0),
        (json!({"default_rpm": 0, "per_server": {"files": {"calls_per_minute": 7}}}), 7),
        (json!({"per_server": {"fi*": {"calls_per_minute": 7, "burst": 2}}}), 2),
        (json!({"per_server": {"files": {"calls_per_minute": 0}}}), 0),
        // The plain name counts before globs, and of several globs the strictest.
        (json!({"per_server": {"*": {"calls_per_minute": 1}, "files": {"calls_per_minute": 9}}}), 9),
        (json!({"per_server": {"*": {"calls_per_minute": 9}, "f*": {"calls_per_minute": 4}}}), 4),
        (json!({"per_tool": {"read": {"calls_per_minute": 5}}}), 5),
        (json!({"per_tool": {"mcp:files:re*": {"calls_per_minute": 5}}}), 5),
        (json!({"per_tool": {"mcp:mail:read": {"calls_per_minute": 5}}}), 60),
        // As rules on tools are written.
        (json!({"per_tool": {"files:read": {"calls_per_minute": 5}}}), 5),
        (json!({"per_tool": {"f*:re*": {"calls_per_minute": 5}}}), 5),
        (json!({"per_tool": {"mail:read": {"calls_per_minute": 5}}}), 60),
        (json!({"per_tool": {"*": {"calls_per_minute": 1}, "files:read": {"calls_per_minute": 9}}}), 9),
        (json!({"per_tool": {"files:*": {"calls_per_minute": 1}, "read": {"calls_per_minute": 9}}}), 9),
        (json!({"per_tool": {"f*:read": {"calls_per_minute": 1}, "re*": {"calls_per_minute": 9}}}), 1),
        (json!({"per_tool": {"read": {"calls_per_minute": 0}}}), 0),
        (json!({"default_rpm": 4, "per_tool": {"read": {"calls_per_minute": 5}}}), 4),
    ] {
        assert_eq!(passed(&mut limiter(limits.clone()), "files", "read", all(100)), expected, "{limits}");
    }
    let mut limiter = limiter(json!({"default_rpm": 6, "default_burst": 2}));
    let seconds = [0.0, 0.0, 0.0, 9.999, 10.0, 10.1, 19.9, 20.0, 600.0, 600.0, 600.0];
    let passes: Vec<usize> =
        seconds.iter().map(|second| passed(&mut limiter, "files", "read", [*second].into_iter())).collect();
    assert_eq!(passes, [1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 0]);
}

#[test]
fn buckets_are_separate_per_server_tool_and_user() {
    let mut limiter = limiter(json!({"default_rpm": 2, "per_tool": {"*": {"calls_per_minute": 1}}}));
    let mut said = Vec::new();
    for (server, uid, tool) in
        [("a", 1, "x"), ("a", 1, "x"), ("a", 1, "y"), ("a", 1, "z"), ("b", 1, "x"), ("a", 2, "x")]
    {
        let world = World { uid: Some(uid), ..World::server(server) };
        said.push(call(&mut limiter, &world, tool, at(0.0)));
    }
    assert_eq!(said, ["allow", "rate_limited", "allow", "rate_limited", "allow", "allow"]);
}

#[test]
fn zero_rate_limit_blocks_with_reason() {
    let world = World::default();
    let operation = Operation::ToolInvoke { tool_name: "read", arguments: None };
    for (limits, expected) in [
        (json!({"default_rpm": 0}), "server 'files' is blocked: its rate limit is 0 calls a minute"),
        (
            json!({"default_rpm": 1, "per_tool": {"read": {"calls_per_minute": 0}}}),
            "tool 'read' of server 'files' is blocked: its rate limit is 0 calls a minute",
        ),
    ] {
        let Ok(crate::guard::Decision::Deny(denial)) =
            limiter(limits).check(&operation, &world.facts(), at(0.0))
        else {
            panic!("is let through")
        };
        assert_eq!(denial.message, expected);
    }
}

#[test]
fn backward_clock_grants_no_tokens() {
    let mut limiter = limiter(json!({"default_rpm": 1}));
    assert_eq!(passed(&mut limiter, "files", "read", [100.0, 40.0, 0.0].into_iter()), 1);
}

#[test]
fn bucket_count_is_bounded_by_dropping_full_ones() {
    let mut limiter = limiter(json!({"default_rpm": 60}));
    for server in 0..MAX_BUCKETS {
        passed(&mut limiter, &format!("s{server}"), "x", [0.0].into_iter());
    }
    passed(&mut limiter, "new", "x", [10.0].into_iter());
    assert_eq!((limiter.full_at.len(), limiter.evicted), (1, 0));
    for server in 0..=MAX_BUCKETS {
        passed(&mut limiter, &format!("s{server}"), "x", [10.0].into_iter());
    }
    assert_eq!((limiter.full_at.len(), limiter.counters()), (MAX_BUCKETS, vec![("rate_buckets_evicted", 2)]));
}

/// A name is plain in whichever case, where case does not count.
#[test]
fn plain_tool_limit_precedes_globs_in_any_case() {
    let limits = json!({
        "per_server": {"*": {"calls_per_minute": 1}, "Files": {"calls_per_minute": 9}},
        "per_tool": {"f*:*": {"calls_per_minute": 1}, "FILES:Read": {"calls_per_minute": 8}},
    });
    let limits: RateLimits = serde_json::from_value(limits).unwrap();
    let mut limiter = Limiter::new(&limits, false).unwrap();
    assert_eq!(passed(&mut limiter, "files", "read", (0..100).map(|_| 0.0)), 8);
}
