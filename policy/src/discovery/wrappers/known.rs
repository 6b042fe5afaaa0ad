//! Wrappers that are known. The lists are those of the manual pages and `--help` texts named in the comments.

use super::{DYNAMIC_LINKER, EMULATOR, Wrapper};
use crate::discovery::options::{NONE, Options};
use crate::discovery::tables::OPENTELEMETRY;

const PLAIN: Wrapper = Wrapper {
    names: "",
    subcommands: "",
    options: NONE,
    own: 0,
    behind_dashes: false,
    text: "",
    command: "",
    split: "",
    directory: "",
    is_text: false,
    has_environments: false,
};

pub(super) const WRAPPERS: &[Wrapper] = &[
    // Without options that have values in the next word: nohup(1), setsid(1), prlimit(1), firejail(1), time(1), unbuffer(1), chronic(1), bash(1), dumb-init, catchsegv(1),
    // torsocks(1), eatmydata(1), winpty, node's cross-env and corepack, nixpkgs' steam-run, nixGL, primusrun, gamemoderun(1),
    // linux64(8), vault-env, rootlesskit, srt (sandbox-runtime), cmd.exe's call.
    Wrapper {
        names: "nohup setsid call prlimit firejail unbuffer chronic command builtin dumb-init catchsegv torsocks eatmydata cross-env corepack steam-run \
                nixGL nixGLIntel primusrun gamemoderun linux32 linux64 i386 vault-env rootlesskit srt @anthropic-ai/sandbox-runtime",
        ..PLAIN
    },
    // ld.so(8): musl's takes the first of these, too
    Wrapper {
        names: DYNAMIC_LINKER,
        options: Options::with(&[
            "--library-path --preload --argv0 --inhibit-rpath --audit --glibc-hwcaps-prepend --glibc-hwcaps-mask",
        ]),
        ..PLAIN
    },
    // qemu-user(1), box64, FEX
    Wrapper {
        names: EMULATOR,
        options: Options::with(&["-L -E -U -0 -s -cpu -g -d -D -R -B -r -p -plugin -seed"]),
        ..PLAIN
    },
    // setarch(8), envdir(8), envchain, summon (cyberark.github.io/summon)
    Wrapper { names: "setarch envdir s6-envdir envchain softlimit", own: 1, ..PLAIN },
    Wrapper {
        names: "summon",
        options: Options::with(&["-p --provider -e --environment -f -D --yaml -i --ignore"]),
        ..PLAIN
    },
    // bitwarden.com/help/secrets-manager-cli, docs.phase.dev, secretspec.dev, fnox.jdx.dev, varlock.dev
    Wrapper {
        names: "bws phase secretspec fnox varlock",
        subcommands: "run exec",
        behind_dashes: true,
        ..PLAIN
    },
    // valgrind(1), gdb(1), perf(1), rr(1), heaptrack(1): who looks at a program while it runs
    Wrapper { names: "valgrind heaptrack", options: Options::with(&["-o --output"]), ..PLAIN },
    Wrapper { names: "gdb lldb", command: "--args --", own: usize::MAX, ..PLAIN },
    Wrapper {
        names: "perf rr",
        subcommands: "record stat trace",
        options: Options::with(&[
            "-o --output -e --event -F --freq -c --count -p --pid -t --tid -C --cpu -m --mmap-pages -G --cgroup -M --metrics -I",
        ]),
        behind_dashes: true,
        ..PLAIN
    },
    // proot(1), landrun, nsjail, pasta(1): everything in front of `--`, or known options
    Wrapper { names: "landrun nsjail pasta slirp4netns sandbox-exec", behind_dashes: true, ..PLAIN },
    // bash(1), exec
    Wrapper { names: "exec", options: Options::with(&["-a"]), ..PLAIN },
    // time(1)
    Wrapper { names: "time", options: Options::with(&["-f --format -o --output"]), ..PLAIN },
    // env(1)
    Wrapper {
        names: "env",
        options: Options::with(&["-u --unset -C --chdir -a --argv0 -S --split-string"]),
        split: "-S --split-string",
        directory: "-C --chdir",
        ..PLAIN
    },
    // sudo(8)
    Wrapper {
        names: "sudo sudo-rs",
        options: Options::with(&[
            "-u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -R --chroot -r --role \
                                  -t --type -T --command-timeout -U --other-user",
        ]),
        directory: "-D --chdir",
        ..PLAIN
    },
    // doas(1)
    Wrapper { names: "doas", options: Options::with(&["-u -C"]), ..PLAIN },
    // runuser(1), su(1): with a user as option what follows is the command; else the first word is the user, and what
    // follows goes to that user's shell.
    Wrapper {
        names: "runuser",
        options: Options::with(&[
            "-u --user -g --group -G --supp-group -s --shell -w --whitelist-environment -c --command",
        ]),
        text: "-c --command",
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper {
        names: "su",
        options: Options::with(&[
            "-g --group -G --supp-group -s --shell -w --whitelist-environment -c --command",
        ]),
        text: "-c --command",
        own: 1,
        behind_dashes: true,
        ..PLAIN
    },
    // gosu, su-exec: USER COMMAND; s6-setuidgid, setuidgid, chpst of runit
    Wrapper { names: "gosu su-exec s6-setuidgid setuidgid", own: 1, ..PLAIN },
    Wrapper {
        names: "chpst",
        options: Options::with(&["-u -U -e -/ -C -b -n -l -L -m -d -o -p -f -c -t"]),
        ..PLAIN
    },
    // setpriv(1)
    Wrapper {
        names: "setpriv",
        options: Options::with(&[
            "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps \
                                  --bounding-set --securebits --pdeathsig --ptracer --selinux-label --apparmor-profile \
                                  --landlock-access --landlock-rule --seccomp-filter",
        ]),
        ..PLAIN
    },
    // nice(1), ionice(1), chrt(1), taskset(1), numactl(8), stdbuf(1), timeout(1)
    Wrapper { names: "nice", options: Options::with(&["-n --adjustment"]), ..PLAIN },
    Wrapper {
        names: "ionice",
        options: Options::with(&["-c --class -n --classdata -p --pid -P --pgid -u --uid"]),
        ..PLAIN
    },
    Wrapper {
        names: "chrt",
        options: Options::with(&["-T --sched-runtime -P --sched-period -D --sched-deadline"]),
        own: 1,
        ..PLAIN
    },
    Wrapper { names: "taskset", own: 1, ..PLAIN },
    Wrapper {
        names: "numactl",
        options: Options::with(&[
            "-i --interleave -w --weighted-interleave -p --preferred -P --preferred-many -m --membind \
                                  -N --cpunodebind -C --physcpubind",
        ]),
        ..PLAIN
    },
    Wrapper { names: "opentelemetry-instrument", options: OPENTELEMETRY, ..PLAIN },
    Wrapper { names: "stdbuf", options: Options::with(&["-i --input -o --output -e --error"]), ..PLAIN },
    Wrapper { names: "timeout", options: Options::with(&["-k --kill-after -s --signal"]), own: 1, ..PLAIN },
    // chroot(8), flock(1)
    Wrapper { names: "chroot", options: Options::with(&["--userspec --groups"]), own: 1, ..PLAIN },
    Wrapper {
        names: "flock",
        options: Options::with(&["-w --wait --timeout -E --conflict-exit-code -c --command"]),
        own: 1,
        text: "-c --command",
        ..PLAIN
    },
    // strace(1), ltrace(1)
    Wrapper {
        names: "strace ltrace",
        options: Options::with(&[
            "-o --output -e --trace -E --env -p --attach -s --string-limit -u --user -a --columns -b -I \
                                  --interruptible -O -S -X -P --trace-path -U -F -n -l -x -A -w",
        ]),
        ..PLAIN
    },
    // script(1), rlwrap(1), unshare(1), nsenter(1)
    Wrapper {
        names: "script",
        options: Options::with(&[
            "-c --command -I --log-in -O --log-out -B --log-io -T --log-timing -m --logging-format -E \
                                  --echo -o --output-limit",
        ]),
        text: "-c --command",
        behind_dashes: true,
        own: usize::MAX,
        ..PLAIN
    },
    Wrapper {
        names: "rlwrap",
        options: Options::with(&["-b -C -D -f -g -H -l -M -O -P -p -q -s -S -t -w -z"]),
        ..PLAIN
    },
    Wrapper {
        names: "unshare",
        options: Options::with(&[
            "-S --setuid -G --setgid -R --root -w --wd --map-user --map-group --map-users --map-groups \
                                  --propagation --setgroups --monotonic --boottime -l --load-interp",
        ]),
        directory: "-w --wd",
        ..PLAIN
    },
    Wrapper {
        names: "nsenter",
        options: Options::with(&["-t --target -S --setuid -G --setgid -N --net-socket"]),
        ..PLAIN
    },
    // bwrap(1)
    Wrapper {
        names: "bwrap",
        options: Options {
            one: &[
                "--args --argv0 --userns --userns2 --pidns --uid --gid --hostname --chdir --unsetenv --lock-file --sync-fd \
                    --remount-ro --exec-label --file-label --proc --dev --tmpfs --mqueue --dir --seccomp --add-seccomp-fd \
                    --block-fd --userns-block-fd --info-fd --json-status-fd --cap-add --cap-drop --perms --size \
                    --overlay-src --tmp-overlay --ro-overlay",
            ],
            two: "--setenv --bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --bind-fd --ro-bind-fd --file \
                  --bind-data --ro-bind-data --symlink --chmod",
            three: "--overlay",
            ..NONE
        },
        directory: "--chdir",
        ..PLAIN
    },
    // dbus-run-session(1), proxychains4(1), fakeroot(1), faketime(1)
    Wrapper { names: "dbus-run-session", options: Options::with(&["--config-file --dbus-daemon"]), ..PLAIN },
    Wrapper { names: "proxychains proxychains4", options: Options::with(&["-f"]), ..PLAIN },
    Wrapper { names: "fakeroot", options: Options::with(&["-l --lib --faked -s -i -b"]), ..PLAIN },
    Wrapper { names: "faketime", options: Options::with(&["-f"]), own: 1, ..PLAIN },
    // systemd-run(1), systemd-inhibit(1), systemd-cat(1)
    Wrapper {
        names: "systemd-run run0",
        options: Options::with(&[
            "-H --host -M --machine -C --capsule --unit -u -p --property --description --slice \
                                  --service-type --uid --user --gid --group --nice --working-directory -D --chdir -E --setenv \
                                  --on-active --on-boot --on-startup --on-unit-active --on-unit-inactive --on-calendar \
                                  --timer-property --path-property --socket-property --job-mode --background",
        ]),
        directory: "--working-directory -D --chdir",
        ..PLAIN
    },
    Wrapper { names: "systemd-inhibit", options: Options::with(&["--what --who --why --mode"]), ..PLAIN },
    Wrapper {
        names: "systemd-cat",
        options: Options::with(&[
            "-t --identifier -p --priority --stderr-priority --level-prefix --namespace",
        ]),
        ..PLAIN
    },
    Wrapper { names: "cgexec", options: Options::with(&["-g"]), ..PLAIN },
    // xvfb-run(1)
    Wrapper {
        names: "xvfb-run",
        options: Options::with(&[
            "-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s --server-args -w --wait",
        ]),
        ..PLAIN
    },
    // tini: github.com/krallin/tini
    Wrapper { names: "tini tini-static catatonit docker-init", options: Options::with(&["-p -e"]), ..PLAIN },
    // conda run, mamba run, micromamba run: docs.conda.io, mamba.readthedocs.io
    Wrapper {
        names: "conda mamba micromamba",
        subcommands: "run",
        options: Options::with(&[
            "-n --name -p --prefix --cwd -r --root-prefix -e --env --label -a --attach",
        ]),
        directory: "--cwd",
        ..PLAIN
    },
    // poetry run, pipenv run, pdm run, hatch run, rye run, pixi run: the tools' own documentation
    Wrapper {
        names: "poetry",
        subcommands: "run",
        options: Options::with(&["-C --directory -P --project"]),
        directory: "-C --directory -P --project",
        ..PLAIN
    },
    Wrapper {
        names: "pipenv",
        subcommands: "run",
        options: Options::with(&["--python --pypi-mirror"]),
        ..PLAIN
    },
    Wrapper {
        names: "pdm",
        subcommands: "run",
        options: Options::with(&["-p --project --venv -c --config"]),
        directory: "-p --project",
        ..PLAIN
    },
    Wrapper {
        names: "hatch",
        subcommands: "run",
        options: Options::with(&["-e --env -p --project --data-dir --cache-dir --config"]),
        has_environments: true,
        ..PLAIN
    },
    Wrapper { names: "rye", subcommands: "run", options: Options::with(&["--pyproject"]), ..PLAIN },
    Wrapper {
        names: "pixi",
        subcommands: "run r exec x",
        options: Options::with(&[
            "--manifest-path -e --environment -p --platform --color -c --channel -s --spec --with \
                                  --auth-file --concurrent-downloads --concurrent-solves --pinning-strategy",
        ]),
        directory: "--manifest-path",
        ..PLAIN
    },
    // mise exec, asdf exec, volta run, fnm exec, nvm exec, nodenv/pyenv/rbenv exec
    Wrapper {
        names: "mise rtx",
        subcommands: "exec x",
        options: Options::with(&["-c --command -C --cd -E --env -j --jobs --output"]),
        text: "-c --command",
        directory: "-C --cd",
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper { names: "asdf nodenv pyenv rbenv jenv", subcommands: "exec", ..PLAIN },
    Wrapper {
        names: "volta",
        subcommands: "run",
        options: Options::with(&["--node --npm --pnpm --yarn --env"]),
        ..PLAIN
    },
    Wrapper {
        names: "fnm",
        subcommands: "exec",
        options: Options::with(&[
            "--using --fnm-dir --log-level --arch --node-dist-mirror --multishell-path \
                                  --version-file-strategy",
        ]),
        ..PLAIN
    },
    Wrapper { names: "nvm", subcommands: "exec", own: 1, ..PLAIN },
    // direnv(1): `direnv exec DIR COMMAND`
    Wrapper { names: "direnv", subcommands: "exec", own: 1, ..PLAIN },
    // op run, doppler run, infisical run, chamber exec, aws-vault exec: the tools' own documentation
    Wrapper {
        names: "op",
        subcommands: "run",
        options: Options::with(&[
            "--env-file --account --session --config --encoding --format --environment",
        ]),
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper {
        names: "doppler",
        subcommands: "run",
        options: Options::with(&[
            "-p --project -c --config --command -t --token --scope --config-dir --api-host --fallback \
                                  --passphrase --mount --mount-template --mount-format --mount-max-reads --name-transformer \
                                  --only-secrets --preserve-env --timeout --attempts",
        ]),
        text: "--command",
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper {
        names: "infisical @infisical/cli",
        subcommands: "run",
        options: Options::with(&[
            "--env --path --token --projectId -c --command --tags --domain --watch-interval \
                                  --project-config-dir",
        ]),
        text: "--command",
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper { names: "chamber aws-vault granted", subcommands: "exec", own: 1, behind_dashes: true, ..PLAIN },
    Wrapper { names: "teller berglas envconsul vals", behind_dashes: true, own: usize::MAX, ..PLAIN },
    // dotenv of python-dotenv; dotenv-cli and dotenvx of npm; env-cmd
    Wrapper {
        names: "dotenv dotenvx @dotenvx/dotenvx",
        subcommands: "run",
        options: Options::with(&[
            "-f --file -q --quote -e --export --env --env-file -fk --env-keys-file --convention -l \
                                  --log-level",
        ]),
        ..PLAIN
    },
    Wrapper { names: "dotenv", options: Options::with(&["-e -v -p"]), ..PLAIN },
    Wrapper {
        names: "env-cmd",
        options: Options::with(&["-e --environments -f --file -r --rc-file"]),
        ..PLAIN
    },
    // sops exec-env FILE TEXT
    Wrapper {
        names: "sops",
        subcommands: "exec-env exec-file",
        options: Options::with(&["--user --input-type --output-type --filename"]),
        own: 1,
        is_text: true,
        ..PLAIN
    },
    // nix3-develop(1), nix3-shell(1), nix-shell(1), guix shell, devbox run, flox activate
    Wrapper {
        names: "nix",
        subcommands: "develop shell env",
        options: NIX,
        command: "-c --command",
        own: usize::MAX,
        ..PLAIN
    },
    Wrapper { names: "nix-shell", options: NIX, text: "--run --command", own: usize::MAX, ..PLAIN },
    Wrapper {
        names: "guix",
        subcommands: "shell environment",
        behind_dashes: true,
        own: usize::MAX,
        ..PLAIN
    },
    Wrapper {
        names: "devbox",
        subcommands: "run",
        options: Options::with(&["-c --config -e --env --env-file --environment"]),
        ..PLAIN
    },
    Wrapper {
        names: "flox",
        subcommands: "activate",
        options: Options::with(&["-d --dir -r --remote -c --command"]),
        text: "-c --command",
        behind_dashes: true,
        own: usize::MAX,
        ..PLAIN
    },
    // distrobox-enter(1), toolbox-run(1), limactl-shell
    Wrapper {
        names: "distrobox distrobox-enter",
        subcommands: "enter",
        options: Options::with(&["-n --name -a --additional-flags"]),
        own: usize::MAX,
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper {
        names: "distrobox-enter",
        options: Options::with(&["-n --name -a --additional-flags"]),
        own: usize::MAX,
        behind_dashes: true,
        ..PLAIN
    },
    Wrapper {
        names: "toolbox",
        subcommands: "run",
        options: Options::with(&["-c --container -d --distro -r --release --preserve-fds"]),
        ..PLAIN
    },
    Wrapper {
        names: "limactl",
        subcommands: "shell",
        options: Options::with(&["--shell --workdir"]),
        own: 1,
        ..PLAIN
    },
    // laravel.com/docs/sail: in the project's container; ddtrace-run
    Wrapper { names: "sail ddtrace-run", ..PLAIN },
    // bundle-exec(1), composer exec
    Wrapper { names: "bundle bundler", subcommands: "exec", options: Options::with(&["--gemfile"]), ..PLAIN },
    Wrapper {
        names: "composer",
        subcommands: "exec",
        options: Options::with(&["-d --working-dir"]),
        directory: "-d --working-dir",
        ..PLAIN
    },
    // watchexec(1), watchfiles
    Wrapper {
        names: "watchexec",
        options: Options::with(&[
            "-w --watch -W --watch-non-recursive -e --exts -f --filter -i --ignore -o --on-busy-update \
                                  -s --signal -d --debounce --shell --stop-signal --stop-timeout --workdir -E --env --delay-run",
        ]),
        ..PLAIN
    },
];

/// nix3-common-options(1), nix-shell(1); nix.conf(5): each setting is an option, too, and those that are no switch have a value.
pub(in crate::discovery) const NIX: Options = Options {
    one: &[
        "-f --file -E --expr -I -k --keep --keep-env-var -u --unset --unset-env-var --profile --inputs-from \
            --reference-lock-file --output-lock-file --update-input --store --eval-store -j --max-jobs --cores --include \
            -p --packages -A --attr --log-format --phase --set-env-var",
        "--experimental-features --extra-experimental-features --substituters --extra-substituters --trusted-public-keys \
            --extra-trusted-public-keys --trusted-substituters --extra-trusted-substituters --access-tokens --extra-access-tokens \
            --system --extra-platforms --system-features --extra-system-features --builders --netrc-file --flake-registry \
            --nix-path --extra-nix-path --timeout --max-silent-time --log-lines --http-connections --connect-timeout \
            --download-attempts --download-speed --stalled-download-timeout --tarball-ttl --narinfo-cache-positive-ttl \
            --narinfo-cache-negative-ttl --user-agent-suffix --plugin-files --ssl-cert-file --sandbox-paths \
            --extra-sandbox-paths --allowed-uris --extra-allowed-uris --min-free --max-free --max-build-log-size \
            --secret-key-files --post-build-hook --pre-build-hook --diff-hook --hashed-mirrors --build-users-group",
    ],
    two: "--arg --argstr --override-input --override-flake --option --redirect -s",
    ..NONE
};
