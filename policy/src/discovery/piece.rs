//! The pieces that a command line is taken apart into.

/// What part a piece plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Package,
    /// A program of a package of several (`uvx --from PACKAGE ENTRY`).
    Entry,
    Module,
    Image,
    Script,
    Program,
    /// A usual tool, such as `sleep`: less telling than any other name.
    Tool,
}

impl Role {
    /// How telling a name in this part is: see [`super::specificity`].
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Package | Self::Entry => 6,
            Self::Module | Self::Image => 5,
            Self::Script => 4,
            Self::Program => 3,
            Self::Tool => 1,
        }
    }
}

/// Something that a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) role: Role,
    pub(super) name: String,
    /// Where it lies, for scripts and programs.
    pub(super) path: Option<String>,
}
