//! Servers of both eras, and odd ones: what is asked of each, and what comes of it.

use std::io;
use std::sync::{Arc, Mutex};

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// What a server does when it is asked something.
enum Does {
    Answers(Value),
    Nothing,
    Leaves,
}

type Server = fn(&str) -> Does;

/// A connection to a server that does this.
struct Wire {
    server: Server,
    to_client: Option<UnboundedSender<String>>,
    from_server: UnboundedReceiver<String>,
    tap: Tap,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Transport<RoleClient> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let message = serde_json::to_value(&item).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let does = message.get("id").map_or(Does::Nothing, |_| (self.server)(&method));
        self.asked.lock().unwrap().push(method);
        match (does, &self.to_client) {
            (Does::Answers(mut answer), Some(to_client)) => {
                (answer["jsonrpc"], answer["id"]) = (json!("2.0"), message["id"].clone());
                to_client.send(answer.to_string()).unwrap();
            }
            (Does::Leaves, _) => self.to_client = None,
            _ => {}
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let frame = self.from_server.recv().await?;
        serde_json::from_str(&self.tap.pass(frame)).ok()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.to_client = None;
        Ok(())
    }
}

fn error(code: i64) -> Does {
    Does::Answers(json!({"error": {"code": code, "message": "m", "data": {"supported": ["2027-01-01"]}}}))
}

fn handshake() -> Does {
    Does::Answers(json!({"result": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}}))
}

fn discovery(version: &str) -> Does {
    Does::Answers(json!({"result": {
        "resultType": "complete", "supportedVersions": [version], "capabilities": {}, "ttlMs": 0,
        "cacheScope": "private"}}))
}

fn tools() -> Does {
    Does::Answers(json!({"result": {"resultType": "complete", "tools": [{"name": "a", "inputSchema": {}}]}}))
}

/// A server that does this when it is asked to discover, and knows the handshake.
macro_rules! older {
    ($discover:expr) => {
        |method| match method {
            "server/discover" => $discover,
            "initialize" => handshake(),
            _ => tools(),
        }
    };
}

/// What a server does, what it is asked (`connect` begins anew), and the tools or the error that come of it.
#[tokio::test]
async fn server_of_either_era_is_listed() {
    let refused = "connect server/discover initialize notifications/initialized tools/list";
    let again = "connect server/discover connect initialize notifications/initialized tools/list";
    let cases: [(&str, Server, &str, Result<usize, &str>); 14] = [
        (
            "newer",
            |method| if method == "server/discover" { discovery("2026-07-28") } else { tools() },
            "connect server/discover tools/list",
            Ok(1),
        ),
        ("older: no such method", older!(error(-32601)), refused, Ok(1)),
        ("older: invalid parameters", older!(error(-32602)), refused, Ok(1)),
        ("older: not initialized", older!(error(-32002)), refused, Ok(1)),
        ("older: any error", older!(error(0)), refused, Ok(1)),
        ("older: silent", older!(Does::Nothing), again, Ok(1)),
        ("older: goes away", older!(Does::Leaves), again, Ok(1)),
        ("older: answers everything", older!(Does::Answers(json!({"result": {}}))), again, Ok(1)),
        ("older: discovers its own", older!(discovery("2025-11-25")), again, Ok(1)),
        ("older: an error of the newer", older!(error(-32021)), again, Ok(1)),
        (
            "newer, of another revision",
            |method| if method == "server/discover" { error(-32022) } else { error(-32601) },
            "connect server/discover connect initialize",
            Err("version"),
        ),
        (
            "refuses both",
            |_| error(-32601),
            "connect server/discover initialize connect initialize",
            Err("-32601"),
        ),
        (
            "goes away",
            |_| Does::Leaves,
            "connect server/discover connect initialize",
            Err("closed the connection"),
        ),
        (
            "newer, and then goes away",
            |method| if method == "server/discover" { discovery("2026-07-28") } else { Does::Leaves },
            "connect server/discover tools/list",
            Err("closed the connection when tools were requested"),
        ),
    ];
    for (name, server, expected, outcome) in cases {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let listed = either_way(Duration::from_millis(500), async |opening| {
            let (to_client, from_server) = unbounded_channel();
            let (tap, asked) = (Tap::default(), Arc::clone(&asked));
            asked.lock().unwrap().push("connect".to_owned());
            let wire = Wire { server, to_client: Some(to_client), from_server, tap: tap.clone(), asked };
            talk(wire, opening, &tap, &|_| {}).await
        })
        .await;
        assert_eq!(asked.lock().unwrap().join(" "), expected, "{name}");
        match (listed, outcome) {
            (Ok(listed), Ok(tools)) => assert_eq!(listed.definitions.len(), tools, "{name}"),
            (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{name}: {error:#}"),
            (listed, _) => panic!("{name}: {listed:?}"),
        }
    }
}

/// The status that a server over HTTP refuses the first request with, and whether it is asked in another way; no status: it cannot be
/// reached, or sends too much.
#[tokio::test]
async fn what_is_final_is_not_asked_for_twice() {
    let refusals = [400, 404, 405, 406, 415, 429, 500, 501, 503].map(|status| (Some(status), 2));
    for (status, expected) in refusals.into_iter().chain([(Some(401), 1), (Some(403), 1), (None, 1)]) {
        let attempts = Mutex::new(0);
        let outcome: Result<()> = either_way(Duration::from_secs(1), async |_| {
            *attempts.lock().unwrap() += 1;
            Err(Failure { why: "no".to_owned(), status }.into())
        })
        .await;
        assert_eq!((*attempts.lock().unwrap(), outcome.is_err()), (expected, true), "{status:?}");
    }
    // What was interrupted, or was opened, is not begun again.
    let attempts = Mutex::new(0);
    let outcome: Result<()> = either_way(Duration::from_secs(1), async |opening| {
        *attempts.lock().unwrap() += 1;
        opening.decide();
        bail!("interrupted")
    })
    .await;
    assert_eq!((*attempts.lock().unwrap(), outcome.is_err()), (1, true));
}
