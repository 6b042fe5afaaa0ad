//! What the service manager is told: sd_notify(3), by its protocol, which is a datagram of lines. (A crate for that would
//! be more to read than this.)

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};

/// The agent waits no longer than this for a manager that does not read.
const PATIENCE: Duration = Duration::from_millis(100);

/// Who started the agent and wants to know how it does; or nobody.
pub struct Manager {
    way: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

/// What ends the agent where it does not hear of it.
struct Watchdog {
    /// Half of the time that it waits.
    every: Duration,
    fed: Option<Instant>,
}

impl Manager {
    /// The one that the environment names. Where it cannot be reached, a line on standard error says so.
    pub fn find() -> Self {
        Self::named(|name| env::var_os(name))
    }

    fn named(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let way = variable("NOTIFY_SOCKET").and_then(|name| {
            let way = open(&name);
            way.inspect_err(|error| tracing::error!("NOTIFY_SOCKET {name:?}: {error}")).ok()
        });
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let ours = variable("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
        let wait = number("WATCHDOG_USEC").filter(|wait| ours && *wait > 0);
        let watchdog = wait.map(|wait| Watchdog { every: Duration::from_micros(wait / 2), fed: None });
        Self { way, watchdog }
    }

    /// Everything is attached, or a reload is over.
    pub fn ready(&self, status: &str) {
        self.notify(&format!("READY=1\n{}", status_line(status)));
    }

    /// The configuration is being read; [`Self::ready`] is to follow.
    pub fn reloading(&self) {
        // By this the manager tells the answer to its signal from that to one before.
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        let status = status_line("reading the configuration");
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={}\n{status}", time.as_micros()));
    }

    /// The agent ends.
    pub fn stopping(&self, reason: &str) {
        self.notify(&format!("STOPPING=1\n{}", status_line(&format!("ending: {reason}"))));
    }

    /// Records were taken in: that, and nothing else, is what the watchdog is to hear of. Not that none wait, or whoever makes more
    /// of them than can be taken in would have the agent ended.
    pub fn drained(&mut self) {
        let Some(Watchdog { every, fed }) = &self.watchdog else { return };
        if fed.is_some_and(|fed| fed.elapsed() < *every) {
            return;
        }
        // One that fails is not said: the next is due with the next drain, and without any the manager ends the agent.
        let sent = self.send("WATCHDOG=1");
        if let (Ok(()), Some(watchdog)) = (sent, &mut self.watchdog) {
            watchdog.fed = Some(Instant::now());
        }
    }

    fn notify(&self, text: &str) {
        if let Err(error) = self.send(text) {
            let what = text.lines().next().unwrap_or_default();
            tracing::error!("cannot notify the service manager of {what}: {error}");
        }
    }

    fn send(&self, text: &str) -> io::Result<()> {
        let Some((socket, to)) = &self.way else { return Ok(()) };
        socket.send_to_addr(text.as_bytes(), to).map(drop)
    }
}

/// A line for people. Only one: others would be taken for more to be told.
fn status_line(status: &str) -> String {
    format!("STATUS={}", status.lines().next().unwrap_or_default())
}

/// The way to a socket in the file system, or with `@` in front, to an abstract one.
fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a path nor abstract")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok((socket, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager that is told `variables`, and what it hears.
    fn manager(variables: &[(&str, &str)]) -> (Manager, UnixDatagram) {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("mcpwarden-manager-{}-{number}", std::process::id());
        let receiver = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let manager = Manager::named(|key| match key {
            "NOTIFY_SOCKET" => Some(format!("@{name}").into()),
            _ => variables.iter().find(|(name, _)| *name == key).map(|(_, value)| value.into()),
        });
        (manager, receiver)
    }

    fn received(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 4096];
        let mut received = Vec::new();
        while let Ok(length) = socket.recv(&mut buffer) {
            received.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        received
    }

    #[test]
    fn notify_messages_match_sd_notify() {
        let (manager, receiver) = manager(&[]);
        manager.ready("watching");
        manager.ready("one line\nSTOPPING=1");
        manager.stopping("SIGTERM");
        assert_eq!(
            received(&receiver),
            ["READY=1\nSTATUS=watching", "READY=1\nSTATUS=one line", "STOPPING=1\nSTATUS=ending: SIGTERM"]
        );
        manager.reloading();
        let text = received(&receiver).concat();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!([lines[0], lines[2]], ["RELOADING=1", "STATUS=reading the configuration"]);
        let time = lines[1].strip_prefix("MONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0, "{text}");
    }

    #[test]
    fn watchdog_is_fed_at_half_its_interval() {
        let own = std::process::id().to_string();
        // The beats of two drains, one right after the other.
        for (variables, beats) in [
            (&[][..], 0),
            (&[("WATCHDOG_USEC", "0")], 0),
            (&[("WATCHDOG_USEC", "x")], 0),
            (&[("WATCHDOG_USEC", "1")], 2),
            (&[("WATCHDOG_USEC", "3600000000")], 1),
            (&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", own.as_str())], 2),
            (&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "1")], 0),
            (&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "x")], 0),
        ] {
            let (mut manager, receiver) = manager(variables);
            manager.drained();
            manager.drained();
            assert_eq!(received(&receiver), vec!["WATCHDOG=1"; beats], "{variables:?}");
        }
        let (mut manager, receiver) = manager(&[("WATCHDOG_USEC", "3600000000")]);
        manager.drained();
        manager.watchdog.as_mut().unwrap().fed = Instant::now().checked_sub(Duration::from_secs(1800));
        manager.drained();
        assert_eq!(received(&receiver).len(), 2, "half of it went by");
    }

    #[test]
    fn undelivered_watchdog_beat_is_resent() {
        let (mut manager, receiver) = manager(&[("WATCHDOG_USEC", "3600000000")]);
        let name = receiver.local_addr().unwrap();
        drop(receiver);
        manager.drained();
        let receiver = UnixDatagram::bind_addr(&name).unwrap();
        receiver.set_nonblocking(true).unwrap();
        manager.drained();
        assert_eq!(received(&receiver), ["WATCHDOG=1"]);
    }

    #[test]
    fn notify_socket_is_a_path_or_abstract_name() {
        for (name, good) in [
            ("/run/systemd/notify", true),
            ("@abstract", true),
            ("", false),
            ("relative", false),
            ("vsock:2:1234", false),
        ] {
            assert_eq!(open(OsStr::new(name)).is_ok(), good, "{name}");
        }
        let long = format!("/{}", "x".repeat(200));
        assert!(open(OsStr::new(&long)).is_err() && open(OsStr::new(&long.replace('/', "@"))).is_err());
    }
}
