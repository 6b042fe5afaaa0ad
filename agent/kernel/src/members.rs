//! Which processes belong to servers, as far as the kernel half cannot know: those that were there before it.

use std::collections::{self, BTreeMap};

use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};
use mcpwarden_abi::{ConnectionId, MEMBERSHIPS, Member};

use super::{KernelError, maps::take};

/// The kernel half's table of processes that belong to servers.
pub struct Members(HashMap<MapData, u32, Member>);

impl Members {
    /// Takes the table out of a loaded object.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        take(ebpf, "MEMBERS").map(Self)
    }

    /// Of processes that ran before the agent: whoever descends from a server's process belongs to that server.
    /// `parents` says of each process (tgid) who its parent is.
    pub fn adopt(&mut self, parents: &BTreeMap<u32, u32>) {
        let known: BTreeMap<u32, Member> = self.0.iter().filter_map(Result::ok).collect();
        for (pid, member) in descendants(parents, &known) {
            // Full: the kernel half counts what it refuses itself, and from here a process is missing that may never
            // connect; it is found again where it forks.
            let _ = self.0.insert(pid, member, 0);
        }
    }

    /// What each process (tgid) belongs to.
    pub fn all(&self) -> collections::HashMap<u32, Member> {
        self.0.iter().filter_map(Result::ok).collect()
    }

    /// The connections that processes belong to, one for each.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        let members = self.0.iter().filter_map(Result::ok);
        members.flat_map(|(_, member)| member.connections).filter(|id| *id != 0)
    }
}

/// What follows for those that descend from the known ones, who stay what they are.
fn descendants(parents: &BTreeMap<u32, u32>, known: &BTreeMap<u32, Member>) -> Vec<(u32, Member)> {
    let mut found = Vec::new();
    for pid in parents.keys() {
        // Up to the first process above that is known, and from there what that one belongs to. Nobody is his own
        // ancestor, but the processes were not all read at one moment.
        let mut at = *pid;
        let mut connections: Vec<ConnectionId> = Vec::new();
        for _ in 0..parents.len() {
            if let Some(member) = known.get(&at) {
                let more = member.connections.into_iter().filter(|id| *id != 0);
                let fresh: Vec<_> = more.filter(|id| !connections.contains(id)).collect();
                connections.extend(fresh);
            }
            match parents.get(&at) {
                Some(parent) if *parent != at => at = *parent,
                _ => break,
            }
        }
        let mut member = Member::default();
        for (place, id) in member.connections.iter_mut().zip(connections.into_iter().take(MEMBERSHIPS)) {
            *place = id;
        }
        if member != Member::default() && known.get(pid) != Some(&member) {
            found.push((*pid, member));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(connections: &[ConnectionId]) -> Member {
        let mut member = Member::default();
        member.connections[..connections.len()].copy_from_slice(connections);
        member
    }

    #[test]
    fn descendants_inherit_server_membership() {
        // 1 is above all; 10 is a server, 11 its child, 12 the child's; 20 is a server below 12; 30 is a stranger.
        let parents = BTreeMap::from([(1, 0), (10, 1), (11, 10), (12, 11), (20, 12), (21, 20), (30, 1)]);
        let known = BTreeMap::from([(10, member(&[7])), (20, member(&[8]))]);
        let expected =
            vec![(11, member(&[7])), (12, member(&[7])), (20, member(&[8, 7])), (21, member(&[8, 7]))];
        assert_eq!(descendants(&parents, &known), expected);
    }

    #[test]
    fn descendants_are_bounded_despite_cycles() {
        let parents = BTreeMap::from([(1, 2), (2, 1), (3, 3), (4, 9)]);
        let known = BTreeMap::from([(1, member(&[1, 2, 3])), (2, member(&[4, 5]))]);
        let expected = vec![(1, member(&[1, 2, 3, 4])), (2, member(&[4, 5, 1, 2]))];
        assert_eq!(descendants(&parents, &known), expected, "a circle, and more servers than fit");
    }
}
