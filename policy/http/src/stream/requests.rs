//! What the client of a stream asks.

use mcpwarden_terms::{ConnectionId, Direction, GapCause, ServerType, Timestamp};
use sha2::{Digest, Sha256};

use super::{MAX_WAITING, Reading, Stream};
use crate::coding::CodingError;
use crate::content::{Content, Piece};
use crate::exchange::{Exchange, Gist};
use crate::head::{self, ContentType, Method, Request};
use crate::reader::Step;
use crate::readings::readings;
use crate::{Context, Uninspected};

const DIRECTION: Direction = Direction::ClientToServer;

impl Stream {
    /// Takes what the client wrote.
    pub(crate) fn ask(&mut self, bytes: &[u8], time: Timestamp, context: &mut Context<'_>) {
        self.passed += bytes.len() as u64;
        if let Some((_, skipped)) = self.requests.resume(bytes) {
            self.skipped(DIRECTION, skipped, self.requests_lost, time, context);
        }
        let mut rest = bytes;
        loop {
            if self.reading != Reading::On {
                return self.uninspected(rest, context);
            }
            // A client that is refused leave may send no body, or send it all the same (RFC 9110, section 10.1.1). JSON
            // does not begin with a letter; a request does.
            if self.expecting && rest.first().is_some_and(u8::is_ascii_uppercase) {
                self.stop(Uninspected::Ambiguous, context);
                continue;
            }
            match self.requests.step(&mut rest) {
                Step::More => return,
                Step::Head(head) => match head::request(&head) {
                    Ok(request) => self.request(request, context),
                    Err(why) => self.stop(why, context),
                },
                Step::Body(piece) => self.request_body(piece, time, context),
                Step::End => self.request_ends(time, context),
                Step::Fault(why) => self.stop(why, context),
            }
            // At once: what follows in this piece may as well come in the next.
            self.release(context);
        }
    }

    fn request(&mut self, request: Request<'_>, context: &mut Context<'_>) {
        if self.is_doubtful && (self.answers.lost().is_some() || self.answers.at_start()) {
            // What waits was answered by what was lost, or was taken for the answer to something that was.
            context.counters.unpaired += self.waiting.len() as u64;
            self.waiting.clear();
            self.answering = None;
        }
        if self.waiting.is_empty() {
            self.requests_lost = None;
        }
        if self.waiting.len() >= MAX_WAITING {
            self.stop(Uninspected::Pipelined, context);
            return;
        }
        self.requests.begin(request.framing);
        self.expecting = request.expects;
        let content = Content::new(ContentType::Json, &request.coding, context.limits.frame_bytes);
        let sent = (request.method == Method::Get)
            .then(|| context.links.sent_for(self.peers.client, request.target))
            .flatten();
        let mut exchange = Exchange::new(request, &self.peers);
        self.is_mcp |= exchange.shows_mcp;
        if exchange.method == Method::Post {
            let is_undecodable = content.is_undecodable();
            self.asking = Some(content);
            if is_undecodable && (exchange.shows_mcp || self.peers.known) {
                context.counters.undecodable += 1;
                let link = exchange.names.session.and_then(|name| context.links.find(name));
                self.say_uninspected(Uninspected::Coding, link, context);
            }
        } else if let Some((link, id)) = sent {
            (exchange.link, exchange.id) = (Some(link), id);
        } else if !exchange.shows_mcp && !exchange.accepts_events {
            self.strange(context);
        }
        self.waiting.push_back(exchange);
    }

    fn request_body(&mut self, piece: &[u8], time: Timestamp, context: &mut Context<'_>) {
        let Some(mut content) = self.asking.take() else { return };
        self.expecting = false;
        content.push(piece, time, &mut |piece| self.request_piece(piece, time, context));
        self.unread += if content.is_undecodable() { piece.len() as u64 } else { 0 };
        if content.is_over()
            && let Some(exchange) = self.waiting.back_mut()
        {
            exchange.decided = true;
        }
        self.asking = Some(content);
    }

    fn request_ends(&mut self, time: Timestamp, context: &mut Context<'_>) {
        self.expecting = false;
        if let Some(mut content) = self.asking.take() {
            content.end(&mut |piece| self.request_piece(piece, time, context));
        }
        let Some(exchange) = self.waiting.back_mut() else { return };
        exchange.decided = true;
        if exchange.method == Method::Post && exchange.link.is_none() {
            self.strange(context);
        }
    }

    fn request_piece(&mut self, piece: Piece<'_>, now: Timestamp, context: &mut Context<'_>) {
        let session = self.waiting.back().and_then(|exchange| exchange.names.session);
        match piece {
            Piece::Json { bytes, time } => {
                let is_doubtful = readings(bytes, &mut |bytes| self.request_frame(bytes, time, context));
                if is_doubtful && let Some(link) = self.waiting.back().and_then(|exchange| exchange.link) {
                    self.say_uninspected(Uninspected::Readings, Some(link), context);
                }
            }
            Piece::Gap { bytes, cause } => {
                context.counters.frames_too_long += u64::from(cause == GapCause::TooLong);
                self.say_gap(DIRECTION, bytes, cause, now, context);
            }
            Piece::Undecodable(error) if self.is_mcp || self.peers.known => {
                let link = session.and_then(|name| context.links.find(name));
                self.say_undecodable(error, link, context);
            }
            Piece::Undecodable(_) | Piece::Event(_) => {}
        }
    }

    pub(super) fn say_undecodable(
        &mut self,
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

    fn request_frame(&mut self, bytes: &[u8], time: Timestamp, context: &mut Context<'_>) {
        let Some(mut exchange) = self.waiting.pop_back() else { return };
        let gist = Gist::of(bytes);
        let names = exchange.names;
        let endpoint = context.links.find(names.endpoint);
        // Where MCP is spoken, whatever a server may take for a message is one.
        let is_linked = |name| context.links.find(name).is_some();
        let is_place = self.peers.known
            || endpoint.is_some()
            || is_linked(names.anonymous)
            || is_linked(names.stateless);
        let body = Sha256::digest(bytes).into();
        // Or whatever was a message where it was sent at first.
        let is_place = is_place || context.links.is_redirected(exchange.place.client, &body, time);
        if gist.is_versioned || exchange.shows_mcp || (is_place && gist.is_message) {
            self.is_mcp = true;
            let redirected = context.links.redirected(&exchange.place, &body, time);
            let is_again = redirected.is_some();
            let link = match redirected {
                Some((link, origin)) => {
                    exchange.origin = Some(origin);
                    exchange.began = gist.is_initialize;
                    Some(link)
                }
                None => self.link_of_request(&mut exchange, endpoint, &gist, time, context),
            };
            (exchange.link, exchange.id, exchange.body) = (link, gist.id, Some(body));
            match link {
                Some(link) if is_again => {
                    context.counters.redirected += 1;
                    context.links.touch(link, self.id, time, &mut self.links, context.limits.idle);
                }
                Some(link) => self.frame((link, DIRECTION), &exchange, (bytes, time), context),
                None => self.full(context),
            }
        }
        self.waiting.push_back(exchange);
    }

    /// See the table of the module.
    fn link_of_request(
        &mut self,
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
            None => Some(names.anonymous),
        };
        name.and_then(|name| context.links.find(name))
            .or_else(|| context.open(&exchange.place, name, ServerType::Http, self.id, time))
    }
}
