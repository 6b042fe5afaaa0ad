//! What the agent says about itself, asked as Prometheus asks.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::patience::patience;
use crate::places;

/// How long numbers may take to be as they must: they are published each second, and a page is kept for one.
const LIMIT: Duration = Duration::from_secs(15);

/// Where an agent's metrics are.
#[derive(Clone, Copy, Debug)]
pub struct Scrape {
    /// The address.
    pub address: SocketAddr,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// Behind the head.
    pub body: String,
}

impl Scrape {
    /// An address that nobody listens at now.
    ///
    /// # Errors
    /// There is no port left.
    pub fn free() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
        Ok(Self { address: listener.local_addr()? })
    }

    /// The part of the configuration that has the agent listen there.
    pub fn config(&self) -> String {
        format!("metrics: {{ listen: \"{}\" }}\n", self.address)
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn get(&self, path: &str) -> Result<Answer> {
        let mut stream = TcpStream::connect(self.address).context("nobody listens for metrics")?;
        stream.set_read_timeout(Some(patience(LIMIT)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context("no answer")?;
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        let (_, body) = text.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        Ok(Answer { status: status.context("no status")?, body: body.to_owned() })
    }

    /// All numbers, by what stands before them: the metric and its labels.
    ///
    /// # Errors
    /// There is no page.
    pub fn numbers(&self) -> Result<BTreeMap<String, f64>> {
        let page = self.get("/metrics")?;
        ensure!(page.status == 200, "{page:?}");
        let lines = page.body.lines().filter(|line| !line.starts_with('#'));
        let number = |line: &str| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        Ok(lines.filter_map(number).collect())
    }

    /// Waits until numbers are so much more than they were; what was not there was 0.
    ///
    /// # Errors
    /// They never are; says what they are.
    pub fn await_growth(&self, before: &BTreeMap<String, f64>, by: &[(String, f64)]) -> Result<()> {
        let deadline = Instant::now() + patience(LIMIT);
        loop {
            let now = self.numbers()?;
            let grown = |name: &str| {
                let of = |numbers: &BTreeMap<String, f64>| numbers.get(name).copied().unwrap_or(0.0);
                of(&now) - of(before)
            };
            let wrong: Vec<_> = by.iter().filter(|(name, by)| grown(name) != *by).collect();
            if wrong.is_empty() {
                return Ok(());
            }
            let found: Vec<_> = wrong.iter().map(|(name, _)| (name, grown(name))).collect();
            ensure!(Instant::now() < deadline, "expected {wrong:?}, found {found:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a path is answered so, with this in the body.
    ///
    /// # Errors
    /// It never is; says how it was last.
    pub fn await_answer(&self, path: &str, status: u16, part: &str) -> Result<()> {
        let deadline = Instant::now() + patience(LIMIT);
        loop {
            let answer = self.get(path);
            if answer.as_ref().is_ok_and(|answer| answer.status == status && answer.body.contains(part)) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{path} is not {status} {part:?}: {answer:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Prometheus's own tool, where there is one; else says that a test is skipped.
pub fn promtool(test: &str) -> Option<PathBuf> {
    let unpacked = places::real_servers().join("prometheus/promtool");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut installed = std::env::split_paths(&path).map(|directory| directory.join("promtool"));
    let found = Some(unpacked).filter(|path| path.exists()).or_else(|| installed.find(|path| path.exists()));
    if found.is_none() {
        places::skipped(test, "there is no promtool (`cargo xtask setup --tests` unpacks it)");
    }
    found
}
