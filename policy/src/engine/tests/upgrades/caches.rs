//! Launchers that run a program from a directory of the day: what is upgraded or started again is the same server.

use super::*;

const BUN: &str = "/h/.bun/bin/bun";
/// Directories of Go's build cache.
const A: &str = "1a/1a0c9f3b5d7e2a4c6e8f0b1d3f5a7c9e1b3d5f7a9c0e2b4d6f8a1c3e5b7d9f0a-d";
const B: &str = "f2/f2e4d6c8b0a1928374655647382910a0b1c2d3e4f5061728394a5b6c7d8e9f01-d";

/// What runs, and what it runs after an upgrade or a restart: the launcher's line, command lines, executable (empty: the word
/// in front). `A` and `B` are directories of a build cache.
const SAME: &[(&str, &str, &str, &str)] = &[
    (
        "bunx @bay/tide",
        BUN,
        "bun /tmp/bunx-1000-@bay/tide@1.2.0/node_modules/@bay/tide/cli.js",
        "bun /tmp/bunx-1000-@bay/tide@2.0.0/node_modules/@bay/tide/cli.js",
    ),
    (
        "bunx @bay/tide",
        NODE,
        "node /tmp/bunx-1000-@bay/tide@latest/node_modules/.bin/tide",
        "node /tmp/bunx-1000-@bay/tide@2/node_modules/.bin/tide",
    ),
    (
        "bunx @bay/tide",
        NODE,
        "node /tmp/bunx-1000-@bay/tide/node_modules/@bay/tide/dist/i.js",
        "node /tmp/bunx-1000-@bay/tide@3.1.0-rc.1/node_modules/@bay/tide/dist/i.js",
    ),
    (
        "bunx tide-mcp",
        NODE,
        "node /tmp/bunx-0-tide-mcp@1.0.0/node_modules/tide-mcp/i.js",
        "node /tmp/bunx-0-tide-mcp@1.0.1/node_modules/tide-mcp/i.js",
    ),
    (
        "bunx @bay/tide",
        NODE,
        "node /h/tmp/bunx-1000-@bay/tide@1/node_modules/@bay/tide/i.js",
        "node /h/tmp/bunx-1000-@bay/tide@2/node_modules/@bay/tide/i.js",
    ),
    (
        "bun x github:bay/tide",
        NODE,
        "node /tmp/bunx-1000-github:bay/tide/node_modules/tide/i.js",
        "node /tmp/bunx-1000-github:bay/tide#v2/node_modules/tide/i.js",
    ),
    (
        "bunx @bay/tide",
        "",
        "/tmp/bunx-1000-@bay/tide@1.2.0/node_modules/@bay/tide-linux/bin/tide",
        "/tmp/bunx-1000-@bay/tide@1.3.0/node_modules/@bay/tide-linux/bin/tide",
    ),
    (
        "bunx tide",
        BUN,
        "bun /h/.bun/install/cache/@bay/tide@1.0.0@@@1/cli.js",
        "bun /h/.bun/install/cache/@bay/tide@1.1.0@@@1/cli.js",
    ),
    (
        "yarn dlx @bay/tide",
        NODE,
        "node /tmp/xfs-0a1b2c3d/dlx-417/node_modules/@bay/tide/cli.js",
        "node /tmp/xfs-ffee0011/dlx-99120/node_modules/@bay/tide/cli.js",
    ),
    (
        "yarn dlx tide-mcp",
        NODE,
        "node /var/tmp/xfs-0a1b2c3d/dlx-417/node_modules/.bin/tide-mcp",
        "node /var/tmp/xfs-0a1b2c3e/dlx-418/node_modules/.bin/tide-mcp",
    ),
    (
        "yarn dlx tide-mcp",
        NODE,
        "node -r /tmp/xfs-0a1b2c3d/dlx-417/.pnp.cjs /tmp/xfs-0a1b2c3d/dlx-417/.yarn/unplugged/tide-mcp-npm-1.0.0-0a1b2c3d4e/node_modules/tide-mcp/cli.js",
        "node -r /tmp/xfs-ffee0011/dlx-2/.pnp.cjs /tmp/xfs-ffee0011/dlx-2/.yarn/unplugged/tide-mcp-npm-1.0.1-ff1b2c3d4e/node_modules/tide-mcp/cli.js",
    ),
    (
        "yarn dlx tide-mcp",
        NODE,
        "node /h/scratch/xfs-0a1b2c3d/dlx-417/.yarn/cache/tide-mcp-npm-1.0.0-0a1b2c3d4e-8.zip/node_modules/tide-mcp/cli.js",
        "node /h/scratch/xfs-ffee0011/dlx-9/.yarn/cache/tide-mcp-npm-1.2.0-001b2c3d4e-10c0.zip/node_modules/tide-mcp/cli.js",
    ),
    (
        "yarn dlx tide-mcp",
        NODE,
        "node /tmp/xfs-0a1b2c3d/dlx-417/.yarn/__virtual__/tide-mcp-virtual-0a1b2c3d4e/0/cache/tide-mcp-npm-1.0.0-0a1b2c3d4e-8.zip/node_modules/tide-mcp/cli.js",
        "node /tmp/xfs-ffee0011/dlx-9/.yarn/__virtual__/tide-mcp-virtual-ffeeddccbb/0/cache/tide-mcp-npm-1.2.0-001b2c3d4e-10c0.zip/node_modules/tide-mcp/cli.js",
    ),
    (
        "yarn dlx tide-mcp",
        NODE,
        "node /tmp/xfs-0a1b2c3d/dlx-417/node_modules/.store/tide-mcp-npm-1.0.0-0a1b2c3d4e/package/cli.js",
        "node /tmp/xfs-ffee0011/dlx-9/node_modules/.store/tide-mcp-npm-1.1.0-ffeeddccbb/package/cli.js",
    ),
    (
        "pnpm dlx @bay/tide",
        NODE,
        "node /h/.cache/pnpm/dlx-417/node_modules/@bay/tide/cli.js",
        "node /h/.cache/pnpm/dlx-99120/node_modules/@bay/tide/cli.js",
    ),
    (
        "go run example.com/bay/tide@v1.0.0",
        "",
        "/h/.cache/go-build/A/tide --x",
        "/h/.cache/go-build/B/tide --x",
    ),
    ("go run ./cmd/tide", "", "/srv/gocache/A/tide", "/srv/gocache/B/tide"),
    ("go run .", "", "/root/.cache/go-build/A/tide (deleted)", "/root/.cache/go-build/B/tide"),
    ("go tool tide", "", "/h/.cache/go-build/A/tide", "/h/.cache/go-build/B/tide"),
    (
        "go run example.com/bay/tide",
        "",
        "/tmp/go-build118840661/b001/exe/tide",
        "/tmp/go-build4/b001/exe/tide",
    ),
    ("go run ./cmd/tide", "", "/h/tmp/go-build118840661/b042/exe/tide", "/h/tmp/go-build77/b001/exe/tide"),
];

/// What shares such a directory, and is another program.
const TWO: &[(&str, &str, &str, &str)] = &[
    (
        "bunx tide",
        NODE,
        "node /tmp/bunx-1000-@bay/tide@1/node_modules/@bay/tide/i.js",
        "node /tmp/bunx-1000-@reef/tide@1/node_modules/@reef/tide/i.js",
    ),
    (
        "yarn dlx tide",
        NODE,
        "node /tmp/xfs-0a1b2c3d/dlx-4/node_modules/@bay/tide/i.js",
        "node /tmp/xfs-0a1b2c3d/dlx-4/node_modules/@reef/tide/i.js",
    ),
    (
        "yarn dlx tide",
        NODE,
        "node /h/node_modules/.store/tide-npm-1.0.0-0a1b2c3d4e/package/i.js",
        "node /h/node_modules/.store/moon-npm-1.0.0-0a1b2c3d4e/package/i.js",
    ),
    (
        "bunx tide",
        BUN,
        "bun /h/.bun/install/cache/@bay/tide@1.0.0@@@1/cli.js",
        "bun /h/.bun/install/cache/@bay/moon@1.0.0@@@1/cli.js",
    ),
    ("go run example.com/x", "", "/h/.cache/go-build/A/tide", "/h/.cache/go-build/B/moon"),
    ("npx tide", NODE, "node /srv/dlx-tide/i.js", "node /srv/dlx-moon/i.js"),
];

#[test]
fn program_in_a_directory_of_the_day_keeps_its_pins() {
    let mut wrong = Vec::new();
    for (rows, expected) in [(SAME, "changed"), (TWO, "new")] {
        for (launcher, executable, first, second) in rows {
            let mut bench = Bench::new();
            let mut status = String::new();
            for (connection, line) in [(1, first), (2, second)] {
                let line = line.replace("/A/", &format!("/{A}/")).replace("/B/", &format!("/{B}/"));
                let (argv, path) = match *executable {
                    "" => (line.split(' ').next().unwrap().to_owned(), line.split(" --").next().unwrap()),
                    executable => (line.clone(), executable),
                };
                let chain: Chain<'_> = &[(launcher, "/usr/bin/launcher"), (&argv, path)];
                status = listed(&mut bench, connection, chain, Some("x"), &connection.to_string()).1;
                bench.close(connection);
                bench.out.clear();
            }
            if status != expected {
                wrong.push(format!("{first} | {second}: {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), TWO.len() + SAME.len());
}
