//! Which profile a session has: what the entries of `sessions:` say of its client. (Requirements:
//! docs/requirements.md, "capabilities".)

use crate::config::{Mode, Session};
use crate::glob::{GlobError, NameGlob};
use crate::guard::Profile;

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
    /// The rule of an entry. What only the host knows is told beside it: the id of the user that it names, and whether
    /// the file that it names holds a token of an administrator.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub fn new(entry: &Session, uid: Option<u32>, admin_token: bool) -> Result<Self, GlobError> {
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
        };
        Ok(Self { matcher, profile })
    }
}

/// The entries of `sessions:`, in order.
#[derive(Clone, Debug, Default)]
pub struct SessionRules {
    rules: Vec<SessionRule>,
    /// Of clients that no entry is for.
    default: Profile,
}

impl From<Vec<SessionRule>> for SessionRules {
    fn from(rules: Vec<SessionRule>) -> Self {
        Self { rules, default: Profile::default() }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_that_fits_a_client_counts() {
        let file = "sessions:
            - { match: { uid: 1000, executable: '/usr/bin/code*' }, mode: planning }
            - { match: { cgroup: '/user.slice/*' }, project_id: b }
            - { match: { uid: 0 }, project_id: c }
            - { match: { executable: '/opt/{a,b}/*' }, project_id: d }";
        let (config, _) = crate::config::parse(file.as_bytes()).unwrap();
        let rule = |entry: &Session| {
            let uid = entry.matches.uid.as_ref().map(|user| user.to_string().parse().unwrap());
            SessionRule::new(entry, uid, false).unwrap()
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
        let all = SessionRules::from(vec![SessionRule::new(&Session::default(), None, true).unwrap()]);
        assert_eq!(all.find(Client::default), Some(0));
        assert!(all.profile(Some(0)).admin_token);
    }
}
