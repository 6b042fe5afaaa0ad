//! A hash table of the kernel half out of which entries can be taken: read and deleted in one step.
//!
//! The kernel half writes to these tables all the time. Between a look and a deletion it may put something new in the
//! place, and that would be deleted unseen. What is taken out is seen, and can be put back.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    Pod,
    maps::{HashMap, IterableMap as _, Map, MapData, MapError},
};
use nix::libc;

/// `BPF_MAP_LOOKUP_AND_DELETE_ELEM` of `linux/bpf.h`; for hash tables since Linux 5.14.
const LOOKUP_AND_DELETE: libc::c_int = 21;
/// `BPF_NOEXIST` of `linux/bpf.h`
const NO_EXIST: u64 = 1;

/// The part of `union bpf_attr` that this command reads.
#[repr(C)]
struct Attributes {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A hash table that the kernel half writes to.
pub struct Table<K: Pod, V: Pod>(HashMap<MapData, K, V>);

impl<K: Pod, V: Pod> TryFrom<Map> for Table<K, V> {
    type Error = MapError;

    fn try_from(map: Map) -> Result<Self, MapError> {
        map.try_into().map(Self)
    }
}

impl<K: Pod, V: Pod> Table<K, V> {
    /// Takes an entry out; `None` where there is none.
    pub fn take(&mut self, key: &K) -> Option<V> {
        let mut value = MaybeUninit::<V>::zeroed();
        let attributes = Attributes {
            map: self.0.map().fd().as_fd().as_raw_fd() as u32,
            zero: 0,
            key: std::ptr::from_ref(key) as u64,
            value: value.as_mut_ptr() as u64,
            flags: 0,
        };
        let size = size_of::<Attributes>();
        // SAFETY: key and value are as large as the table's, which aya has checked, and outlive the call.
        let result = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP_AND_DELETE, &raw const attributes, size) };
        // SAFETY: it is zeroed or written by the kernel, and any bytes are a V.
        (result == 0).then(|| unsafe { value.assume_init() })
    }

    /// Puts an entry where there is none. Whether there was none, and room.
    pub fn put_back(&mut self, key: &K, value: &V) -> bool {
        self.0.insert(key, value, NO_EXIST).is_ok()
    }

    /// All entries. One that is deleted meanwhile may end the walk early.
    pub fn entries(&self) -> impl Iterator<Item = (K, V)> {
        self.0.iter().filter_map(Result::ok)
    }
}

#[cfg(test)]
impl<K: Pod, V: Pod> Table<K, V> {
    /// A table of its own; `None` where this user may make none.
    pub fn create() -> Option<Self> {
        nix::unistd::geteuid().is_root().then(|| Self(HashMap::create(16, 0).unwrap()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_entry_is_taken_and_restored_once() {
        let Some(mut table) = Table::<u32, u64>::create() else { return };
        assert_eq!(table.take(&1), None);
        assert!(table.put_back(&1, &10));
        assert!(!table.put_back(&1, &11));
        assert_eq!(table.take(&1), Some(10));
        assert_eq!((table.take(&1), table.entries().count()), (None, 0));
    }
}
