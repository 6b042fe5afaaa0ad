//! What `_meta` says by which MCP itself is spoken: the revision, who speaks, and the trace (specification 2026-07-28, "General
//! Fields").

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::value::{decode_str, may_have, members};

/// The member that holds it.
pub const META: &str = "_meta";
/// Of a request: the revision that it is in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Of a request: who sends it.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Of a request: what its sender is capable of.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Of a result: who sends it.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Of any message: the trace that it belongs to (W3C Trace Context), in the form of the headers of that name.
pub const TRACEPARENT: &str = "traceparent";
/// The same for vendors.
pub const TRACESTATE: &str = "tracestate";

/// The trace in the `_meta` of a request with these `params`: `traceparent` and `tracestate`.
pub fn trace(params: Option<&RawValue>) -> [Option<Cow<'_, str>>; 2] {
    let meta = params.and_then(meta_of);
    let members = members(meta.map_or("", RawValue::get), [TRACEPARENT, TRACESTATE]);
    members.map(|text| text.and_then(|text| decode_str(text.get())))
}

/// What the `_meta` of a request says.
#[derive(Clone, Debug, Default)]
pub struct RequestMeta<'a> {
    /// The revision that the request is in.
    pub protocol_version: Option<Cow<'a, str>>,
    /// Who sends it.
    pub client_info: Option<&'a RawValue>,
    /// What its sender is capable of.
    pub client_capabilities: Option<&'a RawValue>,
}

impl<'a> RequestMeta<'a> {
    /// That of the request with these `params`; nothing where they have none.
    pub fn of(params: Option<&'a RawValue>) -> Self {
        let Some(meta) = params.and_then(meta_of) else { return Self::default() };
        let [version, client_info, client_capabilities] =
            members(meta.get(), [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES]);
        let protocol_version = version.and_then(|version| decode_str(version.get()));
        Self { protocol_version, client_info, client_capabilities }
    }
}

/// The `_meta` of params or of a result.
fn meta_of(json: &RawValue) -> Option<&RawValue> {
    if may_have(json.get(), &[META]) { members(json.get(), [META])[0] } else { None }
}

/// Who says that it sends the answer to an opening: `serverInfo`, or that of `_meta`.
pub fn server_info(result: &RawValue) -> Option<&RawValue> {
    let [info] = members(result.get(), ["serverInfo"]);
    info.or_else(|| server_info_of_meta(result))
}

/// Who says that it sends a result, in `_meta`.
pub fn server_info_of_meta(result: &RawValue) -> Option<&RawValue> {
    members(meta_of(result)?.get(), [SERVER_INFO])[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// The params of a request, and the revision, the client and the capabilities that it is sent with.
    #[test]
    fn request_says_its_revision_and_client() {
        let key = |name: &str| format!("io.modelcontextprotocol/{name}");
        let version = key("protocolVersion");
        for (params, expected) in [
            ("null".to_owned(), [None; 3]),
            ("[1]".to_owned(), [None; 3]),
            ("{}".to_owned(), [None; 3]),
            (r#"{"_meta":null}"#.to_owned(), [None; 3]),
            (r#"{"_meta":{"progressToken":1}}"#.to_owned(), [None; 3]),
            (format!(r#"{{"_meta":{{"{version}":"2026-07-28"}}}}"#), [Some("2026-07-28"), None, None]),
            (format!(r#"{{"_meta":{{"{version}":"2026\u002d07-28"}}}}"#), [Some("2026-07-28"), None, None]),
            (format!(r#"{{"_meta":{{"{version}":20260728}}}}"#), [None; 3]),
            (format!(r#"{{"{version}":"2026-07-28"}}"#), [None; 3]),
            // The last counts, as for most readers.
            (format!(r#"{{"_meta":{{}},"_meta":{{"{version}":"a"}}}}"#), [Some("a"), None, None]),
            (format!(r#"{{"_meta":{{"{version}":"a","{version}":"b"}}}}"#), [Some("b"), None, None]),
            (
                format!(
                    r#"{{"_meta":{{"{}":{{"name":"c"}},"{}":{{}}}}}}"#,
                    key("clientInfo"),
                    key("clientCapabilities")
                ),
                [None, Some(r#"{"name":"c"}"#), Some("{}")],
            ),
        ] {
            let params = raw(&params);
            let meta = RequestMeta::of(Some(&params));
            let found = [
                meta.protocol_version.as_deref(),
                meta.client_info.map(RawValue::get),
                meta.client_capabilities.map(RawValue::get),
            ];
            assert_eq!(found, expected, "{params}");
        }
    }

    #[test]
    fn result_says_its_server() {
        for (result, expected) in [
            ("{}", None),
            ("1", None),
            (r#"{"serverInfo":{"name":"a"}}"#, Some(r#"{"name":"a"}"#)),
            (r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b"}}}"#, Some(r#"{"name":"b"}"#)),
            (r#"{"_meta":{"serverInfo":{"name":"b"}}}"#, None),
            (r#"{"serverInfo":1,"_meta":{"io.modelcontextprotocol/serverInfo":2}}"#, Some("1")),
        ] {
            assert_eq!(server_info(&raw(result)).map(RawValue::get), expected, "{result}");
        }
    }
}
