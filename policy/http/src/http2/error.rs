//! What no reader of HTTP/2 accepts.

/// Why a connection of HTTP/2 is over: both ends have to close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Http2Error {
    /// A client does not begin with the preface, or a server not with its settings (RFC 9113, section 3.4).
    #[error("it does not begin as it must")]
    Preface,
    /// A frame stands where no such one may, within a head (section 4.3).
    #[error("a frame is out of its order")]
    Order,
    /// A frame is of the connection and names a stream, or of a stream and names none (section 6).
    #[error("a frame is of the wrong stream")]
    Stream,
    /// A frame has a length that none of its type has (section 4.2).
    #[error("a frame has a wrong length")]
    Length,
    /// A frame has more padding than bytes (section 6.1).
    #[error("the padding of a frame is longer than the frame")]
    Padding,
    /// A head ends within a field (RFC 7541, section 6).
    #[error("a head ends within a field")]
    Truncated,
    /// A number in a head is too large (RFC 7541, section 5.1).
    #[error("a number in a head is too large")]
    Integer,
    /// An index in a head is 0 (RFC 7541, section 6.1).
    #[error("an index in a head is 0")]
    Index,
    /// A string in a head is not in the Huffman code (RFC 7541, section 5.2).
    #[error("a string in a head is not in the Huffman code")]
    Huffman,
}
