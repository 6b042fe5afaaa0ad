//! Listeners that a test dials.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Result, bail};
use nix::sys::socket::{Shutdown, shutdown};

use crate::dial::LOOPBACK_V6;

/// A TCP and a UDP listener on one port of all IPv4 addresses and the IPv6 loopback; what comes in is counted.
pub struct Listener {
    port: u16,
    accepted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    listening: [TcpListener; 2],
    threads: Vec<JoinHandle<()>>,
}

/// Ports below those that the kernel gives to whoever asks for any: tests deny connections to theirs, and others run beside them.
fn ports() -> impl Iterator<Item = u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u64 = 10_000;
    let random = RandomState::new();
    (0_u64..).map(move |number| FIRST + u16::try_from(random.hash_one(number) % COUNT).unwrap_or_default())
}

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// No port is free.
    pub fn start() -> Result<Self> {
        for port in ports().take(200) {
            let (Ok(tcp), Ok(tcp6), Ok(udp), Ok(udp6)) = (
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
                TcpListener::bind((LOOPBACK_V6, port)),
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)),
                UdpSocket::bind((LOOPBACK_V6, port)),
            ) else {
                continue;
            };
            let (accepted, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
            let mut threads = Vec::new();
            let listening = [tcp.try_clone()?, tcp6.try_clone()?];
            for tcp in [tcp, tcp6] {
                let (accepted, stop) = (Arc::clone(&accepted), Arc::clone(&stop));
                threads.push(thread::spawn(move || {
                    for connection in tcp.incoming() {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        accepted.fetch_add(u64::from(connection.is_ok()), Ordering::Relaxed);
                    }
                }));
            }
            // Held for what is sent to them, which nobody reads.
            threads.push(thread::spawn(move || {
                let _both = (udp, udp6);
                thread::park();
            }));
            return Ok(Self { port, accepted, stop, listening, threads });
        }
        bail!("no port is free for all four")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections came in.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// An address of its port.
    pub fn at(&self, ip: impl Into<IpAddr>) -> SocketAddr {
        (ip.into(), self.port).into()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // No connection to itself would: it may be denied.
        for listener in &self.listening {
            let _ = shutdown(listener.as_raw_fd(), Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
