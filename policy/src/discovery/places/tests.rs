//! What of a path stays, and its versions.

use super::*;

#[test]
fn path_is_kept_without_what_changes() {
    let cases = [
        ("/usr/bin/tide", "/usr/bin/tide"),
        ("/usr/bin/tide (deleted)", "/usr/bin/tide"),
        ("/srv/a/../b/./c.js", "/srv/b/c.js"),
        ("../x/index.js", "../x/index.js"),
        ("/../x", "/x"),
        // caches of launchers
        ("/h/.cache/uv/archive-v0/Zx81_kPq0-rT/bin/tide", "/h/.cache/uv/archive-v0/*/bin/tide"),
        ("/h/.cache/uv/builds-v0/.tmpQ7vNxa/bin/mcp", "/h/.cache/uv/builds-v0/*/bin/mcp"),
        ("/h/.npm/_npx/3f2a9c01/node_modules/.bin/tide", "/h/.npm/_npx/*/node_modules/.bin/tide"),
        (
            "/h/.cache/pnpm/dlx/8d/19-3e/node_modules/.pnpm/t@1_z@2/node_modules/t/cli.js",
            "/h/.cache/pnpm/dlx/*/*/node_modules/t/cli.js",
        ),
        ("/h/.local/share/pipx/.cache/d5b0/bin/tide", "/h/.local/share/pipx/.cache/*/bin/tide"),
        ("/h/.cache/uv/archive-v1/Zx81_kPq0-rT/bin/tide", "/h/.cache/uv/archive-v0/*/bin/tide"),
        (
            "/h/.cache/uv/git-v0/checkouts/0a1b2c3d/1f2e3d4/tide/s.py",
            "/h/.cache/uv/git-v0/checkouts/0a1b2c3d/*/tide/s.py",
        ),
        (
            "/h/.shiv/tide_0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f/site-packages/bin/tide",
            "/h/.shiv/tide*/site-packages/bin/tide",
        ),
        (
            "/h/.dotnet/tools/.store/tide/1.0.0/tide/1.0.0/tools/net8.0/any/Tide.dll",
            "/h/.dotnet/tools/.store/tide/*/tide/*/tools/net*/any/Tide.dll",
        ),
        ("/h/.local/share/pipx/venvs/tide/bin/tide", "/h/.local/share/pipx/venvs/tide/bin/tide"),
        ("/tmp/bunx-1000-tide@1.2.0/node_modules/tide/cli.js", "/tmp/*/node_modules/tide/cli.js"),
        (
            "/var/tmp/bunx-1000-@bay/tide@1.2.0/node_modules/@bay/tide/cli.js",
            "/var/tmp/*/node_modules/@bay/tide/cli.js",
        ),
        ("/h/t/bunx-0-tide/node_modules/tide/cli.js", "/h/t/*/node_modules/tide/cli.js"),
        (
            "/h/.bun/install/cache/.bunx-1000/@bay/tide@1.2.0/node_modules/@bay/tide/x.js",
            "/h/.bun/install/cache/*/node_modules/@bay/tide/x.js",
        ),
        ("/tmp/tmp-4711-Ab3dEf1gHi2J/tide", "/tmp/*/tide"),
        ("/tmp/tmp-tide/x", "/tmp/tmp-tide/x"),
        ("/h/.cache/go-build/2b/2b0c-d/tide", "/h/.cache/go-build/*/tide"),
        ("/h/bunx-notes/tide@1/cli.js", "/h/bunx-notes/tide@1/cli.js"),
        ("/h/.bun/install/cache/@bay/tide@1.2.0@@@1/x.js", "/h/.bun/install/cache/@bay/tide/x.js"),
        ("/tmp/xfs-0a1b2c3d/dlx-417/node_modules/tide/x.js", "/tmp/*/*/node_modules/tide/x.js"),
        ("/h/dlx-tide/x.js", "/h/dlx-tide/x.js"),
        (
            "/h/go-cache/1a/1a0c9f3b5d7e2a4c6e8f0b1d3f5a7c9e1b3d5f7a9c0e2b4d6f8a1c3e5b7d9f0a-d/tide",
            "/h/go-cache/*/tide",
        ),
        ("/h/1a/2b0c-d/tide", "/h/1a/2b0c-d/tide"),
        ("/tmp/go-build118840661/b001/exe/tide", "/tmp/go-build*/b001/exe/tide"),
        ("/h/go/pkg/mod/example.com/tide@v1.4.2/x", "/h/go/pkg/mod/example.com/tide/x"),
        (
            "/h/.pex/unzipped_pexes/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/tide",
            "/h/.pex/unzipped_pexes/*/tide",
        ),
        (
            "/h/.cache/pex/unzipped_pexes/2/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/__main__.py",
            "/h/.cache/pex/unzipped_pexes/*/*/__main__.py",
        ),
        (
            "/h/.cache/pex/venvs/1/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/f01234560a1b2c3d4e5f60718293a4b5c6d7e8f9/pex",
            "/h/.cache/pex/venvs/*/*/*/pex",
        ),
        ("/h/.pex/venvs/short/0a1b2c3d/bin/tide", "/h/.pex/venvs/short/*/bin/tide"),
        (
            "/srv/root/unzipped_pexes/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/tide",
            "/srv/root/unzipped_pexes/*/tide",
        ),
        (
            "/h/.cache/nce/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/cpython/bin/tide",
            "/h/.cache/nce/*/cpython/bin/tide",
        ),
        (
            "/h/.local/share/pyapp/tide/1234567890/1.0.0/python/bin/tide",
            "/h/.local/share/pyapp/tide/*/*/python/bin/tide",
        ),
        ("/tmp/onefile_417_1767225600/tide", "/tmp/*/tide"),
        ("/srv/venvs/2/bin/tide", "/srv/venvs/2/bin/tide"),
        (
            "/srv/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/tide",
            "/srv/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/tide",
        ),
        // stores and packages
        (
            "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-python3.13-tide-mcp-1.4.0/bin/.tide-mcp-wrapped",
            "/nix/store/tide-mcp/bin/tide-mcp",
        ),
        (
            "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-ruby3.3.5-tide-1.4/bin/tide",
            "/nix/store/tide/bin/tide",
        ),
        (
            "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-python3-3.13.1/bin/python3.13",
            "/nix/store/python3/bin/python",
        ),
        ("/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-python-tide-1.0/bin/t", "/nix/store/python-tide/bin/t"),
        (
            "/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-tide-mcp-1.4.0/bin/.tide-mcp-wrapped",
            "/nix/store/tide-mcp/bin/tide-mcp",
        ),
        ("/nix/store/5xq2ax1h0p7v8g3n9i3s2dl3w1k7rjzb-t-0-unstable-2026-01-02/bin/t", "/nix/store/t/bin/t"),
        ("/snap/tide/214/bin/tide", "/snap/tide/*/bin/tide"),
        ("/srv/snap/tide/214/x", "/srv/snap/tide/214/x"),
        (
            "/var/lib/flatpak/app/org.x.Tide/x86_64/stable/5b0e/files/bin/t",
            "/var/lib/flatpak/app/org.x.Tide/*/*/*/files/bin/t",
        ),
        ("/opt/Cellar/tide/1.4.0_1/bin/tide", "/opt/Cellar/tide/*/bin/tide"),
        ("/h/.vscode/extensions/a.tide-0.9.1-linux-x64/dist/s.js", "/h/.vscode/extensions/a.tide/dist/s.js"),
        ("/h/.cursor/extensions/a.tide-1.2.4-universal/s.js", "/h/.cursor/extensions/a.tide/s.js"),
        ("/h/.vscode/extensions/a.tide-0.3.0-rc.2/s.js", "/h/.vscode/extensions/a.tide/s.js"),
        ("/opt/tide/tide-mcp-1.3.0-SNAPSHOT-all.jar", "/opt/tide/tide-mcp.jar"),
        ("/h/.m2/repository/x/tide/1.2.3/tide-1.2.3.jar", "/h/.m2/repository/x/tide/*/tide.jar"),
        // managers of versions
        ("/h/.nvm/versions/node/v20.11.1/bin/tide", "/h/.nvm/versions/node/*/bin/tide"),
        ("/run/user/1000/fnm_multishells/47_17/bin/tide", "/run/user/1000/fnm_multishells/*/bin/tide"),
        ("/h/.pyenv/versions/3.12.4/bin/tide", "/h/.pyenv/versions/*/bin/tide"),
        ("/h/.pyenv/versions/tide/bin/tide", "/h/.pyenv/versions/tide/bin/tide"),
        ("/h/mise/installs/npm-tide/22/bin/tide", "/h/mise/installs/npm-tide/*/bin/tide"),
        ("/v/lib/python3.12/site-packages/t/x.py", "/v/lib/python/site-packages/t/x.py"),
        // temporary directories
        ("/tmp/tmp.Yx19kQ/venv/bin/tide", "/tmp/*/venv/bin/tide"),
        ("/var/tmp/tmpa1b2c3d4/tide", "/var/tmp/*/tide"),
        ("/tmp/tide-x8Kq2P/index.js", "/tmp/tide-*/index.js"),
        ("/tmp/.mount_TideMcK3jd2a/usr/bin/tide", "/tmp/.mount_TideMc*/usr/bin/tide"),
        ("/tmp/tide-server/index.js", "/tmp/tide-server/index.js"),
        ("/h/tide-x8Kq2P/index.js", "/h/tide-x8Kq2P/index.js"),
        // numbers that are no versions
        ("/srv/tenant-1/app/server.js", "/srv/tenant-1/app/server.js"),
        ("/srv/2/server.js", "/srv/2/server.js"),
        ("/srv/gpt-4.1-mcp/server.js", "/srv/gpt-4.1-mcp/server.js"),
        ("/srv/10.0.0.1/server.js", "/srv/10.0.0.1/server.js"),
        ("/opt/tide-2/bin/context7", "/opt/tide-2/bin/context7"),
    ];
    for (path, expected) in cases {
        assert_eq!(lasting(path), expected, "{path}");
        assert_eq!(lasting(expected), expected, "{path}: again");
    }
}

#[test]
fn version_is_cut_off_a_name() {
    let cases = [
        ("tide-1.2", "tide"),
        ("tide-v1.2.3", "tide"),
        ("tide_mcp-1.4.0-py3-none-any", "tide_mcp"),
        ("tide-1.0.0-rc.2", "tide"),
        ("tide-1.0.0-x", "tide-1.0.0-x"),
        ("tide-1.2.0.Final", "tide"),
        ("tide-1.2.0.RELEASE-all", "tide"),
        ("tide-1.2.0.dev3", "tide"),
        ("tide-1.2.weather", "tide-1.2.weather"),
        ("tide-2", "tide-2"),
        ("-1.2", "-1.2"),
        ("1.2", "1.2"),
    ];
    for (name, expected) in cases {
        assert_eq!(unversioned(name), expected, "{name}");
    }
}
