//! What the user looks at, and what keys change of it.

use mcpwarden_policy::{ByHand, Timestamp};

use super::{
    detail::{self, Item},
    keys::Action,
    model::Model,
    rows::{self, Sort},
};
use crate::{
    control::{NewBlock, NewDecision},
    output::clean,
};

/// Longest filter. Characters.
const FILTER: usize = 64;

/// Which list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Servers.
    #[default]
    Servers,
    /// Sessions.
    Sessions,
    /// The last calls.
    Calls,
    /// The last detections.
    Detections,
    /// What was lost.
    Losses,
}

impl Tab {
    /// In their order.
    pub const ALL: [Self; 5] = [Self::Servers, Self::Sessions, Self::Calls, Self::Detections, Self::Losses];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Sessions => "sessions",
            Self::Calls => "calls",
            Self::Detections => "detections",
            Self::Losses => "losses",
        }
    }
}

/// What keys mean now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A list.
    List,
    /// One row of it, in full.
    Detail,
    /// A filter is typed.
    Typing,
    /// Something is asked.
    Asking,
    /// The help.
    Help,
}

/// What is done by an agent.
#[derive(Debug)]
pub enum Command {
    /// As `mcpwarden approve` does.
    Approve(Box<NewDecision>),
    /// As `mcpwarden block` does.
    Block(Box<NewBlock>),
}

/// What a key leads to outside of the view.
#[derive(Debug)]
pub enum Effect {
    /// The end.
    Quit,
    /// Something that the agent does.
    Do(Command),
}

/// What the user looks at.
#[derive(Debug, Default)]
pub struct View {
    /// Whether there are colours.
    pub colour: bool,
    /// Which list.
    pub tab: Tab,
    /// Key of the selected row; empty: the first.
    pub selected: String,
    /// Whether that is shown in full.
    pub open: bool,
    /// Which line of it is selected.
    pub item: usize,
    /// Only rows with this text are shown.
    pub filter: String,
    /// Whether that is typed now.
    pub typing: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// What is asked, and done if it is meant.
    pub asked: Option<(String, Command)>,
    /// What is to be known, until the next key: text, and whether something failed.
    pub message: Option<(String, bool)>,
    /// Place of the order in those that there are, by list.
    pub sorts: [usize; Tab::ALL.len()],
}

impl View {
    /// The list of servers, with colours or without.
    pub fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// What keys mean now.
    pub fn mode(&self) -> Mode {
        match self {
            Self { asked: Some(_), .. } => Mode::Asking,
            Self { help: true, .. } => Mode::Help,
            Self { typing: true, .. } => Mode::Typing,
            Self { open: true, .. } => Mode::Detail,
            _ => Mode::List,
        }
    }

    /// By what rows are sorted.
    pub fn sort(&self) -> Sort {
        let sorts = rows::sorts(self.tab);
        let place = self.sorts.get(self.tab as usize).copied().unwrap_or_default();
        sorts.get(place).copied().unwrap_or(Sort::Name)
    }

    /// Does what the user wants.
    pub fn apply(&mut self, action: Action, model: &Model, now: Timestamp) -> Option<Effect> {
        self.message = None;
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Show(tab) => self.show(tab),
            Action::Turn(on) => {
                let count = Tab::ALL.len();
                let next = (self.tab as usize + if on { 1 } else { count - 1 }) % count;
                self.show(Tab::ALL.get(next).copied().unwrap_or_default());
            }
            Action::Move(by) => self.go(by, model, now),
            Action::Open => self.open(model, now),
            Action::Back => {
                if self.help {
                    self.help = false;
                } else if self.open && !self.typing {
                    self.open = false;
                } else {
                    self.typing = false;
                    self.filter.clear();
                }
            }
            Action::Filter => (self.typing, self.open) = (true, false),
            Action::Type(character) if self.filter.chars().count() < FILTER => self.filter.push(character),
            Action::Type(_) => {}
            Action::Erase => {
                self.filter.pop();
            }
            Action::Typed => self.typing = false,
            Action::Sort => {
                let count = rows::sorts(self.tab).len();
                if let Some(place) = self.sorts.get_mut(self.tab as usize) {
                    *place = (*place + 1) % count;
                }
                self.say(format!("sorted by {}", self.sort().name()));
            }
            Action::Approve => self.approve(model),
            Action::Block => self.block(model),
            Action::Yes => return self.asked.take().map(|(_, command)| Effect::Do(command)),
            Action::No => {
                self.asked = None;
                self.say("nothing was done".to_owned());
            }
            Action::Help => self.help = true,
        }
        None
    }

    /// What came of something that was done.
    pub fn done(&mut self, outcome: Result<String, String>) {
        self.message = Some(match outcome {
            Ok(text) => (text, false),
            Err(text) => (text, true),
        });
    }

    fn say(&mut self, text: String) {
        self.message = Some((text, false));
    }

    fn refuse(&mut self, text: &str) {
        self.message = Some((text.to_owned(), true));
    }

    fn show(&mut self, tab: Tab) {
        if self.tab != tab {
            (self.tab, self.open, self.item) = (tab, false, 0);
            self.selected.clear();
        }
    }

    fn go(&mut self, by: isize, model: &Model, now: Timestamp) {
        let moved = |from: usize, count: usize| from.saturating_add_signed(by).min(count.saturating_sub(1));
        if self.open {
            let count = detail::of(model, self).map_or(0, |detail| detail.items.len());
            self.item = moved(self.item, count);
            return;
        }
        let rows = rows::list(model, self, now);
        let place = rows::place(&rows, self);
        if let Some(row) = rows.get(moved(place, rows.len())) {
            self.selected = row.key();
        }
    }

    fn open(&mut self, model: &Model, now: Timestamp) {
        let rows = rows::list(model, self, now);
        if let Some(row) = rows.get(rows::place(&rows, self)).filter(|_| !self.open) {
            (self.selected, self.open, self.item) = (row.key(), true, 0);
        }
    }

    /// The selected line of what is shown in full.
    fn chosen(&self, model: &Model) -> Option<(Option<Item>, Option<String>)> {
        let detail = self.open.then(|| detail::of(model, self)).flatten()?;
        let server = detail.blockable;
        Some((detail.items.into_iter().nth(self.item).map(|(_, item)| item), server))
    }

    fn approve(&mut self, model: &Model) {
        match self.chosen(model) {
            Some((Some(Item::Tool { server, tool, hash, uid, program }), _)) => {
                let named = format!("{}:{}", clean(&server), clean(&tool));
                let short: String = hash.iter().flat_map(|hash| hash.chars()).take(12).collect();
                let definition =
                    if short.is_empty() { String::new() } else { format!(" ({})", clean(&short)) };
                let new = NewDecision {
                    server,
                    tool: Some(tool),
                    all: false,
                    decision: ByHand::Approve,
                    uid,
                    program,
                    hash,
                    by: None,
                };
                let question = format!("trust {named}{definition} as it is now?");
                self.asked = Some((question, Command::Approve(new.into())));
            }
            Some(_) => self.refuse("select a tool to approve"),
            None => self.refuse("open a server, a call or a detection (Enter), and select a tool to approve"),
        }
    }

    fn block(&mut self, model: &Model) {
        let target = match self.chosen(model) {
            Some((Some(Item::Address(address)), _)) => address,
            Some((_, Some(server))) => server,
            Some(_) => {
                return self.refuse("select an address to block; servers that are no declared http or sse ones have none of their own");
            }
            None => return self.refuse("open a server (Enter), and select an address to block"),
        };
        let question = format!("deny all connections to {} until it is unblocked?", clean(&target));
        let reason = Some("mcpwarden top".to_owned());
        let new = NewBlock { target, port: None, period: None, reason, yes: false };
        self.asked = Some((question, Command::Block(new.into())));
    }
}
