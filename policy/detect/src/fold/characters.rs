//! What single characters are: invisible, styled, of which script, and which Latin letters they look like.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;

use crate::structure::Structure;

/// The flags that Unicode recommends which are spelt in tag characters: those of England, Scotland and Wales, each with
/// the tag that ends it (RGI_Emoji_Tag_Sequence).
const FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];
/// Tag characters in one of them.
const FLAG_TAGS: usize = 6;

/// What a character that nobody sees is.
pub(crate) fn invisible(character: char) -> Option<Structure> {
    Some(match character {
        '\u{1b}' | '\u{9b}' => Structure::AnsiEscape,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}'
            if character != '\r' =>
        {
            Structure::ControlCharacter
        }
        '\u{e0000}'..='\u{e007f}' => Structure::TagCharacters,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            Structure::VariationSelectors
        }
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            Structure::BidiOverride
        }
        '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{feff}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{16fe4}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        // Reserved for such characters (Unicode, Default_Ignorable_Code_Point).
        | '\u{e0080}'..='\u{e00ff}'
        | '\u{e01f0}'..='\u{e0fff}' => Structure::ZeroWidth,
        _ => return None,
    })
}

fn is_tag(character: char) -> bool {
    matches!(character, '\u{e0000}'..='\u{e007f}')
}

/// Whether the tag character at `at` is one of a flag.
pub(super) fn is_in_flag(text: &str, at: usize) -> bool {
    let before = text[..at].chars().rev().take(FLAG_TAGS).take_while(|c| is_tag(*c));
    let (flag, tags) = text.split_at(at - before.map(char::len_utf8).sum::<usize>());
    let rest = FLAGS.iter().find_map(|flag| tags.strip_prefix(flag));
    flag.ends_with('\u{1f3f4}') && rest.is_some_and(|rest| !rest.starts_with(is_tag))
}

/// Scripts that are written without blanks, where U+200B says at which places a line may be broken: Thai, Lao, Burmese, Khmer,
/// Tai, Balinese and Javanese.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{1950}'..='\u{19ff}' | '\u{1a20}'..='\u{1aaf}' | '\u{1b00}'..='\u{1b7f}' | '\u{a980}'..='\u{a9ff}'
        | '\u{aa60}'..='\u{aadf}')
}

/// Letters of Hebrew, Arabic, Syriac and the other scripts that run from right to left.
pub(super) fn is_leftward(character: char) -> bool {
    matches!(character, '\u{5d0}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1eeff}')
}

/// Whether a character that is no blank shows as one.
pub(super) fn is_blank(character: char) -> bool {
    matches!(character, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{1d159}')
}

/// Whether a character is a letter; at once for those of which whole texts are written.
pub(super) fn is_letter(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}') || c.is_alphabetic()
}

/// The Latin letter that a character looks like, if it does, and whether it does so in a word of its own script as well.
pub(super) fn look_alike(c: char) -> Option<(char, bool)> {
    /// Those of Greek and Cyrillic, of which whole texts are written.
    static NEAR: LazyLock<Vec<Option<(char, bool)>>> =
        LazyLock::new(|| ('\0'..'\u{530}').map(|c| LOOK_ALIKES.get(&c).copied()).collect());
    NEAR.get(c as usize).copied().unwrap_or_else(|| LOOK_ALIKES.get(&c).copied())
}

/// Whether a character is its own normal form and no finding, wherever it stands. Most of those of a text are.
pub(super) fn is_unchanging(character: char) -> bool {
    static PLAIN: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let mut bits = vec![0; (1 << 16) / 64];
        for code in 0x80..1 << 16 {
            let Some(c) = char::from_u32(code) else { continue };
            let itself = is_composed_script(c) || std::iter::once(c).nfkd().eq([c]) && !is_accent(c);
            if itself && invisible(c).is_none() && !LOOK_ALIKES.contains_key(&c) {
                bits[code as usize / 64] |= 1 << (code % 64);
            }
        }
        bits
    });
    let code = u32::from(character);
    PLAIN.get(code as usize / 64).is_some_and(|bits: &u64| bits >> (code % 64) & 1 == 1)
}

/// Scripts whose letters NFKD would take apart for no gain.
pub(super) fn is_composed_script(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{ac00}'..='\u{d7a3}') || is_ideograph(character)
}

pub(super) fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

pub(super) fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// Letters of Latin alphabets that look like others of them: Polish, Danish, Croatian, Maltese, Sami and Turkish are written
/// so.
pub(super) fn is_of_latin_script(character: char) -> bool {
    matches!(character, 'ł' | 'Ł' | 'ø' | 'Ø' | 'đ' | 'Đ' | 'ħ' | 'Ħ' | 'ŧ' | 'Ŧ' | 'ı')
}

pub(super) fn is_wide_digit(character: char) -> bool {
    matches!(character, '\u{ff10}'..='\u{ff19}')
}

/// Letters in styled form: mathematical, circled and squared, full width, superscript.
pub(super) fn is_styled(character: char) -> bool {
    matches!(character, '\u{1d400}'..='\u{1d7ff}' | '\u{24b6}'..='\u{24e9}' | '\u{249c}'..='\u{24b5}'
        | '\u{1f110}'..='\u{1f149}' | '\u{ff21}'..='\u{ff5a}' | '\u{1d2c}'..='\u{1d6a}')
}

/// Letters that look Latin: to the letter, and whether they do so in a word of their own script as well. After
/// Unicode's confusables.txt (UTS #39), without what that has for other ends (`m` as `rn`, `1` as `l`).
static LOOK_ALIKES: LazyLock<HashMap<char, (char, bool)>> = LazyLock::new(|| {
    // Pairs: look-alike, Latin.
    const ALWAYS: &str = "аaеeоoрpсcуyхxіiјjѕsԁdԛqԝwһhӏlАAВBЕEКKМMНHОOРPСCТTХXУYІIЈJЅSԌGԚQԜW\
        οoΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXϲcϳj\
        ɑaıiɡgɩiʀrɪiɴnʙbɢgʜhʟlᴀaᴄcᴅdᴇeᴊjᴋkᴍmᴏoᴘpᴛtᴜuᴠvᴡwᴢzʏyꜰfꜱsꞯq\
        ᎪAᏴBᏟCᎠDᎬEᏀGᎻHᎥIᎫJᏦKᏞLᎷMᏢPᎡRᏚSᎢTᏙVᎳWᏃZ\
        ꓮAꓐBꓚCꓓDꓰEꓝFꓖGꓧHꓲIꓙJꓗKꓡLꓟMꓠNꓳOꓑPꓣRꓢSꓔTꓴUꓦVꓪWꓫXꓬYꓜZ";
    const IN_MIXED_WORDS: &str = "кkмmтtвbнhгrпnиuзeαaνvρpιiκkυuχxγyηnτtωwεeσo\
        օoոnսuհhցgզqքpȷjøoØOđdĐDłlŁLħhŧtƅbƽs";
    let pairs = |text: &'static str, always: bool| {
        let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        letters.chunks_exact(2).map(|pair| (pair[0], (pair[1], always))).collect::<Vec<_>>()
    };
    let squared = ('A'..='Z').flat_map(|letter| {
        let index = u32::from(letter) - u32::from('A');
        [0x1f150, 0x1f170]
            .into_iter()
            .filter_map(move |base| Some((char::from_u32(base + index)?, (letter, true))))
    });
    pairs(ALWAYS, true).into_iter().chain(pairs(IN_MIXED_WORDS, false)).chain(squared).collect()
});
