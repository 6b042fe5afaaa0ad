//! `mcpwarden doctor`: what works on this machine, what does not, why, and how to turn it on.

pub mod tls;

use std::{fs, path::Path};

use comfy_table::{Attribute, Cell, Color};
use mcpwarden_kernel::{Backend, Kernel, MOST_STEPS, ProgramStats, Report, Way, requirements};
use serde::Serialize;
use serde_json::json;

use crate::config::Config;
use crate::host::{cgroup, namespaces::Namespaces, probes};
use crate::output::{print_json_line, print_line, table, table_text};

/// How a row came out.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Works,
    /// Works not, and capture does without.
    Off,
    /// Works not, and capture needs it.
    Broken,
    /// Nothing to judge.
    Fact,
}

#[derive(Serialize)]
struct Row {
    name: String,
    verdict: Verdict,
    detail: String,
}

/// Prints the table, or all of it as one object of JSON. Returns whether capture is possible.
pub fn run(json: bool) -> bool {
    let mut rows: Vec<Row> = requirements::check(cgroup::mounted())
        .into_iter()
        .chain(Namespaces::here().check(&Config::default()))
        .map(|need| Row {
            name: need.name.into(),
            verdict: if need.problem.is_some() { Verdict::Broken } else { Verdict::Works },
            detail: need.problem.unwrap_or(need.found),
        })
        .collect();
    rows.push(security_modules());
    rows.push(lockdown());
    if rows.iter().all(|row| row.verdict != Verdict::Broken) {
        rows.extend(hooks());
    } else {
        rows.push(Row {
            name: "hooks".into(),
            verdict: Verdict::Broken,
            detail: "not tried: first mend what is broken above".into(),
        });
    }
    let possible = rows.iter().all(|row| row.verdict != Verdict::Broken);
    if json {
        print_json_line(&json!({"possible": possible, "rows": rows}));
        return possible;
    }
    print(&rows);
    print_line(if possible {
        "\nCapture works on this machine: mcpwarden run"
    } else {
        "\nCapture does not work on this machine; the rows marked BROKEN say what to do."
    });
    possible
}

fn hooks() -> Vec<Row> {
    let Report { hooks, trampolines, gate, tls, unproven, programs } =
        match Kernel::probe(&cgroup::root(), probes::unable()) {
            Err(error) => {
                return vec![Row {
                    name: "kernel half".into(),
                    verdict: Verdict::Broken,
                    detail: error.to_string(),
                }];
            }
            Ok(report) => report,
        };
    // Without the tracepoint at the exit of system calls the other backend captures, where it works.
    let needed = |hook: &str| !hook.contains(IO_URING) && (hook != SYS_EXIT || trampolines.is_err());
    let works = |hook: &str| hooks.iter().any(|(place, problem)| place == hook && problem.is_none());
    let tracepoints = match works(SYS_EXIT) {
        true => Verdict::Works,
        false if trampolines.is_err() => Verdict::Broken,
        false => Verdict::Off,
    };
    let mut rows: Vec<Row> = hooks
        .into_iter()
        .map(|(hook, problem)| Row {
            verdict: match &problem {
                None => Verdict::Works,
                Some(_) if needed(&hook) => Verdict::Broken,
                Some(_) => Verdict::Off,
            },
            detail: problem.map_or_else(|| purpose(&hook).into(), |problem| problem + advice(&hook)),
            name: hook,
        })
        .collect();
    if !rows.iter().any(|row| row.name.contains(IO_URING)) {
        rows.push(Row {
            name: format!("tp_btf/{IO_URING}"),
            verdict: Verdict::Off,
            detail: "not in this kernel, or in a form that this version does not know: what goes through io_uring is \
                     reported as a gap"
                .into(),
        });
    }
    rows.push(Row {
        name: "raw, UDP-Lite, vsock".into(),
        verdict: Verdict::Off,
        detail: "no kernel has a hook for them: what is sent over such sockets is neither seen nor denied"
            .into(),
    });
    rows.push(Row {
        name: "stdio over a pty or packets".into(),
        verdict: Verdict::Off,
        detail: "messages through a terminal, or a Unix socket of datagrams or sequenced packets, are not captured; \
                 mcp_server_uncaptured names servers that use one"
            .into(),
    });
    rows.push(Row {
        name: "shared memory, named packet sockets".into(),
        verdict: Verdict::Off,
        detail: "messages through shared memory, or a named Unix socket of datagrams or sequenced packets, are neither \
                 captured nor reported; named Unix stream sockets and TCP within this host are captured"
            .into(),
    });
    if let Some(reason) = unproven {
        rows.push(Row {
            name: "proof".into(),
            verdict: Verdict::Fact,
            detail: format!("the kernel does not tell whether what is attached runs: {reason}"),
        });
    }
    rows.extend(head_room(&programs));
    let is_first = Backend::first() == Backend::Trampolines;
    let in_use = |used: bool| if used { "; in use, unless the configuration says otherwise" } else { "" };
    rows.push(Row {
        name: "backend tracepoints".into(),
        verdict: tracepoints,
        detail: format!("captures at the exit of system calls{}", in_use(trampolines.is_err() || !is_first)),
    });
    let (verdict, detail) = match trampolines {
        Ok(places) => {
            let is_silent = places.iter().any(|(_, problem)| problem.is_some());
            for (name, problem) in places {
                if problem.is_none() && rows.iter().any(|row| row.name == name) {
                    continue;
                }
                let verdict = if problem.is_some() { Verdict::Broken } else { Verdict::Works };
                let detail = problem.unwrap_or_else(|| purpose(&name).into());
                rows.push(Row { name, verdict, detail });
            }
            (
                if is_silent { Verdict::Broken } else { Verdict::Works },
                format!(
                    "captures at the exits of the kernel's functions, at a lower cost{}",
                    if is_first { in_use(true) } else { PREEMPTED }
                ),
            )
        }
        Err(reason) => {
            (Verdict::Off, format!("{reason}; the backend tracepoints does the same at a higher cost"))
        }
    };
    rows.push(Row { name: "backend trampolines".into(), verdict, detail });
    rows.push(gate_row(gate));
    rows.push(tls_row(tls));
    rows
}

/// Whether TLS can be read in clients.
fn tls_row(way: Result<&'static str, String>) -> Row {
    let (verdict, detail) = match way {
        Ok(way) => (
            Verdict::Works,
            format!("reads connections in the memory of clients, as `capture.tls` says ({way})"),
        ),
        Err(reason) => (Verdict::Off, format!("{reason}: connections over TLS are reported, and not read")),
    };
    Row { name: "TLS".into(), verdict, detail }
}

/// Whether calls can be stopped.
fn gate_row(gate: Result<Vec<(String, Option<String>)>, String>) -> Row {
    let silent = |places: Vec<(String, Option<String>)>| {
        places.into_iter().find_map(|(place, problem)| Some(format!("{place}: {}", problem?)))
    };
    let way = gate.and_then(|places| match silent(places) {
        Some(problem) => Err(problem),
        None => Ok(requirements::gate_way()),
    });
    let [neutralize, deny] = requirements::ways_of(way.as_ref().ok().copied());
    let ways = format!("(neutralize: {neutralize}, deny: {deny})");
    let (verdict, detail) = match way {
        Ok(way) => {
            let blunt = if requirements::may_write_memory() { "" } else { BLUNT };
            let is_skipped = way == Way::ModifyReturn && requirements::preempts_itself();
            let skipped = if is_skipped { SKIPPED } else { "" };
            let detail = format!(
                "stops calls that the policy denies, with `enforcement.stdio` {ways}{blunt}{skipped}"
            );
            (Verdict::Works, detail)
        }
        Err(reason) => {
            let detail =
                format!("{reason}: calls that the policy denies are reported and not stopped {ways}");
            (Verdict::Off, detail)
        }
    };
    Row { name: "gate".into(), verdict, detail }
}

/// How far the programs are from what the verifier gives up at.
fn head_room(programs: &[ProgramStats]) -> Option<Row> {
    let largest = programs.iter().max_by_key(|program| program.verified_steps)?;
    let (name, most) = (&largest.name, largest.verified_steps);
    // A kernel that does not say.
    if most == 0 {
        return None;
    }
    let all: u64 = programs.iter().map(|program| program.verified_steps).sum();
    let detail = format!(
        "takes {most} steps for the largest program ({name}) and gives up at {MOST_STEPS}; {all} for all {}",
        programs.len()
    );
    Some(Row { name: "verifier".into(), verdict: Verdict::Fact, detail })
}

/// Why the cheaper backend is not the first.
const PREEMPTED: &str = "; this kernel preempts itself (preempt=full), where such programs are left out at times, so it is not in \
                         use unless the configuration says so";
/// Where the memory of processes may not be written.
const BLUNT: &str =
    "; they are refused, not neutralized: that takes CAP_SYS_ADMIN and a kernel that is not locked down";
/// Where the kernel leaves out programs of one of the gate's ways.
const SKIPPED: &str =
    "; this kernel preempts itself (preempt=full), where it skips such programs at times (missed_write)";
const IO_URING: &str = "io_uring_complete";
const SYS_EXIT: &str = "tp_btf/sys_exit";

/// What to do where a hook does not work.
fn advice(hook: &str) -> &'static str {
    let mounted = || {
        ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .iter()
            .any(|at| Path::new(at).join("events").is_dir())
    };
    match hook.split('/').next().unwrap_or_default() {
        "tracepoint" if !mounted() => "; mount -t tracefs none /sys/kernel/tracing",
        "cgroup" => "; boot a kernel with CONFIG_CGROUP_BPF=y",
        "tp_btf" | "iter" => "; boot a kernel with CONFIG_BPF_EVENTS=y and CONFIG_DEBUG_INFO_BTF=y",
        _ => "",
    }
}

fn purpose(hook: &str) -> &'static str {
    match hook.rsplit('/').next().unwrap_or_default() {
        "sched_prepare_exec" | "begin_new_exec" | "sys_enter_execve" | "sys_enter_execveat" => {
            "sees programs before they run, so that no first message is missed"
        }
        "sched_process_exec" => "sees programs and their command lines",
        "sched_process_fork" => "follows descriptors into children",
        "sched_process_exit" => "sees servers end",
        "sys_exit" => "captures what clients write and read",
        "io_uring_complete" => "captures what goes through io_uring",
        "pipe_write" | "anon_pipe_write" | "fifo_pipe_write" => "captures what clients write to pipes",
        "pipe_read" | "anon_pipe_read" | "fifo_pipe_read" => "captures what clients read from pipes",
        "unix_stream_sendmsg" | "unix_stream_recvmsg" => "captures what goes through Unix sockets",
        "inet_sendmsg" | "inet_recvmsg" => "captures what goes through TCP over IPv4",
        "inet6_sendmsg" | "inet6_recvmsg" => "captures what goes through TCP over IPv6",
        call if call.contains("_sys_") => "counts what goes by without being in a client's memory",
        "connect4" | "connect6" => {
            "sees and denies connections (TCP with MPTCP and fast open, UDP, io_uring)"
        }
        "sendmsg4" | "sendmsg6" => "sees and denies datagrams that are sent without a connection",
        "sock_release" => "sees the ends of TCP connections whose bytes are captured",
        "task_file" => "finds servers that already run, and who holds which channel",
        _ => "",
    }
}

fn security_modules() -> Row {
    let (verdict, detail) = match requirements::security_modules() {
        Some(list) if requirements::has_programs(&list) => (Verdict::Works, list),
        Some(list) => (
            Verdict::Fact,
            format!(
                "{list}: without bpf; the gate uses {} instead of {} (to change that, boot with lsm={list},bpf)",
                Way::ModifyReturn.name(),
                Way::Lsm.name()
            ),
        ),
        None => (
            Verdict::Fact,
            "unknown: securityfs is not mounted (mount -t securityfs none /sys/kernel/security)".to_owned(),
        ),
    };
    Row { name: "security modules".into(), verdict, detail }
}

fn lockdown() -> Row {
    let path = Path::new("/sys/kernel/security/lockdown");
    let (verdict, detail) = match fs::read_to_string(path) {
        Ok(text) if text.contains("[confidentiality]") => (
            Verdict::Broken,
            "confidentiality: the kernel lets nobody read its memory or a program's; boot with lockdown=integrity"
                .to_owned(),
        ),
        Ok(text) => (Verdict::Works, text.trim().to_owned()),
        Err(_) => (Verdict::Fact, "unknown: securityfs is not mounted".to_owned()),
    };
    Row { name: "lockdown".into(), verdict, detail }
}

fn print(rows: &[Row]) {
    let colour = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let mut table = table(["what", "", "detail"]);
    for row in rows {
        let (word, shade) = match row.verdict {
            Verdict::Works => ("works", Some(Color::Green)),
            Verdict::Off => ("off", Some(Color::Yellow)),
            Verdict::Broken => ("BROKEN", Some(Color::Red)),
            Verdict::Fact => ("–", None),
        };
        let mut verdict = Cell::new(word);
        if let Some(shade) = shade.filter(|_| colour) {
            verdict = verdict.fg(shade).add_attribute(Attribute::Bold);
        }
        table.add_row([Cell::new(&row.name), verdict, Cell::new(&row.detail)]);
    }
    print_line(table_text(&table));
}
