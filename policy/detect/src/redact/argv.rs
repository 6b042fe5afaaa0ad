//! Command lines without what looks like a secret.
//!
//! A word is judged by the option or the place that it stands behind (`mysql -pSECRET`), by its name (`--token`,
//! `GITHUB_TOKEN=`, `"apiKey":`, `Authorization:`), by where it stands (the password of a URL), and by itself (`ghp_…`,
//! twenty random letters and digits). In doubt it is masked: a harmless word that is missing does less harm than a secret
//! in a log.

use super::mask::Masking;
use super::names::is_secret_name;
use super::options::{Verdict, is_program, judge};
use super::pem::without_private_keys;
use super::tokens::is_known_secret;
use super::values::{is_credential, is_harmless, is_plain_flag, is_scheme, is_way};
use super::{MASK, shell};

/// Most arguments kept; the rest is counted in one more.
const MAX_ARGS: usize = 64;
/// Longest argument kept, in bytes.
const MAX_ARG_BYTES: usize = 1_024;
/// How much of an argument is looked at, in bytes: what is kept of it comes from there, unless secrets fill it.
const MAX_READ_BYTES: usize = 4 * 1_024;
/// Words that some write between a flag and its value.
const SEPARATORS: [&str; 5] = ["=", ":", ":=", "=>", "--"];
/// How often a shell's line may stand in another one: deeper ones are words.
const MAX_LINES: usize = 3;

/// A command line for an event: bounded, and with what looks like a secret replaced by `***`.
///
/// Masked are the value of a flag (`--token X`, `--api-key=X`) or of an assignment (`GITHUB_TOKEN=X`, also behind
/// `-e`) whose name is one of a secret (`names.tsv`, in many languages); what known programs take as one (`options.tsv`:
/// `mysql -pX`, `curl -u user:X`, `sqlplus user/X@host`); the same in JSON, in headers (`Authorization: X`) and in the
/// command line of a shell; in addresses the password, with and without a scheme, like-named parameters, a random part of
/// the path and what follows `hooks`; private keys; and words that start like a well-known kind of secret (`tokens.tsv`)
/// or look random. A value behind a flag may begin with a dash, unless it is plainly the next flag: `-x`, `--lower-case`.
/// A value that names where the secret is (`${NAME}`, a file of keys) stays. Not found is a secret of letters alone
/// behind a name that says nothing (`-t hunter`). At most 64 arguments of 1,024 bytes are kept.
pub fn redact_argv(argv: &[String]) -> Vec<String> {
    let words: Vec<&str> = argv.iter().take(MAX_ARGS).map(String::as_str).collect();
    let mut kept = Vec::with_capacity(words.len() + 1);
    let mut before = "";
    let mut name = None;
    for (at, (arg, verdict)) in words.iter().zip(judge(&words)).enumerate() {
        // `--token = abc`, `--token -- abc`
        if name.is_some() && SEPARATORS.contains(arg) {
            kept.push((*arg).to_owned());
            continue;
        }
        let masked = match name {
            Some(name) if is_way(name, arg) => (*arg).to_owned(),
            Some("--secret-id") if verdict == Verdict::Public => redact_arg(&[], arg),
            Some(name) if !is_plain_flag(arg) && !is_harmless(name, arg) => MASK.to_owned(),
            _ => match verdict {
                Verdict::Masked(masked) => masked,
                Verdict::Public => (*arg).to_owned(),
                Verdict::Open => redact_arg(words.get(..at).unwrap_or_default(), arg),
            },
        };
        // `Authorization: Bearer abc` as three arguments.
        let is_first = is_scheme(arg) && !(before.starts_with('-') && before.contains("auth"))
            || name.is_some_and(|name| name.ends_with(':')) && is_credential(arg);
        name = (is_first || masked == *arg && announces(arg)).then_some(*arg);
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

/// Whether an object key is itself a secret of a known kind. Keys that look random are names of programs as often.
pub(crate) fn is_secret_key(key: &str) -> bool {
    // Shorter ones are names.
    key.len() >= 16 && is_known_secret(key)
}

/// Whether the argument behind this one is a secret.
fn announces(arg: &str) -> bool {
    let is_secret_name = |name: &str| is_secret_name(name, false);
    arg.strip_suffix([':', '：']).is_some_and(is_secret_name)
        || arg.starts_with('-') && !arg.contains(['=', '＝']) && is_secret_name(arg)
}

/// An argument, with those in front of it.
fn redact_arg(front: &[&str], arg: &str) -> String {
    let arg = without_private_keys(arg.get(..arg.floor_char_boundary(MAX_READ_BYTES)).unwrap_or(arg));
    let before = front.last().copied().unwrap_or_default();
    if is_shell_line(before, &arg, front.is_empty()) || takes_line(front, &arg) {
        return Masking::line(&shell_line(&arg, 0), has_no_secret).run();
    }
    Masking::new(&arg, false).run()
}

/// A shell's line without the secrets that stand behind the options of its programs. What is not looked at is cut off.
fn shell_line(line: &str, depth: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let mut copied = 0;
    let (commands, end) = shell::commands(line);
    // What ends the text of a here-document that is a secret.
    let mut document: Option<String> = None;
    for (at, command) in commands.iter().enumerate() {
        let texts: Vec<&str> = command.iter().map(|word| word.text.as_str()).collect();
        let is_read = commands.get(at + 1).is_some_and(|next| reads_secret(next));
        let is_value =
            at.checked_sub(1).and_then(|at| commands.get(at)).is_some_and(|before| takes_output(before));
        let is_input = writes(&texts) && (is_read || is_value);
        let takes = is_value || is_read || reads_secret(command);
        let is_text = document.as_ref().is_some_and(|end| !texts.contains(&end.as_str()));
        document = document
            .filter(|_| is_text)
            .or_else(|| texts.iter().find_map(|word| document_end(word)).filter(|_| takes));
        let mut before = "";
        for (index, (word, verdict)) in command.iter().zip(judge(&texts)).enumerate() {
            let is_input =
                is_text || is_input && index > 0 && !is_plain_flag(&word.text) || before == "<<<" && takes;
            let glued = word.text.strip_prefix("<<<").is_some_and(|text| !text.is_empty()) && takes;
            let instead = match verdict {
                _ if is_input => Some(MASK.to_owned()),
                _ if glued => Some(format!("<<<{MASK}")),
                Verdict::Masked(masked) => Some(masked),
                _ if depth < MAX_LINES && is_shell_line(before, &word.text, false) => {
                    let inner = Masking::line(&shell_line(&word.text, depth + 1), has_no_secret).run();
                    Some(inner).filter(|inner| *inner != word.text)
                }
                _ => None,
            };
            if let Some(instead) = instead {
                out.push_str(line.get(copied..word.range.start).unwrap_or_default());
                out.push_str(&shell::quoted(&instead));
                copied = word.range.end;
            }
            before = &word.text;
        }
    }
    out.push_str(line.get(copied..end).unwrap_or_default());
    out
}

/// `<<EOF`: what ends the text that stands on the next lines.
fn document_end(word: &str) -> Option<String> {
    let end = word.strip_prefix("<<").filter(|end| !end.starts_with('<'))?;
    let end = end.strip_prefix('-').unwrap_or(end);
    (!end.is_empty()).then(|| end.to_owned())
}

/// Whether a shell's line is one without a secret, nor one that writes words of its own: what it prints is elsewhere.
fn has_no_secret(line: &str) -> bool {
    let (commands, end) = shell::commands(line);
    let says = |command: &Vec<shell::Word>| {
        let texts: Vec<&str> = command.iter().map(|word| word.text.as_str()).collect();
        writes(&texts) || texts.iter().any(|text| text.starts_with("<<"))
    };
    end == line.len() && !commands.iter().any(says) && shell_line(line, MAX_LINES) == line
}

/// `echo SECRET | docker login --password-stdin`: whether a command writes its words.
fn writes(words: &[&str]) -> bool {
    matches!(words, ["echo" | "printf" | "yes", ..])
}

/// `--token $(echo SECRET)`, `TOKEN=$(printf SECRET)`, and with backquotes: whether what the next command writes is the secret of this one.
fn takes_output(command: &[shell::Word]) -> bool {
    let mut words = command.iter().rev().map(|word| word.text.as_str());
    let last = words.next().unwrap_or_default();
    match last.strip_suffix('$').unwrap_or(last) {
        "" => words.next().is_some_and(announces),
        // `read TOKEN < <(echo SECRET)`
        "<" => reads_named(command),
        word => match word.strip_suffix('=') {
            Some(name) => is_secret_name(name, false),
            None => announces(word),
        },
    }
}

/// Whether a command reads a secret from its input: sudo(8) -S, docker login(1), gpg(1), chpasswd(8), gh auth login; su(1), kinit(1),
/// kpasswd(1), cryptsetup(8), smbpasswd(8), secret-tool(1), pass(1); or into a variable of such a name.
fn reads_secret(command: &[shell::Word]) -> bool {
    const OPTIONS: [&str; 10] = [
        "-S",
        "--password-stdin",
        "--passphrase-fd",
        "--with-token",
        "--stdin",
        "--passwd-on-stdin",
        "stdin",
        "chpasswd",
        "passwd",
        "--key-file=-",
    ];
    const PROGRAMS: [&str; 7] = ["su", "kinit", "kpasswd", "cryptsetup", "smbpasswd", "secret-tool", "pass"];
    let mut words = command.iter().map(|word| word.text.as_str());
    let is_front = |word: &&str| ["sudo", "exec", "env", "command"].contains(word) || word.contains('=');
    words.clone().any(|word| OPTIONS.contains(&word))
        || words
            .find(|word| !is_front(word))
            .is_some_and(|program| PROGRAMS.contains(&program.rsplit('/').next().unwrap_or(program)))
        || reads_named(command)
}

/// `read -r TOKEN`: whether a command reads its input into a variable with the name of a secret.
fn reads_named(command: &[shell::Word]) -> bool {
    let mut words = command.iter().map(|word| word.text.as_str()).skip_while(|word| word.contains('='));
    matches!(words.next(), Some("read" | "mapfile" | "readarray"))
        && words.take_while(|word| !word.starts_with('<')).any(|word| is_secret_name(word, false))
}

fn cut(mut arg: String) -> String {
    if arg.len() > MAX_ARG_BYTES {
        let end = (0..=MAX_ARG_BYTES).rev().find(|at| arg.is_char_boundary(*at)).unwrap_or(0);
        arg.truncate(end);
        arg.push('…');
    }
    arg
}

/// Programs that take a command line as one argument, wherever it stands: ssh(1), mosh(1), watch(1), tmux(1), screen(1),
/// script(1), flock(1), sops(1), wsl.exe, concurrently, nodemon.
const TAKERS: [&str; 12] = [
    "ssh",
    "autossh",
    "mosh",
    "watch",
    "tmux",
    "screen",
    "script",
    "flock",
    "sops",
    "wsl",
    "concurrently",
    "nodemon",
];
/// Options that a command line stands behind, whichever program they are of: nix-shell(1), npm-exec(1), gcloud compute ssh,
/// PowerShell, cmd.exe, gateways of MCP servers.
const LINE_OPTIONS: [&str; 11] = [
    "--run",
    "--command",
    "-Command",
    "--call",
    "--exec",
    "--cmd",
    "--stdio",
    "--stdioCmd",
    "/c",
    "/C",
    "/k",
];

/// Whether an argument of several words is a command line, by the words in front of it: `ssh host "X=1 npx y"`, `env -S "X=1 y"`.
fn takes_line(front: &[&str], arg: &str) -> bool {
    let is_of = |names: &[&str]| {
        front.iter().any(|word| {
            let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
            names.contains(&name.strip_suffix(".exe").unwrap_or(name))
        })
    };
    let before = front.last().copied().unwrap_or_default();
    let is_split = |word: &str| {
        word.starts_with("--split-string")
            || word.starts_with('-') && !word.starts_with("--") && word.contains('S')
    };
    arg.contains(' ')
        && (LINE_OPTIONS.contains(&before)
            || is_of(&TAKERS)
            || (is_split(before) || is_split(arg)) && is_of(&["env"]))
}

/// Whether an argument is a command line by itself: behind `sh -c`, `bash -lc`, `npx -c`; a process's title; or a command
/// of a known program in one argument, as `ssh host` and `watch` take it.
fn is_shell_line(before: &str, arg: &str, first: bool) -> bool {
    let flags = before.strip_prefix('-').and_then(|flags| flags.strip_suffix('c'));
    first && arg.contains(' ')
        || flags.is_some_and(|flags| flags.bytes().all(|byte| byte.is_ascii_lowercase()))
        || arg
            .split_once(' ')
            .is_some_and(|(program, rest)| is_program(program) && rest.contains(['-', '/', ':']))
}
