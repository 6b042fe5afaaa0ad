//! Command lines without what looks like a secret.
//!
//! A word is judged by its name (`--token`, `GITHUB_TOKEN=`, `"apiKey":`, `Authorization:`), by where it stands (the
//! password of a URL), and by itself (`ghp_…`, twenty random letters and digits). In doubt it is masked: a harmless
//! word that is missing does less harm than a secret in a log.

/// What stands in for a secret.
const MASK: &str = "***";
/// Most arguments kept; the rest is counted in one more.
const MAX_ARGS: usize = 64;
/// Longest argument kept, in bytes.
const MAX_ARG_BYTES: usize = 1_024;
/// What makes a name one of a secret, wherever it stands in it. Names are compared in lower case, without `-` and `_`.
const SECRET_WORDS: [&str; 12] = [
    "token",
    "cookie",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "credential",
    "auth",
    "privatekey",
    "accesskey",
];
/// The same for the last word of a name.
const SECRET_LAST_WORDS: [&str; 5] = ["key", "pat", "jwt", "pass", "bearer"];
/// Beginnings of well-known secrets.
const SECRET_PREFIXES: [&str; 27] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "ntn_",
    "lin_api_",
    "tvly-",
    "shpat_",
    // `{"` in base64: a JSON Web Token.
    "eyJ",
];
/// Shortest word that can look random.
const RANDOM_BYTES: usize = 20;

/// A command line for an event: bounded, and with what looks like a secret replaced by `***`.
///
/// Masked are the value of a flag (`--token X`, `--api-key=X`) or of an assignment (`GITHUB_TOKEN=X`, also behind
/// `-e`) whose name has a word like token, secret, password or key in it; the same in JSON, in headers
/// (`Authorization: X`) and in the command line of a shell; the password in a URL, a like-named parameter and a random
/// part of its path; `-u user:X`; and words that start like a well-known kind of secret (`ghp_`, `sk-`, `xoxb-`, …) or
/// look random. A value behind a flag may begin with a dash, unless it is plainly the next flag: `-x`, `--lower-case`.
/// Not found is a secret of letters alone behind a name that says nothing (`-t hunter`). At most 64 arguments of 1,024
/// bytes are kept.
pub fn redact_argv(argv: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(argv.len().min(MAX_ARGS + 1));
    let mut before = "";
    let mut is_value = false;
    for arg in argv.iter().take(MAX_ARGS) {
        let masked = if is_value && !is_plain_flag(arg) {
            // `Authorization: Bearer abc` as three arguments.
            is_value = is_scheme(arg);
            MASK.to_owned()
        } else {
            is_value = is_scheme(arg)
                || arg.strip_suffix(':').is_some_and(is_secret_name)
                || arg.starts_with('-') && !arg.contains('=') && is_secret_name(arg);
            match arg.split_once(':') {
                Some((user, _)) if ["-u", "--user"].contains(&before) && !is_number(user) => {
                    format!("{user}:{MASK}")
                }
                _ => Masking::new(arg, is_shell_line(before, arg, kept.is_empty())).run(),
            }
        };
        kept.push(cut(masked));
        before = arg;
    }
    if let Some(more) = argv.len().checked_sub(MAX_ARGS).filter(|more| *more > 0) {
        kept.push(format!("… {more} more"));
    }
    kept
}

/// One word of a command line, or an address, without what looks like a secret in it.
pub fn redact_word(word: &str) -> String {
    redact_argv(&[word.to_owned()]).concat()
}

/// A piece of a text of any kind for an event, with what looks like a secret replaced by `***`, as in the command line of
/// a shell; with `random` false but for words that only look random, which in a definition may be what is to be seen.
pub(crate) fn redact_prose(text: &str, random: bool) -> String {
    let masking = Masking { prose: true, random, ..Masking::new(text, true) };
    masking.run()
}

/// Whether an object key is itself a secret of a known kind. Keys that look random are names of programs as often.
pub(crate) fn is_secret_key(key: &str) -> bool {
    // Shorter ones are names.
    key.len() >= 16 && is_known_secret(key)
}

fn cut(mut arg: String) -> String {
    if arg.len() > MAX_ARG_BYTES {
        let end = (0..=MAX_ARG_BYTES).rev().find(|at| arg.is_char_boundary(*at)).unwrap_or(0);
        arg.truncate(end);
        arg.push('…');
    }
    arg
}

/// Whether an argument is a command line by itself: behind `sh -c`, `bash -lc`, `npx -c`; or a process's title.
fn is_shell_line(before: &str, arg: &str, first: bool) -> bool {
    let flags = before.strip_prefix('-').and_then(|flags| flags.strip_suffix('c'));
    first && arg.contains(' ')
        || flags.is_some_and(|flags| flags.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// One argument being masked.
struct Masking<'a> {
    rest: &'a str,
    /// Whether blanks end a value. Elsewhere the argument is one value, blanks and all.
    shell: bool,
    /// Whether it is prose, in which `basic` is a word like others.
    prose: bool,
    /// Whether words are masked that look random.
    random: bool,
    /// The quotation that `rest` is in.
    quote: Option<char>,
    /// What stands before `rest`.
    before: Option<char>,
    out: String,
}

impl<'a> Masking<'a> {
    fn new(arg: &'a str, shell: bool) -> Self {
        let out = String::with_capacity(arg.len());
        Self { rest: arg, shell, prose: false, random: true, quote: None, before: None, out }
    }

    fn run(mut self) -> String {
        while let Some(first) = self.rest.chars().next() {
            let length = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
            if length > 0 {
                self.word(length);
                continue;
            }
            self.keep(first.len_utf8());
        }
        self.out
    }

    /// Goes on behind the next `length` bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        for character in taken.chars() {
            // Behind a backslash it is part of what is quoted.
            if matches!(character, '"' | '\'') && self.before != Some('\\') {
                self.quote = match self.quote {
                    None => Some(character),
                    Some(quote) if quote == character => None,
                    other => other,
                };
            }
            self.before = Some(character);
        }
        taken
    }

    fn keep(&mut self, length: usize) {
        let kept = self.take(length);
        self.out.push_str(kept);
    }

    fn mask(&mut self, length: usize) {
        if length > 0 {
            self.take(length);
            self.out.push_str(MASK);
        }
    }

    /// A run of letters, digits, `-` and `_`, and what belongs to it.
    fn word(&mut self, length: usize) {
        let before = self.before;
        let (word, after) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        if after.starts_with("://") {
            let end = self.rest.find([' ', '\t', '\n', '"', '\'', '\\', '<', '>']).unwrap_or(self.rest.len());
            let url = self.take(end);
            return self.out.push_str(&mask_url(word, url.get(length + 3..).unwrap_or_default()));
        }
        if is_known_secret(self.rest) {
            let inside = |c: char| is_name(c) || "./+=~%".contains(c);
            return self.mask(self.rest.find(|c| !inside(c)).unwrap_or(self.rest.len()));
        }
        // Directories and images have random names that are no secrets.
        let in_path = before == Some('/') || after.starts_with('/') || self.out.ends_with("sha256:");
        if self.random && is_random(word) && !in_path {
            return self.mask(length);
        }
        self.keep(length);
        if is_scheme(word) && after.starts_with(' ') {
            self.keep(after.len() - after.trim_start().len());
            let end = self.end_of_word();
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_punctuation();
            let is_word = self.prose && self.rest.bytes().take(end).all(is_letter);
            return if is_word { self.keep(end) } else { self.mask(end) };
        }
        if !is_secret_name(word) {
            return;
        }
        let closing = quotes(after);
        let behind = after.get(closing..).unwrap_or_default();
        let blanks = behind.len() - behind.trim_start().len();
        match behind.trim_start().chars().next() {
            Some('=') => self.value(closing + blanks + 1, before),
            // `ghcr.io/acme/auth:latest` is an image.
            Some(':') if !matches!(before, Some('/' | '@')) => self.value(closing + blanks + 1, before),
            // `--token abc` in a shell's line, `"--token", "abc"` in JSON.
            Some(_) if word.starts_with('-') => {
                let separator = behind.find(|c| !matches!(c, ' ' | '\t' | ',')).unwrap_or(0);
                let opening = quotes(behind.get(separator..).unwrap_or_default());
                let value = behind.get(separator + opening..).unwrap_or_default();
                let end = value.find([' ', '\t', '\n', '"', '\'', '\\']).unwrap_or(value.len());
                if separator > 0 && !value.get(..end).is_some_and(is_plain_flag) {
                    self.keep(closing + separator);
                    self.delimited(opening, |this| this.end_of_word());
                }
            }
            _ => {}
        }
    }

    /// The value behind a separator that ends after `length` bytes; `before` stands in front of the name.
    fn value(&mut self, length: usize, before: Option<char>) {
        self.keep(length);
        let blanks = self.rest.len() - self.rest.trim_start().len();
        // `TOKEN= command`: nothing is assigned.
        if blanks > 0 && self.shell && self.quote.is_none() && self.before == Some('=') {
            return;
        }
        self.keep(blanks);
        self.delimited(quotes(self.rest), |this| this.end_of_value(before));
    }

    /// Masks up to the quotation mark that `opening` bytes of quotation marks begin with, or, without them, to `end`.
    fn delimited(&mut self, opening: usize, end: impl Fn(&Self) -> usize) {
        if opening == 0 || self.shell && self.quote.is_none() {
            return self.mask(end(self));
        }
        let mark = self.take(opening);
        self.out.push_str(mark);
        let end = find_mark(self.rest, mark);
        self.mask(end);
        self.keep(mark.len().min(self.rest.len()));
    }

    fn end_of_word(&self) -> usize {
        let mut quote = None;
        for (at, character) in self.rest.char_indices() {
            match character {
                '"' | '\'' if self.quote.is_some() => return at,
                _ if quote == Some(character) => quote = None,
                '"' | '\'' if quote.is_none() => quote = Some(character),
                ' ' | '\t' | '\n' | ';' | '|' | '&' if quote.is_none() => return at,
                _ => {}
            }
        }
        self.rest.len()
    }

    fn end_of_value(&self, before: Option<char>) -> usize {
        let to = |ends: &[char]| self.rest.find(ends).unwrap_or(self.rest.len());
        match (before, self.quote) {
            (_, None) if self.shell => {
                let end = self.end_of_word();
                // `Authorization: Bearer abc` is two words.
                let next = self.rest.get(end + 1..).filter(|_| self.rest.get(..end).is_some_and(is_scheme));
                end + next.map_or(0, |next| 1 + next.find([' ', ';', '|', '&']).unwrap_or(next.len()))
            }
            (Some('?' | '&'), _) => to(&['&', '#', ' ', '"', '\'']),
            // Connection strings: `Server=x;Password=y`.
            (Some(';'), _) => to(&[';', '"', '\'']),
            // A list or an object of secrets.
            _ if !self.shell && self.rest.starts_with(['[', '{']) => self.rest.len(),
            (_, Some(quote)) => find_mark(self.rest, quote.encode_utf8(&mut [0; 4])),
            _ => self.rest.len(),
        }
    }
}

/// Where a text has this quotation mark, or its end. A mark with another backslash before it is part of the text.
fn find_mark(text: &str, mark: &str) -> usize {
    let is_end = |at: &usize| !text.get(..*at).is_some_and(|before| before.ends_with('\\'));
    text.match_indices(mark).map(|(at, _)| at).find(is_end).unwrap_or(text.len())
}

/// Bytes of quotation marks that a text begins with, those inside a string (`\"`) too.
fn quotes(text: &str) -> usize {
    let marked = text.trim_start_matches('\\');
    if marked.starts_with(['"', '\'']) { text.len() - marked.len() + 1 } else { 0 }
}

fn mask_url(scheme: &str, rest: &str) -> String {
    let end = |text: &str| text.find(['/', '?', '#']).unwrap_or(text.len());
    let mut host = end(rest);
    if let Some((_, password)) = rest.get(..host).and_then(|authority| authority.split_once(':'))
        && !is_number(password)
        && let Some(at) = rest.rfind('@').filter(|at| *at > host)
    {
        // A password with a slash in it, which should have been escaped.
        host = at + end(rest.get(at..).unwrap_or_default());
    }
    let (authority, path) = rest.split_at_checked(host).unwrap_or((rest, ""));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) if !is_known_secret(name) => format!("{name}:{MASK}@{host}"),
            // A user without a password is a token as often as not.
            _ => format!("{MASK}@{host}"),
        },
        None => authority.to_owned(),
    };
    let mut out = format!("{scheme}://{authority}");
    let mut separator = ' ';
    for part in path.split_inclusive(['/', '?', '&', '#']) {
        let (text, next) = match part.char_indices().next_back() {
            Some((at, last)) if matches!(last, '/' | '?' | '&' | '#') => {
                (part.get(..at).unwrap_or(part), Some(last))
            }
            _ => (part, None),
        };
        match text.split_once('=') {
            Some((name, value)) if separator != '/' && (is_secret_name(name) || is_secret(value)) => {
                out.extend([name, "=", MASK]);
            }
            _ if is_secret(text) => out.push_str(MASK),
            _ => out.push_str(text),
        }
        out.extend(next);
        separator = next.unwrap_or(' ');
    }
    out
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `-x`, `--lower-case`, `--lower-case=…`: a flag, and not a value that begins with a dash.
fn is_plain_flag(arg: &str) -> bool {
    let name = arg.split('=').next().unwrap_or(arg);
    match name.strip_prefix("--") {
        Some(name) => name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
        None => name.len() == 2 && name.starts_with('-'),
    }
}

/// Words of an `Authorization` header that a secret follows.
fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn is_secret(word: &str) -> bool {
    is_known_secret(word) || is_random(word)
}

fn is_known_secret(word: &str) -> bool {
    SECRET_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Whether a word looks like nothing that a person would write: letters of both cases with digits, or letters
/// with digits and not so much as a dash.
fn is_random(word: &str) -> bool {
    let has = |part: &str, is: fn(&u8) -> bool| part.as_bytes().iter().any(is);
    let mixed = word.chars().all(is_name)
        && has(word, u8::is_ascii_digit)
        && has(word, u8::is_ascii_lowercase)
        && has(word, u8::is_ascii_uppercase);
    let solid = |part: &str| {
        part.len() >= RANDOM_BYTES && has(part, u8::is_ascii_digit) && has(part, u8::is_ascii_alphabetic)
    };
    word.len() >= RANDOM_BYTES && (mixed || word.split(|c| !char::is_ascii_alphanumeric(&c)).any(solid))
}

/// Whether a flag, variable, parameter, key or header of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let words = name.trim_matches('-').to_ascii_lowercase();
    let joined = words.replace(['-', '_'], "");
    // `--author`, `--token-limit`, `--auth-type`, `--max-tokens` hold none.
    let harmless = ["author", "authors", "oauth", "authtype", "authmode"].contains(&joined.as_str())
        || ["limit", "count", "file", "path", "dir"].iter().any(|end| joined.ends_with(end))
        || joined.starts_with("max") && joined.ends_with("tokens");
    let last = words.rsplit(['-', '_']).next().unwrap_or_default();
    name.len() <= 64
        && !harmless
        && (SECRET_WORDS.iter().any(|word| joined.contains(word)) || SECRET_LAST_WORDS.contains(&last))
}
