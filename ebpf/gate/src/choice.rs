//! What is said of a call by its arguments: conditions over what their texts tell, and the outcome of each set of conditions
//! that hold.

use crate::outcome::DENY;

/// Choices that a table has room for; a power of two.
pub const CHOICES: usize = 256;
/// Most conditions that one choice goes by.
pub const CONDITIONS: usize = 4;
/// Sets of conditions.
const SETS: usize = 1 << CONDITIONS;

/// Set in [`Condition::flags`]: where its bits are set, it cannot be told whether it holds.
pub const ALWAYS_UNKNOWN: u16 = 1;

/// The condition of a rule: whether all of these bits are set.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Which; of none it always holds.
    pub bits: u16,
    /// [`ALWAYS_UNKNOWN`], or 0.
    pub flags: u16,
}

/// What goes by arguments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Those that are not needed hold.
    pub conditions: [Condition; CONDITIONS],
    /// Conditions of rules that deny, by bits: the others are of rules that allow. A call is denied by more of these, and by less of
    /// the others.
    pub denying: u16,
    /// The outcome where it cannot be told.
    pub undecided: u16,
    /// The same at the end of the message, where all was read that could tell.
    pub at_last: u16,
    /// The outcomes, by the set of conditions that hold.
    pub outcomes: [u16; SETS],
}

impl Choice {
    /// Of which everything is let through.
    pub const NONE: Self = Self {
        conditions: [Condition { bits: 0, flags: 0 }; CONDITIONS],
        denying: 0,
        undecided: 0,
        at_last: 0,
        outcomes: [0; SETS],
    };

    /// The outcome where these bits are set, and of those that are `unknown` it cannot be told.
    #[inline(always)]
    pub fn outcome(&self, bits: u16, unknown: u16) -> u16 {
        let (mut holding, mut open) = (0, 0);
        for number in 0..CONDITIONS {
            let condition = self.conditions[number];
            let is_met = condition.bits & !bits & !unknown == 0;
            let is_open = condition.bits & unknown | condition.flags != 0;
            holding |= ((is_met & !is_open) as usize) << number;
            open |= ((is_met & is_open) as usize) << number;
        }
        let denying = self.denying as usize;
        // The most lenient of all that may be, and the strictest.
        let least = self.outcomes[(holding | open & !denying) & (SETS - 1)];
        let most = self.outcomes[(holding | open & denying) & (SETS - 1)];
        if least & DENY != 0 {
            least
        } else if most & DENY != 0 {
            self.undecided
        } else {
            most
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: u16 = DENY | 1;
    const UNDECIDED: u16 = 2;

    /// A rule that denies by the first bit, and one that allows by the second, where nothing else does.
    fn choice(flags: u16) -> Choice {
        let mut choice = Choice { denying: 1, undecided: UNDECIDED, ..Choice::NONE };
        choice.conditions[0] = Condition { bits: 1, flags };
        choice.conditions[1].bits = 2;
        for (set, outcome) in choice.outcomes.iter_mut().enumerate() {
            *outcome = if set & 3 == 2 { 0 } else { DENIED };
        }
        choice
    }

    #[test]
    fn outcome_is_told_where_the_unknown_does_not_matter() {
        for (flags, bits, unknown, expected) in [
            (0, 0b00, 0b00, DENIED),
            (0, 0b01, 0b00, DENIED),
            (0, 0b10, 0b00, 0),
            (0, 0b11, 0b00, DENIED),
            (0, 0b11, 0b10, DENIED),
            (0, 0b00, 0b01, DENIED),
            (0, 0b10, 0b01, UNDECIDED),
            (0, 0b00, 0b10, UNDECIDED),
            (0, 0b00, 0b11, UNDECIDED),
            // Bits that nothing goes by.
            (0, 0b10, !0b11, 0),
            (ALWAYS_UNKNOWN, 0b10, 0b00, 0),
            (ALWAYS_UNKNOWN, 0b11, 0b00, UNDECIDED),
            (ALWAYS_UNKNOWN, 0b01, 0b00, DENIED),
        ] {
            assert_eq!(choice(flags).outcome(bits, unknown), expected, "{flags} {bits:02b} {unknown:02b}");
        }
        assert_eq!(Choice::NONE.outcome(0, !0), 0);
    }
}
