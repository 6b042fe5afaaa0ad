//! A policy into tables: what was asked for one is remembered for the next.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use mcpwarden_gate::{DENY, Rules, SUBJECTS, Subject};

use super::ask::Asker;
use super::automaton::{Builder, fixed};
use super::history::{self, Limits};
use super::part::Part;
use super::{GateError, GateSubject, GateTable};
use crate::classify::Classifier;
use crate::config::Config;
use crate::detect::Detector;
use crate::guard::Listing;
use crate::ids::Timestamp;

/// Of how many subjects that no connection is of any more it is remembered what is said of them: servers come back.
const KEPT: usize = 64;

/// Compiles one policy for the connections that there are, as often as these change. What guards said of a subject is
/// remembered, so that only new ones are asked about.
pub struct GateCompiler {
    asker: Asker,
    rules: Rules,
    limits: Limits,
    fixed: [Part; 3],
    known: Vec<Known>,
    /// How many tables were asked for.
    tables: u64,
    fail_closed: bool,
    pending_grace: Duration,
}

/// What is said of one subject.
struct Known {
    subject: GateSubject,
    names: Part,
    says: Subject,
    /// Which table it was last in.
    used: u64,
}

impl GateCompiler {
    /// A compiler of this policy.
    ///
    /// # Errors
    /// The policy is none that there could be a table of.
    pub fn new(config: &Config, detector: &Arc<Detector>) -> Result<Self, GateError> {
        let classifier =
            Arc::new(Classifier::new(&config.classifier.overrides, config.policy.case_sensitive)?);
        Ok(Self {
            asker: Asker::new(config, detector, &classifier)?,
            rules: history::rules(config)?,
            limits: Limits::default(),
            fixed: fixed()?,
            known: Vec::new(),
            tables: 0,
            fail_closed: config.policy.fail_closed,
            pending_grace: config.policy.pending_grace.0,
        })
    }

    /// A table for these kinds of connections, which are numbered by their places from 0. `generation` is another number than
    /// the table's before it; `now` is what is known at that time (a server that has not listed its tools yet may have to be
    /// judged otherwise later: [`GateTable::until`]).
    ///
    /// # Errors
    /// The policy is too large for a table, in one of several ways.
    pub fn compile(
        &mut self,
        subjects: &[GateSubject],
        generation: u32,
        now: Timestamp,
    ) -> Result<GateTable, GateError> {
        if subjects.len() > SUBJECTS {
            return Err(GateError::Subjects(subjects.len()));
        }
        self.tables += 1;
        let has_past = !self.known.is_empty();
        let result = self.table(subjects, generation, now);
        let result = match result {
            // What is remembered of others may be what there is no room for.
            Err(_) if has_past => {
                self.forget();
                self.table(subjects, generation, now)
            }
            result => result,
        };
        if self.known.len() > subjects.len() + KEPT {
            self.known.sort_by_key(|known| Reverse(known.used));
            self.known.truncate(subjects.len() + KEPT);
        }
        result
    }

    /// Of how many subjects it is remembered what is said of them.
    #[cfg(test)]
    pub(super) fn knows(&self) -> usize {
        self.known.len()
    }

    fn forget(&mut self) {
        self.known.clear();
        self.asker.forget();
        self.limits = Limits::default();
    }

    fn table(
        &mut self,
        subjects: &[GateSubject],
        generation: u32,
        now: Timestamp,
    ) -> Result<GateTable, GateError> {
        // What is said of those whose time runs changes with it.
        self.known.retain(|known| !matches!(known.subject.listing, Listing::Pending { .. }));
        self.asker.at(now);
        let mut places = Vec::with_capacity(subjects.len());
        for subject in subjects {
            places.push(self.place(subject)?);
        }
        let mut builder = Builder::new(&self.fixed);
        let mut says = Vec::with_capacity(places.len());
        for known in places.iter().filter_map(|place| self.known.get(*place)) {
            says.push(Subject { name: 0, ..known.says });
        }
        let begin: Vec<u32> = places
            .iter()
            .filter_map(|place| self.known.get(*place))
            .map(|known| builder.add(&known.names))
            .collect();
        let (mut head, next, states, starts) = builder.finish(begin.into_iter())?;
        head.generation = generation;
        let outcomes = self.asker.outcomes().to_vec();
        for (slot, outcome) in head.means.iter_mut().skip(1).zip(&outcomes) {
            *slot = self.limits.means(outcome)?;
        }
        (head.rules, head.limits) = (self.rules, self.limits.all());
        for ((slot, subject), start) in head.subjects.iter_mut().zip(says).zip(starts) {
            *slot = Subject { name: start, ..subject };
        }
        Ok(GateTable { head, next, states, outcomes, until: self.until(subjects, now) })
    }

    /// Where it stands what is said of a subject.
    fn place(&mut self, subject: &GateSubject) -> Result<usize, GateError> {
        let place = match self.known.iter().position(|known| known.subject == *subject) {
            Some(place) => place,
            None => {
                let known = self.ask(subject)?;
                self.known.push(known);
                self.known.len() - 1
            }
        };
        if let Some(known) = self.known.get_mut(place) {
            known.used = self.tables;
        }
        Ok(place)
    }

    fn ask(&mut self, subject: &GateSubject) -> Result<Known, GateError> {
        let asker = &mut self.asker;
        let any = asker.methods(subject)?;
        let patterns = asker.patterns(subject);
        let mut failed = None;
        let mut names = Part::of_names(&subject.server, &patterns, |_, name| {
            asker.name(subject, name).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                0
            })
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        // What cannot be told is denied where something could be that is denied.
        let worst = any.into_iter().chain([names.worst()]).fold(0, u16::max);
        let of_long = if asker.denies_long(subject) { DENY } else { worst };
        let long = asker.long(subject, of_long)?;
        let broken = asker.form("broken_line", worst)?;
        names.stray(long);
        let limit = self.limits.number(asker.server_limit(subject))?;
        let across = u16::from(asker.is_across(subject));
        let says = Subject { name: 0, uri: 0, any, long, broken, limit, across };
        Ok(Known { subject: subject.clone(), names: names.fewer(), says, used: 0 })
    }

    fn until(&self, subjects: &[GateSubject], now: Timestamp) -> Option<Timestamp> {
        let until = subjects.iter().filter_map(|subject| match subject.listing {
            Listing::Pending { since } => Some(since.after(self.pending_grace)),
            Listing::Unknown | Listing::Listed => None,
        });
        until.filter(|until| self.fail_closed && *until >= now).min()
    }
}
