//! Guards that others wrote are asked on threads of their own: the main loop hands questions over, and takes answers in.

mod reports;
mod turns;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpwarden_policy::{
    GuardQuestion, Timestamp,
    event::GuardLoaded,
    terms::contract::{GuardFailure, GuardName},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::external::{Answered, External, Externals};
pub use reports::Reports;
use turns::Turns;

/// Components that run at once, of all guards.
const RUNNING: usize = 32;

/// The guards that are asked, and the answers that nobody has taken in.
pub struct Guards {
    asked: BTreeMap<Arc<GuardName>, Asked>,
    // Never more than questions are open.
    answers: (UnboundedSender<Answered>, UnboundedReceiver<Answered>),
    /// Where they are asked; `None` until there is one.
    runtime: Option<Runtime>,
    /// What components report besides.
    reports: Reports,
}

/// A guard, and how many questions to it may run at once: others wait for their turn, as long as they have time.
#[derive(Clone)]
struct Asked {
    external: Arc<External>,
    turns: Arc<Turns>,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            asked: BTreeMap::new(),
            answers: unbounded_channel(),
            runtime: None,
            reports: Reports::default(),
        }
    }
}

impl Guards {
    /// Has these guards asked from now on. What is to be reported of it.
    ///
    /// # Errors
    /// No thread can be started for them.
    pub fn configure(&mut self, externals: &Externals) -> std::io::Result<Vec<GuardLoaded>> {
        if self.runtime.is_none() && !externals.is_empty() {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).max_blocking_threads(RUNNING).thread_name("guards").enable_all();
            self.runtime = Some(builder.build()?);
        }
        let asked = |(name, external): (&Arc<GuardName>, &Arc<External>)| {
            let turns = Turns::new(external.at_once());
            (Arc::clone(name), Asked { external: Arc::clone(external), turns })
        };
        self.asked = externals.iter().map(asked).collect();
        self.reports.keep_of(|name| externals.get(name).is_some());
        Ok(externals.loaded())
    }

    /// Puts a question. Its answer comes with [`Self::answered`], in any case.
    pub fn ask(&self, question: GuardQuestion) {
        let sender = self.answers.0.clone();
        let (Some(runtime), Some(asked)) = (&self.runtime, self.asked.get(&question.guard).cloned()) else {
            let failure = GuardFailure::Refused("the guard is configured no more".to_owned());
            let _ = sender.send(Answered::of(&question, Err(failure), Duration::ZERO));
            return;
        };
        runtime.spawn(async move {
            let answered = asked.answer(question).await;
            // Nobody waits for it any more where the agent ends.
            let _ = sender.send(answered);
        });
    }

    /// Takes in what a component reported with its answer: lines of its log, and samples.
    pub fn note(&mut self, answered: &Answered, now: Timestamp) {
        self.reports.take(answered, now);
    }

    /// What components reported as metrics, and what of it was dropped.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Waits for the next answer; for ever where nothing is asked.
    pub async fn answered(&mut self) -> Option<Answered> {
        self.answers.1.recv().await
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        // A component may run until its time is over: the agent does not wait for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Asked {
    async fn answer(self, question: GuardQuestion) -> Answered {
        let (started, deadline) = (Instant::now(), question.timeout);
        let late =
            |question: &GuardQuestion| Answered::of(question, Err(GuardFailure::Timeout), started.elapsed());
        let Ok(_turn) = tokio::time::timeout(deadline, self.turns.take(question.owner)).await else {
            return late(&question);
        };
        let left = deadline.saturating_sub(started.elapsed());
        match &*self.external {
            External::Service(service, _) => {
                match tokio::time::timeout(left, External::ask(service, &question)).await {
                    Ok(answered) => answered,
                    Err(_) => late(&question),
                }
            }
            External::Component(_) => {
                let (external, asked) = (Arc::clone(&self.external), question.clone());
                let run = move || match &*external {
                    External::Component(component) => Some(External::run(component, &asked, left)),
                    External::Service(..) => None,
                };
                match tokio::task::spawn_blocking(run).await {
                    Ok(Some(answered)) => answered,
                    _ => {
                        let failure = GuardFailure::Error("the thread that asks it failed".to_owned());
                        Answered::of(&question, Err(failure), started.elapsed())
                    }
                }
            }
        }
    }
}
