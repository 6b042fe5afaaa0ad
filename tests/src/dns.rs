//! A name server for tests: one name, one IPv4 address at a time.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Answers questions on a port of the loopback until it is dropped.
pub struct NameServer {
    address: SocketAddr,
    answer: Arc<Mutex<Option<Ipv4Addr>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts it on a free port. Whatever it is asked for has this address.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(answer: Ipv4Addr) -> Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), answer)
    }

    /// The same, where it is to listen.
    ///
    /// # Errors
    /// That is not free.
    pub fn start_at(at: SocketAddr, answer: Ipv4Addr) -> Result<Self> {
        let socket = UdpSocket::bind(at).with_context(|| format!("cannot listen on {at}"))?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let address = socket.local_addr()?;
        let (answer, stop) = (Arc::new(Mutex::new(Some(answer))), Arc::new(AtomicBool::new(false)));
        let (told, ended) = (Arc::clone(&answer), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut question = [0; 512];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                let now = *told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(reply) = question.get(..length).and_then(|question| reply(question, now)) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        });
        Ok(Self { address, answer, stop, thread: Some(thread) })
    }

    /// Where it is asked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on names have this address; with `None` there are no such names.
    pub fn answer(&self, address: Option<Ipv4Addr>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks a name server for the address of a name, as programs do that bring their own resolver.
///
/// # Errors
/// It does not answer, or knows none.
pub fn ask(server: SocketAddr, name: &str) -> Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    // An id, recursion desired, one question.
    let mut question = vec![0x2a, 0x07, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).context("a long label")?);
        question.extend(label.as_bytes());
    }
    // Type A, class IN.
    question.extend([0, 0, 1, 0, 1]);
    socket.send_to(&question, server)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).context("no answer")?;
    let address = answer.get(..length).and_then(|answer| answer.get(question.len()..)?.last_chunk::<4>());
    address.copied().map(Ipv4Addr::from).context("no address")
}

/// An answer with a time to live of one second (RFC 1035, section 4.1); to what is no question of type A, an empty one.
fn reply(question: &[u8], address: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const NO_SUCH_NAME: u8 = 3;
    let name = question.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    let end = HEADER + name + 5;
    let asked = question.get(HEADER..end)?;
    let is_a = question.get(end - 4..end - 2)? == [0, 1];
    let answer = address.filter(|_| is_a);
    let mut reply = question.get(..2)?.to_vec();
    reply.extend([0x81, if address.is_some() { 0x80 } else { 0x80 | NO_SUCH_NAME }]);
    reply.extend([0, 1, 0, u8::from(answer.is_some()), 0, 0, 0, 0]);
    reply.extend(asked);
    if let Some(answer) = answer {
        // The name of the question, type A, class IN, one second, four bytes.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        reply.extend(answer.octets());
    }
    Some(reply)
}
