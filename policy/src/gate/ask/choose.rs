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
        let mut choice = Choice { undecided, at_last: undecided, ..Choice::NONE };
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
        let Some(number) = self.number_of(choice) else { return Ok(undecided) };
        *alphabet = tried;
        Ok(number)
    }

    /// What is said of a call of a tool that is held, and approved for calls with some arguments: those that the gate can tell
    /// pass, and all others stay held, for what cannot be decided does not match.
    pub(super) fn choose_approved(
        &mut self,
        subject: &GateSubject,
        name: &str,
        known: &ToolFacts,
        consequences: Consequences,
        alphabet: Option<&mut Alphabet>,
    ) -> Result<u16, GateError> {
        let held = self.called(subject, name, Some(known), Conditions::Strictest, consequences)?;
        let approved = known.as_approved();
        let passes = self.called(subject, name, Some(&approved), Conditions::Strictest, consequences)?;
        let (Some(alphabet), Some(approvals), 0) = (alphabet, &known.approved_for, passes & DENY) else {
            return Ok(held);
        };
        let mut tried = alphabet.clone();
        let mut choice = Choice { at_last: held, ..Choice::NONE };
        choice.undecided = self.number(consequences.of(GateVerdict::Undecided, None, "arguments"))?;
        let mut count = 0;
        for (slot, tests) in choice.conditions.iter_mut().zip(approvals.iter()) {
            // Tests that do not compile were refused when they were given.
            let Ok(conditions) = CompiledConditions::of_arguments(tests) else { continue };
            *slot = tried.condition(conditions.checks(Purpose::Allow));
            count += 1;
        }
        for (set, slot) in choice.outcomes.iter_mut().enumerate() {
            *slot = if set & ((1 << count) - 1) == 0 { held } else { passes };
        }
        let Some(number) = self.number_of(choice) else { return Ok(held) };
        *alphabet = tried;
        Ok(number)
    }

    /// The number of a choice, which is added where it is new; `None`: there is no room.
    fn number_of(&mut self, choice: Choice) -> Option<u16> {
        let place = self.choices.iter().position(|known| *known == choice).unwrap_or(self.choices.len());
        let number = u16::try_from(place).ok().filter(|_| place < CHOICES)?;
        if place == self.choices.len() {
            self.choices.push(choice);
        }
        Some(number | CONDITIONAL | UNDECIDED)
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
