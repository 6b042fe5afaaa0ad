//! What the user looks at: which list, which row, in which order.

use std::cell::Cell;

use crate::control::{NewBlock, NewDecision};

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

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Calls a second.
    Rate,
    /// Calls.
    Calls,
    /// Latency of 19 in 20; of a call, its own.
    Latency,
    /// Detections, the worst first; of one, its severity.
    Detections,
    /// The last event.
    Seen,
    /// Name.
    Name,
}

impl Sort {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "calls a second",
            Self::Calls => "calls",
            Self::Latency => "latency",
            Self::Detections => "detections",
            Self::Seen => "last seen",
            Self::Name => "name",
        }
    }
}

/// The orders of a list; it begins with the first.
pub fn sorts(tab: Tab) -> &'static [Sort] {
    match tab {
        Tab::Servers | Tab::Sessions => {
            &[Sort::Rate, Sort::Calls, Sort::Latency, Sort::Detections, Sort::Seen, Sort::Name]
        }
        Tab::Calls => &[Sort::Seen, Sort::Latency],
        Tab::Detections => &[Sort::Seen, Sort::Detections],
        Tab::Losses => &[Sort::Seen],
    }
}

/// What something can be done about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A tool, which can be approved.
    Tool {
        /// Whose.
        server: String,
        /// Its name.
        tool: String,
        /// Hash of the definition that is shown.
        hash: Option<String>,
        /// User that the server runs as, where that is known.
        uid: Option<u32>,
        /// Its program, where that is known.
        program: Option<String>,
    },
    /// An address, which can be blocked.
    Address(String),
}

impl Item {
    /// Whether it is the same, whatever its definition is now; `surely`: also of the same user and program, which are not
    /// known of every line about a tool.
    pub fn is(&self, other: &Self, surely: bool) -> bool {
        match (self, other) {
            (
                Self::Tool { server, tool, uid, program, .. },
                Self::Tool { server: its_server, tool: its_tool, uid: its_uid, program: its_program, .. },
            ) => {
                let whose = if surely {
                    (uid, program) == (its_uid, its_program)
                } else {
                    (uid.is_none() || its_uid.is_none() || uid == its_uid)
                        && (program.is_none() || its_program.is_none() || program == its_program)
                };
                server == its_server && tool == its_tool && whose
            }
            (Self::Address(address), Self::Address(its)) => address == its,
            _ => false,
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
    /// What of it is selected, wherever that stands.
    pub item: Option<Item>,
    /// So many lines further down than is needed to see that; drawing takes back what there is no text for.
    pub scrolled: Cell<isize>,
    /// So many lines of what is selected are below the screen, as it was drawn last.
    pub below: Cell<isize>,
    /// Only rows with this text are shown.
    pub filter: String,
    /// Whether that is typed now.
    pub typing: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// What is asked, and done if it is meant.
    pub requested: Option<(String, Command)>,
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
            Self { requested: Some(_), .. } => Mode::Asking,
            Self { help: true, .. } => Mode::Help,
            Self { typing: true, .. } => Mode::Typing,
            Self { open: true, .. } => Mode::Detail,
            _ => Mode::List,
        }
    }

    /// By what rows are sorted.
    pub fn sort(&self) -> Sort {
        let sorts = sorts(self.tab);
        let place = self.sorts.get(self.tab as usize).copied().unwrap_or_default();
        sorts.get(place).copied().unwrap_or(Sort::Name)
    }
}
