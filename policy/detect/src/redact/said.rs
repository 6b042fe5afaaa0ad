//! What a word behind the name of a secret is: one of the sentence, a place, or a value.

/// Words of sentences that stand where a value could: pronouns, prepositions, what is required or done with a secret, and what
/// orders begin with.
const WORDS: &str = "a an and any are as at be been before below but by can cannot check either else empty for from generated has \
    have he here hidden how i if in into is it its itself just must my needed never no nor not of off on once one only optional or \
    our out over per please same secret set shall she should so some somewhere still such than that the their them then there \
    these they this those to too under until up upon us used using very via was we were what when where which while who why will \
    with without would you your yours \
    absent empty expired forbidden incorrect invalid mandatory missing required unset always already also available both called \
    currently encrypted hashed stored leaked lost masked redacted revoked rotated provided given sent shown kept case non value \
    pairs name sort field string str int integer number bool boolean object array dict bytes any none null strict \
    access act add admin all answer append ask avoid begin call change click close collect contact continue copy create delete disable \
    disregard do don't download enable ensure enter execute fetch fill find first follow forget forward get give go grant ignore \
    include insert instead keep leave let list log login look make manager message next note obtain open override paste policy post \
    prompt provide put read refer remove repeat replace reply report request reset respond return reveal rotate run save say search \
    see select send share show sign start stop store submit take tell transfer type update upload use user users verify visit wait \
    write \
    ask siehe bitte der die das dem den und nicht ein eine wird muss le la les un une et pas voir el los las y no ver il lo una non \
    vedi см не и в на";
/// Words that say how a secret is, which are values behind a sign.
const QUALITIES: &str = "bad correct default different fine good important known long new ok okay old plain private public random \
    ready right safe secure sensitive short strong temporary unique unknown valid weak wrong \
    falsch ungültig gültig abgelaufen erforderlich richtig zu geheim verkeerd ongeldig verplicht incorrect incorrecte invalide obligatoire \
    requis requise expiré expirée faux incorrecta incorrecto inválida inválido obligatoria obligatorio correcta correcto vencida errada \
    obrigatória obrigatório incorreta expirada scaduta errata sbagliata obbligatoria valida corretta fel felaktigt forkert feil \
    nieprawidłowe wymagane неверный неверен обязателен";
/// Ends of words that say how something is.
const ENDS: [&str; 10] = ["ed", "ing", "able", "ible", "less", "ful", "ous", "ive", "ary", "ory"];

/// Shortest value that is known as one with nothing between it and the name, in bytes.
const MIN_BARE: usize = 8;

/// Whether a text is a word of a sentence and no value; with `loose`, also any that ends as adjectives do.
pub(super) fn is_sentence(text: &str, loose: bool) -> bool {
    let lower = text.to_lowercase();
    let parts: Vec<&str> = lower.split('-').collect();
    let is_word = |word: &str| {
        WORDS.split_whitespace().any(|one| one == word)
            || loose && QUALITIES.split_whitespace().any(|one| one == word)
            || loose && word.len() > 5 && ENDS.iter().any(|end| word.ends_with(end))
    };
    let is_plain = lower.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\''));
    let (Some(last), true) = (parts.last(), is_plain) else { return false };
    // `case-sensitive`, `up-to-date`: not `correct-horse-battery`.
    let first = parts.get(..parts.len() - 1).unwrap_or_default();
    is_word(last) && (first.is_empty() || parts.len() == 2 && loose || first.iter().all(|part| is_word(part)))
}

/// A place, and not what is there: a path or an address, which is masked as addresses are.
pub(super) fn is_place(text: &str) -> bool {
    ["/", "~/", "./", "../", "$"].iter().any(|begin| text.starts_with(begin)) || text.contains("://")
}

/// Whether a word behind a name is a value without anything that says so: letters and digits, or three words in one.
pub(super) fn is_bare(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['/', '(', '<', '=', ':']);
    let parts: Vec<&str> = text.split('-').collect();
    let is_phrase = parts.len() > 2
        && parts.iter().all(|part| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && !parts.last().is_some_and(|part| is_sentence(part, true));
    text.len() >= MIN_BARE
        && is_plain
        && (is_phrase || has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit))
}
