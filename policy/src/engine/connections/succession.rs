//! Programs that run on a server's connection after its first answer: whether it is still the declared one.

use std::collections::BTreeSet;

use super::{Connections, Stage};
use crate::discovery::undeclared_options;
use crate::engine::config::{Counters, EngineConfig};
use crate::engine::io::Process;
use crate::event::{Identity, ServerExecuted, ServerPreloaded};
use crate::redact::redact_argv;
use crate::terms::ConnectionId;

impl Connections {
    /// A process of a connection has run the last program of its chain. What is to be reported of that: `None` while it is not
    /// yet known to be a server.
    ///
    /// A child that a server hands its standard streams to does not serve while the process lives that does. When that has
    /// ended, whoever ran a program last does.
    pub(in crate::engine) fn executed(
        &mut self,
        id: ConnectionId,
        pid: u32,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> Option<ServerExecuted> {
        let connection = self.get_mut(id).filter(|connection| matches!(connection.stage, Stage::Server))?;
        counters.later_programs += 1;
        connection.later.insert(pid);
        let is_other =
            connection.serving.is_some_and(|serving| serving != pid && connection.live.contains(&serving));
        if !is_other {
            connection.serving = Some(pid);
        }
        self.examine(id, !is_other, config, counters)
    }

    /// The process that serves has ended. What is to be reported, if another one serves now.
    pub(in crate::engine) fn succeeded(
        &mut self,
        id: ConnectionId,
        pid: u32,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> Option<ServerExecuted> {
        let connection = self.get_mut(id)?;
        connection.later.remove(&pid);
        if connection.serving != Some(pid) {
            return None;
        }
        let successor = connection.successor()?.pid;
        connection.serving = Some(successor);
        self.examine(id, true, config, counters)
    }

    /// The variables and the undeclared options that name code to load, of all programs of a declared server.
    pub(in crate::engine) fn preloaded(
        &self,
        id: ConnectionId,
        config: &EngineConfig,
    ) -> Option<ServerPreloaded> {
        let connection = self.get(id).filter(|connection| connection.declared.is_some())?;
        let last = connection.chain.last()?;
        let all = connection.chain.iter().flat_map(|process| &process.code_variables);
        let variables: BTreeSet<&str> = all.copied().collect();
        let declared = connection.declared.as_ref().and_then(|id| config.declaration(id));
        let options = declared.into_iter().flat_map(|declared| {
            let of = |process: &Process| {
                undeclared_options(declared, &process.argv, process.executable.as_deref())
            };
            connection.chain.iter().flat_map(of)
        });
        let options: BTreeSet<&str> = options.collect();
        let [variables, options] =
            [variables, options].map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let executable = last.executable.clone();
        let is_any = !variables.is_empty() || !options.is_empty();
        is_any.then_some(ServerPreloaded { pid: last.pid, executable, variables, options })
    }

    /// Whether what the last program of the chain is, is what the declaration demands. `serves`: whether it is what serves.
    fn examine(
        &mut self,
        id: ConnectionId,
        serves: bool,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> Option<ServerExecuted> {
        let connection = self.get_mut(id)?;
        let before = connection.identity();
        let demanded = connection.declared.as_ref().and_then(|id| config.declaration(id));
        let running = connection.successor().or(connection.chain.last())?;
        let process = running.clone();
        let is_demanded = demanded.is_none_or(|demanded| {
            crate::discovery::is_served_by(demanded, &process.running(connection.adopted))
        });
        if serves {
            connection.is_replaced = connection.declared.is_some() && !is_demanded;
            connection.describe();
        }
        let identity = connection.identity();
        let is_mistaken = before == Identity::Declared && identity == Identity::Derived;
        counters.servers_mistaken += u64::from(is_mistaken);
        if is_mistaken && let Some(declared) = connection.declared.clone() {
            connection.call(declared);
        }
        // Who demands nothing is told nothing.
        demanded.filter(|demanded| !demanded.executables.is_empty())?;
        Some(ServerExecuted {
            pid: process.pid,
            executable: process.executable.clone(),
            argv: redact_argv(&process.argv),
            argv_truncated: process.argv_truncated,
            serves,
            identity,
            mistaken_for: connection.declared.clone().filter(|_| connection.is_replaced),
        })
    }
}
