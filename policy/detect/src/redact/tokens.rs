//! Secrets that are known by their own form. `tokens.tsv` is the kept list of their beginnings: each row has its source, and
//! a test that redacts one like it.

use std::sync::LazyLock;

/// A beginning of secrets: a line of the list.
pub(super) struct Token {
    pub(super) prefix: &'static str,
    /// How many letters, digits, `-`, `_` and `.` follow at least: what is shorter is a name.
    pub(super) least: usize,
}

/// Every beginning there is.
pub(super) static TOKENS: LazyLock<Vec<Token>> =
    LazyLock::new(|| include_str!("tokens.tsv").lines().filter_map(Token::read).collect());

impl Token {
    /// Reads a line of the list: beginning, length and source. Nothing of a comment.
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (prefix, least) = (columns.next()?, columns.next()?);
        Some(Self { prefix, least: least.parse().ok()? })
    }
}

/// Shortest word that can look random.
const RANDOM_BYTES: usize = 20;

/// Whether a text begins with a secret of a known form.
pub(super) fn is_known_secret(text: &str) -> bool {
    TOKENS.iter().any(|token| {
        text.strip_prefix(token.prefix).is_some_and(|rest| token.least == 0 || is_body(rest, token.least))
    }) || is_bot_token(text)
}

/// Whether so many characters of a token follow, and not of words: with a digit in them, or in both cases.
fn is_body(rest: &str, least: usize) -> bool {
    let body = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let (mut length, mut digit, mut lower, mut upper) = (0, false, false, false);
    for byte in body {
        length += 1;
        digit |= byte.is_ascii_digit();
        lower |= byte.is_ascii_lowercase();
        upper |= byte.is_ascii_uppercase();
    }
    length >= least && (digit || lower && upper)
}

/// `123456789:AA…`, as Telegram has them (Bot API, authorizing your bot), in an address behind `bot`.
fn is_bot_token(text: &str) -> bool {
    let (text, least) = text.strip_prefix("bot").map_or((text, 24), |text| (text, 4));
    text.split_once(':').is_some_and(|(id, rest)| {
        (6..=12).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit()) && is_body(rest, least)
    })
}

/// Whether a word looks like nothing that a person would write: letters of both cases with digits, or letters
/// with digits and not so much as a dash.
pub(super) fn is_random(word: &str) -> bool {
    let has = |part: &str, is: fn(&u8) -> bool| part.as_bytes().iter().any(is);
    let mixed = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && has(word, u8::is_ascii_digit)
        && has(word, u8::is_ascii_lowercase)
        && has(word, u8::is_ascii_uppercase);
    let solid = |part: &str| {
        part.len() >= RANDOM_BYTES && has(part, u8::is_ascii_digit) && has(part, u8::is_ascii_alphabetic)
    };
    word.len() >= RANDOM_BYTES
        && (mixed || word.split(|c| !char::is_ascii_alphanumeric(&c)).any(solid))
        && !is_compound(word)
}

/// Shortest word that makes a name one of words, in letters: random text has shorter ones, too.
const WORD_LETTERS: usize = 4;

/// Most numbers in such a name: `Log4j2…`.
const MAX_NUMBERS: usize = 2;

/// `WeatherServerApplication2`: the name of a class, most of which is words that begin with a capital.
fn is_compound(name: &str) -> bool {
    let is_start = |at: &usize| name.as_bytes().get(*at).is_some_and(|byte| !byte.is_ascii_lowercase());
    let starts = (1..name.len()).filter(is_start).chain([name.len()]);
    let (mut from, mut words, mut letters) = (0, 0, 0);
    for to in starts {
        let part = name.get(from..to).unwrap_or_default();
        let is_word = part.len() >= WORD_LETTERS
            && part.bytes().all(|byte| byte.is_ascii_alphabetic())
            && part.to_ascii_lowercase().contains(['a', 'e', 'i', 'o', 'u', 'y']);
        if is_word {
            words += 1;
            letters += part.len();
        }
        from = to;
    }
    let is_digit = |c: char| c.is_ascii_digit();
    let numbers = name.split(|c| !is_digit(c)).filter(|digits| !digits.is_empty()).count();
    words > 1 && numbers <= MAX_NUMBERS && 5 * letters >= 3 * name.len()
}
