//! Tables of the kernel half: taken out of the loaded object, and emptied.

use aya::{
    Ebpf, Pod,
    maps::{HashMap, Map, MapData, MapError},
};

use super::KernelError;

/// Takes a table out of a loaded object.
pub fn take<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, KernelError>
where
    T: TryFrom<aya::maps::Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or_else(|| KernelError::Missing(name.to_owned()))?;
    T::try_from(map).map_err(|source| KernelError::Map { name, source })
}

/// A table of one of the kinds that the kernel half has.
pub fn data_of(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LpmTrie(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// Takes everything out of a table. What is not there is as good as taken out.
pub fn clear<K: Pod, V: Pod>(table: &mut HashMap<MapData, K, V>) {
    remove_if(table, |_| true);
}

/// The same of the entries with such a key.
pub fn remove_if<K: Pod, V: Pod>(table: &mut HashMap<MapData, K, V>, is_one: impl Fn(&K) -> bool) {
    let keys: Vec<K> = table.keys().filter_map(Result::ok).filter(is_one).collect();
    for key in keys {
        let _ = table.remove(&key);
    }
}
