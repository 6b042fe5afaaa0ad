//! What a client asks.

use mcpwarden_terms::{ConnectionId, Direction, GapCause, ServerType, Timestamp};
use sha2::{Digest, Sha256};

use super::Exchanges;
use crate::coding::CodingError;
use crate::connection::Connection;
use crate::content::{Content, Piece};
use crate::exchange::{Exchange, Gist};
use crate::head::{ContentType, Method, Request};
use crate::readings::readings;
use crate::{Context, HttpOutput, Uninspected};

const DIRECTION: Direction = Direction::ClientToServer;

impl Exchanges {
    /// A request begins.
    pub(crate) fn request(
        &mut self,
        request: Request<'_>,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let content = Content::new(ContentType::Json, &request.coding, context.limits.frame_bytes);
        let sent = (request.method == Method::Get)
            .then(|| context.links.sent_for(connection.peers.client, request.target))
            .flatten();
        let mut exchange = Exchange::new(request, &connection.peers);
        connection.is_mcp |= exchange.shows_mcp;
        if exchange.method == Method::Post {
            let is_undecodable = content.is_undecodable();
            self.asking = Some(content);
            if is_undecodable && (exchange.shows_mcp || connection.peers.known) {
                context.counters.undecodable += 1;
                let link = exchange.names.session.and_then(|name| context.links.find(name));
                connection.say_uninspected(Uninspected::Coding, link, context);
            }
        } else if let Some((link, id)) = sent {
            (exchange.link, exchange.id) = (Some(link), id);
        } else if !exchange.shows_mcp && !exchange.accepts_events {
            connection.strange(context);
        }
        self.waiting.push_back(exchange);
    }

    /// A piece of its body.
    pub(crate) fn request_body(
        &mut self,
        piece: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let Some(mut content) = self.asking.take() else { return };
        content.push(piece, time, &mut |piece| self.request_piece(piece, time, connection, context));
        connection.unread += if content.is_undecodable() { piece.len() as u64 } else { 0 };
        if content.is_over()
            && let Some(exchange) = self.waiting.back_mut()
        {
            exchange.decided = true;
        }
        self.asking = Some(content);
    }

    /// Its body is whole, or there is none.
    pub(crate) fn request_ends(
        &mut self,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        if let Some(mut content) = self.asking.take() {
            content.end(&mut |piece| self.request_piece(piece, time, connection, context));
        }
        let Some(exchange) = self.waiting.back_mut() else { return };
        exchange.decided = true;
        if exchange.method == Method::Post && exchange.link.is_none() {
            // One that could not be read has an answer, too.
            if connection.peers.others && exchange.other.is_none() {
                exchange.other = Some(connection.other());
            }
            connection.strange(context);
        }
    }

    fn request_piece(
        &mut self,
        piece: Piece<'_>,
        now: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let session = self.waiting.back().and_then(|exchange| exchange.names.session);
        match piece {
            Piece::Json { bytes, time } => {
                let is_doubtful =
                    readings(bytes, &mut |bytes| self.request_frame(bytes, time, connection, context));
                if is_doubtful && let Some(link) = self.waiting.back().and_then(|exchange| exchange.link) {
                    connection.say_uninspected(Uninspected::Readings, Some(link), context);
                }
            }
            Piece::Gap { bytes, cause } => {
                context.counters.frames_too_long += u64::from(cause == GapCause::TooLong);
                let link = self.link(DIRECTION, context);
                connection.say_gap((link, DIRECTION), bytes, cause, now, context);
            }
            Piece::Undecodable(error) if connection.is_known() => {
                let link = session.and_then(|name| context.links.find(name));
                connection.say_undecodable(error, link, context);
            }
            Piece::Undecodable(_) | Piece::Event(_) | Piece::Raw(_) => {}
        }
    }

    fn request_frame(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let Some(mut exchange) = self.waiting.pop_back() else { return };
        let gist = Gist::of(bytes);
        let names = exchange.names;
        let endpoint = context.links.find(names.endpoint);
        // Where MCP is spoken, whatever a server may take for a message is one.
        let is_linked = |name| context.links.find(name).is_some();
        let is_place = connection.peers.known
            || endpoint.is_some()
            || is_linked(names.anonymous)
            || is_linked(names.stateless);
        let body = Sha256::digest(bytes).into();
        // Or whatever was a message where it was sent at first.
        let is_place = is_place || context.links.is_redirected(exchange.place.client, &body, time);
        if gist.is_versioned || exchange.shows_mcp || (is_place && gist.is_message) {
            connection.is_mcp = true;
            let redirected = context.links.redirected(&exchange.place, &body, time);
            let is_again = redirected.is_some();
            let link = match redirected {
                Some((link, origin)) => {
                    exchange.origin = Some(origin);
                    exchange.began = gist.is_initialize;
                    Some(link)
                }
                None => connection.link_of_request(&mut exchange, endpoint, &gist, time, context),
            };
            (exchange.link, exchange.id, exchange.body) = (link, gist.id, Some(body));
            match link {
                Some(link) if is_again => {
                    context.counters.redirected += 1;
                    connection.touch(link, time, context);
                }
                Some(link) => connection.frame((link, DIRECTION), &exchange, (bytes, time), context),
                None => connection.full(context),
            }
        } else if exchange.other.is_none() {
            let other = connection.other();
            let number = other.number;
            exchange.other = Some(other);
            let (stream, host) = (connection.id, exchange.place.host.as_deref());
            (context.sink)(HttpOutput::OtherRequest { stream, exchange: number, time, host, bytes });
        }
        self.waiting.push_back(exchange);
    }
}

impl Connection {
    pub(super) fn say_undecodable(
        &self,
        error: CodingError,
        link: Option<ConnectionId>,
        context: &mut Context<'_>,
    ) {
        let why = match error {
            CodingError::Invalid => {
                context.counters.undecodable += 1;
                Uninspected::Coding
            }
            CodingError::Bomb => {
                context.counters.bombs += 1;
                Uninspected::Bomb
            }
        };
        self.say_uninspected(why, link, context);
    }

    /// See the table of the module.
    fn link_of_request(
        &self,
        exchange: &mut Exchange,
        endpoint: Option<ConnectionId>,
        gist: &Gist,
        time: Timestamp,
        context: &mut Context<'_>,
    ) -> Option<ConnectionId> {
        let names = exchange.names;
        let name = match names.session {
            Some(session) => Some(session),
            None if endpoint.is_some() => return endpoint,
            None if gist.is_initialize => {
                exchange.began = true;
                None
            }
            None if gist.is_stateless || exchange.says_stateless() => Some(names.stateless),
            // Some of its head is unknown, and perhaps the session.
            None if exchange.is_partial && self.likely_link(context).is_some() => {
                return self.likely_link(context);
            }
            None => Some(names.anonymous),
        };
        name.and_then(|name| context.links.find(name))
            .or_else(|| context.open(&exchange.place, name, ServerType::Http, self.id, time))
    }
}
