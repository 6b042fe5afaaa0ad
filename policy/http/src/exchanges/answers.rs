//! What a server answers.

use fluent_uri::{Uri, UriRef};

use mcpwarden_terms::{ConnectionId, Direction, GapCause, ServerType, Timestamp};

use super::Exchanges;
use crate::connection::Connection;
use crate::content::{Content, Piece};
use crate::exchange::{Exchange, Gist};
use crate::head::{Answer, ContentType, Method};
use crate::reader::Framing;
use crate::readings::readings;
use crate::sse::{Event, Name};
use crate::{Context, HttpOutput, Uninspected};

const DIRECTION: Direction = Direction::ServerToClient;

impl Exchanges {
    /// An answer begins, which is the last one of its request.
    pub(crate) fn answer(
        &mut self,
        answer: &Answer<'_>,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let mut exchange = self.waiting.pop_front().unwrap_or_else(|| connection.unpaired(context));
        context.counters.unpaired += u64::from(!exchange.paired);
        exchange.status = answer.status;
        exchange.meta.mirrored.has_session |= answer.session.is_some();
        if let Some(link) = exchange.link.filter(|_| exchange.is_success()) {
            // Clients take a new session from any answer.
            let places = [Some(&exchange.place), exchange.origin.as_ref()];
            for place in places.into_iter().flatten().filter(|_| exchange.paired && !exchange.is_partial) {
                match answer.session {
                    Some(id) => context.links.bind(link, place.session(id)),
                    None if exchange.began => context.links.bind(link, place.anonymous()),
                    None => {}
                }
            }
        }
        if let (307 | 308, Some(link), Some(body)) = (answer.status, exchange.link, exchange.body) {
            let from = exchange.origin.clone().unwrap_or_else(|| exchange.place.clone());
            context.links.redirect(link, body, from, time);
        }
        if let (301..=303 | 307 | 308, Some(link)) = (answer.status, exchange.link)
            && let Some(target) = answer.location.and_then(|to| resolve(&exchange.place.path, to.as_bytes()))
            && (exchange.method == Method::Get || answer.status <= 303)
        {
            context.links.send_for(link, exchange.place.client, &target, exchange.id.as_deref(), time);
        }
        let may_be_events = answer.content != ContentType::Json;
        let is_wanted = exchange.link.is_some() || (exchange.accepts_events && may_be_events);
        let frame_bytes = context.limits.frame_bytes;
        let is_linked = exchange.link.is_some();
        let (is_wanted, content) =
            match exchange.other.as_mut().filter(|_| !is_linked && connection.peers.others) {
                Some(other) => {
                    other.request_id = answer.request_id.map(Box::from);
                    (true, Content::raw(&answer.coding, frame_bytes))
                }
                None => (is_wanted, Content::new(answer.content, &answer.coding, frame_bytes)),
            };
        if is_wanted
            && exchange.other.is_none()
            && content.is_undecodable()
            && answer.framing != Framing::Length(0)
        {
            context.counters.undecodable += 1;
            connection.say_uninspected(Uninspected::Coding, exchange.link, context);
        }
        if let Some(link) = exchange.link.or_else(|| connection.link_of_get(&exchange, context)) {
            connection.touch(link, time, context);
        }
        self.answering = Some((exchange, is_wanted.then_some(content)));
    }

    /// A piece of its body.
    pub(crate) fn answer_body(
        &mut self,
        piece: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let Some((mut exchange, content)) = self.answering.take() else { return };
        let content = content.map(|mut content| {
            content
                .push(piece, time, &mut |piece| connection.answer_piece(piece, &mut exchange, time, context));
            connection.unread += if content.is_undecodable() { piece.len() as u64 } else { 0 };
            content
        });
        self.answering = Some((exchange, content));
    }

    /// Its body is whole, or there is none.
    pub(crate) fn answer_ends(
        &mut self,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let Some((mut exchange, content)) = self.answering.take() else { return };
        if let Some(mut content) = content {
            if let Some(other) = &mut exchange.other {
                other.is_whole = content.is_raw();
            }
            content.end(&mut |piece| connection.answer_piece(piece, &mut exchange, time, context));
        }
        connection.other_ends(&exchange, time, context);
        let session = exchange.names.session.and_then(|name| context.links.find(name));
        if let Some(link) = exchange.link
            && exchange.status >= 400
            && !exchange.answered
            && context.links.is_wanted(link)
        {
            let (status, id) = (exchange.status, exchange.id.as_deref());
            (context.sink)(HttpOutput::Refused { link, stream: connection.id, time, status, id });
        }
        let ends = match exchange.method {
            Method::Delete if exchange.is_success() => session,
            // The session has ended (specification 2025-11-25, "Session Management").
            _ if exchange.status == 404 && session.is_some() => session,
            _ if exchange.is_sse || (exchange.began && exchange.status >= 400) => exchange.link,
            _ => None,
        };
        if let Some(link) = ends {
            context.close(link, time);
        }
    }
}

impl Connection {
    pub(super) fn answer_piece(
        &mut self,
        piece: Piece<'_>,
        exchange: &mut Exchange,
        now: Timestamp,
        context: &mut Context<'_>,
    ) {
        match piece {
            Piece::Json { bytes, time } => {
                let Some(link) = exchange.link else { return };
                let is_doubtful = readings(bytes, &mut |bytes| {
                    // An error page in JSON is no message.
                    let gist = if exchange.is_success() { Gist::default() } else { Gist::of(bytes) };
                    exchange.answered |= gist.is_answer;
                    if exchange.is_success() || gist.is_message {
                        self.frame((link, DIRECTION), exchange, (bytes, time), context);
                    }
                });
                self.say_readings(is_doubtful, exchange, context);
            }
            Piece::Event(event) => self.event(event, exchange, context),
            Piece::Raw(bytes) => {
                if let Some(other) = &exchange.other {
                    let (stream, request_id) = (self.id, other.request_id.as_deref());
                    let (exchange, time) = (other.number, now);
                    (context.sink)(HttpOutput::OtherAnswer { stream, exchange, time, request_id, bytes });
                }
            }
            Piece::Gap { bytes, cause } => {
                context.counters.frames_too_long += u64::from(cause == GapCause::TooLong);
                if let Some(link) = exchange.link.filter(|link| context.links.is_wanted(*link)) {
                    let direction = DIRECTION;
                    (context.sink)(HttpOutput::Gap { link, direction, time: now, bytes, cause });
                }
            }
            // Nothing of MCP is missing.
            Piece::Undecodable(_) if exchange.other.is_some() && exchange.link.is_none() => {}
            Piece::Undecodable(error) => self.say_undecodable(error, exchange.link, context),
        }
    }

    /// The answer to a request is over that is no MCP.
    pub(super) fn other_ends(&self, exchange: &Exchange, time: Timestamp, context: &mut Context<'_>) {
        if let Some(other) = exchange.other.as_ref().filter(|_| exchange.link.is_none()) {
            let (stream, status, is_whole) = (self.id, exchange.status, other.is_whole);
            (context.sink)(HttpOutput::OtherEnd { stream, exchange: other.number, time, status, is_whole });
        }
    }

    fn event(&mut self, event: Event<'_>, exchange: &mut Exchange, context: &mut Context<'_>) {
        // Where the stream ends without an empty line, and of events with other names, some clients take what is a message.
        let is_certain = event.name == Name::Message && event.is_ended;
        let is_endpoint = event.name == Name::Endpoint && !event.data.trim_ascii().starts_with(b"{");
        if is_endpoint && exchange.paired && event.is_ended {
            self.endpoint(event, exchange, context);
        } else if is_certain || Gist::of(event.data).is_message {
            self.event_messages(event, exchange, context);
        } else {
            context.counters.unfinished += u64::from(!event.is_ended);
        }
    }

    /// Says once of an answer that it can be read in more than one way.
    fn say_readings(&self, is_doubtful: bool, exchange: &mut Exchange, context: &mut Context<'_>) {
        if is_doubtful && exchange.link.is_some() && !std::mem::replace(&mut exchange.is_told, true) {
            self.say_uninspected(Uninspected::Readings, exchange.link, context);
        }
    }

    /// A server of the older transport says where its client is to POST (specification 2024-11-05, "HTTP with SSE").
    fn endpoint(&mut self, event: Event<'_>, exchange: &mut Exchange, context: &mut Context<'_>) {
        let is_first = exchange.link.is_none() && exchange.names.session.is_none();
        if exchange.method != Method::Get || !(is_first || exchange.is_sse) {
            return;
        }
        let Some(target) = resolve(&exchange.place.path, event.data) else { return };
        let name = exchange.place.endpoint(&target);
        match exchange.link {
            Some(link) => context.links.bind(link, name),
            None => {
                let link = context.open(&exchange.place, Some(name), ServerType::Sse, self.id, event.time);
                (exchange.link, exchange.is_sse, self.is_mcp) = (link, true, true);
                match link {
                    Some(link) => {
                        self.touch(link, event.time, context);
                    }
                    None => self.full(context),
                }
            }
        }
    }

    fn event_messages(&mut self, event: Event<'_>, exchange: &mut Exchange, context: &mut Context<'_>) {
        let data = event.data.trim_ascii();
        // An event without data only names the id to resume from (specification 2025-11-25, "Resumability").
        if data.is_empty() {
            return;
        }
        let is_doubtful = readings(data, &mut |data| {
            self.event_message(Event { data, ..event }, exchange, context);
        });
        self.say_readings(is_doubtful, exchange, context);
    }

    fn event_message(&mut self, event: Event<'_>, exchange: &mut Exchange, context: &mut Context<'_>) {
        let data = event.data;
        if exchange.link.is_none() || event.doubt.is_some() {
            let gist = Gist::of(data);
            if event.doubt.is_some() && !gist.is_message {
                let bytes = data.len() as u64;
                return self.skipped((None, DIRECTION), bytes, event.doubt, event.time, context);
            }
            if !gist.is_versioned && !exchange.shows_mcp && exchange.link.is_none() {
                return self.strange(context);
            }
        }
        if exchange.link.is_none() {
            exchange.link = self.link_of_get(exchange, context).or_else(|| {
                let name = exchange.names.session.unwrap_or(exchange.names.anonymous);
                let open = exchange.paired;
                open.then(|| {
                    context.open(&exchange.place, Some(name), ServerType::Http, self.id, event.time)
                })?
            });
        }
        let Some(link) = exchange.link else {
            match exchange.paired {
                true => self.full(context),
                false => context.counters.unwanted += 1,
            }
            return;
        };
        if let Some(id) = event.id
            && context.links.is_resent(link, id, data, exchange.resumes)
        {
            context.counters.resent += 1;
            return;
        }
        self.frame((link, DIRECTION), exchange, (data, event.time), context);
    }

    /// The link that a stream of events belongs to, if there is one already.
    fn link_of_get(&self, exchange: &Exchange, context: &Context<'_>) -> Option<ConnectionId> {
        if !exchange.paired {
            return context.links.only(self.peers.client, self.peers.server);
        }
        if exchange.is_partial && exchange.names.session.is_none() && exchange.accepts_events {
            return self.likely_link(context);
        }
        let is_stream = exchange.method == Method::Get && exchange.accepts_events;
        let name = exchange.names.session.unwrap_or(exchange.names.anonymous);
        context.links.find(name).filter(|_| is_stream)
    }
}

/// Path and query of a reference that a server gave in an event on the stream at `path` (RFC 3986, section 5).
fn resolve(path: &str, reference: &[u8]) -> Option<String> {
    let reference = std::str::from_utf8(reference).ok()?.trim();
    let base = format!("http://host{path}");
    let base = Uri::parse(base.as_str()).ok()?;
    let target = UriRef::parse(reference).ok()?.resolve_against(&base).ok()?;
    let path = if target.path().is_empty() { "/" } else { target.path().as_str() };
    Some(target.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}
