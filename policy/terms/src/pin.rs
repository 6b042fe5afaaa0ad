//! What is pinned, whose it is, and how a definition stands to its pin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ServerId;

/// Whose pins: a look-alike that someone else starts, or that is another program, never touches these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PinKey {
    /// User id that the server runs as. `None` where it is not known.
    pub uid: Option<u32>,
    /// What the server is called.
    pub server: ServerId,
    /// Path of the executable, or of the script that it runs, links resolved, without what changes with an upgrade or a
    /// restart; a module or a container as what it is. Empty where it is not known.
    pub program: String,
}

/// What kind of thing is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A tool of `tools/list`.
    Tool,
    /// A prompt of `prompts/list`.
    Prompt,
    /// A resource template of `resources/templates/list`.
    ResourceTemplate,
    /// `instructions` of the answer to `initialize` or `server/discover`; a list of one, without a name.
    Instructions,
    /// What the user interface of an MCP App may do: `_meta.ui` of a resource, by its address.
    Interface,
}

/// How a tool's definition stands to what was pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinState {
    /// It is not pinned.
    #[default]
    Unpinned,
    /// It is what was pinned.
    Pinned,
    /// It is something else, and nobody approved that.
    Changed,
}
