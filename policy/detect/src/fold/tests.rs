use super::*;

/// Text, its normal form, the kinds of marks.
/// Names are read as words: what is nothing in a text is a finding there.
#[test]
fn invisible_and_styled_characters_of_names_are_marked() {
    use Structure::*;
    let cases: &[(&str, &str, &[Structure])] = &[
        ("turn\u{ad}_key", "turn key", &[ZeroWidth]),
        ("\u{feff}turn_key", "turn key", &[ZeroWidth]),
        ("turn_key\u{feff}", "turn key", &[ZeroWidth]),
        ("turn_\u{34f}key", "turn key", &[ZeroWidth]),
        ("turn_7\u{3164}", "turn 7", &[ZeroWidth]),
        ("tu\u{200d}rn", "turn", &[ZeroWidth]),
        ("\u{ff54}urn", "turn", &[StyledLetters]),
        ("turn_\u{1d7d7}\u{ff19}", "turn 99", &[StyledLetters]),
        ("\u{24e3}urn", "turn", &[StyledLetters]),
        ("t\u{443}rn", "tyrn", &[MixedScript]),
        // Japanese keyboards make letters wide, and Persian has joiners; these alphabets have these letters.
        ("\u{691c}\u{7d22}\u{ff21}\u{ff11}", "\u{691c}\u{7d22}A1", &[]),
        ("\u{645}\u{6cc}\u{200c}\u{631}\u{648}\u{62f}", "\u{645}\u{6cc}\u{631}\u{648}\u{62f}", &[]),
        ("szukaj_łask", "szukaj lask", &[]),
        ("hent_øl", "hent ol", &[]),
        ("kapı_aç", "kapi ac", &[]),
        ("tìm_đường", "tim duong", &[]),
    ];
    for (name, normal, kinds) in cases {
        let (folded, marks) = fold(&crate::names::words(name), &mut super::Budget::default());
        let found: Vec<Structure> = marks.iter().map(|mark| mark.kind).collect();
        let folded = folded.map_or_else(|| (*name).to_owned(), |normal| normal.text.into_owned());
        assert_eq!((folded.as_str(), found.as_slice()), (*normal, *kinds), "{name:?}");
    }
}

#[test]
fn text_is_folded_to_its_normal_form() {
    use Structure::*;
    let cases: &[(&str, &str, &[Structure])] = &[
        ("plain ASCII, line\nand tab\t", "plain ASCII, line\nand tab\t", &[]),
        ("f\u{fc}r \u{ff08}a\u{ff09} caf\u{e9}", "fur (a) cafe", &[]),
        ("igno\u{308}re", "ignore", &[]),
        ("ign\u{43e}re", "ignore", &[MixedScript]),
        ("все успех, не", "все успех, не", &[]),
        ("\u{440}\u{430}\u{443} \u{43e}ut", "pay out", &[MixedScript]),
        ("игнорируй", "игнорируи", &[]),
        ("a\u{200b}b\u{200b}c", "abc", &[ZeroWidth, ZeroWidth]),
        ("\u{feff}start", "start", &[]),
        ("a\u{2800}b\u{3164}c\u{ffa0}d\u{115f}e\u{1160}f", "abcdef", &[ZeroWidth; 5]),
        (
            "a\u{16fe4}b\u{1bca0}c\u{1d159}d\u{13430}e\u{180f}",
            "abcde",
            &[ZeroWidth, ZeroWidth, ZeroWidth, ZeroWidth, VariationSelectors],
        ),
        ("a\u{fff0}b\u{e0080}c\u{e0fff}d", "abcd", &[ZeroWidth; 3]),
        // Between words, what shows as a blank is one.
        ("go\u{2800}on\u{3164}\u{3164}up", "go on up", &[ZeroWidth; 2]),
        ("\u{2801}\u{2800}\u{28ff}", "\u{2801}\u{28ff}", &[]),
        ("한\u{3164}글", "한글", &[]),
        ("a\u{a0}b\u{2003}c\u{3000}d", "a b c d", &[]),
        ("wa\u{ad}ter", "water", &[]),
        ("❤\u{fe0f} 👩\u{200d}💻", "❤ 👩💻", &[]),
        ("i\u{fe0f}g", "ig", &[VariationSelectors]),
        ("\u{202e}abc\u{202c}", "abc", &[BidiOverride, BidiOverride]),
        ("a\u{e0041}\u{e0042}b", "ab", &[TagCharacters]),
        ("a\u{1b}[8mb\u{1b}[0m", "ab", &[AnsiConceal, AnsiEscape]),
        ("a\u{1b}[1;8mb\u{1b}[38;5;8mc", "abc", &[AnsiConceal, AnsiEscape]),
        ("a\u{8}b", "ab", &[ControlCharacter]),
        ("\u{ff29}\u{ff2d}\u{ff30}\u{ff2f}", "IMPO", &[StyledLetters]),
        ("5 k\u{3a9}, 3 \u{b5}s, x\u{b2}", "5 kΩ, 3 μs, x2", &[]),
        ("\u{1f178}\u{1f17c}\u{1f17f}", "IMP", &[]),
        ("指示を無視", "指示を無視", &[]),
    ];
    for (text, normal, kinds) in cases {
        let view = View::raw(text);
        let (folded, marks) = fold(&view, &mut super::Budget::default());
        let folded = folded.map_or_else(|| (*text).to_owned(), |normal| normal.text.into_owned());
        let found: Vec<Structure> = marks.iter().map(|mark| mark.kind).collect();
        assert_eq!((folded.as_str(), found.as_slice()), (*normal, *kinds), "{text:?}");
    }
}
