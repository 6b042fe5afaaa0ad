//! One TCP connection, and what it speaks.

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

use super::connection::{Connection, Reading};
use super::http1::{Held, Http1, Switch};
use super::http2::Http2;
use super::{Context, HttpCounters, HttpLimits, Peers};

/// What a connection speaks. HTTP/1.1 until it shows something else.
#[derive(Debug)]
enum Protocol {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Stream {
    connection: Connection,
    protocol: Protocol,
}

impl Stream {
    pub(super) fn new(id: ConnectionId, peers: Peers, limits: &HttpLimits) -> Self {
        Self {
            connection: Connection::new(id, peers),
            protocol: Protocol::Http1(Box::new(Http1::new(limits))),
        }
    }

    /// Bytes held of what is unfinished.
    pub(super) fn held(&self) -> usize {
        match &self.protocol {
            Protocol::Http1(http) => http.held(),
            Protocol::Http2(http) => http.held(),
        }
    }

    /// Whether nothing of it is wanted any more.
    pub(super) fn is_over(&self) -> bool {
        self.connection.reading == Reading::Over
    }

    /// Whether it carried nothing but this link, and nobody declared its server.
    pub(super) fn serves_only(&self, link: ConnectionId) -> bool {
        let Connection { peers, links, .. } = &self.connection;
        !peers.known && links.iter().all(|other| *other == link)
    }

    /// Counts its bytes, once it is known that a server is there.
    pub(super) fn account(&mut self, counters: &mut HttpCounters) {
        self.connection.account(counters);
    }

    /// It serves no link any more.
    pub(super) fn leave(&mut self, time: Timestamp, context: &mut Context<'_>) {
        self.connection.leave(time, context);
    }

    /// Takes what the client wrote, or read.
    pub(super) fn push(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        self.connection.passed += bytes.len() as u64;
        let connection = &mut self.connection;
        let switch = match (&mut self.protocol, direction) {
            (Protocol::Http1(http), Direction::ClientToServer) => http.ask(bytes, time, connection, context),
            (Protocol::Http1(http), Direction::ServerToClient) => {
                http.answer(bytes, time, connection, context)
            }
            (Protocol::Http2(http), _) => {
                http.push(direction, bytes, time, connection, context);
                None
            }
        };
        if let Some(switch) = switch {
            self.switch(switch, time, context);
        }
    }

    /// The gate has overwritten some of the request in progress.
    pub(super) fn neutralized(&mut self) {
        self.connection.is_neutralized = true;
    }

    /// The gate has refused a write of these bytes.
    pub(super) fn refused(&mut self, bytes: &[u8], time: Timestamp, context: &mut Context<'_>) {
        // The gate reads no HTTP/2.
        if let Protocol::Http1(http) = &self.protocol {
            http.refused(bytes, time, &self.connection, context);
        }
    }

    /// The link that it carried something of last.
    pub(super) fn last_link(&self) -> Option<ConnectionId> {
        self.connection.links.back().copied()
    }

    /// From here on it speaks HTTP/2.
    fn switch(&mut self, switch: Switch, time: Timestamp, context: &mut Context<'_>) {
        let Switch { asked, answered, upgraded, held, lost } = switch;
        let connection = &mut self.connection;
        let mut http = Box::new(Http2::new(upgraded, lost, context));
        // Of a connection that was seen from its beginning, answers wait for their requests, however these are cut. Behind
        // a gap, they are taken for those to what was not seen, and belong to a link that requests may tell.
        let is_begun = lost.is_none();
        if !is_begun {
            http.push(Direction::ClientToServer, &asked, time, connection, context);
        }
        http.push(Direction::ServerToClient, &answered, time, connection, context);
        for held in held {
            let direction = Direction::ServerToClient;
            match held {
                Held::Bytes(bytes, time) => http.push(direction, &bytes, time, connection, context),
                Held::Gap(bytes, cause, time) => {
                    http.gap(direction, bytes, cause, time, connection, context);
                }
            }
        }
        if is_begun {
            http.push(Direction::ClientToServer, &asked, time, connection, context);
        }
        self.protocol = Protocol::Http2(http);
    }

    /// The connection was closed.
    pub(super) fn close(&mut self, time: Timestamp, context: &mut Context<'_>) {
        let Self { connection, protocol } = self;
        match protocol {
            _ if connection.reading != Reading::On => {}
            Protocol::Http1(http) => http.close(time, connection, context),
            Protocol::Http2(http) => http.close(time, connection, context),
        }
        connection.reading = Reading::Over;
    }

    /// Bytes of one direction were not captured.
    pub(super) fn gap(
        &mut self,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        let Self { connection, protocol } = self;
        match protocol {
            _ if connection.reading != Reading::On => {}
            Protocol::Http1(http) => http.gap(direction, bytes, cause, time, connection, context),
            Protocol::Http2(http) => http.gap(direction, bytes, cause, time, connection, context),
        }
    }

    /// Frees what is held.
    pub(super) fn give_up(&mut self, time: Timestamp, context: &mut Context<'_>) {
        context.counters.memory_given_up += 1;
        let Self { connection, protocol } = self;
        match protocol {
            Protocol::Http1(http) => http.give_up(time, connection, context),
            Protocol::Http2(http) => http.give_up(time, connection, context),
        }
    }

    /// What is no MCP is wanted, too.
    pub(super) fn want_others(&mut self) {
        self.connection.peers.others = true;
    }

    /// Bytes were not captured, whatever becomes of the stream.
    pub(super) fn missed(&mut self, bytes: u64) {
        self.connection.passed += bytes;
        self.connection.unread += bytes;
    }
}
