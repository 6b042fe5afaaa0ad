//! What is known of the tools of one connection.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Connection;
use crate::engine::heads::Repeated;
use crate::event::Detection;
use crate::guard::ToolFacts;
use crate::mutes::{MuteSubject, Mutes};
use crate::terms::PinKey;

impl Connection {
    /// Remembers what is known of a tool, in place of what was.
    pub(in crate::engine) fn know(&mut self, facts: ToolFacts) {
        self.forget_tool(&facts.name);
        self.tools_bytes += tool_bytes(&facts);
        self.tools.insert(facts.name.clone(), facts);
    }

    /// Remembers which parameters of a tool are repeated in heads, in place of what was, of at most `limit` tools.
    pub(in crate::engine) fn know_repeated(
        &mut self,
        name: &Arc<str>,
        repeated: Vec<Repeated>,
        limit: usize,
    ) {
        if let Some(before) = self.repeated.remove(name) {
            self.tools_bytes -= repeated_bytes(name, &before);
        }
        if !repeated.is_empty() && self.repeated.len() < limit {
            self.tools_bytes += repeated_bytes(name, &repeated);
            self.repeated.insert(Arc::clone(name), repeated);
        }
    }

    /// What is known of a tool: from its list, else from before.
    pub(in crate::engine) fn tool(&self, name: &str) -> Option<&ToolFacts> {
        self.tools.get(name).or_else(|| self.unlisted.get(name))
    }

    /// The guards that hold a tool until they have judged it.
    pub(in crate::engine) fn set_unjudged(&mut self, name: &str, holders: Vec<Arc<str>>) {
        let known = self.tools.get_mut(name).or_else(|| self.unlisted.get_mut(name));
        if let Some(facts) = known {
            facts.unjudged = holders;
        }
    }

    /// Remembers what is known from before of a tool that is not listed.
    pub(in crate::engine) fn know_unlisted(&mut self, facts: ToolFacts) {
        self.tools_bytes += tool_bytes(&facts);
        let before = self.unlisted.insert(facts.name.clone(), facts);
        self.tools_bytes -= before.as_ref().map_or(0, tool_bytes);
    }

    /// Gives up what is remembered of tools: the pins tell it again.
    pub(in crate::engine) fn forget_unlisted(&mut self) {
        let remembered = std::mem::take(&mut self.unlisted);
        self.tools_bytes -= remembered.values().map(tool_bytes).sum::<usize>();
    }

    /// A tool is listed no more. Where its name has something against it that nobody approved, that is remembered, since it
    /// can be called nonetheless; all else the pin tells (see `evaluator::unlisted`).
    pub(in crate::engine) fn unlist_tool(&mut self, name: &str) {
        match self.tools.get_mut(name) {
            Some(facts) if !facts.approved && facts.shadows.is_some() => facts.removed = true,
            _ => self.forget_tool(name),
        }
    }

    /// Whether a definition was not reported of this connection; it is then. It is remembered among at most `limit`.
    pub(in crate::engine) fn is_news(
        &mut self,
        name: &str,
        hash: &str,
        limit: usize,
        overflow: &mut u64,
    ) -> bool {
        let digest = digest(name, hash);
        if self.reported.contains(&digest) {
            return false;
        }
        if self.reported.len() < limit {
            self.reported.insert(digest);
        } else {
            *overflow += 1;
        }
        true
    }

    /// Whether the server has listed this resource.
    pub(in crate::engine) fn lists_resource(&self, uri: &str) -> bool {
        self.reported.contains(&digest(RESOURCE, uri))
    }

    /// How many tools are listed.
    pub(in crate::engine) fn listed_tools(&self) -> usize {
        self.tools.values().filter(|facts| !facts.removed).count()
    }

    /// Something more was found about a tool.
    pub(in crate::engine) fn find_in_tool(&mut self, name: &str, found: &Detection) {
        if let Some(mut facts) = self.tools.get(name).cloned() {
            facts.max_severity = facts.max_severity.max(Some(found.severity));
            facts.detections.push(found.clone());
            self.know(facts);
        }
    }

    /// Marks what was found about tools with the mutes that are in force by now.
    pub(in crate::engine) fn mark_tools(&mut self, mutes: &Mutes) {
        let key = self.pin_key(&self.server_id());
        for facts in self.tools.values_mut().chain(self.unlisted.values_mut()) {
            mark(facts, &key, mutes);
        }
    }

    /// The same of one tool.
    pub(in crate::engine) fn mark_tool(&mut self, name: &str, mutes: &Mutes) {
        let key = self.pin_key(&self.server_id());
        if let Some(facts) = self.tools.get_mut(name) {
            mark(facts, &key, mutes);
        }
    }

    pub(in crate::engine) fn forget_tool(&mut self, name: &str) {
        if let Some(known) = self.tools.remove(name) {
            self.tools_bytes -= tool_bytes(&known);
        }
        if let Some((name, repeated)) = self.repeated.remove_entry(name) {
            self.tools_bytes -= repeated_bytes(&name, &repeated);
        }
    }
}

/// Without detections, the worst may be all that is known.
fn mark(facts: &mut ToolFacts, key: &PinKey, mutes: &Mutes) {
    if !facts.detections.is_empty() {
        let subject = MuteSubject { key, tool: Some(&facts.name), hash: Some(&facts.hash) };
        mutes.mark(&subject, &mut facts.detections);
        facts.max_severity = Detection::worst(&facts.detections);
    }
}

fn repeated_bytes(name: &str, repeated: &[Repeated]) -> usize {
    name.len() + repeated.iter().map(Repeated::bytes).sum::<usize>()
}

/// Memory that the facts of a tool take, about.
fn tool_bytes(facts: &ToolFacts) -> usize {
    /// Evidence is bounded; most of it is short.
    const DETECTION_BYTES: usize = 512;
    size_of::<ToolFacts>() + 3 * facts.name.len() + 64 + facts.detections.len() * DETECTION_BYTES
}

/// Under which name the resources that a server lists are remembered: their URIs stand for the hash.
pub(in crate::engine) const RESOURCE: &str = "resource";

fn digest(name: &str, hash: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    let whole = Sha256::new().chain_update(hash.as_bytes()).chain_update(name.as_bytes()).finalize();
    for (slot, byte) in digest.iter_mut().zip(whole) {
        *slot = byte;
    }
    digest
}
