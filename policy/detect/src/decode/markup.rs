//! Emphasis and inline tags, which a reader does not read: `Do **not** tell`, `ig<b>nore</b>`.

use std::ops::Range;

use memchr::{memchr2, memchr3_iter, memmem};

use super::super::view::Mapped;

/// Words of orders that rules look for: where one of them is emphasised, the phrase around it is broken. Not those that
/// manuals emphasise all the time.
const EMPHASISED: &[&str] = &[
    "disregard",
    "forget",
    "ignore",
    "immediately",
    "must",
    "never",
    "not",
    "previous",
    "prior",
    "secretly",
    "silently",
    "tell",
];
/// What a word may end with. None may go on: `**Note**`, `**Priority**`.
const ENDS: &str = " *_<";
/// Tags that change how a text looks and not what it says.
const INLINE: &[&str] = &[
    "a", "b", "big", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "s", "small", "span", "strong",
    "sub", "sup", "tt", "u", "wbr",
];
/// Tags that part words.
const PARTING: &[&str] = &["br", "div", "li", "p"];

/// How a comment begins and ends.
const OPEN: &str = "<!--";
const CLOSE: &str = "-->";
const ODD_CLOSE: &str = "--!>";
/// How far a tag is read in which a value in quotes has `<` or `>`. Bytes.
const QUOTED_BYTES: usize = 256;

/// What shows that something is marked up within a phrase: a word of an order behind emphasis, a tag or a comment.
pub(super) fn signs() -> Vec<String> {
    let mut signs = Vec::new();
    for mark in ["*", "_", "__", ">", "--> "] {
        for word in EMPHASISED {
            signs.extend(ENDS.chars().map(|end| format!("{mark}{word}{end}")));
        }
        signs.push(format!("{mark}do not"));
    }
    signs
}

/// What is done with a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comment {
    /// It is left out: it breaks up the phrase around it.
    LeftOut,
    /// It is read as all else: the order is in it.
    Opened,
}

/// The text without emphasis, inline tags and comments in the paragraphs that show a sign: manuals are full of them.
pub(super) fn unmarked(text: &str) -> Mapped {
    unmark_all(text, Comment::LeftOut, is_telling)
}

/// The same with what is in comments, of the paragraphs with a comment that shows a sign itself.
pub(super) fn opened(text: &str) -> Mapped {
    unmark_all(text, Comment::Opened, |paragraph| {
        let mut rest = paragraph;
        while let Some(open) = rest.find(OPEN) {
            let Some(close) = close(&rest[open..]) else { return false };
            if is_telling(&rest[open..open + close.start]) {
                return true;
            }
            rest = &rest[open + close.end..];
        }
        false
    })
}

fn unmark_all(text: &str, comments: Comment, is_telling: impl Fn(&str) -> bool) -> Mapped {
    let mut mapped = Mapped::with_capacity(text.len());
    let last = last_close(text).unwrap_or_default();
    let mut from = 0;
    while from < text.len() {
        let end = paragraph_end(text, from, last);
        if is_telling(&text[from..end]) {
            unmark(text, from..end, comments, &mut mapped);
        } else {
            mapped.push_str(&text[from..end], from);
        }
        from = end;
    }
    mapped
}

/// Where the paragraph ends that begins at `from`. An empty line in a comment parts nothing. `last`: where the last end of
/// one begins, behind which none is looked for.
fn paragraph_end(text: &str, from: usize, last: usize) -> usize {
    // All before `outside` is no part of a comment.
    let mut outside = from;
    loop {
        let Some(blank) = text[outside..].find("\n\n") else { return text.len() };
        let end = outside + blank + "\n\n".len();
        match closed_behind(&text[outside..end]) {
            Some(open) if outside + open < last => match close(&text[outside + open..]) {
                Some(close) => outside += open + close.end,
                None => return end,
            },
            _ => return end,
        }
    }
}

/// Where the comment begins that is open at the end of `text`.
fn closed_behind(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let open = at + text[at..].find(OPEN)?;
        match close(&text[open..]) {
            Some(close) => at = open + close.end,
            None => return Some(open),
        }
    }
}

/// Where the comment ends with which `text` begins. `<!-->` is one as well, and `--!>` ends one (HTML, 13.2.5.52).
fn close(text: &str) -> Option<Range<usize>> {
    let from = "<!".len();
    let rest = text.get(from..)?;
    // Both at once: one that is rare would be looked for to the end of the text, from each comment on.
    let is_begin = |at: &usize| at.checked_sub(1).is_none_or(|before| rest.as_bytes()[before] != b'-');
    memmem::find_iter(rest.as_bytes(), "--").filter(is_begin).find_map(|dashes| {
        // Of three and more dashes the last two are meant.
        let end = dashes + rest[dashes..].bytes().take_while(|byte| *byte == b'-').count();
        let sign =
            if rest[end..].starts_with('>') { ">" } else { rest[end..].starts_with("!>").then_some("!>")? };
        Some(from + end - "--".len()..from + end + sign.len())
    })
}

/// Where the last end of a comment in `text` begins.
fn last_close(text: &str) -> Option<usize> {
    [CLOSE, ODD_CLOSE].into_iter().filter_map(|close| text.rfind(close)).max()
}

/// Whether a word of an order is emphasised in `text`.
fn is_telling(text: &str) -> bool {
    memchr3_iter(b'*', b'_', b'>', text.as_bytes()).any(|at| {
        let behind = text.as_bytes()[at + 1..].trim_ascii_start();
        let begins = |word: &&&str| {
            behind.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
        };
        let ends = |word: &&str| behind.get(word.len()).is_some_and(|end| ENDS.as_bytes().contains(end));
        EMPHASISED.iter().filter(begins).any(ends) || begins(&&"do not")
    })
}

/// Appends a part of `text` without emphasis, inline tags and comments. In time linear in its length, whatever is in it.
fn unmark(text: &str, part: Range<usize>, comments: Comment, mapped: &mut Mapped) {
    let bytes = text.as_bytes();
    // Behind the last end of a comment none begins that has one.
    let last = last_close(&text[part.clone()]).map_or(part.start, |at| part.start + at);
    let is_letter = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
    };
    let (mut at, mut taken) = (part.start, part.start);
    while at < part.end {
        // Where it goes on, and what is said instead of it; `None`: it stays.
        let (next, instead) = match bytes[at] {
            b'<' if at < last && text[at..].starts_with(OPEN) => match comments {
                Comment::LeftOut => {
                    let end = close(&text[at..part.end]).map_or(at + 1, |close| at + close.end);
                    (end, Some(None))
                }
                Comment::Opened => (at + OPEN.len(), Some(Some(' '))),
            },
            b'<' => match tag(&text[at..part.end]) {
                Some((length, parts)) => (at + length, Some(parts.then_some(' '))),
                None => (at + 1, None),
            },
            mark @ (b'*' | b'_' | b'~' | b'`') => {
                let end = at + bytes[at..part.end].iter().take_while(|byte| **byte == mark).count();
                // At the edge of a word: within one it is part of a name, and between blanks a bullet or a line.
                let edge = is_letter(at.checked_sub(1)) != is_letter(Some(end));
                (end, edge.then_some(None))
            }
            _ => (at + 1, None),
        };
        if let Some(instead) = instead {
            mapped.push_str(&text[taken..at], taken);
            mapped.replace(instead, at);
            taken = next;
        }
        at = next;
    }
    mapped.push_str(&text[taken..part.end], taken);
}

/// How long the tag at the start of `text` is, and whether it parts words.
fn tag(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    // As far as the next tag and no further: whatever many of them are opened, no byte is read twice.
    let mut end = 1 + memchr2(b'<', b'>', &bytes[1..])?;
    let inner = text[1..end].trim_start_matches('/');
    let name = inner.split([' ', '/', '\n', '\t']).next().unwrap_or_default();
    let is_one_of = |tags: &[&str]| tags.iter().any(|tag| tag.eq_ignore_ascii_case(name));
    let parts = is_one_of(PARTING);
    if !parts && !is_one_of(INLINE) {
        return None;
    }
    if memchr2(b'"', b'\'', &bytes[..end]).is_some() {
        end = quoted_end(bytes).unwrap_or(end);
    }
    (bytes[end] == b'>').then_some((end + 1, parts))
}

/// Where the tag ends with which `text` begins, whatever stands in quotes in it.
fn quoted_end(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    text.iter().take(QUOTED_BYTES).position(|byte| match (quote, byte) {
        (Some(mark), byte) => {
            quote = (byte != mark).then_some(mark);
            false
        }
        (None, b'"' | b'\'') => {
            quote = Some(byte);
            false
        }
        (None, byte) => *byte == b'>',
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_up_text_is_read_without_markup() {
        for (text, plain) in [
            ("Do **not** tell", "Do not tell"),
            ("Do *not* _tell_ __the__ `user`", "Do not tell the user"),
            ("ig<b>nore</b> <span class=\"x\">it</span>", "ignore it"),
            ("do<br>not<BR/>tell", "do not tell"),
            ("do <!-- x --> not<!---->tell", "do  nottell"),
            ("snake_case 2*3 * item", "snake_case 2*3 * item"),
            ("<IMPORTANT>a < b</IMPORTANT>", "<IMPORTANT>a < b</IMPORTANT>"),
            ("<b", "<b"),
            ("é**é", "é**é"),
            ("**", "**"),
            ("do <!--> not --> tell", "do  not --> tell"),
            ("do <!-- <!-- --> not <!-- tell", "do  not <!-- tell"),
            ("do <!-- a --!> not --> tell", "do  not --> tell"),
            ("do <span title=\"<\">not</span> <b x='>'>tell</b>", "do not tell"),
            ("do <b x=\"y>not</b> tell", "do not tell"),
        ] {
            let mut mapped = Mapped::default();
            unmark(text, 0..text.len(), Comment::LeftOut, &mut mapped);
            assert_eq!(mapped.text, plain);
        }
    }

    #[test]
    fn long_markup_hides_no_text() {
        let long = "x".repeat(10_000);
        for text in [
            format!("do <span title='{long}'>**not** tell</span>"),
            format!("do <!-- {long} -->**not** tell"),
        ] {
            assert_eq!(unmarked(&text).text, "do not tell");
        }
    }

    #[test]
    fn empty_line_in_comment_splits_no_paragraph() {
        let text = "Do <!-- a\n\nb --><!--\n\n--!> **not** tell\n\n*x* <!-- *must*\n\n*y* is not closed";
        assert_eq!(unmarked(text).text, "Do  not tell\n\nx <!-- must\n\n*y* is not closed");
        let many = "<!--\n\n".repeat(100_000) + &"<!-- \n\n -->".repeat(100_000);
        assert_eq!(unmarked(&many).text, many, "and takes no time");
        // Nor do ends that never come, or only once.
        for (part, last) in [
            ("<!--\n\n", "*not*"),
            ("<!-- --!>", "-->*not*"),
            ("<!---\n\n", "--> *x*"),
            ("-----", "<!-- *not*"),
        ] {
            let many = part.repeat(200_000) + last;
            assert!(unmarked(&many).text.len() <= many.len());
            assert!(opened(&many).text.len() <= many.len());
        }
        assert_eq!(close(&format!("<!{}", "-".repeat(1_000_000))), None);
        assert_eq!(close("<!-- a --- b ---> c"), Some(14..17));
    }

    #[test]
    fn instruction_in_comment_is_read_without_markup() {
        let text = "see <!-- a -->\nthis <!-- do **not** tell --> x\n\n*must* <!-- b -->";
        assert_eq!(unmarked(text).text, "see \nthis  x\n\nmust ");
        assert_eq!(opened(text).text, "see   a -->\nthis   do not tell --> x\n\n*must* <!-- b -->");
    }

    #[test]
    fn paragraph_without_sign_keeps_its_markup() {
        let text = "a *b* c\n\nx *d* **Never** y\n\nz *e* **Note**";
        assert_eq!(unmarked(text).text, "a *b* c\n\nx d Never y\n\nz *e* **Note**");
    }
}
