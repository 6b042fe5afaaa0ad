//! The trace of a call (W3C Trace Context): the request carries it, so that events of whoever sees the request have it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// A trace of its own for each call (W3C Trace Context).
pub struct Trace {
    /// 32 hexadecimal digits.
    pub id: String,
    span: String,
}

impl Trace {
    /// A new one.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 24];
        let path = Path::new("/dev/urandom");
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
        read.with_context(|| format!("cannot read {}", path.display()))?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (id, span) = bytes.split_at(16);
        Ok(Self { id: hex(id), span: hex(span) })
    }

    /// The text that goes with the call.
    pub fn parent(&self) -> String {
        format!("00-{}-{}-01", self.id, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_is_one_of_w3c() {
        let (one, other) = (Trace::random().unwrap(), Trace::random().unwrap());
        assert_ne!(one.id, other.id);
        let parent = one.parent();
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{parent}");
        assert!(parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())), "{parent}");
    }
}
