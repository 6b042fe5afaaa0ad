//! What a key means, in the state that the view is in.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::{Mode, Tab, View};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To end.
    Quit,
    /// Another list.
    Show(Tab),
    /// The next one, or the one before.
    Turn(bool),
    /// So many rows further down.
    Move(isize),
    /// The selected row, in full.
    Open,
    /// Out of the detail, or of the filter.
    Back,
    /// To type a filter.
    Filter,
    /// One more character of it.
    Type(char),
    /// One less.
    Erase,
    /// It is typed.
    Typed,
    /// Another order of rows.
    Sort,
    /// To approve what is selected.
    Approve,
    /// To block it.
    Block,
    /// What was asked is meant.
    Yes,
    /// It is not.
    No,
    /// What the keys are.
    Help,
}

/// Keys, and what they do: the help.
pub const HELP: [(&str, &str); 10] = [
    ("1-5, Tab", "servers, sessions, calls, detections, losses"),
    ("arrows, j k", "select, or scroll; also PgUp, PgDn, g and G (Home, End)"),
    ("Enter", "all there is to say of the selected row"),
    ("Esc", "back; takes the filter away"),
    ("/", "show only rows with a text in their names; Enter keeps it"),
    ("s", "sort by something else"),
    ("a", "in a detail: approve the selected tool, as `mcpwarden approve` does"),
    ("b", "in a detail: block the selected address, or the http or sse server"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Rows of a page.
const PAGE: isize = 20;

/// What a key asks for; `None`: nothing.
pub fn action(view: &View, key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    if control {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    match view.mode() {
        Mode::Asking => Some(match key.code {
            KeyCode::Char('y' | 'Y') => Action::Yes,
            _ => Action::No,
        }),
        Mode::Typing => match key.code {
            KeyCode::Char(character) => Some(Action::Type(character)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::Typed),
            KeyCode::Esc => Some(Action::Back),
            _ => None,
        },
        Mode::Help => Some(if key.code == KeyCode::Char('q') { Action::Quit } else { Action::Back }),
        Mode::List | Mode::Detail => plain(key.code),
    }
}

fn plain(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char(digit @ '1'..='5') => {
            Action::Show(*Tab::ALL.get(digit.to_digit(10)?.checked_sub(1)? as usize)?)
        }
        KeyCode::Tab => Action::Turn(true),
        KeyCode::BackTab => Action::Turn(false),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Move(-PAGE),
        KeyCode::PageDown => Action::Move(PAGE),
        KeyCode::Home | KeyCode::Char('g') => Action::Move(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => Action::Move(isize::MAX),
        KeyCode::Enter => Action::Open,
        KeyCode::Esc => Action::Back,
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('s') => Action::Sort,
        KeyCode::Char('a') => Action::Approve,
        KeyCode::Char('b') => Action::Block,
        KeyCode::Char('?') => Action::Help,
        _ => return None,
    })
}
