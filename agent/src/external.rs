//! Guards that others wrote, as the configuration names them: loaded, and asked. What they are asked and what follows is the
//! policy core's.

mod load;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mcpwarden_hooks::Hook;
use mcpwarden_policy::{
    GuardQuestion,
    event::GuardLoaded,
    terms::contract::{CONTRACT_VERSION, GuardFailure, GuardName, GuardReply},
};
use mcpwarden_wasm::{Call, CallReport, Guard as Component, Limits};

pub use load::{Secrets, load};

/// All of one configuration. By default there are none.
#[derive(Default)]
pub struct Externals(BTreeMap<Arc<GuardName>, Arc<External>>);

/// One of them.
pub enum External {
    /// A component, which runs on the thread that asks it.
    Component(Box<Component>),
    /// A service, and how many requests to it may be under way.
    Service(Box<Hook>, usize),
}

/// What came of a question.
#[derive(Debug)]
pub struct Answered {
    /// The id of the question.
    pub id: Arc<str>,
    /// Whom it was put to.
    pub guard: Arc<GuardName>,
    /// The answer, or why there is none.
    pub answer: Result<GuardReply, GuardFailure>,
    /// How long it took.
    pub elapsed: Duration,
    /// What a component reports besides.
    pub report: Option<Box<CallReport>>,
}

impl Externals {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one of this name.
    pub fn get(&self, name: &GuardName) -> Option<&Arc<External>> {
        self.0.get(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<GuardName>, &Arc<External>)> {
        self.0.iter()
    }

    /// Each as an event has it.
    pub fn loaded(&self) -> Vec<GuardLoaded> {
        let event = |(name, external): (&Arc<GuardName>, &Arc<External>)| GuardLoaded {
            guard: name.kind,
            guard_name: name.name.clone(),
            module_hash: match &**external {
                External::Component(component) => Some(component.sha256().to_owned()),
                External::Service(..) => None,
            },
            contract: CONTRACT_VERSION.to_owned(),
        };
        self.0.iter().map(event).collect()
    }
}

impl External {
    /// How many questions it is asked at once.
    pub fn at_once(&self) -> usize {
        match self {
            Self::Component(_) => Limits::default().instances,
            Self::Service(_, most) => *most,
        }
    }

    /// Asks a component, on this thread. A service is asked with [`Self::ask`].
    pub fn run(component: &Component, question: &GuardQuestion, timeout: Duration) -> Answered {
        // The same question has the same answer, whenever it is asked.
        let seed = question.id.bytes().fold(0_u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let call = Call { now_ns: question.time.0, seed, timeout };
        let (answer, report) = component.evaluate(&question.request, call);
        let elapsed = report.elapsed;
        Answered { report: Some(Box::new(report)), ..Answered::of(question, answer, elapsed) }
    }

    /// Asks a service.
    pub async fn ask(service: &Hook, question: &GuardQuestion) -> Answered {
        let (answer, told) = service.ask(&question.request, question.owner).await;
        Answered::of(question, answer, told.elapsed)
    }
}

impl Answered {
    /// Without a report.
    pub fn of(question: &GuardQuestion, answer: Result<GuardReply, GuardFailure>, elapsed: Duration) -> Self {
        let (id, guard) = (Arc::clone(&question.id), Arc::clone(&question.guard));
        Self { id, guard, answer, elapsed, report: None }
    }
}
