//! What is added up of servers.

use super::*;
use crate::event::PerDirection;

#[test]
fn traffic_totals_survive_server_exit() {
    let mut bench = Bench::new();
    let stdio = |bench: &Bench| bench.engine.traffic(ServerType::Stdio);
    assert_eq!((stdio(&bench), bench.engine.sessions()), (Traffic::default(), 0));

    bench.exec(1, 5, "cat", 9);
    bench.gap(1, Direction::ClientToServer, 7);
    assert_eq!((stdio(&bench), bench.engine.sessions()), (Traffic::default(), 0), "no server");

    bench.server(2, 6, "s", 9);
    bench.server(3, 7, "t", 9);
    bench.server(4, 8, "u", 10);
    bench.c2s(2, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    bench.s2c(2, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}"#);
    bench.gap(2, Direction::ServerToClient, 3);
    let traffic = stdio(&bench);
    assert_eq!((traffic.servers, traffic.tools, bench.engine.sessions()), (3, 2, 2));
    assert_eq!((traffic.frames, traffic.gap_bytes), (PerDirection { c2s: 4, s2c: 4 }, 3));
    let said = (3 * HELLO.len() + r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.len()) as u64;
    assert_eq!(traffic.bytes.c2s, said);

    for connection in 1..=4 {
        bench.close(connection);
    }
    bench.wait(10_000);
    assert_eq!(stdio(&bench), Traffic { servers: 0, tools: 0, ..traffic });
    assert_eq!((bench.engine.traffic(ServerType::Http), bench.engine.sessions()), (Traffic::default(), 0));
}
