//! What is known of launchers, interpreters and shells: their options with values, as their documentation has them.

use super::options::{NONE, Options};

/// nodejs.org/api/cli.html
const NODE_OPTIONS: &str = "-r --require --import --loader --experimental-loader -C --conditions --env-file --env-file-if-exists --title \
    --stack-trace-limit --max-old-space-size --icu-data-dir --openssl-config --redirect-warnings --diagnostic-dir \
    --report-dir --report-filename --trace-event-categories --trace-event-file-pattern --input-type --inspect-port \
    --experimental-config-file --localstorage-file --watch-path --dns-result-order --unhandled-rejections --tls-cipher-list \
    --secure-heap --secure-heap-min --v8-pool-size --max-http-header-size --cpu-prof-dir --cpu-prof-name \
    --heapsnapshot-signal --disable-warning --experimental-default-type --allow-fs-read --allow-fs-write";

/// nodejs.org/api/cli.html
pub(super) const NODE: Options = Options { one: &[NODE_OPTIONS], flags: NODE_FLAGS, ..NONE };
const NODE_FLAGS: &str = "--no-warnings --enable-source-maps --inspect --inspect-brk --watch --experimental-strip-types \
    --experimental-transform-types --experimental-vm-modules --no-deprecation --trace-warnings --preserve-symlinks \
    --expose-gc --throw-deprecation --trace-deprecation --use-system-ca";

/// What runs TypeScript, or restarts a script: tsx (tsx.is), ts-node (typestrong.org/ts-node), vite-node, nodemon, esno, babel-node.
pub(super) const NODE_RUNNER: Options = Options {
    one: &[
        NODE_OPTIONS,
        "--tsconfig -P --project --include --exclude --compiler -O --compilerOptions -I --ignore -D \
        --ignoreDiagnostics --dir --cwd --scope-dir -m --mode --root --config -w --ext -e -d --delay -s --signal \
        -x --presets --plugins --config-file --tsc-ignore",
    ],
    flags: "--transpile-only --files --esm --swc --watch --clear-screen --no-cache --script --quiet --verbose",
    ..NONE
};

/// nodemon(1): what others have as a flag has a value here.
pub(super) const NODEMON: Options = Options {
    one: &[NODE_OPTIONS, "--watch -w --ignore -i --ext -e --delay -d --signal -s --exec -x --config --cwd"],
    ..NONE
};

/// Programs of Python that run another script or module and look at it: debugpy, coverage(1), cProfile, pdb and trace
/// (docs.python.org/3/library), memray(1), pyinstrument, viztracer, scalene, kernprof.
pub(super) const PYTHON_TOOLS: &str =
    "debugpy coverage cProfile profile pdb ipdb pudb trace memray pyinstrument viztracer scalene kernprof";
/// Options of those.
pub(super) const PYTHON_TOOL: Options = Options {
    one: &[
        "--listen --connect --log-to --log-to-stderr --configure-subProcess --adapter-access-token --rcfile --source --source-pkgs --data-file \
        --concurrency --context --include --omit -o --output --outfile -s --sort -c --command -r --renderer -i --interval --live-port \
        --output_file --max_stack_depth --tracer_entries --cpu-sampling-rate -f --file --ignore-module --ignore-dir -C --coverdir \
        --prof-mod -m --module",
    ],
    ..NONE
};

/// Packages and programs that run another script, by the interpreter's own rules.
pub(super) const NODE_RUNNERS: &str = "tsx ts-node ts-node-esm ts-node-script ts-node-transpile-only vite-node nodemon esno babel-node \
    swc-node jiti esbuild-register tsm ts-node-dev tsnd";
/// Subcommands of those.
pub(super) const NODE_RUNNER_SUBCOMMANDS: &str = "watch run";

/// Programs of Python that run a file with `run` or `dev`: `mcp` (modelcontextprotocol/python-sdk, cli), `fastmcp` (gofastmcp.com).
pub(super) const MCP_RUNNERS: &str = "mcp fastmcp";
/// Subcommands of those.
pub(super) const MCP_RUNNER_SUBCOMMANDS: &str = "run dev";
/// Options of those.
pub(super) const MCP_RUNNER: Options = Options {
    one: &[
        "-t --transport -f --with -e --with-editable --host -p --port --path -l --log-level --python --project \
        --with-requirements --server-spec --ui-port --server-port --inspector-version --env-file -v --env-var",
    ],
    flags: "--no-banner --skip-env --skip-source --stateless --reload --no-reload",
    ..NONE
};
/// opentelemetry-instrument: opentelemetry.io/docs/zero-code/python
pub(super) const OPENTELEMETRY: Options = Options::with(&[
    "--traces_exporter --metrics_exporter --logs_exporter --exporter_otlp_endpoint --exporter_otlp_protocol \
    --exporter_otlp_headers --service_name --resource_attributes --propagators --id_generator",
]);
/// Servers of web applications: the module stands in front of a colon (uvicorn.org, gunicorn.org, hypercorn).
pub(super) const WEB_RUNNERS: &str = "uvicorn gunicorn hypercorn granian daphne";
/// Options of those.
pub(super) const WEB_RUNNER: Options = Options {
    one: &[
        "--host --port --uds --fd --reload-dir --reload-include --reload-exclude --workers --loop --http --ws --lifespan \
        --interface --env-file --log-config --log-level --root-path --app-dir -b --bind -w -k --worker-class -c --config -t \
        --timeout --ssl-keyfile --ssl-certfile",
    ],
    ..NONE
};

/// docs.deno.com/runtime/reference/cli
pub(super) const DENO: Options = Options {
    one: &[
        "-c --config --import-map --lock --cert --location --seed -L --log-level --ext --preload --require --reload-from",
    ],
    ..NONE
};
/// docs.deno.com/runtime/reference/cli/task
pub(super) const DENO_TASK: Options =
    Options::with(&["--cwd -c --config -f --filter --node-modules-dir --lock"]);
/// bun.sh/docs/runtime
pub(super) const BUN: Options = Options {
    one: &[
        NODE_OPTIONS,
        "--preload --env-file --cwd -c --config --tsconfig-override --define -d --drop --loader -l \
        --main-fields --extension-order --jsx-factory --shell --port --elide-lines -F --filter --install --conditions",
    ],
    flags: "--hot --watch --smol --bun -b --silent --no-install --prefer-offline",
    ..NONE
};
/// python(1)
pub(super) const PYTHON: Options = Options::with(&["-W -X --check-hash-based-pycs -m -c"]);
/// npm-exec(1), npm-config(7)
pub(super) const NPM: Options = Options {
    one: &[
        "-p --package -c --call --registry --cache --prefix -C -w --workspace --loglevel --userconfig --globalconfig \
        --node-options --node-arg -n --script-shell --shell --tag --before --cafile --ca --proxy --https-proxy --noproxy \
        --otp --scope --omit --include --access --fetch-retries --fetch-timeout --init-module --local-address --logs-dir \
        --logs-max --maxsockets --user-agent --install-strategy --cpu --os --libc --min-release-age --auth-type --key --cert",
    ],
    flags: "--yes -y --no --quiet -q --silent -s --ignore-existing --no-install --prefer-offline --prefer-online --offline \
        --verbose --global -g --workspaces --ignore-scripts --no-audit --no-fund --force --legacy-peer-deps",
    package_follows: true,
    ..NONE
};
/// pnpm.io/cli/dlx, yarnpkg.com/cli/dlx, bunx
pub(super) const DLX: Options = Options {
    one: &[
        "-p --package --reporter -C --dir --cwd --store-dir --registry --loglevel --filter -F --allow-build \
        --filter-prod --workspace-concurrency --config --use-node-version --virtual-store-dir --modules-dir --cpu --os --libc",
    ],
    flags: "--shell-mode --silent -s --quiet -q --bun --verbose --no-install --yes -y --stream --color --no-color \
        --aggregate-output --use-stderr -w --workspace-root",
    package_follows: true,
    ..NONE
};
/// docs.astral.sh/uv/reference/cli: options of every command
const UV_COMMON: &str = "-p --python --index-url -i --index --default-index --extra-index-url -f --find-links --cache-dir --directory --project \
    --config-file -c --constraints --constraint -b --build-constraints --build-constraint --overrides --override \
    --index-strategy --keyring-provider --resolution --prerelease --fork-strategy --exclude-newer \
    --exclude-newer-package --link-mode -C --config-setting --config-settings --config-settings-package \
    --config-setting-package --no-build-isolation-package --no-build-package --no-binary-package -P --upgrade-package \
    --reinstall-package --refresh-package --python-platform --torch-backend --color --allow-insecure-host \
    --trusted-host --with --with-editable --with-requirements -w --env-file --preview-features --python-preference \
    --no-sources-package --upgrade-group --excludes";
const UV_FLAGS: &str = "--isolated --no-cache -n --refresh --upgrade -U --reinstall --no-index --offline --quiet -q --verbose -v \
    --no-progress --native-tls --system-certs --no-config --no-project --frozen --locked --no-sync --active --no-env-file \
    --all-extras --no-dev --dev --only-dev --exact --no-editable --no-build --no-binary --managed-python \
    --no-managed-python --no-python-downloads --compile-bytecode --preview --no-sources --no-build-isolation --lfs \
    --strict --all-groups --no-default-groups --all-packages --script -s --gui-script --module -m";
/// docs.astral.sh/uv/reference/cli/#uv-tool-run
pub(super) const UVX: Options =
    Options { one: &[UV_COMMON, "--from"], flags: UV_FLAGS, package_follows: true, ..NONE };
/// docs.astral.sh/uv/reference/cli/#uv-run
pub(super) const UV_RUN: Options = Options {
    one: &[
        UV_COMMON,
        "--package --extra --no-extra --group --no-group --only-group --no-install-package -m --module",
    ],
    flags: UV_FLAGS,
    ..NONE
};
/// pipx.pypa.io/stable/reference
pub(super) const PIPX: Options = Options {
    one: &[
        "--spec --python --index-url -i --pip-args --with --fetch-missing-python-from --backend --env-file",
    ],
    flags: "--no-cache --verbose --quiet --pypackages --path --system-site-packages --editable",
    package_follows: true,
    ..NONE
};
/// docs.docker.com/reference/cli/docker/container/run, podman-run(1), nerdctl: nearly every option has a value, so that those without one
/// are listed.
pub(super) const CONTAINER: Options = Options {
    flags: "-d --detach --disable-content-trust --help -i --interactive --init --no-healthcheck --oom-kill-disable \
        --privileged -P --publish-all -q --quiet --read-only --rm --sig-proxy -t --tty --use-api-socket --env-host \
        --http-proxy --no-hosts --no-hostname --passwd --replace --rmi --rootfs --tls-verify --unsetenv-all \
        --read-only-tmpfs -T --no-TTY --no-tty --no-deps --use-aliases --build --service-ports \
        --remove-orphans --quiet-pull --quiet-build --no-preserve-fds",
    unknown_has_value: true,
    ..NONE
};
/// Options in front of `run`: docker(1), docker-compose, podman(1), nerdctl
pub(super) const ENGINE: Options = Options {
    one: &[
        "--config -c --context -H --host -l --log-level --tlscacert --tlscert --tlskey --runtime --root --runroot \
        --storage-driver --storage-opt --url --connection --identity --cgroup-manager --conmon --network-cmd-path --namespace -n \
        -a --address --snapshotter --data-root --cni-path --cni-netconfpath --cgroup-manager --hosts-dir -f --file -p \
        --project-name --project-directory --profile --env-file --ansi --parallel --progress --events-backend \
        --hooks-dir --imagestore --module --network-config-dir --registries-conf --tmpdir --volumepath --ssh --out",
    ],
    ..NONE
};
/// apptainer.org/docs/user/latest/cli: apptainer run, exec, shell
pub(super) const APPTAINER: Options = Options::with(&[
    "-B --bind -H --home -W --workdir --pwd --cwd --env --env-file -o --overlay --app --dns --hostname --network --network-args \
    --security --pid-file --docker-username --docker-password --docker-host --mount --scratch -S --fusemount --add-caps \
    --drop-caps --apply-cgroups --cpus --memory --pem-path --shell -s --config -c",
]);
/// java(1)
pub(super) const JAVA: Options = Options::with(&[
    "-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules --add-opens \
    --add-exports --add-reads --patch-module --limit-modules --enable-native-access -jar -m --module --source",
]);
/// jbang.dev/documentation
pub(super) const JBANG: Options = Options::with(&[
    "-j --java --deps --repos --cp --class-path -m --main -D -R --runtime-option -C --compile-option --config \
    -s --sources --files -n --native-option --module --javaagent --catalog -T --source-type --jfr --name",
]);
/// go help build, go help run
pub(super) const GO: Options = Options::with(&[
    "-C -p -asmflags -buildmode -buildvcs -compiler -covermode -coverpkg -gccgoflags -gcflags -installsuffix \
    -ldflags -mod -modfile -overlay -pgo -pkgdir -tags -toolexec -exec -o",
]);
/// cargo-run(1)
pub(super) const CARGO: Options = Options::with(&[
    "-p --package --bin --example -F --features --target --target-dir --profile --manifest-path --color \
    --message-format --config -Z -C -j --jobs --lockfile-path",
]);
/// learn.microsoft.com/dotnet/core/tools: dotnet, dotnet run, dotnet tool, dnx
pub(super) const DOTNET: Options = Options::with(&[
    "--additionalprobingpath --additional-deps --depsfile --fx-version --roll-forward \
    --runtimeconfig --project -p --configuration -c --framework -f --launch-profile -lp --runtime -r --arch -a --os \
    --property --verbosity -v --tool-manifest --add-source --source --configfile --version -e --environment --file",
]);
/// ruby(1), perl(1), php(1), lua(1), Rscript, julia, elixir, groovy
pub(super) const SCRIPTING: Options = Options::with(&[
    "-r -I -C -W -c -d -z -M -E -X --require --encoding --external-encoding --internal-encoding --project -J --sysimage",
]);
/// docs.wasmtime.dev, wasmer.io
pub(super) const WASM: Options = Options::with(&[
    "--dir --mapdir --env --argv0 --invoke --fuel --wasm -W --wasi -S --optimize -O --codegen -C --debug -D --config --preload --volume",
]);
/// Interpreters whose first argument behind the options is a script.
pub(super) const INTERPRETERS: &str = "ruby perl php lua luajit Rscript R julia elixir groovy kotlin escript bb raku guile gjs qjs racket janet \
    tclsh octave scala osascript";
/// lua(1): `-l` loads a library, where other languages have a flag.
pub(super) const LUA: Options = Options::with(&["-l"]);
/// Options of those with a program in the next word, and with a library that is loaded first: Rscript(1), julia(1), ruby(1), perlrun(1),
/// php(1), lua(1), elixir(1), guile(1), and the documentation of the others.
pub(super) const CODE: &[(&str, &str, &str)] = &[
    ("Rscript R", "-e", ""),
    ("julia", "-e --eval -E --print", ""),
    ("ruby", "-e", "-r --require"),
    ("perl", "-e -E", "-M -m"),
    ("php", "-r --run", ""),
    ("lua luajit", "-e", "-l"),
    ("elixir", "-e --eval", ""),
    ("guile", "-c", ""),
    ("octave", "--eval", ""),
    ("groovy raku racket janet bb scala osascript", "-e", ""),
];
/// Options with values of `swift run`, `stack`, `cabal run`, `dart run`, `crystal run`, `nim r`: the tools' own documentation.
pub(super) const BUILDERS: Options = Options::with(&[
    "--package-path --scratch-path --build-path -c --configuration -Xswiftc -Xcc -Xlinker --product --stack-yaml --resolver \
    --snapshot --package -w --with-compiler --project-dir --project-file --builddir --define -D --enable-experiment -C",
]);
/// Options with values of pwsh and powershell: learn.microsoft.com, about_pwsh.
pub(super) const POWERSHELL_VALUES: &str = "executionpolicy ex ep exec workingdirectory wd version v inputformat if outputformat of o \
    configurationname config windowstyle w custompipename settingsfile settings encodedcommand ec e psconsolefile";
/// bash(1), dash(1), zsh(1), fish(1)
pub(super) const SHELL: Options =
    Options::with(&["-o -O --rcfile --init-file --init-command --features --debug-output"]);
/// flatpak-run(1): all values stand behind `=`, but those of `-d`; snap run
pub(super) const FLATPAK: Options =
    Options::with(&["--branch --arch --command --cwd --installation --runtime --runtime-version --commit"]);

/// Interpreters and launchers that are often scripts themselves: `node /usr/bin/npx …`.
pub(super) const LAUNCHERS: &str = "npx npm pnpm pnpx yarn yarnpkg bunx uvx uv pipx poetry pdm hatch dotenvx env-cmd cross-env conda mamba pipenv";
/// What tells that a command begins, behind a program that is not known.
pub(super) const BEGINNINGS: &str = "npx bunx pnpx uvx dnx";

/// Programs that open a server's files, fetch them or run containers, and never are a server.
pub(super) const NO_SERVERS: &str =
    "cat less vim vi nano grep rg git pip pip3 venv ensurepip runc crun youki runsc conmon containerd";
/// The shell's own commands (bash(1), dash(1), zsh(1), fish(1)), and the tools that stand beside a server in a shell's text.
pub(super) const TOOLS: &str = ". : [ [[ alias bg break caller cd continue declare disown echo emit enable exit export false fg getopts hash help \
    history jobs kill let local logout mapfile popd printf pushd pwd read readonly return set setopt shift shopt sleep \
    source status string suspend test times trap true type typeset ulimit umask unalias unset unsetopt wait awk basename \
    chmod chown cmp column comm cp curl cut date dd diff dirname egrep expr fgrep file find head hexdump hostname id \
    install jq ln ls mkdir mkfifo mktemp more mv nl od paste patch pgrep pkill ps readlink realpath rm rmdir rsync scp sed \
    seq sort stat stty tee touch tr tty uname uniq wc wget which whoami xxd yes nvm module ssh-add ssh-keygen tput clear \
    ts logger chcp setlocal endlocal rem";

/// Managers of packages of which corepack runs the version behind `@` (github.com/nodejs/corepack).
pub(super) const MANAGERS: &str = "npm npx pnpm pnpx yarn";
/// Programs that make a project ready by some of their commands (the tools' own documentation); words that may stand in front of such
/// a command; and the commands, beside those that are scripts elsewhere, too (`build`, `install`).
pub(super) const MAKERS: &str = "npm pnpm yarn bun deno uv poetry pdm pipenv composer bundle cargo go dotnet mvn mvnw gradle gradlew mix \
    docker podman docker-compose conda mamba";
pub(super) const MAKERS_GROUPS: &str = "run run-script compose image pip deps";
pub(super) const MAKING: &str = "sync pull fetch update upgrade restore login get deps.get download";

/// Images that bring an interpreter, a launcher or an empty system: hub.docker.com's official images, and those of the runtimes' makers.
pub(super) const RUNTIME_IMAGES: &str = "node python pypy ruby perl php golang rust openjdk eclipse-temurin amazoncorretto sapmachine ibm-semeru-runtimes \
    uv bun deno busybox alpine debian ubuntu fedora rockylinux almalinux archlinux amazonlinux opensuse nix buildpack-deps \
    micromamba miniconda3 miniforge3 mambaforge anaconda3 bash docker dind gcc haskell elixir erlang julia r-base groovy \
    maven gradle clojure swift dart playwright pnpm nodejs distroless static-debian12 base-debian12 nodejs22-debian12 \
    nodejs20-debian12 python3-debian12 java21-debian12 java17-debian12 dotnet/sdk dotnet/runtime dotnet/aspnet";
/// Runtime images whose arguments go to the program of the same name.
pub(super) const RUNTIME_ENTRYPOINTS: &str = "deno bun node";
