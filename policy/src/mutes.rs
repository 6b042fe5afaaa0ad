//! Mutes: detections that are recorded, and are no alerts, by rule, server and tool.
//!
//! An entry of `inspection.muted` names what it mutes by globs, an operator by the id of a server and the name of a tool;
//! rules are globs in both. An operator's mute of a server is for the server of one owner (user and program), as its pins
//! are, and one of a tool for one definition of it unless it is said to be for any: what changes is reported again.
//!
//! [`Mutes::mark`] writes the mute that applies into each detection ([`Detection::muted_by`]). What is known of tools is
//! marked when it is learned, and again when mutes change, so that no call has to look anything up. A mute ends at its
//! time, once: a clock that goes back does not bring it back.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::config::{Glob, MutedDetections, is_every_rule};
use crate::definition::{bounded_name, hex};
use crate::event::{Mute, MuteSource, MutedBy, Whose};
use crate::glob::{GlobError, NameGlob};
use crate::terms::{Detection, PinKey, ServerId, Timestamp};

/// Most mutes of operators that are in force at once.
pub const MAX_BY_HAND: usize = 256;
/// Longest reason. Bytes.
pub const MAX_REASON_BYTES: usize = 1_024;
/// Digits of the hash that a mute is called by.
const ID_DIGITS: usize = 12;

/// Why something is not muted, or not unmuted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MuteError {
    /// It says neither which rules, nor which server or tool, or stands for all of them.
    #[error("it mutes every rule of every server; name a rule, a server or a tool")]
    TooBroad,
    /// The rule is no glob.
    #[error(transparent)]
    Glob(#[from] GlobError),
    /// The reason is missing or too long.
    #[error("the reason has {0} bytes; expected 1 to {MAX_REASON_BYTES}")]
    Reason(usize),
    /// It would be over at once.
    #[error("it ends at {0}, which is over")]
    Over(Timestamp),
    /// There are as many as may be.
    #[error("{MAX_BY_HAND} mutes are in force, and no more fit; `mcpwarden detections unmute` ends one")]
    Full,
    /// There is no such mute.
    #[error("there is no mute {0}; `mcpwarden detections muted` lists them")]
    Unknown(String),
    /// It stands in the configuration.
    #[error("{0} is an entry of `inspection.muted`; remove it from the configuration")]
    Configured(String),
    /// One definition of a tool is meant, and no server is named whose tool it is.
    #[error("a mute of one definition of a tool needs its server; name it, or mute any definition")]
    NoServer,
    /// The hash of a definition is given, and no one definition is meant.
    #[error("a hash is that of one definition of a tool; name the tool, and not any definition")]
    NoDefinition,
    /// Without a tool, there is no definition.
    #[error("any definition is said of a tool; name the tool")]
    NoTool,
}

/// What a detection is about, as mutes name it.
#[derive(Clone, Copy, Debug)]
pub struct MuteSubject<'a> {
    /// The server, and whose it is.
    pub key: &'a PinKey,
    /// The tool, where it is about one.
    pub tool: Option<&'a str>,
    /// The hash of the definition that this tool has.
    pub hash: Option<&'a str>,
}

/// A mute, compiled.
#[derive(Clone, Debug)]
struct Entry {
    mute: Mute,
    id: Arc<str>,
    rule: NameGlob,
    server: NameGlob,
    tool: Option<NameGlob>,
}

impl Entry {
    fn new(mute: Mute) -> Result<Self, GlobError> {
        let glob = |text: &Option<String>| {
            text.as_deref().map_or_else(|| Ok(NameGlob::any()), |text| NameGlob::new(text, true))
        };
        let name = |text: &Option<String>| match mute.source {
            MuteSource::Configuration => glob(text),
            MuteSource::Operator => Ok(text.as_deref().map_or_else(NameGlob::any, NameGlob::plain)),
        };
        let tool = mute.tool.as_ref().map(|_| name(&mute.tool)).transpose()?;
        let (rule, server) = (glob(&mute.rule)?, name(&mute.server)?);
        Ok(Self { id: mute.mute_id.as_str().into(), rule, server, tool, mute })
    }

    /// Whether it is for detections of some rule in this.
    fn is_of(&self, subject: &MuteSubject<'_>) -> bool {
        let MuteSubject { key, tool, hash } = subject;
        let Mute { whose, tool_hash, .. } = &self.mute;
        self.server.matches(&key.server.0)
            && whose.uid.is_none_or(|uid| key.uid == Some(uid))
            && whose.program.as_ref().is_none_or(|program| key.program == *program)
            && self.tool.as_ref().is_none_or(|glob| {
                tool.is_some_and(|tool| glob.matches(tool) || glob.matches(&bounded_name(tool)))
            })
            && tool_hash.as_ref().is_none_or(|only| *hash == Some(only))
    }

    /// Whether it is over.
    fn is_over(&self, now: Timestamp) -> bool {
        self.mute.until.is_some_and(|until| until <= now)
    }

    /// Whether both are for the same, so that the later one takes the place of the earlier.
    fn is_like(&self, other: &Mute) -> bool {
        let Mute { rule, server, whose, tool, tool_hash, .. } = &self.mute;
        (rule, server, whose, tool, tool_hash)
            == (&other.rule, &other.server, &other.whose, &other.tool, &other.tool_hash)
    }
}

/// All mutes that are in force.
#[derive(Debug, Default)]
pub struct Mutes {
    configured: Vec<Entry>,
    by_hand: Vec<Entry>,
    /// The latest time that was seen. A mute that was over then is over.
    latest: Option<Timestamp>,
}

impl Mutes {
    /// Those of a configuration are in force from now on, in place of those before. Whether that changes anything.
    ///
    /// # Errors
    /// One has a text that is no glob, which [`parse`](crate::config::parse) does not let through; it is left out.
    pub fn configure(&mut self, mutes: &[Mute]) -> Result<bool, GlobError> {
        let mut faulty = None;
        let compiled = mutes.iter().cloned().map(Entry::new).filter_map(|entry| match entry {
            Ok(entry) => Some(entry),
            Err(error) => {
                faulty = Some(error);
                None
            }
        });
        let latest = self.latest;
        let is_due = |entry: &Entry| latest.is_none_or(|latest| !entry.is_over(latest));
        let fresh: Vec<Entry> = compiled.filter(is_due).collect();
        let ids = |entries: &[Entry]| entries.iter().map(|entry| Arc::clone(&entry.id)).collect::<Vec<_>>();
        let is_changed = ids(&fresh) != ids(&self.configured);
        self.configured = fresh;
        faulty.map_or(Ok(is_changed), Err)
    }

    /// Those of operators that an agent before kept.
    pub fn restore(&mut self, kept: Vec<Mute>) {
        self.by_hand = kept.into_iter().filter_map(|mute| Entry::new(mute).ok()).take(MAX_BY_HAND).collect();
    }

    /// Whether this may be muted at `now`, and there is room for it. The id of the mute that it takes the place of, if any.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, mute: &Mute, now: Timestamp) -> Result<Option<String>, MuteError> {
        if mute.reason.trim().is_empty() || mute.reason.len() > MAX_REASON_BYTES {
            return Err(MuteError::Reason(mute.reason.len()));
        }
        let rule = mute.rule.as_deref().map(|rule| NameGlob::new(rule, true)).transpose()?;
        let rule: Option<Glob> = rule.and_then(|rule| rule.as_str().parse().ok());
        if is_every_rule(rule.as_ref()) && mute.server.is_none() && mute.tool.is_none() {
            return Err(MuteError::TooBroad);
        }
        let now = self.latest.map_or(now, |latest| latest.max(now));
        if let Some(until) = mute.until.filter(|until| *until <= now) {
            return Err(MuteError::Over(until));
        }
        let replaced = self.by_hand.iter().find(|entry| entry.is_like(mute));
        if replaced.is_none() && self.by_hand.len() >= MAX_BY_HAND {
            return Err(MuteError::Full);
        }
        Ok(replaced.map(|entry| entry.mute.mute_id.clone()))
    }

    /// Puts a mute of an operator in force, in place of one for the same.
    ///
    /// # Errors
    /// As of [`Mutes::admit`]; nothing changes then.
    pub fn add(&mut self, mute: Mute, now: Timestamp) -> Result<(), MuteError> {
        self.admit(&mute, now)?;
        let entry = Entry::new(mute)?;
        self.by_hand.retain(|known| !known.is_like(&entry.mute));
        self.by_hand.push(entry);
        Ok(())
    }

    /// The mute of an operator with this id.
    ///
    /// # Errors
    /// There is none, or it stands in the configuration.
    pub fn find(&self, id: &str) -> Result<&Mute, MuteError> {
        let is_it = |entry: &&Entry| *entry.id == *id;
        match self.by_hand.iter().find(is_it) {
            Some(entry) => Ok(&entry.mute),
            None if self.configured.iter().any(|entry| is_it(&entry)) => {
                Err(MuteError::Configured(id.to_owned()))
            }
            None => Err(MuteError::Unknown(id.to_owned())),
        }
    }

    /// Ends the mute of an operator with this id.
    pub fn remove(&mut self, id: &str) {
        self.by_hand.retain(|entry| *entry.id != *id);
    }

    /// Ends what is over by `now`. Those that were in force until then, in order: of a configuration that was loaded with an
    /// entry that was over already, nothing ends.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Mute> {
        let now = self.latest.map_or(now, |latest| latest.max(now));
        let is_first = self.latest.replace(now).is_none();
        let mut ended: Vec<Mute> = Vec::new();
        let configured = self.configured.extract_if(.., |entry| entry.is_over(now));
        ended.extend(configured.map(|entry| entry.mute).filter(|_| !is_first));
        // An operator's mute ends once, also while no agent runs.
        ended.extend(self.by_hand.extract_if(.., |entry| entry.is_over(now)).map(|entry| entry.mute));
        ended
    }

    /// When the next one ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.entries().filter_map(|entry| entry.mute.until).min()
    }

    /// All of them: those of the configuration, and those of operators.
    pub fn iter(&self) -> impl Iterator<Item = &Mute> {
        self.entries().map(|entry| &entry.mute)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.configured.is_empty() && self.by_hand.is_empty()
    }

    /// The mute that a detection is marked with, while it is in force.
    pub fn of(&self, detection: &Detection) -> Option<MutedBy> {
        let id = detection.muted_by.as_ref()?;
        self.entries().find(|entry| entry.id == *id).map(|entry| MutedBy::from(&entry.mute))
    }

    /// Marks each of these detections with the first mute that applies to it, or with none.
    pub fn mark(&self, subject: &MuteSubject<'_>, detections: &mut [Detection]) {
        if detections.is_empty() {
            return;
        }
        let of_subject: Vec<&Entry> = self.entries().filter(|entry| entry.is_of(subject)).collect();
        for detection in detections {
            let mute = of_subject.iter().find(|entry| entry.rule.matches(&detection.pattern));
            detection.muted_by = mute.map(|entry| Arc::clone(&entry.id));
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.configured.iter().chain(&self.by_hand)
    }
}

/// Mutes, and what is inspected: for guards that read texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct MutesOf<'a>(Option<(&'a Mutes, MuteSubject<'a>)>);

impl<'a> MutesOf<'a> {
    /// Those of a text about this.
    pub fn new(mutes: &'a Mutes, subject: MuteSubject<'a>) -> Self {
        Self(Some((mutes, subject)))
    }

    /// Marks the detections that are muted.
    pub fn mark(&self, detections: &mut [Detection]) {
        if let Some((mutes, subject)) = self.0 {
            mutes.mark(&subject, detections);
        }
    }
}

/// The entries of `inspection.muted`.
pub fn configured(entries: &[MutedDetections]) -> Vec<Mute> {
    let text = |glob: &Option<Glob>| glob.as_ref().map(ToString::to_string);
    let mute = |entry: &MutedDetections| {
        named(Mute {
            mute_id: String::new(),
            source: MuteSource::Configuration,
            rule: text(&entry.rule),
            server: text(&entry.server),
            whose: Whose::default(),
            tool: text(&entry.tool),
            tool_hash: None,
            until: entry.until.map(|until| until.0),
            reason: entry.reason.clone(),
            by: None,
        })
    };
    let mut mutes: Vec<Mute> = entries.iter().map(mute).collect();
    // Two entries that say the same are one.
    let mut known = std::collections::BTreeSet::new();
    mutes.retain(|mute| known.insert(mute.mute_id.clone()));
    mutes
}

/// The same with its id, which is a part of the hash of all else: the same mute has the same id in every run.
pub fn named(mute: Mute) -> Mute {
    let unnamed = Mute { mute_id: String::new(), ..mute };
    let text = serde_json::to_string(&unnamed).unwrap_or_default();
    let mute_id = hex(&Sha256::digest(text)).chars().take(ID_DIGITS).collect();
    Mute { mute_id, ..unnamed }
}

/// The server that a mute is reported of, where it is one.
pub fn server_of(mute: &Mute) -> Option<ServerId> {
    let is_one = |server: &&String| {
        mute.source == MuteSource::Operator || NameGlob::new(server, true).is_ok_and(|glob| glob.is_plain())
    };
    mute.server.as_ref().filter(is_one).map(|server| ServerId(server.as_str().into()))
}

#[cfg(test)]
mod tests;
