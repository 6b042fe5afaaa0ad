//! The search, on files that the tests make.

mod fixture;
mod go;
mod hostile;
mod ways;
