//! The namespaces of the agent. It watches a host from the host's own ones: from others it would see a part, and report that all is
//! well. docs/guide/containers.md has the decisions.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpwarden_kernel::requirements::Need;
use mcpwarden_policy::config::{Config, NetworkNamespace};

use super::cgroup;

/// Inode numbers of the initial namespaces (`PROC_*_INIT_INO` of `linux/proc_ns.h`, `*_NS_INIT_INO` of `linux/nsfs.h`).
const INITIAL_PID: u64 = 0xEFFF_FFFC;
const INITIAL_USER: u64 = 0xEFFF_FFFD;
const INITIAL_TIME: u64 = 0xEFFF_FFFA;
/// Since Linux 6.18; before, the network namespace of kernel threads is the initial one.
const INITIAL_NETWORK: u64 = 0xEFFF_FFF9;
/// `PF_KTHREAD` of `linux/sched.h`: a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Where the agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Inode number of the PID namespace; `None` where /proc does not show this process.
    pid: Option<u64>,
    /// Of the user namespace.
    user: Option<u64>,
    /// Of the time namespace; `None` where the kernel has none.
    time: Option<u64>,
    /// Of the network namespace.
    network: Option<u64>,
    /// Of that of the kernel's threads, where they can be seen.
    kernel_network: Option<u64>,
    /// Of the directory at which cgroup v2 is mounted.
    cgroup: Option<u64>,
    /// That directory.
    cgroup_path: PathBuf,
}

/// A part of the host that the agent would not reach.
struct Limit {
    name: &'static str,
    /// What is wrong, and what follows from it.
    problem: String,
    remedy: String,
    /// What stays out of reach where the configuration accepts it.
    accepted: Option<String>,
}

impl Namespaces {
    /// Those of this process.
    pub fn here() -> Self {
        let number = |path: &str| fs::metadata(path).ok().map(|namespace| namespace.ino());
        let is_own =
            fs::read_link("/proc/self").is_ok_and(|pid| pid == Path::new(&std::process::id().to_string()));
        let stat = fs::read_to_string("/proc/2/stat").unwrap_or_default();
        let cgroup_path = cgroup::root();
        Self {
            pid: number("/proc/self/ns/pid").filter(|_| is_own),
            user: number("/proc/self/ns/user"),
            time: number("/proc/self/ns/time"),
            network: number("/proc/self/ns/net"),
            kernel_network: number("/proc/2/ns/net").filter(|_| is_kernel_thread(&stat)),
            cgroup: fs::metadata(&cgroup_path).ok().map(|root| root.ino()),
            cgroup_path,
        }
    }

    /// What the agent needs of them with this configuration, or the default.
    pub fn check(&self, config: &Config) -> Vec<Need> {
        let of_limit = |limit: Limit| Need {
            name: limit.name,
            found: limit.accepted.clone().unwrap_or_default(),
            problem: limit.accepted.is_none().then(|| format!("{}; {}", limit.problem, limit.remedy)),
        };
        let needs: Vec<Need> = self.limits(config).into_iter().map(of_limit).collect();
        let is_host = Need { name: "namespaces", found: "those of the host".into(), problem: None };
        if needs.is_empty() { vec![is_host] } else { needs }
    }

    /// Why the agent does not run here with this configuration, where that is so.
    pub fn refusal(&self, config: &Config) -> Option<String> {
        self.check(config).into_iter().find_map(|need| Some(format!("{}: {}", need.name, need.problem?)))
    }

    /// What stays out of reach with this configuration, which accepts it.
    pub fn blind_spots(&self, config: &Config) -> Vec<String> {
        let of_limit = |limit: Limit| Some(format!("{}: {}", limit.name, limit.accepted?));
        self.limits(config).into_iter().filter_map(of_limit).collect()
    }

    fn limits(&self, config: &Config) -> Vec<Limit> {
        let mut limits = Vec::new();
        let mut add = |name, problem: String, remedy: &str, accepted| {
            limits.push(Limit { name, problem, remedy: remedy.to_owned(), accepted });
        };
        if self.pid != Some(INITIAL_PID) {
            let problem = match self.pid {
                Some(_) => {
                    "the agent runs in a PID namespace of its own, and would watch none of the host's processes"
                }
                None => {
                    "/proc is not mounted, or is that of another PID namespace: the agent would see no process"
                }
            };
            let remedy = "start it in the host's PID namespace, with its /proc (Kubernetes: hostPID: true; docker, podman: --pid=host)";
            add("PID namespace", problem.to_owned(), remedy, None);
        }
        if self.user != Some(INITIAL_USER) {
            let problem =
                "the agent runs in a user namespace of its own, whose root may not attach kernel programs";
            let remedy = "start it as root of the host (Kubernetes: hostUsers: true; docker, podman: --userns=host, as root)";
            add("user namespace", problem.to_owned(), remedy, None);
        }
        if self.time.is_some_and(|time| time != INITIAL_TIME) {
            let problem = "the agent runs in a time namespace of its own, whose clock is not that of the kernel's records";
            add("time namespace", problem.to_owned(), "start it in the host's time namespace", None);
        }
        if self.cgroup.is_some_and(|root| root != cgroup::ROOT) {
            let path = self.cgroup_path.display();
            let problem = format!(
                "{path} is not the root of the host's cgroups: rules on connections would apply only to processes below it"
            );
            let remedy = "mount the host's tree (Kubernetes: a hostPath volume of /sys/fs/cgroup; docker, podman: --cgroupns=host), \
                          or name the part with network.cgroup_path";
            let part = config.network.cgroup_path.as_ref().map(|part| {
                format!("connections of processes outside {} are neither reported nor denied", part.as_str())
            });
            add("cgroup namespace", problem, remedy, part);
        }
        if self.is_network_own() {
            let problem = "the agent runs in a network namespace of its own: rules and blocks on loopback addresses would not apply \
                           on the host";
            let remedy = "start it in the host's network namespace (Kubernetes: hostNetwork: true; docker, podman: --network=host), or \
                          set network.netns to any";
            let accepted = (config.network.netns == NetworkNamespace::Any).then(|| {
                "it is not the host's: the agent does not read the DNS answers of the host, so that events lack names of \
                 destinations"
                    .to_owned()
            });
            add("network namespace", problem.to_owned(), remedy, accepted);
        }
        limits
    }

    /// Whether the network namespace is certainly not the host's.
    fn is_network_own(&self) -> bool {
        match (self.network, self.kernel_network) {
            (Some(INITIAL_NETWORK), _) | (None, _) | (_, None) => false,
            (Some(own), Some(host)) => own != host,
        }
    }
}

/// Whether `/proc/PID/stat` is of a thread of the kernel. Its name is in parentheses, and may hold any.
fn is_kernel_thread(stat: &str) -> bool {
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let flags = fields.and_then(|mut fields| fields.nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Namespaces {
        Namespaces {
            pid: Some(INITIAL_PID),
            user: Some(INITIAL_USER),
            time: Some(INITIAL_TIME),
            network: Some(4_026_531_840),
            kernel_network: Some(4_026_531_840),
            cgroup: Some(cgroup::ROOT),
            cgroup_path: "/sys/fs/cgroup".into(),
        }
    }

    /// What it is called, what is changed, the configuration, what is refused, and what is out of reach.
    type Case<'a> = (&'a str, fn(&mut Namespaces), &'a str, &'a [&'a str], &'a [&'a str]);

    /// Where the agent runs, its configuration, what is refused (a part of each message), and what it goes without.
    #[test]
    fn limits_of_namespaces_are_refused_or_reported() {
        const OWN: Option<u64> = Some(4_026_532_500);
        let (any, part) = ("network: { netns: any }", "network: { cgroup_path: /sys/fs/cgroup/a }");
        let cases: [Case<'_>; 18] = [
            ("the host", |_| {}, "", &[], &[]),
            ("a kernel without time namespaces", |here| here.time = None, "", &[], &[]),
            ("a PID namespace", |here| here.pid = OWN, "", &["hostPID: true"], &[]),
            ("a PID namespace, whatever is configured", |here| here.pid = OWN, any, &["--pid=host"], &[]),
            ("no /proc", |here| here.pid = None, "", &["/proc is not mounted"], &[]),
            ("a user namespace", |here| here.user = OWN, "", &["may not attach kernel programs"], &[]),
            ("no user namespaces known", |here| here.user = None, "", &["user namespace"], &[]),
            ("a time namespace", |here| here.time = OWN, "", &["clock"], &[]),
            ("a network namespace", |here| here.network = OWN, "", &["hostNetwork: true"], &[]),
            ("a network namespace that is accepted", |here| here.network = OWN, any, &[], &["DNS answers"]),
            (
                "a network namespace with a part of the cgroups",
                |here| here.network = OWN,
                part,
                &["netns"],
                &[],
            ),
            ("the network of 6.18", |here| here.network = Some(INITIAL_NETWORK), "", &[], &[]),
            ("no kernel thread to compare with", |here| here.kernel_network = None, "", &[], &[]),
            ("cgroups of a container", |here| here.cgroup = Some(4_711), "", &["hostPath volume"], &[]),
            (
                "cgroups of a container, accepted",
                |here| here.cgroup = Some(4_711),
                part,
                &[],
                &["outside /sys/fs/cgroup/a"],
            ),
            (
                "cgroups of a container with netns",
                |here| here.cgroup = Some(4_711),
                any,
                &["network.cgroup_path"],
                &[],
            ),
            ("no cgroups, which another check reports", |here| here.cgroup = None, "", &[], &[]),
            (
                "a container with all of its own",
                |here| (here.pid, here.network, here.cgroup) = (OWN, OWN, Some(4_711)),
                "",
                &["PID namespace of its own", "not the root", "network namespace of its own"],
                &[],
            ),
        ];
        for (name, change, yaml, refused, accepted) in cases {
            let mut here = host();
            change(&mut here);
            let (config, _) = mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap();
            let problems: Vec<_> = here.check(&config).into_iter().filter_map(|need| need.problem).collect();
            let matches = |found: &[String], parts: &[&str]| {
                found.len() == parts.len() && found.iter().zip(parts).all(|(text, part)| text.contains(part))
            };
            let matches_name =
                problems.len() == 1 && here.check(&config).iter().any(|need| refused.contains(&need.name));
            assert!(matches(&problems, refused) || matches_name, "{name}: {problems:?}");
            let blind = here.blind_spots(&config);
            assert!(matches(&blind, accepted), "{name}: {blind:?}");
        }
    }

    #[test]
    fn kernel_threads_are_told_by_their_flags() {
        for (stat, expected) in [
            ("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0", true),
            ("2 (sh) S 1 2 1 34816 2 4194304 100 0", false),
            ("2 (a) b) S 0 0 0 0 -1 2129984 0 0", true),
            ("2 (kthreadd) S 0 0 0 0 -1", false),
            ("2 (kthreadd", false),
            ("", false),
        ] {
            assert_eq!(is_kernel_thread(stat), expected, "{stat}");
        }
    }

    /// Tests run on hosts and in virtual machines: none of them is one of these containers.
    #[test]
    fn this_host_has_no_limits() {
        let here = Namespaces::here();
        if here.pid == Some(INITIAL_PID) && nix::unistd::geteuid().is_root() {
            let config = Config::default();
            assert_eq!(here.check(&config)[0].problem, None, "{here:?}");
        }
    }
}
