//! The journal of systemd, by its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): a datagram of fields, or a sealed file
//! where it is too large for one.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    os::fd::{AsFd as _, AsRawFd as _, RawFd},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    time::Duration,
};

use mcpwarden_policy::event::Severity;
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg},
    },
};

use mcpwarden_text::escaped;

use super::{
    Line,
    queue::{Queue, add},
};

/// Where the journal listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// Taken from the queue at once.
const BATCH_BYTES: usize = 256 << 10;
/// Where the journal does not take an event, it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// The way there.
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// To a socket, which need not be there yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { socket: UnixDatagram::unbound()?, path: path.to_owned() })
    }

    /// Sends what is in the queue until it is closed and empty.
    pub fn run(&self, queue: &Queue) {
        queue.drain(BATCH_BYTES, Duration::ZERO, RETRY, |lines| {
            let mut sent = 0;
            for line in lines {
                if let Err(error) = self.send(line) {
                    return (sent, Err(error));
                }
                add(&queue.counts.written, 1);
                sent += 1;
            }
            (sent, Ok(()))
        });
    }

    /// Sends one event.
    ///
    /// # Errors
    /// Nobody listens, or there is no memory.
    fn send(&self, line: &Line) -> io::Result<()> {
        let fields = fields(line);
        match self.socket.send_to(&fields, &self.path) {
            Err(error) if error.raw_os_error() == Some(nix::libc::EMSGSIZE) => self.send_file(&fields),
            result => result.map(drop),
        }
    }

    fn send_file(&self, fields: &[u8]) -> io::Result<()> {
        let file = memfd_create(c"mcpwarden", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let mut file = File::from(file);
        file.write_all(fields)?;
        let seals =
            SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
        fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(seals))?;
        let files: [RawFd; 1] = [file.as_raw_fd()];
        let to = UnixAddr::new(&self.path)?;
        let nothing = [IoSlice::new(&[])];
        let message = [ControlMessage::ScmRights(&files)];
        sendmsg(self.socket.as_raw_fd(), &nothing, &message, MsgFlags::empty(), Some(&to))?;
        Ok(())
    }
}

/// An event as fields of the journal.
fn fields(line: &Line) -> Vec<u8> {
    let mut fields = Vec::with_capacity(line.text.len() + 512);
    let kind = line.kind;
    let about = line.server.as_deref().map_or(String::new(), |server| format!(" {}", escaped(server)));
    field("MESSAGE", format!("{kind}{about}").as_bytes(), &mut fields);
    field("PRIORITY", priority(line).as_bytes(), &mut fields);
    field("SYSLOG_IDENTIFIER", b"mcpwarden", &mut fields);
    field("MCPWARDEN_TYPE", kind.as_bytes(), &mut fields);
    for (name, value) in
        [("MCPWARDEN_SERVER_ID", line.server.as_deref()), ("MCPWARDEN_SESSION_ID", line.session.as_deref())]
    {
        if let Some(value) = value {
            field(name, value.as_bytes(), &mut fields);
        }
    }
    if let Some(severity) = line.severity {
        field("MCPWARDEN_SEVERITY", severity.name().as_bytes(), &mut fields);
    }
    field("MCPWARDEN_EVENT", &line.text, &mut fields);
    fields
}

/// A level of syslog(3).
fn priority(line: &Line) -> &'static str {
    match line.severity {
        Some(Severity::Critical) => "2",
        Some(Severity::High) => "3",
        Some(Severity::Medium) => "4",
        Some(Severity::Low) => "5",
        None if line.kind == "agent_loss" => "4",
        None => "6",
    }
}

/// Appends a field, in the form that takes any bytes: name, line feed, length, value, line feed.
fn field(name: &str, value: &[u8], fields: &mut Vec<u8>) {
    fields.extend_from_slice(name.as_bytes());
    fields.push(b'\n');
    fields.extend_from_slice(&(value.len() as u64).to_le_bytes());
    fields.extend_from_slice(value);
    fields.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{IoSliceMut, Read as _, Seek as _};
    use std::os::fd::FromRawFd as _;

    use mcpwarden_policy::config::Overflow;
    use nix::sys::socket::{ControlMessageOwned, recvmsg};

    use super::*;

    /// What a journal reads: the fields of one event.
    fn receive(socket: &UnixDatagram) -> BTreeMap<String, String> {
        let mut buffer = vec![0; 1 << 20];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let mut space = nix::cmsg_space!([RawFd; 1]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).unwrap();
        let file = message.cmsgs().unwrap().find_map(|one| match one {
            ControlMessageOwned::ScmRights(files) => files.first().copied(),
            _ => None,
        });
        let length = message.bytes;
        let mut bytes = buffer[..length].to_vec();
        if let Some(file) = file {
            assert_eq!(length, 0);
            // SAFETY: it was just received, and nobody else has it.
            let mut file = unsafe { File::from_raw_fd(file) };
            let seals = fcntl(file.as_fd(), FcntlArg::F_GET_SEALS).unwrap();
            assert!(
                SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_WRITE),
                "the journal takes no other"
            );
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
        }
        let (mut fields, mut rest) = (BTreeMap::new(), &bytes[..]);
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let name = String::from_utf8(rest[..end].to_vec()).unwrap();
            let length = u64::from_le_bytes(rest[end + 1..end + 9].try_into().unwrap()) as usize;
            let value = &rest[end + 9..end + 9 + length];
            assert_eq!(rest[end + 9 + length], b'\n');
            fields.insert(name, String::from_utf8(value.to_vec()).unwrap());
            rest = &rest[end + 10 + length..];
        }
        fields
    }

    fn line(text: &str, severity: Option<Severity>) -> Line {
        Line {
            kind: "mcp_detection",
            severity,
            server: Some("a\nPRIORITY=0".into()),
            session: Some("s".into()),
            ..Line::plain(text)
        }
    }

    #[test]
    fn journal_receives_fields_and_priority() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        let queue = Queue::new(64 << 20, Overflow::DropNewest);
        let large = "x".repeat(4 << 20);
        let cases = [
            (line("{}", Some(Severity::Critical)), "2", Some("critical")),
            (line("two\nlines", None), "6", None),
            (line(&large, Some(Severity::Low)), "5", Some("low")),
        ];
        cases.iter().for_each(|(line, ..)| queue.push(line.clone()));
        queue.close();
        std::thread::scope(|scope| {
            scope.spawn(|| journal.run(&queue));
            for (line, priority, severity) in &cases {
                let fields = receive(&socket);
                let expected = [
                    ("MESSAGE", Some("mcp_detection a PRIORITY=0")),
                    ("PRIORITY", Some(*priority)),
                    ("SYSLOG_IDENTIFIER", Some("mcpwarden")),
                    ("MCPWARDEN_TYPE", Some("mcp_detection")),
                    ("MCPWARDEN_SERVER_ID", Some("a\nPRIORITY=0")),
                    ("MCPWARDEN_SESSION_ID", Some("s")),
                    ("MCPWARDEN_SEVERITY", *severity),
                    ("MCPWARDEN_EVENT", std::str::from_utf8(&line.text).ok()),
                ];
                for (name, value) in expected {
                    assert!(fields.get(name).map(String::as_str) == value, "{name}");
                }
            }
        });
        assert_eq!((queue.counters().written, queue.counters().failures), (3, 0));
    }

    #[test]
    fn missing_journal_drops_pending_events() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(&directory.path().join("none")).unwrap();
        let queue = Queue::new(1 << 20, Overflow::DropNewest);
        queue.push(line("{}", None));
        queue.close();
        journal.run(&queue);
        let counters = queue.counters();
        assert_eq!((counters.written, counters.dropped, counters.failures), (0, 1, 1));
    }
}
