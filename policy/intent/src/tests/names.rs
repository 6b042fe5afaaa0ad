//! Names of tools as clients write them.

use crate::names::{Certainty, Mapping, ToolNames};

fn names() -> ToolNames<&'static str> {
    let mut names = ToolNames::new();
    names.add(["files", "server-files"], "read_file", "files read_file");
    names.add(["files"], "write.file", "files write.file");
    names.add(["git hub"], "create_issue", "github create_issue");
    names.add(["git hub"], "search", "github search");
    names.add(["web"], "search", "web search");
    names.add(["a_b"], "c", "a_b c");
    names.add(["a"], "b_c", "a b_c");
    let long = "a_tool_with_a_name_that_is_far_longer_than_any_api_allows_it_to_be";
    names.add(["enterprise-knowledge-base"], long, "base long");
    names
}

#[test]
fn names_of_clients_are_mapped_to_tools() {
    use Certainty::{Exact, Normalized, ToolOnly, Truncated};
    let one = |tool, certainty| Mapping::One(tool, certainty);
    let cases = [
        ("mcp__files__read_file", one("files read_file", Exact)),
        ("mcp__server-files__read_file", one("files read_file", Exact)),
        ("mcp_files_read_file", one("files read_file", Exact)),
        ("files-read_file", one("files read_file", Exact)),
        ("files.read_file", one("files read_file", Exact)),
        ("files__read_file", one("files read_file", Exact)),
        ("files/read_file", one("files read_file", Exact)),
        ("read_file", one("files read_file", Exact)),
        // Letters that the API does not allow.
        ("mcp__git_hub__create_issue", one("github create_issue", Exact)),
        ("mcp__files__write_file", one("files write.file", Exact)),
        ("write.file", one("files write.file", Exact)),
        ("Files-Read-File", one("files read_file", Normalized)),
        ("mcp__GitHub__create_issue", one("github create_issue", ToolOnly)),
        ("git-hub:create-issue", one("github create_issue", Normalized)),
        // A server that the client calls something else.
        ("mcp__gh__create_issue", one("github create_issue", ToolOnly)),
        ("mcp_fs_read_file", one("files read_file", ToolOnly)),
        ("functions.read_file", one("files read_file", ToolOnly)),
        ("search", Mapping::Several(vec!["github search", "web search"], Exact)),
        ("web-search", one("web search", Exact)),
        ("mcp__x__search", Mapping::Several(vec!["github search", "web search"], ToolOnly)),
        // Which of two is meant shows only where both names are apart.
        ("a_b__c", one("a_b c", Exact)),
        ("a__b_c", one("a b_c", Exact)),
        ("a_b_c", Mapping::Several(vec!["a_b c", "a b_c"], Exact)),
        // Too long: with a hash of it all, and without the middle.
        ("mcp__enterprise-knowledge-base__a_tool_with_a_name_that_1a2b3c4d", one("base long", Truncated)),
        ("mcp__enterprise-knowledge-base__a_tool_with_a_nam0123456789abcdef", one("base long", Truncated)),
        ("mcp_enterprise-knowledge-bas___longer_than_any_api_allows_it_to_be", one("base long", Truncated)),
        // Tools of the client's own.
        ("Bash", Mapping::Unknown),
        ("web_fetch", Mapping::Unknown),
        ("deep_search", Mapping::Unknown),
        ("mcp__files__unlink", Mapping::Unknown),
        ("mcp__", Mapping::Unknown),
        ("", Mapping::Unknown),
        ("dead", Mapping::Unknown),
        ("mcp__enterprise-knowledge-base__other_tool_1a2b3c4d", Mapping::Unknown),
    ];
    let names = names();
    for (name, expected) in cases {
        assert_eq!(names.find(None, name), expected, "{name}");
    }
    for (namespace, name, expected) in [
        ("mcp__files__", "read_file", one("files read_file", Exact)),
        ("mcp__files", "read_file", one("files read_file", Exact)),
        ("files", "read_file", one("files read_file", Exact)),
        ("", "read_file", one("files read_file", Exact)),
        ("functions", "web-search", one("web search", Exact)),
        ("x", "y", Mapping::Unknown),
    ] {
        assert_eq!(names.find(Some(namespace), name), expected, "{namespace} {name}");
    }
}

/// Of a thousand tools whose names begin the same not all are said.
#[test]
fn candidates_of_a_name_are_bounded() {
    let mut names = ToolNames::new();
    for number in 0..1000 {
        names.add(["server"], &format!("tool_with_a_long_name_{number}"), number);
    }
    let Mapping::Several(tools, Certainty::Truncated) =
        names.find(None, "server_tool_with_a_long_n_0123abcd")
    else {
        panic!("no candidates");
    };
    assert!((2..=16).contains(&tools.len()), "{}", tools.len());
}
