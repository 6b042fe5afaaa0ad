//! A policy into tables: what was asked for one is remembered for the next.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use mcpwarden_gate::{CONDITIONAL, DENY, METHOD_TOOL, METHODS, Rules, Subject, UNDECIDED};

use super::alphabet::Alphabet;
use super::ask::Asker;
use super::automaton::{Builder, fixed};
use super::history::{self, Limits};
use super::part::Part;
use super::{GateError, GateSubject, GateTable, MOST_SUBJECTS, NO_SUBJECT};
use crate::classify::Classifier;
use crate::config::Config;
use crate::detect::Detector;
use crate::guard::Listing;
use crate::terms::Timestamp;

/// Of how many subjects that no connection is of any more it is remembered what is said of them: servers come back.
const KEPT: usize = 64;

/// Most bytes of names of one server's tools that room is looked for: of more there is hardly ever any, and to find that out
/// takes long.
const MOST_NAME_BYTES: usize = 32 << 10;

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
    /// Of how many subjects, the largest first, the last table had no room for the tools.
    crowded: usize,
    fail_closed: bool,
    pending_grace: Duration,
}

/// What is said of one subject.
struct Known {
    subject: GateSubject,
    /// Whether its tools are left out.
    crowded: bool,
    names: Part,
    /// Where calls go by their arguments.
    arguments: Option<Part>,
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
            crowded: 0,
            fail_closed: config.policy.fail_closed,
            pending_grace: config.policy.pending_grace.0,
        })
    }

    /// A table for these kinds of connections, which are numbered by their places from 0. `generation` is another number than
    /// the table's before it; `now` is what is known at that time (a server that has not listed its tools yet may have to be
    /// judged otherwise later: [`GateTable::until`]).
    ///
    /// Where there is no room for the tools that servers list, those of the servers with the most are left out: what is
    /// denied whatever the tool is stays so, and other calls of theirs are undecided ([`GateTable::crowded`]).
    ///
    /// # Errors
    /// The policy is too large for a table, in one of several ways.
    pub fn compile(
        &mut self,
        subjects: &[GateSubject],
        generation: u32,
        now: Timestamp,
    ) -> Result<GateTable, GateError> {
        if subjects.len() > MOST_SUBJECTS {
            return Err(GateError::Subjects(subjects.len()));
        }
        self.tables += 1;
        let size = |subject: &GateSubject| {
            let denied = subject.standing.iter().filter_map(|denial| denial.subject.tool());
            let denied = denied.map(str::len).sum::<usize>();
            denied + subject.tools.keys().map(|name| name.len()).sum::<usize>()
        };
        let mut sizes: Vec<(usize, usize)> =
            subjects.iter().map(size).zip(0..).filter(|(size, _)| *size > 0).collect();
        sizes.sort_by_key(|(size, _)| Reverse(*size));
        let least = sizes.iter().take_while(|(size, _)| *size > MOST_NAME_BYTES).count();
        let by_size: Vec<usize> = sizes.into_iter().map(|(_, place)| place).collect();
        // There may be more room than there was.
        let mut crowded = (self.crowded / 2).clamp(least, by_size.len());
        let result = loop {
            let has_past = !self.known.is_empty();
            let error = match self.table(subjects, &by_size, crowded, generation, now) {
                Ok(table) => break Ok(table),
                Err(error) => error,
            };
            // Of these two what is remembered of others may be what there is no room for; a table's states are its own.
            let may_be_others = matches!(error, GateError::Outcomes(_) | GateError::Limits { .. });
            if may_be_others {
                self.forget();
            }
            if !may_be_others || !has_past {
                // Rates are those of the configuration, whatever servers list.
                if crowded == by_size.len() || matches!(error, GateError::Limits { .. }) {
                    break Err(error);
                }
                crowded = (2 * crowded).clamp(1, by_size.len());
            }
        };
        self.crowded = crowded;
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

    /// A table in which so many of the largest subjects have no tools.
    fn table(
        &mut self,
        subjects: &[GateSubject],
        by_size: &[usize],
        crowded: usize,
        generation: u32,
        now: Timestamp,
    ) -> Result<GateTable, GateError> {
        // What is said of those whose time runs changes with it.
        self.known.retain(|known| !matches!(known.subject.listing, Listing::Pending { .. }));
        self.asker.at(now);
        let without = by_size.get(..crowded).unwrap_or_default();
        let mut places = Vec::with_capacity(subjects.len());
        for (number, subject) in subjects.iter().enumerate() {
            places.push(self.place(subject, without.contains(&number))?);
        }
        let mut builder = Builder::new(&self.fixed);
        let mut says = Vec::with_capacity(places.len());
        for known in places.iter().filter_map(|place| self.known.get(*place)) {
            says.push(Subject { name: 0, ..known.says });
        }
        let known = places.iter().filter_map(|place| self.known.get(*place));
        let begin: Vec<u32> = known.clone().map(|known| builder.add(&known.names)).collect();
        // Those of arguments behind all others.
        let with = known.clone().map(|known| known.arguments.is_some());
        let with: Vec<bool> = with.collect();
        let begin_arguments: Vec<u32> =
            known.filter_map(|known| known.arguments.as_ref()).map(|part| builder.add(part)).collect();
        let (mut head, next, states, starts) = builder.finish(begin.into_iter().chain(begin_arguments))?;
        let (starts, of_arguments) = starts.split_at(with.len().min(starts.len()));
        let mut of_arguments = of_arguments.iter().copied();
        let of_arguments = with.iter().map(|has| if *has { of_arguments.next().unwrap_or(0) } else { 0 });
        head.generation = generation;
        let no_room = self.asker.form("no_room", UNDECIDED)?;
        let outcomes = self.asker.outcomes().to_vec();
        for (slot, outcome) in head.means.iter_mut().skip(1).zip(&outcomes) {
            *slot = self.limits.means(outcome)?;
        }
        (head.rules, head.limits) = (self.rules, self.limits.all());
        head.choices.iter_mut().zip(&self.asker.choices).for_each(|(slot, choice)| *slot = *choice);
        let starts = starts.iter().zip(of_arguments);
        for ((slot, subject), (start, arguments)) in head.subjects.iter_mut().zip(says).zip(starts) {
            *slot = Subject { name: *start, arguments, ..subject };
        }
        if let Some(slot) = usize::try_from(NO_SUBJECT).ok().and_then(|place| head.subjects.get_mut(place)) {
            let (any, broken) = ([no_room; METHODS], no_room);
            *slot = Subject { any, broken, ..Subject::default() };
        }
        let crowded = without.iter().filter_map(|place| subjects.get(*place));
        let crowded = crowded.map(|subject| subject.server.clone()).collect();
        Ok(GateTable { head, next, states, outcomes, until: self.until(subjects, now), crowded })
    }

    /// Where it stands what is said of a subject.
    fn place(&mut self, subject: &GateSubject, crowded: bool) -> Result<usize, GateError> {
        let is_it = |known: &Known| known.crowded == crowded && known.subject == *subject;
        let place = match self.known.iter().position(is_it) {
            Some(place) => place,
            None => {
                let known = self.ask(subject, crowded)?;
                self.known.push(known);
                self.known.len() - 1
            }
        };
        if let Some(known) = self.known.get_mut(place) {
            known.used = self.tables;
        }
        Ok(place)
    }

    fn ask(&mut self, subject: &GateSubject, crowded: bool) -> Result<Known, GateError> {
        let mut alphabet = Alphabet::default();
        let mut names = self.names(subject, crowded, Some(&mut alphabet))?;
        let mut arguments = None;
        if !alphabet.is_empty() {
            arguments = alphabet.automaton(&subject.server)?;
            if arguments.is_none() {
                alphabet = Alphabet::default();
                names = self.names(subject, crowded, None)?;
            }
        }
        let asker = &mut self.asker;
        let any = asker.methods(subject)?;
        let limit = self.limits.number(asker.server_limit(subject))?;
        let across = asker.across(subject);
        // What cannot be told is denied where something could be that is denied.
        let [_, any_tool, ..] = any;
        let of_tools = any_tool.max(names.worst());
        let denies_some = of_tools & CONDITIONAL != 0;
        let of_long = if asker.denies_long(subject) { DENY } else { of_tools };
        let mut long = [0; METHODS];
        // No guard goes by the names of prompts, or where resources are.
        long[usize::from(METHOD_TOOL)] = asker.long(subject, of_long)?;
        names.stray(long[usize::from(METHOD_TOOL)]);
        // A call that it hides is not counted, and not judged by others.
        let hidden = if limit != 0 || across != 0 { UNDECIDED } else { 0 };
        let by_arguments = if denies_some { DENY } else { 0 };
        let broken = any.into_iter().chain([of_tools, hidden, by_arguments]).fold(0, u16::max);
        let broken = asker.form("broken_line", broken)?;
        let absent = alphabet.absent();
        let says = Subject { name: 0, uri: 0, any, long, broken, limit, across, arguments: 0, absent };
        Ok(Known { subject: subject.clone(), crowded, names: names.fewer(), arguments, says, used: 0 })
    }

    /// The automaton of a subject's names.
    fn names(
        &mut self,
        subject: &GateSubject,
        crowded: bool,
        mut alphabet: Option<&mut Alphabet>,
    ) -> Result<Part, GateError> {
        let asker = &mut self.asker;
        let patterns = asker.patterns(subject, crowded);
        let mut failed = None;
        let names = Part::of_names(&subject.server, &patterns, |_, name| {
            let said = if crowded {
                asker.name_of_many(subject, name)
            } else {
                asker.name(subject, name, alphabet.as_deref_mut())
            };
            said.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                0
            })
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(names),
        }
    }

    fn until(&self, subjects: &[GateSubject], now: Timestamp) -> Option<Timestamp> {
        let until = subjects.iter().filter_map(|subject| match subject.listing {
            Listing::Pending { since } => Some(since.after(self.pending_grace)),
            Listing::Unknown | Listing::Listed => None,
        });
        until.filter(|until| self.fail_closed && *until >= now).min()
    }
}
