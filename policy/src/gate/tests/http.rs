//! Messages in the bodies of HTTP requests: judged as those on lines are, however the requests are framed and cut into writes.

use mcpwarden_gate::Fault;

use super::*;

const YAML: &str = "{ policy: { denied_tools: ['delete_*'] }, cross_server: { enabled: false } }";

fn message(name: &str) -> String {
    call(name).trim_end().to_owned()
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// In chunks of so many bytes.
fn chunked(body: &str, size: usize) -> String {
    let chunk = |part: &[u8]| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part));
    let chunks: String = body.as_bytes().chunks(size).map(chunk).collect();
    format!("POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
}

/// What is said of these writes: the bytes that would be overwritten, one for each denied message (`-` where there is none in its
/// write), and what was not read.
fn judge(table: &GateTable, writes: &[&[u8]]) -> (Vec<String>, Option<GateUnread>) {
    let (mut reader, mut denied, mut unread) = (GateHttpReader::default(), Vec::new(), None);
    for write in writes {
        let not_read = reader.write(table, 0, write, |said| {
            if said.verdict == GateVerdict::Deny {
                let byte = said.place.map_or('-', |place| char::from(write[place]));
                denied.push(byte.to_string());
            }
        });
        unread = not_read.or(unread);
    }
    (denied, unread)
}

#[test]
fn denied_call_in_a_body_is_found_in_any_framing() {
    let table = compile(YAML, &[subject("s", &[])]).unwrap();
    let (denied, passed) = (message("delete_z"), message("read"));
    let cases: Vec<(&str, String, &[&str], Option<GateUnread>)> = vec![
        ("a length", post("", &denied), &["z"], None),
        ("one that passes", post("", &passed), &[], None),
        ("a batch", post("", &format!("[{passed},{denied}]")), &["z"], None),
        ("chunks", chunked(&denied, 1000), &["z"], None),
        (
            "one after the other",
            post("", &passed) + &post("", &denied) + &chunked(&denied, 1000),
            &["z", "z"],
            None,
        ),
        ("in lines", post("", &denied.replace(',', "\n,\r\n")), &["z"], None),
        (
            "with a line separator in it",
            post("", &denied.replace("\"id\"", "\"\u{2028}{[\":\"\u{2029}{\",\"id\"")),
            &["z"],
            None,
        ),
        ("a name in the head alone", post("Mcp-Name: delete_z\r\n", &passed), &[], None),
        ("a message in a header", post(&format!("X: {denied}\r\n"), &passed), &[], None),
        ("a message in a target", format!("GET /{denied} HTTP/1.1\r\n\r\n"), &[], None),
        ("a body that breaks off", post("", &denied[..denied.len() - 20]) + &post("", &passed), &[], None),
        (
            "a call behind one that breaks off",
            post("", "{\"params\":{\"x\":\"") + &post("", &denied),
            &["z"],
            None,
        ),
        (
            "half a call, and the rest as another body",
            post("", &denied[..20]) + &post("", &denied[20..]),
            &[],
            None,
        ),
        (
            "in a coding",
            post("Content-Encoding: gzip\r\n", &denied) + &post("", &denied),
            &["z"],
            Some(GateUnread::Coded),
        ),
        (
            "behind what nobody can read",
            format!("{{}}\n{}", post("", &denied)),
            &[],
            Some(GateUnread::Fault(Fault::NotHttp)),
        ),
    ];
    for (name, stream, expected, unread) in cases {
        assert_eq!(
            judge(&table, &[stream.as_bytes()]),
            (expected.iter().map(ToString::to_string).collect(), unread),
            "{name}"
        );
        // In two writes, cut anywhere: as many are denied, though not all can be neutralized.
        for cut in 0..stream.len() {
            let (first, second) = stream.as_bytes().split_at(cut);
            let (found, not_read) = judge(&table, &[first, second]);
            assert_eq!((found.len(), not_read), (expected.len(), unread), "{name}, cut at {cut}");
            let is_letter = |byte: &String| byte == "-" || denied.contains(&**byte);
            assert!(found.iter().all(is_letter), "{name}, cut at {cut}: {found:?}");
        }
    }
    for size in 1..denied.len() {
        let (found, unread) = judge(&table, &[chunked(&denied, size).as_bytes()]);
        assert_eq!((found, unread), (vec!["z".to_owned()], None), "in chunks of {size}");
    }
}
