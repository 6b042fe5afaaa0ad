//! What is sent for each operation, and what each answer means.

use mcpwarden_terms::contract::{
    GuardContext, GuardFailure, GuardIdentity, GuardOperation, GuardReason, GuardReply, GuardRequest,
    GuardTool,
};

use super::server::{ALLOW, Action, Server, ok, response};
use super::{hook, request};

fn context() -> GuardContext {
    GuardContext {
        server_name: "files".to_owned(),
        identity: Some(GuardIdentity {
            sub: "uid:1000".to_owned(),
            email: None,
            groups: vec!["developers".to_owned()],
            claims: r#"{"uid":1000}"#.to_owned(),
        }),
        metadata: r#"{"session_id":"s1","jsonrpc_id":7}"#.to_owned(),
    }
}

const CONTEXT: &str = concat!(
    r#""context":{"server_name":"files","#,
    r#""identity":{"sub":"uid:1000","email":null,"groups":["developers"],"claims":{"uid":1000}},"#,
    r#""metadata":{"session_id":"s1","jsonrpc_id":7}}"#
);

/// Each operation, and the begin of its body.
fn operations() -> Vec<(GuardOperation, &'static str)> {
    let text = str::to_owned;
    vec![
        (
            GuardOperation::ListTools {
                tools: vec![
                    GuardTool {
                        name: text("read"),
                        description: Some(text("Reads \"files\"")),
                        input_schema: text(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#),
                    },
                    GuardTool { name: text("list"), description: None, input_schema: text("{}") },
                ],
            },
            concat!(
                r#"{"phase":"tools_list","operation":{"type":"list_tools","data":{"tools":[{"name":"read","#,
                r#""description":"Reads \"files\"","input_schema":{"type":"object","properties":{"path":"#,
                r#"{"type":"string"}}}},{"name":"list","description":null,"input_schema":{}}]}}"#
            ),
        ),
        (
            GuardOperation::CallTool {
                tool_name: text("read"),
                arguments: text(r#"{"path":"/etc/hosts","n":1.0}"#),
            },
            concat!(
                r#"{"phase":"tool_invoke","operation":{"type":"call_tool","data":{"tool_name":"read","#,
                r#""arguments":{"path":"/etc/hosts","n":1.0}}}"#
            ),
        ),
        (
            GuardOperation::ToolResponse {
                tool_name: text("read"),
                result: text(r#"{"content":[{"type":"text","text":"a\nb"}]}"#),
            },
            concat!(
                r#"{"phase":"tool_result","operation":{"type":"tool_response","data":{"tool_name":"read","#,
                r#""result":{"content":[{"type":"text","text":"a\nb"}]}}}"#
            ),
        ),
        (
            GuardOperation::GetPrompt { prompt_name: text("review"), arguments: text("null") },
            concat!(
                r#"{"phase":"prompt_request","operation":{"type":"get_prompt","data":{"prompt_name":"review","#,
                r#""arguments":null}}"#
            ),
        ),
        (
            GuardOperation::ReadResource { uri: text("file:///etc/hosts") },
            concat!(
                r#"{"phase":"resource_request","operation":{"type":"read_resource","data":{"#,
                r#""uri":"file:///etc/hosts"}}"#
            ),
        ),
    ]
}

#[tokio::test]
async fn operations_are_sent_and_answers_read() {
    let details = r#"{"scope":"tool", "n":1.0}"#;
    let deny = format!(r#"{{"decision":"deny","reason":{{"code":"c","message":"m","details":{details}}}}}"#);
    let action = r#"{"type":"redact_fields","paths":["$.path"],"replacement":"-"}"#;
    let modify = format!(r#"{{"decision":"modify","action":{action}}}"#);
    let reason =
        GuardReason { code: "c".to_owned(), message: "m".to_owned(), details: Some(details.to_owned()) };
    for (answer, expected) in [
        (ALLOW, GuardReply::Allow),
        (&deny, GuardReply::Deny { reason }),
        (&modify, GuardReply::Modify { action: action.to_owned() }),
    ] {
        let server = Server::answering(answer).await;
        let hook = hook(&server.url);
        for (operation, _) in operations() {
            let (reply, told) = hook.ask(&GuardRequest { operation, context: context() }, None).await;
            assert_eq!(reply.as_ref(), Ok(&expected));
            assert_eq!((told.status, told.breaker), (Some(200), None));
        }
        let sent = server.requests();
        assert_eq!(sent.len(), 5);
        for (sent, (_, begin)) in sent.iter().zip(operations()) {
            assert_eq!(sent.body, format!("{begin},{CONTEXT}}}"));
            assert!(sent.head.starts_with("POST /evaluate HTTP/1.1\r\n"), "{}", sent.head);
            for (header, value) in [
                ("content-type", "application/json"),
                ("accept", "application/json"),
                ("x-mcpwarden-contract", "0.1.0"),
                ("host", &server.address.to_string()),
            ] {
                assert_eq!(sent.header(header), Some(value), "{header}");
            }
            assert_eq!((sent.header("authorization"), sent.header("x-mcpwarden-signature")), (None, None));
        }
        // One after the other, on one connection.
        assert_eq!(server.connections(), 1);
        let counters = hook.state().counters;
        assert_eq!((counters.asked, counters.answered), (5, 5));
        let by_decision = [counters.allowed, counters.denied, counters.modified];
        assert_eq!((by_decision.iter().sum::<u64>(), by_decision.iter().max()), (5, Some(&5)));
        let bodies: usize = sent.iter().map(|sent| sent.body.len()).sum();
        assert_eq!((counters.sent_bytes, counters.received_bytes), (bodies as u64, 5 * answer.len() as u64));
    }
}

/// Status, headers and body, and the reply or the error.
#[tokio::test]
async fn statuses_and_bodies_decide() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"decisi\r\nc\r\non\":\"allow\"}\r\n0\r\n\r\n";
    let to_end = format!("HTTP/1.0 200 OK\r\n\r\n{ALLOW}").into_bytes();
    let informed = [b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec(), ok(ALLOW)].concat();
    for (sent, status, expected) in [
        (response("204 No Content", "", "").replace_length(), 204, Ok(())),
        (response("200 OK", "content-type: text/html\r\n", ALLOW), 200, Ok(())),
        (response("200 OK", "", ALLOW), 200, Ok(())),
        (chunked.to_vec(), 200, Ok(())),
        (to_end, 200, Ok(())),
        (informed, 200, Ok(())),
        (ok(""), 200, Err("its answer is empty")),
        (
            response("200 OK", "content-type: text/html\r\n", "<html>"),
            200,
            Err("its answer is not JSON (line 1, column 1)"),
        ),
        (ok(r#"{"decision":"allow","score":NaN}"#), 200, Err("its answer is not JSON (line 1, column 29)")),
        (
            ok(r#"{"decision":"deny"}"#),
            200,
            Err("it denies without a reason: an object with the texts code and message"),
        ),
        (
            ok(r#"{"decision":"allow","decision":"deny"}"#),
            200,
            Err("its answer has two members of one name in an object"),
        ),
        (ok(r#"{"decision":"maybe"}"#), 200, Err("its answer has an unknown decision \"maybe\"")),
        (
            response("200 OK", "content-encoding: gzip\r\n", "\u{1f}\u{8b}"),
            200,
            Err("its answer is not JSON (line 1, column 1)"),
        ),
        (response("201 Created", "", ALLOW), 201, Err("it answers 201 Created")),
        (response("202 Accepted", "", ALLOW), 202, Err("it answers 202 Accepted")),
        (response("400 Bad Request", "", ALLOW), 400, Err("it answers 400 Bad Request")),
        (
            response("401 Unauthorized", "www-authenticate: Basic\r\n", ""),
            401,
            Err("it answers 401 Unauthorized"),
        ),
        (response("404 Not Found", "", ""), 404, Err("it answers 404 Not Found")),
        (
            response("429 Too Many Requests", "retry-after: 0\r\n", ""),
            429,
            Err("it answers 429 Too Many Requests"),
        ),
        (response("500 t0ken", "", ALLOW), 500, Err("it answers 500 Internal Server Error")),
        (response("503 Service Unavailable", "", ""), 503, Err("it answers 503 Service Unavailable")),
    ] {
        let server = Server::of(Action::Close(sent)).await;
        let (reply, told) = hook(&server.url).ask(&request(), Some(1_000)).await;
        let expected =
            expected.map(|()| GuardReply::Allow).map_err(|why| GuardFailure::Error(why.to_owned()));
        assert_eq!(reply, expected);
        assert_eq!(told.status, Some(status), "{expected:?}");
        assert_eq!(server.connections(), 1, "{expected:?}");
    }
}

trait WithoutLength {
    /// 204 has no body, and no length of one (RFC 9110, section 8.6).
    fn replace_length(self) -> Self;
}

impl WithoutLength for Vec<u8> {
    fn replace_length(self) -> Self {
        String::from_utf8(self).unwrap().replace("content-length: 0\r\n", "").into_bytes()
    }
}
