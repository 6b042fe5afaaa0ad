//! Another configuration while the agent runs: it is in force as a whole, or the previous one stays in force.

use mcpwarden_abi::SOCKET;
use mcpwarden_policy::{
    event::{ConfigRefused, ConfigReloaded},
    http::LINK,
};

use super::{Agent, WATCHING};
use crate::{
    config::{self, StdioEnforcement},
    control::{Answer, Code},
    daemon::reload::{Answering, Finished, Prepared},
    host::process,
    output::escaped,
};

impl Agent {
    /// Begins to read the configuration again. `reason`: why, as it is reported.
    pub(super) fn reload(&mut self, reason: String, answer: Answering) {
        // The service manager waits for an answer to each signal, whatever the outcome.
        self.manager.reloading();
        if !self.reload.request(reason, answer) {
            self.manager.ready(WATCHING);
        }
    }

    /// Puts what was read in force, or reports why that is impossible.
    pub(super) fn reloaded(&mut self, prepared: Option<Result<Prepared, String>>) {
        let Some(finished) = self.reload.finish(prepared) else { return };
        let Finished { path, reason, outcome, answer } = finished;
        let outcome = outcome.and_then(|prepared| self.put_in_force(prepared));
        // By whichever rules are in force now.
        self.deny_found();
        let result = match outcome {
            Ok(config_hash) => {
                // The calls that the new configuration denies are denied before the answer.
                self.renew_gate();
                self.reload.set_outcome(None, self.clock.now());
                let needs_restart = self.reload.needs_restart();
                let reloaded = ConfigReloaded { path, config_hash, reason, needs_restart };
                self.identity = self.measure_identity();
                self.report(reloaded.clone().into());
                self.manager.ready(WATCHING);
                Ok(Answer::Reloaded(Box::new(reloaded)))
            }
            Err(error) => {
                self.reload.set_outcome(Some(error.clone()), self.clock.now());
                let still = format!("the previous configuration stays in force: {}", escaped(&error));
                tracing::error!("{still}");
                self.manager.ready(&format!("{WATCHING}; {still}"));
                let message = format!("the previous configuration stays in force: {error}");
                self.report(ConfigRefused { path, reason, error }.into());
                Err(Code::Unusable.because(message))
            }
        };
        let _ = answer.map(|to| to.send(result));
        process::give_memory_back();
        if let Some((reason, answer)) = self.reload.take_again() {
            self.reload(reason, answer);
        }
    }

    /// Puts another configuration in force: first what may fail, and the whole of it or nothing. Its hash.
    fn put_in_force(&mut self, prepared: Prepared) -> Result<String, String> {
        let Prepared { config, settings, judge, externals, rules, source } = prepared;
        self.namespaces.refusal(&config).map_or(Ok(()), Err)?;
        if config.enforcement.stdio != StdioEnforcement::Observe {
            self.gate.check(&config, &mut self.engine, &self.clock)?;
        }
        let before = self.network.rules().clone();
        let in_their_order: Vec<_> = rules.servers.iter().map(|server| server.id.clone()).collect();
        let listed = self.network.configure(&config, rules, self.kernel.addresses(), &self.clock);
        listed.map_err(|error| error.to_string())?;
        let rest =
            self.reporter.sinks.configure(&config.sinks).and_then(|()| self.listing.configure(&config));
        if let Err(error) = rest {
            // What could be installed before can be again: nothing else has changed.
            let current = self.reload.config();
            if let Err(again) = self.network.configure(current, before, self.kernel.addresses(), &self.clock)
            {
                tracing::error!("network: cannot restore the rules of the previous configuration: {again}");
            }
            return Err(format!("{error:#}"));
        }
        let loaded = self
            .guards
            .configure(&externals)
            .map_err(|error| format!("guards: no thread starts: {error}"))?;
        self.engine.configure(settings, judge);
        for loaded in loaded {
            self.report(loaded.into());
        }
        let servers: Vec<_> = self.engine.servers().collect();
        for (connection, server) in servers {
            if connection.0 & (LINK | SOCKET) == 0 {
                self.confirm(connection, &server);
            }
        }
        self.gate.configure(&config, &mut self.kernel);
        self.prepare_for_tls();
        // An agent that starts with this configuration resumes what is kept only where servers have the numbers that they have
        // after a start.
        let (hash, numbered) = (config::hash(&config), &self.network.rules().servers);
        self.reload.put_in_force(config, source);
        let is_as_new = numbered.iter().map(|server| &server.id).eq(&in_their_order);
        self.kernel.now_keeps(is_as_new.then_some(hash.as_str()));
        Ok(hash)
    }
}
