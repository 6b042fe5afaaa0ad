//! Identity of tool definitions.
