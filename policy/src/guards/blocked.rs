//! Calls that an operator blocks by hand: denied before any guard is asked, whatever the configuration says of these.

use super::question::Question;
use super::short;
use crate::guard::{CallBlock, Denial, DenialCode};
use crate::terms::{Callee, Phase, ServerId, SessionId, Timestamp};

/// Why a block lets nothing be asked, if it is asked now. Answers are none of what is blocked.
pub(super) fn denial(block: &CallBlock, question: &Question<'_>) -> Option<Denial> {
    let counts = block.until.is_none_or(|until| question.now < until);
    let is_asked = question.operations.iter().any(|operation| operation.phase() == Phase::Request);
    (counts && is_asked).then(|| {
        let (code, what) = match &block.callee {
            Callee::Server(id) => (DenialCode::ServerBlocked, format!("server '{}'", short(&id.0))),
            Callee::Session(id) => (DenialCode::SessionBlocked, format!("session '{}'", short(&id.0))),
        };
        let reason = block.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        Denial { code, message: format!("{what} is blocked by hand{reason}"), details: None }
    })
}

/// All blocks of calls.
#[derive(Clone, Debug, Default)]
pub struct CallBlocks(Vec<CallBlock>);

impl From<Vec<CallBlock>> for CallBlocks {
    fn from(blocks: Vec<CallBlock>) -> Self {
        Self(blocks)
    }
}

impl CallBlocks {
    /// The block of a session's calls to a server that ends last.
    pub fn of(&self, server: &ServerId, session: &SessionId) -> Option<&CallBlock> {
        self.of_any((server, &[]), session)
    }

    /// The same of a server that is also called otherwise: see [`Facts::also`](crate::guard::Facts::also).
    pub fn of_any(
        &self,
        (server, also): (&ServerId, &[ServerId]),
        session: &SessionId,
    ) -> Option<&CallBlock> {
        let is_of =
            |block: &&CallBlock| std::iter::once(server).chain(also).any(|id| block.callee.is(id, session));
        self.0.iter().filter(is_of).max_by_key(|block| block.until.unwrap_or(Timestamp(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_lasting_block_applies() {
        let block = |callee: &str, until: Option<u64>| CallBlock {
            callee: Callee::parse(callee).unwrap(),
            until: until.map(Timestamp),
            reason: None,
        };
        let [files, other, one] = ["files", "other", "one"];
        for (blocks, expected) in [
            (vec![], None),
            (vec![block("server=other", None)], None),
            (vec![block("session=files", None)], None),
            (vec![block("server=files", Some(5)), block("session=one", Some(7))], Some(Some(7))),
            (vec![block("server=files", None), block("session=one", Some(7))], Some(None)),
            (vec![block("session=one", Some(7)), block("session=two", Some(9))], Some(Some(7))),
        ] {
            let blocks = CallBlocks::from(blocks);
            let found = blocks.of(&ServerId(files.into()), &SessionId(one.into()));
            assert_eq!(found.map(|block| block.until.map(|until| until.0)), expected, "{blocks:?}");
            assert!(CallBlocks::default().of(&ServerId(other.into()), &SessionId(one.into())).is_none());
        }
    }
}
