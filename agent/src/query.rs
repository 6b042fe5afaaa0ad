//! Lists and reports of what is stored, whether an agent runs or not.
//!
//! | module | job |
//! |---|---|
//! | `list` | lines for people and for machines, and which events they are made of |
//! | `calls`, `detections`, `connections` | one line an event, from the store's views |
//! | `servers` (with `health`), `sessions` | one line for many events, which `count` counts |
//! | `tools`, `show`, `changes` | tools, from events and pins |
//! | `report` | all of it, summed up |

mod calls;
mod changes;
mod connections;
mod count;
mod detections;
mod health;
mod list;
mod report;
mod servers;
mod sessions;
mod show;
mod tools;

use anyhow::{Context as _, Result};
use mcpwarden_store::SCHEMA;

use crate::cli::{ListOptions, Query, Registry, SessionsOptions};
use crate::host::clock::Clock;
use {calls::Call, connections::Connected, detections::Detection};

pub use changes::diff;

/// Answers what is asked.
///
/// # Errors
/// A database cannot be read.
pub fn run(query: &Query) -> Result<()> {
    let database = match query {
        Query::Servers(options) | Query::Sessions(SessionsOptions { list: options, .. }) => {
            &options.shown.database
        }
        Query::Tools(options) | Query::Registry { what: Registry::List(options) } => &options.shown.database,
        Query::Registry { what: Registry::Show { database, .. } } => database,
        Query::Calls(options) => &options.shown.database,
        Query::Detections(options) => &options.shown.database,
        Query::Connections(options) => &options.shown.database,
        Query::Report(options) => &options.database,
    };
    let db = SCHEMA.read(&database.path)?;
    match query {
        Query::Servers(ListOptions { which, shown }) => {
            servers::gather(&db, &list::of_events(which), list::limit(shown), Clock::new().now())
                .and_then(|servers| list::print(&servers, shown.json, "no servers"))
        }
        Query::Sessions(SessionsOptions { list: ListOptions { which, shown }, .. }) => {
            sessions::gather(&db, &list::of_events(which), list::limit(shown))
                .and_then(|sessions| list::print(&sessions, shown.json, "no sessions"))
        }
        Query::Tools(options) | Query::Registry { what: Registry::List(options) } => {
            tools::find(&db, options).and_then(|tools| list::print(&tools, options.shown.json, "no tools"))
        }
        Query::Registry { what: Registry::Show { tool, json, .. } } => {
            show::print(&db, &database.path, tool, *json)
        }
        Query::Calls(options) => {
            list::print_rows::<Call>(&db, &calls::conditions(options), &options.shown, "no calls")
        }
        Query::Detections(options) => {
            let conditions = detections::conditions(options);
            list::print_rows::<Detection>(&db, &conditions, &options.shown, "no detections")
        }
        Query::Connections(options) => {
            let conditions = connections::conditions(options);
            list::print_rows::<Connected>(&db, &conditions, &options.shown, "no connections")
        }
        Query::Report(options) => report::print(&db, options),
    }
    .with_context(|| format!("cannot read {}", database.path.display()))
}

#[cfg(test)]
mod tests;
