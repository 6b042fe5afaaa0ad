use mcpwarden_abi::{self as abi, Endpoint, GateInfo, RecordHeader, UNIX, record::bytes_of};

use super::*;
use crate::{Capture, CaptureLimits, SideRecord, tests::Nothing, time::BootTime};

/// What happens to a connection.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client writes.
    Asks(&'static str),
    /// It reads.
    Reads(&'static str),
    /// Bytes of its writes are missing.
    Misses(u32),
    /// The gate overwrites a byte that is to come, so far behind what came: this one.
    Overwrites(u64, u8),
    /// The gate refuses a write of these.
    Refuses(&'static str),
    /// The policy core finds no MCP, or some.
    Drops,
    Confirms,
    /// It ends.
    Ends,
}

/// What becomes of a connection, each output as a few words.
fn outputs(id: u64, address: &ServerAddress, is_in_lines: bool, steps: &[Step]) -> Vec<String> {
    outputs_of(id, address, (is_in_lines, false), steps)
}

/// The same of one that was perhaps open before (`adopted`).
fn outputs_of(
    id: u64,
    address: &ServerAddress,
    (is_in_lines, adopted): (bool, bool),
    steps: &[Step],
) -> Vec<String> {
    let mut capture = Capture::new(CaptureLimits::default(), &Nothing);
    let (clock, now, mut found, mut ended) = (BootTime::default(), Timestamp(1), Vec::new(), 0);
    let mut sink = |output: Output<'_>| {
        if let Output::Kernel(KernelAction::Ended(number)) = output {
            assert_eq!(number, id);
            ended += 1;
            return;
        }
        found.push(match output {
            Output::Input(Input::Reached(reached)) => format!("{:?} {}", reached.kind, reached.address),
            Output::Input(Input::Frame { direction, bytes, http, .. }) => {
                let how = if http.is_some() { "http " } else { "" };
                let who = if direction == Direction::ClientToServer { "client" } else { "server" };
                format!("{how}{who} {}", String::from_utf8_lossy(bytes))
            }
            Output::Input(Input::Stopped { bytes, is_refused, .. }) => {
                let how = if is_refused { "refused" } else { "neutralized" };
                format!("{how} {}", String::from_utf8_lossy(bytes))
            }
            Output::Input(Input::Gap { bytes, cause, .. }) => format!("gap {bytes} {cause:?}"),
            Output::Input(Input::Junk { bytes, .. }) => format!("junk {bytes}"),
            Output::Input(Input::Closed { .. }) => "closed".to_owned(),
            Output::Kernel(KernelAction::Drop { key, number }) => {
                assert_eq!((key, number), (9, id));
                "drop".to_owned()
            }
            Output::Kernel(KernelAction::Lift(key)) => format!("lift {key}"),
            Output::Kernel(KernelAction::Found(..)) => "found".to_owned(),
            Output::Record(SideRecord::Gate(..)) => "record".to_owned(),
            _ => "other".to_owned(),
        });
    };
    let connected = Connected {
        key: 9,
        endpoint: Endpoint::default(),
        client: Process { pid: 5, ..Process::default() },
        address: address.clone(),
        server: None,
        is_in_lines,
        is_over_tls: false,
        adopted,
        netns: None,
        declared: Vec::new(),
        is_model: false,
    };
    capture.open_socket(id, connected, &clock, now, &mut sink);
    let mut offsets = [0, 0];
    for step in steps {
        let about =
            RecordHeader { direction: abi::CLIENT_TO_SERVER, connection: id, ..RecordHeader::default() };
        let gate = |offset, info: GateInfo| {
            let length = size_of::<GateInfo>() as u32;
            let header = RecordHeader { kind: abi::RECORD_GATE, offset, length, ..about };
            [bytes_of(&header), bytes_of(&info)].concat()
        };
        let (direction, text, missing) = match *step {
            Step::Asks(text) => (abi::CLIENT_TO_SERVER, text, 0),
            Step::Reads(text) => (abi::SERVER_TO_CLIENT, text, 0),
            Step::Misses(bytes) => (abi::CLIENT_TO_SERVER, "", bytes),
            Step::Overwrites(behind, original) => {
                let info = GateInfo { action: abi::GATE_NEUTRALIZED, original, ..GateInfo::default() };
                capture.record(&gate(offsets[0] + behind, info), &clock, now, &mut sink);
                continue;
            }
            Step::Refuses(text) => {
                let length = text.len() as u32;
                let header = RecordHeader { kind: abi::RECORD_REFUSED, length, ..about };
                let record = [bytes_of(&header), text.as_bytes()].concat();
                capture.record(&record, &clock, now, &mut sink);
                let info = GateInfo { action: abi::GATE_REFUSED, ..GateInfo::default() };
                capture.record(&gate(offsets[0], info), &clock, now, &mut sink);
                continue;
            }
            Step::Drops => {
                capture.sockets().drop_link(ConnectionId(id), &mut sink);
                continue;
            }
            Step::Confirms => {
                capture.sockets().confirm(ConnectionId(id), &mut sink);
                continue;
            }
            Step::Ends => {
                capture.close(id, &clock, now, &mut sink);
                continue;
            }
        };
        let header = RecordHeader {
            kind: if missing > 0 { abi::RECORD_GAP } else { abi::RECORD_DATA },
            cause: if missing > 0 { abi::GAP_SPLICE } else { 0 },
            value: missing,
            direction,
            connection: id,
            offset: offsets[usize::from(direction)],
            length: text.len() as u32,
            ..RecordHeader::default()
        };
        offsets[usize::from(direction)] += u64::from(missing) + text.len() as u64;
        capture.record(&[bytes_of(&header), text.as_bytes()].concat(), &clock, now, &mut sink);
    }
    let ends = steps.iter().filter(|step| matches!(step, Step::Ends)).count();
    assert_eq!(ended, ends, "what the gate remembers of it is forgotten when it ends: {steps:?}");
    found
}

/// What a connection begins with says how it is read, whoever is first.
#[test]
fn framing_is_what_the_first_bytes_say() {
    use Step::{Asks, Confirms, Drops, Ends, Misses, Reads};
    const POST: &str = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 46\r\n\r\n\
                        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
    let tcp = ServerAddress::Internet("127.0.0.1:7000".parse().unwrap());
    let unix = ServerAddress::Unix("/run/mcp.sock".to_owned());
    let reached_tcp = "Tcp 127.0.0.1:7000";
    let reached_unix = "Unix unix:/run/mcp.sock";
    type Case<'a> = (&'a str, bool, bool, &'a [Step], &'a [&'a str]);
    let cases: [Case<'_>; 17] = [
        ("nothing", false, false, &[Ends], &[]),
        ("a line", false, false, &[Asks("{}\n"), Ends], &[reached_tcp, "client {}", "closed"]),
        (
            "a line, and its answer",
            true,
            true,
            &[Asks("{}\n"), Reads("[]\n")],
            &[reached_unix, "client {}", "server []"],
        ),
        ("a batch", true, false, &[Asks("[{}]\n")], &[reached_unix, "client [{}]"]),
        (
            "the server is first",
            true,
            true,
            &[Reads("{}\n"), Asks("{}\n")],
            &[reached_unix, "server {}", "client {}"],
        ),
        ("byte by byte", false, true, &[Asks("{"), Asks("}"), Asks("\n")], &[reached_tcp, "client {}"]),
        ("blanks before", false, false, &[Asks("\r\n "), Asks("{}\n")], &[reached_tcp, "client {}"]),
        ("the mark of an encoding", true, false, &[Asks("\u{feff}{}\n")], &[reached_unix, "client {}"]),
        ("two in one piece", true, true, &[Asks("{}\n{}\n")], &[reached_unix, "client {}", "client {}"]),
        // A server that says something else behind a line: no part of it is read as HTTP.
        (
            "a line answered by HTTP",
            false,
            true,
            &[Asks("{}\n"), Reads("HTTP/1.1 200 OK\n")],
            &[reached_tcp, "client {}", "junk 16"],
        ),
        (
            "lines whose beginning is missing",
            true,
            true,
            &[Misses(7), Asks("}\n{}\n")],
            &[reached_unix, "gap 7 Splice", "junk 2", "client {}"],
        ),
        ("unfinished at the end", true, true, &[Asks("{\"a\""), Ends], &[reached_unix, "junk 4", "closed"]),
        ("no MCP", true, true, &[Asks("{}\n"), Drops, Ends], &[reached_unix, "client {}", "drop"]),
        (
            "MCP",
            true,
            true,
            &[Asks("{}\n"), Confirms, Confirms, Ends],
            &[reached_unix, "client {}", "lift 9", "closed"],
        ),
        ("HTTP over a Unix socket", true, false, &[Asks("\n"), Asks(POST), Asks(POST)], &["drop"]),
        ("the beginning over a Unix socket is missing", true, false, &[Misses(7)], &["drop"]),
        (
            "HTTP",
            false,
            false,
            &[Asks(POST)],
            &["Http 127.0.0.1:7000", "http client {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"],
        ),
    ];
    for (name, is_unix, is_in_lines, steps, expected) in cases {
        let (id, address) = if is_unix { (SOCKET | UNIX | 1, &unix) } else { (SOCKET | 1, &tcp) };
        assert_eq!(outputs(id, address, is_in_lines, steps), expected, "{name}");
    }
}

/// Requests that the gate stopped, as their client wrote them; those around them are none of these.
#[test]
fn stopped_requests_are_handed_on_as_written() {
    use Step::{Asks, Overwrites, Refuses};
    const HEAD: &str = "POST / HTTP/1.1\r\nContent-Length: 54\r\n\r\n";
    const ADD: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[\"add\"]}";
    const STOPPED: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[\"ad\u{7f}\"]}";
    assert!(HEAD.contains(&ADD.len().to_string()) && ADD.len() == STOPPED.len());
    let at = STOPPED.find('\u{7f}').unwrap() as u64;
    let address = ServerAddress::Internet("127.0.0.1:7000".parse().unwrap());
    let [sent, neutralized, refused] =
        ["http client ", "neutralized ", "refused "].map(|how| format!("{how}{ADD}"));
    let cases: [(&str, &[Step], Vec<&String>); 6] = [
        ("neutralized", &[Asks(HEAD), Overwrites(at, b'd'), Asks(STOPPED)], vec![&neutralized]),
        (
            "neutralized, in pieces",
            &[Asks(HEAD), Overwrites(at, b'd'), Asks(STOPPED.split_at(50).0), Asks(STOPPED.split_at(50).1)],
            vec![&neutralized],
        ),
        (
            "and the next is not",
            &[Asks(HEAD), Overwrites(at, b'd'), Asks(STOPPED), Asks(HEAD), Asks(ADD)],
            vec![&neutralized, &sent],
        ),
        ("refused behind its head", &[Asks(HEAD), Refuses(ADD)], vec![&refused]),
        ("and written again as another", &[Asks(HEAD), Refuses(ADD), Asks(ADD)], vec![&refused, &sent]),
        (
            "refused where it could not be overwritten",
            &[Asks(HEAD), Overwrites(at, b'd'), Refuses(STOPPED), Asks(ADD)],
            vec![&refused, &sent],
        ),
    ];
    for (name, steps, expected) in cases {
        let steps = [&[Asks(HEAD), Asks(ADD)], steps].concat();
        let found = outputs(SOCKET | 1, &address, false, &steps);
        let messages: Vec<&String> = found[2..].iter().filter(|found| *found != "record").collect();
        assert_eq!(messages, expected, "{name}: {found:?}");
    }
}

/// What is seen of a connection that was open before may begin in the middle of a line, in either direction.
#[test]
fn adopted_connection_begins_with_a_whole_line() {
    use Step::{Asks, Ends, Misses, Reads};
    let address = ServerAddress::Unix("/run/mcp.sock".to_owned());
    let reached = "Unix unix:/run/mcp.sock";
    let cases: [(&str, &[Step], &[&str]); 11] = [
        ("nothing", &[Ends], &[]),
        ("a line", &[Asks("{}\n")], &[reached, "client {}"]),
        ("a batch", &[Asks("[{}]\n")], &[reached, "client [{}]"]),
        ("a line in pieces", &[Asks("{\"a\""), Asks(":1}\n")], &[reached, "client {\"a\":1}"]),
        ("the end of a line that looks like one", &[Asks("{}}\n{}\n")], &[reached, "junk 4", "client {}"]),
        ("the same in pieces", &[Asks("{}"), Asks("}\n{}\n")], &[reached, "junk 4", "client {}"]),
        ("an answer", &[Reads("{}\n"), Asks("{}\n")], &[reached, "server {}", "client {}"]),
        (
            "the end of an answer",
            &[Asks("{}\n"), Reads("a\"}\n"), Reads("{}\n")],
            &[reached, "client {}", "junk 4", "server {}"],
        ),
        ("two lines", &[Asks("{}\n[]\n")], &[reached, "client {}", "client []"]),
        (
            "what went by before is missing",
            &[Misses(7), Asks("{}\n")],
            &[reached, "gap 7 Splice", "client {}"],
        ),
        ("unfinished at the end", &[Asks("{\"a\""), Ends], &[reached, "junk 4", "closed"]),
    ];
    for (name, steps, expected) in cases {
        assert_eq!(outputs_of(SOCKET | UNIX | 1, &address, (true, true), steps), expected, "{name}");
    }
}

#[test]
fn first_bytes_tell_the_framing() {
    for (bytes, expected) in [
        (&b""[..], None),
        (b" \t\r\n", None),
        (b"\xef\xbb\xbf", None),
        (b"{", Some(Framing::Lines)),
        (b"[", Some(Framing::Lines)),
        (b"\n\n{", Some(Framing::Lines)),
        (b"\xef\xbb\xbf{", Some(Framing::Lines)),
        (b"POST", Some(Framing::Http)),
        (b"\r\nGET /", Some(Framing::Http)),
        (b"\"text\"", Some(Framing::Http)),
        (b"1", Some(Framing::Http)),
        (b"\0", Some(Framing::Http)),
    ] {
        assert_eq!(Framing::of(bytes), expected, "{bytes:?}");
    }
}
