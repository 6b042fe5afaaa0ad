//! The table in force: which kinds of connections it has, and what the numbers in it mean.

use std::collections::VecDeque;

use mcpwarden_policy::{
    Timestamp,
    gate::{GateOutcome, GateSubject, index_of},
};

/// Of how many tables the meaning of their numbers is remembered: records of theirs may lie in the ring.
const TABLES_REMEMBERED: usize = 16;

/// What is known of the table in force, and of those before.
#[derive(Default)]
pub struct Table {
    /// The kinds of connections that it was made of.
    kinds: Vec<GateSubject>,
    /// When it is to be made anew.
    pub until: Option<Timestamp>,
    /// Which half of the kernel's table it is in: 0 or 1.
    pub half: u32,
    /// Its number.
    pub generation: u32,
    /// What the numbers of tables mean, the newest last.
    outcomes: VecDeque<(u32, Vec<GateOutcome>)>,
}

impl Table {
    /// The numbers of these kinds of connections in it; `None` of one that it does not have.
    pub fn indices(&self, kinds: &[GateSubject]) -> Vec<Option<u32>> {
        let index = |kind: &GateSubject| {
            let index = self.kinds.iter().position(|known| known == kind)?;
            u32::try_from(index).ok()
        };
        kinds.iter().map(index).collect()
    }

    /// A table of these kinds is in force, in [`Self::half`] and with the number [`Self::generation`].
    pub fn put_in_force(
        &mut self,
        kinds: Vec<GateSubject>,
        until: Option<Timestamp>,
        outcomes: Vec<GateOutcome>,
    ) {
        (self.kinds, self.until) = (kinds, until);
        if self.outcomes.len() == TABLES_REMEMBERED {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((self.generation, outcomes));
    }

    /// No table is in force. Its number and the meaning of numbers stay.
    pub fn clear(&mut self) {
        (self.kinds, self.until) = (Vec::new(), None);
    }

    /// The meaning of a number that is not 0, in the table of that generation; `None` where that is not remembered.
    pub fn outcome(&self, generation: u32, number: u16) -> Option<&GateOutcome> {
        let (_, outcomes) = self.outcomes.iter().rev().find(|(known, _)| *known == generation)?;
        outcomes.get(index_of(number)?)
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{gate::GateVerdict, terms::ToolCategory};

    use super::*;

    fn outcome(code: &str) -> GateOutcome {
        GateOutcome {
            verdict: GateVerdict::Deny,
            guard: None,
            code: code.into(),
            category: ToolCategory::Read,
            may_do_anything: false,
            limit: None,
            pays: false,
        }
    }

    #[test]
    fn outcomes_of_sixteen_tables_are_remembered() {
        let mut table = Table::default();
        for generation in 1..=20 {
            table.generation = generation;
            table.put_in_force(Vec::new(), None, vec![outcome(&generation.to_string())]);
        }
        for (generation, expected) in [(1, None), (4, None), (5, Some("5")), (20, Some("20")), (21, None)] {
            let found = table.outcome(generation, 1).map(|outcome| outcome.code.as_str());
            assert_eq!(found, expected, "{generation}");
        }
        table.clear();
        assert!(table.outcome(20, 1).is_some(), "records of a table outlive it");
        assert!(table.outcome(20, 2).is_none(), "no such number");
    }
}
