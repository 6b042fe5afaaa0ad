//! Commands that need no running agent, and what is checked of files: side by side.

mod check_config;
mod commands;
mod dashboard;
mod inspect;
mod refusals;
mod spec;
mod unit;
