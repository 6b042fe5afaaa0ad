//! What somebody says by hand: of a session, and whose calls are blocked.

use super::Engine;
use crate::event::SessionProfile;
use crate::guards::{CallBlock, ProfileChange, TooManyProfiles};
use crate::terms::SessionId;

/// Why nothing is set of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It has no server now.
    #[error("there is no session {0} that has a server now; `mcpwarden sessions` lists those that were seen")]
    NoSession(String),
    /// Of too many others something is set.
    #[error("{0}")]
    Full(#[from] TooManyProfiles),
}

impl Engine {
    /// These blocks of calls count from now on, in place of those before.
    pub fn set_call_blocks(&mut self, blocks: Vec<CallBlock>) {
        *self.judge.blocks_mut() = blocks.into();
    }

    /// Sets something of the profile of a session, or has the configuration say that again; gives the profile from now on.
    /// It holds as long as the client runs, whatever configurations come.
    ///
    /// # Errors
    /// No server of such a session runs, or there is no room.
    pub fn set_profile(
        &mut self,
        session: &SessionId,
        change: ProfileChange,
    ) -> Result<SessionProfile, ProfileError> {
        let connections = self.connections.values();
        let mut live = connections.filter_map(|known| Some((known.session.as_ref()?, known.id)));
        let found = live.find(|(known, _)| *known == session).map(|(_, id)| id);
        let id = found.ok_or_else(|| ProfileError::NoSession(session.0.to_string()))?;
        let connections = &self.connections;
        let is_live =
            |session: &SessionId| connections.values().any(|known| known.session.as_ref() == Some(session));
        self.judge.sessions_mut().set(session, change, is_live)?;
        let entry = self.session_entry(id);
        Ok(self.judge.sessions_mut().profile_of(session, entry).view())
    }
}
