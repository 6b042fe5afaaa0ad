//! Connections over TLS to declared servers: the client's TLS library is probed, or it is known why not.

use super::{Agent, Searched};
use crate::{daemon::tls::Client, host::process};

impl Agent {
    /// Prepares for clients that connect over TLS, where the configuration has servers for them.
    pub(super) fn prepare_for_tls(&self) {
        if self.network.reads_over_tls() {
            self.tls.prepare(&self.kernel);
        }
    }

    /// A client has made a connection over TLS that is to be read.
    pub(super) fn connected_over_tls(&mut self, client: Client, uid: Option<u32>) {
        if let Err(why) = self.tls.connected(client, uid, &self.kernel) {
            self.capture.sockets().note_tls(client.0, Some(why.into_owned()));
        }
    }

    /// Keeps what came of the search of a client.
    pub(super) fn take_searched(&mut self, searched: Searched) {
        let Searched { client, probes, unread } = searched;
        self.tls.keep(client, probes, unread.as_deref());
        self.capture.sockets().note_tls(client.0, unread);
    }

    /// Detaches the probes of processes that have ended.
    pub(super) fn detach_ended(&mut self) {
        self.tls.forget_ended(|(pid, start_ns)| process::started(pid) == Some(start_ns));
    }
}
