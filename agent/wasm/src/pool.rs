//! The instances of one guard: how many calls run at once, and which instances wait for the next call.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Lends instances, at most a fixed number at once.
pub(crate) struct Pool<T> {
    state: Mutex<State<T>>,
    freed: Condvar,
    size: usize,
}

struct State<T> {
    idle: Vec<T>,
    lent: usize,
}

/// The right to run one call, until it is dropped.
pub(crate) struct Slot<'a, T> {
    pool: &'a Pool<T>,
    /// An instance that waited; none: the caller makes one.
    pub idle: Option<T>,
}

impl<T> Pool<T> {
    /// A pool for `size` calls at once, at least one.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            state: Mutex::new(State { idle: Vec::new(), lent: 0 }),
            freed: Condvar::new(),
            size: size.max(1),
        }
    }

    /// Waits until fewer calls run than the pool allows; none if that takes longer than until `deadline`.
    pub(crate) fn take(&self, deadline: Instant) -> Option<Slot<'_, T>> {
        let mut state = self.lock();
        while state.lent >= self.size {
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            (state, _) = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        Some(Slot { pool: self, idle: state.idle.pop() })
    }

    /// Puts an instance into the pool.
    pub(crate) fn put(&self, instance: T) {
        let mut state = self.lock();
        if state.idle.len() < self.size {
            state.idle.push(instance);
        }
    }

    /// The number of calls at once.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Slot<'_, T> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.lent = state.lent.saturating_sub(1);
        self.pool.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn slots_are_bounded_and_instances_reused() {
        let pool = Pool::new(2);
        pool.put(7);
        let past = Instant::now();
        let (first, second) = (pool.take(past).unwrap(), pool.take(past).unwrap());
        assert_eq!((first.idle, second.idle), (Some(7), None));
        assert!(pool.take(past).is_none());
        drop(first);
        assert_eq!(pool.take(past).unwrap().idle, None);
        for instance in 0..5 {
            pool.put(instance);
        }
        assert_eq!(pool.lock().idle, [0, 1]);
    }

    #[test]
    fn waiting_call_runs_when_another_ends() {
        let pool = Pool::<()>::new(1);
        let slot = pool.take(Instant::now()).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.take(Instant::now() + Duration::from_secs(60)).is_some());
            drop(slot);
            assert!(waiting.join().unwrap());
        });
    }
}
