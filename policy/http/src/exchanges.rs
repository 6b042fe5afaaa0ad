//! What requests and their answers say, once it is known where each begins and ends: of a connection of HTTP/1.1, or of
//! one stream of HTTP/2.

mod answers;
mod refused;
mod requests;

use std::collections::VecDeque;

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

use super::Context;
use super::connection::Connection;
use super::content::Content;
use super::exchange::Exchange;
use super::head::Method;

pub(super) use refused::RefusedRequest;

/// Requests and answers, in order.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// The body of the request in progress.
    asking: Option<Content>,
    /// Requests that wait for their answers; the last one may be unfinished.
    waiting: VecDeque<Exchange>,
    /// Whose answer is in progress, and its body.
    answering: Option<(Exchange, Option<Content>)>,
}

impl Exchanges {
    /// Those of a connection that goes on with the answer to this request.
    pub(super) fn of(request: Exchange) -> Self {
        Self { waiting: VecDeque::from([request]), ..Self::default() }
    }

    /// Bytes held of what is unfinished.
    pub(super) fn held(&self) -> usize {
        let content = |content: Option<&Content>| content.map_or(0, Content::held);
        let answering = self.answering.as_ref().and_then(|(_, content)| content.as_ref());
        content(self.asking.as_ref())
            + content(answering)
            + self.waiting.iter().map(Exchange::bytes).sum::<usize>()
    }

    /// How many requests wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is known of the request that is answered next what it is; `None`: there is none.
    pub(super) fn is_decided(&self) -> Option<bool> {
        self.waiting.front().map(|exchange| exchange.decided)
    }

    /// The method of the request that is answered next.
    pub(super) fn method(&self) -> Method {
        self.waiting.front().map_or(Method::Other, |exchange| exchange.method)
    }

    /// Whether an answer is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.answering.is_some()
    }

    /// What waits for its own rest waits for nothing now.
    pub(super) fn decide(&mut self) {
        self.waiting.iter_mut().for_each(|exchange| exchange.decided = true);
    }

    /// The rest of the request in progress does not come.
    pub(super) fn break_off(&mut self) {
        if self.asking.take().is_some()
            && let Some(last) = self.waiting.back_mut()
        {
            last.decided = true;
        }
    }

    /// The answer in progress, if any, is over without an end.
    pub(super) fn drop_answer(&mut self) {
        self.answering = None;
    }

    /// What waits was answered by what was lost, or was taken for the answer to something that was.
    pub(super) fn forget_waiting(&mut self, context: &mut Context<'_>) {
        context.counters.unpaired += self.waiting.len() as u64;
        self.waiting.clear();
        self.answering = None;
    }

    /// The request that is answered next, which its connection goes on with.
    pub(super) fn take_waiting(&mut self) -> Option<Exchange> {
        self.waiting.pop_front()
    }

    /// Requests that wait were not looked at: their client sends them again, to the same place.
    pub(super) fn refused(&mut self, time: Timestamp, context: &mut Context<'_>) {
        for exchange in &self.waiting {
            if let (Some(link), Some(body)) = (exchange.link, exchange.body) {
                let from = exchange.origin.as_ref().unwrap_or(&exchange.place);
                context.links.redirect(link, body, from.clone(), time);
            }
        }
    }

    /// An answer in progress in the middle of a stream of events, of which the beginning was not seen.
    pub(super) fn resume_events(&mut self, exchange: Exchange, content: Content) {
        self.answering = Some((exchange, Some(content)));
    }

    /// Bytes of a body were not captured. Says how many others are given up with them.
    pub(super) fn gap(&mut self, direction: Direction, cause: GapCause) -> u64 {
        self.content(direction).map_or(0, |content| content.gap(cause))
    }

    /// Frees what is held of a body. Says how much that was.
    pub(super) fn give_up(&mut self, direction: Direction) -> u64 {
        self.content(direction).map_or(0, Content::give_up)
    }

    fn content(&mut self, direction: Direction) -> Option<&mut Content> {
        match direction {
            Direction::ClientToServer => self.asking.as_mut(),
            Direction::ServerToClient => self.answering.as_mut().and_then(|(_, content)| content.as_mut()),
        }
    }

    /// The link that what is in progress belongs to, where that is known.
    pub(super) fn link(&self, direction: Direction, context: &Context<'_>) -> Option<ConnectionId> {
        match direction {
            Direction::ClientToServer => {
                let last = self.waiting.back().filter(|last| !last.decided);
                last.and_then(|last| context.links.find(last.names.session?))
            }
            Direction::ServerToClient => self.answering.as_ref().and_then(|(exchange, _)| exchange.link),
        }
    }

    /// The connection ended: so does the answer in progress, and the session of the older transport.
    pub(super) fn end(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        let is_unfinished = |content: &Option<Content>| content.as_ref().is_some_and(Content::is_unfinished);
        context.counters.unfinished += u64::from(is_unfinished(&self.asking));
        if let Some((mut exchange, mut content)) = self.answering.take() {
            context.counters.unfinished += u64::from(is_unfinished(&content));
            if let Some(content) = &mut content {
                content.end_events(&mut |piece| {
                    connection.answer_piece(piece, &mut exchange, time, context);
                });
            }
            connection.other_ends(&exchange, time, context);
            if let Some(link) = exchange.link.filter(|_| exchange.is_sse) {
                context.close(link, time);
            }
        }
    }
}
