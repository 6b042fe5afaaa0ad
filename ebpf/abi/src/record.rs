//! Records as they lie in the ring, taken apart with their lengths checked.

use crate::{
    ConnectInfo, ExecInfo, GATE_TEXT_BYTES, GateInfo, RECORD_CONNECT, RECORD_DATA, RECORD_EXEC, RECORD_EXIT,
    RECORD_GAP, RECORD_GATE, RECORD_REFUSED, RECORD_REWRITTEN, RECORD_SOCKET, RECORD_SOCKET_CLOSED,
    RecordHeader, SoFar, SocketInfo,
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
    /// The gate rewrites bytes of a write: the text, and then the bytes of the client; a [`Record::Gate`] comes behind it.
    Rewritten(RecordHeader, &'a [u8], &'a [u8]),
    /// The gate did something to a write, or could not tell what it asks for.
    Gate(RecordHeader, GateInfo),
    /// A process whose stdin and stdout are a connection runs a program; its argv, NUL-separated.
    Exec(RecordHeader, ExecInfo, &'a [u8]),
    /// A watched process ended; `value` is its wait status.
    Exit(RecordHeader),
    /// A process connects, or sends to an address.
    Connect(RecordHeader, ConnectInfo),
    /// The bytes of a connection of sockets are captured from now on.
    Socket(RecordHeader, SocketInfo),
    /// It has ended: how far it was.
    SocketClosed(RecordHeader, SoFar),
}

impl Record<'_> {
    /// What every record begins with.
    pub fn header(&self) -> &RecordHeader {
        match self {
            Self::Data(header, _)
            | Self::Gap(header)
            | Self::Refused(header, _)
            | Self::Rewritten(header, ..)
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
        RECORD_REWRITTEN => {
            let (text, bytes) = rest.get(..header.length as usize)?.split_at_checked(GATE_TEXT_BYTES)?;
            Some(Record::Rewritten(header, text.get(..header.value as usize)?, bytes))
        }
        RECORD_GATE => Some(Record::Gate(header, read(rest)?)),
        RECORD_EXEC => {
            let info: ExecInfo = read(rest)?;
            let argv = rest.get(size_of::<ExecInfo>()..)?.get(..header.length as usize)?;
            Some(Record::Exec(header, info, argv))
        }
        RECORD_EXIT => Some(Record::Exit(header)),
        RECORD_CONNECT => Some(Record::Connect(header, read(rest)?)),
        RECORD_SOCKET => Some(Record::Socket(header, read(rest)?)),
        RECORD_SOCKET_CLOSED => Some(Record::SocketClosed(header, read(rest)?)),
        _ => None,
    }
}

/// Reads a plain value from the start of `bytes`.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    let source = bytes.get(..size_of::<T>())?;
    // SAFETY: `source` holds size_of::<T>() bytes, and `Plain` says that any bytes are a T.
    Some(unsafe { core::ptr::read_unaligned(source.as_ptr().cast()) })
}

/// The bytes of a plain value, as [`read`] takes them.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` says that it has no padding, and the slice lives no longer than the value.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// What of a record says something: the reserved memory of one can be longer than its bytes.
pub fn used(bytes: &[u8]) -> &[u8] {
    let extra = |header: &RecordHeader| match header.kind {
        RECORD_DATA | RECORD_REFUSED | RECORD_REWRITTEN => Some(header.length as usize),
        RECORD_EXEC => Some(size_of::<ExecInfo>() + header.length as usize),
        _ => None,
    };
    let used = read::<RecordHeader>(bytes).as_ref().and_then(extra);
    used.and_then(|extra| bytes.get(..size_of::<RecordHeader>() + extra)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::*;
    use crate::ARGV_BYTES;

    fn record(header: RecordHeader, payload: &[u8]) -> Vec<u8> {
        [bytes_of(&header), payload].concat()
    }

    #[test]
    fn used_bytes_end_where_the_header_says() {
        let header = |kind, length| RecordHeader { kind, length, ..Default::default() };
        let own = size_of::<RecordHeader>();
        // Name, kind, length that the header says, bytes that follow it, how many of them are used.
        for (name, kind, length, follow, expected) in [
            ("data in a larger class", RECORD_DATA, 3, 200, 3),
            ("data that fills its class", RECORD_DATA, 200, 200, 200),
            ("data that is cut off", RECORD_DATA, 300, 200, 200),
            ("data with the longest length", RECORD_DATA, u32::MAX, 200, 200),
            ("no data", RECORD_DATA, 0, 200, 0),
            ("a refused write", RECORD_REFUSED, 7, 200, 7),
            ("a gap", RECORD_GAP, 0, 0, 0),
            ("a gap with something behind", RECORD_GAP, 0, 9, 9),
            ("an exit", RECORD_EXIT, 0, 0, 0),
            ("an exec", RECORD_EXEC, 5, size_of::<ExecInfo>() + ARGV_BYTES, size_of::<ExecInfo>() + 5),
            ("an exec that is cut off", RECORD_EXEC, 5, 9, 9),
            ("a kind that nobody knows", 99, 5, 9, 9),
        ] {
            let record = record(header(kind, length), &vec![0; follow]);
            assert_eq!(used(&record).len(), own + expected, "{name}");
            assert_eq!(parse(&record).is_some(), parse(used(&record)).is_some(), "{name}");
        }
        assert_eq!(used(&[1, 2]), [1, 2], "no header");
    }

    #[test]
    fn record_lengths_are_validated() {
        let header = |kind, length| RecordHeader { kind, length, ..Default::default() };
        let rewritten = |value, length| RecordHeader { value, ..header(RECORD_REWRITTEN, length) };
        let cases: [(&str, Vec<u8>, bool); 20] = [
            ("empty", Vec::new(), false),
            ("half a header", vec![1; 10], false),
            ("unknown kind", record(header(99, 0), b""), false),
            ("data", record(header(RECORD_DATA, 3), b"abcd"), true),
            ("data longer than the record", record(header(RECORD_DATA, 5), b"abcd"), false),
            ("exec without its facts", record(header(RECORD_EXEC, 0), b"abcd"), false),
            ("connect without its facts", record(header(RECORD_CONNECT, 0), b"abcd"), false),
            ("socket without its facts", record(header(RECORD_SOCKET, 0), b"abcd"), false),
            ("socket closed", record(header(RECORD_SOCKET_CLOSED, 0), &[0; 96]), true),
            ("socket closed, cut short", record(header(RECORD_SOCKET_CLOSED, 0), &[0; 95]), false),
            ("gate", record(header(RECORD_GATE, 0), &[0; 24]), true),
            ("gate without its facts", record(header(RECORD_GATE, 0), &[0; 23]), false),
            ("refused", record(header(RECORD_REFUSED, 3), b"abc"), true),
            ("refused, longer than the record", record(header(RECORD_REFUSED, 4), b"abc"), false),
            ("rewritten", record(rewritten(5, 99), &[0; 99]), true),
            ("rewritten, and no bytes", record(rewritten(96, 96), &[0; 96]), true),
            ("rewritten, by a longer text", record(rewritten(97, 99), &[0; 99]), false),
            ("rewritten, without the text", record(rewritten(5, 95), &[0; 95]), false),
            ("rewritten, longer than the record", record(rewritten(5, 100), &[0; 99]), false),
            ("exit", record(header(RECORD_EXIT, 0), b""), true),
        ];
        for (name, bytes, good) in cases {
            assert_eq!(parse(&bytes).is_some(), good, "{name}");
        }
        match parse(&record(header(RECORD_DATA, 3), b"abcd")) {
            Some(Record::Data(_, data)) => assert_eq!(data, b"abc"),
            other => panic!("{other:?}"),
        }
    }
}
