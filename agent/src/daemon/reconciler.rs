//! What is to be compared with the captured streams: the positions that the kernel half counted, and the holders of channels.

use std::collections::HashSet;

use mcpwarden_abi::{ChannelKey, Connection, Stream};
use mcpwarden_kernel::fd_scan::{FdScan, Side};
use mcpwarden_system::boot::boot_ns;

/// Connections over stdio by number, as the kernel half knows them.
pub type Connections = Vec<(u64, Connection)>;
/// How far TCP connections are in the kernel, by number; `None`: it does not know the connection any more.
pub type SocketPositions = Vec<(u64, Option<[Stream; 2]>)>;

/// One comparison of a connection's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Bytes that the kernel half counted and never sent are missing.
    Positions(u64, [Stream; 2]),
    /// The same of a TCP connection; `None`: the kernel half does not know it any more.
    Socket(u64, Option<[Stream; 2]>),
    /// Bytes went by unseen, where nobody is in the middle of a call on the client's side: how many bytes wait to be read
    /// there, by direction.
    Unseen(u64, [Stream; 2], [Option<u64>; 2]),
    /// Nobody holds the connection any more.
    Ended(u64, [Stream; 2]),
}

/// What was read and not yet compared.
#[derive(Default)]
pub struct Reconciler {
    positions: Connections,
    sockets: SocketPositions,
    scan: Option<FdScan>,
    is_waiting: bool,
    /// When the latest of these was read; nanoseconds since boot.
    read_ns: u64,
}

impl Reconciler {
    /// The positions of all connections were read just now.
    pub fn read_positions(&mut self, positions: Connections, sockets: SocketPositions) {
        (self.positions, self.sockets) = (positions, sockets);
        (self.is_waiting, self.read_ns) = (true, boot_ns());
    }

    /// An fd scan ended just now.
    pub fn read_scan(&mut self, scan: Option<FdScan>) {
        self.is_waiting |= scan.is_some();
        (self.scan, self.read_ns) = (scan, boot_ns());
    }

    /// Whether something waits, and for what: that the ring was drained up to then (nanoseconds since boot).
    pub fn waiting_since(&self) -> Option<u64> {
        self.is_waiting.then_some(self.read_ns)
    }

    /// What was read, to be compared now: checks of positions, and then the fd scan.
    pub fn take(&mut self) -> (Vec<Check>, Option<FdScan>) {
        self.is_waiting = false;
        let positions = std::mem::take(&mut self.positions);
        let checks = of_positions(&positions, std::mem::take(&mut self.sockets));
        (checks, self.scan.take())
    }
}

/// The checks of positions.
pub fn of_positions(connections: &[(u64, Connection)], sockets: SocketPositions) -> Vec<Check> {
    let connections = connections.iter().map(|(id, entry)| Check::Positions(*id, entry.positions.streams));
    connections.chain(sockets.into_iter().map(|(id, streams)| Check::Socket(id, streams))).collect()
}

/// The checks that follow from an fd scan. The ring was drained since.
pub fn of_scan(scan: &FdScan, connections: &[(u64, Connection)]) -> Vec<Check> {
    let held = held(scan);
    let check = |(id, entry): &(u64, Connection)| {
        let streams = entry.positions.streams;
        let keys = [entry.server_in, entry.server_out, entry.client_out, entry.client_in];
        if entry.positions.since_ns >= scan.began_ns || keys.iter().any(|key| held.contains(key)) {
            let waiting = client_sides(entry).map(|side| scan.idle.get(&side).copied());
            Check::Unseen(*id, streams, waiting)
        } else {
            Check::Ended(*id, streams)
        }
    };
    connections.iter().map(check).collect()
}

/// The channels that somebody holds.
pub fn held(scan: &FdScan) -> HashSet<ChannelKey> {
    scan.holders.iter().map(|holder| holder.key).collect()
}

/// The sides of channels of which the next fd scan is to find what is being done there. `suspects`: whether bytes may have
/// gone by unseen, by direction.
pub fn suspects(connections: &[(u64, Connection)], suspects: impl Fn(u64) -> [bool; 2]) -> HashSet<Side> {
    let sides = connections.iter().flat_map(|(id, entry)| suspects(*id).into_iter().zip(client_sides(entry)));
    sides.filter(|(is_suspect, _)| *is_suspect).map(|(_, side)| side).collect()
}

/// Where the client writes, and where it reads.
fn client_sides(entry: &Connection) -> [Side; 2] {
    [Side { key: entry.client_out, writes: true }, Side { key: entry.client_in, writes: false }]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mcpwarden_abi::{Holder, Positions};

    use super::*;

    const SCAN_NS: u64 = 100;

    fn key(inode: u64) -> ChannelKey {
        ChannelKey { inode, ..Default::default() }
    }

    /// A connection whose channels have the inodes 10 times its number and one more.
    fn connection(id: u64, since_ns: u64) -> (u64, Connection) {
        let (requests, answers) = (key(id * 10), key(id * 10 + 1));
        let positions = Positions { since_ns, ..Default::default() };
        let entry = Connection {
            server_in: requests,
            client_out: requests,
            server_out: answers,
            client_in: answers,
            positions,
        };
        (id, entry)
    }

    #[test]
    fn connections_that_nobody_holds_have_ended() {
        let streams = [Stream::default(); 2];
        // Name, since when there is a connection 1, inodes that are held, sides where bytes wait, the check.
        type Case = (&'static str, u64, &'static [u64], &'static [(u64, bool, u64)], Check);
        let cases: [Case; 5] = [
            ("nobody", 5, &[20], &[], Check::Ended(1, streams)),
            ("too new to be found", SCAN_NS, &[], &[], Check::Unseen(1, streams, [None; 2])),
            ("held", 5, &[11], &[], Check::Unseen(1, streams, [None; 2])),
            ("held, idle", 5, &[10], &[(10, true, 0)], Check::Unseen(1, streams, [Some(0), None])),
            ("bytes wait", 5, &[10], &[(11, false, 7)], Check::Unseen(1, streams, [None, Some(7)])),
        ];
        for (name, since, held, idle, expected) in cases {
            let holders = held.iter().map(|inode| Holder { key: key(*inode), ..Default::default() });
            let idle = idle
                .iter()
                .map(|(inode, writes, bytes)| (Side { key: key(*inode), writes: *writes }, *bytes));
            let scan = FdScan {
                began_ns: SCAN_NS,
                holders: holders.collect(),
                idle: idle.collect::<HashMap<_, _>>(),
                ..FdScan::default()
            };
            assert_eq!(of_scan(&scan, &[connection(1, since)]), [expected], "{name}");
        }
    }

    #[test]
    fn suspect_directions_name_the_clients_sides() {
        let connections = [connection(1, 0), connection(2, 0)];
        for (flags, expected) in [
            ([false, false], vec![]),
            ([true, false], vec![Side { key: key(10), writes: true }]),
            ([false, true], vec![Side { key: key(11), writes: false }]),
        ] {
            let found = suspects(&connections, |id| if id == 1 { flags } else { [false; 2] });
            assert_eq!(found, expected.into_iter().collect(), "{flags:?}");
        }
    }

    #[test]
    fn readings_wait_until_they_are_taken() {
        let mut reconciler = Reconciler::default();
        assert!(reconciler.waiting_since().is_none());
        reconciler.read_scan(None);
        assert!(reconciler.waiting_since().is_none(), "a scan that failed is not compared");
        reconciler.read_positions(vec![connection(1, 0)], vec![(2, None)]);
        reconciler.read_scan(Some(FdScan::default()));
        assert!(reconciler.waiting_since().is_some());
        let (checks, scan) = reconciler.take();
        assert_eq!(checks, [Check::Positions(1, [Stream::default(); 2]), Check::Socket(2, None)]);
        assert!(scan.is_some() && reconciler.waiting_since().is_none());
    }
}
