//! The two ways in which JSON-RPC messages are told apart on a stream.

use std::io::{self, BufRead, Read as _, Write};

/// How messages are framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// One message a line, as the MCP specification says.
    #[default]
    Lines,
    /// A `Content-Length:` header before each message, as some servers still do.
    ContentLength,
}

impl Framing {
    /// The framing that a `--content-length` switch asks for.
    pub fn content_length(switch: bool) -> Self {
        if switch { Self::ContentLength } else { Self::Lines }
    }

    /// The bytes of one message on the wire.
    pub fn wrap(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Lines => [message, b"\n"].concat(),
            Self::ContentLength => {
                let header = format!("Content-Length: {}\r\n\r\n", message.len());
                [header.as_bytes(), message].concat()
            }
        }
    }

    /// Writes one message in one write, as far as the descriptor takes it.
    ///
    /// # Errors
    /// The write failed.
    pub fn write(self, to: &mut impl Write, message: &[u8]) -> io::Result<()> {
        to.write_all(&self.wrap(message))?;
        to.flush()
    }

    /// The next message without its framing; `None` at the end of the stream. Blank lines are skipped.
    ///
    /// # Errors
    /// The read failed, or a header block has no usable length.
    pub fn read(self, from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut length = None;
        loop {
            let mut line = Vec::new();
            if from.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_ascii();
            match self {
                Self::Lines if line.is_empty() => {}
                Self::Lines => return Ok(Some(line.to_vec())),
                Self::ContentLength if line.is_empty() => break,
                Self::ContentLength => {
                    let text = String::from_utf8_lossy(line);
                    if let Some((name, value)) = text.split_once(':')
                        && name.eq_ignore_ascii_case("content-length")
                    {
                        length = value.trim().parse::<u64>().ok();
                    }
                }
            }
        }
        let length = length.ok_or_else(|| io::Error::other("a header block without Content-Length"))?;
        let mut message = Vec::new();
        from.take(length).read_to_end(&mut message)?;
        Ok(Some(message))
    }
}
