//! Blocks of `Content-Length` headers.

/// A block of headers that is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    /// Bytes of the whole lines read so far.
    pub(super) bytes: u64,
    /// Whether a frame stands before it on its line.
    pub(super) is_behind_frame: bool,
    lines: u32,
    length: Option<usize>,
}

/// What a line did to the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderLine {
    /// It is a header; more may come.
    More,
    /// It is the empty line: a body of that many bytes follows.
    Body(usize),
    /// This is no block of headers, or one that says nothing useful.
    Text,
}

impl Header {
    /// The beginning of a block.
    pub(super) fn behind(is_behind_frame: bool) -> Self {
        Self { is_behind_frame, ..Self::default() }
    }

    /// Whether a block of headers starts here.
    pub(super) fn starts(bytes: &[u8]) -> bool {
        let name = bytes.split(|&byte| byte == b':').next().unwrap_or_default();
        name.len() < bytes.len() && is_first(name.trim_ascii())
    }

    /// Takes the next line of the block, with or without what ends it.
    pub(super) fn line(&mut self, line: &[u8]) -> HeaderLine {
        let line = line.trim_ascii();
        if line.is_empty() {
            return self.length.map_or(HeaderLine::Text, HeaderLine::Body);
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return HeaderLine::Text;
        };
        let (name, value) = line.split_at(colon);
        let name = name.trim_ascii();
        // For some readers another line begins within this one, and perhaps a message.
        let is_split = super::blank::lines(line).next().is_some();
        if is_split || self.lines == 0 && !is_first(name) || !name.iter().all(is_token) || name.is_empty() {
            return HeaderLine::Text;
        }
        self.lines += 1;
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = value.get(1..).unwrap_or_default().trim_ascii();
            let number =
                std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
            match number.and_then(|text| text.parse().ok()) {
                // Two lengths that differ: whom would the reader believe?
                Some(length) if self.length.is_none_or(|before| before == length) => {
                    self.length = Some(length)
                }
                _ => return HeaderLine::Text,
            }
        }
        HeaderLine::More
    }
}

/// Whether a block may begin with this header: any other first line is text.
fn is_first(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"content-type")
}

/// `tchar` of RFC 9110, section 5.6.2.
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}
