//! How the gate is asked before something is written.

use super::Hook;
use crate::modify_return::OFFERED;

/// How the gate is asked before something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As one of the kernel's security modules, in whatever it does.
    Lsm,
    /// In the place of the functions that ask them: see `crate::modify_return`.
    ModifyReturn,
}

impl Way {
    /// Its name in events, in `doctor` and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lsm => "lsm",
            Self::ModifyReturn => "fmod_ret",
        }
    }

    /// The one of these hooks, if one of them asks.
    pub fn of(hooks: &[Hook]) -> Option<Self> {
        hooks.iter().find_map(|hook| match hook {
            Hook::Lsm { .. } => Some(Self::Lsm),
            Hook::ModifyReturn { .. } => Some(Self::ModifyReturn),
            _ => None,
        })
    }

    pub(super) fn hooks(self) -> [Hook; 2] {
        OFFERED.map(|(program, function)| match self {
            Self::Lsm => Hook::Lsm { program },
            Self::ModifyReturn => Hook::ModifyReturn { program, function },
        })
    }
}
