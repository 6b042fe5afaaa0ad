//! Names of secrets: of options, variables, members, headers and parameters. `names.tsv` is the
//! kept list: each row has its source, and a test redacts a value behind each of its words.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;

/// Longest name that is judged, in bytes; what is longer is no name.
const MAX_NAME_BYTES: usize = 128;

/// Where a word has to stand in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Anywhere in the name without its separators: `--x-api-key`, `MYSQLPASSWORD`.
    Anywhere,
    /// One of the name's words: `--db-pw`, `PSK_OLD`.
    Word,
    /// The name's last word: `--so-pin`.
    Last,
    /// The end of the name's last word: `--license-key`, `storepass`.
    End,
    /// The last word of the name of a parameter of an address: `?code=`.
    Parameter,
}

/// Words that make a name one of a secret: a line of the list.
pub(super) struct Names {
    pub(super) at: At,
    /// Whether they do in text of any kind; else only where what stands behind a name is a value.
    plain: bool,
    /// In the form of [`folded`].
    pub(super) words: Vec<&'static str>,
}

/// Every name there is.
pub(super) static NAMES: LazyLock<Vec<Names>> =
    LazyLock::new(|| include_str!("names.tsv").lines().filter_map(Names::read).collect());

impl Names {
    /// Reads a line of the list: where, words and source. Nothing of a comment.
    fn read(line: &'static str) -> Option<Self> {
        let (at, rest) = line.split_once('\t')?;
        let plain = at.strip_prefix("plain ");
        let at = match plain.unwrap_or(at) {
            "anywhere" => At::Anywhere,
            "word" => At::Word,
            "last" => At::Last,
            "end" => At::End,
            "parameter" => At::Parameter,
            _ => return None,
        };
        let words = rest.split('\t').next()?.split(' ').collect();
        Some(Self { at, plain: plain.is_some(), words })
    }
}

/// Phrases that are no names of secrets, each as its words: `public.tsv`.
pub(super) static PUBLIC: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let rows = include_str!("public.tsv").lines().filter(|line| !line.starts_with('#'));
    let phrases = rows.filter_map(|line| line.split('\t').next()).flat_map(|phrases| phrases.split(','));
    phrases.map(|phrase| phrase.split(' ').map(folded).collect()).collect()
});

/// Names, or last words of them, that hold no secret although a word of the list is in them: keywords in other
/// languages, public keys, words that end as secrets do.
const HARMLESS: &str = "oauth author authors coauthor coauthors authority secretary monkey donkey turkey whiskey hockey jockey \
    hotkey pubkey publickey sortkey partitionkey primarykey foreignkey hostkey cachekey bypass compass encompass trespass \
    surpass overpass underpass lowpass highpass bandpass allpass tokenizer tokenizers tokenize tokenization tokeniser \
    motcle motscles motclef motsclefs palabraclave palabrasclave palavrachave palavraschave parolachiave parolechiave";
/// What the last word of a name says of it: this is a number, a place or a kind, and not the secret itself.
const QUALIFIERS: &str = "limit limits count file files path dir directory folder size bits bytes length len ttl expiry expires \
    expiration lifetime timeout window budget type mode url uri endpoint name names format field column algorithm alg provider \
    method methods helper style host port backend manager browser rules env var version required enabled disabled user \
    stdin username header headers policy policies store stores storage source sources realm scope scopes audience domain issuer cost rate price bindings binding max min";
/// What makes tokens an amount, wherever it stands in the name.
const AMOUNTS: &str = "max min num total limit count";
/// Kinds of keys that are no secrets: `--sort-key`.
const PUBLIC_KEYS: &str = "partition sort primary foreign public pub row range hash shard routing group cache index cluster \
    dedupe dedup idempotency map object lookup join merge unique natural composite candidate hot arrow order label dict json \
    i18n translation metric tag project space host s3 any";

/// Whether an option, variable, member or header of this name holds a secret; in prose, fewer words say so.
pub(crate) fn is_secret_name(name: &str, prose: bool) -> bool {
    judge(name, prose, false)
}

/// The same for a parameter of an address, where more names do.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    judge(name, false, true)
}

/// Whether a name says of something what kind or where it is: `type`, `tokenUrl`, `minLength`.
pub(super) fn is_qualified(name: &str) -> bool {
    words(name).last().is_some_and(|last| QUALIFIERS.split_whitespace().any(|one| one == last))
}

/// Whether several words together end with the name of a secret that is none of one word: `mot de passe`.
pub(super) fn is_secret_phrase(phrase: &str) -> bool {
    let words = words(phrase);
    let (joined, last) = (words.concat(), words.last().map_or(0, String::len));
    let of_words = NAMES.iter().filter(|row| row.at == At::Anywhere).flat_map(|row| &row.words);
    of_words.into_iter().any(|name| name.len() > last && joined.ends_with(name))
}

fn judge(name: &str, prose: bool, parameter: bool) -> bool {
    if name.len() > MAX_NAME_BYTES {
        return false;
    }
    let words = without_public(words(name));
    let joined = words.concat();
    let Some(last) = words.last() else { return false };
    let holds = |row: &Names| {
        row.words.iter().any(|word| match row.at {
            At::Anywhere => joined.contains(word),
            At::Word => words.iter().any(|one| one == word),
            At::Last => last == word || joined == *word,
            At::End => last.ends_with(word),
            At::Parameter => parameter && last == word,
        })
    };
    if !NAMES.iter().filter(|row| row.plain || !prose).any(holds) {
        return false;
    }
    let is = |list: &str, word: &str| list.split_whitespace().any(|one| one == word);
    let is_public_key = last == "key" && words.iter().nth_back(1).is_some_and(|kind| is(PUBLIC_KEYS, kind));
    let is_tokens = |word: &String| ["tokens", "jetons"].contains(&word.as_str());
    let is_amount = is_tokens(last) && words.iter().any(|word| is(AMOUNTS, word))
        // `--tokens-per-minute`
        || words.windows(2).any(|pair| matches!(pair, [tokens, per] if is_tokens(tokens) && per == "per"));
    // `--authfile`, `MAXTOKENS`.
    let is_joined = ["limit", "count", "file", "path", "dir", "authtype", "authmode"]
        .iter()
        .any(|end| joined.ends_with(end))
        || joined.starts_with("max") && joined.ends_with("tokens");
    !(is_public_key
        || is_amount
        || is_joined
        || is(HARMLESS, &joined)
        || is(HARMLESS, last)
        || is(QUALIFIERS, last))
}

/// Words without the phrases among them that are no names of secrets.
fn without_public(mut words: Vec<String>) -> Vec<String> {
    // Most names are of words that no phrase has.
    if words.iter().all(|word| word.is_ascii()) && words.len() < 2 && words.iter().all(|word| word.len() < 8)
    {
        return words;
    }
    for phrase in PUBLIC.iter() {
        let is_it = |window: &[String]| match phrase.as_slice() {
            [one] => window.iter().all(|word| word.ends_with(one.as_str())),
            _ => window == phrase.as_slice(),
        };
        while let Some(at) = words.windows(phrase.len()).position(is_it) {
            words.drain(at..at + phrase.len());
        }
    }
    words
}

/// The words of a name, in the form of [`folded`]: `--dbPassword2` is `db`, `password`.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(name.len() + 8);
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(character) = letters.next() {
        // `oauth2Bearer`, and not `2FA`
        let behind_number = before.is_ascii_digit() && letters.peek().is_some_and(|next| next.is_lowercase());
        if character.is_uppercase() && (before.is_lowercase() || behind_number) {
            spaced.push(' ');
        }
        spaced.push(character);
        before = character;
    }
    let is_break = |c: char| c.is_whitespace() || c.is_ascii_punctuation() && c != '\'';
    folded(&spaced)
        .split(is_break)
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Lower case, compatibility form, without accents of Latin letters and without characters that have no shape.
fn folded(text: &str) -> String {
    let is_accent = |c: &char| ('\u{300}'..='\u{36f}').contains(c);
    let is_shapeless = |c: &char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    text.to_lowercase().nfkd().filter(|c| !is_accent(c) && !is_shapeless(c)).nfc().collect()
}
