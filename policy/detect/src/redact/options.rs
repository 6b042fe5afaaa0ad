//! Options of programs whose names do not say that a secret follows: `mysql -pSECRET`, `curl -u me:SECRET`. `options.tsv`
//! is the kept list: each row has its source and an example, which is its test.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::MASK;
use super::names::is_secret_name;
use super::values::{is_digest, is_harmless, is_plain_flag, is_public};

/// Where the secret stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Behind the flag: the next word, or the rest of this one (`-p X`, `-pX`, `--pass=X`).
    Next,
    /// In the same word only: `-pX`. As a word of its own the flag asks for the secret.
    Glued,
    /// As `Next`, behind the user's name and this character.
    Pair(char),
    /// As `Next`, where it is an assignment: else it names a file.
    Assignment,
    /// The so many words behind this one are no flags, and the last of them is the secret.
    Behind(usize),
    /// In any word that is no flag: `user/SECRET@host`.
    Login,
}

/// Options of some programs: a line of the list.
struct Rule {
    programs: &'static str,
    flags: &'static str,
    shape: Shape,
}

/// Every rule there is.
static RULES: LazyLock<Vec<Rule>> =
    LazyLock::new(|| include_str!("options.tsv").lines().filter_map(Rule::read).collect());

/// The programs that they are of.
static PROGRAMS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let named = RULES.iter().flat_map(|rule| rule.names().map(|(name, _)| name));
    named.chain(RUNNERS).chain(["git"]).collect()
});

/// What is to be done with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No option rules it: its own form decides.
    Open,
    /// It is no secret, whatever its form.
    Public,
    /// This stands in its place.
    Masked(String),
}

/// In place of programs: all of them.
const ANY: &str = "*";
/// Programs that run others as a user of theirs, given as `user:group`.
const RUNNERS: [&str; 10] = [
    "docker",
    "docker-compose",
    "podman",
    "nerdctl",
    "systemd-run",
    "setpriv",
    "chown",
    "gosu",
    "su-exec",
    "install",
];
/// Programs whose names are words of other command lines.
const WORDS: [&str; 10] = ["net", "mail", "security", "install", "http", "https", "op", "mc", "snow", "java"];
/// Options behind which a name stands that is no program.
const NAMING: [&str; 8] =
    ["--name", "--hostname", "-h", "--host", "--network", "--net", "--container-name", "--service"];
/// Words behind which the name of a setting stands, and then its value.
const SETTERS: [&str; 9] =
    ["set", "setx", "config", "configure", "setenv", "--setenv", "-H", "--header", "--headers"];
/// Words that say what is done with what they name, which stands behind them: `kubectl config set-credentials NAME`.
const VERBS: [&str; 6] = ["set-", "get-", "delete-", "unset-", "use-", "rename-"];
/// Words and options behind which a hash of a commit, or of content, stands.
const HASHES: [&str; 16] = [
    "--rev",
    "--revision",
    "--commit",
    "--sha",
    "--sha1",
    "--sha256",
    "--sha512",
    "--ref",
    "--digest",
    "--checksum",
    "--hash",
    "--tree",
    "--image-id",
    "-b",
    "--branch",
    "--tag",
];

/// Programs that run the command behind their own options, and the options that the next word is a value of.
const WRAPPERS: [(&str, &[&str]); 1] = [("sshpass", &["-f", "-d", "-p", "-P"])];

/// Whether the command of another program begins at `word`, behind the options of `program`.
fn begins_command(program: &str, before: &str, word: &str) -> bool {
    let is_own = |values: &[&str]| word.starts_with('-') || values.contains(&before);
    before == "--" || WRAPPERS.iter().any(|(name, values)| *name == program && !is_own(values))
}

/// Judges the words of one command, by the options of its programs.
pub(super) fn judge(words: &[&str]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Open; words.len()];
    let mut program = ("", 0);
    let mut rules = rules_of("");
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| words.get(before)).copied().unwrap_or_default();
        let is_first = ["", "sudo", "exec", "env"].contains(&before) || word.contains('/');
        let is_named = |name: &&str| !NAMING.contains(&before) && (is_first || !WORDS.contains(name));
        if let Some(name) = program_name(word).filter(is_named) {
            program = (name, at);
            rules = rules_of(name);
        } else if begins_command(program.0, before, word) {
            program = ("", at);
            rules = rules_of("");
        }
        if is_hash(word) && (program.0 == "git" || HASHES.contains(&before)) {
            set(&mut verdicts, at, Verdict::Public);
        }
        // The name of a secret, and not what it says (AWS CLI reference, secretsmanager).
        if before == "--secret-id" && of_secrets_manager(words.get(..at).unwrap_or_default()) {
            set(&mut verdicts, at, Verdict::Public);
        }
        // `config set NAME VALUE`, `set -gx NAME VALUE`, `-H NAME VALUE`.
        let front = words.get(..at).unwrap_or_default().iter().rev();
        let is_fish =
            before.starts_with('-') && front.copied().find(|word| !word.starts_with('-')) == Some("set");
        let is_setter = is_fish || SETTERS.iter().any(|setter| before.eq_ignore_ascii_case(setter));
        // `kubectl config set-credentials NAME`
        let is_verb = before == "config" && VERBS.iter().any(|verb| word.starts_with(verb));
        let is_header = before.starts_with('-') && word.contains(':');
        let is_other = word.starts_with('-') || word.contains('=') || is_header;
        if is_setter && !is_other && !is_verb && is_secret_name(word, false) {
            let is_value =
                words.get(at + 1).is_some_and(|value| !is_plain_flag(value) && !is_harmless(word, value));
            if is_value {
                set(&mut verdicts, at + 1, Verdict::Masked(MASK.to_owned()));
            }
        }
        let behind = words.get(program.1..at).unwrap_or_default();
        for (rule, _) in rules
            .iter()
            .filter(|(rule, word)| word.is_none_or(|word| rule.flags == word || behind.contains(&word)))
        {
            apply(rule, words, at, program.0, &mut verdicts);
        }
    }
    verdicts
}

/// How many rules there are.
#[cfg(test)]
pub(super) fn rules() -> usize {
    RULES.len()
}

/// Whether a word is a program of the list.
pub(super) fn is_program(word: &str) -> bool {
    program_name(word).is_some()
}

fn program_name(word: &str) -> Option<&str> {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    (!word.starts_with('-') && PROGRAMS.contains(name)).then_some(name)
}

/// The rules for a program, each with the word that has to follow its name.
fn rules_of(program: &str) -> Vec<(&'static Rule, Option<&'static str>)> {
    let of = |rule: &'static Rule| {
        rule.names().find(|(name, _)| [ANY, program].contains(name)).map(|(_, word)| (rule, word))
    };
    RULES.iter().filter_map(of).collect()
}

impl Rule {
    /// Reads a line of the list: programs, flags, shape, source and example. Nothing of a comment.
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (programs, flags, shape) = (columns.next()?, columns.next()?, columns.next()?);
        let (shape, parameter) = shape.split_once(' ').unwrap_or((shape, ""));
        let shape = match shape {
            "next" => Shape::Next,
            "glued" => Shape::Glued,
            "pair" => Shape::Pair(parameter.chars().next()?),
            "assignment" => Shape::Assignment,
            "behind" => Shape::Behind(parameter.parse().ok()?),
            "login" => Shape::Login,
            _ => return None,
        };
        Some(Self { programs, flags, shape })
    }

    /// Its programs, each with the word that has to follow.
    fn names(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        self.programs.split_whitespace().map(|name| match name.split_once('+') {
            Some((name, word)) => (name, Some(word)),
            None => (name, None),
        })
    }
}

fn set(verdicts: &mut [Verdict], at: usize, verdict: Verdict) {
    if let Some(slot) = verdicts.get_mut(at).filter(|slot| **slot == Verdict::Open) {
        *slot = verdict;
    }
}

/// Applies a rule to the word at `at`, and to what it makes of those behind.
fn apply(rule: &Rule, words: &[&str], at: usize, program: &str, verdicts: &mut [Verdict]) {
    let word = words.get(at).copied().unwrap_or_default();
    match rule.shape {
        Shape::Login => {
            if let Some(masked) = login(word) {
                set(verdicts, at, Verdict::Masked(masked));
            }
        }
        Shape::Behind(count) => {
            if rule.flags.split_whitespace().any(|flag| {
                flag == word || flag.strip_suffix('*').is_some_and(|start| word.starts_with(start))
            }) {
                let mut values =
                    words.iter().enumerate().skip(at + 1).filter(|(_, word)| !is_plain_flag(word));
                if let Some((value, _)) =
                    values.nth(count.saturating_sub(1)).filter(|(_, text)| !is_public(text))
                {
                    set(verdicts, value, Verdict::Masked(MASK.to_owned()));
                }
            }
        }
        _ => {
            let flags_in_front = if program == "curl" { curl_flags(word) } else { 0 };
            let (front_of, word) = word.split_at_checked(flags_in_front).unwrap_or(("", word));
            let word = if front_of.is_empty() { Cow::Borrowed(word) } else { Cow::Owned(format!("-{word}")) };
            for flag in rule.flags.split_whitespace() {
                let Some(glued) = word.strip_prefix(flag) else { continue };
                let is_long = flag.len() > 2 && !flag.ends_with([':', '=']);
                let (value, at, front) = match glued.strip_prefix('=') {
                    Some(value) => (value, at, word.len() - value.len()),
                    None if glued.is_empty() && rule.shape != Shape::Glued => {
                        let next = words.get(at + 1).copied().unwrap_or_default();
                        if is_plain_flag(next) {
                            continue;
                        }
                        (next, at + 1, 0)
                    }
                    None if is_long || glued.is_empty() => continue,
                    None => (glued, at, flag.len()),
                };
                if let Some(masked) = rule.masked(value, program) {
                    // Of `-sSuUSER:SECRET`, the flags in front with their dash.
                    let front = match front.checked_sub(1).filter(|_| !front_of.is_empty()) {
                        Some(behind) => front_of.len() + behind,
                        None => front,
                    };
                    let front = words.get(at).and_then(|word| word.get(..front)).unwrap_or_default();
                    set(verdicts, at, Verdict::Masked(format!("{front}{masked}")));
                }
            }
        }
    }
}

/// Whether a command is one of `aws secretsmanager`.
fn of_secrets_manager(front: &[&str]) -> bool {
    let program = front.iter().position(|word| word.rsplit('/').next() == Some("aws"));
    program.is_some_and(|at| at < 2 && front.get(at..).unwrap_or_default().contains(&"secretsmanager"))
}

/// How many bytes of a word are a dash and flags of curl(1) without a value, with an option behind them: `-sSu`.
fn curl_flags(word: &str) -> usize {
    const FLAGS: &str = "sSfLkvigjNORaqnIGJlpZ#012346";
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else { return 0 };
    let flags = letters.len() - letters.trim_start_matches(|c| FLAGS.contains(c)).len();
    if flags == 0 || flags == letters.len() { 0 } else { 1 + flags }
}

impl Rule {
    /// What stands in place of a value; nothing where it holds no secret.
    fn masked(&self, value: &str, program: &str) -> Option<String> {
        match self.shape {
            Shape::Pair(separator) => {
                let (user, secret) = value.split_once(separator)?;
                // An address, or a user and a group.
                let is_other = secret.is_empty()
                    || is_public(secret)
                    || secret.starts_with("//")
                    || secret.contains("://")
                    || self.programs == ANY && is_number(user) && is_number(secret)
                    || RUNNERS.contains(&program) && (user == secret || is_number(user) || is_number(secret));
                (!is_other).then(|| format!("{user}{separator}{MASK}"))
            }
            Shape::Assignment => value.contains('=').then(|| MASK.to_owned()),
            _ => (!value.is_empty() && !is_public(value) && !is_ports(value)).then(|| MASK.to_owned()),
        }
    }
}

/// `user/SECRET@host`, or without the host.
fn login(word: &str) -> Option<String> {
    let (user, rest) = word.split_once('/')?;
    let is_user = !user.is_empty() && user.chars().all(|c| c.is_alphanumeric() || "_$#=".contains(c));
    let (secret, host) = rest.rsplit_once('@').map_or((rest, ""), |(secret, host)| (secret, host));
    let at = if host.is_empty() { "" } else { "@" };
    (is_user && !secret.is_empty() && !secret.contains('/')).then(|| format!("{user}/{MASK}{at}{host}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `8080:80`: what `docker run -p` takes.
fn is_ports(text: &str) -> bool {
    text.contains(':') && text.bytes().all(|byte| byte.is_ascii_digit() || b".:".contains(&byte))
}

/// A digest, or one behind the name of its algorithm (`sha256:…`).
fn is_hash(text: &str) -> bool {
    is_digest(text.rsplit(':').next().unwrap_or(text))
}
