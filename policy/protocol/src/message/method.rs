//! The methods of MCP.

use std::borrow::Cow;

use mcpwarden_terms::{Direction, Era};

/// Defines the methods once: the variants and their spelling.
macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A method of the MCP specification 2026-07-28, of its extension for tasks, or of an older one; any other passes through by name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $($(#[$doc])* $variant,)*
            /// A method that is not MCP's.
            Other(Cow<'a, str>),
        }

        impl<'a> From<Cow<'a, str>> for Method<'a> {
            fn from(name: Cow<'a, str>) -> Self {
                match &*name {
                    $($name => Self::$variant,)*
                    _ => Self::Other(name),
                }
            }
        }

        impl Method<'_> {
            /// Every method of MCP.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// As it is spelled.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }
        }
    };
}

methods! {
    /// The client opens the session.
    Initialize = "initialize",
    /// The client asks which revisions and capabilities the server has.
    ServerDiscover = "server/discover",
    /// Either side asks whether the other is there.
    Ping = "ping",
    /// The client asks for the tools, page by page.
    ToolsList = "tools/list",
    /// The client calls a tool.
    ToolsCall = "tools/call",
    /// The client asks for the resources.
    ResourcesList = "resources/list",
    /// The client asks for the templates of resources.
    ResourcesTemplatesList = "resources/templates/list",
    /// The client reads a resource.
    ResourcesRead = "resources/read",
    /// The client wants to hear of changes of a resource.
    ResourcesSubscribe = "resources/subscribe",
    /// The client wants to hear of them no more.
    ResourcesUnsubscribe = "resources/unsubscribe",
    /// The client asks for the prompts.
    PromptsList = "prompts/list",
    /// The client asks for a prompt.
    PromptsGet = "prompts/get",
    /// The client asks how an argument could go on.
    CompletionComplete = "completion/complete",
    /// The client says what it wants to be logged.
    LoggingSetLevel = "logging/setLevel",
    /// The server asks the client's model.
    SamplingCreateMessage = "sampling/createMessage",
    /// The server asks the user.
    ElicitationCreate = "elicitation/create",
    /// The server asks where it may work.
    RootsList = "roots/list",
    /// Either side asks how a task is.
    TasksGet = "tasks/get",
    /// Either side asks for the result of a task.
    TasksResult = "tasks/result",
    /// Either side asks for the tasks.
    TasksList = "tasks/list",
    /// Either side ends a task.
    TasksCancel = "tasks/cancel",
    /// The client gives a task what it needs (extension of MCP 2026-07-28).
    TasksUpdate = "tasks/update",
    /// The client wants to be notified, for as long as it listens (MCP 2026-07-28).
    SubscriptionsListen = "subscriptions/listen",
    /// The client is ready.
    Initialized = "notifications/initialized",
    /// Either side wants no answer any more.
    Cancelled = "notifications/cancelled",
    /// Either side says how far it is.
    Progress = "notifications/progress",
    /// The server logs.
    LogMessage = "notifications/message",
    /// A resource changed.
    ResourcesUpdated = "notifications/resources/updated",
    /// There are other resources.
    ResourcesListChanged = "notifications/resources/list_changed",
    /// There are other tools.
    ToolsListChanged = "notifications/tools/list_changed",
    /// There are other prompts.
    PromptsListChanged = "notifications/prompts/list_changed",
    /// There are other roots.
    RootsListChanged = "notifications/roots/list_changed",
    /// The user answered elsewhere.
    ElicitationComplete = "notifications/elicitation/complete",
    /// A task is somewhere else now.
    TasksStatus = "notifications/tasks/status",
    /// The same, with all of the task (extension of MCP 2026-07-28).
    TasksChanged = "notifications/tasks",
    /// The server notifies from now on (MCP 2026-07-28).
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged",
}

impl Method<'_> {
    /// Whether the MCP specification knows it.
    pub fn is_mcp(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// The only era that has it; `None` of what both have, and of what is no method of MCP.
    pub fn era(&self) -> Option<Era> {
        match self.as_str() {
            "initialize"
            | "notifications/initialized"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "notifications/roots/list_changed"
            | "notifications/elicitation/complete" => Some(Era::Handshake),
            "server/discover" | "subscriptions/listen" | "notifications/subscriptions/acknowledged" => {
                Some(Era::Stateless)
            }
            _ => None,
        }
    }

    /// Whether it is one that this side sends: what only clients ask means nothing when a server asks it, and the other way
    /// round (specification 2025-11-25, "Client Features" and "Server Features").
    pub fn goes(&self, direction: Direction) -> bool {
        let of_client = self.is_client_request() && !self.is_of_tasks() || matches!(self, Self::Initialize);
        let of_server = matches!(
            self,
            Self::SamplingCreateMessage
                | Self::ElicitationCreate
                | Self::RootsList
                | Self::ResourcesListChanged
                | Self::ToolsListChanged
                | Self::PromptsListChanged
        );
        match direction {
            Direction::ClientToServer => !of_server,
            Direction::ServerToClient => !of_client,
        }
    }

    /// Either side may have tasks of the other.
    fn is_of_tasks(&self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksResult | Self::TasksList | Self::TasksCancel)
    }

    /// Whether it is a request that only MCP clients send (`initialize` is left out: others have one too).
    pub fn is_client_request(&self) -> bool {
        matches!(
            self,
            Self::ServerDiscover
                | Self::ToolsList
                | Self::ToolsCall
                | Self::ResourcesList
                | Self::ResourcesTemplatesList
                | Self::ResourcesRead
                | Self::ResourcesSubscribe
                | Self::ResourcesUnsubscribe
                | Self::PromptsList
                | Self::PromptsGet
                | Self::CompletionComplete
                | Self::LoggingSetLevel
                | Self::TasksGet
                | Self::TasksResult
                | Self::TasksList
                | Self::TasksCancel
                | Self::TasksUpdate
                | Self::SubscriptionsListen
        )
    }
}
