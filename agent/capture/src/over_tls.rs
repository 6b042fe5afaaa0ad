//! Connections over TLS, whose plaintext is read in the client: the bytes that their sockets carried are held against the plaintext that was
//! seen.

use std::collections::HashMap;

use mcpwarden_abi::{Encrypted, SoFar, TLS_RECORD_OVERHEAD};

/// Most plaintext of a record: RFC 8446, section 5.1.
const RECORD_BYTES: u64 = 1 << 14;
/// What is no text of the program in each direction, at most: the rest of a handshake that was seen, with the chain of certificates; tickets;
/// and a record that the program has not read yet.
const OTHER_BYTES: u64 = 32 << 10;

/// What more is reported at the end of a connection, at least. Bytes: it ends with an alert.
const MORE_AT_END: u64 = 1 << 10;

/// What was counted of all connections over TLS; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsCounters {
    /// What their sockets carried.
    pub encrypted: u64,
    /// Plaintext that was read.
    pub plaintext: u64,
    /// Of the encrypted bytes, those of which the plaintext is known not to have been read.
    pub unread: u64,
}

/// What is known of connections over TLS.
#[derive(Default)]
pub(crate) struct OverTls {
    /// Why the TLS of clients is not read, by process.
    why: HashMap<u32, String>,
    seen: HashMap<u64, Seen>,
    counters: TlsCounters,
}

/// What was counted of a connection, and how much of it was reported as unread.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    so_far: SoFar,
    counters: TlsCounters,
    reported: u64,
}

impl OverTls {
    /// Why the TLS of a process is not read; `None` where it is, or where the process has no connection any more.
    pub(crate) fn note(&mut self, pid: u32, unread: Option<String>) {
        match unread {
            Some(why) => drop(self.why.insert(pid, why)),
            None => drop(self.why.remove(&pid)),
        }
    }

    /// A connection is over: what was counted of it is no more.
    pub(crate) fn forget(&mut self, id: u64) {
        self.seen.remove(&id);
    }

    /// What was counted.
    pub(crate) fn counters(&self) -> TlsCounters {
        self.counters
    }

    /// How far a connection of a process is. What is to be reported of it, where it is new that something passed unread, or twice as much
    /// as was reported; or where it `is_over`, and there is much more.
    pub(crate) fn look(&mut self, id: u64, pid: u32, now: &SoFar, is_over: bool) -> Option<String> {
        let seen = self.seen.entry(id).or_default();
        let is_still = std::mem::replace(&mut seen.so_far, *now).encrypted == now.encrypted;
        // The plaintext of a call is counted when that returns, and its records have passed by then.
        let unread = if is_over || is_still { unread(now) } else { before(now) };
        let counters = TlsCounters {
            encrypted: now.encrypted.all.iter().sum(),
            plaintext: now.streams.iter().map(|stream| stream.offset).sum(),
            unread: unread.iter().sum(),
        };
        let last = std::mem::replace(&mut seen.counters, counters);
        self.counters.encrypted += counters.encrypted.saturating_sub(last.encrypted);
        self.counters.plaintext += counters.plaintext.saturating_sub(last.plaintext);
        self.counters.unread += counters.unread.saturating_sub(last.unread);
        let is_news = counters.unread > 0 && counters.unread >= seen.reported.saturating_mul(2)
            || is_over && counters.unread > seen.reported.saturating_add(MORE_AT_END);
        if is_news {
            seen.reported = counters.unread;
        }
        if is_over {
            self.seen.remove(&id);
        }
        let [to_server, to_client] = unread;
        is_news.then(|| {
            let why = self.why.get(&pid).map_or("its client was not probed yet", String::as_str);
            format!(
                "its TLS was not read, at least {to_server} bytes to the server and {to_client} bytes from it: {why}"
            )
        })
    }
}

/// Of the bytes that a socket carried, by direction, those whose plaintext was not read: those [`before`] it was bound, and what is too much for
/// the plaintext that was read after that.
fn unread(now: &SoFar) -> [u64; 2] {
    let Encrypted { all, before: unbound, calls } = now.encrypted;
    let surplus = |direction: usize| {
        let plaintext = now.streams[direction].offset;
        let records = calls[direction].saturating_add(plaintext / RECORD_BYTES);
        let explained =
            plaintext.saturating_add(records.saturating_mul(TLS_RECORD_OVERHEAD)).saturating_add(OTHER_BYTES);
        all[direction].saturating_sub(unbound[direction]).saturating_sub(explained)
    };
    let before = before(now);
    [0, 1].map(|direction| before[direction].saturating_add(surplus(direction)))
}

/// What passed before it was known which connection of the client's library it is, where the client had sent anything but its handshake.
fn before(now: &SoFar) -> [u64; 2] {
    let before = now.encrypted.before;
    if before[0] == 0 { [0; 2] } else { before }
}

#[cfg(test)]
mod tests {
    use mcpwarden_abi::Stream;
    use proptest::prelude::*;

    use super::*;

    fn at(all: [u64; 2], before: [u64; 2], plaintext: [u64; 2], calls: [u64; 2]) -> SoFar {
        SoFar {
            streams: plaintext.map(|offset| Stream { offset, ..Stream::default() }),
            encrypted: Encrypted { all, before, calls },
        }
    }

    #[test]
    fn what_passed_unread_is_told_by_its_bytes() {
        let table = [
            ("nothing", at([0; 2], [0; 2], [0; 2], [0; 2]), [0, 0]),
            ("a handshake alone", at([600, 4_000], [0, 4_000], [0; 2], [0; 2]), [0, 0]),
            ("bound at the first byte", at([2_000, 9_000], [0; 2], [900, 4_000], [3, 3]), [0, 0]),
            ("bound before the first request", at([2_000, 9_000], [0, 4_000], [900, 4_000], [3, 3]), [0, 0]),
            ("bound late", at([5_000, 9_000], [700, 4_500], [900, 4_000], [3, 3]), [700, 4_500]),
            ("never bound", at([5_000, 90_000], [4_400, 90_000], [0; 2], [0; 2]), [4_400, 90_000]),
            (
                "an answer that no call gave",
                at([2_000, 1 << 20], [0; 2], [900, 0], [3, 0]),
                [0, (1 << 20) - (32 << 10)],
            ),
            ("many short answers", at([2_000, 400_000], [0; 2], [900, 100_000], [3, 10_000]), [0, 0]),
        ];
        for (name, closed, expected) in table {
            assert_eq!(unread(&closed), expected, "{name}");
        }
    }

    #[test]
    fn unread_bytes_are_reported_at_once_and_when_they_double() {
        let mut tls = OverTls::default();
        tls.note(7, Some("why".to_owned()));
        let mut look = |bytes, is_over| {
            tls.look(1, 7, &at([bytes, bytes], [bytes, bytes], [0; 2], [0; 2]), is_over).is_some()
        };
        let told =
            [(0, false), (10, false), (15, false), (20, false), (39, false), (2_000, false), (3_000, true)]
                .map(|(bytes, is_over)| look(bytes, is_over));
        assert_eq!(told, [false, true, false, true, false, true, true]);
        assert_eq!(tls.counters(), TlsCounters { encrypted: 6_000, plaintext: 0, unread: 6_000 });
        assert!(tls.seen.is_empty());
    }

    #[test]
    fn a_long_write_is_unread_once_it_is_over() {
        let mut tls = OverTls::default();
        let mut look = |all, plaintext, is_over| {
            tls.look(1, 7, &at([all, 0], [0; 2], [plaintext, 0], [1, 0]), is_over).is_some()
        };
        let told = [
            (1 << 20, 900, false),
            (2 << 20, 900, false),
            (4 << 20, 4 << 20, false),
            (4 << 20, 4 << 20, true),
        ]
        .map(|(all, plaintext, is_over)| look(all, plaintext, is_over));
        assert_eq!(told, [false; 4], "the write returns");
        let told = [(1 << 20, 900, false), (1 << 20, 900, false)]
            .map(|(all, plaintext, is_over)| look(all, plaintext, is_over));
        assert_eq!(told, [false, true], "it does not");
    }

    /// The alert that ends a connection is no news.
    #[test]
    fn end_of_a_connection_is_reported_where_much_more_was_unread() {
        for (more, is_told) in [(0, false), (24, false), (2 << 10, true)] {
            let mut tls = OverTls::default();
            let mut look = |bytes, is_over| {
                tls.look(1, 7, &at([bytes, 0], [bytes, 0], [0; 2], [0; 2]), is_over).is_some()
            };
            assert!(look(4_000, false), "{more}");
            assert_eq!(look(4_000 + more, true), is_told, "{more}");
        }
    }

    proptest! {
        /// Whatever the kernel half counts, it can be looked at, and no more is unread than passed.
        #[test]
        fn no_more_is_unread_than_passed(
            (all, before, plaintext, calls) in any::<([u64; 2], [u64; 2], [u64; 2], [u64; 2])>(),
        ) {
            let before = [before[0].min(all[0]), before[1].min(all[1])];
            let found = unread(&at(all, before, plaintext, calls));
            prop_assert!(found[0] <= all[0] && found[1] <= all[1]);
        }
    }
}
