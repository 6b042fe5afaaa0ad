//! Mutes of operators, which are kept with the pins.

use super::{Registry, StoreError};
use crate::event::Mute;

impl Registry {
    /// All that are kept, the oldest first as far as their ends tell.
    ///
    /// # Errors
    /// The store cannot read them.
    pub fn mutes(&mut self) -> Result<Vec<Mute>, StoreError> {
        self.stored(|store| store.mutes())
    }

    /// Keeps one, in place of another.
    ///
    /// # Errors
    /// The store cannot write it, and keeps the other.
    pub fn keep_mute(&mut self, mute: &Mute, replaced: Option<&str>) -> Result<(), StoreError> {
        self.stored(|store| store.put_mute(mute, replaced))
    }

    /// Forgets the one with this id.
    ///
    /// # Errors
    /// The store cannot remove it.
    pub fn forget_mute(&mut self, id: &str) -> Result<(), StoreError> {
        self.stored(|store| store.remove_mute(id))
    }
}
