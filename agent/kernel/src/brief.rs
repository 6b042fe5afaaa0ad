//! Errors of the kernel, in one line.

/// The chain of causes on one line. Of the verifier's log, which can be megabytes, only its verdict.
pub fn brief(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let whole = error.to_string();
        let line = match whole.split_once("Verifier output:") {
            Some((before, log)) => format!("{} {}", before.trim(), verdict(log)),
            None => whole.lines().next().unwrap_or_default().to_owned(),
        };
        if !text.ends_with(&line) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&line);
        }
        next = error.source();
    }
    text
}

/// Why the verifier refuses a program: the last line of its log, before its statistics.
pub fn verdict(log: &str) -> &str {
    let statistics = ["processed ", "verification time", "stack depth", "mark_precise"];
    let is_reason = |line: &&str| !line.is_empty() && !statistics.iter().any(|word| line.starts_with(word));
    log.lines().rev().map(str::trim).find(is_reason).unwrap_or("(its log is empty)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifier_log_is_cut_to_its_verdict() {
        for (log, expected) in [
            ("", "(its log is empty)"),
            ("0: (b7) r0 = 0\nR1 invalid mem access\nprocessed 2 insns\n\n", "R1 invalid mem access"),
            ("unreachable insn 3\nverification time 5 usec\nstack depth 0\n", "unreachable insn 3"),
        ] {
            assert_eq!(verdict(log), expected, "{log:?}");
        }
        let error = std::io::Error::other("load: Verifier output: a\nR1 is wrong\nprocessed 1 insns");
        assert_eq!(brief(&error), "load: R1 is wrong");
    }
}
