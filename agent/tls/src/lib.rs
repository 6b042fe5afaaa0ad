//! Where plaintext enters and leaves TLS: the bytes of a program or library go in, the functions to be probed come out, each with the
//! instruction to probe and the registers that have its arguments. The crate attaches nothing, reads no `/proc`, and runs nothing of the
//! file; its two most important functions are [`locate`], which searches a file, and [`Cache::get`], which knows what was found before.
//!
//! Five ways lead to functions, the surest first: symbols, the table that Go programs carry, texts of the functions' own names, numbers
//! of the errors that they report, and the bytes of what was written in assembly language. What is known of each library is a table of
//! data ([`Signatures`]) with a version of its own. `docs/internals/tls.md` has the whole picture.
//!
//! **Nothing is missed in silence.** A library that is in the file, and whose functions are not found or lead only one way, is
//! [`Located::unknown`]; a file that cannot be searched is an error. Only a file without any trace of TLS gives neither.
//!
//! **A file is hostile.** It may lie in every number. All reads, tables and loops have a bound (`bounds`), and each read checks its place.
//! A probe in the middle of an instruction would crash the program that is watched: what is not decoded for certain is not probed.
//!
//! | module | job |
//! |---|---|
//! | `image` | the bytes of the file, and how many may be read |
//! | `elf`, `symbols` | headers, and functions by symbols |
//! | `marks`, `search` | texts in the file, and what refers to them |
//! | `go`, `names`, `codes`, `assembly` | the other ways |
//! | `extent` | where a function begins and ends |
//! | `x86`, `prologue`, `arguments` | instructions, which one to probe, and where the arguments are then |
//! | `signatures`, `facts`, `cache` | what is known, what was found, and what was found before |

mod arguments;
mod assembly;
mod bounds;
mod cache;
mod codes;
mod elf;
mod error;
mod extent;
mod facts;
mod go;
mod image;
mod locate;
mod marks;
mod names;
mod prologue;
mod search;
mod signatures;
mod symbols;
mod x86;

#[cfg(test)]
mod tests;

pub use cache::{Cache, CacheError, FileId};
pub use error::LocateError;
pub use facts::{
    Argument, Function, Library, Located, Location, Machine, Probe, Register, Returned, Role, Stack, Step,
    Unknown, Value, Way, Why,
};
pub use image::Image;
pub use locate::locate;
pub use signatures::{SignatureError, Signatures};
