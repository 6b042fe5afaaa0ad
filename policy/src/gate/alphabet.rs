//! What the texts of a server's arguments tell, as bits: of each test one.

use mcpwarden_gate::{ALWAYS_UNKNOWN, ARGUMENT_TEXT, Condition};

use super::GateError;
use super::part::Part;
use crate::guard::{Check, Checks, alike_keys, key_expression};
use crate::terms::ServerId;

/// How many bits there are.
const BITS: usize = 16;
/// Most states of the automaton of one server's arguments: of what would need more, nobody can tell.
const MOST_STATES: usize = 8_192;

/// The tests that calls of one server go by, in the order of their bits.
#[derive(Clone, Default)]
pub(super) struct Alphabet(Vec<Check>);

/// What a pattern of the automaton stands for.
enum Stands {
    /// A key that may be any.
    AnyKey,
    /// The key of these bits.
    Key(u16),
    /// Any text behind that key.
    Text(u16),
    /// Texts that the tests tell apart.
    Nothing,
}

impl Alphabet {
    /// These checks as bits; what there is no room for cannot be told.
    pub(super) fn condition(&mut self, checks: Checks) -> Condition {
        let Checks { checks, is_partial } = checks;
        let (mut bits, mut is_partial) = (0, is_partial);
        for check in checks {
            let known = self.0.iter().position(|known| known.is(&check));
            let place = known.unwrap_or_else(|| {
                if self.0.len() < BITS {
                    self.0.push(check);
                    self.0.len() - 1
                } else {
                    BITS
                }
            });
            match place {
                BITS => is_partial = true,
                place => bits |= 1 << place,
            }
        }
        Condition { bits, flags: if is_partial { ALWAYS_UNKNOWN } else { 0 } }
    }

    /// Whether nothing goes by arguments.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bits of tests that are so of this check.
    fn bits(&self, mut is: impl FnMut(&Check) -> bool) -> u16 {
        let set = self.0.iter().enumerate().filter(|(_, check)| is(check));
        set.fold(0, |bits, (place, _)| bits | 1 << place)
    }

    /// The bits of a call without arguments.
    pub(super) fn absent(&self) -> u16 {
        self.bits(Check::of_none)
    }

    /// The automaton of keys and texts; `None`: it would be too large.
    pub(super) fn automaton(&self, server: &ServerId) -> Result<Option<Part>, GateError> {
        let mut patterns = vec![(alike_keys(), Stands::AnyKey)];
        let mut keys: Vec<&str> = self.0.iter().map(|check| &*check.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let own = self.bits(|check| check.key == key);
            let key_of = format!("(?:{})", key_expression(key));
            let text_of = |text: &str| format!(r"{key_of}(?-u:\x{ARGUMENT_TEXT:02X})(?:{text})");
            patterns.push((key_of.clone(), Stands::Key(own)));
            patterns.push((text_of("(?s:.*)"), Stands::Text(own)));
            let of_key = self.0.iter().filter(|check| check.key == key);
            let mut texts: Vec<String> = of_key.flat_map(Check::patterns).collect();
            texts.sort_unstable();
            texts.dedup();
            patterns.extend(texts.iter().map(|text| (text_of(text), Stands::Nothing)));
        }
        let (patterns, stand): (Vec<String>, Vec<Stands>) = patterns.into_iter().unzip();
        let (all, absent) = (self.bits(|_| true), self.absent());
        let made = Part::of_arguments(server, &patterns, |matched, bytes| {
            let (mut of_key, mut of_text) = (0, 0);
            for stands in matched.iter().filter_map(|place| stand.get(*place)) {
                match stands {
                    Stands::AnyKey => of_key |= all,
                    Stands::Key(bits) => of_key |= bits,
                    Stands::Text(bits) => of_text |= bits,
                    Stands::Nothing => {}
                }
            }
            let text = bytes.split(|byte| *byte == ARGUMENT_TEXT).nth(1);
            let Some(text) = text.and_then(|text| std::str::from_utf8(text).ok()).filter(|_| of_text != 0)
            else {
                return Some([of_key, 0]);
            };
            let (mut set, mut told) = (0, 0);
            for (place, check) in self.0.iter().enumerate().filter(|(place, _)| of_text >> place & 1 != 0) {
                if let Some(holds) = check.of_text(text) {
                    told |= 1 << place;
                    set |= u16::from(holds) << place;
                }
            }
            Some([(set ^ absent) & told, told])
        });
        match made {
            Ok(part) => Ok(Some(part.fewer()).filter(|part| part.size() <= MOST_STATES)),
            Err(GateError::Automaton { .. } | GateError::States { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
