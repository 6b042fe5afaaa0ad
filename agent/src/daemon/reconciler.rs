//! What is to be compared with the captured streams: the positions that the kernel half counted, and the holders of channels.

use std::collections::{BTreeMap, HashSet};

use mcpwarden_abi::{ChannelKey, Connection, Positions, SoFar, Socket, Stream};
use mcpwarden_kernel::fd_scan::{FdScan, Side};

/// How far TCP connections are in the kernel, by number; `None`: it does not know the connection any more.
pub type SocketPositions = Vec<(u64, Option<Socket>)>;

/// One comparison of a connection's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Bytes that the kernel half counted and never sent are missing.
    Positions(u64, [Stream; 2]),
    /// The same of a TCP connection; `None`: the kernel half does not know it any more.
    Socket(u64, Option<SoFar>),
    /// Bytes went by unseen, where nobody is in the middle of a call on the client's side: how many bytes wait to be read
    /// there, by direction.
    Unseen(u64, [Stream; 2], [Option<u64>; 2]),
    /// Nobody holds the connection any more.
    Ended(u64, [Stream; 2]),
}

impl Check {
    fn connection(&self) -> u64 {
        let (Self::Positions(id, _) | Self::Socket(id, _) | Self::Unseen(id, ..) | Self::Ended(id, _)) = self;
        *id
    }
}

/// Something that is done once records were taken in: those below a number, of a user or (`None`) of everybody.
#[derive(Debug)]
struct Awaiting<T> {
    what: T,
    uid: Option<u32>,
    number: u64,
}

/// What was read and not yet compared. What concerns a connection waits for its user's records alone: a flood of others does not
/// put it off. And what was read once is not read again before it was compared: else a flood would put it off without end.
#[derive(Debug, Default)]
pub struct Reconciler {
    /// By connection.
    positions: BTreeMap<u64, Awaiting<Check>>,
    /// By connection.
    scanned: BTreeMap<u64, Awaiting<Check>>,
    clients: Option<Awaiting<()>>,
    scan: Option<Awaiting<FdScan>>,
}

/// What can be compared now.
#[derive(Debug, Default)]
pub struct Ready {
    /// Connections: their positions, and then what fd scans found.
    pub checks: Vec<Check>,
    /// Whether clients of TCP connections may be looked at: what they said before was taken in.
    pub clients: bool,
    /// The fd scan, by which is forgotten what nobody holds.
    pub scan: Option<FdScan>,
}

impl Ready {
    /// Whether that is nothing.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && !self.clients && self.scan.is_none()
    }
}

impl Reconciler {
    /// The positions of all connections were read, and since then all records below `number` were in the ring.
    pub fn read_positions(
        &mut self,
        connections: &[(u64, Connection)],
        sockets: SocketPositions,
        number: u64,
    ) {
        renew(&mut self.positions, of_positions(connections, sockets), number);
        self.clients.get_or_insert(Awaiting { what: (), uid: None, number });
    }

    /// An fd scan ended, the connections were read, and since then all records below `number` were in the ring.
    pub fn read_scan(
        &mut self,
        scan: FdScan,
        connections: &[(u64, Connection)],
        sockets: &[(u64, Socket)],
        number: u64,
    ) {
        renew(&mut self.scanned, of_scan(&scan, connections, sockets), number);
        self.scan.get_or_insert(Awaiting { what: scan, uid: None, number });
    }

    /// Whether something waits.
    pub fn is_waiting(&self) -> bool {
        let is_waiting = !self.positions.is_empty() || !self.scanned.is_empty();
        is_waiting || self.clients.is_some() || self.scan.is_some()
    }

    /// Takes out what can be compared. `is_taken`: whether a user's records below a number, or everybody's, were taken in.
    pub fn take(&mut self, is_taken: &dyn Fn(Option<u32>, u64) -> bool) -> Ready {
        let mut ready = Ready::default();
        for checks in [&mut self.positions, &mut self.scanned] {
            let taken = checks.extract_if(.., |_, awaiting| is_taken(awaiting.uid, awaiting.number));
            ready.checks.extend(taken.map(|(_, awaiting)| awaiting.what));
        }
        ready.clients = self.clients.take_if(|clients| is_taken(clients.uid, clients.number)).is_some();
        ready.scan = self.scan.take_if(|scan| is_taken(scan.uid, scan.number)).map(|scan| scan.what);
        ready
    }
}

/// Has these checks wait, beside those of the same connections that wait already.
fn renew(waiting: &mut BTreeMap<u64, Awaiting<Check>>, read: Vec<(Check, Option<u32>)>, number: u64) {
    let mut before = std::mem::take(waiting);
    let awaiting = |(what, uid): (Check, Option<u32>)| {
        let id = what.connection();
        (id, before.remove(&id).unwrap_or(Awaiting { what, uid, number }))
    };
    *waiting = read.into_iter().map(awaiting).collect();
}

/// The checks of positions, and whose records each waits for.
pub fn of_positions(
    connections: &[(u64, Connection)],
    sockets: SocketPositions,
) -> Vec<(Check, Option<u32>)> {
    let connections = connections
        .iter()
        .map(|(id, entry)| (Check::Positions(*id, entry.positions.streams), Some(entry.positions.uid)));
    let sockets = sockets.into_iter().map(|(id, known)| {
        (Check::Socket(id, known.map(|socket| socket.so_far())), known.map(|socket| socket.positions.uid))
    });
    connections.chain(sockets).collect()
}

/// The checks that follow from an fd scan, and whose records each waits for.
pub fn of_scan(
    scan: &FdScan,
    connections: &[(u64, Connection)],
    sockets: &[(u64, Socket)],
) -> Vec<(Check, Option<u32>)> {
    let held = held(scan);
    let idle = |sides: [Side; 2]| sides.map(|side| scan.idle.get(&side).copied());
    let check = |(id, entry): &(u64, Connection)| {
        let streams = entry.positions.streams;
        let keys = [entry.server_in, entry.server_out, entry.client_out, entry.client_in];
        let is_held = entry.positions.since_ns >= scan.began_ns || keys.iter().any(|key| held.contains(key));
        let check = if is_held {
            Check::Unseen(*id, streams, idle(client_sides(entry)))
        } else {
            Check::Ended(*id, streams)
        };
        (check, Some(entry.positions.uid))
    };
    // Their ends are recorded, or found with their positions.
    let of_socket = |(id, socket): &(u64, Socket)| {
        let Positions { streams, uid, .. } = socket.positions;
        (Check::Unseen(*id, streams, idle(socket_sides(socket))), Some(uid))
    };
    connections.iter().map(check).chain(sockets.iter().map(of_socket)).collect()
}

/// The channels that somebody holds.
pub fn held(scan: &FdScan) -> HashSet<ChannelKey> {
    scan.holders.iter().map(|holder| holder.key).collect()
}

/// The sides of channels of which the next fd scan is to find what is being done there. `suspects`: whether bytes may have
/// gone by unseen, by direction.
pub fn suspects(
    connections: &[(u64, Connection)],
    sockets: &[(u64, Socket)],
    suspects: impl Fn(u64) -> [bool; 2],
) -> HashSet<Side> {
    let all = connections.iter().map(|(id, entry)| (*id, client_sides(entry)));
    let all = all.chain(sockets.iter().map(|(id, socket)| (*id, socket_sides(socket))));
    let sides = all.flat_map(|(id, sides)| suspects(id).into_iter().zip(sides));
    sides.filter(|(is_suspect, _)| *is_suspect).map(|(_, side)| side).collect()
}

/// Where the client writes, and where it reads.
fn client_sides(entry: &Connection) -> [Side; 2] {
    [Side { key: entry.client_out, writes: true }, Side { key: entry.client_in, writes: false }]
}

/// The same of a connection of sockets: both at the client's.
fn socket_sides(socket: &Socket) -> [Side; 2] {
    [true, false].map(|writes| Side { key: socket.key, writes })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mcpwarden_abi::Holder;

    use super::*;

    const SCAN_NS: u64 = 100;

    fn key(inode: u64) -> ChannelKey {
        ChannelKey { inode, ..Default::default() }
    }

    /// A connection whose channels have the inodes 10 times its number and one more, of a user of 1000 and its number.
    fn connection(id: u64, since_ns: u64) -> (u64, Connection) {
        let (requests, answers) = (key(id * 10), key(id * 10 + 1));
        let uid = 1000 + u32::try_from(id).unwrap();
        let positions = Positions { since_ns, uid, ..Default::default() };
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
            assert_eq!(of_scan(&scan, &[connection(1, since)], &[]), [(expected, Some(1001))], "{name}");
        }
    }

    /// What waits where its client reads, and whether somebody is in a call there, counts as over stdio; its end is recorded.
    #[test]
    fn sockets_are_compared_at_the_clients_end() {
        let positions = Positions { uid: 7, ..Default::default() };
        let sockets = [(9, Socket { key: key(5), positions, ..Default::default() })];
        let [writes, reads] = [true, false].map(|writes| Side { key: key(5), writes });
        for (name, idle, expected) in [
            ("in calls", &[][..], [None, None]),
            ("idle", &[(writes, 0), (reads, 0)], [Some(0), Some(0)]),
            ("bytes wait", &[(reads, 3)], [None, Some(3)]),
            ("another's", &[(Side { key: key(6), writes: true }, 0)], [None, None]),
        ] {
            let scan = FdScan { idle: idle.iter().copied().collect(), ..FdScan::default() };
            let expected = (Check::Unseen(9, [Stream::default(); 2], expected), Some(7));
            assert_eq!(of_scan(&scan, &[], &sockets), [expected], "{name}");
        }
        for (flags, expected) in [
            ([false, false], vec![]),
            ([true, false], vec![writes]),
            ([false, true], vec![reads]),
            ([true, true], vec![writes, reads]),
        ] {
            let found = suspects(&[], &sockets, |_| flags);
            assert_eq!(found, expected.into_iter().collect(), "{flags:?}");
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
            let found = suspects(&connections, &[], |id| if id == 1 { flags } else { [false; 2] });
            assert_eq!(found, expected.into_iter().collect(), "{flags:?}");
        }
    }

    /// What is compared as records are taken in: the connections' positions, the clients, what a scan found of connections, and
    /// the scan.
    #[test]
    fn readings_wait_for_their_users_records() {
        // Name, of whom all records were taken in, below which number; what is compared.
        type Case = (&'static str, &'static [(u32, u64)], (&'static [u64], bool, &'static [u64], bool));
        const SOCKET: u64 = 3;
        let cases: [Case; 10] = [
            ("nothing was taken in", &[], (&[], false, &[], false)),
            ("of one, not far enough", &[(1001, 9)], (&[], false, &[], false)),
            ("of one, all before positions", &[(1001, 10)], (&[1], false, &[], false)),
            ("of the other", &[(1002, 10)], (&[2], false, &[], false)),
            ("of one, all before the scan", &[(1001, 20)], (&[1], false, &[1], false)),
            ("of the other, all", &[(1002, 99)], (&[2], false, &[2], false)),
            ("of both, before positions", &[(1001, 10), (1002, 10)], (&[1, 2], false, &[], false)),
            ("of another", &[(1003, 99)], (&[], false, &[], false)),
            ("of all, before positions", &[(0, 10)], (&[1, 2, SOCKET], true, &[], false)),
            ("of all", &[(0, 20)], (&[1, 2, SOCKET], true, &[1, 2], true)),
        ];
        for (name, taken, (positions, clients, scanned, scan)) in cases {
            let mut reconciler = Reconciler::default();
            assert!(!reconciler.is_waiting());
            let connections = [connection(1, 0), connection(2, 0)];
            reconciler.read_positions(&connections, vec![(SOCKET, None)], 10);
            reconciler.read_scan(FdScan { began_ns: SCAN_NS, ..FdScan::default() }, &connections, &[], 20);
            // Here user 0 stands for everybody.
            let is_taken = |uid: Option<u32>, number: u64| {
                taken.iter().any(|(of, below)| number <= *below && (*of == 0 || uid == Some(*of)))
            };
            let ready = reconciler.take(&is_taken);
            let ids = |is_of: fn(&Check) -> bool| -> Vec<u64> {
                ready.checks.iter().filter(|check| is_of(check)).map(Check::connection).collect()
            };
            let found = (
                ids(|check| matches!(check, Check::Positions(..) | Check::Socket(..))),
                ready.clients,
                ids(|check| matches!(check, Check::Ended(..))),
                ready.scan.is_some(),
            );
            assert_eq!(found, (positions.to_vec(), clients, scanned.to_vec(), scan), "{name}");
            assert_eq!(reconciler.is_waiting(), !scan, "{name}");
            assert!(reconciler.take(&is_taken).checks.is_empty(), "{name}: each once");
        }
    }

    /// A user whose records never end is compared all the same; what is gone from the kernel half's tables is not.
    #[test]
    fn waiting_readings_are_not_put_off() {
        let mut reconciler = Reconciler::default();
        for number in 1..=5 {
            let connections = [connection(1, 0), connection(1 + number, 0)];
            reconciler.read_positions(&connections, vec![], number);
            reconciler.read_scan(
                FdScan { began_ns: SCAN_NS, ..FdScan::default() },
                &connections,
                &[],
                number,
            );
        }
        let ready = reconciler.take(&|_, number| number <= 1);
        let checks: Vec<u64> = ready.checks.iter().map(Check::connection).collect();
        assert_eq!((checks, ready.clients, ready.scan.is_some()), (vec![1, 1], true, true));
        assert_eq!(
            (reconciler.positions.len(), reconciler.scanned.len()),
            (1, 1),
            "those that there were last"
        );
    }
}
