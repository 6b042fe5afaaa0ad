//! What the agent needs around it, and what to do where it is missing.

use std::{fs, path::Path, sync::LazyLock};

use super::{BTF_PATH, hooks::Way, sys};

/// The oldest kernel that the kernel half is written for: `bpf_loop` is of 5.17, and 6.1 is the oldest that
/// distributions still carry.
pub const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// One thing that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What.
    pub name: &'static str,
    /// What was found.
    pub found: String,
    /// Why it is not enough and what to do, where it is not.
    pub problem: Option<String>,
}

/// Looks at everything that capture needs, in the order in which a person would fix it. `cgroup`: where cgroup v2 is
/// mounted.
pub fn check(cgroup: Option<String>) -> Vec<Need> {
    vec![privileges(), kernel(), btf(), mounted(cgroup)]
}

/// `CAP_…` bits (`linux/capability.h`).
const NEEDED_CAPABILITIES: [(u32, &str); 5] = [
    (39, "CAP_BPF"),
    (38, "CAP_PERFMON"),
    // programs that judge connections
    (12, "CAP_NET_ADMIN"),
    // /proc/PID/exe and cwd of other users' processes
    (19, "CAP_SYS_PTRACE"),
    (2, "CAP_DAC_READ_SEARCH"),
];
const CAP_SYS_ADMIN: u32 = 21;

fn privileges() -> Need {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    privileges_of(&status)
}

fn privileges_of(status: &str) -> Need {
    let effective = capabilities(status);
    let has = |bit: u32| effective >> bit & 1 == 1;
    // CAP_SYS_ADMIN stood for the first two before 5.8 and still does.
    let missing: Vec<&str> = NEEDED_CAPABILITIES
        .into_iter()
        .filter(|(bit, _)| {
            let granted = has(*bit) || (*bit >= 38 && has(CAP_SYS_ADMIN));
            !granted
        })
        .map(|(_, name)| name)
        .collect();
    let found = if missing.is_empty() { "all capabilities" } else { "not enough" };
    let problem = (!missing.is_empty())
        .then(|| format!("missing {}; run as root (sudo mcpwarden …)", missing.join(", ")));
    Need { name: "privileges", found: found.into(), problem }
}

/// Where the kernel says whether it is locked down: the state that counts is in brackets.
const LOCKDOWN_PATH: &str = "/sys/kernel/security/lockdown";

/// Whether programs may write into the memory of processes. Under lockdown, and without CAP_SYS_ADMIN, the kernel refuses
/// one that could. Where it does not say whether it is locked down, it is given one: not elsewhere, since it warns of each in its log.
pub fn may_write_memory() -> bool {
    static MAY: LazyLock<bool> = LazyLock::new(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        capabilities(&status) >> CAP_SYS_ADMIN & 1 == 1
            && fs::read_to_string(LOCKDOWN_PATH)
                .map_or_else(|_| sys::takes_writes(), |state| state.contains("[none]"))
    });
    *MAY
}

/// Where the kernel lists its security modules, if securityfs is mounted.
const MODULES_PATH: &str = "/sys/kernel/security/lsm";

/// The kernel's security modules that are switched on, as it lists them; `None` where securityfs is not mounted.
pub fn security_modules() -> Option<String> {
    fs::read_to_string(MODULES_PATH).ok().map(|list| list.trim().to_owned())
}

/// Whether programs are among them.
pub fn has_programs(modules: &str) -> bool {
    modules.split(',').any(|name| name == "bpf")
}

/// How the gate can be asked here. Where it is not known whether programs are among the security modules, in the way that does not depend
/// on it.
pub fn gate_way() -> Way {
    way_of(security_modules().as_deref())
}

/// The names of the ways in which calls are neutralized and denied here, where the gate can be asked in this `way`: `none` where
/// that cannot be.
pub fn ways_of(way: Option<Way>) -> [&'static str; 2] {
    ways(way, may_write_memory())
}

fn ways(way: Option<Way>, may_write: bool) -> [&'static str; 2] {
    const NONE: &str = "none";
    let deny = way.map_or(NONE, Way::name);
    [if may_write { deny } else { NONE }, deny]
}

fn way_of(modules: Option<&str>) -> Way {
    if modules.is_some_and(has_programs) { Way::Lsm } else { Way::ModifyReturn }
}

/// What this process may, by bits.
fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Where the kernel says how it preempts itself, as long as debugfs is mounted: the state that counts is in brackets.
const PREEMPT_PATH: &str = "/sys/kernel/debug/sched/preempt";

/// Whether this kernel preempts itself wherever it is (`preempt=full`, real-time kernels). A program at a function's exit is not run
/// there while another task that was preempted is in it; those of tracepoints are.
pub fn preempts_itself() -> bool {
    let uname = nix::sys::utsname::uname().ok();
    let version = uname.map(|name| name.version().to_string_lossy().into_owned()).unwrap_or_default();
    let config = || fs::read_to_string(format!("/boot/config-{}", release())).unwrap_or_default();
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    preempts(fs::read_to_string(PREEMPT_PATH).ok().as_deref(), &version, &command_line, config)
}

fn preempts(state: Option<&str>, version: &str, command_line: &str, config: impl FnOnce() -> String) -> bool {
    // Lazy preemption waits for the clock's next tick, and is the same otherwise.
    const OFTEN: [&str; 2] = ["full", "lazy"];
    if let Some(state) = state {
        return OFTEN.iter().any(|name| state.contains(&format!("({name})")));
    }
    let mut is_dynamic = false;
    for word in version.split([' ', ',']) {
        match word {
            "PREEMPT" | "PREEMPT_RT" | "PREEMPT_LAZY" => return true,
            "PREEMPT_DYNAMIC" => is_dynamic = true,
            _ => {}
        }
    }
    if !is_dynamic {
        return false;
    }
    let mode = command_line.split_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    match mode {
        Some("none" | "voluntary") => false,
        Some(name) if OFTEN.contains(&name) => true,
        _ => config().lines().any(|line| matches!(line, "CONFIG_PREEMPT=y" | "CONFIG_PREEMPT_LAZY=y")),
    }
}

/// Release of the running kernel.
pub fn release() -> String {
    nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default()
}

fn kernel() -> Need {
    kernel_of(&release())
}

fn kernel_of(release: &str) -> Need {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let problem = (version < OLDEST_KERNEL).then(|| {
        let (major, minor) = OLDEST_KERNEL;
        format!("older than {major}.{minor}, the oldest kernel that mcpwarden supports; install a newer one")
    });
    Need { name: "kernel", found: release.to_owned(), problem }
}

fn btf() -> Need {
    let there = Path::new(BTF_PATH).exists();
    Need {
        name: "BTF",
        found: if there { BTF_PATH } else { "none" }.into(),
        problem: (!there)
            .then(|| format!("{BTF_PATH} is missing; boot a kernel with CONFIG_DEBUG_INFO_BTF=y (every large distribution's is)")),
    }
}

fn mounted(path: Option<String>) -> Need {
    Need {
        name: "cgroup v2",
        found: path.clone().unwrap_or_else(|| "none".into()),
        problem: path
            .is_none()
            .then(|| "cgroup v2 is not mounted; mount -t cgroup2 none /sys/fs/cgroup/unified".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_preemption_is_detected() {
        let voluntary = "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y\n";
        let full = "CONFIG_PREEMPT=y\nCONFIG_PREEMPT_DYNAMIC=y\n";
        let dynamic = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1";
        let cases = [
            ("says so", Some("none voluntary (full)\n"), dynamic, "preempt=none", voluntary, true),
            ("says not", Some("none (voluntary) full\n"), dynamic, "preempt=full", full, false),
            ("lazily", Some("full (lazy)\n"), dynamic, "", voluntary, true),
            ("asked to", None, dynamic, "quiet preempt=full", voluntary, true),
            ("asked not to", None, dynamic, "preempt=full preempt=voluntary", full, false),
            ("asked for what there is not", None, dynamic, "preempt=x", full, true),
            ("as it was built", None, dynamic, "quiet", full, true),
            ("as it was built, not", None, dynamic, "quiet", voluntary, false),
            ("real-time", None, "#1 SMP PREEMPT_RT Debian", "", "", true),
            ("always", None, "#1 SMP PREEMPT Thu", "", "", true),
            ("never", None, "#1 SMP Thu", "preempt=full", full, false),
        ];
        for (name, state, version, command_line, config, expected) in cases {
            let found = preempts(state, version, command_line, || config.to_owned());
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn ways_to_neutralize_and_to_deny_differ_under_lockdown() {
        for (way, may_write, expected) in [
            (Some(Way::Lsm), true, ["lsm", "lsm"]),
            (Some(Way::ModifyReturn), true, ["fmod_ret", "fmod_ret"]),
            (Some(Way::ModifyReturn), false, ["none", "fmod_ret"]),
            (None, true, ["none", "none"]),
        ] {
            assert_eq!(ways(way, may_write), expected, "{way:?} {may_write}");
        }
    }

    #[test]
    fn gate_way_follows_the_list_of_modules() {
        for (modules, expected) in [
            (Some("lockdown,capability,landlock,yama,apparmor,bpf"), Way::Lsm),
            (Some("bpf"), Way::Lsm),
            // Ubuntu's default.
            (Some("lockdown,capability,landlock,yama,apparmor"), Way::ModifyReturn),
            (Some("capability,bpfilter"), Way::ModifyReturn),
            (Some(""), Way::ModifyReturn),
            (None, Way::ModifyReturn),
        ] {
            assert_eq!(way_of(modules), expected, "{modules:?}");
        }
    }

    #[test]
    fn old_kernel_releases_are_refused() {
        for (release, good) in [
            ("6.1.0-50-cloud-amd64", true),
            ("6.18.44-fc-v669", true),
            ("5.15.0-101-generic", false),
            ("6.0.12", false),
            ("7.0", true),
            ("", false),
        ] {
            assert_eq!(kernel_of(release).problem.is_none(), good, "{release}");
        }
    }

    #[test]
    fn missing_capabilities_are_listed() {
        for (mask, missing) in [
            ("000001ffffffffff", None),
            (
                "0000000000000000",
                Some("CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH"),
            ),
            ("0000000000281004", None),
            ("000000c000001004", Some("CAP_SYS_PTRACE")),
            ("000000c000080004", Some("CAP_NET_ADMIN")),
        ] {
            let need = privileges_of(&format!("Name:\tx\nCapEff:\t{mask}\n"));
            match missing {
                None => assert_eq!(need.problem, None, "{mask}"),
                Some(names) => {
                    assert!(need.problem.unwrap().starts_with(&format!("missing {names};")), "{mask}")
                }
            }
        }
    }
}
