//! Who has connected, and where to.

use mcpwarden_abi::Endpoint;
use mcpwarden_policy::{
    ConnectionId, Process, Reached, ServerAddress, ServerId, Timestamp, event::ServerType,
};

/// Who has connected, and where to.
#[derive(Clone, Debug)]
pub struct Connected {
    /// How the kernel half finds the connection.
    pub key: u64,
    /// Where it goes.
    pub endpoint: Endpoint,
    /// The client.
    pub client: Process,
    /// The server's address.
    pub address: ServerAddress,
    /// The process that listens there, where that is known.
    pub server: Option<Process>,
    /// Whether it is known to have begun with JSON.
    pub is_in_lines: bool,
    /// Whether it is over TLS: its bytes are the plaintext, as far as that is read in the client.
    pub is_over_tls: bool,
    /// Whether it was open before the agent started: what is seen of it may begin in the middle of a line.
    pub adopted: bool,
    /// Its network namespace, of another than the agent's.
    pub netns: Option<u64>,
    /// The declared servers that are there.
    pub declared: Vec<ServerId>,
    /// Whether the API of a model is there.
    pub is_model: bool,
}

impl Connected {
    pub(super) fn reached(
        self,
        connection: ConnectionId,
        time: Timestamp,
        host: Option<String>,
        path: String,
        kind: ServerType,
    ) -> Reached {
        let Self { client, address, server, netns, declared, adopted, is_over_tls: read_in_client, .. } =
            self;
        Reached {
            connection,
            time,
            client,
            address,
            server,
            netns,
            host,
            path,
            kind,
            declared,
            adopted,
            read_in_client,
        }
    }
}
