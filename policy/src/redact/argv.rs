//! Command lines without what looks like a secret.

/// What stands in for a secret.
const MASK: &str = "***";
/// Most arguments kept; the rest is counted in one more.
const MAX_ARGS: usize = 64;
/// Longest argument kept, in bytes.
const MAX_ARG_BYTES: usize = 1_024;
/// Words that make a flag or variable name one of a secret.
const SECRET_WORDS: [&str; 15] = [
    "token",
    "cookie",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "api-key",
    "api_key",
    "credential",
    "auth",
    "private-key",
    "private_key",
    "access-key",
];
/// Beginnings of well-known secrets, wherever they stand.
const SECRET_PREFIXES: [&str; 14] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "eyJhbGci",
];

/// A command line for an event: bounded, and with what looks like a secret replaced by `***`.
///
/// Masked are the value of a flag (`--token X`, `--api-key=X`) or of an assignment (`GITHUB_TOKEN=X`, also behind
/// `-e`) whose name has a word like token, secret, password or key in it; a header's (`Authorization: X`); the
/// password in a URL, and the value of a like-named query parameter; and arguments that start like a well-known
/// kind of secret (`ghp_`, `sk-`, `xoxb-`, …). At most 64 arguments of 1,024 bytes are kept.
pub fn redact_argv(argv: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(argv.len().min(MAX_ARGS + 1));
    let mut value_is_secret = false;
    for arg in argv.iter().take(MAX_ARGS) {
        let is_flag = arg.starts_with('-');
        if value_is_secret && !is_flag {
            kept.push(MASK.to_owned());
            value_is_secret = false;
            continue;
        }
        value_is_secret = is_flag && !arg.contains('=') && is_secret_name(arg);
        let mut arg = mask_words(arg);
        if arg.len() > MAX_ARG_BYTES {
            let end = (0..=MAX_ARG_BYTES).rev().find(|at| arg.is_char_boundary(*at)).unwrap_or(0);
            arg.truncate(end);
            arg.push('…');
        }
        kept.push(arg);
    }
    if let Some(more) = argv.len().checked_sub(MAX_ARGS).filter(|more| *more > 0) {
        kept.push(format!("… {more} more"));
    }
    kept
}

/// Masks inside one argument. A shell's `-c` argument is a command line by itself, hence the words.
fn mask_words(arg: &str) -> String {
    if let Some((name, _)) = arg.split_once(':')
        && is_secret_name(name)
        && !name.contains(['/', ' '])
    {
        return format!("{name}: {MASK}");
    }
    let mut flag_before = false;
    // Behind `"Authorization:` everything up to the closing quote, or to the end.
    let mut in_header = false;
    let words = arg.split(' ').map(|word| {
        if in_header {
            let closing = word.chars().next_back().filter(|last| matches!(last, '"' | '\''));
            in_header = closing.is_none();
            return closing.map_or(MASK.to_owned(), |quote| format!("{MASK}{quote}"));
        }
        in_header = word.strip_suffix(':').is_some_and(is_secret_name);
        let masked = if flag_before && !word.is_empty() && !word.starts_with('-') {
            flag_before = false;
            return MASK.to_owned();
        } else {
            mask_word(word)
        };
        let scheme = word.trim_matches(['"', '\'']);
        flag_before = ["bearer", "basic"].contains(&scheme.to_ascii_lowercase().as_str())
            || word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        masked
    });
    words.collect::<Vec<_>>().join(" ")
}

fn mask_word(word: &str) -> String {
    let bare = word.trim_start_matches(['"', '\'']);
    if SECRET_PREFIXES.iter().any(|prefix| bare.starts_with(prefix)) {
        return MASK.to_owned();
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        return mask_url(scheme, rest);
    }
    match word.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret_name(name) => format!("{name}={MASK}"),
        Some((name, value)) if SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix)) => {
            format!("{name}={MASK}")
        }
        _ => word.to_owned(),
    }
}

fn mask_url(scheme: &str, rest: &str) -> String {
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{MASK}@{host}"),
            // A user without a password is a token as often as not.
            None => format!("{MASK}@{host}"),
        },
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, query)) => {
            let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, _)) if is_secret_name(name) || name.eq_ignore_ascii_case("key") => {
                    format!("{name}={MASK}")
                }
                _ => pair.to_owned(),
            });
            format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
        }
        None => path.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

/// Whether a flag or variable of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.trim_matches(['-', '"', '\'']).to_ascii_lowercase();
    // `--author`, `--token-limit`, `--auth-type` hold none.
    let harmless = ["author", "authors", "oauth", "auth-type", "auth_type", "auth-mode"]
        .contains(&name.as_str())
        || ["limit", "count", "file", "path", "dir"].iter().any(|end| name.ends_with(end))
        || name.starts_with("max");
    name.len() <= 64
        && !harmless
        && (SECRET_WORDS.iter().any(|word| name.contains(word)) || name.ends_with("_key") || name == "key")
}
