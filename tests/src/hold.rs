//! Sockets of every kind that are open to one port of this host.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use anyhow::{Context as _, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, setuid};

/// By name: how it is reached, and the address.
const TO: [(&str, IpAddr); 3] = [
    ("IPv4", IpAddr::V4(Ipv4Addr::LOCALHOST)),
    ("IPv6", IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ("v4-mapped", IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped())),
];

/// Opens them, prints the port, and answers each line of input with the names of those that are alive, on one line.
///
/// # Errors
/// They cannot be opened.
pub fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).context("no port")?;
    let port = listener.local_addr()?.port();
    let (mut streams, mut datagrams, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
    for (name, ip) in TO {
        let to = SocketAddr::new(ip, port);
        let stream = TcpStream::connect(to).with_context(|| format!("no TCP to {to}"))?;
        stream.set_nonblocking(true)?;
        streams.push((format!("tcp-{name}"), stream));
        accepted.push(listener.accept()?);
        let any =
            if ip.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to).with_context(|| format!("no UDP to {to}"))?;
        datagrams.push((format!("udp-{name}"), socket));
    }
    let mut out = io::stdout();
    writeln!(out, "{port}")?;
    for line in io::stdin().lines() {
        line?;
        let mut alive = Vec::new();
        for (name, stream) in &mut streams {
            // Nothing comes: it waits for that, or it is over.
            if stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                alive.push(name.as_str());
            }
        }
        for (name, socket) in &datagrams {
            // Nobody listens there: the answer to what was sent before is an error, too.
            let sent = socket.send(b"x");
            if sent.is_ok() || sent.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                alive.push(name.as_str());
            }
        }
        writeln!(out, "{}", alive.join(" "))?;
    }
    Ok(())
}

/// Becomes a user, opens many TCP connections to one address, prints how many, and keeps them until the input ends.
///
/// # Errors
/// They cannot be opened.
pub fn crowd(uid: u32, count: usize, to: SocketAddr) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    setuid(Uid::from_raw(uid))?;
    let streams = (0..count).map(|_| TcpStream::connect(to)).collect::<io::Result<Vec<_>>>()?;
    writeln!(io::stdout(), "{}", streams.len())?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
