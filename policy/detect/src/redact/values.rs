//! What of a value says that it is no secret, and of a word that it is an option. `references.tsv` is the kept list of how
//! places of secrets are written: each row has its source, and an example that a test keeps.

use std::sync::LazyLock;

/// `-x`, `--lower-case`, `--lower-case=…`: a flag, and not a value that begins with a dash.
pub(super) fn is_plain_flag(arg: &str) -> bool {
    let name = arg.split('=').next().unwrap_or(arg);
    match name.strip_prefix("--") {
        Some(name) => name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
        None => name.len() == 2 && name.starts_with('-'),
    }
}

/// Forty or sixty-four hexadecimal digits: SHA-1 or SHA-256.
pub(super) fn is_digest(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Shortest name of a variable without braces, in bytes.
const MIN_VARIABLE: usize = 3;

/// Whether a value is a word or a reference that says no secret, whatever stands in front of it: `false`, `${NAME}`,
/// `$NAME` in capitals, `env:NAME`.
pub(super) fn is_public(value: &str) -> bool {
    let is_shells = value.strip_prefix('$').is_some_and(|name| {
        name.len() >= MIN_VARIABLE && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    is_placeholder(value)
        || is_shells
        || is_reference(value)
        || value == "-"
        || ["true", "false", "none", "null", "yes", "no", "on", "off", "enabled", "disabled", "stdin"]
            .contains(&value)
        || ["env:", "file:/", "fd:", "@/"].iter().any(|beginning| value.starts_with(beginning))
        || is_template(value)
        || reads_environment(value)
}

/// `<YOUR_API_KEY>`, `<token>`: as documentation has it, and people copy it.
fn is_template(value: &str) -> bool {
    const WORDS: [&str; 7] = ["your", "token", "key", "password", "secret", "api", "here"];
    let Some(name) = value.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else { return false };
    let name = name.to_ascii_lowercase();
    name.chars().all(|c| c.is_ascii_alphabetic() || "_- ".contains(c))
        && name.split(['_', '-', ' ']).any(|word| WORDS.contains(&word))
}

/// `os.environ['NAME']`, `process.env.NAME`: whether a value is what stands in the environment, with nothing in its place where that has none.
fn reads_environment(value: &str) -> bool {
    ENVIRONMENTS.iter().any(|beginning| {
        let Some(rest) = value.strip_prefix(beginning) else { return false };
        let rest = rest.trim_start_matches(['"', '\'']);
        let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        name.len() < rest.len() && name.trim_start_matches(['"', '\'', ')', ']', ';']).is_empty()
    })
}

/// How programs read the environment: Python, JavaScript, Deno, Java, Ruby, Go, Rust, PHP, .NET.
const ENVIRONMENTS: [&str; 13] = [
    "os.environ[",
    "os.environ.get(",
    "os.getenv(",
    "process.env.",
    "process.env[",
    "import.meta.env.",
    "Deno.env.get(",
    "System.getenv(",
    "ENV[",
    "os.Getenv(",
    "env::var(",
    "getenv(",
    "Environment.GetEnvironmentVariable(",
];

/// Beginnings and ends of what another value is put in place of, and what the name between them begins with: a shell, the
/// configurations of clients (VS Code: variables reference; opencode: config), GitHub Actions (contexts), Windows.
const PLACEHOLDERS: [(&str, &str, &[&str]); 6] = [
    ("${{", "}}", &["secrets.", "env.", "vars.", "inputs."]),
    ("${", "}", &["", "env:", "input:", "secret:", "secrets:", "config:", "command:", "file:"]),
    ("{{", "}}", &["secrets.", "env.", "resolve:secretsmanager:", "resolve:ssm-secure:"]),
    ("{", "}", &["env:", "file:"]),
    ("%", "%", &[""]),
    ("$env:", "", &[""]),
];

/// `${NAME}`, `${input:name}`, `${{ secrets.NAME }}`, `%NAME%`: without a value that stands there otherwise.
fn is_placeholder(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|(begin, end, kinds)| {
        let Some(name) = value.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)) else {
            return false;
        };
        let is_name = |name: &str, more: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || more.contains(c))
        };
        kinds.iter().any(|kind| {
            let more = if kind.is_empty() { "" } else { "-./:" };
            name.trim().strip_prefix(kind).is_some_and(|name| is_name(name, more))
        })
    })
}

/// How the place of a secret is written: a line of the list.
pub(super) struct Reference {
    beginning: &'static str,
    /// How many words follow at least, between `/`, `:` and `#`.
    least: usize,
    /// What one of them is; empty: anything.
    word: &'static str,
}

/// Every such form.
pub(super) static REFERENCES: LazyLock<Vec<Reference>> =
    LazyLock::new(|| include_str!("references.tsv").lines().filter_map(Reference::read).collect());

impl Reference {
    /// Reads a line of the list: beginning, number, word, source and example. Nothing of a comment.
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (beginning, least, word) = (columns.next()?, columns.next()?, columns.next()?);
        Some(Self { beginning, least: least.parse().ok()?, word: word.trim_matches('-') })
    }
}

/// Whether a text begins as the name of a secret's place does.
pub(super) fn begins_reference(text: &str) -> bool {
    REFERENCES.iter().any(|reference| text.starts_with(reference.beginning))
}

/// `op://Private/tide/token`: whether a value names where a secret is.
pub(super) fn is_reference(value: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "/:#._-+?=&@ ".contains(c);
    begins_reference(value)
        && value.chars().all(is_plain)
        && REFERENCES.iter().any(|reference| {
            value.strip_prefix(reference.beginning).is_some_and(|rest| {
                let words = || rest.split(['/', ':', '#']).filter(|word| !word.is_empty());
                words().count() >= reference.least
                    && (reference.word.is_empty() || words().any(|word| word == reference.word))
            })
        })
}

/// Ways to authenticate, as values of an option `auth`: IANA HTTP Authentication Schemes, IANA SASL Mechanisms, the security
/// schemes of OpenAPI 3.1, RFC 6749 and RFC 8628, authorization in MCP 2025-11-25; off and on.
const WAYS: &str = "basic bearer digest negotiate ntlm kerberos gssapi spnego hoba mutual oauth oauth1 oauth2 oidc openid openidconnect \
    dpop gnap privatetoken scram scramsha1 scramsha256 vapid plain external anonymous apikey http cookie header query session saml \
    saml2 sso ldap jwt token pat mtls tls cert certificate clientcert iam sigv4 awssigv4 aws azure azuread entra entraid gcp google github \
    device devicecode pkce authorizationcode clientcredentials password passkey webauthn otp totp key ssh pam peer trust md5 \
    auto default interactive browser optional required enabled disabled";

/// `--auth oauth`: whether a value says how somebody proves who he is, and not by what.
pub(super) fn is_way(name: &str, value: &str) -> bool {
    let name = name.to_lowercase();
    let value: String =
        value.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).collect::<String>().to_lowercase();
    ["auth", "authentication", "authn"].iter().any(|end| name.ends_with(end))
        && WAYS.split_whitespace().any(|way| way == value)
}

/// Whether the value behind a name of a secret is none: a reference, a file of keys, a number of tokens.
pub(super) fn is_harmless(name: &str, value: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase();
    let is_file =
        ["key", "cert", "cookie", "cookies", "credentials", "creds"].iter().any(|end| name.ends_with(end));
    let is_amount = ["seed", "tokens", "jetons"].iter().any(|end| name.ends_with(end));
    is_public(value)
        || is_file && is_path(value)
        // `--pincode-api https://…`; `clave-api` is a key, and no address.
        || name.ends_with("api") && value.contains("://")
        || name == "secret" && is_mount(value)
        // The first or the second pass of an encoder.
        || name == "pass" && value.len() == 1 && value.bytes().all(|byte| byte.is_ascii_digit())
        || is_amount && is_number(value)
}

/// `4096`, `128k`, `1.5M`.
fn is_number(value: &str) -> bool {
    let digits = value.strip_suffix(['k', 'K', 'm', 'M']).unwrap_or(value);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b','))
}

/// Members of what a container is given a secret by: where it is, and where it is to stand (docker-buildx-build(1), `--secret`;
/// podman-run(1), docker-service-create(1)).
const MOUNT: [&str; 10] = ["id", "src", "source", "target", "type", "env", "mode", "uid", "gid", "required"];

/// `id=npm,src=.npmrc`, `npm,type=env,target=TOKEN`: which secret a container is given, and not what it says.
fn is_mount(value: &str) -> bool {
    let is_member = |part: &str| {
        part.split_once('=').is_some_and(|(name, value)| MOUNT.contains(&name) && !is_long(value))
    };
    let is_name = |part: &str| !part.contains('=') && !is_long(part);
    let mut parts = value.split(',');
    let first = parts.next().unwrap_or_default();
    let mut rest = parts.clone().peekable();
    (is_member(first) || is_name(first) && rest.peek().is_some()) && parts.all(is_member)
}

/// Longer than names of secrets are, and without what paths have.
fn is_long(value: &str) -> bool {
    value.len() > 32 && !value.contains(['/', '.'])
}

/// The path of a file, as it is written to be one.
fn is_path(value: &str) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|beginning| value.starts_with(beginning));
    let ends =
        [".pem", ".key", ".crt", ".cer", ".pub", ".p12", ".pfx", ".jks", ".json", ".txt", ".yaml", ".yml"];
    // ssh-keygen(1): `id_ed25519`
    let is_file = ends.iter().any(|end| value.ends_with(end))
        || begins && value.rsplit('/').next().is_some_and(|name| name.starts_with("id_"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-~@".contains(c);
    value.chars().all(is_plain)
        && (is_file || begins && value.matches('/').count() > 1 && !value.chars().any(|c| c.is_ascii_digit()))
}

/// Schemes of an `Authorization` header that a secret follows: IANA HTTP Authentication Schemes, and of services that have their
/// own (Django REST framework: Token; Okta: SSWS; Opsgenie: GenieKey; Discord: Bot; Splunk; AWS: Signature Version 4).
pub(super) fn is_credential(word: &str) -> bool {
    const SCHEMES: [&str; 26] = [
        "token",
        "apikey",
        "api-key",
        "api_key",
        "key",
        "digest",
        "negotiate",
        "ntlm",
        "oauth",
        "dpop",
        "hoba",
        "mutual",
        "gnap",
        "privatetoken",
        "vapid",
        "scram-sha-1",
        "scram-sha-256",
        "hawk",
        "mac",
        "jwt",
        "ssws",
        "geniekey",
        "bot",
        "splunk",
        "aws4-hmac-sha256",
        "deepl-auth-key",
    ];
    is_scheme(word) || SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Words of an `Authorization` header that a secret follows, wherever they stand.
pub(super) fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}
