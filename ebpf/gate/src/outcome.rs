//! The numbers that the automaton gives, where a string is a name.

/// Set in an outcome: the message must not reach its server.
pub const DENY: u16 = 1 << 15;
/// Set in an outcome: the gate cannot tell; a setting says what that means.
pub const UNDECIDED: u16 = 1 << 14;
/// Set in what is said of a tool's name where the arguments of its calls decide: its number is that of a [`Choice`](crate::Choice). What cannot
/// tell conditions sees an outcome that is [`UNDECIDED`].
pub const CONDITIONAL: u16 = 1 << 13;
/// The number of an outcome, for whoever says why. 0 alone is none: let through, and nothing to be said.
pub const OUTCOME_NUMBERS: u16 = OUTCOMES as u16 - 1;
/// Outcomes that a table has room for; a power of two.
pub const OUTCOMES: usize = 1 << 12;
