//! Where events are sent beside the store: files, the journal, webhooks and standard output.
//!
//! Each sink has a filter, a bounded queue and a thread of its own: one that is slow or dead costs its own backlog and
//! nothing else. What is dropped is counted and reported (`agent_loss`).

mod file;
mod filter;
mod journal;
mod ocsf;
mod queue;
mod spool;
mod stdout;
mod webhook;

use std::{
    cell::OnceCell,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use mcpwarden_policy::{
    Event, EventBody, ServerId, SessionId,
    config::{self, Overflow, SinkFormat, SinkKind},
    event::Severity,
};

use filter::Filter;
use mcpwarden_system::ends;
use ocsf::Ocsf;
use queue::Queue;
pub use queue::SinkCounters;
use stdout::Chunk;

/// Bytes that wait for a sink, on disk for a webhook, where the configuration does not say.
const QUEUE_BYTES: u64 = 8 << 20;
/// The same of standard output, which has all events of a burst where the configuration selects none.
const PRINTED_BYTES: u64 = 64 << 20;
/// What standard output is called: there is one.
pub const STDOUT: &str = "stdout";
/// How long one that is given up may take to send what waits.
const GIVEN_UP: Duration = Duration::from_millis(400);

/// An event as it is sent.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its type.
    pub kind: &'static str,
    /// How bad it is, where that can be said of it.
    pub severity: Option<Severity>,
    /// Whom it is about.
    pub server: Option<Arc<str>>,
    /// In which session.
    pub session: Option<Arc<str>>,
    /// JSON, without a line feed.
    pub text: Arc<[u8]>,
}

impl Line {
    fn of(event: &Event, text: &[u8]) -> Self {
        Self {
            kind: event.kind(),
            severity: event.body.severity(),
            server: event.server_id.as_ref().map(|ServerId(id)| Arc::clone(id)),
            session: event.session_id.as_ref().map(|SessionId(id)| Arc::clone(id)),
            text: text.into(),
        }
    }

    #[cfg(test)]
    fn plain(text: &str) -> Self {
        let text = text.as_bytes().into();
        Self { kind: "agent_loss", severity: None, server: None, session: None, text }
    }
}

/// How an event is printed.
#[derive(Debug, PartialEq)]
pub enum Print {
    /// Not at all.
    No,
    /// As it is stored, or for people.
    Native,
    /// Where it is not for people, as this line.
    As(Arc<[u8]>),
}

/// Which events are printed on standard output, and how.
struct Printed {
    format: SinkFormat,
    filter: Filter,
    queue_bytes: Option<u64>,
    overflow: Option<Overflow>,
}

/// Standard output.
struct Output {
    queue: Arc<Queue<Chunk>>,
    thread: JoinHandle<()>,
}

/// One of them.
struct Sink {
    config: config::Sink,
    /// Its place in the configuration and its kind, as metrics name it.
    name: String,
    filter: Filter,
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// All of them.
pub struct Sinks {
    sinks: Vec<Sink>,
    /// What is printed, where that is configured.
    printed: Option<Printed>,
    /// Where it is printed. `None` until it is opened.
    output: Option<Output>,
    ocsf: Ocsf,
    /// What waits for webhooks is kept there.
    state_dir: PathBuf,
}

impl Sinks {
    /// Opens them, and begins to send. What waits for webhooks is kept in `state_dir`.
    ///
    /// # Errors
    /// One cannot be opened; says which.
    pub fn start(configs: &[config::Sink], state_dir: &Path) -> Result<Self> {
        let mut sinks = Self {
            sinks: Vec::new(),
            printed: None,
            output: None,
            ocsf: Ocsf::new(),
            state_dir: state_dir.to_owned(),
        };
        sinks.configure(configs)?;
        Ok(sinks)
    }

    /// Prints to this from now on, which is standard output.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn print_to(&mut self, out: File) -> Result<()> {
        let (capacity, overflow) = self.bounds_of_output()?;
        let queue = Arc::new(Queue::new(capacity, overflow));
        let of_thread = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("output".into());
        let thread = thread.spawn(move || stdout::run(&out, &of_thread));
        self.output = Some(Output { queue, thread: thread.context("cannot start the output thread")? });
        Ok(())
    }

    fn bounds_of_output(&self) -> Result<(usize, Overflow)> {
        let (bytes, overflow) =
            self.printed.as_ref().map_or((None, None), |printed| (printed.queue_bytes, printed.overflow));
        Ok((usize::try_from(bytes.unwrap_or(PRINTED_BYTES))?, overflow.unwrap_or(Overflow::DropOldest)))
    }

    /// Prints lines, each with its line feed, which are so many events. Never waits.
    pub fn print(&self, text: Bytes, events: usize) {
        if let Some(output) = self.output.as_ref().filter(|_| events > 0) {
            output.queue.push(Chunk { text, events });
        }
    }

    /// Sends to these from now on: those that are as they were go on with what waits for them, and others are given up, with a
    /// moment for what waits.
    ///
    /// # Errors
    /// One cannot be opened; says which. Those of before go on.
    pub fn configure(&mut self, configs: &[config::Sink]) -> Result<()> {
        let of_own = |config: &config::Sink| config.kind != SinkKind::Stdout;
        let stdout = configs.iter().find(|config| config.kind == SinkKind::Stdout);
        let printed = |config: &config::Sink| -> Result<Printed> {
            Ok(Printed {
                format: config.format,
                filter: Filter::of(&config.filter)?,
                queue_bytes: config.queue_bytes.map(|bytes| bytes.0),
                overflow: config.overflow,
            })
        };
        let printed = stdout.map(printed).transpose()?;
        let wanted = configs.iter().enumerate().filter(|(_, config)| of_own(config));
        let mut new = Vec::new();
        for (index, config) in wanted.clone().filter(|(_, config)| !self.has(config)) {
            let sink = Sink::start(index, config, &self.state_dir);
            new.push((index, sink.with_context(|| format!("sinks[{index}]"))?));
        }
        let mut before = std::mem::take(&mut self.sinks);
        let mut new = new.into_iter().peekable();
        for (index, config) in wanted {
            if let Some((_, sink)) = new.next_if(|(new, _)| *new == index) {
                self.sinks.push(sink);
            } else if let Some(place) = before.iter().position(|sink| sink.config == *config) {
                let mut sink = before.swap_remove(place);
                sink.name = Sink::name(index, config);
                self.sinks.push(sink);
            }
        }
        self.printed = printed;
        let (capacity, overflow) = self.bounds_of_output()?;
        if let Some(output) = &self.output {
            output.queue.bound(capacity, overflow);
        }
        // One file must not have two writers.
        finish(before, Instant::now() + GIVEN_UP);
        Ok(())
    }

    fn has(&self, config: &config::Sink) -> bool {
        self.sinks.iter().any(|sink| sink.config == *config)
    }

    /// Sends an event, whose line of JSON is `text`, to those that want it, and says how it is printed. Never waits.
    pub fn offer(&self, event: &Event, text: &[u8]) -> Print {
        let (native, ocsf) = (OnceCell::new(), OnceCell::new());
        // Each is made once, and only where somebody wants it.
        let line = |format| match format {
            SinkFormat::Native => native.get_or_init(|| Line::of(event, text)),
            SinkFormat::Ocsf => ocsf.get_or_init(|| Line::of(event, &self.ocsf.line(event, text))),
        };
        let always = matches!(event.body, EventBody::AuditHead(_));
        for sink in self.sinks.iter().filter(|sink| always || sink.filter.passes(event)) {
            sink.queue.push(line(sink.config.format).clone());
        }
        match &self.printed {
            Some(printed) if !printed.filter.passes(event) => Print::No,
            Some(Printed { format: SinkFormat::Ocsf, .. }) => {
                Print::As(Arc::clone(&line(SinkFormat::Ocsf).text))
            }
            _ => Print::Native,
        }
    }

    /// What came of events so far, of each.
    pub fn counters(&self) -> impl Iterator<Item = (&str, SinkCounters)> {
        let sinks = self.sinks.iter().map(|sink| (sink.name.as_str(), sink.queue.counters()));
        sinks.chain(self.output.iter().map(|output| (STDOUT, output.queue.counters())))
    }

    /// Nothing more will come: what waits is all that is left to send.
    pub fn close(&self) {
        self.sinks.iter().for_each(|sink| sink.queue.close());
        self.output.iter().for_each(|output| output.queue.close());
    }

    /// Lets them send what waits, until then at the latest: whoever does not read must not keep the agent from ending.
    pub fn finish(self, until: Instant) {
        self.close();
        if let Some(Output { queue, thread }) = self.output
            && !ends(&thread, until)
        {
            log_rest(STDOUT, &queue.counters());
        }
        finish(self.sinks, until);
    }
}

fn finish(sinks: Vec<Sink>, until: Instant) {
    sinks.iter().for_each(|sink| sink.queue.close());
    for sink in sinks {
        if !ends(&sink.thread, until) {
            log_rest(&sink.name, &sink.queue.counters());
        }
    }
}

fn log_rest(name: &str, counters: &SinkCounters) {
    let left = counters.waiting_bytes;
    tracing::error!("{name}: the last events were not sent in time; {left} bytes waited");
}

impl Drop for Sink {
    /// Its thread ends.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Sink {
    fn name(index: usize, config: &config::Sink) -> String {
        format!("{index}:{}", kind(config.kind))
    }

    fn start(index: usize, config: &config::Sink, state_dir: &Path) -> Result<Self> {
        let name = Self::name(index, config);
        let capacity = config.queue_bytes.map_or(QUEUE_BYTES, |bytes| bytes.0);
        // That of a webhook waits on disk; on the way there it waits as for others.
        let in_memory = if config.kind == SinkKind::Webhook { QUEUE_BYTES } else { capacity };
        let overflow = config.overflow.unwrap_or(Overflow::DropOldest);
        let queue = Arc::new(Queue::new(usize::try_from(in_memory)?, overflow));
        let of_thread = Arc::clone(&queue);
        let body: Box<dyn FnOnce() + Send> = match config.kind {
            SinkKind::File => {
                let mut file = file::RotatingFile::open(config)?;
                Box::new(move || file.run(&of_thread))
            }
            SinkKind::Journald => {
                let journal = journal::Journal::at(Path::new(journal::SOCKET))?;
                Box::new(move || journal.run(&of_thread))
            }
            SinkKind::Webhook => {
                let webhook = webhook::Webhook::new(config, &name, state_dir, capacity)?;
                Box::new(move || webhook.run(&of_thread))
            }
            SinkKind::Stdout => bail!("it has no thread"),
        };
        let thread = std::thread::Builder::new().name(format!("sink {name}")).spawn(body)?;
        Ok(Self { config: config.clone(), name, filter: Filter::of(&config.filter)?, queue, thread })
    }
}

fn kind(kind: SinkKind) -> &'static str {
    match kind {
        SinkKind::Stdout => STDOUT,
        SinkKind::File => "file",
        SinkKind::Journald => "journald",
        SinkKind::Webhook => "webhook",
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{Timestamp, event::StoreFailing};

    use super::*;

    /// A webhook that nobody listens at; `more` is the rest of the list.
    fn configs(queue_bytes: &str, more: &str) -> Vec<config::Sink> {
        let webhook = format!("{{ kind: webhook, url: 'http://127.0.0.1:1/', queue_bytes: {queue_bytes} }}");
        config::parse(format!("sinks: [{webhook}{more}]").as_bytes()).unwrap().0.sinks
    }

    /// What waits on disk, once it has this event.
    fn kept(state_dir: &Path, seq: u64) -> String {
        let last = format!("{{\"seq\":{seq}}}\n");
        for _ in 0..1_000 {
            let mut paths = Vec::new();
            for spool in std::fs::read_dir(state_dir.join("webhooks")).unwrap() {
                let files = std::fs::read_dir(spool.unwrap().path()).unwrap();
                paths.extend(files.map(|file| file.unwrap().path()));
            }
            paths.sort();
            let text: String = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
            if text.ends_with(&last) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{seq} is not there");
    }

    /// The list, and how an event is printed: natively, not at all, or as a line of OCSF.
    #[test]
    fn stdout_sink_decides_the_printed_format() {
        let directory = tempfile::tempdir().unwrap();
        let event = Event::agent(Timestamp(1), StoreFailing::default().into());
        for (sinks, expected) in [
            ("[]", "native"),
            ("[{ kind: stdout }]", "native"),
            ("[{ kind: stdout, filter: { types: [agent_loss] } }]", "no"),
            ("[{ kind: stdout, format: ocsf, filter: { types: [agent_loss] } }]", "no"),
            ("[{ kind: stdout, format: ocsf }]", "ocsf"),
        ] {
            let (config, _) = config::parse(format!("sinks: {sinks}").as_bytes()).unwrap();
            let found = Sinks::start(&config.sinks, directory.path()).unwrap().offer(&event, b"{\"seq\":1}");
            let found = match found {
                Print::No => "no",
                Print::Native => "native",
                Print::As(line) if line.ends_with(b",\"unmapped\":{\"mcpwarden\":{\"seq\":1}}}") => "ocsf",
                Print::As(_) => "else",
            };
            assert_eq!(found, expected, "{sinks}");
        }
    }

    #[test]
    fn pending_webhook_events_survive_a_reload() {
        let directory = tempfile::tempdir().unwrap();
        let mut sinks = Sinks::start(&configs("1MiB", ""), directory.path()).unwrap();
        let event = Event::agent(Timestamp(1), StoreFailing::default().into());
        let mut expected = String::new();
        let mut offer = |sinks: &Sinks, seq: u64| {
            expected += &format!("{{\"seq\":{seq}}}\n");
            sinks.offer(&event, format!("{{\"seq\":{seq}}}").as_bytes());
            assert_eq!(kept(directory.path(), seq), expected);
        };
        offer(&sinks, 1);
        // Nothing changes where another sink cannot be opened, and one that was not to be does not go on.
        let unusable = configs("2MiB", ", { kind: file, path: /nowhere/x }");
        assert!(sinks.configure(&unusable).is_err());
        offer(&sinks, 2);
        sinks.configure(&configs("3MiB", "")).unwrap();
        offer(&sinks, 3);
        let counters = sinks.counters().next().unwrap().1;
        assert_eq!(
            (counters.written, counters.dropped, counters.capacity_bytes),
            (0, 0, QUEUE_BYTES + (3 << 20))
        );
        sinks.finish(Instant::now() + GIVEN_UP);
    }
}
