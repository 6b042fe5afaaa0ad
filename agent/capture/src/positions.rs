//! What was captured, compared with the positions that the kernel half counted.

use mcpwarden_abi as abi;
use mcpwarden_policy::Timestamp;

use super::{Capture, outlet::Outlet, output::Sink, pressure::account, stream::Stream};

impl Capture {
    /// Compares with the kernel's positions, when everything in the ring was read. See `Stream::look`.
    pub fn look(&mut self, id: u64, kernel: &[abi::Stream; 2], now: Timestamp, sink: &mut Sink<'_>) {
        self.each_stream(id, sink, |index, stream, out| stream.look(&kernel[index], now, out));
    }

    /// The directions of a connection of which it is to be found out whether bytes went by unseen: whether somebody on
    /// the client's side is in the middle of a call, and how much waits to be read.
    pub fn suspects(&self, id: u64) -> [bool; 2] {
        let described = self.connections.get(&id).filter(|connection| connection.described);
        let streams = described.map(|connection| &connection.streams);
        [0, 1].map(|index| streams.is_some_and(|streams| streams[index].is_suspect()))
    }

    /// Nobody on the client's side is in the middle of a call in the directions that have a number: how many bytes wait
    /// to be read there, at most. See `Stream::judge`.
    pub fn judge(
        &mut self,
        id: u64,
        kernel: &[abi::Stream; 2],
        waiting: [Option<u64>; 2],
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        self.each_stream(id, sink, |index, stream, out| {
            if let Some(waiting) = waiting[index] {
                stream.judge(&kernel[index], waiting, now, out);
            }
        });
    }

    /// Nobody holds the connection any more, and everything in the ring was read. See `Stream::settle`.
    pub fn settle(&mut self, id: u64, kernel: &[abi::Stream; 2], now: Timestamp, sink: &mut Sink<'_>) {
        let seen = self
            .connections
            .get(&id)
            .is_some_and(|connection| connection.streams.iter().any(Stream::has_frames));
        self.each_stream(id, sink, |index, stream, out| {
            stream.settle(&kernel[index], seen, now, out);
        });
    }

    /// Does something with both streams of a connection whose exec record came.
    fn each_stream(
        &mut self,
        id: u64,
        sink: &mut Sink<'_>,
        mut body: impl FnMut(usize, &mut Stream, &mut Outlet<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            return;
        }
        for index in 0..2 {
            let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
            body(index, &mut connection.streams[index], out);
            account(&mut self.memory, connection, index);
        }
    }
}
