//! What came of listing declared servers, as it is asked for and told: `/v1/listings`.

use mcpwarden_policy::{Timestamp, event::ServerType};
use serde::{Deserialize, Serialize};

/// A declared server that is to be listed now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewListing {
    /// Its id.
    pub server: String,
}

/// A listing that was requested.
#[derive(Debug, Serialize, Deserialize)]
pub struct RequestedListing {
    /// The id of the server.
    pub server: String,
    /// The number of the request: see [`ListingView::request`].
    pub request: u64,
}

/// The last listing of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListingView {
    /// The id of the server.
    pub server: String,
    /// How it is declared to be reached.
    pub server_type: ServerType,
    /// Where, without the query.
    pub url: String,
    /// When it was listed.
    pub listed: Timestamp,
    /// The number of the last request that this answers; 0: it was listed at its time.
    pub request: u64,
    /// Why it could not be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many tools it lists.
    pub tools: usize,
    /// Tools that it had not listed before (bounded).
    pub new: Vec<String>,
    /// Tools whose definition is another one than before (bounded).
    pub changed: Vec<String>,
    /// Tools that it does not list any more (bounded).
    pub removed: Vec<String>,
    /// Whether long definitions were still being inspected: what is new or changed among them is not known yet.
    pub inspecting: bool,
}

/// The last listing of each server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listings {
    /// By the id of the server.
    pub listings: Vec<ListingView>,
}
