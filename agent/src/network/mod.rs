//! Where processes connect: rules and names become the kernel half's tables, its records become the policy core's input.

mod blocks;
mod dns;
mod found;
mod install;
mod listeners;
mod names;
mod opened;
mod packet_sockets;
mod resolver;
mod sockets;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use mcpwarden_abi::{
    self as abi, BECAUSE_BLOCKED, BECAUSE_DEFAULT, BECAUSE_DENIED, BECAUSE_EGRESS, ConnectInfo, RecordHeader,
    SET_ALL, SocketInfo,
};
use mcpwarden_capture::socket::Connected;
use mcpwarden_kernel::{
    KernelError,
    addresses::{Addresses, InstallError},
};
use mcpwarden_policy::{
    Connect, ConnectionId, Process, ServerAddress, ServerId,
    config::Config,
    event::{Family, Protocol},
    glob::GlobError,
    guards::ServerDenials,
    network::{NetworkRules, Table, TableFull, Verdict, names_of, reached},
};
use nix::libc;
use tokio::task::JoinHandle;

use crate::host::{cgroup, clock::Clock, process};
pub use blocks::{BlockError, BlockRequest, Standing, Who, text};
use dns::Dns;
use found::FoundServers;
use install::{flags, over_tls, ttl};
use listeners::Listeners;
use names::Names;
pub use opened::Belonging;
use opened::{Flow, Opened};
use resolver::{Answer, Found};

/// Generations of the table whose numbers are still understood: their records may lie in the ring.
const GENERATIONS: usize = 8;
/// Cgroups, and processes, of which something is remembered.
const REMEMBERED: usize = 1024;

/// Why rules do not become the kernel's.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// They are too many.
    #[error(transparent)]
    Full(#[from] TableFull),
    /// The kernel's tables refuse.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The kernel half.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A glob of the configuration is none.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// The network namespace of the agent has no number.
    #[error("cannot determine the network namespace: {0}")]
    Namespace(std::io::Error),
}

/// What was refused or failed, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkCounters {
    /// Names that could not be resolved, each time.
    pub names_unanswered: u64,
    /// Addresses that were one too many for their name.
    pub name_addresses_refused: u64,
    /// Tables that were not installed: the one before still counts.
    pub tables_refused: u64,
    /// Network namespaces in which what was open to denied addresses could not be looked for, each time.
    pub closings_failed: u64,
    /// Connections that were open when the agent started and for which there was no room.
    pub adopted_unreported: u64,
    /// Questions to name servers and answers that were not seen, for want of room.
    pub dns_missed: u64,
    /// Servers that nobody declared and that were not remembered, each time one answered: there were too many.
    pub found_refused: u64,
    /// Servers that are spoken to in lines, whose process was not looked for, each time: too many were just before.
    pub listeners_skipped: u64,
    /// Blocks by hand that did not fit.
    pub blocks_refused: u64,
    /// Connections that were judged by a table that is forgotten: their rule cannot be told.
    pub judged_by_forgotten: u64,
}

/// All that is known of where processes may connect.
pub struct Network {
    rules: NetworkRules,
    blocks: Vec<Standing>,
    denials: ServerDenials,
    /// Servers that nobody declared, where they answered.
    found: FoundServers,
    /// Who listens where clients speak in lines.
    listeners: Listeners,
    names: Names,
    /// What addresses are called, where that can be listened to.
    dns: Option<Dns>,
    servers: Vec<SocketAddr>,
    flags: u32,
    /// Whether connections over TLS to declared servers are read.
    over_tls: bool,
    netns_cookie: u64,
    /// By generation, the latest last.
    tables: VecDeque<(u32, Arc<Table>)>,
    /// Sockets are being looked for that are open.
    looking: Option<JoinHandle<std::io::Result<Opened>>>,
    /// While it is not known what was open before the agent: what was connected since.
    since_start: Option<HashSet<Flow>>,
    /// Only processes of a part of the cgroups are judged.
    partial: bool,
    /// The generation for which they were looked for last.
    closed_for: u32,
    /// Names that are being resolved.
    resolving: Option<JoinHandle<Vec<(String, Answer)>>>,
    /// Paths of cgroups by number, and parents of processes.
    cgroups: HashMap<u64, Option<String>>,
    ancestors: HashMap<(u32, u64), Vec<u32>>,
    counters: NetworkCounters,
    reported: Vec<String>,
}

impl Network {
    /// The rules of a configuration. Nothing is asked or installed yet.
    ///
    /// # Errors
    /// The network namespace has no number, or a glob is none.
    pub fn new(config: &Config, rules: NetworkRules) -> Result<Self, NetworkError> {
        let settings = &config.network;
        let flags = flags(config, &rules);
        Ok(Self {
            names: Names::new(names_of(&rules, &[]), ttl(config), Instant::now()),
            dns: settings.resolver.listen.then(|| listen(&settings.resolver.name_servers())).flatten(),
            servers: settings.resolver.name_servers(),
            rules,
            blocks: Vec::new(),
            denials: ServerDenials::new(config)?,
            found: FoundServers::default(),
            listeners: Listeners::default(),
            flags,
            over_tls: over_tls(config),
            netns_cookie: sockets::netns_cookie().map_err(NetworkError::Namespace)?,
            tables: VecDeque::new(),
            looking: None,
            since_start: settings.cgroup_path.is_none().then(HashSet::new),
            partial: settings.cgroup_path.is_some(),
            closed_for: 0,
            resolving: None,
            cgroups: HashMap::new(),
            ancestors: HashMap::new(),
            counters: NetworkCounters::default(),
            reported: Vec::new(),
        })
    }

    /// Says on standard error what was not said with the table before.
    fn warn_anew(&mut self, notes: &[String]) {
        for note in notes.iter().filter(|note| !self.reported.contains(note)) {
            tracing::warn!("network: {note}");
        }
        self.reported = notes.to_vec();
    }

    /// Which set of rules holds for the processes of a server.
    pub fn set_of(&self, server: &ServerId) -> u16 {
        let set = self.tables.back().map_or(0, |(_, table)| table.set_of(server));
        u16::try_from(set).unwrap_or(SET_ALL)
    }

    /// What it goes by.
    pub fn rules(&self) -> &NetworkRules {
        &self.rules
    }

    /// Whether names are being resolved.
    pub fn is_resolving(&self) -> bool {
        self.resolving.is_some()
    }

    /// Begins to resolve the names that are due.
    pub fn resolve(&mut self) {
        let due = self.names.due(Instant::now());
        if self.resolving.is_none() && !due.is_empty() {
            let servers = self.servers.clone();
            self.resolving = Some(tokio::spawn(async move { resolver::resolve(due, &servers).await }));
        }
    }

    /// Waits for what is being resolved or looked for; for ever where nothing is.
    pub async fn update(&mut self) -> NetworkUpdate {
        tokio::select! {
            // They end before they are done only where the runtime ends.
            answers = finished(&mut self.resolving) => NetworkUpdate::Answers(answers.unwrap_or_default()),
            opened = finished(&mut self.looking) => NetworkUpdate::Opened(self.looked(opened)),
        }
    }

    /// Takes in what names have, and installs a table where that changes anything.
    pub fn answered(&mut self, answers: Vec<(String, Answer)>, addresses: &mut Addresses, clock: &Clock) {
        if self.take(answers) {
            match self.install(addresses, clock) {
                Ok(()) => self.close(clock),
                Err(error) => tracing::error!("network: {error}; the previous rules stay in force"),
            }
        }
    }

    /// Whether any name has other addresses than before.
    fn take(&mut self, answers: Vec<(String, Answer)>) -> bool {
        let now = Instant::now();
        let mut changed = false;
        for (name, answer) in answers {
            match answer {
                Ok(Found { addresses, ttl, silent: [four, six] }) => {
                    let silent = |ip: IpAddr| if ip.is_ipv4() { four } else { six };
                    changed |= self.names.answered(&name, &addresses, ttl, silent, now);
                }
                Err(why) => {
                    tracing::error!("network: cannot resolve {name}: {why}");
                    self.names.failed(&name, now);
                }
            }
        }
        self.counters.names_unanswered = self.names.failures();
        self.counters.name_addresses_refused = self.names.refused();
        changed
    }

    /// Takes in the answers of name servers that were sniffed.
    pub fn sniff(&mut self) {
        if let Some(dns) = &mut self.dns {
            // The host's may be others by now.
            dns.trust(&self.servers);
            dns.follow();
            dns.receive(dns::MANY);
            self.counters.dns_missed = dns.missed();
            let now = Instant::now();
            dns.news().for_each(|(name, address)| self.names.heard(&name, address, now));
        }
    }

    /// What was refused or failed so far.
    pub fn counters(&self) -> NetworkCounters {
        self.counters
    }

    /// Who has connected to what may be a server, by a record of the kernel half. `None` of what the agent itself does.
    pub fn connected(&mut self, header: &RecordHeader, info: &SocketInfo) -> Option<Connected> {
        let SocketInfo { connect: info, listener } = info;
        if header.pid == std::process::id() {
            return None;
        }
        let mut client = self.process(header, info);
        process::complete(&mut client);
        if i32::from(info.family) == libc::AF_UNIX {
            let (address, netns) = (ServerAddress::Unix(unix_name(listener)), self.elsewhere(info));
            return Some(Connected {
                key: header.offset,
                endpoint: abi::Endpoint::default(),
                server: self.listener(listener.pid, &address, netns, header.pid),
                client,
                address,
                is_in_lines: header.flags & abi::FLAG_LINES != 0,
                is_over_tls: false,
                adopted: header.flags & abi::FLAG_ADOPTED != 0,
                netns,
                declared: Vec::new(),
                is_model: false,
            });
        }
        let table = self.tables.iter().find(|(generation, _)| *generation == info.generation);
        self.counters.judged_by_forgotten += u64::from(table.is_none());
        let ip = IpAddr::V6(Ipv6Addr::from(info.address)).to_canonical();
        let address = SocketAddr::new(ip, info.port);
        let (is_in_lines, netns) = (header.flags & abi::FLAG_LINES != 0, self.elsewhere(info));
        // Nobody has looked up where one leads that was open before the agent.
        let adopted = header.flags & abi::FLAG_ADOPTED != 0;
        let may_be_declared = info.server != 0 || adopted && netns.is_none();
        let known = table.filter(|_| may_be_declared).map(|(_, table)| {
            // The table has one of those that share an address.
            let names = self.names.addresses();
            let all = table.servers().iter().filter(|server| server.is_at(address, &names));
            all.collect::<Vec<_>>()
        });
        let known = known.unwrap_or_default();
        let declared =
            known.iter().filter(|server| !server.is_model).map(|server| server.id.clone()).collect();
        let is_model = known.iter().any(|server| server.is_model);
        Some(Connected {
            key: header.offset,
            endpoint: abi::Endpoint {
                netns_cookie: info.netns_cookie,
                address: match reached(ip) {
                    IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
                    IpAddr::V6(six) => six.octets(),
                },
                port: info.port,
                zero: [0; 3],
            },
            client,
            server: (is_in_lines.then(|| self.listener(listener.pid, &address.into(), netns, header.pid)))
                .flatten(),
            address: address.into(),
            is_in_lines,
            is_over_tls: header.flags & abi::FLAG_TLS != 0,
            adopted,
            netns,
            declared,
            is_model,
        })
    }

    /// The process that listens at an address to which `client` has connected: as the kernel half says (`pid`, 0 where it does
    /// not), unless that listens for others or is gone.
    fn listener(
        &mut self,
        pid: u32,
        address: &ServerAddress,
        netns: Option<u64>,
        client: u32,
    ) -> Option<Process> {
        let told = (pid > 1).then(|| process::of(pid)).filter(|told| told.start_ns != 0);
        let found = told.or_else(|| self.listeners.at(address, netns, client));
        self.counters.listeners_skipped = self.listeners.skipped;
        found
    }

    /// What a record of the kernel half says, for the policy core. `None` of what the agent itself does.
    pub fn connect(&mut self, header: &RecordHeader, info: &ConnectInfo, clock: &Clock) -> Option<Connect> {
        if header.pid == std::process::id() {
            return None;
        }
        let address = IpAddr::V6(Ipv6Addr::from(info.address)).to_canonical();
        let protocol = match i32::from(info.protocol) {
            libc::IPPROTO_TCP => Protocol::Tcp,
            libc::IPPROTO_UDP => Protocol::Udp,
            _ => Protocol::Other(info.protocol),
        };
        self.connected_since((header.pid, SocketAddr::new(address, info.port), protocol));
        let process = self.process(header, info);
        let table = self.tables.iter().find(|(generation, _)| *generation == info.generation);
        self.counters.judged_by_forgotten += u64::from(table.is_none());
        let table = table.map(|(_, table)| table);
        let rule = table.and_then(|table| table.rules().get(index(info.rule)?));
        let server = table.and_then(|table| table.servers().get(index(info.server)?));
        let server = server.filter(|server| !server.is_model);
        let reason = match info.because {
            BECAUSE_DENIED | BECAUSE_BLOCKED => rule.map(ToString::to_string),
            BECAUSE_EGRESS => Some("the server's egress does not name it".to_owned()),
            BECAUSE_DEFAULT => {
                Some("network.default is deny, and no rule of network.allow names it".to_owned())
            }
            _ => None,
        };
        Some(Connect {
            time: clock.wall(header.time_ns),
            connection: (header.connection != 0).then_some(ConnectionId(header.connection)),
            process,
            address,
            port: info.port,
            protocol,
            family: match i32::from(info.family) {
                libc::AF_INET => Family::Ipv4,
                _ => Family::Ipv6,
            },
            name: self.dns.as_mut().and_then(|dns| dns.name_of(address)),
            server: server.map(|server| (server.id.clone(), server.kind)),
            verdict: if info.verdict == abi::VERDICT_DENY { Verdict::Deny } else { Verdict::Allow },
            enforced: info.enforced != 0,
            reason,
            adopted: false,
            netns: self.elsewhere(info),
        })
    }

    /// The network namespace of a socket, of another than the agent's.
    fn elsewhere(&self, info: &ConnectInfo) -> Option<u64> {
        (info.netns_cookie != self.netns_cookie).then_some(info.netns_cookie)
    }

    /// Who connects. What stays the same is asked for once, since a process may connect thousands of times a second.
    fn process(&mut self, header: &RecordHeader, info: &ConnectInfo) -> Process {
        let start_ns = process::coarse(info.start_ns);
        Process {
            pid: header.pid,
            start_ns,
            uid: Some(info.uid),
            cgroup_id: Some(info.cgroup_id),
            cgroup: remembered(&mut self.cgroups, info.cgroup_id, || cgroup::path_of(info.cgroup_id)),
            executable: process::executable(header.pid),
            ancestors: remembered(&mut self.ancestors, (header.pid, start_ns), || {
                process::ancestors(header.pid)
            }),
            ..Process::default()
        }
    }
}

/// The name of a Unix socket, as `ss` and `systemd` write it: an abstract one begins with `@`.
fn unix_name(listener: &abi::Listener) -> String {
    let length = usize::try_from(listener.length).unwrap_or_default();
    let name = listener.name.get(..length).unwrap_or_default();
    match name {
        [0, name @ ..] => format!("@{}", String::from_utf8_lossy(name)),
        path => {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(path).into_owned()
        }
    }
}

/// Listens to name servers; says why not where that cannot be.
fn listen(servers: &[SocketAddr]) -> Option<Dns> {
    let dns = Dns::listen().map(|mut dns| {
        dns.trust(servers);
        dns
    });
    if let Err(error) = &dns {
        tracing::warn!(
            "network: cannot sniff answers of name servers ({error}; CAP_NET_RAW is required), so events name no \
             destinations; network.resolver.listen: false turns this warning off"
        );
    }
    dns.ok()
}

/// What was found for a key before, or is found now.
fn remembered<K: Eq + std::hash::Hash, V: Clone>(
    known: &mut HashMap<K, V>,
    key: K,
    find: impl FnOnce() -> V,
) -> V {
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.entry(key).or_insert_with(find).clone()
}

/// What the network has found out.
pub enum NetworkUpdate {
    /// What names have.
    Answers(Vec<(String, Answer)>),
    /// What was open.
    Opened(Opened),
}

/// Waits for a task that runs, `None` where it did not end well; for ever where none runs.
pub async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    let Some(running) = task else { return std::future::pending().await };
    let result = running.await;
    *task = None;
    result.ok()
}

/// The place in a list that the kernel half counts from 1.
fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}
