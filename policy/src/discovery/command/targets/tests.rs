use proptest::prelude::*;

use super::words::MAX_BYTES;
use super::*;

proptest! {
    /// Whatever is in front, behind or beside: no password, and no more than a bound.
    #[test]
    fn password_is_in_no_target(before in "[a-z/;?#=&:]{0,6}", after in "[a-z/;?#=&: ]{0,6}", shape in 0..4_usize) {
        let url = format!("https://u:{before}hunter{after}@bay.test/mcp?a=b");
        let quoted = format!("'{url}'");
        let words = match shape {
            0 => vec!["mcp-remote", &url],
            1 => vec!["supergateway", "--sse", &url],
            2 => vec!["wire-relay", "--to", &url],
            _ => vec!["ssh", "box", "mcp-remote", &quoted],
        };
        let found = target(words[0], &words[1..], 0).unwrap_or_default();
        prop_assert!(!found.contains("hunter") && found.len() <= 2 * MAX_BYTES, "{words:?}: {found}");
    }

    #[test]
    fn any_arguments_have_a_bounded_target(words in prop::collection::vec("ssh|kubectl|exec|mcp-proxy|npx|docker|mcp|run|--|-n|-o|a/b-c|https://a|://|@|artisan|sh|-c|ssh box x|\\PC*", 0..12)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Some((name, args)) = words.split_first() {
            let found = target(name, args, 0).unwrap_or_default();
            prop_assert!(found.len() <= 2 * MAX_BYTES && !found.contains(char::is_control), "{found:?}");
        }
    }
}

/// Nothing of a URL is kept that may be a secret, and nothing that does not say where it leads.
#[test]
fn place_has_no_secrets() {
    let cases = [
        ("https://Bay.test/MCP", "https://bay.test/MCP"),
        ("https://bay.test:443/mcp/", "https://bay.test/mcp"),
        ("http://bay.test:443", "http://bay.test:443"),
        ("HTTPS://u:secret@bay.test:8443/mcp?key=secret#x", "https://bay.test:8443/mcp"),
        ("https://u:sec/ret@bay.test/mcp", "https://bay.test/mcp"),
        ("https://u:a?sec#r/et@bay.test/mcp?e=1", "https://bay.test/mcp"),
        ("https://bay.test:80/mcp?e=a@secret", "https://bay.test:80/mcp"),
        ("https://secret@bay.test/mcp;key=secret", "https://bay.test/mcp"),
        ("http://[::1]:7001/sse", "http://[::1]:7001/sse"),
    ];
    for (url, expected) in cases {
        assert_eq!(place(url), expected, "{url}");
    }
    let secret = ["https://bay.test/s/", "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8", "/mcp"].concat();
    let (one, two) = (place(&secret), place(&secret.replace("Ab1", "Ab2")));
    assert!(one != two && one.starts_with("https://bay.test/s/") && one.ends_with("/mcp"), "{one}");
    assert!(!one.contains("Cd2Ef3"), "{one}");
}

#[test]
fn pod_is_known_by_what_its_replicas_share() {
    let cases = [
        ("pod/tide-0", "tide-0"),
        ("tide-7d9f8b6c5d-x2x9z", "tide-*"),
        ("tide-x2x9z", "tide-*"),
        ("deploy/tide", "deploy/tide"),
        ("deployments.apps/tide", "deploy/tide"),
        ("other/tide", "other/tide"),
        ("tide-plans", "tide-plans"),
        ("weather", "weather"),
    ];
    for (pod, expected) in cases {
        assert_eq!(replicated(pod), expected, "{pod}");
    }
}

/// Command lines, and what they stand for.
#[test]
fn target_is_readable() {
    let cases = [
        ("mcp-remote --debug https://bay.test/mcp 3334", "https://bay.test/mcp"),
        ("mcp-remote --brand-new value https://bay.test/mcp", "https://bay.test/mcp"),
        ("mcp_proxy -e KEY value --port 80 uvx tide-mcp@1 --db x", "tide-mcp"),
        ("supergateway --sse https://bay.test/sse", "https://bay.test/sse"),
        ("@smithery/cli run @bay/tide@1.0 --key k", "@bay/tide"),
        ("artisan mcp:start tide", "mcp:start tide"),
        ("docker-mcp gateway run --servers=a,b --profile p", "--servers=a,b --profile=p"),
        ("docker --context far run -c 512 bay/tide", "--context=far"),
        ("ssh -p 2201 -l ann box uvx tide-mcp", "ann@box:2201 tide-mcp"),
        ("ssh box", "box"),
        ("ssh -o User=ann -oport=2201 box tide-mcp", "ann@box:2201 tide-mcp"),
        ("sshpass -p x ssh box tide-mcp", "ssh to box tide-mcp"),
        ("ssh box npx mcp-remote https://bay.test/mcp", "box mcp-remote to https://bay.test/mcp"),
        (
            "kubectl -n a exec -it pod/tide-0 -c b -- python -m tide_mcp",
            "tide-0 --namespace=a --container=b tide_mcp",
        ),
        ("kubectl get pods", ""),
        ("docker run bay/tide", ""),
        ("socat - TCP:bay.test:9000", "- TCP:bay.test:9000"),
        ("wire-relay --proxy http://p.test --to wss://bay.test/x", "wss://bay.test/x"),
        ("tide-mcp https://bay.test/x", ""),
        ("toolbelt mcp tide --x", "tide"),
        ("toolbelt mcp --x", ""),
        ("workers-mcp run tide https://tide.bay.test/ /srv/tide", "tide https://tide.bay.test"),
        (
            "@toolbox-sdk/server --stdio --prebuilt=mysql --prebuilt redis",
            "--prebuilt=mysql --prebuilt=redis",
        ),
        ("toolbox --tools-file /etc/t/a.yaml", "--tools-file=/etc/t/a.yaml"),
        ("toolbox run -c box tide-mcp", "--container=box tide-mcp"),
        ("apollo-mcp-server -l debug /etc/a.yaml", "/etc/a.yaml"),
        (
            "apollo-mcp-server --schema a.graphql --operations b.graphql",
            "--schema=a.graphql --operations=b.graphql",
        ),
        ("tide-mcp --tools-dir /srv/tide-1.2/tools", "--tools-dir=/srv/tide/tools"),
        ("mcp-hub --port 3 --config ./a.json", "a.json"),
        ("mcp-hub --port 3", ""),
        ("tide-mcp --tools read,write --config /etc/a.json", ""),
    ];
    for (line, expected) in cases {
        let words: Vec<&str> = line.split(' ').collect();
        let found = target(words[0], &words[1..], 0).unwrap_or_default();
        assert_eq!(found, expected, "{line}");
    }
}

/// Bridges in bridges cost no more than their levels.
#[test]
fn nested_bridges_are_bounded() {
    let words = ["mcp-proxy", "npx"].repeat(120);
    let text = "ssh box ".repeat(100);
    for words in [words, vec!["ssh", "box", &text]] {
        let found = of_command(&words, 0);
        assert!(found.len() <= 2 * MAX_BYTES, "{found}");
    }
}
