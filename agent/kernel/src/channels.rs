//! The channels of connections: who plays which part in an inode, and which processes are watched for it.

use mcpwarden_abi as abi;

use super::table::Table;

/// Names of the connections' inodes, without repetition.
pub fn keys(connection: &abi::Connection) -> Vec<abi::ChannelKey> {
    let mut keys =
        vec![connection.server_in, connection.server_out, connection.client_out, connection.client_in];
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Takes a connection's roles from an inode and leaves those of others.
///
/// For the microsecond between taking the entry out and putting it back, an inode that plays a part in another
/// connection too is none, and a call that returns in it is not seen; its bytes show as a gap. What the kernel half puts
/// there meanwhile stays.
pub fn remove_roles(channels: &mut Table<abi::ChannelKey, abi::Channel>, key: &abi::ChannelKey, id: u64) {
    let mut others = abi::Channel::default();
    while let Some(found) = channels.take(key) {
        let other = |found: u64, known: u64| if found == id || found == 0 { known } else { found };
        others = abi::Channel {
            write_capture: other(found.write_capture, others.write_capture),
            read_capture: other(found.read_capture, others.read_capture),
            write_count: other(found.write_count, others.write_count),
            read_count: other(found.read_count, others.read_count),
        };
        // Again where the kernel half was faster: it registers an inode once or twice, so this ends.
        if others == abi::Channel::default() || channels.put_back(key, &others) {
            return;
        }
    }
}

/// Stops watching a process, unless the kernel half has begun to watch it anew since `known_at`.
pub fn prune_one(processes: &mut Table<u32, u64>, pid: u32, known_at: u64) {
    if let Some(since) = processes.take(&pid)
        && since >= known_at
    {
        // Not there for a microsecond. Where it was put there anew, that is as good.
        let _ = processes.put_back(&pid, &since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_roles_of_other_processes_are_kept() {
        let Some(mut channels) = Table::create() else { return };
        let roles = |write_capture, read_capture, write_count, read_count| abi::Channel {
            write_capture,
            read_capture,
            write_count,
            read_count,
        };
        let key = abi::ChannelKey { inode: 7, ..Default::default() };
        for (name, before, after) in [
            ("nothing there", None, None),
            ("its own", Some(roles(1, 0, 0, 1)), None),
            ("another's too", Some(roles(1, 0, 2, 1)), Some(roles(0, 0, 2, 0))),
            ("another's only", Some(roles(0, 2, 0, 3)), Some(roles(0, 2, 0, 3))),
        ] {
            if let Some(before) = before {
                assert!(channels.put_back(&key, &before));
            }
            remove_roles(&mut channels, &key, 1);
            assert_eq!(channels.take(&key), after, "{name}");
        }
    }

    #[test]
    fn rewatched_process_is_not_pruned() {
        let Some(mut processes) = Table::create() else { return };
        for (name, since, left) in [("before", 9, None), ("since", 10, Some(10))] {
            assert!(processes.put_back(&1, &since));
            prune_one(&mut processes, 1, 10);
            assert_eq!(processes.take(&1), left, "{name}");
        }
    }
}
