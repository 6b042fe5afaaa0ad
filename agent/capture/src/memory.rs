//! What capture holds in memory, for whom, and when that is too much.
//!
//! Whatever waits is accounted for here: unfinished frames, records that wait for the one before them, and records that
//! came before their connection's exec record. There is a bound for each user and one for all. Where one is exceeded,
//! the user who holds the most (or who exceeded his own) gives up the largest thing that he holds: nobody's stream
//! suffers for another's that never ends.

use std::collections::HashMap;

/// The user of a server; `None` where it is not known (yet). All that is unknown counts as one user's.
pub type Owner = Option<u32>;

/// What is held of one connection, by kind. The numbers are places in [`Account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// An unfinished frame of a direction.
    Frame(usize),
    /// Records of a direction that wait for the one before them.
    Waiting(usize),
    /// Records that wait for the exec record.
    Early,
}

impl Hold {
    const ALL: [Self; 5] = [Self::Frame(0), Self::Frame(1), Self::Waiting(0), Self::Waiting(1), Self::Early];

    fn position(self) -> usize {
        match self {
            Self::Frame(direction) => direction & 1,
            Self::Waiting(direction) => 2 + (direction & 1),
            Self::Early => 4,
        }
    }
}

/// What one connection holds. Bytes.
#[derive(Debug, Default)]
pub struct Account {
    owner: Owner,
    held: [usize; Hold::ALL.len()],
}

impl Account {
    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The largest that is held, where anything is.
    pub fn largest(&self) -> Option<(usize, Hold)> {
        let largest = Hold::ALL.map(|hold| (self.held[hold.position()], hold)).into_iter().max();
        largest.filter(|(bytes, _)| *bytes > 0)
    }
}

/// The sums of all accounts, and their bounds. Bytes.
#[derive(Debug)]
pub struct Memory {
    total_bound: usize,
    user_bound: usize,
    held: usize,
    by_owner: HashMap<Owner, usize>,
}

impl Memory {
    /// Nothing held, within a bound for all together and one for each user.
    pub fn new(total_bound: usize, user_bound: usize) -> Self {
        Self { total_bound, user_bound, held: 0, by_owner: HashMap::new() }
    }

    /// From now on the account holds so many bytes of this kind.
    pub fn set(&mut self, account: &mut Account, hold: Hold, bytes: usize) {
        let held = &mut account.held[hold.position()];
        if *held != bytes {
            let before = std::mem::replace(held, bytes);
            self.change(account.owner, before, bytes);
        }
    }

    /// The account's user is known now.
    pub fn assign(&mut self, account: &mut Account, owner: Owner) {
        let held = account.held.iter().sum();
        self.change(account.owner, held, 0);
        account.owner = owner;
        self.change(owner, 0, held);
    }

    /// The account is closed.
    pub fn release(&mut self, account: &Account) {
        self.change(account.owner, account.held.iter().sum(), 0);
    }

    /// Who has to give something up: `owner`, who holds more than before, or whoever holds the most.
    pub fn over(&self, owner: Owner) -> Option<Owner> {
        if self.by_owner.get(&owner).is_some_and(|held| *held > self.user_bound) {
            return Some(owner);
        }
        let most = || self.by_owner.iter().max_by_key(|(_, held)| **held).map(|(owner, _)| *owner);
        if self.held > self.total_bound { most() } else { None }
    }

    /// What is held in all. Bytes.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held
    }

    fn change(&mut self, owner: Owner, before: usize, after: usize) {
        self.held = self.held - before + after;
        if before == after {
            return;
        }
        let of_owner = self.by_owner.entry(owner).or_default();
        *of_owner = *of_owner - before + after;
        if *of_owner == 0 {
            self.by_owner.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accounts of three connections of two users and of nobody known.
    fn accounts(memory: &mut Memory, held: [usize; 3]) -> [Account; 3] {
        let mut accounts = [Some(1), Some(2), None].map(|owner| Account { owner, ..Account::default() });
        for (account, bytes) in accounts.iter_mut().zip(held) {
            memory.set(account, Hold::Early, bytes / 2);
            memory.set(account, Hold::Frame(1), bytes - bytes / 2);
        }
        accounts
    }

    #[test]
    fn memory_owner_over_bound_is_found() {
        // Name, held by 1, by 2, by nobody known; who grew; who gives up.
        type Case = (&'static str, [usize; 3], Owner, Option<Owner>);
        let cases: [Case; 7] = [
            ("nothing", [0, 0, 0], Some(1), None),
            ("at both bounds", [60, 40, 0], Some(1), None),
            ("over his own", [61, 0, 0], Some(1), Some(Some(1))),
            ("another is over his own", [61, 0, 0], Some(2), None),
            ("over the total", [60, 50, 0], Some(2), Some(Some(1))),
            ("nobody known is over", [10, 0, 61], None, Some(None)),
            ("nobody known holds the most", [30, 30, 50], Some(1), Some(None)),
        ];
        for (name, held, grew, expected) in cases {
            let mut memory = Memory::new(100, 60);
            let _accounts = accounts(&mut memory, held);
            assert_eq!(memory.over(grew), expected, "{name}");
        }
    }

    #[test]
    fn memory_sums_follow_account_changes() {
        let mut memory = Memory::new(100, 60);
        let mut accounts = accounts(&mut memory, [10, 20, 31]);
        assert_eq!((memory.held, memory.by_owner.len()), (61, 3));
        assert_eq!(accounts[2].largest(), Some((16, Hold::Frame(1))));
        memory.assign(&mut accounts[2], Some(1));
        assert_eq!((memory.held, memory.by_owner.get(&Some(1))), (61, Some(&41)));
        memory.set(&mut accounts[2], Hold::Frame(1), 0);
        assert_eq!((memory.held, accounts[2].largest()), (45, Some((15, Hold::Early))));
        for account in &accounts {
            memory.release(account);
        }
        assert_eq!((memory.held, memory.by_owner.len()), (0, 0));
    }
}
