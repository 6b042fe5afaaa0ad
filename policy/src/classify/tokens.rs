//! Descriptions as sentences, and sentences as words.

use super::MAX_WORD;

/// Most words of one sentence: what follows is another one.
const MAX_SENTENCE: usize = 256;

/// A word of a sentence, or what parts words in it.
#[derive(Debug)]
pub(super) enum Token {
    Word {
        text: String,
        is_joined: bool,
    },
    /// `delete_page`: the name of something.
    Name,
    Comma,
}

impl Token {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Word { text, .. } => text,
            Self::Name => "_",
            Self::Comma => ",",
        }
    }
}

/// Every sentence, as its words in lower case, and whether it stands behind the colon or dash of the one in front. Names such as
/// `delete_page` are one word.
pub(super) fn for_each_sentence(text: &str, mut each: impl FnMut(&[Token], bool)) {
    let mut tokens: Vec<Token> = Vec::new();
    let mut chars = text.char_indices().peekable();
    let mut is_behind = false;
    let mut end = |tokens: &mut Vec<Token>, by: char| {
        if !tokens.is_empty() {
            each(tokens, is_behind);
            tokens.clear();
            is_behind = matches!(by, ':' | '-' | '\u{2013}' | '\u{2014}');
        }
    };
    while let Some(&(from, c)) = chars.peek() {
        if is_in_word(c) {
            let mut to = from;
            while let Some((at, c)) = chars.next_if(|(_, c)| is_in_word(*c)) {
                to = at + c.len_utf8();
            }
            let hyphen = |c: Option<char>| c == Some('-');
            let is_joined = hyphen(text[..from].chars().next_back()) || hyphen(text[to..].chars().next());
            push(&mut tokens, &text[from..to], is_joined);
            if tokens.len() >= MAX_SENTENCE {
                end(&mut tokens, ' ');
            }
            continue;
        }
        chars.next();
        let next = chars.peek().map(|(_, c)| *c);
        let is_spaced = next.is_none_or(char::is_whitespace);
        match c {
            ';' | '!' | '?' | '\u{2022}' | '\u{2013}' | '\u{2014}' => end(&mut tokens, c),
            '.' | ':' if is_spaced => end(&mut tokens, c),
            '-' | '*' if is_spaced => end(&mut tokens, c),
            // A line that is broken goes on; an empty one ends what stood in front.
            '\n' if next.is_none_or(|c| matches!(c, '\n' | '\r')) => end(&mut tokens, c),
            ',' | '(' | ')' | '/' | '&' | '|' | '+' => tokens.push(Token::Comma),
            _ => {}
        }
    }
    end(&mut tokens, ' ');
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn push(tokens: &mut Vec<Token>, word: &str, is_joined: bool) {
    let is_hump =
        || word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    if word.contains('_') || is_hump() {
        tokens.push(Token::Name);
    } else if word.len() <= MAX_WORD {
        tokens.push(Token::Word { text: word.to_lowercase(), is_joined });
    } else {
        tokens.push(Token::Word { text: String::new(), is_joined });
    }
}
