//! What the gate writes in place of the name of a denied call, so that whoever called reads why.

use mcpwarden_abi::{GATE_OUTCOMES, GATE_TEXT_BYTES, GATE_TEXT_FORMS, GATE_TEXTS_MOST, GateText, GateTexts};
use mcpwarden_gate::{BY_BURST, BY_FLOW, BY_RATE, BY_READ_THEN_SEND, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO};
use mcpwarden_policy::{
    config::Enforcement,
    gate::{GateOutcome, GateVerdict},
    guard::GuardKind,
};

use super::decisions::by_calls;

/// Longest code that is told. Bytes.
const MOST_CODE_BYTES: usize = 48;
/// Of a denial that has no text of its own.
const UNTOLD: &str = "blocked by policy (mcpwarden)";
/// Where there is room for nothing else: no name of a tool, which has no brackets in it.
const SHORT: &str = "(blocked)";

/// The texts of a table whose outcomes these are.
pub fn texts(outcomes: &[GateOutcome], enforcement: &Enforcement) -> Box<GateTexts> {
    let mut texts = Box::new(GateTexts {
        of_outcome: [0; GATE_OUTCOMES],
        of_calls: [0; 16],
        texts: [GateText::NONE; GATE_TEXTS_MOST],
    });
    if !enforcement.explain {
        return texts;
    }
    let mut known: Vec<(Option<GuardKind>, String)> = vec![(None, String::new())];
    texts.texts[0] = text(&[UNTOLD, SHORT]);
    let mut number = |texts: &mut GateTexts, guard: Option<GuardKind>, code: &str| {
        let code = plain(code);
        if let Some(number) = known.iter().position(|(known, of)| *known == guard && *of == code) {
            return u8::try_from(number).unwrap_or_default();
        }
        let Some(slot) = texts.texts.get_mut(known.len()) else { return 0 };
        *slot = text_of(guard, &code, enforcement);
        known.push((guard, code));
        u8::try_from(known.len() - 1).unwrap_or_default()
    };
    for by in [BY_READ_THEN_SEND, BY_BURST, BY_FLOW, BY_RATE, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO] {
        let (guard, code, _) = by_calls(by);
        texts.of_calls[usize::from(by) & 15] = number(&mut texts, Some(guard), code);
    }
    // The number 0 is no outcome.
    for (index, outcome) in outcomes.iter().enumerate() {
        if outcome.verdict != GateVerdict::Allow {
            let number = number(&mut texts, outcome.guard, &outcome.code);
            if let Some(slot) = texts.of_outcome.get_mut(index + 1) {
                *slot = number;
            }
        }
    }
    texts
}

/// The text of a denial, in its forms.
fn text_of(guard: Option<GuardKind>, code: &str, enforcement: &Enforcement) -> GateText {
    let guard = guard.map_or("", GuardKind::name);
    let names = [format!("{guard}/{code}"), code.to_owned(), guard.to_owned()];
    let own = names.iter().find_map(|name| {
        let message = enforcement.messages.iter().find(|(known, _)| known.as_str() == name);
        message.map(|(_, text)| text.as_str())
    });
    let long = own.map_or_else(|| format!("blocked by policy: {code} (mcpwarden)"), str::to_owned);
    text(&[&long, &format!("blocked: {code}"), SHORT])
}

fn text(forms: &[&str]) -> GateText {
    let mut text = GateText::NONE;
    let mut forms: Vec<&str> = forms.iter().copied().filter(|form| form.len() <= GATE_TEXT_BYTES).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    for (index, form) in forms.into_iter().take(GATE_TEXT_FORMS).enumerate() {
        text.lengths[index] = form.len() as u32;
        text.forms[index][..form.len()].copy_from_slice(form.as_bytes());
    }
    text
}

/// A code as it may stand in a JSON string: of guards that others wrote it can be anything.
fn plain(code: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | ':');
    let code: String = code.chars().filter(is_plain).take(MOST_CODE_BYTES).collect();
    if code.is_empty() { "denied".to_owned() } else { code }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::terms::ToolCategory;

    use super::*;

    fn outcome(verdict: GateVerdict, guard: Option<GuardKind>, code: &str) -> GateOutcome {
        let (category, code) = (ToolCategory::Read, code.to_owned());
        GateOutcome { verdict, guard, code, category, may_do_anything: false, limit: None, pays: false }
    }

    fn forms(texts: &GateTexts, number: u8) -> Vec<String> {
        let text = &texts.texts[usize::from(number)];
        let forms = text.lengths.iter().zip(&text.forms).filter(|(length, _)| **length > 0);
        forms.map(|(length, form)| String::from_utf8(form[..*length as usize].to_vec()).unwrap()).collect()
    }

    fn enforcement(yaml: &str) -> Enforcement {
        let text = format!("enforcement: {{ {yaml} }}");
        mcpwarden_policy::config::parse(text.as_bytes()).unwrap().0.enforcement
    }

    #[test]
    fn denials_have_their_texts() {
        let access = Some(GuardKind::ToolAccess);
        let outcomes = [
            outcome(GateVerdict::Allow, None, "nothing"),
            outcome(GateVerdict::Deny, access, "tool_denied"),
            outcome(GateVerdict::Deny, access, "tool_denied"),
            outcome(GateVerdict::Deny, Some(GuardKind::Wasm), "a \"b\"\\\u{7}\u{202e}c"),
            outcome(GateVerdict::Deny, Some(GuardKind::Http), &"x".repeat(500)),
            outcome(GateVerdict::Undecided, None, "broken_line"),
        ];
        for (yaml, expected) in [
            ("", "blocked by policy: tool_denied (mcpwarden)"),
            ("messages: { tool_access: 'ask the owner' }", "ask the owner"),
            ("messages: { tool_access: 'ask the owner', tool_denied: 'not here' }", "not here"),
            (
                "messages: { tool_denied: 'not here', tool_access/tool_denied: 'see the wiki' }",
                "see the wiki",
            ),
        ] {
            let texts = texts(&outcomes, &enforcement(yaml));
            let forms = |outcome: usize| forms(&texts, texts.of_outcome[outcome]);
            assert!(forms(2).contains(&expected.to_owned()), "{yaml}: {:?}", forms(2));
            assert_eq!((texts.of_outcome[1], texts.of_outcome[2]), (0, texts.of_outcome[3]));
            assert_eq!(forms(4), ["blocked by policy: abc (mcpwarden)", "blocked: abc", "(blocked)"]);
            assert!(forms(5).iter().all(|form| form.len() <= GATE_TEXT_BYTES) && forms(5).len() == 3);
            assert_eq!(forms(6)[1], "blocked: broken_line");
            assert_eq!(forms(0), [UNTOLD, SHORT]);
        }
        let texts = texts(&outcomes, &enforcement("explain: false"));
        assert!((0..64).all(|number| forms(&texts, number).is_empty()));
    }

    #[test]
    fn every_rule_on_calls_before_has_a_text() {
        let texts = texts(&[], &Enforcement::default());
        for by in 1..=6_u8 {
            let forms = forms(&texts, texts.of_calls[usize::from(by)]);
            let (_, code, _) = by_calls(by);
            assert_eq!(forms[1], format!("blocked: {code}"));
        }
    }

    #[test]
    fn denials_beyond_the_room_have_the_general_text() {
        let outcomes: Vec<_> =
            (0..200).map(|code| outcome(GateVerdict::Deny, None, &format!("code_{code}"))).collect();
        let texts = texts(&outcomes, &Enforcement::default());
        assert_eq!(forms(&texts, texts.of_outcome[1])[1], "blocked: code_0");
        assert_eq!(texts.of_outcome[200], 0);
        let told = texts.of_outcome.iter().filter(|number| **number != 0).count();
        // One is the general one, and five are of rules on calls before.
        assert!((50..64).contains(&told), "{told}");
    }
}
