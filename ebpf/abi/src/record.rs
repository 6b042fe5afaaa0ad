//! Records as they lie in the ring, taken apart with their lengths checked.

use crate::{
    ConnectInfo, ExecInfo, GateInfo, RECORD_CONNECT, RECORD_DATA, RECORD_EXEC, RECORD_EXIT, RECORD_GAP,
    RECORD_GATE, RECORD_REFUSED, RECORD_SOCKET, RECORD_SOCKET_CLOSED, RecordHeader, Stream,
};

/// A value of which any bytes are one: `repr(C)`, integers alone, no padding.
///
/// # Safety
/// That is so.
pub unsafe trait Plain: Copy + 'static {}

/// One record.
#[derive(Debug)]
pub enum Record<'a> {
    /// Bytes of a channel.
    Data(RecordHeader, &'a [u8]),
    /// Bytes of a channel went by without being captured; `value` says how many.
    Gap(RecordHeader),
    /// Bytes of a write that is refused; a [`Record::Gate`] comes behind the last of them.
    Refused(RecordHeader, &'a [u8]),
    /// The gate did something to a write, or could not tell what it asks for.
    Gate(RecordHeader, GateInfo),
    /// A process whose stdin and stdout are a connection runs a program; its argv, NUL-separated.
    Exec(RecordHeader, ExecInfo, &'a [u8]),
    /// A watched process ended; `value` is its wait status.
    Exit(RecordHeader),
    /// A process connects, or sends to an address.
    Connect(RecordHeader, ConnectInfo),
    /// The bytes of a TCP connection are captured from now on.
    Socket(RecordHeader, ConnectInfo),
    /// It has ended: how far it was.
    SocketClosed(RecordHeader, [Stream; 2]),
}

impl Record<'_> {
    /// What every record begins with.
    pub fn header(&self) -> &RecordHeader {
        match self {
            Self::Data(header, _)
            | Self::Gap(header)
            | Self::Refused(header, _)
            | Self::Gate(header, _)
            | Self::Exec(header, ..)
            | Self::Exit(header)
            | Self::Connect(header, _)
            | Self::Socket(header, _)
            | Self::SocketClosed(header, _) => header,
        }
    }
}

/// Takes a record apart; `None` where it is too short for what it says of itself, or of an unknown kind.
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let header: RecordHeader = read(bytes)?;
    let rest = bytes.get(size_of::<RecordHeader>()..)?;
    match header.kind {
        RECORD_DATA => Some(Record::Data(header, rest.get(..header.length as usize)?)),
        RECORD_GAP => Some(Record::Gap(header)),
        RECORD_REFUSED => Some(Record::Refused(header, rest.get(..header.length as usize)?)),
        RECORD_GATE => Some(Record::Gate(header, read(rest)?)),
        RECORD_EXEC => {
            let info: ExecInfo = read(rest)?;
            let argv = rest.get(size_of::<ExecInfo>()..)?.get(..header.length as usize)?;
            Some(Record::Exec(header, info, argv))
        }
        RECORD_EXIT => Some(Record::Exit(header)),
        RECORD_CONNECT => Some(Record::Connect(header, read(rest)?)),
        RECORD_SOCKET => Some(Record::Socket(header, read(rest)?)),
        RECORD_SOCKET_CLOSED => {
            let second = rest.get(size_of::<Stream>()..)?;
            Some(Record::SocketClosed(header, [read(rest)?, read(second)?]))
        }
        _ => None,
    }
}

/// Reads a plain value from the start of `bytes`.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    let source = bytes.get(..size_of::<T>())?;
    // SAFETY: `source` holds size_of::<T>() bytes, and `Plain` says that any bytes are a T.
    Some(unsafe { core::ptr::read_unaligned(source.as_ptr().cast()) })
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;

    fn bytes_of(header: RecordHeader, payload: &[u8]) -> Vec<u8> {
        let pointer = (&raw const header).cast::<u8>();
        // SAFETY: a header is plain bytes without padding.
        let mut bytes = unsafe { std::slice::from_raw_parts(pointer, size_of::<RecordHeader>()) }.to_vec();
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn record_lengths_are_validated() {
        let header = |kind, length| RecordHeader { kind, length, ..Default::default() };
        let cases: [(&str, Vec<u8>, bool); 15] = [
            ("empty", Vec::new(), false),
            ("half a header", vec![1; 10], false),
            ("unknown kind", bytes_of(header(99, 0), b""), false),
            ("data", bytes_of(header(RECORD_DATA, 3), b"abcd"), true),
            ("data longer than the record", bytes_of(header(RECORD_DATA, 5), b"abcd"), false),
            ("exec without its facts", bytes_of(header(RECORD_EXEC, 0), b"abcd"), false),
            ("connect without its facts", bytes_of(header(RECORD_CONNECT, 0), b"abcd"), false),
            ("socket without its facts", bytes_of(header(RECORD_SOCKET, 0), b"abcd"), false),
            ("socket closed", bytes_of(header(RECORD_SOCKET_CLOSED, 0), &[0; 48]), true),
            ("socket closed with one stream", bytes_of(header(RECORD_SOCKET_CLOSED, 0), &[0; 47]), false),
            ("gate", bytes_of(header(RECORD_GATE, 0), &[0; 24]), true),
            ("gate without its facts", bytes_of(header(RECORD_GATE, 0), &[0; 23]), false),
            ("refused", bytes_of(header(RECORD_REFUSED, 3), b"abc"), true),
            ("refused, longer than the record", bytes_of(header(RECORD_REFUSED, 4), b"abc"), false),
            ("exit", bytes_of(header(RECORD_EXIT, 0), b""), true),
        ];
        for (name, bytes, good) in cases {
            assert_eq!(parse(&bytes).is_some(), good, "{name}");
        }
        match parse(&bytes_of(header(RECORD_DATA, 3), b"abcd")) {
            Some(Record::Data(_, data)) => assert_eq!(data, b"abc"),
            other => panic!("{other:?}"),
        }
    }
}
