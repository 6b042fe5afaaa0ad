//! `mcpwarden replay`: recorded frames through the same policy core, events out. See [`mcpwarden_policy::replay`] for
//! what a line is. The same input gives the same bytes: nothing is read but the input, the configuration and what that
//! names.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};

use anyhow::{Context as _, Result};
use mcpwarden_policy::replay::{GuardAnswer, Replay};
use mcpwarden_policy::terms::contract::GuardFailure;
use mcpwarden_policy::{GuardQuestion, Output};
use serde_json::json;

use crate::cli::{ReplayGuards, ReplayOptions};
use crate::commands::lines;
use crate::config;
use crate::external::{External, Externals, Secrets};
use crate::output::{Dates, Format, Unwritable, print_error};

/// Replays a file, or standard input for `-`.
///
/// # Errors
/// The file cannot be read, or a line of it is no record; what came before was printed.
pub fn run(options: &ReplayOptions) -> Result<()> {
    let source = config::read(options.config.as_deref())?;
    // Hashes are keyed with a secret of the host; here the same input has to give the same bytes on every host.
    let engine = config::engine(&source, [0; 32], options.verbose, options.show_payloads)?;
    let (name, input) = lines::open(&options.file)?;
    let stdout = BufWriter::new(std::io::stdout().lock());
    let failed: RefCell<Option<std::io::Error>> = RefCell::new(None);
    let mut replay = Replay::new(engine);
    if options.guards == ReplayGuards::Live {
        let externals = config::externals(&source, None, Secrets::ForEachRequest)?;
        let mut answers = match &options.answers {
            Some(path) => {
                let file = File::create(path);
                Some(BufWriter::new(file.with_context(|| format!("cannot write {}", path.display()))?))
            }
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let failed = &failed;
        replay = replay.with_guards(Box::new(move |question| {
            let answer = ask(&externals, &runtime, question)?;
            // What was not even asked is asked again in another replay.
            if let (Some(file), false) = (&mut answers, matches!(answer, Err(GuardFailure::Refused(_)))) {
                let written = writeln!(file, "{}", line_of(question, &answer)).and_then(|()| file.flush());
                if let Err(error) = written {
                    failed.borrow_mut().get_or_insert(error);
                }
            }
            Some(answer)
        }));
    }
    Printer::new(options.output.format(), stdout).run(replay, &name, input)?;
    match failed.take() {
        Some(error) => Err(error).context("cannot write the answers"),
        None => Ok(()),
    }
}

/// Asks a guard that others wrote; `None`: there is none of this name.
fn ask(
    externals: &Externals,
    runtime: &tokio::runtime::Runtime,
    question: &GuardQuestion,
) -> Option<GuardAnswer> {
    let answered = match &**externals.get(&question.guard)? {
        External::Component(component) => External::run(component, question, question.timeout),
        External::Service(service, _) => runtime.block_on(External::ask(service, question)),
    };
    Some(answered.answer)
}

/// The line of a recording that gives this answer.
fn line_of(question: &GuardQuestion, answer: &GuardAnswer) -> serde_json::Value {
    let mut line = json!({ "t": 0, "event": "answer", "question": question.id });
    match answer {
        Ok(reply) => line["reply"] = json!(reply),
        Err(failure) => line["failure"] = json!(failure),
    }
    line
}

struct Printer<W> {
    format: Format,
    to: W,
    outputs: Vec<Output>,
    line: Vec<u8>,
    dates: Dates,
}

impl<W: Write> Printer<W> {
    fn new(format: Format, to: W) -> Self {
        Self { format, to, outputs: Vec::new(), line: Vec::new(), dates: Dates::of_first() }
    }

    fn run(mut self, mut replay: Replay<'_>, name: &str, input: impl BufRead) -> Result<()> {
        lines::each(name, input, |line| {
            let outcome = replay.line(line, &mut self.outputs);
            // What was said until then stays said.
            self.print()?;
            Ok(outcome?)
        })?;
        while replay.wait(&mut self.outputs) {
            self.print()?;
        }
        let invalid = replay.invalid_frames();
        if invalid > 0 {
            print_error(format!("{name}: {invalid} of the frames are no JSON-RPC; `--verbose` prints them"));
        }
        let unanswered = replay.unanswered();
        if unanswered > 0 {
            print_error(format!(
                "{name}: {unanswered} questions to guards that others wrote have no answer in the recording, and count as failures; \
                 `--guards live` asks the guards"
            ));
        }
        let refused = replay.refused_connections();
        if refused > 0 {
            print_error(format!(
                "{name}: {refused} connections were not followed, since more were open at once than the engine keeps: nothing \
                 is said of them; replay fewer sessions at a time"
            ));
        }
        self.to.flush().map_err(Unwritable)?;
        Ok(())
    }

    fn print(&mut self) -> Result<()> {
        for output in self.outputs.drain(..) {
            if let Output::Event(event) = output {
                self.line.clear();
                self.format.write(&event, &mut self.dates, &mut self.line);
                self.to.write_all(&self.line).map_err(Unwritable)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
