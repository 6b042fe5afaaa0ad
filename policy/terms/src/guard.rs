//! Which guards there are, and when each is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a guard is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Any request, before the phase of its method.
    Request,
    /// Any response, after the phase of its method.
    Response,
    /// An answer to `tools/list`.
    ToolsList,
    /// `tools/call`.
    ToolInvoke,
    /// An answer to `tools/call`.
    ToolResult,
    /// `prompts/get`.
    PromptRequest,
    /// `resources/read`.
    ResourceRequest,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Request,
        Self::Response,
        Self::ToolsList,
        Self::ToolInvoke,
        Self::ToolResult,
        Self::PromptRequest,
        Self::ResourceRequest,
    ];

    /// As it is written in configuration and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::ToolsList => "tools_list",
            Self::ToolInvoke => "tool_invoke",
            Self::ToolResult => "tool_result",
            Self::PromptRequest => "prompt_request",
            Self::ResourceRequest => "resource_request",
        }
    }
}

/// Which guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardKind {
    /// A tool's name was taken over from another server's.
    ToolShadowing,
    /// What several servers of a session do together.
    CrossServer,
    /// Which servers may be used.
    #[serde(alias = "server_whitelist")]
    ServerAccess,
    /// Which tools may be called.
    ToolAccess,
    /// A definition changed since it was pinned.
    RugPull,
    /// How often may be called.
    RateLimit,
    /// A definition is written to misuse the model.
    ToolPoisoning,
    /// A result is.
    ResultInjection,
    /// A server asks the client's model, or its user, for something.
    Sampling,
    /// A tool is switched off.
    DisabledTool,
    /// No side effects while planning.
    Mode,
    /// No risks without a frozen specification.
    SpecFrozen,
    /// No risks without a project.
    ProjectBinding,
    /// Side effects that are forbidden.
    SideEffects,
    /// Tools that need an administrator's token.
    AdminToken,
    /// A WebAssembly component that somebody else wrote.
    Wasm,
    /// A service of somebody else's, over HTTP.
    Http,
}

impl GuardKind {
    /// All of them, in the order in which they are asked by default.
    pub const ALL: [Self; 17] = [
        Self::ToolShadowing,
        Self::CrossServer,
        Self::ServerAccess,
        Self::ToolAccess,
        Self::RugPull,
        Self::RateLimit,
        Self::ToolPoisoning,
        Self::ResultInjection,
        Self::Sampling,
        Self::DisabledTool,
        Self::Mode,
        Self::SpecFrozen,
        Self::ProjectBinding,
        Self::SideEffects,
        Self::AdminToken,
        Self::Wasm,
        Self::Http,
    ];

    /// Those that go by what a client may do, whatever the tool; off by default.
    pub const GATES: [Self; 6] = [
        Self::DisabledTool,
        Self::Mode,
        Self::SpecFrozen,
        Self::ProjectBinding,
        Self::SideEffects,
        Self::AdminToken,
    ];

    /// The phases that it has something to say in; of `server_access`, where it is asked by default, see [`Self::judges`].
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Self::ToolShadowing | Self::RugPull | Self::ToolPoisoning => {
                &[Phase::ToolsList, Phase::ToolInvoke]
            }
            Self::ServerAccess | Self::Sampling => &[Phase::Request],
            Self::ResultInjection => &[Phase::ToolResult, Phase::Response],
            Self::CrossServer => &[
                Phase::Request,
                Phase::ToolInvoke,
                Phase::PromptRequest,
                Phase::ResourceRequest,
                Phase::Response,
            ],
            Self::ToolAccess
            | Self::RateLimit
            | Self::DisabledTool
            | Self::Mode
            | Self::SpecFrozen
            | Self::ProjectBinding
            | Self::SideEffects
            | Self::AdminToken => &[Phase::ToolInvoke],
            Self::Wasm | Self::Http => &[
                Phase::ToolsList,
                Phase::ToolInvoke,
                Phase::ToolResult,
                Phase::PromptRequest,
                Phase::ResourceRequest,
            ],
        }
    }

    /// Whether it is outside of the policy core, and answers later: [`crate::contract`].
    pub fn is_external(self) -> bool {
        matches!(self, Self::Wasm | Self::Http)
    }

    /// Whether it judges several servers together. It is asked before all others, so that no rule on one server hides what it
    /// finds.
    pub fn is_across_servers(self) -> bool {
        matches!(self, Self::ToolShadowing | Self::CrossServer)
    }

    /// Whether it has something to say in a phase, asked there by default or not. A server that may not be used may not
    /// be used for anything, whatever the operation.
    pub fn judges(self, phase: Phase) -> bool {
        self == Self::ServerAccess || self.phases().contains(&phase)
    }

    /// As it is written in configuration and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToolShadowing => "tool_shadowing",
            Self::CrossServer => "cross_server",
            Self::ServerAccess => "server_access",
            Self::ToolAccess => "tool_access",
            Self::RugPull => "rug_pull",
            Self::RateLimit => "rate_limit",
            Self::ToolPoisoning => "tool_poisoning",
            Self::ResultInjection => "result_injection",
            Self::Sampling => "sampling",
            Self::DisabledTool => "disabled_tool",
            Self::Mode => "mode",
            Self::SpecFrozen => "spec_frozen",
            Self::ProjectBinding => "project_binding",
            Self::SideEffects => "side_effects",
            Self::AdminToken => "admin_token",
            Self::Wasm => "wasm",
            Self::Http => "http",
        }
    }
}
