//! Requests whose writes the gate refused: they are read as far as they go, and nothing of them is remembered.

use mcpwarden_terms::{ConnectionId, Timestamp};

use super::Exchanges;
use crate::connection::Connection;
use crate::content::{Content, Piece};
use crate::head::{ContentType, Request};
use crate::link::{Names, RequestTarget};
use crate::{Context, HttpOutput, Peers};

/// A request that the client was not let write, or not to its end.
pub(crate) struct RefusedRequest {
    names: Names,
    content: Content,
}

impl RefusedRequest {
    /// One whose head was refused.
    pub(crate) fn new(request: Request<'_>, peers: &Peers, frame_bytes: usize) -> Self {
        let place = RequestTarget::new(peers.client, peers.server, request.host, request.path);
        let names = Names::of(&place, request.session, request.target);
        Self { names, content: Content::new(ContentType::Json, &request.coding, frame_bytes) }
    }

    /// Takes the next bytes of its body.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        connection: &Connection,
        context: &mut Context<'_>,
    ) {
        let names = self.names;
        self.content.push(bytes, time, &mut |piece| hand_on(&piece, names, connection, context));
    }

    /// Nothing more comes of it.
    pub(crate) fn end(mut self, connection: &Connection, context: &mut Context<'_>) {
        let names = self.names;
        self.content.end(&mut |piece| hand_on(&piece, names, connection, context));
    }
}

impl Exchanges {
    /// The request in progress, as if all of it so far was refused; `None` where there is none, or its body cannot be read again.
    pub(crate) fn request_in_progress(&self, frame_bytes: usize, time: Timestamp) -> Option<RefusedRequest> {
        let exchange = self.waiting.back().filter(|last| !last.decided)?;
        let text = self.asking.as_ref()?.json()?;
        let mut content = Content::new(ContentType::Json, &Default::default(), frame_bytes);
        content.push(text, time, &mut |_| {});
        Some(RefusedRequest { names: exchange.names, content })
    }
}

fn hand_on(piece: &Piece<'_>, names: Names, connection: &Connection, context: &mut Context<'_>) {
    let Piece::Json { bytes, time } = *piece else { return };
    if let Some(link) = link_of(names, connection, context).filter(|link| context.links.is_wanted(*link)) {
        (context.sink)(HttpOutput::Stopped { link, stream: connection.id, time, bytes, is_refused: true });
    }
}

/// Whose request it is, where its client was heard of before.
fn link_of(names: Names, connection: &Connection, context: &Context<'_>) -> Option<ConnectionId> {
    let names = [names.session, Some(names.endpoint), Some(names.stateless), Some(names.anonymous)];
    let known = names.into_iter().flatten().find_map(|name| context.links.find(name));
    known.or_else(|| connection.likely_link(context))
}
