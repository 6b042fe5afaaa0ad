//! Whose question a guard is asked next: users take turns, and none of them has all of a guard.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot::{self, Sender};

/// The account of a server, where it is known.
pub type Owner = Option<u32>;

/// The turns of one guard: so many questions at once, at most three quarters of them of one user's servers. Questions of
/// one user wait in their order, and a turn that comes free goes to the user after the one who had the last.
pub struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// Most of one user.
    share: usize,
    /// How many each user has, if any.
    taken: BTreeMap<Owner, usize>,
    /// Who waits: no user without a question.
    waiting: BTreeMap<Owner, VecDeque<Sender<Turn>>>,
    /// Who had the last turn.
    last: Owner,
}

/// The right to ask, until it is dropped.
pub struct Turn {
    turns: Arc<Turns>,
    owner: Owner,
}

impl Turns {
    /// `at_once` is taken as at least 1.
    pub fn new(at_once: usize) -> Arc<Self> {
        let free = at_once.max(1);
        let share = free.saturating_sub(free.div_ceil(4)).max(1);
        let (taken, waiting) = (BTreeMap::new(), BTreeMap::new());
        Arc::new(Self(Mutex::new(State { free, share, taken, waiting, last: None })))
    }

    /// Waits for a turn. Whoever stops waiting loses his place, and nobody else does.
    pub async fn take(self: &Arc<Self>, owner: Owner) -> Turn {
        let (sender, receiver) = oneshot::channel();
        self.lock().waiting.entry(owner).or_default().push_back(sender);
        self.hand_out();
        match receiver.await {
            Ok(turn) => turn,
            // A sender is dropped with its turn sent, or with all turns, of which this is one.
            Err(_) => unreachable!("the queue drops no question that waits"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what is free to who waits.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some((owner, sender)) = self.lock().next() else { return };
            // Nobody waits for it any more: it is dropped, which hands it out again.
            let _ = sender.send(Turn { turns: Arc::clone(self), owner });
        }
    }
}

impl State {
    /// Takes a turn for who comes next, if there is both.
    fn next(&mut self) -> Option<(Owner, Sender<Turn>)> {
        self.waiting.retain(|_, queue| {
            queue.retain(|sender| !sender.is_closed());
            !queue.is_empty()
        });
        if self.free == 0 {
            return None;
        }
        let may = |owner: &&Owner| self.taken.get(*owner).copied().unwrap_or_default() < self.share;
        let after = self.waiting.keys().filter(may).find(|owner| **owner > self.last);
        let owner = *after.or_else(|| self.waiting.keys().find(may))?;
        let sender = self.waiting.get_mut(&owner)?.pop_front()?;
        self.free -= 1;
        *self.taken.entry(owner).or_default() += 1;
        self.last = owner;
        Some((owner, sender))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.turns.lock();
            state.free += 1;
            if let Some(taken) = state.taken.get_mut(&self.owner) {
                *taken -= 1;
            }
            state.taken.retain(|_, taken| *taken > 0);
        }
        self.turns.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The order in which those that wait get a turn, when each turn is given back at once. `at_once` of user 1 are taken
    /// while they come.
    async fn order(at_once: usize, waiting: &[u32]) -> Vec<u32> {
        let turns = Turns::new(at_once);
        let first = turns.take(Some(1)).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for &owner in waiting {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _turn = turns.take(Some(owner)).await;
                order.lock().unwrap().push(owner);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        order.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn users_take_turns() {
        for (waiting, expected) in [
            (&[1, 1, 1][..], &[1, 1, 1][..]),
            (&[1, 1, 1, 1, 2], &[2, 1, 1, 1, 1]),
            (&[1, 1, 1, 2, 2, 3], &[2, 3, 1, 2, 1, 1]),
            (&[3, 3, 2, 0], &[2, 3, 0, 3]),
        ] {
            assert_eq!(order(1, waiting).await, expected, "{waiting:?}");
        }
    }

    /// Of each number at once: how many one user gets, and how many are left for another.
    #[tokio::test]
    async fn no_user_has_all_turns() {
        for (at_once, share, rest) in
            [(0, 1, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 3, 1), (8, 6, 2), (64, 48, 16)]
        {
            let turns = Turns::new(at_once);
            let mut held = Vec::new();
            for (owner, expected) in [(Some(1), share), (None, rest)] {
                let before = held.len();
                while let Ok(turn) = tokio::time::timeout(Duration::from_millis(20), turns.take(owner)).await
                {
                    held.push(turn);
                }
                assert_eq!(held.len() - before, expected, "{owner:?} of {at_once}");
            }
            // Who gave up has no place, and what is given back goes round.
            held.clear();
            assert!(turns.lock().waiting.is_empty() && turns.lock().taken.is_empty());
            assert_eq!(turns.lock().free, at_once.max(1));
        }
    }

    #[tokio::test]
    async fn one_who_gives_up_does_not_keep_a_turn() {
        let turns = Turns::new(1);
        let held = turns.take(Some(1)).await;
        let (gone, stays) = (Arc::clone(&turns), Arc::clone(&turns));
        let gone = tokio::spawn(async move { drop(gone.take(Some(2)).await) });
        let stays = tokio::spawn(async move { drop(stays.take(Some(2)).await) });
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(held);
        stays.await.unwrap();
        assert_eq!(turns.lock().free, 1);
    }
}
