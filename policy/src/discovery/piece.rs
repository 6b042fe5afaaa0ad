//! The pieces that a command line is taken apart into.

use super::names;

/// What part a piece plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Package,
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
            Self::Package => 6,
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

impl Piece {
    /// Whether it is a module of a name that every other project has (`src.server`): its directory says which it is.
    pub(super) fn is_nameless_module(&self) -> bool {
        self.role == Role::Module && names::telling_part(&self.name, self.role).is_none()
    }

    /// The path by which a directory names it: that of a module is below the working directory.
    pub(super) fn place(&self) -> Option<&str> {
        self.path.as_deref().or_else(|| self.is_nameless_module().then_some("main"))
    }
}
