//! One server's definitions, listed by the official SDK.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use mcpwarden_policy::config::Period;
use reqwest::header::HeaderMap;
use reqwest::{Certificate, Url};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::program::{Launch, Program, Show};
use super::user::Environment;
use crate::{Advice, Listed, Opening, Settings, Tap};

/// What options there are.
const ADVICE: Advice = Advice {
    credentials: "give it what it wants to see with --header",
    trust: "if it is the right one, name the certificate of who has, or itself, with --ca-file",
};

/// A signal came that asks for the end. Holds the exit status for it: 128 and its number, as shells have it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted(pub u8);

/// A server took too long to be reached, to be started or to list.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it did not answer within {0}; see that it is an MCP server, or give it longer with --timeout")]
pub struct TimedOut(pub Period);

/// Tells whether one came, also while nobody looked.
pub type Interruption = watch::Receiver<Option<Interrupted>>;

/// Takes signals from here on.
///
/// # Errors
/// They cannot be taken.
pub fn interruption() -> io::Result<Interruption> {
    let (sender, receiver) = watch::channel(None);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (sender, mut signals) = (sender.clone(), signal(kind)?);
        tokio::spawn(async move {
            signals.recv().await;
            let status = u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX);
            sender.send_replace(Some(Interrupted(status)));
        });
    }
    Ok(receiver)
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// By starting it.
    Program(Launch),
    /// Over HTTP.
    Address {
        /// Where.
        url: Url,
        /// What is sent with each request.
        headers: HeaderMap,
    },
}

/// What goes for all servers.
pub struct Terms<'a> {
    /// Variables that programs inherit.
    pub environment: &'a Environment,
    /// For a whole server, from its start to its last list.
    pub timeout: Duration,
    /// Where what servers say on standard error goes; `None`: nowhere.
    pub show: Option<fn(&str)>,
    /// Authorities beside the system's that may have signed a server's certificate.
    pub authorities: &'a [Certificate],
    /// Ends it.
    pub interruption: &'a Interruption,
    /// What is under way, for whoever waits.
    pub progress: crate::Progress<'a>,
}

/// Connects to a server, lists everything that it offers, and leaves it. One that was started is ended.
///
/// # Errors
/// It cannot be reached, is no MCP server, took too long, sent too much, or this was interrupted.
pub async fn list(name: &str, target: &Target, terms: &Terms<'_>) -> Result<Listed> {
    // One that does not answer the first leaves time for the second.
    let (patience, end) = (terms.timeout / 2, Instant::now() + terms.timeout);
    crate::either_way(patience, async |opening| {
        let outcome = attempt(name, target, terms, (opening, end)).await;
        if outcome.as_ref().is_err_and(|error| error.is::<Interrupted>()) {
            opening.decide();
        }
        outcome
    })
    .await
}

async fn attempt(
    name: &str,
    target: &Target,
    terms: &Terms<'_>,
    (opening, end): (&Opening, Instant),
) -> Result<Listed> {
    match target {
        Target::Program(launch) => {
            (terms.progress)("is being started");
            let tap = Tap::default();
            let prefix = format!("{}: ", mcpwarden_text::clean(name));
            let show =
                terms.show.map(|show| -> Show { Box::new(move |line| show(&format!("{prefix}{line}"))) });
            let (program, pipes) = Program::start(launch, terms.environment, show, tap.clone())?;
            let outcome = within(terms, end, crate::talk(pipes, opening, &tap, terms.progress)).await;
            (terms.progress)("is being ended");
            let fate = program.end().await;
            // These two are acted upon.
            let acted_upon = |error: &Error| error.is::<Interrupted>() || crate::is_refusal(error);
            outcome.map_err(|error| match acted_upon(&error) || fate.is_empty() {
                true => error,
                false => anyhow!("{error:#}; {fate}"),
            })
        }
        Target::Address { url, headers } => {
            (terms.progress)("is being reached");
            let authorities = terms.authorities.to_vec();
            let settings = Settings { headers: headers.clone(), authorities, pin: None, advice: ADVICE };
            let conversation = crate::talk_http(url, &settings, Tap::default, opening, terms.progress);
            within(terms, end, async { conversation.await.map(|spoken| spoken.listed) }).await
        }
    }
}

/// Bounds what is done with a server in time.
pub(crate) async fn within<T>(
    terms: &Terms<'_>,
    end: Instant,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    until(terms.interruption, end, work).await?.ok_or_else(|| TimedOut(Period(terms.timeout)).into())
}

/// The same; `None` where the time was over first.
pub(crate) async fn until<T>(
    interruption: &Interruption,
    end: Instant,
    work: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    let mut interruption = interruption.clone();
    tokio::select! {
        outcome = tokio::time::timeout_at(end.into(), work) => outcome.ok().transpose(),
        Ok(interrupted) = interruption.wait_for(Option::is_some) => {
            Err((*interrupted).map_or_else(|| anyhow!("interrupted"), Error::from))
        }
    }
}
