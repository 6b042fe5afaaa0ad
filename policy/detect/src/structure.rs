//! What shows that a text is deceptive, whatever its words.

use schemars::JsonSchema;
use serde::Deserialize;

/// What a rule without patterns looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// Unicode tag characters.
    TagCharacters,
    /// Characters of no width beside ASCII letters.
    ZeroWidth,
    /// Variation selectors that vary nothing.
    VariationSelectors,
    /// Controls of the writing direction.
    BidiOverride,
    /// Terminal sequences.
    AnsiEscape,
    /// A terminal sequence that has what follows not shown.
    AnsiConceal,
    /// Other control characters.
    ControlCharacter,
    /// A word of Latin letters and of some that only look so.
    MixedScript,
    /// Letters in mathematical, circled, squared or full-width form.
    StyledLetters,
    /// Prose in base64, hexadecimal digits or the like.
    EncodedText,
    /// A name that is longer than any model provider takes.
    LongName,
    /// A key that an object has twice.
    DuplicateKey,
    /// A member of a message, such as its method, the tool's name or the list, that stands there twice.
    DuplicateMember,
    /// A message that is one for some readers only, by what stands around it.
    AmbiguousFraming,
    /// A member of a message in another case than that of the specification.
    AmbiguousKey,
    /// A batch of more messages than are read.
    OversizedBatch,
    /// Another answer to a request that has one.
    RepeatedAnswer,
    /// The state of a request that comes back otherwise than it was given.
    MisusedState,
    /// A request for the task of another.
    ForeignTask,
    /// A header that repeats a parameter which takes a secret.
    SecretHeader,
    /// The path of a file of keys as the value of a parameter that is for no file.
    MisplacedKeyPath,
    /// More suspicious text than the budget allows to look at.
    Budget,
    /// A tool of this session, named with a command to use it.
    SessionTool,
    /// A request for the contexts of all servers.
    ForeignContext,
}
