mod programs;

use proptest::prelude::*;

use super::*;

fn argv(line: &str) -> Vec<String> {
    // Arguments with blanks are written with `_` for them inside `'…'`.
    line.split(' ')
        .map(|arg| if arg.starts_with('\'') { arg.trim_matches('\'').replace('_', " ") } else { arg.into() })
        .collect()
}

/// Real commands: the line, the id, and whether it counts as a server by name.
const COMMANDS: &[(&str, &str, bool)] = &[
    // npm and friends
    ("npx -y @modelcontextprotocol/server-filesystem /data", "server-filesystem", true),
    ("npx @modelcontextprotocol/server-everything@2025.9.1 stdio", "server-everything", true),
    ("npx -y --package=@modelcontextprotocol/server-memory mcp-server-memory", "server-memory", true),
    ("npx -p @acme/tools acme-mcp", "tools", true),
    ("npx -y @playwright/mcp@latest --headless", "playwright-mcp", true),
    ("npx -y @upstash/context7-mcp", "context7-mcp", true),
    ("npx mcp-remote https://example.com/sse", "mcp-remote", true),
    ("npx -c 'mcp-server-memory_--x'", "mcp-server-memory", true),
    ("npm exec -- @modelcontextprotocol/server-memory", "server-memory", true),
    ("npm exec @modelcontextprotocol/server-memory", "server-memory", true),
    ("'npm_exec_@modelcontextprotocol/server-memory'", "server-memory", true),
    ("node /usr/bin/npx -y @modelcontextprotocol/server-memory", "server-memory", true),
    ("node /usr/lib/node_modules/npm/bin/npx-cli.js -y mcp-server-x", "mcp-server-x", true),
    ("bunx mcp-server-sqlite", "mcp-server-sqlite", true),
    ("bun x @acme/mcp", "acme-mcp", true),
    ("bun run /srv/weather-mcp/index.ts", "weather-mcp", true),
    ("pnpm dlx figma-developer-mcp --stdio", "figma-developer-mcp", true),
    ("yarn dlx @acme/acme-mcp-server", "acme-mcp-server", true),
    (
        "node /srv/a/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
        "server-everything",
        true,
    ),
    ("node /srv/a/node_modules/n8n-mcp/dist/mcp/stdio-wrapper.js", "n8n-mcp", true),
    ("node /root/.npm/_npx/ab/node_modules/.bin/mcp-server-everything", "mcp-server-everything", true),
    ("node --import x.mjs -r y /srv/mcp-server-weather/build/index.js", "mcp-server-weather", true),
    ("node /srv/weather/dist/index.js", "weather", false),
    ("deno run -A jsr:@x/mcp-server", "x-mcp-server", true),
    ("deno run --allow-net npm:@acme/files-mcp@1.0.0", "files-mcp", true),
    ("tsx /home/u/notes-mcp/src/index.ts", "notes-mcp", true),
    // Python
    ("uvx mcp-server-git --repository /r", "mcp-server-git", true),
    ("/usr/bin/uvx mcp-server-git@latest", "mcp-server-git", true),
    ("uvx --from git+https://github.com/x/serena-mcp@v1 serena start", "serena-mcp", true),
    ("uvx --from mcp-clickhouse[all]==1.2 mcp-clickhouse", "mcp-clickhouse", true),
    ("uvx --python 3.12 markitdown-mcp", "markitdown-mcp", true),
    ("uv tool run mcp-server-time", "mcp-server-time", true),
    ("uv --directory /srv/weather run server.py", "weather", false),
    ("uv run --directory /srv/weather python -m weather_mcp", "weather_mcp", true),
    ("uv run mcp-server-fetch", "mcp-server-fetch", true),
    ("uv run -m mcp_server_time", "mcp_server_time", true),
    ("pipx run mcp-server-fetch", "mcp-server-fetch", true),
    ("pipx run --spec mcp-server-fetch fetch", "mcp-server-fetch", true),
    ("python -m mcp_server_sqlite --db x", "mcp_server_sqlite", true),
    ("python3.11 -u -m mcp_server_sqlite", "mcp_server_sqlite", true),
    ("python -um acme.server", "acme", false),
    ("/usr/bin/python3 /venv/bin/mcp-server-git", "mcp-server-git", true),
    (
        "/venv/bin/python /venv/lib/python3.12/site-packages/mcp_server_git/__main__.py",
        "mcp_server_git",
        true,
    ),
    ("/venv/bin/mcp-server-git --repository /r", "mcp-server-git", true),
    ("/srv/bin/awslabs.ecs-mcp-server", "awslabs.ecs-mcp-server", true),
    ("python server.py", "mcp-HASH", false),
    ("python -c 'print(1)'", "mcp-HASH", false),
    // containers, others
    ("docker run -i --rm -e X mcp/git", "git", true),
    (
        "docker run -i --rm -e A=1 -v /a:/b --name x ghcr.io/github/github-mcp-server:latest stdio",
        "github-mcp-server",
        true,
    ),
    ("podman container run -i localhost:5000/acme/mcp-x@sha256:ab", "mcp-x", true),
    ("podman --runtime runc --log-level debug run --rm -i mcp/time", "time", true),
    ("docker exec -i box uvx mcp-server-git", "mcp-server-git", true),
    ("podman run -i --rootfs /srv/box /bin/weather", "weather", false),
    ("/usr/bin/runc --log x create --bundle /b 0caf", "mcp-HASH", false),
    ("/usr/bin/conmon -c 0caf", "mcp-HASH", false),
    ("/usr/bin/containerd-shim-runc-v2 -namespace moby", "mcp-HASH", false),
    ("java -Xmx1g -jar /opt/x-mcp-server.jar", "x-mcp-server", true),
    ("java -cp a:b com.acme.Main", "acme", false),
    ("github-mcp-server stdio", "github-mcp-server", true),
    ("/opt/github/github-mcp-server stdio", "github-mcp-server", true),
    ("./mcp-grafana", "mcp-grafana", true),
    ("dotnet /srv/acme-mcp.dll", "acme-mcp", true),
    ("go run ./cmd/acme-mcp", "acme-mcp", true),
    // wrappers and shells
    ("env VAR=1 npx -y @modelcontextprotocol/server-memory", "server-memory", true),
    ("env -u X A=1 B=2 uvx mcp-server-git", "mcp-server-git", true),
    ("timeout 60 mcp-server-git", "mcp-server-git", true),
    ("sudo -u nobody mcp-server-git", "mcp-server-git", true),
    ("sh -c mcp-server-everything", "mcp-server-everything", true),
    ("sh -c 'npx_-y_@modelcontextprotocol/server-memory'", "server-memory", true),
    ("bash -lc 'cd_/srv/weather_&&_X=1_exec_uvx_mcp-server-git'", "mcp-server-git", true),
    ("bash -lc 'cd_/srv/weather_&&_python_main.py'", "weather", false),
    ("bash /opt/acme/run-mcp.sh", "run-mcp", true),
    // no servers
    ("cat mcp-server-notes.txt", "mcp-HASH", false),
    ("vim mcp-server-git/README", "mcp-HASH", false),
    ("grep -r mcp-server-git .", "mcp-HASH", false),
    ("git clone https://github.com/x/y-mcp-server", "mcp-HASH", false),
    ("npm install mcp-server-git", "mcp-HASH", false),
    ("claude mcp add files -- npx -y @modelcontextprotocol/server-filesystem /srv", "claude", false),
    ("codex --profile x mcp add files -- uvx mcp-server-git", "codex", false),
    ("npx -y @openai/codex mcp add files -- npx -y mcp-server-git", "codex", false),
    ("make -C /srv/notes-mcp install", "make", false),
    ("make build-mcp", "make", false),
    ("make CC=gcc", "make", false),
    ("npm run lint-mcp", "mcp-HASH", false),
    ("yarn run deploy-mcp", "mcp-HASH", false),
    ("pip install mcp-server-git", "mcp-HASH", false),
    ("docker build -t mcp/git .", "mcp-HASH", false),
    ("tail -f /var/log/mcp-server-git", "tail", false),
    ("node", "mcp-HASH", false),
    ("npx", "mcp-HASH", false),
];

#[test]
fn container_engine_runs_are_recognised() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let cases = [
        ("docker run -i mcp/git", true),
        ("sudo docker --context x run -i mcp/git", true),
        ("docker ps", false),
        ("npx -y docker-mcp run", false),
    ];
    for (line, expected) in cases {
        assert_eq!(runs_in_container(&words(line)), expected, "{line}");
    }
    assert!(runs_in_container(&["sh".to_owned(), "-c".to_owned(), "exec docker exec -i box srv".to_owned()]));
    assert!(is_container_shim("/usr/bin/containerd-shim-runc-v2") && !is_container_shim("/usr/bin/dockerd"));
}

#[test]
fn real_commands_get_expected_id_and_match() {
    let patterns = NamePatterns::default();
    for (line, id, named) in COMMANDS {
        let argv = argv(line);
        let got = server_id(&argv, None).0;
        match *id {
            "mcp-HASH" => assert!(
                got.starts_with("mcp-") && got.len() == 16 && specificity(&argv, None) == 0,
                "{line}: {got}"
            ),
            id => assert_eq!(&*got, id, "{line}"),
        }
        assert_eq!(patterns.matches(&argv).is_some(), *named, "{line}: {:?}", patterns.matches(&argv));
    }
}

/// The words of a line, as `shlex` cuts it: quotes and escapes, and nothing else of a shell.
fn quoted_argv(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, quote) {
            ('\\', None) => word.get_or_insert_default().extend(rest.next()),
            ('\\', Some('"')) if matches!(rest.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(rest.next())
            }
            (mark, Some(open)) if mark == open => quote = None,
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            (' ', None) => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[test]
fn launchers_wrappers_and_shells_are_seen_through() {
    let files = [include_str!("tests/commands.tsv"), include_str!("tests/windows.tsv")];
    let rows = files.into_iter().flat_map(str::lines).filter(|row| !row.starts_with('#'));
    let patterns = NamePatterns::default();
    let mut wrong = Vec::new();
    for (id, line) in rows.clone().map(|row| row.split_once('\t').unwrap()) {
        let argv = quoted_argv(line);
        let (got, matched) = (server_id(&argv, None).0, patterns.matches(&argv).is_some());
        if &*got != id || id.to_ascii_lowercase().contains("mcp") && !matched {
            wrong.push(format!("{got}, matched: {matched}; expected {id}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.count(), wrong.join("\n"));
}

#[test]
fn built_in_name_patterns_compile() {
    assert_eq!(NamePatterns::default().patterns.len(), BUILT_IN.len());
}

#[test]
fn generic_scripts_are_named_by_working_directory() {
    let cases = [
        ("python server.py", Some("/srv/weather"), "weather"),
        ("node dist/index.js", Some("/home/u/code/weather"), "weather"),
        ("node ../index.js", Some("/srv/weather/x"), "weather"),
        ("uv --directory /srv/other run main.py", Some("/srv/weather"), "other"),
    ];
    for (line, cwd, id) in cases {
        assert_eq!(&*server_id(&argv(line), cwd).0, id, "{line}");
    }
    let nowhere = server_id(&argv("node index.js"), Some("/home/u")).0;
    assert!(nowhere.starts_with("mcp-"), "{nowhere}");
}

#[test]
fn server_id_is_stable_along_exec_chain() {
    let chains: [(&[&str], &str); 3] = [
        (
            &["npx -y @modelcontextprotocol/server-everything", "sh -c mcp-server-everything", {
                "node /root/.npm/_npx/ab/node_modules/.bin/mcp-server-everything"
            }],
            "server-everything",
        ),
        (&["uvx mcp-server-git", "/c/bin/python /c/bin/mcp-server-git"], "mcp-server-git"),
        (&["bash /opt/x/start.sh", "node /opt/x/node_modules/@acme/files/dist/index.js"], "files"),
    ];
    for (chain, id) in chains {
        let mut best = (0, ServerId("".into()));
        for line in chain {
            let rank = specificity(&argv(line), None);
            if rank > best.0 {
                best = (rank, server_id(&argv(line), None));
            }
        }
        assert_eq!(&*best.1.0, id, "{chain:?}");
    }
}

/// Declared command, its arguments, command line, executable, whether it is that server.
#[test]
fn declared_servers_are_matched_by_command() {
    type Case<'a> = (&'a str, &'a [&'a str], &'a str, Option<&'a str>, bool);
    let cases: [Case<'_>; 17] = [
        ("acme", &["--all"], "acme --all", None, true),
        ("acme", &["--all"], "/opt/bin/acme --all", None, true),
        ("acme", &["--all"], "/opt/bin/acme --all", Some("/opt/bin/acme"), true),
        ("acme", &["--all"], "sh /opt/bin/acme --all", Some("/bin/sh"), true),
        ("acme", &["--all"], "/usr/bin/env node /opt/bin/acme --all", None, true),
        ("acme", &["--all"], "a b c acme --all", None, false),
        ("acme", &["--all"], "acme", None, false),
        ("acme", &["--all"], "acme --all --more", None, false),
        ("acme", &["--all"], "acme --more --all", None, false),
        ("acme", &[], "acme", None, true),
        ("acme", &[], "acme --all", None, false),
        ("acme", &[], "other-acme", None, false),
        ("/opt/acme", &[], "/opt/acme", None, true),
        ("/opt/acme", &[], "acme", None, false),
        ("/opt/acme", &[], "acme", Some("/opt/acme"), true),
        ("/opt/acme", &[], "/else/opt/acme", None, false),
        ("npx", &["-y", "x"], "npx -y x", Some("/usr/bin/node"), true),
    ];
    for (command, args, line, executable, expected) in cases {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(
            is_declared(command, &args, &argv(line), executable),
            expected,
            "{command} {args:?}: {line}"
        );
    }
    assert!(!is_declared("acme", &[], &[], None));
}

#[test]
fn custom_name_patterns_are_matched() {
    let custom =
        ["my-company-mcp-*".to_owned(), "/path/to/internal/thing".to_owned(), "acme serve *".to_owned()];
    let patterns = NamePatterns::new(&[], &custom).unwrap();
    let cases = [
        ("my-company-mcp-x", Some("my-company-mcp-x")),
        ("node /path/to/internal/thing", Some("/path/to/internal/thing")),
        ("/usr/bin/acme serve mcp", Some("acme serve mcp")),
        ("mcp-server-git", None),
        ("acme serve", None),
    ];
    for (line, on) in cases {
        let found = patterns.matches(&argv(line));
        assert_eq!(found.as_ref().map(|found| found.on.as_str()), on, "{line}");
        assert!(found.is_none_or(|found| found.custom));
    }
    let error = NamePatterns::new(&[], &["a[".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("\"a[\""), "{error}");
}

#[test]
fn server_ids_are_bounded_and_sanitized() {
    let id = server_id(&[format!("/x/{}", "é".repeat(500))], None).0;
    assert_eq!(id.len(), MAX_ID_BYTES);
    assert_eq!(&*server_id(&["/x/a\nb\u{7} c".to_owned()], None).0, "a-b--c");
}

proptest! {
    #[test]
    fn any_command_line_yields_valid_server_id(argv in prop::collection::vec(any::<String>(), 0..8), cwd in any::<Option<String>>()) {
        let id = server_id(&argv, cwd.as_deref()).0;
        prop_assert!(!id.is_empty() && id.len() <= MAX_ID_BYTES && !id.contains(char::is_whitespace), "{:?}", id);
        let _ = NamePatterns::default().matches(&argv);
    }

    #[test]
    fn launcher_parsing_never_panics(words in prop::collection::vec("npx|-y|--package|-p|=|uv|run|sh|-c|env|A=1|python|-m|docker|--|@|@a/|/|node|node_modules/|bun|x|tool|--directory|deno|jsr:|npm|pnpm|--filter|-w|workspace|-S|-S env -S|-vS|just|artisan|:a:mcp[x]|Rscript|ruby|-e|x::y()|using é|use |ssh|cd /é; x|.pex|a-1.é-rc.é|cmd|/c|/d/ç|C:\\\\é x.exe|%é%\\\\a.cmd|\\^\"|é.EXE", 0..10)) {
        let id = server_id(&words, None).0;
        prop_assert!(!id.is_empty());
        let _ = (version(&words, Some("/x")), identity(&words, None, None, None), shown_id(&words));
    }
}

/// A command line, what runs, and the version that is named there.
#[test]
fn version_is_read_from_packages_images_and_paths() {
    for (line, executable, expected) in [
        ("uvx tide@1.2.3", "/usr/bin/uvx", Some("1.2.3")),
        ("uvx --from tide==1.2 tide-mcp", "/usr/bin/uvx", Some("1.2")),
        ("uvx tide[cli]==1.2", "/usr/bin/uvx", Some("1.2")),
        ("uvx tide>=1.2", "/usr/bin/uvx", None),
        ("npx -y @a/tide@1.2.3", "/usr/bin/node", Some("1.2.3")),
        ("npx -y @a/tide", "/usr/bin/node", None),
        ("npx -y tide@latest", "/usr/bin/node", Some("latest")),
        ("docker run -i --rm ghcr.io/a/tide:1.2", "/usr/bin/docker", Some("1.2")),
        ("docker run -i a/tide@sha256:abcd", "/usr/bin/docker", Some("sha256:abcd")),
        ("docker run -i host:5000/a/tide", "/usr/bin/docker", None),
        ("docker run -i node:22 npx -y tide@1.2", "/usr/bin/docker", Some("1.2")),
        (
            "tide-mcp",
            "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-tide-mcp-1.4.0/bin/tide-mcp",
            Some("1.4.0"),
        ),
        ("java -jar /opt/tide-mcp-1.3.0-all.jar", "/usr/lib/jvm/java-21.0.1/bin/java", Some("1.3.0")),
        ("/opt/tide-1.4/bin/tide", "/opt/tide-1.4/bin/tide", Some("1.4")),
        ("python3 server.py", "/opt/cpython-3.12.4-linux-x86_64/bin/python3", None),
        ("node /srv/x.js", "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-nodejs-22.1.0/bin/node", None),
        ("python -m tide", "/opt/cpython-3.12.4-linux-x86_64/bin/python3", None),
        ("tide", "/usr/bin/tide", None),
        ("tide-2", "/opt/tide-2/tide", None),
        ("go run example.com/bay/tide/cmd/tide-mcp@v1.4.2 --stdio", "/usr/bin/go", Some("v1.4.2")),
        ("go run -mod=mod example.com/bay/tide@latest", "/usr/bin/go", Some("latest")),
        ("go run ./cmd/tide", "/usr/bin/go", None),
        ("java -jar /opt/tide-1.3.0-SNAPSHOT.jar", "/usr/bin/java", Some("1.3.0-SNAPSHOT")),
        ("java -jar /opt/tide-1.3-M2-jar-with-dependencies.jar", "/usr/bin/java", Some("1.3-M2")),
        ("java -jar /opt/tide-1.3.0-beta.2-all.jar", "/usr/bin/java", Some("1.3.0-beta.2")),
        ("java -jar /opt/tide-1.3.0-rc-2.jar", "/usr/bin/java", Some("1.3.0-rc-2")),
        ("java -jar /opt/tide-1.3.0.Final.jar", "/usr/bin/java", Some("1.3.0.Final")),
        ("java -jar /opt/tide-1.3.0+7.jar", "/usr/bin/java", Some("1.3.0")),
        ("node /h/x/bay.tide-1.3.0-linux-x64/s.js", "/usr/bin/node", Some("1.3.0")),
        ("node /opt/tide-1.3.0-rc.1/s.js", "/usr/bin/node", Some("1.3.0-rc.1")),
        ("apptainer run /img/tide_1.3.0.sif", "/usr/bin/apptainer", Some("1.3.0")),
        ("apptainer run /img/tide_latest.sif", "/usr/bin/apptainer", Some("latest")),
        ("singularity run tide-1.3.0.img --stdio", "/usr/bin/singularity", Some("1.3.0")),
        ("apptainer run /img/tide_mcp.sif", "/usr/bin/apptainer", None),
        ("apptainer run docker://bay/tide:1.3", "/usr/bin/apptainer", Some("1.3")),
        ("deno run -A https://deno.test/x/tide@v1.3/mod.ts", "/usr/bin/deno", Some("v1.3")),
        ("uvx git+https://me@git.test/bay/tide", "/usr/bin/uvx", None),
        ("npx -y github:bay/tide#v1.3.0", "/usr/bin/node", Some("v1.3.0")),
        ("npx -y github:bay/tide#main", "/usr/bin/node", None),
        ("nix run github:bay/tide/v1.3 -- x", "/usr/bin/nix", Some("v1.3")),
        ("nix run github:bay/tide/main", "/usr/bin/nix", None),
    ] {
        assert_eq!(version(&quoted_argv(line), Some(executable)).as_deref(), expected, "{line}");
    }
}

/// A command line, and its id where it is shown: programs behind assignments are no secrets, and what is masked by the word in front
/// of it is one.
#[test]
fn id_is_shown_unless_it_is_a_secret() {
    for (line, expected) in [
        ("ssh host 'LEVEL_KEY=1 kelp-mcp'", "kelp-mcp"),
        ("ssh host 'cd /srv && API_TOKEN=1 exec kelp-mcp'", "kelp-mcp"),
        ("supergateway --stdio 'KEY=1 npx -y @bay/kelp-mcp'", "kelp-mcp"),
        ("sh -c 'API_KEY=\"a b\" uvx kelp-mcp'", "kelp-mcp"),
        ("env -S 'API_KEY=1 uvx kelp-mcp'", "kelp-mcp"),
        ("npx -c 'API_KEY=1 kelp-mcp'", "kelp-mcp"),
        ("npx -y @bay/kelp-mcp", "kelp-mcp"),
        ("ssh host 'kelp-mcp --password hunter2'", "kelp-mcp"),
        ("npx -y --token @bay/hunter2-mcp", "***"),
    ] {
        assert_eq!(shown_id(&quoted_argv(line)), expected, "{line}");
    }
}
