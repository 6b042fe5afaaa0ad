//! One pin, and what a sight of a definition makes of it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ArgumentTest, ArgumentTests, Pointer};
use crate::terms::{PinState, Severity, Timestamp};

/// How exactly it is known when something was last seen: a list that is sent every second is not written as often.
const LAST_SEEN_STEP: Duration = Duration::from_secs(60);
/// Most changed definitions remembered as said, for each item, and most that are denied. With more, the oldest is said
/// again when it returns, or waits for approval again.
const MAX_SAID: usize = 16;
/// Most limited approvals of one item. A further one is refused.
pub(super) const MAX_LIMITED: usize = 16;

/// What is remembered of a tool, a prompt, a resource template, or of instructions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinRecord {
    /// When it was first seen; of a declared server, as a tool of any of its programs. Among servers that offer one name,
    /// the earliest is the first.
    pub first_seen: Timestamp,
    /// When it was last seen, to the minute.
    pub last_seen: Timestamp,
    /// Hash of the definition that it is compared with.
    pub hash: String,
    /// Whether that stays so until somebody approves another one. Else it is compared with the one before.
    pub pinned: bool,
    /// Who approved the definition with that hash.
    pub approved: Option<Approval>,
    /// The worst that was found in the definition seen last.
    pub max_severity: Option<Severity>,
    /// Hash of the definition seen last.
    pub current: String,
    /// Whether the server's last whole list had it.
    pub listed: bool,
    /// Other definitions than the pinned one that were said, oldest first (bounded).
    pub said: Vec<Said>,
    /// Definitions of which somebody said that they must not be used, oldest first (bounded).
    #[serde(default)]
    pub denied: Vec<Denied>,
    /// The version of the server's package, image or program that listed it last, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<str>>,
    /// Which version the hash has: [`HASH_VERSION`], or 0 of one that was made when `_meta` did not count.
    #[serde(default)]
    pub hash_version: u32,
    /// The hash without `_meta` of the definition seen last, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bare: Option<Box<str>>,
    /// Approvals of some calls, oldest first (bounded).
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub limited: Box<[LimitedApproval]>,
}

/// The version of the hashes that are made now: `_meta` counts.
pub const HASH_VERSION: u32 = 1;

/// Who approved a definition, or denied it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Who, as the control socket knows them.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// An approval of a tool that holds for some of its calls, or for some time. The pin does not move with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedApproval {
    /// Hash of the definition that is approved.
    pub hash: String,
    /// For which calls, and until when.
    #[serde(flatten)]
    pub limits: ApprovalLimits,
    /// Who said so, and when.
    #[serde(flatten)]
    pub said: Approval,
}

/// Numbers of tests come from JSON or YAML, which have no NaN that is accepted.
impl Eq for LimitedApproval {}

/// The calls that a [`LimitedApproval`] is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalLimits {
    /// What the arguments must be. Without tests, any.
    #[serde(default, skip_serializing_if = "ArgumentTests::is_empty")]
    pub arguments: ArgumentTests,
    /// One call only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Until then only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl ApprovalLimits {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Whether its time is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    fn bytes(&self) -> usize {
        let test = |(pointer, test): (&Pointer, &ArgumentTest)| {
            pointer.as_str().len() + serde_json::to_string(test).map_or(0, |json| json.len())
        };
        self.arguments.iter().map(test).sum()
    }
}

/// A definition that must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denied {
    /// Its hash.
    pub hash: String,
    /// Who said so, and when.
    #[serde(flatten)]
    pub said: Approval,
}

/// A changed definition that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// Its hash.
    pub hash: String,
    /// Whether it was said, too, that it gave way to the pinned definition.
    pub restored: bool,
}

/// What a sight of a definition is, compared with the pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing that was not said.
    Same,
    /// Another definition than `previous`.
    Changed { previous: String },
    /// The pinned definition again, after `previous`.
    Restored { previous: String },
}

impl PinRecord {
    /// The first sight of it.
    pub(super) fn new(hash: &str, pinned: bool, severity: Option<Severity>, now: Timestamp) -> Self {
        Self {
            first_seen: now,
            last_seen: now,
            hash: hash.to_owned(),
            pinned,
            approved: None,
            max_severity: severity,
            current: hash.to_owned(),
            listed: true,
            said: Vec::new(),
            denied: Vec::new(),
            version: None,
            hash_version: HASH_VERSION,
            bare: None,
            limited: Box::default(),
        }
    }

    /// A server of this version lists it. The version before, where that is known and another one; and whether anything is new.
    pub(super) fn listed_by(&mut self, version: &str) -> (Option<String>, bool) {
        if self.version.as_deref() == Some(version) {
            return (None, false);
        }
        (self.version.replace(version.into()).map(String::from), true)
    }

    /// Has hashes of this version in place of former ones, now that a definition is seen that has this hash and had that one.
    /// Whether anything has changed by that.
    ///
    /// A pin of a former version says nothing of `_meta`: the first definition that is otherwise the pinned one decides what
    /// that is to be, as the first of all definitions does for the rest.
    pub(super) fn adopt(&mut self, hash: &str, former: Option<&str>) -> bool {
        let before = (self.hash_version, self.bare.as_deref() == former);
        self.bare = former.map(Box::from);
        if self.hash_version < HASH_VERSION {
            if let Some(former) = former {
                let said = self.said.iter_mut().map(|said| &mut said.hash);
                for known in [&mut self.hash, &mut self.current]
                    .into_iter()
                    .chain(said)
                    .filter(|known| **known == former)
                {
                    hash.clone_into(known);
                }
            }
            if self.hash == hash {
                self.hash_version = HASH_VERSION;
            }
        }
        before != (self.hash_version, true)
    }

    /// Takes note of a sight, as a table:
    ///
    /// | seen | pinned | not pinned |
    /// |---|---|---|
    /// | the hash compared with | `Same`; `Restored` after a change, once for each changed hash | `Same` |
    /// | another one, for the first time | `Changed` | `Changed`; it is what is compared with now |
    /// | another one that was said | `Same` (and not as pinned, whatever is said) | `Same`, and so is this |
    pub(super) fn see(&mut self, hash: &str, severity: Option<Severity>, now: Timestamp) -> Sight {
        if now > self.last_seen.after(LAST_SEEN_STEP) {
            self.last_seen = now;
        }
        self.listed = true;
        self.max_severity = severity;
        if self.current == hash {
            return Sight::Same;
        }
        let before = std::mem::replace(&mut self.current, hash.to_owned());
        if self.hash == hash {
            return match self.said.iter_mut().find(|said| said.hash == before && !said.restored) {
                Some(said) => {
                    said.restored = true;
                    Sight::Restored { previous: before }
                }
                None => Sight::Same,
            };
        }
        let previous = if self.pinned {
            self.hash.clone()
        } else {
            self.hash_version = HASH_VERSION;
            std::mem::replace(&mut self.hash, hash.to_owned())
        };
        if self.said.iter().any(|said| said.hash == hash) {
            return Sight::Same;
        }
        if self.said.len() >= MAX_SAID {
            self.said.remove(0);
        }
        self.said.push(Said { hash: hash.to_owned(), restored: false });
        Sight::Changed { previous }
    }

    /// Pins the definition with this hash for good. What was said before counts no more: compared with another pin it
    /// is another change. `is_listed`: whether the definition is listed now, so that its hash is of this version.
    pub(super) fn approve(&mut self, hash: &str, is_listed: bool, by: &str, at: Timestamp) {
        if is_listed {
            self.hash_version = HASH_VERSION;
        }
        hash.clone_into(&mut self.hash);
        self.pinned = true;
        self.approved = Some(Approval { by: by.to_owned(), at });
        self.said.clear();
        self.denied.retain(|denied| denied.hash != hash);
        self.keep_limited(|limited| limited.hash != hash);
    }

    /// Keeps of the limited approvals those of which this is true.
    pub(super) fn keep_limited(&mut self, keep: impl FnMut(&LimitedApproval) -> bool) {
        if !self.limited.is_empty() {
            let mut limited = std::mem::take(&mut self.limited).into_vec();
            limited.retain(keep);
            self.limited = limited.into();
        }
    }

    /// Approves calls of the definition with this hash within limits, beside what was approved so before. The same limits
    /// again take the place of the former ones. `false`: there is no room.
    pub(super) fn approve_limited(&mut self, hash: &str, limits: ApprovalLimits, said: Approval) -> bool {
        let is_same = |known: &LimitedApproval| {
            known.hash == hash
                && (&known.limits.arguments, known.limits.once) == (&limits.arguments, limits.once)
        };
        self.keep_limited(|known| !known.limits.is_over(said.at) && (limits.once || !is_same(known)));
        if self.limited.len() >= MAX_LIMITED {
            return false;
        }
        let mut limited = std::mem::take(&mut self.limited).into_vec();
        limited.push(LimitedApproval { hash: hash.to_owned(), limits, said });
        self.limited = limited.into();
        true
    }

    /// The limited approvals of the definition seen last that are not over, in the order in which they are tried: those for one
    /// call come last, so that no call uses one up that another lets pass.
    pub(crate) fn limited_now(&self, now: Timestamp) -> impl Iterator<Item = &LimitedApproval> {
        let of = move |once| {
            self.limited.iter().filter(move |known| {
                known.limits.once == once && known.hash == self.current && !known.limits.is_over(now)
            })
        };
        of(false).chain(of(true))
    }

    /// The definition with this hash must not be used. What is pinned stays so.
    pub(super) fn deny(&mut self, hash: &str, by: &str, at: Timestamp) {
        if self.hash == hash {
            self.approved = None;
        }
        self.keep_limited(|limited| limited.hash != hash);
        self.denied.retain(|denied| denied.hash != hash);
        if self.denied.len() >= MAX_SAID {
            self.denied.remove(0);
        }
        self.denied.push(Denied { hash: hash.to_owned(), said: Approval { by: by.to_owned(), at } });
    }

    /// Whether somebody said that the definition with this hash must not be used.
    pub fn denies(&self, hash: &str) -> bool {
        self.denied.iter().any(|denied| denied.hash == hash)
    }

    /// Whether somebody said that the definition seen last must not be used, also before `_meta` counted.
    pub fn denies_current(&self) -> bool {
        self.denies(&self.current) || self.bare.as_deref().is_some_and(|bare| self.denies(bare))
    }

    /// Whether a definition with this hash is one that somebody can have looked at: the pinned one, the one seen
    /// last, or one that was said to have changed.
    pub fn knows(&self, hash: &str) -> bool {
        self.hash == hash || self.current == hash || self.said.iter().any(|said| said.hash == hash)
    }

    /// How a definition with this hash stands to the pin.
    pub fn state_of(&self, hash: &str) -> PinState {
        match (self.pinned, self.hash == hash) {
            (false, _) => PinState::Unpinned,
            (true, true) => PinState::Pinned,
            (true, false) => PinState::Changed,
        }
    }

    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let said: usize = self.said.iter().map(|said| size_of::<Said>() + said.hash.len()).sum();
        let by = self.approved.as_ref().map_or(0, |approval| approval.by.len());
        let denied =
            self.denied.iter().map(|denied| size_of::<Denied>() + denied.hash.len() + denied.said.by.len());
        let version = self.version.as_ref().map_or(0, |version| version.len());
        let bare = self.bare.as_ref().map_or(0, |bare| bare.len());
        let limited = |known: &LimitedApproval| {
            size_of::<LimitedApproval>() + known.hash.len() + known.limits.bytes() + known.said.by.len()
        };
        size_of::<Self>()
            + self.hash.len()
            + self.current.len()
            + said
            + by
            + bare
            + version
            + denied.sum::<usize>()
            + self.limited.iter().map(limited).sum::<usize>()
    }
}
