use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod argv;
mod databases;
mod prose;

fn redactor() -> Redactor {
    Redactor::new([7; 32])
}

fn redact(json: &str) -> Value {
    redactor().redact(json).value()
}

#[test]
fn redacted_leaf_keeps_type_length_and_hash() {
    let long = "a text of some length";
    let digest = |text: &str| redactor().digest("string", text.as_bytes());
    let cases = [
        (format!("{long:?}"), json!({"type": "string", "length": 21, "hash": digest(long)})),
        (r#""\u00e9""#.to_owned(), json!({"type": "string", "length": 2, "hash": null})),
        ("1".to_owned(), json!({"type": "number", "hash": null})),
        ("-1.50".to_owned(), json!({"type": "number", "hash": null})),
        ("true".to_owned(), json!({"type": "boolean", "hash": null})),
        ("null".to_owned(), json!({"type": "null", "hash": null})),
        ("{}".to_owned(), json!({})),
        ("[]".to_owned(), json!([])),
        (r#"{"a":[null]}"#.to_owned(), json!({"a": [{"type": "null", "hash": null}]})),
        (r#"{"a":1,"a":null}"#.to_owned(), json!({"a": {"type": "null", "hash": null}})),
        (r#""\ud800""#.to_owned(), json!({"type": "string", "length": 3, "hash": null})),
        ("1e999".to_owned(), json!({"type": "invalid", "length": 5, "hash": null})),
        ("nonsense".to_owned(), json!({"type": "invalid", "length": 8, "hash": null})),
    ];
    for (text, expected) in cases {
        assert_eq!(redact(&text), expected, "{text}");
    }
}

/// Of all values of such a kind a caller can have the hashes.
#[test]
fn guessable_strings_have_no_hash() {
    for (text, is_hashed) in [
        ("", false),
        ("4711", false),
        ("hunter2", false),
        ("fifteen letters", false),
        ("sixteen letters!", true),
        ("4111 1111 1111 1111", false),
        ("+49 30 123456-7890", false),
        ("1990-12-31T00:00:00.000", false),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", false),
        ("abcabcabcabcabcabcabcabc1234", false),
        ("Zm9vYmFyYmF6cXV4MTIz", true),
        ("слова другого языка", true),
    ] {
        assert_eq!(redact(&format!("{text:?}"))["hash"].is_string(), is_hashed, "{text}");
    }
    // Nor in what is one leaf for all that is in it.
    let deep = format!("{}{{\"pin of the card\":4711}}{}", "[".repeat(64), "]".repeat(64));
    let many = format!("[{}\"a text of some length\"]", "0,".repeat(MAX_LEAVES));
    for text in [redact(&deep), redact(&many)] {
        let text = text.to_string();
        assert!(text.contains("truncated") && !text.contains("\"hash\":\""), "{text}");
    }
}

/// `s` stands for the leaf of the string `x`, and `n` for that of the number 1.
#[test]
fn redacted_members_are_sorted_and_last_duplicate_wins() {
    let (s, n) = (redactor().redact("\"x\"").to_string(), redactor().redact("1").to_string());
    for (text, expected) in [
        (r#"{"a":"x","b":1}"#, r#"{"a":s,"b":n}"#),
        (r#" { "b" : "x" , "a" : 1 } "#, r#"{"a":n,"b":s}"#),
        (r#"{"a":"x","b":1,"a":1}"#, r#"{"a":n,"b":n}"#),
        (r#"{"a":"x","a":1}"#, r#"{"a":n}"#),
        (
            r#"{"b":{"d":1,"c":"x"},"a":[{"z":1,"y":[]},{}]}"#,
            r#"{"a":[{"y":[],"z":n},{}],"b":{"c":s,"d":n}}"#,
        ),
        // Compared as they are read, not as they are written.
        (r#"{"\u0062":1,"a":"x"}"#, r#"{"a":s,"b":n}"#),
        (r#"{"é":1,"\"\n":"x"}"#, r#"{"\"\n":s,"é":n}"#),
        (r#"{"":{}, "\ud83d\ude00":[[]]}"#, r#"{"":{},"😀":[[]]}"#),
    ] {
        let expected = expected.replace(":n", &format!(":{n}")).replace(":s", &format!(":{s}"));
        assert_eq!(redactor().redact(text).to_string(), expected, "{text}");
    }
}

#[test]
fn redaction_hash_depends_on_the_key() {
    let text = r#""a text of some length""#;
    assert_ne!(redactor().redact(text), Redactor::new([8; 32]).redact(text));
    assert_ne!(redactor().digest("string", b"true"), redactor().digest("boolean", b"true"));
}

#[test]
fn redacted_large_values_are_truncated() {
    let many = format!("[{}]", vec!["1"; 5_000].join(","));
    let array = redact(&many);
    let items = array.as_array().unwrap();
    assert_eq!(items.len(), MAX_LEAVES + 1);
    assert_eq!(items[MAX_LEAVES]["type"], "truncated");
    assert_eq!(items[MAX_LEAVES]["length"], 4_000);

    let members: Vec<String> = (0..2_000).map(|at| format!("\"k{at}\":1")).collect();
    let object = redact(&format!("{{{}}}", members.join(",")));
    assert_eq!(object.as_object().unwrap().len(), MAX_LEAVES + 1);
    assert_eq!(object[REST]["type"], "truncated");

    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = redact(&deep).to_string();
    assert!(text.contains("truncated") && text.len() < 1_000, "{text}");
}

#[test]
fn long_member_keys_are_hashed() {
    let key = "k".repeat(MAX_KEY_BYTES + 1);
    let object = redact(&format!("{{\"{key}\":1}}"));
    let name = object.as_object().unwrap().keys().next().unwrap().clone();
    assert_eq!(name, format!("key:{}", redactor().digest("key", key.as_bytes())));
}

#[test]
fn secrets_in_command_lines_are_redacted() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["npx", "-y", "pkg", "/data"], &["npx", "-y", "pkg", "/data"]),
        // Flags and their values.
        (&["s", "--token", "abc", "x"], &["s", "--token", "***", "x"]),
        (&["s", "--token=abc"], &["s", "--token=***"]),
        (&["s", "--api-key", "=", "abc", "x"], &["s", "--api-key", "=", "***", "x"]),
        (&["bwrap", "--setenv", "API_TOKEN", "abc", "s"], &["bwrap", "--setenv", "API_TOKEN", "***", "s"]),
        (
            &["s", "ssh://git@h:22/a.git", "postgres://app@db/x"],
            &["s", "ssh://git@h:22/a.git", "postgres://app@db/x"],
        ),
        (&["s", "https://tok@h/x", "git+https://tok@h/x"], &["s", "https://***@h/x", "git+https://***@h/x"]),
        (&["sh", "-c", "PASSWORD=ab\\)cdefgh s"], &["sh", "-c", "PASSWORD=*** s"]),
        (&["s", "nats://mytoken@h:4222"], &["s", "nats://***@h:4222"]),
        (&["s", "https://h/#9fceb02d0ae598e95dc970b74767f19372d61af8"], &["s", "https://h/#***"]),
        (&["s", "Authorization: Bearer ${A} hunter2secret"], &["s", "Authorization: ***"]),
        (&["sh", "-c", "PASSWORD=$((12345678)) s"], &["sh", "-c", "PASSWORD=***)) s"]),
        (&["s", "--secret", "tok"], &["s", "--secret", "***"]),
        (&["sh", "-c", "TOKEN=$(cat /run/t) exec s"], &["sh", "-c", "TOKEN=$(cat /run/t) exec s"]),
        (&["sh", "-c", "TOKEN=$(gen --password abc) s"], &["sh", "-c", "TOKEN=$(gen --password ***) s"]),
        (&["s", "--password", "--", "abc"], &["s", "--password", "--", "***"]),
        (&["s", "--verbose", "--", "abc"], &["s", "--verbose", "--", "abc"]),
        (
            &["s", "--api-key", "$API_KEY", "--token", "$T0ken"],
            &["s", "--api-key", "$API_KEY", "--token", "***"],
        ),
        (&["s", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer $TOKEN"], {
            &["s", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer $TOKEN"]
        }),
        (&["s", "X: Bearer $API_TOKEN", "Authorization: Bearer $tOKEN"], {
            &["s", "X: Bearer $API_TOKEN", "Authorization: ***"]
        }),
        (&["uvx", "git+https://h/a/m@9fceb02d0ae598e95dc970b74767f19372d61af8"], {
            &["uvx", "git+https://h/a/m@9fceb02d0ae598e95dc970b74767f19372d61af8"]
        }),
        (&["npx", "https://h/m.git#9fceb02d0ae598e95dc970b74767f19372d61af8"], {
            &["npx", "https://h/m.git#9fceb02d0ae598e95dc970b74767f19372d61af8"]
        }),
        (&["s", "https://h/9fceb02d0ae598e95dc970b74767f19372d61af8/x"], &["s", "https://h/***/x"]),
        (&["s", "--token=a b&c;d"], &["s", "--token=***"]),
        (&["s", "--token=", "x"], &["s", "--token=", "x"]),
        (&["s", "--api-key", "abc"], &["s", "--api-key", "***"]),
        (&["s", "--apiKey", "abc"], &["s", "--apiKey", "***"]),
        (&["s", "--license-key", "abc"], &["s", "--license-key", "***"]),
        (&["s", "--github-pat", "abc"], &["s", "--github-pat", "***"]),
        (&["s", "-Dapp.token=abc"], &["s", "-Dapp.token=***"]),
        (&["s", "--token", "-abc"], &["s", "--token", "***"]),
        (&["s", "--token", "--aBc9", "x"], &["s", "--token", "***", "x"]),
        (&["s", "--token", "--verbose"], &["s", "--token", "--verbose"]),
        (&["s", "--token", "-v", "x"], &["s", "--token", "-v", "x"]),
        (&["s", "--token", "--api-key", "abc"], &["s", "--token", "--api-key", "***"]),
        (&["s", "--token"], &["s", "--token"]),
        (&["curl", "-u", "me:abc", "x"], &["curl", "-u", "me:***", "x"]),
        (&["docker", "run", "-u", "1000:1000"], &["docker", "run", "-u", "1000:1000"]),
        // Variables.
        (&["env", "GITHUB_TOKEN=abc", "s"], &["env", "GITHUB_TOKEN=***", "s"]),
        (&["env", "GITHUB_TOKEN=a b c", "s"], &["env", "GITHUB_TOKEN=***", "s"]),
        (&["env", "MAXMIND_LICENSE_KEY=abc", "s"], &["env", "MAXMIND_LICENSE_KEY=***", "s"]),
        (&["docker", "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "i"], {
            &["docker", "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "i"]
        }),
        (&["docker", "-e", "OPENAI_API_KEY=abc"], &["docker", "-e", "OPENAI_API_KEY=***"]),
        (&["docker", "--env=OPENAI_API_KEY=abc"], &["docker", "--env=OPENAI_API_KEY=***"]),
        (&["s", "Server=x;Password=a b;Timeout=3"], &["s", "Server=x;Password=***;Timeout=3"]),
        // Headers.
        (&["mcp-remote", "https://x/sse", "--header", "Authorization: Bearer abc"], {
            &["mcp-remote", "https://x/sse", "--header", "Authorization: ***"]
        }),
        (&["s", "--header", "X-Api-Key: abc"], &["s", "--header", "X-Api-Key: ***"]),
        (&["s", "--header=X-Api-Key:abc"], &["s", "--header=X-Api-Key:***"]),
        (&["s", "-HOcp-Subscription-Key: abc"], &["s", "-HOcp-Subscription-Key: ***"]),
        (&["s", "--header", "X-Else: Bearer abc"], &["s", "--header", "X-Else: Bearer ***"]),
        (
            &["s", "-H", "Authorization:", "Bearer", "abc", "x"],
            &["s", "-H", "Authorization:", "***", "***", "x"],
        ),
        (&["s", "Cookie: a=b; c=d"], &["s", "Cookie: ***"]),
        // URLs.
        (&["s", "postgresql://u:p@h/db"], &["s", "postgresql://u:***@h/db"]),
        (&["s", "postgresql://u:p/q@h/db"], &["s", "postgresql://u:***@h/db"]),
        (&["s", "--db=postgresql://u:p@h/db"], &["s", "--db=postgresql://u:***@h/db"]),
        (&["s", "https://abc@h/p"], &["s", "https://***@h/p"]),
        (&["s", "https://h:8080/@scope/p"], &["s", "https://h:8080/@scope/p"]),
        (&["s", "https://h/p?a=1&api_key=2&b=3"], &["s", "https://h/p?a=1&api_key=***&b=3"]),
        (&["s", "https://h/p?key=2#access_token=3"], &["s", "https://h/p?key=***#access_token=***"]),
        (&["s", "https://h/s/Zm9vYmFyYmF6cXV4MTIz/sse"], &["s", "https://h/s/***/sse"]),
        // JSON.
        (&["s", r#"{"apiKey":"abc","x":1}"#], &["s", r#"{"apiKey":"***","x":1}"#]),
        (&["s", r#"{"token" : "a\"b", "x": 1}"#], &["s", r#"{"token" : "***", "x": 1}"#]),
        (&["s", r#"{"h":{"Authorization":"Bearer abc"}}"#], &["s", r#"{"h":{"Authorization":"***"}}"#]),
        (&["s", r#"{"s":"{\"token\":\"abc\",\"x\":1}"}"#], &["s", r#"{"s":"{\"token\":\"***\",\"x\":1}"}"#]),
        (&["s", r#"{"args":["--token","abc"]}"#], &["s", r#"{"args":["--token","***"]}"#]),
        (&["s", r#"{"tokens":["abc","def"]}"#], &["s", r#"{"tokens":["***","***"]}"#]),
        (
            &["s", r#"{"s":"{\"tokens\":[\"abc\",\"def\"]}","x":1}"#],
            &["s", r#"{"s":"{\"tokens\":[\"***\",\"***\"]}","x":1}"#],
        ),
        (
            &["s", r#"{"secret":{"a":"abc","b":[12, {"c" : "d e"}],"type":"x"},"user":"ada"}"#],
            &["s", r#"{"secret":{"a":"***","b":[***, {"c" : "***"}],"type":"x"},"user":"ada"}"#],
        ),
        (&["s", "tokens: {a: bc, d: 'e f'}, g: h"], &["s", "tokens: {a: ***, d: '***'}, g: h"]),
        (&["s", r#"{"tokens":["abc"#], &["s", r#"{"tokens":["***"#]),
        (
            &["sh", "-c", r#"s '{"tokens":["abc"],"x":1}' -y"#],
            &["sh", "-c", r#"s '{"tokens":["***"],"x":1}' -y"#],
        ),
        // What is a secret by itself.
        (&["s", "ghp_abcdef"], &["s", "***"]),
        (&["s", "ya29.a0Ab_c-d"], &["s", "***"]),
        (&["s", "--x=ghp_abcdef"], &["s", "--x=***"]),
        (&["s", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.ab-c"], &["s", "***"]),
        (&["s", "-t", "0123456789abcdef0123456789abcdef"], &["s", "-t", "***"]),
        (&["s", "aB3-dE5_gH7-jK9-mN1"], &["s", "aB3-dE5_gH7-jK9-mN1"]),
        (&["s", "aB3-dE5_gH7-jK9-mN1p"], &["s", "***"]),
        // A shell's line.
        (
            &["sh", "-c", "X_SECRET=abc npx y --password zz q"],
            &["sh", "-c", "X_SECRET=*** npx y --password *** q"],
        ),
        (&["sh", "-c", "T_TOKEN=a'b c'\"d\" npx y --password \"z z\" q"], {
            &["sh", "-c", "T_TOKEN=*** npx y --password *** q"]
        }),
        (&["sh", "-c", "X_TOKEN= curl x --token -abc --key --verbose"], {
            &["sh", "-c", "X_TOKEN= curl x --token *** --key --verbose"]
        }),
        (&["sh", "-c", "npx mcp-remote https://x --header \"Authorization: Bearer abc\" --debug"], {
            &["sh", "-c", "npx mcp-remote https://x --header \"Authorization: ***\" --debug"]
        }),
        (&["sh", "-c", "curl -H Authorization: Bearer abc x"], &["sh", "-c", "curl -H Authorization: *** x"]),
        (&["sh", "-c", "curl -H Bearer abc"], &["sh", "-c", "curl -H Bearer ***"]),
        // Nothing can be hidden behind a name.
        (&["sh", "-c", "token: x; curl evil"], &["sh", "-c", "token: ***; curl evil"]),
        (&["sh", "-c", "true;token=x curl evil"], &["sh", "-c", "true;token=*** curl evil"]),
        (&["npm exec x --token abc"], &["npm exec x --token ***"]),
        // What stands behind a value stays.
        (
            &["s", "host=db.test password=a.b-c dbname=shop user='u v'"],
            &["s", "host=db.test password=*** dbname=shop user='u v'"],
        ),
        (&["s", "password=abc host=db.test"], &["s", "password=*** host=db.test"]),
        (
            &["s", "host=db.test password='a b' dbname=shop"],
            &["s", "host=db.test password='***' dbname=shop"],
        ),
        (&["s", "host = db.test password = abc dbname = shop"], {
            &["s", "host = db.test password = *** dbname = shop"]
        }),
        (
            &["helm", "--set", "a.password=b,replicas=2,x.y=3"],
            &["helm", "--set", "a.password=***,replicas=2,x.y=3"],
        ),
        (&["helm", "--set=password=b,replicas=2"], &["helm", "--set=password=***,replicas=2"]),
        (&["helm", "--set", "a.password=b\\,c=d"], &["helm", "--set", "a.password=***"]),
        (
            &["gcloud", "--set-env-vars", "A=1,B_TOKEN=b,C=2"],
            &["gcloud", "--set-env-vars", "A=1,B_TOKEN=***,C=2"],
        ),
        (&["s", "redis.test:6380,password=a=,ssl=True"], &["s", "redis.test:6380,password=***,ssl=True"]),
        (&["s", "Password=a b;Server=x;User ID=y"], &["s", "Password=***;Server=x;User ID=y"]),
        (&["ssh", "box", "A_TOKEN=abc npx -y @acme/mail"], &["ssh", "box", "A_TOKEN=*** npx -y @acme/mail"]),
        (&["ssh", "-p", "2222", "u@box", "A_TOKEN='a b' exec ./mail --token c x"], {
            &["ssh", "-p", "2222", "u@box", "A_TOKEN=*** exec ./mail --token *** x"]
        }),
        (&["env", "-S", "A_TOKEN=abc node srv.js"], &["env", "-S", "A_TOKEN=*** node srv.js"]),
        (
            &["/usr/bin/env", "-iS", "A_TOKEN=abc B=1 node s.js"],
            &["/usr/bin/env", "-iS", "A_TOKEN=*** B=1 node s.js"],
        ),
        (&["env", "-SA_TOKEN=abc node s.js"], &["env", "-SA_TOKEN=*** node s.js"]),
        (&["env", "--split-string=A_TOKEN=abc node s.js"], &["env", "--split-string=A_TOKEN=*** node s.js"]),
        (
            &["supergateway", "--stdio", "A_TOKEN=abc npx m"],
            &["supergateway", "--stdio", "A_TOKEN=*** npx m"],
        ),
        (
            &["sops", "exec-env", "s.yaml", "A_TOKEN=abc npx m"],
            &["sops", "exec-env", "s.yaml", "A_TOKEN=*** npx m"],
        ),
        (&["nix-shell", "--run", "A_TOKEN=abc npx m"], &["nix-shell", "--run", "A_TOKEN=*** npx m"]),
        (&["ssh", "box", "sh -c 'A_TOKEN=abc npx m'"], &["ssh", "box", "sh -c 'A_TOKEN=*** npx m'"]),
        (&["sshpass", "-p", "abc", "ssh", "-p", "2222", "box", "mail", "-p", "8080"], {
            &["sshpass", "-p", "***", "ssh", "-p", "2222", "box", "mail", "-p", "8080"]
        }),
        (&["sh", "-c", "sshpass -pabc scp -P 22 a b && mail -p 80"], {
            &["sh", "-c", "sshpass -p*** scp -P 22 a b && mail -p 80"]
        }),
        (&["python3", "-c", "E['A_TOKEN'] = 'a b'; go()"], &["python3", "-c", "E['A_TOKEN'] = ***; go()"]),
        (
            &["node", "-e", "E[\"A_TOKEN\"] = \"a b\"; go()"],
            &["node", "-e", "E[\"A_TOKEN\"] = \"***\"; go()"],
        ),
        (&["s", "host: x\napi_key: a b\nport: 1"], &["s", "host: x\napi_key: ***\nport: 1"]),
        (&["s", "auth: oauth\ntoken: abc\n"], &["s", "auth: oauth\ntoken: ***\n"]),
        (&["sshpass", "-pPW", "scp", "a"], &["sshpass", "-p***", "scp", "a"]),
        (&["s", "Tr0ub4dor3CorrectHorseBattery9"], &["s", "***"]),
        (&["s", "Authorization:", "Token", "abc", "x"], &["s", "Authorization:", "***", "***", "x"]),
        (&["s", "<a><token>b c</token><d>e</d></a>"], &["s", "<a><token>***</token><d>e</d></a>"]),
        (&["curl", "-sSu", "me:abc", "https://a.test"], &["curl", "-sSu", "me:***", "https://a.test"]),
        (&["curl", "-fsSLume:abc", "https://a.test"], &["curl", "-fsSLume:***", "https://a.test"]),
        (&["curl", "-sS", "https://a.test"], &["curl", "-sS", "https://a.test"]),
        (&["s", "--oauth2Bearer", "abc"], &["s", "--oauth2Bearer", "***"]),
        (&["mcp-proxy", "-H", "Authorization", "Token abc"], &["mcp-proxy", "-H", "Authorization", "***"]),
        (&["s", "--headers", "X-Api-Key", "abc"], &["s", "--headers", "X-Api-Key", "***"]),
        (&["fish", "-c", "set -gx A_TOKEN abc; npx m"], &["fish", "-c", "set -gx A_TOKEN ***; npx m"]),
        (&["cmd", "/c", "setx A_TOKEN abc"], &["cmd", "/c", "setx A_TOKEN ***"]),
        // Harmless.
        (&["kubectl", "config", "set-credentials", "lena", "--password=abc"], {
            &["kubectl", "config", "set-credentials", "lena", "--password=***"]
        }),
        (&["docker", "login", "-u", "lena", "--password-stdin", "reg.test"], {
            &["docker", "login", "-u", "lena", "--password-stdin", "reg.test"]
        }),
        (
            &["s", "--ssh-key", "/home/lena/.ssh/id_ed25519"],
            &["s", "--ssh-key", "/home/lena/.ssh/id_ed25519"],
        ),
        (&["aws", "secretsmanager", "get-secret-value", "--secret-id", "prod/db"], {
            &["aws", "secretsmanager", "get-secret-value", "--secret-id", "prod/db"]
        }),
        (&["vault", "write", "--secret-id", "abc"], &["vault", "write", "--secret-id", "***"]),
        (&["vault-mcp", "--mount", "auth/aws", "--secret-id", "abc"], {
            &["vault-mcp", "--mount", "auth/aws", "--secret-id", "***"]
        }),
        (&["s", "--password", "<hunter2>"], &["s", "--password", "***"]),
        (&["s", "--token", "os.getenv('X','abc')"], &["s", "--token", "***"]),
        (&["ruby", "-e", "password=ENV['X']||'abcdefgh'"], &["ruby", "-e", "password=***"]),
        (&["s", "API_KEY=process.env.X||'abc'"], &["s", "API_KEY=***"]),
        (&["git", "config", "set", "use-token", "abc"], &["git", "config", "set", "use-token", "***"]),
        (&["s", "--api-key", "<your-api-key>"], &["s", "--api-key", "<your-api-key>"]),
        (&["s", "--token", "<YOUR_TOKEN>"], &["s", "--token", "<YOUR_TOKEN>"]),
        (&["python3", "-c", "token = os.environ['A_TOKEN']; go()"], {
            &["python3", "-c", "token = os.environ['A_TOKEN']; go()"]
        }),
        (&["s", "--max-tokens", "5"], &["s", "--max-tokens", "5"]),
        (&["git", "--author", "me"], &["git", "--author", "me"]),
        (&["s", "--model=x"], &["s", "--model=x"]),
        (&["s", "ghcr.io/acme/auth:latest"], &["s", "ghcr.io/acme/auth:latest"]),
        (&["node", "/root/.npm/_npx/0123456789abcdef0123/x.js"], {
            &["node", "/root/.npm/_npx/0123456789abcdef0123/x.js"]
        }),
        (&["docker", "mcp/git@sha256:0123456789abcdef0123456789"], {
            &["docker", "mcp/git@sha256:0123456789abcdef0123456789"]
        }),
        (&["npx", "@modelcontextprotocol/server-everything@2025.9.1"], {
            &["npx", "@modelcontextprotocol/server-everything@2025.9.1"]
        }),
    ];
    let mut wrong = Vec::new();
    for (argv, expected) in cases {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let shown = redact_argv(&argv);
        if shown != *expected {
            wrong.push(format!("{argv:?}: {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let long: Vec<String> = vec!["é".repeat(5_000); 100];
    let kept = redact_argv(&long);
    assert_eq!(kept.len(), 65);
    assert_eq!(kept[64], "… 36 more");
    assert!(kept.iter().all(|arg| arg.len() <= 1_024 + 3));
}

proptest! {
    #[test]
    fn redacting_any_command_line_succeeds(argv in prop::collection::vec("[-_a\\\\\"' =:,;?&#@/{}\\[\\]é]{0,12}|--token|-lc|-u|set|curl|mysql -pa|passwd|パスワード：a|-----BEGIN |Bearer|x://u:p@h|\\PC*", 0..6)) {
        prop_assert_eq!(redact_argv(&argv).len(), argv.len());
    }

    #[test]
    fn secret_argument_value_is_never_shown(before in "([a-z {,;&?]{0,6}[ {,;&?])?", name in "--token=|apiKey\": \"|GITHUB_TOKEN=|\\?key=|\"token\":\\[\"|\\{\\\\\"token\\\\\":\\[\\\\\"|\"--token\", *\"", shell: bool) {
        let argv = ["sh".to_owned(), if shell { "-c" } else { "-x" }.to_owned(), format!("{before}{name}hunter2")];
        let shown = redact_argv(&argv).join(" ");
        prop_assert!(!shown.contains("hunter2"), "{argv:?}: {shown}");
    }
}
