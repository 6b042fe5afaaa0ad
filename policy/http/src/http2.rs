//! HTTP/2 over one connection (RFC 9113): each of its streams is a request and its answer, which are read as those of
//! HTTP/1.1 are.
//!
//! **Late, or with gaps.** Behind a gap, frames are found again where a piece begins with one. Fields of heads that refer to
//! others which were not seen are unknown (see `hpack`): the body of such a message is read all the same, and belongs to
//! the last link of its connection, where its head does not say another.
//!
//! **What is invalid ends it.** Where the two ends must close the connection, nothing more of it is read, and that is said.

mod error;
mod frame;
mod head;
mod hpack;
pub(super) mod huffman;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

pub use error::Http2Error;
pub(super) use frame::is_frames;
use frame::{Block, Damage, Frames, Step};
use hpack::{Decoder, is_needed};
use stream::{Item, Stream};

use super::connection::{Connection, Reading};
use super::exchange::Exchange;
use super::reader::Side;
use super::{Context, Uninspected};

const ASKED: Direction = Direction::ClientToServer;
const ANSWERED: Direction = Direction::ServerToClient;

/// Most streams that are open at once; beyond, the one that nothing was said on for longest is forgotten. Servers allow 100
/// to 250.
const MAX_STREAMS: usize = 256;
/// The stream of a request that was made before the connection spoke HTTP/2 (RFC 7540, section 3.2).
const UPGRADED: u32 = 1;

/// One direction.
#[derive(Debug)]
struct Half {
    frames: Frames,
    hpack: Decoder,
    /// Why bytes are missing since the last time that none were.
    lost: Option<GapCause>,
}

/// One connection that speaks HTTP/2.
#[derive(Debug)]
pub(super) struct Http2 {
    asked: Half,
    answered: Half,
    streams: BTreeMap<u32, Stream>,
    /// The streams by when something was said on them last.
    by_age: BTreeMap<u64, u32>,
    clock: u64,
    /// The highest stream of a request.
    last: u32,
    /// Whether there may be streams whose requests were not seen, or were forgotten.
    is_partial: bool,
    told_full: bool,
}

impl Http2 {
    /// A connection that begins, or one that has gone on before and of which bytes of both directions are missing. It may
    /// begin with the answer to a request of HTTP/1.1.
    pub(super) fn new(upgraded: Option<Exchange>, lost: Option<GapCause>, context: &mut Context<'_>) -> Self {
        context.counters.h2_connections += 1;
        let half = |side| Half {
            frames: Frames::new(side, context.limits.head_bytes, lost.is_some()),
            hpack: Decoder::new(is_needed),
            lost,
        };
        let mut http = Self {
            asked: half(Side::Requests),
            answered: half(Side::Answers),
            streams: BTreeMap::new(),
            by_age: BTreeMap::new(),
            clock: 0,
            last: 0,
            is_partial: false,
            told_full: false,
        };
        if lost.is_some() {
            http.miss_heads();
        }
        if let Some(exchange) = upgraded {
            http.streams.insert(UPGRADED, Stream::of(exchange));
            http.touch(UPGRADED);
            http.last = UPGRADED;
        }
        http
    }

    /// Bytes held of what is unfinished, and of tables.
    pub(super) fn held(&self) -> usize {
        let half = |half: &Half| half.frames.held() + half.hpack.held();
        half(&self.asked) + half(&self.answered) + self.streams.values().map(Stream::held).sum::<usize>()
    }

    /// Takes what the client wrote, or read.
    pub(super) fn push(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let mut rest = bytes;
        let half = self.half(direction);
        if let Some(skipped) = half.frames.resume(bytes) {
            let cause = half.lost;
            connection.skipped((None, direction), skipped, cause, time, context);
        }
        loop {
            if connection.reading != Reading::On {
                return connection.uninspected(rest, context);
            }
            let step = self.half(direction).frames.step(&mut rest);
            if !self.is_partial && self.half(direction).frames.is_partial() {
                self.miss_heads();
            }
            match step {
                Step::More => return,
                Step::Head(block) => self.head(direction, block, time, connection, context),
                Step::Data { stream, bytes } => {
                    self.say(direction, stream, Item::Body(bytes.into()), time, connection, context);
                }
                Step::End { stream } => self.say(direction, stream, Item::End, time, connection, context),
                Step::Reset { stream, is_refused } => {
                    self.reset(stream, is_refused && direction == ANSWERED, time, connection, context);
                }
                Step::GoAway { last } if direction == ANSWERED => {
                    let refused: Vec<u32> =
                        self.streams.range(last.saturating_add(1)..).map(|(number, _)| *number).collect();
                    for number in refused {
                        self.reset(number, true, time, connection, context);
                    }
                }
                Step::GoAway { .. } => {}
                Step::Fault(error) => self.fault(direction, error, time, connection, context),
            }
        }
    }

    fn half(&mut self, direction: Direction) -> &mut Half {
        match direction {
            ASKED => &mut self.asked,
            ANSWERED => &mut self.answered,
        }
    }

    /// Heads of both directions may be missing before this.
    fn miss_heads(&mut self) {
        self.is_partial = true;
        for half in [&mut self.asked, &mut self.answered] {
            half.frames.join();
            half.hpack.lose();
        }
    }

    fn head(
        &mut self,
        direction: Direction,
        block: Block,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let Block { stream, is_promise, bytes, left_out, ends } = block;
        let half = self.half(direction);
        let (mut head, decoded) = half.hpack.decode(&bytes, context.limits.head_bytes);
        if left_out > 0 {
            // What stands in the rest is not known, and whether it changed the table neither.
            half.hpack.lose();
            head.is_cut = true;
            connection.unread += left_out;
        } else if let Err(error) = decoded {
            return self.fault(direction, error, time, connection, context);
        }
        context.counters.heads_cut += u64::from(head.is_cut);
        context.counters.head_fields_unknown += head.unknown;
        // What a server answers unasked is no answer to a client of MCP.
        if is_promise {
            return;
        }
        self.say(direction, stream, Item::Head(head, !ends), time, connection, context);
        if ends {
            self.say(direction, stream, Item::End, time, connection, context);
        }
    }

    /// One side says something on a stream.
    fn say(
        &mut self,
        direction: Direction,
        number: u32,
        item: Item<'_>,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let is_request = direction == ASKED && matches!(item, Item::Head(..));
        // An answer may come before its request; one on a stream that is over, and one that was promised, are nobody's.
        let is_promised = direction == ANSWERED && number.is_multiple_of(2);
        let is_awaited = direction == ANSWERED && number > self.last;
        if !self.streams.contains_key(&number) {
            if is_promised || (!is_request && !is_awaited && !self.is_partial) {
                connection.unread += item.bytes();
                return;
            }
            self.admit(time, connection, context);
            self.streams.insert(number, Stream::default());
        }
        if is_request {
            self.last = self.last.max(number);
        }
        self.touch(number);
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.is_partial |= self.is_partial;
        match direction {
            ASKED => stream.ask(item, time, connection, context),
            ANSWERED => stream.answer(item, time, connection, context),
        }
        stream.release(connection, context);
        if stream.is_over() {
            self.forget(number);
        }
    }

    /// Makes capacity for one more stream.
    fn admit(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        while self.streams.len() >= MAX_STREAMS
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            context.counters.h2_streams_dropped += 1;
            self.is_partial = true;
            if let Some(mut stream) = self.streams.remove(&oldest) {
                stream.end(time, connection, context);
                let link = connection.links.back().copied();
                // Behind a gap, it may be that the answers were lost.
                let is_certain = ![&self.asked, &self.answered].iter().any(|half| half.frames.is_partial());
                if is_certain && connection.is_known() && !std::mem::replace(&mut self.told_full, true) {
                    connection.say_uninspected(Uninspected::Pipelined, link, context);
                }
            }
        }
    }

    fn touch(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        self.clock += 1;
        self.by_age.remove(&std::mem::replace(&mut stream.age, self.clock));
        self.by_age.insert(self.clock, number);
    }

    fn forget(&mut self, number: u32) {
        if let Some(stream) = self.streams.remove(&number) {
            self.by_age.remove(&stream.age);
        }
    }

    /// A stream is over; what was said on it stands. A request that was refused may be sent again.
    fn reset(
        &mut self,
        number: u32,
        is_refused: bool,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        if let Some(stream) = self.streams.get_mut(&number) {
            if is_refused {
                stream.refused(time, context);
            }
            stream.end(time, connection, context);
        }
        self.forget(number);
    }

    /// What no reader accepts. Behind a gap it may be no frame at all.
    fn fault(
        &mut self,
        direction: Direction,
        error: Http2Error,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        context.counters.h2_faults += 1;
        if self.half(direction).lost.is_some() {
            return self.gap(direction, 0, GapCause::Unseen, time, connection, context);
        }
        (self.streams, self.by_age) = (BTreeMap::new(), BTreeMap::new());
        connection.stop(Uninspected::Http2(error), context);
    }

    /// Bytes of one direction were not captured.
    pub(super) fn gap(
        &mut self,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let half = self.half(direction);
        let held = half.frames.held() as u64;
        let damage = half.frames.gap(bytes);
        let (mut lost, mut link) = (bytes, None);
        match damage {
            Damage::Nothing => {}
            Damage::Body(number) => {
                if let Some(stream) = self.streams.get_mut(&number) {
                    lost += stream.gap(direction, cause, time);
                    link = stream.link(direction, context);
                }
            }
            Damage::Lost => {
                half.lost = Some(cause);
                half.hpack.lose();
                self.is_partial = true;
                lost += held;
                for stream in self.streams.values_mut() {
                    lost += stream.gap(direction, cause, time);
                    stream.lose(direction);
                    stream.is_partial = true;
                    stream.release(connection, context);
                }
            }
        }
        connection.say_gap((link, direction), lost, cause, time, context);
        // What the gap ends is over.
        if damage != Damage::Lost {
            self.push(direction, &[], time, connection, context);
        }
    }

    /// The connection was closed.
    pub(super) fn close(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        let lost = [(ASKED, &self.asked), (ANSWERED, &self.answered)];
        let lost = lost.map(|(direction, half)| (direction, half.frames.lost(), half.lost));
        for (direction, bytes, cause) in lost {
            connection.skipped((None, direction), bytes.unwrap_or_default(), cause, time, context);
        }
        for (_, mut stream) in std::mem::take(&mut self.streams) {
            stream.end(time, connection, context);
        }
    }

    /// Frees what is held.
    pub(super) fn give_up(
        &mut self,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        for direction in [ASKED, ANSWERED] {
            let mut lost = 0;
            let mut link: Option<ConnectionId> = None;
            for stream in self.streams.values_mut() {
                let given_up = stream.give_up(direction);
                link = link.or(stream.link(direction, context).filter(|_| given_up > 0));
                lost += given_up;
            }
            connection.say_gap((link, direction), lost, GapCause::Memory, time, context);
        }
        // Heads that wait, and the tables: what refers to them is unknown.
        self.miss_heads();
        for (_, mut stream) in std::mem::take(&mut self.streams) {
            stream.end(time, connection, context);
        }
        self.by_age.clear();
    }
}
