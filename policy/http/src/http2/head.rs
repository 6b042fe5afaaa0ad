//! What a head of HTTP/2 says (RFC 9113, section 8.3), as far as it matters here and is known.

use httparse::Header;

use super::hpack::Head;
use crate::Uninspected;
use crate::coding::Coding;
use crate::head::{Answer, ContentType, Fields, Method, Request, text};
use crate::reader::Framing;

/// Of DATA frames, whose end the last one says.
const FRAMING: Framing = Framing::Close;
/// Where it is not known where a request goes.
const UNKNOWN_PATH: &str = "/";

impl Head {
    fn headers(&self) -> Vec<Header<'_>> {
        self.fields.iter().map(|(name, value)| Header { name, value }).collect()
    }

    /// What a request says; whether it has a body tells what it is, where nothing else does.
    ///
    /// # Errors
    /// It can be read in more than one way.
    pub(super) fn with_request<T>(
        &self,
        has_body: bool,
        take: impl FnOnce(Request<'_>) -> T,
    ) -> Result<T, Uninspected> {
        let headers = self.headers();
        let fields = Fields { headers: &headers };
        let must_be_there = !self.is_partial();
        let method = match fields.once(":method")? {
            Some(method) => Method::of(method),
            None if must_be_there => return Err(Uninspected::Ambiguous),
            None if has_body => Method::Post,
            None => Method::Get,
        };
        let target = match fields.once(":path")?.and_then(text) {
            Some(target) => target,
            // Only of CONNECT is there none (RFC 9113, section 8.5).
            None if must_be_there && method != Method::Connect => return Err(Uninspected::Ambiguous),
            None => UNKNOWN_PATH,
        };
        let host = match (fields.once(":authority")?.and_then(text), fields.once("host")?.and_then(text)) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                return Err(Uninspected::Ambiguous);
            }
            (authority, host) => authority.or(host),
        };
        let mut request = fields.request(method, host, target, FRAMING)?;
        if self.is_partial() {
            request.is_partial = true;
            request.accepts_events |= fields.get("accept").is_none();
            self.assume_coding(&fields, &mut request.coding);
        }
        Ok(take(request))
    }

    /// What an answer says.
    ///
    /// # Errors
    /// It can be read in more than one way.
    pub(super) fn with_answer<T>(&self, take: impl FnOnce(Answer<'_>) -> T) -> Result<T, Uninspected> {
        let headers = self.headers();
        let fields = Fields { headers: &headers };
        let status = match fields.once(":status")?.and_then(text) {
            Some(status) => status.parse().map_err(|_| Uninspected::Ambiguous)?,
            None if self.is_partial() => 200,
            None => return Err(Uninspected::Ambiguous),
        };
        let mut answer = fields.answer(status, FRAMING)?;
        if self.is_partial() {
            if fields.get("content-type").is_none() {
                answer.content = ContentType::Both;
            }
            self.assume_coding(&fields, &mut answer.coding);
        }
        Ok(take(answer))
    }

    /// Whether a request asks for something else than an answer (RFC 8441).
    pub(super) fn is_websocket(&self) -> bool {
        self.fields
            .iter()
            .any(|(name, value)| &**name == ":protocol" && value.eq_ignore_ascii_case(b"websocket"))
    }

    fn assume_coding(&self, fields: &Fields<'_, '_>, coding: &mut Coding) {
        if fields.get("content-encoding").is_none() {
            *coding = Coding::Unsaid;
        }
    }
}

/// An answer of which only a part of the body is known.
pub(super) fn unknown_answer() -> Answer<'static> {
    Answer {
        status: 0,
        session: None,
        content: ContentType::Both,
        location: None,
        request_id: None,
        coding: Coding::Unsaid,
        framing: FRAMING,
        upgrade: None,
    }
}
