//! Requests to APIs of models: what is no MCP and has their form.

use std::collections::HashSet;

use mcpwarden_policy::{
    ConnectionId, Input, ModelPart, ModelRequest, ModelTraffic, Timestamp,
    http::HttpOutput,
    intent::{IntentLimits, Request},
};

use super::Connected;
use crate::output::Sink;

/// Requests whose answers are wanted: by their streams, and their numbers there.
#[derive(Default)]
pub struct Models {
    open: HashSet<(ConnectionId, u64)>,
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
        self.new.push(stream);
        self.open.insert((stream, exchange));
        let request = ModelRequest {
            client: connected.client.clone(),
            address: connected.address.clone(),
            host: host.map(str::to_owned),
            request,
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
        let is_over = matches!(part, ModelPart::End { .. });
        let key = (stream, exchange);
        if if is_over { self.open.remove(&key) } else { self.open.contains(&key) } {
            sink(Input::Model(ModelTraffic { stream, exchange, time, part }).into());
        }
    }

    /// A stream is over: so are the answers over it.
    pub fn close(&mut self, stream: ConnectionId, time: Timestamp, sink: &mut Sink<'_>) {
        if self.open.is_empty() {
            return;
        }
        for (stream, exchange) in self.open.extract_if(|(open, _)| *open == stream) {
            let part = ModelPart::End { is_whole: false };
            sink(Input::Model(ModelTraffic { stream, exchange, time, part }).into());
        }
    }

    /// Streams over which such a request went for the first time.
    pub fn take_new(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.new)
    }
}
