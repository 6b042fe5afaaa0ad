//! Which contents files have, and how declared servers are reached.

use mcpwarden_policy::registry::ItemKind;

use mcpwarden_client::inspect::{Launch, session::Target, user::Environment};
use mcpwarden_client::secret;
use reqwest::header::HeaderName;

use super::*;

#[test]
fn files_are_text_in_utf8_or_behind_a_mark() {
    let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<_>>();
    for (bytes, expected) in [
        (b"{\"a\":1}".to_vec(), Some("{\"a\":1}")),
        ("\u{feff}ü".as_bytes().to_vec(), Some("ü")),
        (utf16("\u{feff}{ü}", u16::to_le_bytes), Some("{ü}")),
        (utf16("\u{feff}{ü}", u16::to_be_bytes), Some("{ü}")),
        (vec![0xff, 0xfe, b'{'], None),
        (vec![0xff, 0xfe, 0, 0xd8], None),
        (vec![0xff], None),
        (Vec::new(), Some("")),
    ] {
        assert_eq!(text_of(bytes.clone()).as_deref(), expected, "{bytes:?}");
    }
}

#[test]
fn input_file_kind_follows_its_content() {
    let cases = [
        (r#"{"name":"a"}"#, Ok("a")),
        (r#"[{"name":"a"},{"name":"b"}]"#, Ok("a b")),
        (r#"{"tools":[{"name":"a"}]}"#, Ok("a")),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, Ok("")),
        (r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"]}}}"#, Ok("a=npx -y x")),
        (r#"{"servers":{"b":{"command":"x"},"a":{"command":"y"}}}"#, Ok("b=x a=y")),
        (r#"{"mcp":{"servers":{"a":{"command":"x"}},"inputs":[]},"editor.fontSize":12}"#, Ok("a=x")),
        (r#"{"mcp":5}"#, Err("no definition")),
        // What else has a name.
        (
            r#"{"name":"a","version":"1.0.0","dependencies":{}}"#,
            Err("members that no definition has (`version`)"),
        ),
        (r#"{"name":"build","on":["push"],"jobs":{}}"#, Err("(`on`)")),
        (r#"[{"name":"a","image":"b"}]"#, Err("(`image`)")),
        (r#"{"name":"a","version":"1","inputSchema":{}}"#, Ok("a")),
        (r#"{"name":"a","description":"b","returns":{}}"#, Ok("a")),
        (r#"{"name":"a","description":"b","version":"1","license":"MIT"}"#, Err("(`version`)")),
        (r#"{"openapi":"3.1.0","mcpServers":{"a":{"command":"x"}}}"#, Ok("a=x")),
        (r#"{"openapi":{"command":"x"},"b":{"command":"y"}}"#, Ok("openapi=x b=y")),
        (r#"[{"name":"a","description":"b","parameters":{},"x":1}]"#, Ok("a")),
        (r#"{"openapi":"3.1.0","servers":[{"url":"https://a.test"}],"paths":{}}"#, Err("no definition")),
        (r#"{"asyncapi":"3.0.0","servers":{"a":{"url":"https://a.test"}}}"#, Err("no definition")),
        // What of two a client goes by.
        (
            r#"{"mcpServers":{"a":{"type":"sse","command":"x","url":"https://a.test/sse"}}}"#,
            Ok("a=https://a.test/sse"),
        ),
        (r#"{"mcpServers":{"a":{"type":"stdio","command":"x","url":"https://a.test/sse"}}}"#, Ok("a=x")),
        (
            r#"{"mcpServers":{"a":{"url":"https://a.test/sse","httpUrl":"https://a.test/mcp"}}}"#,
            Ok("a=https://a.test/mcp"),
        ),
        // An agent of Claude Code: a server, and one of another file.
        (r#"{"name":"a","tools":["Read"],"mcpServers":["github",{"b":{"command":"x"}}]}"#, Ok("b=x")),
        // A list of mappings (plugins of Claude Code).
        (
            r#"{"mcpServers":[{"a":{"command":"x"},"b":{"command":"y"}},{"name":"c","command":"z"}]}"#,
            Ok("a=x b=y c=z"),
        ),
        // Addresses that something is filled in.
        (
            r#"{"mcpServers":{"a":{"url":"https://{{ host }}/mcp"},"b":{"url":"$MCP_URL"},"c":{"url":"{env:U}"},"d":{"url":"https://<your-host>/mcp"}}}"#,
            Ok("a=https://{{ host }}/mcp b=$MCP_URL c={env:U} d=https://<your-host>/mcp"),
        ),
        // Two servers of one name are two.
        (
            r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"},"a":{"command":"z"}}}"#,
            Ok("a=x b=y a=z"),
        ),
        // All that a server says of itself, or some of it.
        (
            r#"{"tools":[{"name":"a"}],"instructions":"i","prompts":[{"name":"p"}],"resourceTemplates":[{"uriTemplate":"u","name":"n"}]}"#,
            Ok("Instructions: a Prompt:p ResourceTemplate:u"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"},"instructions":"i"}}"#,
            Ok("Instructions:"),
        ),
        (r#"{"prompts":[{"name":"p"}],"instructions":null}"#, Ok("Prompt:p")),
        (r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#, Ok("")),
        // A definition, and a client's configuration, may have more in them.
        (r#"{"name":"a","instructions":"i","prompts":[]}"#, Ok("a")),
        (r#"{"mcpServers":{"a":{"command":"x"}},"instructions":["x.md"]}"#, Ok("a=x")),
        (r#"{"tools":[],"prompts":5}"#, Err("`prompts` is no list")),
        (r#"{"tools":[],"instructions":5}"#, Err("`instructions` is no text")),
        (r#"{"tools":[],"resourceTemplates":[{"name":"n"}]}"#, Err("it has no `uriTemplate`")),
        ("{", Err("no JSON")),
        ("{}", Err("no definition")),
        (r#"{"name":"e","server":{"mcp_config":{"command":"x"}},"tools":[{"name":"t"}]}"#, Ok("t | e=x")),
        (r#"{"tools":[{"name":"t"}],"mcpServers":{"a":{"command":"x"}}}"#, Ok("t | a=x")),
        (r#"[{"name":"t","url":"http://h","description":"d"}]"#, Ok("t")),
        // What a server puts beside a definition does not make it something else.
        (r#"[{"name":"t","inputSchema":{},"command":"x"}]"#, Ok("t")),
        (r#"{"name":"t","inputSchema":{},"x":{"mcpServers":{"a":{"command":"x"}}}}"#, Ok("t | a=x")),
        (r#"{"name":"t","inputSchema":{"mcpServers":{"a":{"command":"x"}}}}"#, Ok("t")),
        (r#"{"compilerOptions":{"target":"es2022"}}"#, Err("no definition")),
        ("[]", Ok("")),
        (r#"{"tools":5}"#, Err("no list")),
        (r#"[{"name":"a"},{"description":"b"}]"#, Err("entry 1 of the list is no definition")),
        (r#"[1]"#, Err("no definition")),
        (r#"[[]]"#, Err("no definition")),
        (r#"{"tools":["a"]}"#, Err("no definition")),
        ("5", Err("no definition")),
    ];
    for (text, expected) in cases {
        let said = match contents(text, Path::new("-")) {
            Ok(Contents { definitions, servers: None }) => {
                let said = |one: Definition| match one.kind {
                    ItemKind::Tool => one.name,
                    kind => format!("{kind:?}:{}", one.name),
                };
                Ok(definitions.into_iter().map(said).collect::<Vec<_>>().join(" "))
            }
            Ok(Contents { definitions, servers: Some(servers) }) => {
                let tools = definitions.into_iter().map(|tool| tool.name + " | ").collect::<String>();
                let words = servers.iter().map(|server| {
                    let words = server.entry.as_ref().map(Entry::words).unwrap_or_default();
                    format!("{}={}", server.name, words.join(" "))
                });
                Ok(tools + &words.collect::<Vec<_>>().join(" "))
            }
            Err(error) => Err(format!("{error:#}")),
        };
        match (&said, expected) {
            (Ok(said), Ok(expected)) => assert_eq!(said, expected, "{text}"),
            (Err(said), Err(expected)) => assert!(said.contains(expected), "{text}: {said}"),
            _ => panic!("{text}: {said:?}"),
        }
    }
}

/// Every form in which a client declares servers: `project/name=words`, with `!` in front where it is switched off.
#[test]
fn servers_are_found_in_every_client_form() {
    let cases = [
        ("{ \"mcpServers\": { \"a\": { \"command\": \"x\", }, }, // c\n}", "a=x"),
        (r#"{"projects":{"/p":{"mcpServers":{"a":{"command":"x"}}},"/q":{}}}"#, "/p/a=x"),
        (
            r#"{"mcpServers":{"a":{"command":"x"}},"projects":{"/p":{"mcpServers":{"a":{"command":"y"},"b":{"command":"z"}},"disabledMcpServers":["b"]},"/q":5}}"#,
            "a=x /p/a=y !/p/b=z",
        ),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"y\"]\n[mcp_servers.b]\nurl = \"http://h\"\nenabled = false\n",
            { "a=x y !b=http://h" },
        ),
        (
            "extensions:\n  a:\n    cmd: x\n    args: [y]\n    envs: {K: 1}\n  b: {type: builtin}\n",
            "a=x y b=goose mcp b",
        ),
        ("mcpServers:\n  - name: a\n    command: x\n  - command: y\n", "a=x y=y"),
        (
            r#"{"mcp":{"a":{"type":"local","command":["x","y"]},"b":{"url":"http://h","enabled":false}}}"#,
            "a=x y !b=http://h",
        ),
        (
            r#"{"context_servers":{"a":{"command":{"path":"x","args":["y"]}},"b":{"command":"z"}}}"#,
            "a=x y b=z",
        ),
        (r#"{"customizations":{"vscode":{"mcp":{"servers":{"a":{"command":"x"}}}}}}"#, "a=x"),
        (r#"{"amp.mcpServers":{"a":{"command":"x"}}}"#, "a=x"),
        (
            r#"{"mcp":{"servers":{"a":{"command":"x"}}},"tide.advanced":{"mcpServers":[{"name":"b","command":"y"}]}}"#,
            "a=x b=y",
        ),
        (r#"{"mcpServers":{},"agents":{"r":{"mcp-servers":{"a":{"url":"http://h/"}}}}}"#, "a=http://h/"),
        ("mcp_servers = {}\n[profiles.r.mcp_servers.a]\ncommand = \"x\"\n", "a=x"),
        (r#"{"mcp":{"stdio_servers":[{"name":"a","command":"x"}]}}"#, "a=x"),
        (r#"{"name":"m","plugins":[{"name":"p","mcpServers":{"a":{"command":"x"}}}]}"#, "a=x"),
        (
            "mcp:\n  servers: { a: { command: x } }\n  targets:\n    - name: b\n      target: npx -y 'b c'\n    - { name: c, target: https://h/ }\n",
            "a=x b=npx -y b c c=https://h/",
        ),
        (
            r#"{"mcpServers":{"a":{"command":"x"}},"mcp":{"serverCommand":"y --stdio"}}"#,
            "mcp.serverCommand=y --stdio a=x",
        ),
        (r#"{"mcp":{"serverCommand":"y --stdio"}}"#, "mcp.serverCommand=y --stdio"),
        (r#"{"mcpServers":{"a":{"command":"x"}},"mcp":{"b":{"command":"y"},"timeout":5}}"#, "b=y a=x"),
        (r#"{"mcpServers":{"a":{"baseUrl":"http://h/"}}}"#, "a=http://h/"),
        (r#"{"mcpServers":{"a":{"command":"x","env":{"mcpServers":"y"}}}}"#, "a=x"),
        (r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"}},"mcp":{"excluded":["a"]}}"#, "!a=x b=y"),
        (r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"}},"mcp":{"allowed":["a"]}}"#, "a=x !b=y"),
        (
            r#"{"mcpServers":{"a":{"command":"x","isActive":false},"b":{"command":"y","disabled":"true"}}}"#,
            "!a=x !b=y",
        ),
        (r#"{"mcpServers":{"a":{"command":"x","enabled":true,"disabled":false}},"servers":null}"#, "a=x"),
        (
            r#"{"name":"r","packages":[{"registryType":"npm","identifier":"@o/p","version":"1.2"},{"registryType":"oci","identifier":"o/p","runtimeArguments":[{"type":"named","name":"-v","value":"/a"}]},{"registryType":"mcpb","identifier":"https://h/p"}],"remotes":[{"type":"sse","url":"http://h/"}]}"#,
            "r (npm)=npx -y @o/p@1.2 r (oci)=docker run -i --rm -v /a o/p r (mcpb)? r (sse)=http://h/",
        ),
        (r#"{"name":"r","remotes":[{"type":"sse","url":"http://h/"}]}"#, "r=http://h/"),
        // Both of two members of one name, and names in any case.
        (r#"{"mcpServers":{"a":{"command":"x"}},"McpServers":{"b":{"Command":"y"}}}"#, "a=x b=y"),
        (r#"{"mcp.servers":{"a":{"command":"x"}}}"#, "a=x"),
        (r#"{"mcpServers":{"a":null,"b":{"command":"x","args":[null,"y"]}}}"#, "b=x y"),
        ("mcpServers:\n  no:\n    command: x\n    args: [y, ~]\n", "no=x y"),
        // Rules on servers are none.
        (
            r#"{"mcpServers":{"a":{"command":"x"}},"deniedMcpServers":[{"serverUrl":"https://h/*"},{"serverName":"b"}],"allowedMcpServers":[{"serverCommand":["y"]}]}"#,
            "a=x",
        ),
        (
            r#"{"permissions":{"denied_mcp_servers":{"a":{"url":"https://h/"}}},"mcpServers":{"b":{"command":"y"}}}"#,
            "b=y",
        ),
        (r#"{"deniedMcpServers":[{"serverUrl":"https://h/*"}]}"#, ""),
        (r#"{"enabledMcpServers":[{"url":"https://h/"}],"x":{"mcpServers":{"a":{"command":"x"}}}}"#, "a=x"),
        (r#"{"disabledMcpServers":{"a":{"command":"x"}}}"#, "a=x"),
        (r#"{"alliedMcpServers":[{"name":"a","url":"https://h/"}]}"#, "a=https://h/"),
        (
            r#"{"folders":[{"path":"."}],"settings":{"mcp":{"servers":{"a":{"command":"x"}},"inputs":[]}}}"#,
            "a=x",
        ),
        (r#"{"folders":[],"settings":{"mcp.servers":{"a":{"command":"x"}},"editor.fontSize":12}}"#, "a=x"),
        // A mere switch, and a mere address.
        (r#"{"mcp":{"a":{"command":["x"]},"b":{"enabled":false}}}"#, "a=x !b="),
        (r#"{"mcp":{"b":{"enabled":false}}}"#, "!b="),
        (r#"{"mcpServers":{"a":{"disabled":true},"b":{"enabled":true}}}"#, "!a= b?"),
        (
            "[mcp]\nsse_servers = [\"https://h/a\", { url = \"https://g/b\" }]\n",
            "h:443=https://h/a g:443=https://g/b",
        ),
        (r#"{"mcpServers":["http://h/a"]}"#, "h:80=http://h/a"),
        ("extensions:\n  a: {type: platform, name: a}\n  b: {type: stdio, cmd: x}\n", "b=x"),
        (r#"{"mcpServers":{"a":{"type":"platform","command":"x"}}}"#, "a=x"),
        (r#"{"a":{"command":"x","working_directory":null},"b":{"url":"http://h"}}"#, "a=x b=http://h"),
        (r#"[{"name":"a","command":"x"},{"url":"http://h"}]"#, "a=x h:80=http://h"),
        (r#"{"name":"q","tools":["*"],"mcpServers":{"a":{"command":"x"}}}"#, "a=x"),
        (
            r#"{"experimental":{"modelContextProtocolServers":[{"transport":{"type":"stdio","command":"x","args":["y"]}}]}}"#,
            "x=x y",
        ),
        (
            r#"{"manifest_version":"0.2","name":"e","server":{"type":"node","mcp_config":{"command":"node","args":["${__dirname}/x.js"]}}}"#,
            "e=node ${__dirname}/x.js",
        ),
    ];
    for (text, expected) in cases {
        let servers = contents(text, Path::new("-")).unwrap().servers.unwrap_or_else(|| panic!("{text}"));
        let said = servers.iter().map(|server| {
            let project = server.project.iter().map(|project| format!("{project}/")).collect::<String>();
            match &server.entry {
                Ok(entry) => {
                    let off = if entry.is_off() { "!" } else { "" };
                    format!("{off}{project}{}={}", server.name, entry.words().join(" "))
                }
                Err(_) => format!("{project}{}?", server.name),
            }
        });
        assert_eq!(said.collect::<Vec<_>>().join(" "), expected, "{text}");
    }
    for text in [
        r#"{"name":"t","packages":[{}],"inputSchema":{}}"#,
        r#"{"name":"t","mcp":{"a":{}},"inputSchema":{}}"#,
    ] {
        assert!(
            matches!(contents(text, Path::new("-")), Ok(Contents { definitions, servers: None }) if definitions.len() == 1),
            "{text}"
        );
    }
}

#[test]
fn client_config_servers_are_parsed() {
    let program = |argv: &[&str], env: &[(&str, &str)]| {
        Ok(Target::Program(Launch {
            argv: argv.iter().map(ToString::to_string).collect(),
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            cwd: None,
        }))
    };
    let url = |url: &str, headers: &[(&'static str, &str)]| {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), secret(value).unwrap()));
        Ok(Target::Address { url: url.parse().unwrap(), headers: headers.collect() })
    };
    let environment = Environment::from([("X".into(), "x:y".into())]);
    let cases = [
        (
            r#"{"command":"${X}","args":["a${env:X}"],"env":{"${X}":"${X}"}}"#,
            program(&["x:y", "ax:y"], &[("${X}", "x:y")]),
        ),
        (
            r#"{"url":"http://${X}@h/${X}","headers":{"X-Key":"${X}"}}"#,
            url("http://x:y@h/x:y", &[("x-key", "x:y")]),
        ),
        (r#"{"command":"a","cwd":"${NONE}"}"#, Err("NONE is not set")),
        (
            r#"{"url":"http://x","headers":{"k":"${input:k}"}}"#,
            Err("header k: `${input:k}`: only the client"),
        ),
        (r#"{"url":"${X}"}"#, Err("`${X}` is no address")),
        (r#"{"command":"a","args":["b"],"env":{"K":"v"}}"#, program(&["a", "b"], &[("K", "v")])),
        (
            r#"{"command":"a","args":null,"env":null,"cwd":null,"url":null,"headers":null}"#,
            program(&["a"], &[]),
        ),
        (r#"{"command":null,"url":"http://x/mcp"}"#, url("http://x/mcp", &[])),
        (
            r#"{"command":"a","args":[1],"env":{"N":64000,"F":0.2,"B":true,"V":"{env:X}","NONE":null}}"#,
            program(&["a", "1"], &[("N", "64000"), ("F", "0.2"), ("B", "true"), ("V", "x:y")]),
        ),
        (r#"{"command":["a","b"],"args":["c"]}"#, program(&["a", "b", "c"], &[])),
        (r#"{"command":[]}"#, Err("`command` is empty")),
        (
            r#"{"url":"http://x/mcp","bearer_token_env_var":"X"}"#,
            url("http://x/mcp", &[("authorization", "Bearer x:y")]),
        ),
        (r#"{"command":"a","enabled":false}"#, Err("disabled")),
        (r#"{"command":"a","env":{"K":[1]}}"#, Err("invalid type")),
        (r#"{"type":"stdio","command":"a","unknown":[1]}"#, program(&["a"], &[])),
        (r#"{"url":"http://x/mcp","headers":{"X-Key":"s"}}"#, url("http://x/mcp", &[("x-key", "s")])),
        (r#"{"serverUrl":"https://x/"}"#, url("https://x/", &[])),
        (r#"{"url":"file:///x"}"#, Err("begins with http")),
        (r#"{"url":"http://x","headers":{"a b":"s"}}"#, Err("header a b")),
        (r#"{"command":"a","disabled":true}"#, Err("disabled")),
        (r#"{"args":[]}"#, Err("neither")),
        (r#"{"command":""}"#, Err("`command` is empty")),
        (r#"{"url":"https://u:hidden@"}"#, Err("`https://u:***@` is no address")),
        (r#"{"command":5}"#, Err("invalid type")),
        (r#"{"command":"a","command":"b","enabled":false,"enabled":true}"#, program(&["b"], &[])),
        (r#"{"command":"a","args":"--token=hidden x"}"#, Err("invalid type: string \"--token=***\"")),
        (r#""wss://u:hidden@h/""#, Err("`wss://u:***@h/` is no address")),
        (r#""http://x/mcp""#, url("http://x/mcp", &[])),
        (r#"{"command":"a","args":["${/}b${pathSeparator}c"]}"#, program(&["a", "/b/c"], &[])),
        (
            r#"{"url":"http://x/mcp","headers":["X-Key: s:1", {"name":"X-Other","value":2}]}"#,
            url("http://x/mcp", &[("x-key", "s:1"), ("x-other", "2")]),
        ),
        (
            r#"{"url":"http://x/mcp","headers":"X-Key: s\nX-Other: t"}"#,
            url("http://x/mcp", &[("x-key", "s"), ("x-other", "t")]),
        ),
        (r#"{"url":"http://x/mcp","headers":"hidden"}"#, Err("`headers`: an entry is neither")),
        (r#"{"url":"http://x/mcp","headers":["hidden"]}"#, Err("`headers`: an entry is neither")),
        ("5", Err("invalid type")),
    ];
    for (text, expected) in cases {
        let json = serde_json::from_str(text).unwrap();
        let declared = declared(Found { project: None, name: "x".into(), json, is_off: false });
        match (declared.entry.and_then(|entry| entry.resolve(&environment)), expected) {
            (Ok(reach), Ok(expected)) => assert_eq!(reach, expected, "{text}"),
            (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{text}: {error:#}"),
            (reach, _) => panic!("{text}: {reach:?}"),
        }
    }
}

/// The id that a declared server would have.
#[test]
fn variable_of_a_separator_stands_in_no_id() {
    for (text, id) in [
        (r#"{"command":"node","args":["${extensionPath}${/}dist${/}tide-mcp.js"]}"#, "tide-mcp"),
        (r#"{"command":"${extensionPath}${pathSeparator}tide-mcp"}"#, "tide-mcp"),
        (r#"{"command":"cmd","args":["/c","npx -y @bay/tide-mcp"]}"#, "tide-mcp"),
    ] {
        let json: Box<RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(Entry::read("x", &json).unwrap().server_id(), id, "{text}");
    }
}
