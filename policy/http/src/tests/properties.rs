//! The same bytes cut anywhere give the same; anything at all breaks nothing.

use proptest::prelude::*;

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";

/// A request and its answer on one stream.
fn exchange() -> impl Strategy<Value = (String, String)> {
    let event = |data: &str| format!("event: message\r\ndata: {data}\r\n\r\n");
    let asked = prop_oneof![
        Just(post("/mcp", S, PING)),
        Just(post("/mcp", "", INITIALIZE)),
        Just(post("/mcp?x=1", "", NOTE)),
        Just(post("/mcp", S, "no json")),
        Just(format!(
            "POST /mcp HTTP/1.1\r\n{S}Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n",
            chunk("["),
            chunk("]")
        )),
        Just(get("/mcp", S)),
        Just(get("/sse", "")),
        Just("GET /other HTTP/1.1\r\n\r\n".to_owned()),
    ];
    let answered = prop_oneof![
        Just(json(S, PONG)),
        Just(json("", INITIALIZED)),
        Just(ACCEPTED.to_owned()),
        Just("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno".to_owned()),
        Just(events("") + &chunk(&event(PONG)) + &chunk(&event(NOTE)) + "0\r\nX: y\r\n\r\n"),
        Just(events("") + &chunk("event: endpoint\ndata: /m?s=1\n\n") + &chunk(&event(NOTE)) + "0\r\n\r\n"),
        Just(json("", &format!("[{}]", "1,".repeat(3000)))),
    ];
    (asked, answered)
}

fn pieces(text: &str, cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (text.len() + 1)).chain([0, text.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| text.as_bytes()[pair[0]..pair[1]].to_vec()).collect()
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        exchange().prop_map(|(asked, answered)| asked + &answered),
        exchange().prop_map(|(asked, _)| asked),
        exchange().prop_map(|(_, answered)| answered),
        "[\\r\\n:;0-9a-fA-F{}\\[\\]\" ]{1,6}",
        Just("HTTP/1.1 200 OK\r\n".to_owned()),
        Just("Content-Length: 5\r\n".to_owned()),
        Just("Content-Encoding: gzip\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n\r\n".to_owned()),
        Just("data: {\"jsonrpc\":\"2.0\"}\n\n".to_owned()),
    ];
    prop_oneof![
        prop::collection::vec(token, 0..8).prop_map(|tokens| tokens.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..100),
    ]
}

proptest! {
    #[test]
    fn http_outputs_do_not_depend_on_how_bytes_are_split(
        exchanges in prop::collection::vec(exchange(), 1..6),
        cuts in prop::collection::vec(0usize..10_000, 0..12),
        answers_first in any::<bool>(),
    ) {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        for (asked, answered) in &exchanges {
            whole.extend([ask(1, asked), answer(1, answered)]);
            let asked = pieces(asked, &cuts).into_iter().map(|piece| ask(1, piece));
            let answered = pieces(answered, &cuts).into_iter().map(|piece| answer(1, piece));
            match answers_first {
                true => cut.extend(answered.chain(asked)),
                false => cut.extend(asked.chain(answered)),
            }
        }
        for steps in [&mut whole, &mut cut] {
            steps.push(Step::Close(1));
        }
        prop_assert_eq!(run(LIMITS, &cut).0, run(LIMITS, &whole).0);
    }

    #[test]
    fn random_http_gaps_never_panic_nor_grow_memory(
        steps in prop::collection::vec((anything(), 0u64..3, 0u8..10), 0..20),
    ) {
        let mut all = Vec::new();
        for (bytes, stream, action) in steps {
            let stream = if stream == 2 { 1000 } else { stream };
            all.push(match action {
                0 => Step::Gap(stream, Direction::ClientToServer, bytes.len() as u64),
                1 => Step::Gap(stream, Direction::ServerToClient, bytes.len() as u64),
                2 => Step::Close(stream),
                3 => Step::Wait(200),
                4 => Step::Forget(0),
                5 | 6 => Step::Ask(stream, bytes),
                _ => Step::Answer(stream, bytes),
            });
        }
        let limits = HttpLimits { held_bytes: 2000, ..LIMITS };
        let again = run(limits, &all);
        prop_assert_eq!(run(limits, &all), again);
    }
}
