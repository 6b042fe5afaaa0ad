//! What the user wants, done: what changes of the view, and what an agent is to do.

use mcpwarden_policy::{ByHand, Timestamp};

use super::{
    detail::{self, Detail},
    keys::Action,
    model::Model,
    rows,
    view::{Command, Item, Tab, View, sorts},
};
use crate::{
    control::{NewBlock, NewDecision},
    output::clean,
};

/// Longest filter. Characters.
const FILTER: usize = 64;

/// What a key leads to outside of the view.
#[derive(Debug)]
pub enum Effect {
    /// The end.
    Quit,
    /// Something that the agent does.
    Do(Command),
}

impl View {
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
                let count = sorts(self.tab).len();
                if let Some(place) = self.sorts.get_mut(self.tab as usize) {
                    *place = (*place + 1) % count;
                }
                self.inform(format!("sorted by {}", self.sort().name()));
            }
            Action::Approve => self.approve(model),
            Action::Block => self.block(model),
            Action::Yes => return self.requested.take().map(|(_, command)| Effect::Do(command)),
            Action::No => {
                self.requested = None;
                self.inform("nothing was done".to_owned());
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

    fn inform(&mut self, text: String) {
        self.message = Some((text, false));
    }

    fn refuse(&mut self, text: &str) {
        self.message = Some((text.to_owned(), true));
    }

    fn show(&mut self, tab: Tab) {
        if self.tab != tab {
            (self.tab, self.open, self.item) = (tab, false, None);
            self.selected.clear();
        }
    }

    fn go(&mut self, by: isize, model: &Model, now: Timestamp) {
        let moved = |from: usize, count: usize| from.saturating_add_signed(by).min(count.saturating_sub(1));
        if self.open {
            return self.walk(by, &detail::of(model, self).unwrap_or_default());
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
            (self.selected, self.open) = (row.key(), true);
            let first = detail::of(model, self).and_then(|detail| detail.items.into_iter().next());
            self.item = first.map(|choice| choice.item);
            (self.scrolled, self.below) = Default::default();
        }
    }

    /// Selects other lines of what is shown in full, and scrolls it where there are none.
    fn walk(&mut self, by: isize, detail: &Detail) {
        let mut scrolled = self.scrolled.get();
        // What was scrolled to is left first.
        let back = match (scrolled.signum(), by.signum()) {
            (-1, 1) => by.min(scrolled.saturating_neg()),
            (1, -1) => by.max(-scrolled),
            _ => 0,
        };
        scrolled = scrolled.saturating_add(back);
        // So is the rest of what is selected shown before the next.
        let on = if by > 0 { by.saturating_sub(back).min(self.below.take()) } else { 0 };
        scrolled = scrolled.saturating_add(on);
        let mut rest = by.saturating_sub(back).saturating_sub(on);
        if rest != 0 && !detail.items.is_empty() {
            let place = detail.place(self.item.as_ref());
            let next = place.map_or(0, |place| place.saturating_add_signed(rest).min(detail.items.len() - 1));
            rest = place.map_or(0, |place| rest.saturating_sub_unsigned(next).saturating_add_unsigned(place));
            if place != Some(next) {
                self.item = detail.items.get(next).map(|choice| choice.item.clone());
                scrolled = 0;
            }
        }
        self.scrolled.set(scrolled.saturating_add(rest));
    }

    /// The selected line of what is shown in full, as it is now.
    fn chosen(&self, model: &Model) -> Option<(Option<Item>, Option<String>)> {
        let detail = self.open.then(|| detail::of(model, self)).flatten()?;
        let place = detail.place(self.item.as_ref());
        let item = place.and_then(|place| detail.items.into_iter().nth(place)).map(|choice| choice.item);
        Some((item, detail.blockable))
    }

    fn approve(&mut self, model: &Model) {
        let chosen = self.chosen(model);
        match chosen {
            // Without a hash it would be approved whatever it is when the agent hears of it.
            Some((Some(Item::Tool { server, tool, hash: None, .. }), _)) => {
                let named = typed(&server, &tool);
                self.refuse(&format!(
                    "the hash of its definition is not known here: look at `mcpwarden registry show {named}`, then `mcpwarden approve {named}`"
                ));
            }
            Some((Some(now @ Item::Tool { .. }), _)) if self.differs(&now) => {
                self.item = Some(now);
                self.refuse(
                    "it is another definition than when it was selected: look at it, and press a again",
                );
            }
            Some((Some(Item::Tool { server, tool, hash: Some(hash), uid, program }), _)) => {
                let of = uid.map(|uid| format!(" (uid {uid})")).unwrap_or_default();
                let named = format!("{}:{}{of}", clean(&server), clean(&tool));
                let question = format!("trust {} as the definition of {named}?", clean(&hash));
                let new = NewDecision {
                    server,
                    tool: Some(tool),
                    all: false,
                    decision: ByHand::Approve,
                    uid,
                    program,
                    hash: Some(hash),
                    by: None,
                    limits: None,
                };
                self.requested = Some((question, Command::Approve(new.into())));
            }
            Some(_) => self.refuse("select a tool to approve"),
            None => self.refuse("open a server, a call or a detection (Enter), and select a tool to approve"),
        }
    }

    /// Whether the selected tool had another hash when it was selected.
    fn differs(&self, now: &Item) -> bool {
        let hash = |item: &Item| match item {
            Item::Tool { hash, .. } => hash.clone(),
            Item::Address(_) => None,
        };
        self.item.as_ref().is_some_and(|item| hash(item) != hash(now))
    }

    fn block(&mut self, model: &Model) {
        let target = match self.chosen(model) {
            Some((Some(Item::Address(address)), _)) => address,
            Some((_, Some(server))) => server,
            Some(_) => {
                return self.refuse("select an address to block; this is no http or sse server that is declared, or at an address of its own");
            }
            None => return self.refuse("open a server (Enter), and select an address to block"),
        };
        let question = format!("deny all connections to {} until it is unblocked?", clean(&target));
        let reason = Some("mcpwarden top".to_owned());
        let new = NewBlock { target, port: None, period: None, reason, yes: false };
        self.requested = Some((question, Command::Block(new.into())));
    }
}

/// A tool as a shell takes it; names that it would take for something else are not written out.
fn typed(server: &str, tool: &str) -> String {
    let named = format!("{server}:{tool}");
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.:/@".contains(character);
    let whole = named.chars().all(plain) && !named.starts_with('-') && !tool.contains(':');
    if whole { clean(&named) } else { "SERVER:TOOL".to_owned() }
}
