//! Processes whose stdin and stdout are not captured, though a server's messages could go through them.

use std::collections::HashMap;

use mcpwarden_kernel::fd_scan::Carrier;

/// Which process has a number: when it started, and the path of what it runs.
pub type Running = (u64, Option<String>);

/// Those that the last fd scan found.
#[derive(Default)]
pub struct Uncaptured {
    /// By process id: which it is, and what was found.
    known: HashMap<u32, (Running, Carrier)>,
}

impl Uncaptured {
    /// Those of a scan that the one before did not find. `running`: which process it is, while it lives.
    pub fn new_of(
        &mut self,
        found: &[(u32, Carrier)],
        running: impl Fn(u32) -> Option<Running>,
    ) -> Vec<(u32, Carrier)> {
        let before = std::mem::take(&mut self.known);
        let mut fresh = Vec::new();
        for &(pid, carrier) in found {
            let Some(running) = running(pid) else { continue };
            let now = (running, carrier);
            if before.get(&pid) != Some(&now) {
                fresh.push((pid, carrier));
            }
            self.known.insert(pid, now);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncaptured_process_is_reported_once() {
        use Carrier::{Packets, Pty};
        let mut all = Uncaptured::default();
        for (name, found, (start_ns, program), fresh) in [
            ("nothing", &[][..], (1, "a"), &[][..]),
            ("two", &[(1, Pty), (2, Packets)], (1, "a"), &[(1, Pty), (2, Packets)]),
            ("again", &[(1, Pty), (2, Packets)], (1, "a"), &[]),
            ("one more", &[(1, Pty), (2, Packets), (3, Pty)], (1, "a"), &[(3, Pty)]),
            ("others with their numbers", &[(1, Pty), (2, Packets)], (2, "a"), &[(1, Pty), (2, Packets)]),
            ("something else", &[(1, Packets)], (2, "a"), &[(1, Packets)]),
            ("another program", &[(1, Packets)], (2, "b"), &[(1, Packets)]),
            ("the same program", &[(1, Packets)], (2, "b"), &[]),
            ("gone", &[], (2, "a"), &[]),
            ("and back", &[(1, Packets)], (2, "a"), &[(1, Packets)]),
            ("has ended", &[(9, Pty)], (2, "a"), &[]),
        ] {
            let running = |pid| (pid < 9).then(|| (start_ns, Some(program.to_owned())));
            assert_eq!(all.new_of(found, running), fresh, "{name}");
        }
    }
}
