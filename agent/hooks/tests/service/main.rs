//! Requests to services that are made here: good ones, failing ones, and hostile ones, all on loopback.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

mod authentication;
mod contract;
mod hostile;
mod limits;
mod server;
mod tls;

use std::time::Duration;

use mcpwarden_hooks::{Hook, HookConfig};
use mcpwarden_terms::contract::{GuardContext, GuardOperation, GuardRequest};

/// Of services that answer: far more than they need.
const LONG: Duration = Duration::from_secs(20);
/// Of services that do not.
const SHORT: Duration = Duration::from_millis(200);
/// Within this a request with the short timeout has ended.
const SOON: Duration = Duration::from_secs(5);

fn config(url: &str) -> HookConfig {
    HookConfig::new("test", url, LONG)
}

fn hook(url: &str) -> Hook {
    Hook::new(config(url)).unwrap()
}

fn request() -> GuardRequest {
    GuardRequest {
        operation: GuardOperation::ReadResource { uri: "file:///etc/hosts".to_owned() },
        context: GuardContext { server_name: "files".to_owned(), ..GuardContext::default() },
    }
}
