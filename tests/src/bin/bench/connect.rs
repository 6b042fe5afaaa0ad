//! Connections that are measured.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::Result;

/// Connections to this host: connect, accept, close.
pub fn connections(count: u64) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let start = Instant::now();
    for _ in 0..count {
        let client = TcpStream::connect(address)?;
        let (server, _) = listener.accept()?;
        // The client's end first would leave its port in use for a minute.
        drop(server);
        drop(client);
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// Far from every rule.
pub const FAR: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Between blocks that rules name.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(127, 16, 255, 1);

/// `connect` of a UDP socket, which does nothing but choose an address.
pub fn datagrams(to: Ipv4Addr, count: u64) -> Result<f64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let start = Instant::now();
    for _ in 0..count {
        socket.connect((to, 9))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
