//! Which profile a session has: what the entries of `sessions:` say of its client. (Requirements:
//! docs/internals/requirements.md, "capabilities".)

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::Session;
use crate::glob::{GlobError, NameGlob};
use crate::guard::{AccessLists, Profile, Shared};
use crate::terms::{Hash, Mode, ProfileKey, SessionId};

/// Most sessions of which something is set by hand.
const MAX_BY_HAND: usize = 1_024;

/// What is known of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// User id.
    pub uid: Option<u32>,
    /// Path of the executable.
    pub executable: Option<&'a str>,
    /// Path in the cgroup (v2) tree.
    pub cgroup: Option<&'a str>,
}

/// Which clients an entry is for: those that fit all that is asked for. What is not known of a client fits nothing, so
/// that nobody gets rights by hiding.
#[derive(Clone, Debug, Default)]
struct Matcher {
    uid: Option<u32>,
    executable: Option<NameGlob>,
    cgroup: Option<NameGlob>,
}

impl Matcher {
    fn fits(&self, client: Client<'_>) -> bool {
        let glob = |glob: &Option<NameGlob>, path: Option<&str>| {
            glob.as_ref().is_none_or(|glob| path.is_some_and(|path| glob.matches(path)))
        };
        self.uid.is_none_or(|uid| client.uid == Some(uid))
            && glob(&self.executable, client.executable)
            && glob(&self.cgroup, client.cgroup)
    }
}

/// An entry of `sessions:`: clients, and the profile of their sessions.
#[derive(Clone, Debug)]
pub struct SessionRule {
    matcher: Matcher,
    profile: Profile,
}

impl SessionRule {
    /// The rule of an entry. `case_sensitive`: whether the names of servers and tools are told apart by capitals. What only the host
    /// knows is told beside it: the id of the user that it names, and whether
    /// the file that it names holds a token of an administrator.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub fn new(
        entry: &Session,
        case_sensitive: bool,
        uid: Option<u32>,
        admin_token: bool,
    ) -> Result<Self, GlobError> {
        let (executable, cgroup) = (&entry.matches.executable, &entry.matches.cgroup);
        // Paths are told apart by capitals, whatever the policy says of names.
        let matcher = Matcher {
            uid,
            executable: executable.as_ref().map(|glob| glob.compile(true)).transpose()?,
            cgroup: cgroup.as_ref().map(|glob| glob.compile(true)).transpose()?,
        };
        let profile = Profile {
            planning: entry.mode == Mode::Planning,
            spec_frozen: entry.spec_frozen,
            spec_hash: entry.spec_hash.as_ref().map(|hash| hash.as_str().to_owned()),
            project_id: entry.project_id.clone(),
            policy_blacklist: entry.policy_blacklist.iter().cloned().collect(),
            admin_token,
            lists: AccessLists::of(entry, case_sensitive)?.map(|lists| Shared(Arc::new(lists))),
        };
        Ok(Self { matcher, profile })
    }

    /// The same profile, for every client.
    #[must_use]
    pub fn of_everybody(self) -> Self {
        Self { matcher: Matcher::default(), ..self }
    }
}

/// What somebody says of a session, in place of what the configuration says of its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "key", content = "value", rename_all = "snake_case")]
pub enum Setting {
    /// Whether it plans or executes.
    Mode(Mode),
    /// The project that it works on; none.
    Project(Option<String>),
    /// The hash of the specification that it works on, which is frozen; none is.
    Spec(Option<Hash>),
    /// Side effects that no tool may have, all of them.
    Blacklist(BTreeSet<String>),
    /// Whether tools that need an administrator's token may be called.
    AdminToken(bool),
}

impl Setting {
    /// Of what it is.
    pub fn key(&self) -> ProfileKey {
        match self {
            Self::Mode(_) => ProfileKey::Mode,
            Self::Project(_) => ProfileKey::Project,
            Self::Spec(_) => ProfileKey::Spec,
            Self::Blacklist(_) => ProfileKey::Blacklist,
            Self::AdminToken(_) => ProfileKey::AdminToken,
        }
    }

    fn apply(&self, profile: &mut Profile) {
        match self {
            Self::Mode(mode) => profile.planning = *mode == Mode::Planning,
            Self::Project(project) => profile.project_id.clone_from(project),
            Self::Spec(hash) => {
                profile.spec_frozen = hash.is_some();
                profile.spec_hash = hash.as_ref().map(|hash| hash.as_str().to_owned());
            }
            Self::Blacklist(tags) => profile.policy_blacklist.clone_from(tags),
            Self::AdminToken(there) => profile.admin_token = *there,
        }
    }
}

/// What becomes of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileChange {
    /// This is said by hand.
    Set(Setting),
    /// The configuration says this again.
    Reset(ProfileKey),
}

/// There is no room for another session of which something is set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MAX_BY_HAND} running sessions have something set by hand, which is the most; reset what is not needed"
)]
pub struct TooManyProfiles;

/// The entries of `sessions:`, in order, and what was said of single sessions by hand.
#[derive(Clone, Debug, Default)]
pub struct SessionRules {
    rules: Vec<SessionRule>,
    by_hand: BTreeMap<SessionId, BTreeMap<ProfileKey, Setting>>,
    /// Of clients that no entry is for.
    default: Profile,
}

impl From<Vec<SessionRule>> for SessionRules {
    fn from(rules: Vec<SessionRule>) -> Self {
        Self { rules, ..Self::default() }
    }
}

impl SessionRules {
    /// The first entry that is for a client; `client` is not asked for where there is none.
    pub fn find<'a>(&self, client: impl FnOnce() -> Client<'a>) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let client = client();
        self.rules.iter().position(|rule| rule.matcher.fits(client))
    }

    /// The profile of an entry, or of clients that none is for: it executes, and has no rights.
    pub fn profile(&self, entry: Option<usize>) -> &Profile {
        entry.and_then(|entry| self.rules.get(entry)).map_or(&self.default, |rule| &rule.profile)
    }

    /// The profile of a session whose client has this entry, with what was said of it by hand.
    pub fn profile_of(&self, session: &SessionId, entry: Option<usize>) -> Cow<'_, Profile> {
        let profile = self.profile(entry);
        let Some(settings) = self.by_hand.get(session) else { return Cow::Borrowed(profile) };
        let mut profile = profile.clone();
        settings.values().for_each(|setting| setting.apply(&mut profile));
        Cow::Owned(profile)
    }

    /// Changes what is said of a session by hand. Where there is no room, sessions are forgotten that are over.
    ///
    /// # Errors
    /// There is no room.
    pub fn set(
        &mut self,
        session: &SessionId,
        change: ProfileChange,
        is_live: impl Fn(&SessionId) -> bool,
    ) -> Result<(), TooManyProfiles> {
        let setting = match change {
            ProfileChange::Set(setting) => setting,
            ProfileChange::Reset(key) => {
                if let Some(settings) = self.by_hand.get_mut(session) {
                    settings.remove(&key);
                }
                self.by_hand.retain(|_, settings| !settings.is_empty());
                return Ok(());
            }
        };
        if !self.by_hand.contains_key(session) && self.by_hand.len() >= MAX_BY_HAND {
            self.by_hand.retain(|session, _| is_live(session));
            if self.by_hand.len() >= MAX_BY_HAND {
                return Err(TooManyProfiles);
            }
        }
        self.by_hand.entry(session.clone()).or_default().insert(setting.key(), setting);
        Ok(())
    }

    /// Takes the place of others: what was said by hand stays said.
    pub fn succeed(&mut self, before: Self) {
        self.by_hand = before.by_hand;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_matching_session_entry_applies() {
        let file = "sessions:
            - { match: { uid: 1000, executable: '/usr/bin/code*' }, mode: planning }
            - { match: { cgroup: '/user.slice/*' }, project_id: b }
            - { match: { uid: 0 }, project_id: c }
            - { match: { executable: '/opt/{a,b}/*' }, project_id: d }";
        let (config, _) = crate::config::parse(file.as_bytes()).unwrap();
        let rule = |entry: &Session| {
            let uid = entry.matches.uid.as_ref().map(|user| user.to_string().parse().unwrap());
            SessionRule::new(entry, true, uid, false).unwrap()
        };
        let rules = SessionRules::from(config.sessions.iter().map(rule).collect::<Vec<_>>());
        for (uid, executable, cgroup, expected) in [
            (Some(1000), Some("/usr/bin/code-insiders"), Some("/user.slice/x"), Some(0)),
            (Some(1001), Some("/usr/bin/code"), Some("/user.slice/x"), Some(1)),
            // What is not known fits no entry that asks for it.
            (None, Some("/usr/bin/code"), None, None),
            (Some(1000), None, None, None),
            (Some(0), None, None, Some(2)),
            (Some(1000), Some("/opt/b/bin/x"), Some("/system.slice"), Some(3)),
            (Some(1000), Some("/OPT/b/bin/x"), Some("/system.slice"), None),
            (None, None, None, None),
        ] {
            let client = || Client { uid, executable, cgroup };
            assert_eq!(rules.find(client), expected, "{uid:?} {executable:?} {cgroup:?}");
        }
        assert!(rules.profile(Some(0)).planning);
        assert_eq!(*rules.profile(None), Profile::default());
        assert_eq!(*rules.profile(Some(9)), Profile::default());
        let all = SessionRules::from(vec![SessionRule::new(&Session::default(), true, None, true).unwrap()]);
        assert_eq!(all.find(Client::default), Some(0));
        assert!(all.profile(Some(0)).admin_token);
    }

    /// What is said by hand counts before the configuration, key by key, and outlives it.
    #[test]
    fn manual_session_settings_precede_configuration() {
        let file = "sessions: [{ mode: planning, project_id: p, policy_blacklist: [payments] }]";
        let (config, _) = crate::config::parse(file.as_bytes()).unwrap();
        let rules = || {
            let rule = SessionRule::new(&config.sessions[0], true, None, false).unwrap();
            SessionRules::from(vec![rule])
        };
        let mut sessions = rules();
        let (one, other) = (SessionId("one".into()), SessionId("other".into()));
        let hash: Hash = "a".repeat(64).parse().unwrap();
        for (change, expected) in [
            (ProfileChange::Set(Setting::Mode(Mode::Execution)), "execution p - payments false"),
            (ProfileChange::Set(Setting::Project(None)), "execution - - payments false"),
            (ProfileChange::Set(Setting::Spec(Some(hash))), "execution - frozen payments false"),
            (ProfileChange::Set(Setting::Blacklist(BTreeSet::new())), "execution - frozen  false"),
            (ProfileChange::Set(Setting::AdminToken(true)), "execution - frozen  true"),
            (ProfileChange::Reset(ProfileKey::Mode), "planning - frozen  true"),
            (ProfileChange::Reset(ProfileKey::Mode), "planning - frozen  true"),
            (ProfileChange::Set(Setting::Spec(None)), "planning - -  true"),
            (ProfileChange::Reset(ProfileKey::Project), "planning p -  true"),
        ] {
            sessions.set(&one, change.clone(), |_| true).unwrap();
            let mut after = rules();
            after.succeed(sessions.clone());
            let profile = after.profile_of(&one, Some(0)).view();
            let said = format!(
                "{} {} {} {} {}",
                if profile.mode == Mode::Planning { "planning" } else { "execution" },
                profile.project_id.as_deref().unwrap_or("-"),
                if profile.spec_frozen && profile.spec_hash.is_some() { "frozen" } else { "-" },
                profile.policy_blacklist.into_iter().collect::<Vec<_>>().join(","),
                profile.admin_token
            );
            assert_eq!(said, expected, "{change:?}");
            assert_eq!(*after.profile_of(&other, Some(0)), *rules().profile(Some(0)));
        }
    }

    /// Sessions that are over make room for others.
    #[test]
    fn manual_session_profiles_are_bounded() {
        let mut sessions = SessionRules::default();
        let set = || ProfileChange::Set(Setting::AdminToken(true));
        let id = |number: usize| SessionId(number.to_string().into());
        for number in 0..MAX_BY_HAND {
            sessions.set(&id(number), set(), |_| true).unwrap();
        }
        assert_eq!(sessions.set(&id(MAX_BY_HAND), set(), |_| true), Err(TooManyProfiles));
        sessions.set(&id(0), set(), |_| true).unwrap();
        sessions.set(&id(MAX_BY_HAND), set(), |session| *session != id(0)).unwrap();
        assert!(!sessions.profile_of(&id(0), None).admin_token);
        assert!(sessions.profile_of(&id(1), None).admin_token);
        sessions.set(&id(1), ProfileChange::Reset(ProfileKey::AdminToken), |_| true).unwrap();
        sessions.set(&id(0), set(), |_| true).unwrap();
    }

    #[test]
    fn session_settings_are_written_by_key() {
        for (json, key) in [
            (r#"{"key":"mode","value":"planning"}"#, ProfileKey::Mode),
            (r#"{"key":"project","value":"billing"}"#, ProfileKey::Project),
            (r#"{"key":"spec","value":null}"#, ProfileKey::Spec),
            (r#"{"key":"blacklist","value":["payments"]}"#, ProfileKey::Blacklist),
            (r#"{"key":"admin_token","value":true}"#, ProfileKey::AdminToken),
        ] {
            let setting: Setting = serde_json::from_str(json).unwrap();
            assert_eq!((setting.key(), serde_json::to_string(&setting).unwrap()), (key, json.to_owned()));
            assert_eq!(serde_json::to_value(key).unwrap(), key.name());
        }
    }
}
