//! The standard output and error of a guest, as lines of its log.

use crate::report::{CallReport, LOG_BYTES, LogLevel};

/// The numbers of the two output streams.
pub(crate) const STDOUT: u32 = 1;
pub(crate) const STDERR: u32 = 2;

/// The begun lines of the standard output and error.
#[derive(Debug, Default)]
pub(crate) struct StdStreams {
    stdout: Line,
    stderr: Line,
}

/// A line without its end. Holds one byte more than a line of the log, so that the log sees that it is too long.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl StdStreams {
    /// Writes to one of the streams.
    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8], report: &mut CallReport) {
        let (line, level) = self.line(stream);
        let mut parts = bytes.split(|byte| *byte == b'\n');
        if let Some(begin) = parts.next() {
            line.push(begin);
        }
        for part in parts {
            line.end(level, report);
            line.push(part);
        }
    }

    /// Ends the begun lines.
    pub(crate) fn flush(&mut self, report: &mut CallReport) {
        for stream in [STDOUT, STDERR] {
            let (line, level) = self.line(stream);
            if !line.0.is_empty() {
                line.end(level, report);
            }
        }
    }

    fn line(&mut self, stream: u32) -> (&mut Line, LogLevel) {
        match stream {
            STDERR => (&mut self.stderr, LogLevel::Warn),
            _ => (&mut self.stdout, LogLevel::Info),
        }
    }
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        let room = (LOG_BYTES + 1).saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(room));
    }

    fn end(&mut self, level: LogLevel, report: &mut CallReport) {
        report.log(level, String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_lines() {
        let long = "x".repeat(LOG_BYTES + 50);
        let cases: &[(&[&str], &[&str])] = &[
            (&["one\ntwo\n"], &["one", "two"]),
            (&["a", "b", "c\nd"], &["abc", "d"]),
            (&["\n\n"], &["", ""]),
            (&[], &[]),
            (&[&long, "\nnext"], &[&long[..LOG_BYTES], "next"]),
        ];
        for (writes, expected) in cases {
            let (mut streams, mut report) = (StdStreams::default(), CallReport::default());
            for write in *writes {
                streams.write(STDOUT, write.as_bytes(), &mut report);
            }
            streams.flush(&mut report);
            let lines: Vec<_> = report.logs.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(lines, *expected);
            assert_eq!(report.logs_cut, u64::from(lines.iter().any(|line| line.len() == LOG_BYTES)));
        }
    }

    #[test]
    fn streams_do_not_mix() {
        let (mut streams, mut report) = (StdStreams::default(), CallReport::default());
        streams.write(STDOUT, b"out", &mut report);
        streams.write(STDERR, b"err\xff", &mut report);
        streams.flush(&mut report);
        let lines: Vec<_> = report.logs.iter().map(|line| (line.level, line.text.as_str())).collect();
        assert_eq!(lines, [(LogLevel::Info, "out"), (LogLevel::Warn, "err\u{fffd}")]);
    }
}
