//! What a program is known by, for its pins.

use super::*;

fn package_of(line: &str) -> Option<String> {
    package(&quoted_argv(line))
}

/// Two runs, each a command line as a shell reads it and the executable; whether they are one program.
#[test]
fn programs_are_known_by_what_they_are() {
    let uv = "/h/.cache/uv";
    let cases = [
        (
            "upgrade of uvx",
            ("uvx t@latest", "UV/archive-v0/aB1/bin/t"),
            ("uvx t@latest", "UV/archive-v0/Cd2/bin/t"),
            true,
        ),
        (
            "uv run --with",
            ("V/.tmpaB1cD2/bin/python V/.tmpaB1cD2/bin/mcp run /h/t/s.py", "/usr/bin/python3.12"),
            ("V/.tmpXy9zZ0/bin/python V/.tmpXy9zZ0/bin/mcp run /h/t/s.py", "/usr/bin/python3.13"),
            true,
        ),
        (
            "module after an upgrade",
            ("python3 -m t_mcp", "/usr/bin/python3.12"),
            ("python3 -m t_mcp", "/usr/bin/python3.13"),
            true,
        ),
        (
            "script after an upgrade of node",
            ("node /h/t.js", "/h/.nvm/versions/node/v20.1.0/bin/node"),
            ("node /h/t.js", "/h/.nvm/versions/node/v22.1.0/bin/node"),
            true,
        ),
        (
            "npx, as it is called in the end",
            ("node /h/.npm/_npx/ab/node_modules/.bin/t", "/usr/bin/node"),
            ("node /h/.npm/_npx/cd/node_modules/.bin/t", "/usr/bin/node"),
            true,
        ),
        ("executable that was replaced", ("t", "/usr/bin/t (deleted)"), ("t", "/usr/bin/t"), true),
        (
            "tag and digest",
            ("docker run -i bay/t:1", "/usr/bin/docker"),
            ("docker run -i docker.io/bay/t@sha256:ab", "/usr/bin/docker"),
            true,
        ),
        (
            "engine",
            ("docker run -i bay/t", "/usr/bin/docker"),
            ("podman run -i docker.io/bay/t", "/usr/bin/podman"),
            true,
        ),
        (
            "runtime's image",
            ("docker run -i node:20 npx -y @a/t", "/usr/bin/docker"),
            ("docker run -i node:22 npx -y @a/t@2", "/usr/bin/docker"),
            true,
        ),
        (
            "working directory of a script",
            ("python s.py", "/usr/bin/python3"),
            ("python /srv/a/s.py", "/usr/bin/python3"),
            true,
        ),
        (
            "files of one runner",
            ("mcp run /h/a/s.py", "/v/bin/mcp"),
            ("mcp run /h/b/s.py", "/v/bin/mcp"),
            false,
        ),
        (
            "objects of one file",
            ("fastmcp run /h/s.py:a", "/v/bin/fastmcp"),
            ("fastmcp run /h/s.py:b", "/v/bin/fastmcp"),
            false,
        ),
        (
            "files of npx tsx",
            ("npx tsx /h/a/i.ts", "/usr/bin/node"),
            ("npx tsx /h/b/i.ts", "/usr/bin/node"),
            false,
        ),
        ("modules", ("python -m a_mcp", "/usr/bin/python3"), ("python -m b_mcp", "/usr/bin/python3"), false),
        (
            "images",
            ("docker run -i bay/t", "/usr/bin/docker"),
            ("docker run -i reef/t", "/usr/bin/docker"),
            false,
        ),
        (
            "packages in one image",
            ("docker run -i node npx @a/t", "/usr/bin/docker"),
            ("docker run -i node npx @b/t", "/usr/bin/docker"),
            false,
        ),
        (
            "containers",
            ("docker exec -i a uvx t", "/usr/bin/docker"),
            ("docker exec -i b uvx t", "/usr/bin/docker"),
            false,
        ),
        (
            "entries of one package",
            ("uvx --from p a", "UV/archive-v0/aB1/bin/a"),
            ("uvx --from p b", "UV/archive-v0/aB1/bin/b"),
            false,
        ),
        (
            "directories with numbers",
            ("node /srv/t-1/s.js", "/usr/bin/node"),
            ("node /srv/t-2/s.js", "/usr/bin/node"),
            false,
        ),
        (
            "classes",
            ("java -cp a.jar a.Main", "/usr/bin/java"),
            ("java -cp a.jar b.Main", "/usr/bin/java"),
            false,
        ),
        (
            "upgrade of an editor with its plugins",
            ("java -jar /h/JetBrains/IntelliJIdea2025.1/t/lib/t.jar", "/h/jbr/bin/java"),
            ("java -jar /h/JetBrains/IntelliJIdea2025.3/t/lib/t.jar", "/h/jbr/bin/java"),
            true,
        ),
        (
            "descriptions of interfaces",
            ("npx -y @a/openapi-mcp --spec /srv/a.yaml", "/usr/bin/node"),
            ("npx -y @a/openapi-mcp --spec /srv/b.yaml", "/usr/bin/node"),
            false,
        ),
        (
            "descriptions that are operands",
            ("uvx mcp_graphql https://a.test/graphql", "/usr/bin/python3"),
            ("uvx mcp_graphql https://b.test/graphql", "/usr/bin/python3"),
            false,
        ),
        (
            "commands behind bridges",
            ("npx supergateway --stdio 'a-mcp'", "/usr/bin/node"),
            ("npx supergateway --stdio 'b-mcp'", "/usr/bin/node"),
            false,
        ),
        (
            "a bridge to one command",
            ("mcp-proxy --port 1 -- python /srv/a/s.py", "/v/bin/mcp-proxy"),
            ("mcp-proxy --port 2 -- python s.py", "/v/bin/mcp-proxy"),
            false,
        ),
        (
            "programs in directories elsewhere",
            ("ssh box 'cd /srv/a && ./serve'", "/usr/bin/ssh"),
            ("ssh box 'cd /srv/b && ./serve'", "/usr/bin/ssh"),
            false,
        ),
        (
            "modules in directories elsewhere",
            ("ssh box 'cd /srv/a && python -m server'", "/usr/bin/ssh"),
            ("ssh box 'cd /srv/b && python -m server'", "/usr/bin/ssh"),
            false,
        ),
        (
            "program of PATH, and what prepares it",
            ("ssh box 'export A=1; t-mcp'", "/usr/bin/ssh"),
            ("ssh -T -- box t-mcp", "/usr/bin/ssh"),
            true,
        ),
        (
            "script below another directory than that of what a bridge runs",
            ("node ./bridge/supergateway.js --stdio 'cd /srv/b && t-mcp'", "/usr/bin/node"),
            ("node /srv/a/bridge/supergateway.js --stdio t-mcp", "/usr/bin/node"),
            true,
        ),
        (
            "scripts of one project",
            ("npm --prefix /srv/m run t", "/usr/bin/node"),
            ("npm --prefix /srv/m run r", "/usr/bin/node"),
            false,
        ),
        (
            "workspaces of one project",
            ("pnpm --dir /srv/m --filter a run start", "/usr/bin/node"),
            ("pnpm --dir /srv/m --filter b run start", "/usr/bin/node"),
            false,
        ),
        (
            "a script, however it is called",
            ("npm --prefix /srv/m -w a start", "/h/.nvm/versions/node/v20.1.0/bin/node"),
            (
                "npm run start --workspace=a --prefix=/srv/m -- --port 1",
                "/h/.nvm/versions/node/v22.1.0/bin/node",
            ),
            true,
        ),
        (
            "the start of a project",
            ("npm --prefix /srv/m start", "/usr/bin/node"),
            ("npm --prefix /srv/m run start", "/usr/bin/node"),
            true,
        ),
        (
            "workers behind a bridge",
            ("npx workers-mcp run t https://t.test/ /srv/t", "/usr/bin/node"),
            ("npx workers-mcp run r https://r.test/ /srv/r", "/usr/bin/node"),
            false,
        ),
        (
            "presets",
            ("npx -y @toolbox-sdk/server --prebuilt mysql --stdio", "/usr/bin/node"),
            ("npx -y @toolbox-sdk/server --prebuilt redis --stdio", "/usr/bin/node"),
            false,
        ),
        (
            "files of tools",
            ("apollo-mcp-server /srv/a.yaml", "/usr/bin/apollo-mcp-server"),
            ("apollo-mcp-server /srv/b.yaml", "/usr/bin/apollo-mcp-server"),
            false,
        ),
        (
            "which tools of one program are offered",
            ("uvx t-mcp --tools read", "UV/archive-v0/aB1/bin/t-mcp"),
            ("uvx t-mcp --tools write --config b.json", "UV/archive-v0/aB2/bin/t-mcp"),
            true,
        ),
        (
            "upgrade of an archive that unpacks itself",
            (
                "python3.12 /h/.pex/unzipped_pexes/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
                "/usr/bin/python3.12",
            ),
            (
                "python3.12 /h/.pex/unzipped_pexes/1a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
                "/usr/bin/python3.12",
            ),
            true,
        ),
        (
            "upgrade of a package in a store with its interpreter",
            ("t-mcp", "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-python3.12-t-mcp-1.0/bin/t-mcp"),
            ("t-mcp", "/nix/store/6xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-python3.13-t-mcp-1.1/bin/.t-mcp-wrapped"),
            true,
        ),
        (
            "upgrade of an image's file",
            ("apptainer run /img/t_1.2.sif", "/usr/bin/apptainer"),
            ("apptainer run /img/t_1.3.sif", "/usr/bin/apptainer"),
            true,
        ),
        (
            "upgrade of a jar with a qualifier",
            ("java -jar /opt/t-1.2.0.Final.jar", "/usr/bin/java"),
            ("java -jar /opt/t-1.3.0.Beta1.jar", "/usr/bin/java"),
            true,
        ),
        ("recipes of one project", ("just t", "/usr/bin/just"), ("just r", "/usr/bin/just"), false),
        (
            "a recipe, wherever it is run",
            ("just -f /srv/a/justfile mcp", "/usr/bin/just"),
            ("just -f /srv/b/justfile mcp", "/usr/bin/just"),
            false,
        ),
    ];
    for (case, a, b, expected) in cases {
        let [a, b] = [a, b].map(|(line, executable)| {
            let line = line.replace("V/", &format!("{uv}/builds-v0/"));
            let executable = executable.replace("UV", uv);
            identity(&quoted_argv(&line), Some("/srv/a"), Some(&executable), None)
        });
        assert_eq!(a == b, expected, "{case}: {a} and {b}");
        assert!(!a.contains(".tmp"), "{case}: {a}");
    }
    // Commands of one name in a launcher's cache are those of their packages.
    let npx = |package: &str| {
        let argv = quoted_argv("node /h/.npm/_npx/ab/node_modules/.bin/t");
        let package = package_of(&format!("npx -y {package}"));
        identity(&argv, None, Some("/usr/bin/node"), package.as_deref())
    };
    assert_eq!(npx("@bay/t@1"), npx("@bay/t@2"));
    assert_ne!(npx("@bay/t"), npx("@reef/t"));
    // A module whose name says nothing is its directory's.
    let [a, b] = ["/srv/a", "/srv/b"]
        .map(|cwd| identity(&quoted_argv("python -m server"), Some(cwd), Some("/usr/bin/python3.12"), None));
    assert_eq!((&*a, &*b), ("python -m server in /srv/a", "python -m server in /srv/b"));
}

/// A bridge whose id is that of what it runs has its own name as well, and no other program has.
#[test]
fn bridges_keep_their_own_names() {
    for (line, expected) in [
        ("npx -y supergateway --stdio 'npx -y @a/t-mcp'", Some("supergateway")),
        ("uvx mcp-proxy -- npx t-mcp", Some("mcp-proxy")),
        ("ssh host t-mcp", Some("ssh")),
        ("kubectl exec -i pod -- t-mcp", Some("kubectl")),
        ("php artisan t:mcp", Some("artisan")),
        ("just t-mcp", Some("just")),
        ("ssh host 'cd /srv && t-mcp'", Some("ssh")),
        ("npx -y t-mcp", None),
        ("sh -c 'npx t-mcp'", None),
        ("npx -y mcp-remote https://h/mcp", None),
        // Of several commands it is not clear which serves: the bridge is called as it is.
        ("npx supergateway --stdio 'evil; npx t-mcp'", Some("supergateway")),
    ] {
        let argv = quoted_argv(line);
        assert_eq!(bridge_id(&argv, None).map(|id| id.0.to_string()).as_deref(), expected, "{line}");
    }
    assert_eq!(
        &*server_id(&quoted_argv("npx supergateway --stdio 'evil; npx t-mcp'"), None).0,
        "supergateway"
    );
}
