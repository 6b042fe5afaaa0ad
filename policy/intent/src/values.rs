//! Bytes into JSON values: the elements of an array one by one, as they come, and all else as a whole.

/// What comes out.
#[derive(Debug)]
pub(crate) enum Cut<'a> {
    /// A value: an element of the array, or the whole body.
    Value(&'a [u8]),
    /// A value was longer than the bound, and is left out.
    TooLong,
}

/// Cuts one body. Whether what it cuts is JSON is for its reader to say.
#[derive(Debug)]
pub(crate) struct Values {
    max_bytes: usize,
    /// Whether the body is an array, where its first byte has come.
    is_array: Option<bool>,
    depth: u32,
    in_string: bool,
    escaped: bool,
    value: Vec<u8>,
    /// The value in progress is left out.
    is_too_long: bool,
}

impl Values {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            is_array: None,
            depth: 0,
            in_string: false,
            escaped: false,
            value: Vec::new(),
            is_too_long: false,
        }
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.value.len()
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Cut<'_>)) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            match self.is_array {
                None => {
                    if first.is_ascii_whitespace() {
                        rest = rest.get(1..).unwrap_or_default();
                        continue;
                    }
                    self.is_array = Some(first == b'[');
                    if first == b'[' {
                        self.depth = 1;
                        rest = rest.get(1..).unwrap_or_default();
                    }
                }
                Some(false) => {
                    self.keep(rest);
                    return;
                }
                Some(true) => rest = self.element(rest, sink),
            }
        }
    }

    /// Takes what belongs to the element in progress, or stands between two. What is left.
    fn element<'a>(&mut self, bytes: &'a [u8], sink: &mut dyn FnMut(Cut<'_>)) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'[' | b'{' => self.depth = self.depth.saturating_add(1),
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b',' => {}
                _ => continue,
            }
            let is_end = !self.in_string && self.depth == 1 && matches!(byte, b']' | b'}');
            let is_border = !self.in_string && (self.depth == 0 || (self.depth == 1 && *byte == b','));
            if is_end || is_border {
                let end = if is_end { at + 1 } else { at };
                self.keep(bytes.get(..end).unwrap_or_default());
                self.end_value(sink);
                return bytes.get(at + 1..).unwrap_or_default();
            }
        }
        self.keep(bytes);
        &[]
    }

    /// Between elements only blanks stand, which are not held.
    fn keep(&mut self, bytes: &[u8]) {
        let bytes = if self.value.is_empty() { bytes.trim_ascii_start() } else { bytes };
        if self.value.len() + bytes.len() > self.max_bytes {
            (self.value, self.is_too_long) = (Vec::new(), true);
        }
        if !self.is_too_long {
            self.value.extend_from_slice(bytes);
        }
    }

    fn end_value(&mut self, sink: &mut dyn FnMut(Cut<'_>)) {
        let value = std::mem::take(&mut self.value);
        if std::mem::take(&mut self.is_too_long) {
            sink(Cut::TooLong);
        } else if !value.trim_ascii().is_empty() {
            sink(Cut::Value(&value));
        }
    }

    /// The body is whole.
    pub(crate) fn end(&mut self, sink: &mut dyn FnMut(Cut<'_>)) {
        self.end_value(sink);
    }
}
