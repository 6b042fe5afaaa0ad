//! Calls that arguments decide about: the guards are asked with each set of conditions that hold.

use mcpwarden_gate::{CHOICES, CONDITIONAL, CONDITIONS, Choice, Condition, DENY, UNDECIDED};

use super::super::alphabet::Alphabet;
use super::super::{GateError, GateSubject, GateVerdict};
use super::{Asker, Consequences};
use crate::guard::{Assumption, CompiledConditions, Conditions, Purpose, ToolFacts};

/// A tool as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Known<'a> {
    /// Its server lists it.
    Listed(&'a ToolFacts),
    /// Nobody does: it has the least that words can say, or the most.
    Unlisted(&'a [ToolFacts; 2]),
}

impl Asker {
    /// What is said of a call of this tool, whose arguments decide: a choice where the gate can tell them.
    pub(super) fn choose(
        &mut self,
        subject: &GateSubject,
        name: &str,
        known: Known<'_>,
        consequences: Consequences,
        alphabet: &mut Alphabet,
    ) -> Result<u16, GateError> {
        let undecided = self.number(consequences.of(GateVerdict::Undecided, None, "arguments"))?;
        let assumption = Assumption::default();
        let outcomes = loop {
            let count = assumption.count();
            if count > CONDITIONS {
                return Ok(undecided);
            }
            let Some(outcomes) = self.outcomes_by(subject, name, known, consequences, &assumption)? else {
                return self.number(consequences.of(GateVerdict::Undecided, None, "unlisted_tool"));
            };
            if assumption.count() == count {
                break outcomes;
            }
        };
        let found = assumption.found();
        if !is_monotonic(&outcomes, &found) {
            return Ok(undecided);
        }
        let mut choice = Choice { undecided, ..Choice::NONE };
        let mut tried = alphabet.clone();
        for (place, (slot, (conditions, purpose))) in choice.conditions.iter_mut().zip(&found).enumerate() {
            *slot = tried.condition(conditions.checks(*purpose));
            choice.denying |= u16::from(*purpose == Purpose::Deny) << place;
        }
        // Nothing of it can be told.
        let is_hopeless = |condition: &Condition| condition.bits == 0 && condition.flags != 0;
        if choice.conditions.iter().take(found.len()).all(is_hopeless) {
            return Ok(undecided);
        }
        for (set, slot) in choice.outcomes.iter_mut().enumerate() {
            *slot = outcomes.get(set & (outcomes.len() - 1)).copied().unwrap_or(undecided);
        }
        let place = self.choices.iter().position(|known| *known == choice).unwrap_or(self.choices.len());
        let Some(number) = u16::try_from(place).ok().filter(|_| place < CHOICES) else {
            return Ok(undecided);
        };
        if place == self.choices.len() {
            self.choices.push(choice);
        }
        *alphabet = tried;
        Ok(number | CONDITIONAL | UNDECIDED)
    }

    /// What is said with each set of the conditions that were found so far; `None` where it goes by the words of the name.
    fn outcomes_by(
        &mut self,
        subject: &GateSubject,
        name: &str,
        known: Known<'_>,
        consequences: Consequences,
        assumption: &Assumption,
    ) -> Result<Option<Vec<u16>>, GateError> {
        let mut outcomes = Vec::new();
        for set in 0..1_usize << assumption.count() {
            assumption.assume(set);
            let conditions = Conditions::Assumed(assumption);
            let listed = match known {
                Known::Listed(known) => Some(known),
                Known::Unlisted([least, most]) => {
                    let [least, most] = [least, most].map(|facts| {
                        self.call(subject, name, Some(facts), conditions, None).denied.is_some()
                    });
                    if least != most {
                        return Ok(None);
                    }
                    None
                }
            };
            outcomes.push(self.called(subject, name, listed, conditions, consequences)?);
        }
        Ok(Some(outcomes))
    }
}

/// Whether more conditions of rules that deny, and less of those that allow, never let through what was denied.
fn is_monotonic(outcomes: &[u16], found: &[(CompiledConditions, Purpose)]) -> bool {
    let is_denied = |set: usize| outcomes.get(set).is_some_and(|outcome| outcome & DENY != 0);
    (0..outcomes.len()).all(|set| {
        found.iter().enumerate().all(|(place, (_, purpose))| {
            let (without, with) = (is_denied(set & !(1 << place)), is_denied(set | 1 << place));
            match purpose {
                Purpose::Deny => with || !without,
                Purpose::Allow => without || !with,
            }
        })
    })
}
