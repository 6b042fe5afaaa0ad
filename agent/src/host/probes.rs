//! Whether functions of other processes can be probed from here.

use std::fs;

/// Kernels whose probes at returns end a process under seccomp: they return by a system call that its filters refuse (6.11 to 6.13). The first
/// version of each series in which the kernel lets it through.
const MENDED: [(u32, u32, u32); 3] = [(6, 11, u32::MAX), (6, 12, 14), (6, 13, 3)];

/// Why they cannot be.
pub fn unable() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    ends_filtered(release.trim()).then(|| {
        format!("on Linux {}, probes would end processes under seccomp; newer kernels do not", release.trim())
    })
}

/// Whether a kernel of this release ends processes under seccomp at such a probe.
fn ends_filtered(release: &str) -> bool {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    let (major, minor, patch) = (next(), next(), next());
    MENDED.iter().any(|mended| (mended.0, mended.1) == (major, minor) && patch < mended.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_end_filtered_processes_are_known() {
        let cases = [
            ("6.1.0-56-cloud-amd64", false),
            ("6.10.9", false),
            ("6.11.11+bpo-amd64", true),
            ("6.12.9-1", true),
            ("6.12.117+deb12-cloud-amd64", false),
            ("6.13.2", true),
            ("6.13.3", false),
            ("6.18.44", false),
            ("7.3.4", false),
            ("", false),
        ];
        for (release, expected) in cases {
            assert_eq!(ends_filtered(release), expected, "{release}");
        }
    }
}
