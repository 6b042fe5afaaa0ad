//! Programs that stand for another server: which words of theirs say which. Options with values are those of the documentation
//! named in the comments.

use super::{Bridge, Operands, Tasks};
use crate::discovery::options::{NONE, Options};
use crate::discovery::tables::ENGINE;

const PLAIN: Bridge = Bridge {
    names: "",
    subcommands: &[],
    options: NONE,
    targets: "",
    qualifiers: &[],
    directory: "",
    login: ["", ""],
    operands: Operands::None,
    server: 0,
    tasks: Tasks::None,
};

/// Options of bridges whose value is the URL or the command that they stand for, however the bridge is called.
pub(super) const TARGETS: &str = "--url --uri --endpoint --server-url --serverUrl --remote-url --target --upstream --sse --streamableHttp \
    --streamable-http --http --stdio --to --connect --ws";

/// Words in the name of a program that is a bridge, if an argument is a URL.
pub(super) const BRIDGE_WORDS: &str = "remote proxy bridge gateway relay tunnel adapter connect connector forwarder websocat wscat mcpo \
    client stdio2http stdio2sse http2stdio sse2stdio";
/// Words in the name of a program that makes a server of a description of an interface, and options that name that.
pub(super) const GENERATOR_WORDS: &str = "openapi swagger graphql postman wsdl odata openrpc asyncapi";
pub(super) const SPECIFICATIONS: &str = "--spec --openapi-spec --api-spec --spec-url --spec-path --spec-file --openapi --swagger --schema \
    --schema-url --schema-path --api-spec-url --spec_url --endpoint --url --collection --document";
/// Words in the name of a program that stands for several servers, and options that name the file that says which.
pub(super) const COLLECTION_WORDS: &str = "hub gateway proxy router aggregator multiplexer orchestrator agentgateway \
    mcphub mcpgateway mcpproxy 1mcp";
pub(super) const COLLECTIONS: &str =
    "--config -c -f --file --config-file --config-path --servers --servers-file --mcp-config --mcp-servers";
/// Options that name the file or preset that defines a program's tools, however it is called.
pub(super) const DEFINITIONS: &[&str] = &[
    "--prebuilt",
    "--tools_file --tools-file",
    "--tools-files",
    "--tools-folder --tools-dir",
    "--tools-config --tool-config",
    "--tool-definitions --definitions",
    "--preset",
];
/// Options whose URL is not that of a bridge's target.
pub(super) const OTHER_URLS: &str = "--registry --proxy --http-proxy --https-proxy --header --headers -H --callback --callback-url --redirect-uri \
    --token-url --auth-url --issuer --resource --origin --allow-origin --index-url --cors";

/// kubernetes.io/docs/reference/kubectl: kubectl, kubectl exec; OpenShift's oc
const KUBECTL: Options = Options::with(&[
    "-n --namespace -c --container --context --cluster --kubeconfig -s --server --user --token --as --as-group --as-uid \
    -f --filename --pod-running-timeout --request-timeout -v --v --cache-dir --certificate-authority --client-certificate \
    --client-key --tls-server-name --image --restart --env --labels -l --overrides --override-type --image-pull-policy",
]);
const KUBECTL_QUALIFIERS: &[&str] =
    &["-n --namespace", "-c --container", "--context", "--cluster", "--kubeconfig", "-s --server", "--image"];

pub(super) const BRIDGES: &[Bridge] = &[
    // github.com/geelen/mcp-remote: `mcp-remote URL [PORT]`
    Bridge {
        names: "mcp-remote mcp-remote-client",
        options: Options::with(&[
            "--header --transport --host --resource --auth-timeout --ignore-tool --static-oauth-client-metadata \
            --static-oauth-client-info",
        ]),
        targets: TARGETS,
        operands: Operands::Place,
        ..PLAIN
    },
    // github.com/sparfenyuk/mcp-proxy and github.com/punkpeye/mcp-proxy: `mcp-proxy URL`, `mcp-proxy COMMAND`;
    // github.com/open-webui/mcpo: `mcpo -- COMMAND`
    Bridge {
        names: "mcp-proxy mcpo",
        options: Options {
            one: &[
                "--transport --port --host --sse-port --sse-host --client-id --client-secret --token-url --log-level --cwd \
                --named-server-config --allow-origin --verify-ssl --method --server --sseEndpoint --streamEndpoint \
                --requestTimeout --gracefulShutdownTimeout --connectionTimeout --apiKey --endpoint --server-type -p \
                --api-key --config --root-path --path-prefix --name --cors-allow-origins --ssl-certfile --ssl-keyfile --tunnelSubdomain",
            ],
            two: "-H --headers -e --env --named-server",
            ..NONE
        },
        targets: "--url",
        qualifiers: &["--named-server-config", "--config"],
        operands: Operands::Place,
        ..PLAIN
    },
    // github.com/supercorp-ai/supergateway
    Bridge { names: "supergateway", targets: TARGETS, operands: Operands::Words(0), ..PLAIN },
    // github.com/modelcontextprotocol/inspector: `inspector COMMAND`, `inspector --cli COMMAND`
    Bridge {
        names: "@modelcontextprotocol/inspector mcp-inspector",
        options: Options::with(&[
            "-e --config --server --transport --method --tool-name --tool-arg --tool-metadata --metadata --uri --header \
            --prompt-name --prompt-args --log-level --server-url",
        ]),
        targets: "--server-url",
        qualifiers: &["--config", "--server"],
        operands: Operands::Place,
        ..PLAIN
    },
    // smithery.ai/docs: `smithery run NAME`; mcpm.sh: `mcpm run NAME`; docs.stacklok.com/toolhive: `thv run NAME`
    Bridge {
        names: "@smithery/cli smithery mcpm thv toolhive",
        subcommands: &["run"],
        options: Options::with(&[
            "--config --key --profile --client --port --transport --host --name --permission-profile --env -e --volume -v \
            --secret --target-port --proxy-port --group --image-verification --ca-cert",
        ]),
        qualifiers: &["--profile"],
        operands: Operands::Words(1),
        server: 1,
        ..PLAIN
    },
    // docs.docker.com/ai/mcp-catalog-and-toolkit: `docker mcp gateway run`
    Bridge {
        names: "docker docker-mcp",
        subcommands: &["mcp gateway run", "gateway run"],
        options: Options::with(&[
            "--servers --profile --catalog --config --registry --tools --secrets --transport --port -c --context -H --host",
        ]),
        qualifiers: &["--servers", "--profile", "--catalog", "--config", "--registry", "--tools"],
        operands: Operands::Words(0),
        ..PLAIN
    },
    // docs.docker.com/reference/cli/docker, podman(1), nerdctl: another host's engine
    Bridge {
        names: "docker podman nerdctl docker-compose podman-compose",
        options: ENGINE,
        qualifiers: &["-H --host", "-c --context", "--connection", "--url", "-a --address"],
        ..PLAIN
    },
    // github.com/cloudflare/workers-mcp: `workers-mcp run NAME URL [DIR]`
    Bridge { names: "workers-mcp", subcommands: &["run"], operands: Operands::Words(2), ..PLAIN },
    // github.com/googleapis/genai-toolbox (docs/en/reference/cli.md): tools from files or presets
    Bridge {
        names: "@toolbox-sdk/server toolbox-sdk-server genai-toolbox mcp-toolbox toolbox",
        options: Options::with(&[
            "--prebuilt --tools-file --tools_file --tools-files --tools-folder --config --configs --config-folder -a --address \
            -p --port --log-level --logging-format --telemetry-otlp --telemetry-service-name --allowed-origins \
            --allowed-hosts --poll-interval --user-agent-metadata",
        ]),
        qualifiers: &[
            "--prebuilt",
            "--tools_file --tools-file",
            "--tools-files",
            "--tools-folder",
            "--config",
            "--configs",
            "--config-folder",
        ],
        operands: Operands::Words(0),
        ..PLAIN
    },
    // apollographql.com/docs/apollo-mcp-server: `apollo-mcp-server [CONFIG]`; before 1.0 with options
    Bridge {
        names: "apollo-mcp-server",
        options: Options::with(&[
            "-s --schema -o --operations --manifest --collection --uplink-manifest -d --directory -e --endpoint --headers \
            --header -c --custom-scalars-config -l --log --http-port --http-address --sse-port --sse-address \
            --apollo-graph-ref",
        ]),
        qualifiers: &[
            "-s --schema",
            "-o --operations",
            "--manifest",
            "--collection",
            "-d --directory",
            "-e --endpoint",
        ],
        operands: Operands::Words(1),
        ..PLAIN
    },
    // Consoles of web frameworks: `artisan mcp:start NAME` (laravel.com/docs/mcp), `bin/console mcp:server` (symfony.com),
    // `manage.py COMMAND` (docs.djangoproject.com), `drush mcp:…`, `rails`, `spark`, `yii`, `craft`, `cake`
    Bridge {
        names: "artisan console manage drush rails spark yii craft cake",
        options: Options::with(&["--settings --pythonpath -e --env -r --root -l --uri --host --port"]),
        qualifiers: &["--settings", "-l --uri", "-r --root"],
        operands: Operands::Words(2),
        server: 2,
        tasks: Tasks::Own,
        ..PLAIN
    },
    // ruby.github.io/rake
    Bridge {
        names: "rake",
        options: Options::with(&["-f --rakefile -e -r --root -I --libdir -R --rakelibdir -j --jobs"]),
        qualifiers: &["-f --rakefile"],
        operands: Operands::Words(2),
        server: 2,
        tasks: Tasks::In("Rakefile", "-f --rakefile"),
        ..PLAIN
    },
    // symfony.com/doc/current/setup/symfony_cli: `symfony console COMMAND NAME`
    Bridge {
        names: "symfony",
        subcommands: &["console"],
        options: Options::with(&["--dir"]),
        operands: Operands::Words(2),
        server: 2,
        tasks: Tasks::In("bin/console", "--dir"),
        ..PLAIN
    },
    // hexdocs.pm/mix
    Bridge { names: "mix", operands: Operands::Words(1), tasks: Tasks::In("mix.exs", ""), ..PLAIN },
    // docs.gradle.org/current/userguide/command_line_interface.html
    Bridge {
        names: "gradle gradlew",
        options: Options::with(&[
            "-p --project-dir -b --build-file -c --settings-file -g --gradle-user-home -I --init-script -x --exclude-task \
            --console --max-workers --priority",
        ]),
        operands: Operands::Words(1),
        tasks: Tasks::In("build.gradle", "-p --project-dir -b --build-file"),
        ..PLAIN
    },
    // maven.apache.org/ref/current/maven-embedder/cli.html
    Bridge {
        names: "mvn mvnw mvnd",
        options: Options::with(&[
            "-f --file -s --settings -gs --global-settings -pl --projects -P --activate-profiles -t --toolchains -l --log-file \
            -T --threads -rf --resume-from",
        ]),
        qualifiers: &["-pl --projects"],
        operands: Operands::Words(1),
        tasks: Tasks::In("pom.xml", "-f --file"),
        ..PLAIN
    },
    // developer.wordpress.org/cli: `wp mcp-adapter serve --server=NAME`
    Bridge {
        names: "wp",
        options: Options::with(&["--server --path --url --user --ssh --http"]),
        qualifiers: &["--server", "--path", "--url", "--ssh", "--http"],
        operands: Operands::Words(2),
        ..PLAIN
    },
    // make(1): a target
    Bridge {
        names: "make gmake",
        options: Options::with(&[
            "-C --directory -f --file --makefile -I --include-dir -o --old-file -W --what-if --new-file --eval",
        ]),
        qualifiers: &["-C --directory", "-f --file --makefile"],
        operands: Operands::Words(1),
        tasks: Tasks::In("Makefile", "-f --file --makefile -C --directory"),
        ..PLAIN
    },
    // getcomposer.org/doc/articles/scripts.md
    Bridge {
        names: "composer",
        subcommands: &["run", "run-script"],
        options: Options::with(&["-d --working-dir --timeout"]),
        qualifiers: &["-d --working-dir"],
        operands: Operands::Words(1),
        tasks: Tasks::In("composer.json", "-d --working-dir"),
        ..PLAIN
    },
    // just(1): a recipe
    Bridge {
        names: "just",
        options: Options::with(&[
            "-f --justfile -d --working-directory --shell --dotenv-filename --dotenv-path",
        ]),
        qualifiers: &["-f --justfile", "-d --working-directory"],
        operands: Operands::Words(1),
        tasks: Tasks::In("justfile", "-f --justfile -d --working-directory"),
        ..PLAIN
    },
    // taskfile.dev
    Bridge {
        names: "task",
        options: Options::with(&["-d --dir -t --taskfile -o --output -C --concurrency -I --interval"]),
        qualifiers: &["-d --dir", "-t --taskfile"],
        operands: Operands::Words(1),
        tasks: Tasks::In("Taskfile.yml", "-t --taskfile -d --dir"),
        ..PLAIN
    },
    // pyinvoke.org
    Bridge {
        names: "invoke inv",
        options: Options::with(&["-c --collection -r --search-root -f --config -T --command-timeout"]),
        qualifiers: &["-c --collection", "-r --search-root"],
        operands: Operands::Words(1),
        tasks: Tasks::In("tasks.py", "-r --search-root"),
        ..PLAIN
    },
    // magefile.org
    Bridge {
        names: "mage",
        options: Options::with(&["-d -w -t -goos -goarch -gocmd -ldflags"]),
        qualifiers: &["-d"],
        operands: Operands::Words(1),
        tasks: Tasks::In("magefile.go", "-d"),
        ..PLAIN
    },
    // ssh(1), autossh(1)
    Bridge {
        names: "ssh autossh",
        options: Options::with(&["-B -b -c -D -E -e -F -I -i -J -L -l -M -m -O -o -P -p -Q -R -S -W -w"]),
        login: ["-l -oUser -oLogin", "-p -oPort"],
        operands: Operands::Line(1),
        ..PLAIN
    },
    // sshpass(1): `sshpass -p PASSWORD ssh …`
    Bridge {
        names: "sshpass",
        options: Options::with(&["-p -f -d -P"]),
        operands: Operands::Command(0),
        ..PLAIN
    },
    // goteleport.com/docs/reference/cli/tsh, tailscale.com/kb/1193/tailscale-ssh, coder.com/docs
    Bridge {
        names: "tsh tailscale coder",
        subcommands: &["ssh"],
        options: Options::with(&[
            "-l --login -p --port --cluster --proxy --user -d -L -R -D -i --identity --ttl",
        ]),
        qualifiers: &["--cluster", "--proxy"],
        login: ["-l --login", "-p --port"],
        operands: Operands::Line(1),
        ..PLAIN
    },
    // cloud.google.com/sdk/gcloud, fly.io/docs/flyctl, vagrantup.com, devenv's heroku: the command is an option's value
    Bridge {
        names: "gcloud",
        subcommands: &["compute ssh"],
        options: Options::with(&[
            "--command --zone --project --container --ssh-key-file --ssh-flag --account --configuration",
        ]),
        targets: "--command",
        qualifiers: &["--zone", "--project", "--container"],
        operands: Operands::Line(1),
        ..PLAIN
    },
    Bridge {
        names: "flyctl fly vagrant",
        subcommands: &["ssh console", "ssh"],
        options: Options::with(&[
            "-a --app -C --command -c --config -o --org -r --region -u --user --machine -g",
        ]),
        targets: "-C --command -c",
        qualifiers: &["-a --app", "--machine"],
        operands: Operands::Words(1),
        ..PLAIN
    },
    Bridge {
        names: "kubectl oc k3s microk8s minikube",
        subcommands: &["exec", "attach", "run", "kubectl exec", "kubectl run", "rsh"],
        options: KUBECTL,
        qualifiers: KUBECTL_QUALIFIERS,
        operands: Operands::Pod,
        ..PLAIN
    },
    // linuxcontainers.org/incus, documentation.ubuntu.com/lxd, canonical multipass
    Bridge {
        names: "incus lxc multipass",
        subcommands: &["exec"],
        options: Options::with(&["--user --group --cwd --env --mode --project -d --working-directory"]),
        directory: "--cwd -d --working-directory",
        qualifiers: &["--project"],
        operands: Operands::Command(1),
        ..PLAIN
    },
    // limactl-shell, distrobox-enter(1), toolbox-run(1), machinectl(1), containers.dev
    Bridge {
        names: "limactl",
        subcommands: &["shell"],
        options: Options::with(&["--shell --workdir"]),
        directory: "--workdir",
        operands: Operands::Command(1),
        ..PLAIN
    },
    Bridge {
        names: "distrobox distrobox-enter",
        subcommands: &["enter", ""],
        options: Options::with(&["-n --name -a --additional-flags"]),
        qualifiers: &["-n --name"],
        operands: Operands::Command(1),
        ..PLAIN
    },
    Bridge {
        names: "toolbox",
        subcommands: &["run"],
        options: Options::with(&["-c --container -d --distro -r --release --preserve-fds"]),
        qualifiers: &["-c --container", "-d --distro", "-r --release"],
        operands: Operands::Command(0),
        ..PLAIN
    },
    Bridge {
        names: "devcontainer",
        subcommands: &["exec"],
        options: Options::with(&[
            "--workspace-folder --container-id --config --id-label --docker-path --remote-env --log-level",
        ]),
        qualifiers: &["--workspace-folder", "--container-id", "--id-label"],
        operands: Operands::Command(0),
        ..PLAIN
    },
    // wsl.exe: learn.microsoft.com/windows/wsl/basic-commands
    Bridge {
        names: "wsl",
        options: Options::with(&["-d --distribution --distribution-id -u --user --cd --shell-type"]),
        qualifiers: &["-d --distribution", "--distribution-id"],
        directory: "--cd",
        operands: Operands::Command(0),
        ..PLAIN
    },
    // socat(1), nc(1), ncat(1): two addresses; a host and a port
    Bridge {
        names: "socat",
        options: Options::with(&["-b -t -T -lp -L -W -x -r -R"]),
        operands: Operands::Words(2),
        ..PLAIN
    },
    Bridge {
        names: "nc ncat netcat telnet",
        options: Options::with(&[
            "-w -i -p -s -x -X -q -T -I -O -P -l -M -m -g -G --proxy --proxy-type --proxy-auth -c -e",
        ]),
        operands: Operands::Words(2),
        ..PLAIN
    },
];
