//! Bridges and runners: one program that is another server for each target.

use super::*;

const UV: &str = "/usr/bin/uvx";
const SSH: &str = "/usr/bin/ssh";

/// Two targets of one bridge: executable, and the two command lines.
const TWO: &[(&str, &str, &str)] = &[
    // A URL.
    (NODE, "npx -y mcp-remote https://tide.test/mcp", "npx -y mcp-remote https://moon.test/mcp"),
    (NODE, "npx mcp-remote@latest https://bay.test/a/mcp", "npx mcp-remote@latest https://bay.test/b/mcp"),
    (NODE, "bunx mcp-remote http://localhost:7001/sse", "bunx mcp-remote http://localhost:7002/sse"),
    (
        NODE,
        "node /h/.npm/_npx/ab/node_modules/.bin/mcp-remote https://tide.test/",
        "node /h/.npm/_npx/ab/node_modules/.bin/mcp-remote https://moon.test/",
    ),
    (
        NODE,
        "node /u/lib/node_modules/mcp-remote/dist/proxy.js --transport sse-only --header A:·b https://tide.test/",
        "node /u/lib/node_modules/mcp-remote/dist/proxy.js --transport sse-only --header A:·b https://moon.test/",
    ),
    (
        UV,
        "uvx mcp-proxy --transport streamablehttp https://tide.test/mcp",
        "uvx mcp-proxy --transport streamablehttp https://moon.test/mcp",
    ),
    (
        PYTHON,
        "/v/bin/python /v/bin/mcp-proxy -H Authorization Bearer·x https://tide.test/sse",
        "/v/bin/python /v/bin/mcp-proxy -H Authorization Bearer·x https://moon.test/sse",
    ),
    (PYTHON, "python -m mcp_proxy https://tide.test/sse", "python -m mcp_proxy https://moon.test/sse"),
    (
        NODE,
        "npx -y supergateway --streamableHttp https://tide.test/mcp",
        "npx -y supergateway --streamableHttp https://moon.test/mcp",
    ),
    (
        NODE,
        "npx -y supergateway --sse=https://tide.test/sse",
        "npx -y supergateway --sse=https://moon.test/sse",
    ),
    (PYTHON, "fastmcp run https://tide.test/mcp", "fastmcp run https://moon.test/mcp"),
    (
        NODE,
        "npx -y @bay/http-bridge --endpoint https://tide.test/mcp",
        "npx -y @bay/http-bridge --endpoint https://moon.test/mcp",
    ),
    (
        "/opt/wire-relay",
        "/opt/wire-relay --to wss://tide.test:9443/x",
        "/opt/wire-relay --to wss://moon.test:9443/x",
    ),
    ("/usr/bin/websocat", "websocat ws://tide.test/mcp", "websocat ws://moon.test/mcp"),
    ("/usr/bin/socat", "socat - TCP:tide.test:9000", "socat - TCP:moon.test:9000"),
    (
        "/usr/bin/docker",
        "docker run -i --rm ghcr.io/bay/mcp-proxy:1 https://tide.test/mcp",
        "docker run -i --rm ghcr.io/bay/mcp-proxy:1 https://moon.test/mcp",
    ),
    // A command.
    (
        NODE,
        "npx -y supergateway --stdio npx·-y·@bay/tide-mcp --port 8000",
        "npx -y supergateway --stdio npx·-y·@bay/moon-mcp --port 8000",
    ),
    (UV, "uvx mcp-proxy --port 8096 uvx tide-mcp", "uvx mcp-proxy --port 8096 uvx moon-mcp"),
    (
        UV,
        "uvx mcp-proxy --pass-environment -- node /srv/tide/main.js",
        "uvx mcp-proxy --pass-environment -- node /srv/moon/main.js",
    ),
    (UV, "uvx mcpo --port 8000 -- uvx tide-mcp", "uvx mcpo --port 8000 -- uvx moon-mcp"),
    // A name.
    (NODE, "npx -y @smithery/cli@latest run @bay/tide", "npx -y @smithery/cli@latest run @bay/moon"),
    (
        NODE,
        "node /h/.npm/_npx/c/node_modules/.bin/smithery run tide --key k",
        "node /h/.npm/_npx/c/node_modules/.bin/smithery run moon --key k",
    ),
    ("/usr/bin/php8.3", "php artisan mcp:start tide", "php artisan mcp:start moon"),
    (
        "/usr/bin/php8.3",
        "php -d memory_limit=1G /srv/app/artisan mcp:start tide",
        "php -d memory_limit=1G /srv/app/artisan mcp:start moon",
    ),
    ("/usr/bin/php8.3", "php bin/console mcp:server tide", "php bin/console mcp:server moon"),
    (
        "/usr/bin/php8.3",
        "php /usr/local/bin/wp mcp-adapter serve --server=tide",
        "php /usr/local/bin/wp mcp-adapter serve --server=moon",
    ),
    (PYTHON, "python manage.py tide_mcp", "python manage.py moon_mcp"),
    (PYTHON, "mcpm run tide", "mcpm run moon"),
    ("/usr/bin/docker", "docker mcp gateway run --servers tide", "docker mcp gateway run --servers moon"),
    ("/usr/bin/toolbelt", "toolbelt mcp tide", "toolbelt mcp moon"),
    // A host, a pod, a machine.
    (SSH, "ssh tide.test weather", "ssh moon.test weather"),
    (SSH, "ssh -i /k -p 2201 box weather", "ssh -i /k -p 2202 box weather"),
    (SSH, "ssh -oBatchMode=yes u@box tide-mcp --x", "ssh -oBatchMode=yes u@box moon-mcp --x"),
    (SSH, "ssh -T box cd·/srv/tide·&&·exec·node·main.js", "ssh -T box cd·/srv/moon·&&·exec·node·main.js"),
    (SSH, "ssh -l ann box weather", "ssh -l bob box weather"),
    ("/usr/bin/kubectl", "kubectl exec -i tide-0 -- weather", "kubectl exec -i moon-0 -- weather"),
    (
        "/usr/bin/kubectl",
        "kubectl -n a exec -i deploy/x -c y -- weather",
        "kubectl -n b exec -i deploy/x -c y -- weather",
    ),
    (
        "/usr/bin/kubectl",
        "kubectl exec -i deploy/x --container=y -- weather",
        "kubectl exec -i deploy/x --container=z -- weather",
    ),
    (
        "/usr/bin/kubectl",
        "kubectl exec deploy/x -i -- python -m tide_mcp",
        "kubectl exec deploy/x -i -- python -m moon_mcp",
    ),
    ("/usr/bin/oc", "oc exec -i tide-0 -- weather", "oc exec -i moon-0 -- weather"),
    ("/usr/bin/incus", "incus exec tide -- weather", "incus exec moon -- weather"),
    ("/usr/bin/limactl", "limactl shell tide weather", "limactl shell moon weather"),
    (
        "/usr/bin/docker",
        "docker -H ssh://tide.test run -i bay/weather",
        "docker -H ssh://moon.test run -i bay/weather",
    ),
    (
        "/usr/bin/gcloud",
        "gcloud compute ssh tide --command weather",
        "gcloud compute ssh moon --command weather",
    ),
    ("/usr/bin/tsh", "tsh ssh tide weather", "tsh ssh moon weather"),
];

/// One target twice, of a bridge that was upgraded or written otherwise: executable, and the two command lines.
const SAME: &[(&str, &str, &str)] = &[
    (NODE, "npx -y mcp-remote@0.1.1 https://tide.test/mcp", "npx -y mcp-remote@0.2.0 https://tide.test/mcp"),
    (
        NODE,
        "npx -y mcp-remote https://tide.test/mcp",
        "npx -y mcp-remote HTTPS://Tide.test:443/mcp?day=2#x 3334",
    ),
    (
        NODE,
        "npx mcp-remote https://u:p1@tide.test/mcp --debug",
        "npx mcp-remote --header Authorization:·b https://u:p2@tide.test/mcp",
    ),
    (
        NODE,
        "node /h/.npm/_npx/ab/node_modules/.bin/mcp-remote https://tide.test/",
        "node /h/.npm/_npx/cd/node_modules/.bin/mcp-remote https://tide.test",
    ),
    (
        UV,
        "uvx mcp-proxy@0.8.1 https://tide.test/sse",
        "uvx mcp-proxy@0.9.0 --client-id x https://tide.test/sse",
    ),
    (UV, "uvx mcp-proxy --port 8096 uvx tide-mcp@1.0", "uvx mcp-proxy --port 8097 -- uvx tide-mcp@1.1"),
    (
        NODE,
        "npx -y supergateway --sse https://tide.test/sse",
        "npx -y supergateway@3.4.0 --sse=https://tide.test/sse --header x",
    ),
    (
        NODE,
        "npx -y supergateway --stdio npx·-y·@bay/tide-mcp@1",
        "npx -y supergateway --stdio npx·-y·@bay/tide-mcp@2",
    ),
    (
        NODE,
        "npx -y @smithery/cli@1.0.0 run @bay/tide --key a",
        "npx -y @smithery/cli@1.1.0 run @bay/tide --key b",
    ),
    ("/usr/bin/php8.3", "php artisan mcp:start tide", "php artisan mcp:start tide --quiet"),
    (SSH, "ssh tide.test npx·-y·@bay/x@1", "ssh -T -p 22 tide.test npx -y @bay/x@2"),
    (SSH, "ssh ann@box weather --a 1", "ssh -l ann box weather --a 2"),
    (
        "/usr/bin/kubectl",
        "kubectl exec -i tide-7d9f8b6c5d-x2x9z -- weather",
        "kubectl exec -i tide-5c6d7f8b9c-b4h7k -- weather",
    ),
    (
        "/usr/bin/kubectl",
        "kubectl -n a exec -i pod/tide-0 -- weather",
        "kubectl exec -i tide-0 --namespace=a -- weather",
    ),
    (
        "/usr/bin/kubectl",
        "kubectl exec -i deployment/tide -- weather",
        "kubectl exec -i deploy/tide -- weather",
    ),
    ("/usr/bin/incus", "incus exec tide --user 1 -- weather", "incus exec tide -- weather"),
    (
        NODE,
        "npx -y @bay/http-bridge --endpoint https://tide.test/mcp",
        "npx -y @bay/http-bridge@2 --log debug --endpoint https://tide.test/mcp",
    ),
];

#[test]
fn target_is_part_of_who_a_bridge_is() {
    let mut wrong = Vec::new();
    for (rows, expected) in [(TWO, "new"), (SAME, "changed")] {
        for (executable, first, second) in rows {
            let mut bench = Bench::new();
            listed(&mut bench, 1, &[(first, executable)], Some("x"), "a");
            bench.close(1);
            bench.out.clear();
            let found = listed(&mut bench, 2, &[(second, executable)], Some("x"), "b");
            if found.1 != expected {
                wrong.push(format!("{first} | {second}: {}", found.1));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), TWO.len() + SAME.len());
}
