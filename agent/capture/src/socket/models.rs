//! Requests to APIs of models: what is no MCP and has their form.

use std::collections::{BTreeSet, HashMap};

use mcpwarden_policy::{
    ConnectionId, Input, ModelPart, ModelRequest, ModelTraffic, Timestamp,
    http::HttpOutput,
    intent::{IntentLimits, Request},
};

use super::Connected;
use crate::output::Sink;

/// Most requests of one stream whose answers are waited for: the answers of more were cut off, and nothing said so.
const MOST_OPEN: usize = 128;

/// Requests whose answers are wanted: their numbers, by stream.
#[derive(Default)]
pub struct Models {
    open: HashMap<ConnectionId, BTreeSet<u64>>,
    /// Streams over which the first one went just now.
    new: Vec<ConnectionId>,
}

impl Models {
    /// A request that is no MCP.
    pub fn request(
        &mut self,
        connected: &Connected,
        (stream, exchange): (ConnectionId, u64),
        (host, bytes): (Option<&str>, &[u8]),
        time: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        let Some(request) = Request::of(bytes, &IntentLimits::default()) else { return };
        let open = self.open.entry(stream).or_default();
        if open.is_empty() {
            self.new.push(stream);
        }
        open.insert(exchange);
        if open.len() > MOST_OPEN
            && let Some(exchange) = open.pop_first()
        {
            break_off((stream, exchange), time, sink);
        }
        let request = ModelRequest {
            client: connected.client.clone(),
            address: connected.address.clone(),
            host: host.map(str::to_owned),
            model: request.model.map(String::from),
        };
        let part = ModelPart::Request(Box::new(request));
        sink(Input::Model(ModelTraffic { stream, exchange, time, part }).into());
    }

    /// A part of the answer to one.
    pub fn answer(&mut self, output: &HttpOutput<'_>, sink: &mut Sink<'_>) {
        let (stream, exchange, time, part) = match *output {
            HttpOutput::OtherAnswer { stream, exchange, time, request_id, bytes } => {
                (stream, exchange, time, ModelPart::Answer { request_id, bytes })
            }
            HttpOutput::OtherEnd { stream, exchange, time, is_whole, .. } => {
                (stream, exchange, time, ModelPart::End { is_whole })
            }
            _ => return,
        };
        let Some(open) = self.open.get_mut(&stream) else { return };
        let is_over = matches!(part, ModelPart::End { .. });
        let is_wanted = if is_over { open.remove(&exchange) } else { open.contains(&exchange) };
        if is_wanted {
            sink(Input::Model(ModelTraffic { stream, exchange, time, part }).into());
        }
    }

    /// A stream is over: so are the answers over it.
    pub fn close(&mut self, stream: ConnectionId, time: Timestamp, sink: &mut Sink<'_>) {
        for exchange in self.open.remove(&stream).unwrap_or_default() {
            break_off((stream, exchange), time, sink);
        }
    }

    /// Streams over which such a request went for the first time.
    pub fn take_new(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.new)
    }
}

/// The rest of an answer does not come.
fn break_off((stream, exchange): (ConnectionId, u64), time: Timestamp, sink: &mut Sink<'_>) {
    let part = ModelPart::End { is_whole: false };
    sink(Input::Model(ModelTraffic { stream, exchange, time, part }).into());
}
