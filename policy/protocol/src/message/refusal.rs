//! Codes of errors (JSON-RPC 2.0, section 5.1; the MCP specification).

/// What the code of an error is called; `None` of one that only its server knows.
pub fn error_name(code: i64) -> Option<&'static str> {
    Some(match code {
        -32700 => "parse_error",
        -32600 => "invalid_request",
        -32601 => "method_not_found",
        -32602 => "invalid_params",
        -32603 => "internal_error",
        // Up to revision 2025-11-25.
        -32002 => "resource_not_found",
        -32042 => "url_elicitation_required",
        // From revision 2026-07-28 on.
        -32020 => "header_mismatch",
        -32021 => "missing_required_client_capability",
        -32022 => "unsupported_protocol_version",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_both_eras_have_names() {
        for (code, expected) in [
            (-32700, Some("parse_error")),
            (-32601, Some("method_not_found")),
            (-32042, Some("url_elicitation_required")),
            (-32019, None),
            (-32020, Some("header_mismatch")),
            (-32021, Some("missing_required_client_capability")),
            (-32022, Some("unsupported_protocol_version")),
            (-32023, None),
            (32020, None),
            (0, None),
            (i64::MIN, None),
        ] {
            assert_eq!(error_name(code), expected, "{code}");
        }
    }
}
