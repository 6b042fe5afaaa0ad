//! Each method moves the bytes that it is given, in order, or it would prove nothing about the agent.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::thread;

use clap::ValueEnum as _;

use super::{ReadMethod, WriteMethod};
use crate::mini_server::blob;
use crate::wiring::{Channels, Wiring};

/// More than a pipe or a socket holds.
const BYTES: usize = 300_000;

/// Our two ends, with the child's ends in place of a child.
fn channels(wiring: Wiring) -> Channels {
    wiring.channels().expect("descriptors")
}

#[test]
fn every_write_method_writes_all_in_order() {
    for wiring in [Wiring::Pipes, Wiring::Sockets] {
        for method in WriteMethod::value_variants().iter().filter(|method| method.works_on(wiring)) {
            let (to_child, child_stdin) = channels(wiring).into_stdin();
            let sent = blob(BYTES);
            let reader = thread::spawn(move || {
                let mut received = String::new();
                std::fs::File::from(child_stdin).read_to_string(&mut received).expect("readable");
                received
            });
            method.write(to_child.as_fd(), sent.as_bytes()).unwrap_or_else(|error| {
                panic!("{method:?} on {wiring:?}: {error}");
            });
            drop(to_child);
            let received = reader.join().expect("no panic");
            assert!(received == sent, "{method:?} on {wiring:?}: {} bytes received", received.len());
        }
    }
}

#[test]
fn every_read_method_reads_all_in_order() {
    for wiring in [Wiring::Pipes, Wiring::Sockets] {
        for method in ReadMethod::value_variants().iter().filter(|method| method.works_on(wiring)) {
            let (to_child, child_stdin) = channels(wiring).into_stdin();
            let sent = blob(BYTES);
            let bytes = sent.clone().into_bytes();
            let writer = thread::spawn(move || std::fs::File::from(to_child).write_all(&bytes));
            let mut received = String::new();
            method.reader(child_stdin.as_fd()).read_to_string(&mut received).unwrap_or_else(|error| {
                panic!("{method:?} on {wiring:?}: {error}");
            });
            writer.join().expect("no panic").expect("written");
            assert!(received == sent, "{method:?} on {wiring:?}: {} bytes received", received.len());
        }
    }
}
