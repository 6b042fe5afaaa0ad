//! HTTP/1.1 over one connection: its requests, its answers, and which belong together.

use std::collections::VecDeque;

use mcpwarden_terms::{Direction, GapCause, Timestamp};

use super::connection::{Connection, Reading};
use super::content::Content;
use super::exchange::Exchange;
use super::exchanges::{Exchanges, RefusedRequest};
use super::head::{self, ContentType, Method};
use super::http2::is_frames;
use super::reader::{Damage, Framing, Reader, Resumed, Side, Step};
use super::{Context, HttpLimits, Uninspected};

const ASKED: Direction = Direction::ClientToServer;
const ANSWERED: Direction = Direction::ServerToClient;

/// How many requests may wait for an answer. The official clients send the next one on another connection.
const MAX_WAITING: usize = 128;

/// Something of the answers that came before its request.
#[derive(Debug)]
pub(super) enum Held {
    Bytes(Vec<u8>, Timestamp),
    Gap(u64, GapCause, Timestamp),
}

impl Held {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Gap(..) => 0,
        }
    }
}

/// What each of them takes beside its bytes.
const HELD_BYTES: usize = size_of::<Held>();

/// From here on the connection speaks HTTP/2.
#[derive(Debug)]
pub(super) struct Switch {
    /// What the client wrote of it already, and what it read.
    pub(super) asked: Vec<u8>,
    pub(super) answered: Vec<u8>,
    /// A request that was made before, and is answered as the first stream (RFC 7540, section 3.2).
    pub(super) upgraded: Option<Exchange>,
    /// Answers that waited.
    pub(super) held: VecDeque<Held>,
    /// Whether it has gone on before: bytes of both directions are missing.
    pub(super) lost: Option<GapCause>,
}

/// One connection that speaks HTTP/1.1, as far as is known.
#[derive(Debug)]
pub(super) struct Http1 {
    requests: Reader,
    answers: Reader,
    exchanges: Exchanges,
    /// The request in progress waits for leave to send its body, and nothing of that came.
    expecting: bool,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Why requests, and answers, are missing since the last time that nothing was.
    requests_lost: Option<GapCause>,
    answers_lost: Option<GapCause>,
    /// Whether requests or answers were ever missing: then it is taken for granted that the client does not pipeline.
    is_doubtful: bool,
}

impl Http1 {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        Self {
            requests: Reader::new(Side::Requests, limits.head_bytes),
            answers: Reader::new(Side::Answers, limits.head_bytes),
            exchanges: Exchanges::default(),
            expecting: false,
            held: VecDeque::new(),
            held_bytes: 0,
            requests_lost: None,
            answers_lost: None,
            is_doubtful: false,
        }
    }

    /// Bytes held of what is unfinished.
    pub(super) fn held(&self) -> usize {
        self.requests.held() + self.answers.held() + self.held_bytes + self.exchanges.held()
    }

    /// Takes what the client wrote.
    pub(super) fn ask(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Option<Switch> {
        let lost = self.requests.lost();
        if let Some(skipped) = lost.filter(|_| is_frames(Side::Requests, bytes)) {
            connection.skipped((None, ASKED), skipped, self.requests_lost, time, context);
            return Some(self.switch(ASKED, bytes, context));
        }
        if let Some((_, skipped)) = self.requests.resume(bytes) {
            let link = self.exchanges.link(ASKED, context);
            connection.skipped((link, ASKED), skipped, self.requests_lost, time, context);
        }
        let mut rest = bytes;
        loop {
            if connection.reading != Reading::On {
                connection.uninspected(rest, context);
                return None;
            }
            // A client that is refused leave may send no body, or send it all the same (RFC 9110, section 10.1.1). JSON
            // does not begin with a letter; a request does.
            if self.expecting && rest.first().is_some_and(u8::is_ascii_uppercase) {
                self.stop(Uninspected::Ambiguous, connection, context);
                continue;
            }
            match self.requests.step(&mut rest) {
                Step::More => return None,
                Step::Binary if is_frames(Side::Requests, self.requests.buffer()) => {
                    return Some(self.switch(ASKED, rest, context));
                }
                Step::Binary => self.stop(Uninspected::NotHttp, connection, context),
                Step::Head(head) if head::is_preface(&head) => {
                    return Some(self.switch(ASKED, &[&head, rest].concat(), context));
                }
                Step::Head(head) => match head::request(&head) {
                    Ok(request) => self.request(request, connection, context),
                    Err(why) => self.stop(why, connection, context),
                },
                Step::Body(piece) => {
                    self.expecting = false;
                    self.exchanges.request_body(piece, time, connection, context);
                }
                Step::End => {
                    self.expecting = false;
                    self.exchanges.request_ends(time, connection, context);
                }
                Step::Fault(why) => self.stop(why, connection, context),
            }
            // At once: what follows in this piece may as well come in the next.
            if let Some(mut switch) = self.release(connection, context) {
                switch.asked.extend_from_slice(rest);
                return Some(switch);
            }
        }
    }

    /// The gate has refused a write of these bytes, which would have come next.
    pub(super) fn refused(
        &self,
        mut bytes: &[u8],
        time: Timestamp,
        connection: &Connection,
        context: &mut Context<'_>,
    ) {
        let mut requests = self.requests.clone();
        let mut request = self.exchanges.request_in_progress(context.limits.frame_bytes, time);
        loop {
            let is_over = match requests.step(&mut bytes) {
                Step::Head(head) => match head::request(&head) {
                    Ok(head) => {
                        requests.begin(head.framing);
                        request =
                            Some(RefusedRequest::new(head, &connection.peers, context.limits.frame_bytes));
                        false
                    }
                    Err(_) => true,
                },
                Step::Body(piece) => {
                    if let Some(request) = &mut request {
                        request.push(piece, time, connection, context);
                    }
                    false
                }
                Step::End => {
                    request.take().into_iter().for_each(|request| request.end(connection, context));
                    false
                }
                Step::More | Step::Binary | Step::Fault(_) => true,
            };
            if is_over {
                break;
            }
        }
        // The rest of what was refused in part does not come.
        request.into_iter().for_each(|request| request.end(connection, context));
    }

    fn request(
        &mut self,
        request: head::Request<'_>,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        if self.is_doubtful && (self.answers.lost().is_some() || self.answers.at_start()) {
            self.exchanges.forget_waiting(context);
        }
        match self.exchanges.waiting() {
            0 => self.requests_lost = None,
            MAX_WAITING.. => return self.stop(Uninspected::Pipelined, connection, context),
            _ => {}
        }
        self.requests.begin(request.framing);
        self.expecting = request.expects;
        connection.is_neutralized = false;
        self.exchanges.request(request, connection, context);
    }

    /// Takes what the client read.
    pub(super) fn answer(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Option<Switch> {
        if self.held.is_empty() {
            return self.read_answers(bytes, time, connection, context);
        }
        self.hold(bytes, time);
        None
    }

    /// Reads what waited, as far as it is known now whom it answers.
    fn release(&mut self, connection: &mut Connection, context: &mut Context<'_>) -> Option<Switch> {
        while self.is_ready()
            && let Some(held) = self.held.pop_front()
        {
            let mut rest = std::mem::take(&mut self.held);
            let switch = match held {
                Held::Bytes(bytes, time) => {
                    self.held_bytes = self.held_bytes.saturating_sub(bytes.len() + HELD_BYTES);
                    self.read_answers(&bytes, time, connection, context)
                }
                Held::Gap(bytes, cause, time) => {
                    self.held_bytes = self.held_bytes.saturating_sub(HELD_BYTES);
                    self.gap(ANSWERED, bytes, cause, time, connection, context);
                    None
                }
            };
            if let Some(mut switch) = switch {
                switch.held.append(&mut rest);
                return Some(switch);
            }
            if connection.reading != Reading::On {
                (self.held, self.held_bytes) = Default::default();
                return None;
            }
            // What is left of it comes before the rest.
            let left = std::mem::replace(&mut self.held, rest);
            left.into_iter().rev().for_each(|held| self.held.push_front(held));
        }
        None
    }

    fn hold(&mut self, bytes: &[u8], time: Timestamp) {
        self.held_bytes += bytes.len() + HELD_BYTES;
        self.held.push_back(Held::Bytes(bytes.to_vec(), time));
    }

    /// Whether it is known which request the next answer answers: or that it is not known at all.
    fn is_ready(&self) -> bool {
        !self.answers.at_start() || self.exchanges.is_decided().unwrap_or(self.requests_lost.is_some())
    }

    fn read_answers(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Option<Switch> {
        let lost = self.answers.lost();
        if let Some(skipped) = lost.filter(|_| is_frames(Side::Answers, bytes)) {
            connection.skipped((None, ANSWERED), skipped, self.answers_lost, time, context);
            return Some(self.switch(ANSWERED, bytes, context));
        }
        if let Some((resumed, skipped)) = self.answers.resume(bytes) {
            let cause = self.answers_lost.take();
            let link = self.exchanges.link(ANSWERED, context);
            connection.skipped((link, ANSWERED), skipped, cause, time, context);
            match resumed {
                Resumed::Message => self.exchanges.drop_answer(),
                Resumed::Body if self.exchanges.is_answering() => {}
                Resumed::Body => {
                    let limit = context.limits.frame_bytes;
                    let events = Content::new(ContentType::Events, &Default::default(), limit);
                    self.exchanges.resume_events(connection.unpaired(context), events);
                }
            }
        }
        let mut rest = bytes;
        loop {
            if connection.reading != Reading::On {
                connection.uninspected(rest, context);
                return None;
            }
            if !rest.is_empty() && !self.is_ready() {
                self.hold(rest, time);
                return None;
            }
            match self.answers.step(&mut rest) {
                Step::More => return None,
                Step::Binary if is_frames(Side::Answers, self.answers.buffer()) => {
                    return Some(self.switch(ANSWERED, rest, context));
                }
                Step::Binary => self.stop(Uninspected::NotHttp, connection, context),
                Step::Head(head) => {
                    if self.answer_head(&head, time, connection, context) {
                        return Some(self.switch(ANSWERED, rest, context));
                    }
                }
                Step::Body(piece) => self.exchanges.answer_body(piece, time, connection, context),
                Step::End => self.exchanges.answer_ends(time, connection, context),
                Step::Fault(why) => self.stop(why, connection, context),
            }
        }
    }

    /// Whether the connection goes on with HTTP/2.
    fn answer_head(
        &mut self,
        head: &[u8],
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> bool {
        let method = self.exchanges.method();
        let answer = match head::answer(head, method) {
            Ok(answer) => answer,
            Err(why) => {
                self.stop(why, connection, context);
                return false;
            }
        };
        match answer.status {
            101 => match answer.upgrade {
                None => return true,
                Some(why) => self.stop(why, connection, context),
            },
            // Another answer comes.
            100..200 => self.answers.begin(Framing::Length(0)),
            200..300 if method == Method::Connect => self.stop(Uninspected::Tunnel, connection, context),
            _ => {
                self.answers.begin(answer.framing);
                self.exchanges.answer(&answer, time, connection, context);
            }
        }
        false
    }

    fn switch(&mut self, direction: Direction, rest: &[u8], context: &mut Context<'_>) -> Switch {
        let upgraded = self.exchanges.take_waiting();
        self.exchanges.forget_waiting(context);
        let (mut asked, mut answered) = (self.requests.take(), self.answers.take());
        match direction {
            ASKED => asked.extend_from_slice(rest),
            ANSWERED => answered.extend_from_slice(rest),
        }
        let lost = self.requests_lost.or(self.answers_lost);
        (self.held_bytes, self.requests_lost, self.answers_lost) = (0, None, None);
        Switch { asked, answered, upgraded, held: std::mem::take(&mut self.held), lost }
    }

    /// The connection was closed.
    pub(super) fn close(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        // What waits for a request, or the rest of one, waits for nothing now.
        self.requests_lost.get_or_insert(GapCause::Unseen);
        self.exchanges.decide();
        self.release(connection, context);
        let unread = [
            (ASKED, self.requests.lost(), self.requests_lost),
            (ANSWERED, self.answers.lost(), self.answers_lost),
        ];
        for (direction, bytes, cause) in unread {
            let link = self.exchanges.link(direction, context);
            connection.skipped((link, direction), bytes.unwrap_or_default(), cause, time, context);
        }
        if self.answers.finish() {
            self.exchanges.answer_ends(time, connection, context);
        }
        self.exchanges.end(time, connection, context);
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
        if direction == ANSWERED && !self.held.is_empty() {
            self.held_bytes += HELD_BYTES;
            self.held.push_back(Held::Gap(bytes, cause, time));
            return;
        }
        let reader = match direction {
            ASKED => &mut self.requests,
            ANSWERED => &mut self.answers,
        };
        let head = reader.held() as u64;
        let damage = reader.gap(bytes);
        let given_up = self.exchanges.gap(direction, cause);
        let link = self.exchanges.link(direction, context);
        connection.say_gap((link, direction), bytes + head + given_up, cause, time, context);
        if direction == ASKED {
            self.expecting = false;
        }
        if damage == Damage::Lost {
            self.is_doubtful = true;
            match direction {
                ASKED => {
                    self.requests_lost = Some(cause);
                    self.exchanges.break_off();
                    self.release(connection, context);
                }
                ANSWERED => self.answers_lost = Some(cause),
            }
        }
    }

    /// Frees what is held.
    pub(super) fn give_up(
        &mut self,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let asked = self.exchanges.give_up(ASKED);
        let mut answered = self.exchanges.give_up(ANSWERED);
        if !self.held.is_empty() {
            answered += self.held.iter().map(Held::bytes).sum::<u64>();
            (self.held, self.held_bytes) = (VecDeque::new(), 0);
            self.gap(ANSWERED, 0, GapCause::Memory, time, connection, context);
        }
        for (direction, bytes) in [(ASKED, asked), (ANSWERED, answered)] {
            let link = self.exchanges.link(direction, context);
            connection.say_gap((link, direction), bytes, GapCause::Memory, time, context);
        }
        // What is known of requests that wait cannot be given up without mistaking an answer.
        if self.exchanges.waiting() > 1 {
            self.stop(Uninspected::Pipelined, connection, context);
        }
    }

    /// Nothing of this connection can be read from here on.
    fn stop(&mut self, why: Uninspected, connection: &mut Connection, context: &mut Context<'_>) {
        self.exchanges = Exchanges::default();
        (self.held, self.held_bytes) = (VecDeque::new(), 0);
        self.requests.restart();
        self.answers.restart();
        connection.stop(why, context);
    }
}
