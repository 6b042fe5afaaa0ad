//! What servers told the agent itself, taken in as what they tell clients.

use mcpwarden_client::listing::Report;
use mcpwarden_policy::{Event, Input, Reached};

use super::Agent;

impl Agent {
    /// Says how a declared server does, where that is new, and hands what it said to the policy core.
    pub(super) fn hear_server(&mut self, report: Report) {
        if let Some(body) = self.listing.take_note(&report) {
            let event = Event {
                server_id: Some(report.server.clone()),
                server_type: Some(report.kind),
                ..Event::agent(self.clock.now(), body)
            };
            self.emit(event);
        }
        let Report { server, connection, outcome: Ok(listed), .. } = report else { return };
        let now = self.clock.now();
        let reached = Reached {
            connection,
            time: now,
            client: self.listing.client(),
            address: listed.address,
            path: listed.path,
            kind: listed.kind,
            netns: None,
            host: None,
            declared: vec![server],
        };
        self.engine.handle(Input::Reached(reached), now, &mut self.outputs);
        for frame in &listed.frames {
            let (direction, bytes) = (frame.direction, frame.json.as_bytes());
            self.engine.handle(
                Input::Frame { connection, direction, time: now, bytes, http: None, turn: None },
                now,
                &mut self.outputs,
            );
        }
        self.carry_out();
    }
}
