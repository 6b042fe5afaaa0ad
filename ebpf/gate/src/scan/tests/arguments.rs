//! Calls whose arguments decide.

use super::*;

#[test]
fn arguments_decide_in_any_order_and_depth() {
    const NO: &[u16] = &[];
    for (text, outcomes, changed) in [
        (
            r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/etc/x"}}}"#,
            &[BY_PATH][..],
            r#"{"method":"tools/call","params":{"name":"@","arguments":{"path":"/etc/x"}}}"#,
        ),
        (
            r#"{"params":{"arguments":{"a":1, "path" : "/etc/x"},"name":"w"},"method":"tools/call"}"#,
            &[BY_PATH],
            r#"{"params":{"arguments":{"a":1, "path" : "/etc/x"},"name":"@"},"method":"tools/call"}"#,
        ),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/srv"}}}"#, NO, ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{}}}"#, NO, ""),
        (r#"{"method":"tools/call","params":{"name":"w"}}"#, NO, ""),
        (
            r#"{"method":"tools/call","params":{"name":"w2","arguments":{"path":"/etc/x","mode":"x"}}}"#,
            &[BY_MODE],
            r#"{"method":"tools/call","params":{"name":"w@","arguments":{"path":"/etc/x","mode":"x"}}}"#,
        ),
        // Elsewhere it is no argument.
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{"a":{"path":"/etc/x"}}}}"#, NO, ""),
        (
            r#"{"method":"tools/call","params":{"name":"w","arguments":{"a":["path","/etc/x"],"b":"}"}}}"#,
            NO,
            "",
        ),
        (r#"{"method":"tools/call","params":{"name":"w","x":{"arguments":{"path":"/etc/x"}}}}"#, NO, ""),
        (r#"{"method":"tools/call","params":{"name":"w"},"arguments":{"path":"/etc/x"}}"#, NO, ""),
        (r#"{"method":"prompts/get","params":{"name":"w","arguments":{"path":"/etc/x"}}}"#, NO, ""),
        // What nobody can tell.
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":7}}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{"mode":7}}}"#, NO, ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"","path":""}}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{'path':"/etc/x"}}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":["/etc/x"]}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"name":"w","Arguments":{}}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"name":"w","arguments":{},"arguments":{}}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","params":{"arguments":{}},"params":{"name":"w"}}"#, &[UNTOLD], ""),
        (r#"{"method":"tools/call","method":"tools/call","params":{"name":"w"}}"#, &[UNTOLD], ""),
        // The first of several is enough; of several names each is judged.
        (
            r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/etc/x","path":""}}}"#,
            &[BY_PATH],
            r#"{"method":"tools/call","params":{"name":"@","arguments":{"path":"/etc/x","path":""}}}"#,
        ),
        (r#"{"method":"tools/call","params":{"name":"w","name":"read"}}"#, &[5, LONG], ""),
        (r#"{"method":"tools/call","params":{"name":"read","name":"w"}}"#, &[5, LONG], ""),
        (r#"{"method":"tools/call","params":{"name":"w","name":"w"}}"#, &[UNTOLD], ""),
    ] {
        let changed = if changed.is_empty() { text } else { changed };
        assert_eq!(after_scan(0, text), (outcomes.to_vec(), changed.to_string()), "{text}");
        let words = words();
        let whole = words.read(0, &[text.as_bytes()]);
        for cut in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let said = words.read(0, &[first, second]);
            let outcomes =
                |said: &[(u16, usize, u32)]| said.iter().map(|(outcome, ..)| *outcome).collect::<Vec<_>>();
            assert_eq!(outcomes(&said), outcomes(&whole), "{text} cut at {cut}");
        }
    }
}
