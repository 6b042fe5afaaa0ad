//! The address of a server that is no process.

use std::net::SocketAddr;
use std::time::Duration;

use super::io::{Process, Reached, ServerAddress};
use super::recorder::{MAX_NAME_BYTES, clip};
use crate::discovery;
use crate::event::ServerType;
use crate::network;
use crate::terms::{ServerId, Timestamp};

/// How often it is reported of a conversation that there is a server.
const FOUND_AGAIN: Duration = Duration::from_secs(1_800);

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) address: ServerAddress,
    /// The process that listens there, where that is known.
    pub(super) process: Option<Process>,
    pub(super) netns: Option<u64>,
    /// What the client calls its host.
    pub(super) host: Box<str>,
    path: String,
    tls: bool,
    /// See [`Reached::read_in_client`].
    pub(super) read_in_client: bool,
    pub(super) kind: ServerType,
    /// When it was reported last that it answered something of MCP.
    answered: Option<Timestamp>,
}

impl At {
    /// What a client reached; `tls`: whether it is declared to be spoken to over TLS.
    pub(super) fn of(reached: Reached, tls: bool) -> Self {
        let host = match reached.host.as_deref() {
            Some(host) => clip(without_port(host), MAX_NAME_BYTES),
            None => match &reached.address {
                ServerAddress::Internet(address) => address.ip().to_string(),
                ServerAddress::Unix(name) => clip(name, MAX_NAME_BYTES),
            },
        };
        // The one that is really spoken to: `0.0.0.0` is no other server than `127.0.0.1`.
        let address = match reached.address {
            ServerAddress::Internet(at) => SocketAddr::new(network::reached(at.ip()), at.port()).into(),
            name @ ServerAddress::Unix(_) => name,
        };
        Self {
            host: host.into(),
            address,
            process: reached.server,
            netns: reached.netns,
            path: reached.path,
            tls,
            read_in_client: reached.read_in_client,
            kind: reached.kind,
            answered: None,
        }
    }

    /// Whether it is to be reported again that it answered; it counts as reported then.
    pub(super) fn is_found(&mut self, time: Timestamp) -> bool {
        let again = self.answered.is_none_or(|said| time >= said.after(FOUND_AGAIN));
        if again {
            self.answered = Some(time);
        }
        again
    }

    /// What its id is if it is not declared: the address that is really spoken to, not the name that the client has
    /// for it, and the path.
    pub(super) fn server_id(&self) -> ServerId {
        discovery::address_id(&format!("{}{}{}", self.address, self.path, self.elsewhere()))
    }

    /// What serves, for pins.
    pub(super) fn program(&self) -> String {
        format!("{}{}", self.url(), self.elsewhere())
    }

    /// Every network namespace has a loopback and abstract names of its own. Other addresses keep their id: containers reach the
    /// same server at them.
    fn elsewhere(&self) -> String {
        let is_of_namespace = match &self.address {
            ServerAddress::Internet(address) => address.ip().is_loopback(),
            ServerAddress::Unix(name) => name.starts_with('@'),
        };
        self.netns.filter(|_| is_of_namespace).map_or_else(String::new, |netns| format!("@netns-{netns}"))
    }

    /// As a URL.
    pub(super) fn url(&self) -> String {
        let scheme = match self.kind {
            ServerType::Unix => return self.address.to_string(),
            ServerType::Tcp => "tcp",
            _ if self.tls => "https",
            _ => "http",
        };
        format!("{scheme}://{}{}", self.address, self.path)
    }

    /// Memory that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let name = match &self.address {
            ServerAddress::Unix(name) => name.len(),
            ServerAddress::Internet(_) => 0,
        };
        self.path.len() + self.host.len() + name + self.process.as_ref().map_or(0, Process::bytes)
    }
}

/// A host without its port: `[::1]:80` is `[::1]`.
pub(super) fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    }
}
