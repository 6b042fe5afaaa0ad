//! What a guest gets in place of the clocks, the randomness and the standard streams of the host.

mod clock;
mod random;
mod streams;

pub(crate) use self::{
    clock::Clock,
    random::Random,
    streams::{STDERR, STDOUT, StdStreams},
};
