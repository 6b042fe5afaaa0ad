//! What the policy core asks for, done: events said, kernel tables changed, addresses denied.

use mcpwarden_abi::SET_ALL;
use mcpwarden_capture::socket::KernelAction;
use mcpwarden_client::listing as own;
use mcpwarden_policy::{ConnectionId, Event, EventBody, Output, ServerId, http::LINK};

use super::Agent;

impl Agent {
    /// Does what the policy core asks for.
    pub(super) fn carry_out(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Event(event) => self.emit(event),
                // Of the agent's own conversations nothing is captured.
                Output::Confirm { connection, .. } | Output::Drop(connection) if own::is_own(connection) => {}
                Output::Confirm { connection, .. } if connection.0 & LINK != 0 => {
                    self.capture.sockets().confirm(connection);
                }
                Output::Drop(link) if link.0 & LINK != 0 => self.capture.sockets().drop_link(link),
                Output::Confirm { connection, server } => {
                    self.confirm(connection, &server);
                    self.fd_scan_soon = true;
                }
                Output::Drop(id) => {
                    self.kernel.remove(id.0);
                    self.capture.forget(id.0);
                }
                Output::Found(found) => {
                    self.network.found(&found);
                    self.deny_found();
                }
                Output::GateStale { since } => self.gate.is_stale_since(since),
                // Told to whoever commanded it.
                Output::Failed(_) => {}
            }
        }
        self.outputs = outputs;
        for action in self.capture.sockets().actions() {
            match action {
                KernelAction::Lift(key) => self.kernel.lift_socket(key),
                KernelAction::Found(endpoint, is_server) => self.kernel.found(&endpoint, is_server),
                KernelAction::Drop { key, number } => {
                    self.kernel.remove_socket(key, number);
                    self.with_capture(|capture, clock, now, sink| capture.close(number, clock, now, sink));
                }
            }
        }
    }

    /// Holds a server to its rules.
    pub(super) fn confirm(&mut self, connection: ConnectionId, server: &ServerId) {
        let set = self.network.set_of(server);
        // Of one whose program is not known, the agent before may have known it: what holds for it stays.
        let is_new = self.capture.is_known(connection.0) || !self.kernel.is_confirmed(connection.0);
        if set != SET_ALL || is_new {
            self.kernel.confirm(connection.0, set);
        }
    }

    /// Denies the servers that nobody declared, where it is time for that.
    pub(super) fn deny_found(&mut self) {
        for (found, denied) in self.network.judge_found(self.kernel.addresses(), &self.clock) {
            self.emit(Event {
                session_id: found.session,
                server_id: Some(found.server),
                server_type: Some(found.kind),
                ..Event::agent(self.clock.now(), denied.into())
            });
        }
    }

    /// Says something of the agent itself.
    pub(super) fn say(&mut self, body: EventBody) {
        self.emit(Event::agent(self.clock.now(), body));
    }

    /// Counts an event, stores it, sends it and prints it, and hands it to those who follow.
    pub(super) fn emit(&mut self, event: Event) {
        self.gate.see_session(event.session_id.as_ref());
        self.metrics.observe(&event, || self.clock.now());
        let (sinks, control) = (&self.sinks, &self.control);
        self.outbox.say(event, |event, line| {
            control.offer(event, line);
            sinks.offer(event, line)
        });
    }
}
