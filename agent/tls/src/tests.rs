//! The search, on files that the tests make.

mod codes;
mod fixture;
mod go;
mod hostile;
mod real;
mod ways;
