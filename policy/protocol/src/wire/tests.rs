mod within;

use proptest::prelude::*;

use super::*;

/// A cut that owns its bytes, so that tests can compare.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Frame(Vec<u8>),
    Junk(u64, Vec<u8>),
    TooLong(u64),
    Lost(u64),
    Odd(Framing),
}

fn own(cut: Cut<'_>) -> Owned {
    match cut {
        Cut::Frame { bytes, .. } => Owned::Frame(bytes.to_vec()),
        Cut::Junk { bytes, sample } => Owned::Junk(bytes, sample.to_vec()),
        Cut::TooLong { bytes } => Owned::TooLong(bytes),
        Cut::Ambiguous(framing) => Owned::Odd(framing),
        Cut::Lost { bytes } => Owned::Lost(bytes),
    }
}

fn cut_all<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut cutter = FrameCutter::new(limits);
    let mut cuts = Vec::new();
    for piece in pieces {
        cutter.push(piece, Timestamp(1), &mut |cut| cuts.push(own(cut)));
    }
    cutter.finish(&mut |cut| cuts.push(own(cut)));
    cuts
}

fn frame(text: &str) -> Owned {
    Owned::Frame(text.as_bytes().to_vec())
}

fn junk(text: &str) -> Owned {
    Owned::Junk(text.len() as u64, text.bytes().take(SAMPLE_BYTES).collect())
}

const SMALL: Limits = Limits { max_frame_bytes: 40, max_header_bytes: 64 };

#[test]
fn split_streams_are_cut_into_the_same_frames() {
    let m = r#"{"jsonrpc":"2.0","id":1}"#;
    let cases: Vec<(&str, String, Vec<Owned>)> = vec![
        ("one line", format!("{m}\n"), vec![frame(m)]),
        ("two lines in one push", format!("{m}\n[1]\n"), vec![frame(m), frame("[1]")]),
        ("CRLF", format!("{m}\r\n{m}\r\n"), vec![frame(m), frame(m)]),
        ("leading blanks and blank lines", format!("  \n\r\n\t{m}\n \n{m}\n"), vec![frame(m), frame(m)]),
        ("byte order mark", format!("\u{feff}{m}\n"), vec![frame(m)]),
        (
            "byte order mark later",
            format!("{m}\n\u{feff}{m}\n"),
            vec![frame(m), frame(m), Owned::Odd(Framing::Blank)],
        ),
        ("half a byte order mark", "\u{feb0}x\n{}\n".into(), vec![junk("\u{feb0}x\n"), frame("{}")]),
        ("no line feed at the end", m.into(), vec![frame(m)]),
        ("unfinished at the end", r#"{"a":"#.into(), vec![Owned::Lost(5)]),
        ("junk between", format!("{m}\nstarting up\n{m}\n"), vec![frame(m), junk("starting up\n"), frame(m)]),
        ("junk that starts like a header", "Connected\n{}\n".into(), vec![junk("Connected\n"), frame("{}")]),
        ("junk at the end", "{}\nbye".into(), vec![frame("{}"), junk("bye")]),
        (
            "text behind what looks like an array",
            "[INFO] up\n{}\n".into(),
            vec![frame("[INFO]"), Owned::Odd(Framing::TextBehind), junk("up\n"), frame("{}")],
        ),
        ("NUL in a string", "{\"a\":\"\0\"}\n".into(), vec![frame("{\"a\":\"\0\"}")]),
        ("over the bound", format!("{{{}}}\n{{}}\n", "x".repeat(40)), vec![Owned::TooLong(42), frame("{}")]),
        ("at the bound", format!("{{{}}}\n{{}}\n", "x".repeat(38)), {
            vec![frame(&format!("{{{}}}", "x".repeat(38))), frame("{}")]
        }),
        ("over the bound at the end", format!("{{{}", "x".repeat(60)), vec![Owned::TooLong(61)]),
        (
            "spread over lines",
            "{\n\"a\": 1\n}\n".into(),
            vec![
                frame("{"),
                junk("\"a\": 1\n"),
                frame("{\n\"a\": 1\n}"),
                Owned::Odd(Framing::Spread),
                junk("}\n"),
            ],
        ),
        (
            "spread over lines, with a comment",
            "{\"a\":1, # }\n\"b\":2}\n".into(),
            vec![frame("{\"a\":1, # }"), junk("\"b\":2}\n")],
        ),
        (
            "spread over lines, with a comment without brackets",
            "{\"a\":1, # c\n# d\n\"b\":2}\n".into(),
            vec![
                frame("{\"a\":1, # c"),
                junk("# d\n"),
                frame("{\"a\":1, # c\n# d\n\"b\":2}"),
                Owned::Odd(Framing::Spread),
                junk("\"b\":2}\n"),
            ],
        ),
        (
            "spread over lines, within a string",
            "{\"a\":\"x\\\n\\\"y\"}\n".into(),
            vec![
                frame("{\"a\":\"x\\"),
                frame("{\"a\":\"x\\\n\\\"y\"}"),
                Owned::Odd(Framing::Spread),
                junk("\\\"y\"}\n"),
            ],
        ),
        (
            "control characters in front",
            "\u{1}\u{2}{}\n".into(),
            vec![frame("{}"), Owned::Odd(Framing::Blank)],
        ),
        // Content-Length
        ("headers", format!("Content-Length: 24\r\n\r\n{m}"), vec![frame(m)]),
        ("headers, twice", format!("Content-Length: 24\r\n\r\n{m}Content-Length: 2\r\n\r\n[]"), {
            vec![frame(m), frame("[]")]
        }),
        ("headers, any case, LF", format!("content-LENGTH:24\n\n{m}"), vec![frame(m)]),
        (
            "other headers",
            format!("Content-Type: x; charset=utf-8\r\nContent-Length: 24\r\n\r\n{m}"),
            vec![frame(m)],
        ),
        ("line feeds in a body", "Content-Length: 11\r\n\r\n{\n \"a\": 1\n}{}\n".into(), {
            vec![frame("{\n \"a\": 1\n}"), frame("{}")]
        }),
        (
            "mixed framing",
            format!("{m}\nContent-Length: 24\r\n\r\n{m}\n{m}\n"),
            vec![frame(m), frame(m), frame(m)],
        ),
        (
            "line feed counted in the body",
            format!("Content-Length: 26\r\n\r\n{m}\r\n{m}\n"),
            vec![frame(m), frame(m)],
        ),
        (
            "a false length, a message with a key twice",
            { "Content-Length: 39\r\n\r\n{\"id\":1,\"id\":2,\"result\":{}}\n{}\n".into() },
            { vec![frame("{\"id\":1,\"id\":2,\"result\":{}}"), frame("{}")] },
        ),
        (
            "a false length, a batch",
            { "Content-Length: 39\r\n\r\n[{\"id\":2,\"result\":{}}]\n{}\n".into() },
            { vec![frame("[{\"id\":2,\"result\":{}}]"), frame("{}")] },
        ),
        ("length not a number", format!("Content-Length: 2x\r\n\r\n{m}\n"), {
            vec![junk("Content-Length: 2x\r\n"), frame(m)]
        }),
        (
            "negative length",
            "Content-Length: -1\r\n\r\n{}\n".into(),
            vec![junk("Content-Length: -1\r\n"), frame("{}")],
        ),
        ("length overflows", "Content-Length: 99999999999999999999\r\n\r\n{}\n".into(), {
            vec![junk("Content-Length: 99999999999999999999\r\n"), frame("{}")]
        }),
        ("length over the bound", format!("Content-Length: 41\r\n\r\n{m}\n"), {
            vec![junk("Content-Length: 41\r\n\r\n"), frame(m)]
        }),
        ("lengths that differ", "Content-Length: 2\nContent-Length: 3\n\n{}\n".into(), {
            vec![junk("Content-Length: 2\nContent-Length: 3\n"), frame("{}")]
        }),
        ("too many headers", format!("Content-Length: 2\r\nx: {}\r\n\r\n{{}}\n", "y".repeat(60)), {
            vec![junk(&format!("Content-Length: 2\r\nx: {}\r\n", "y".repeat(60))), frame("{}")]
        }),
        ("header, then a line instead of a body", format!("Content-Length: 30\r\n{m}\n"), {
            vec![junk("Content-Length: 30\r\n"), frame(m)]
        }),
        ("body that is none", "Content-Length: 3\r\n\r\nabc\n{}\n".into(), {
            vec![junk("Content-Length: 3\r\n\r\n"), junk("abc\n"), frame("{}")]
        }),
        ("empty body", format!("Content-Length: 0\r\n\r\n{m}\n"), vec![frame(m)]),
        ("a length that lies does not hide a line", format!("Content-Length: 39\r\n\r\n{m}\n{m}\n"), {
            vec![frame(m), frame(m)]
        }),
        ("nor one behind a stray bracket", format!("Content-Length: 40\r\n\r\n{{\n{m}\n{m}\n"), {
            vec![Owned::Junk(24, b"Content-Length: 40\r\n\r\n".to_vec()), frame(m), frame(m)]
        }),
        (
            "a length that is too small does not hide a line",
            format!("Content-Length: 9\r\n\r\n{m}\n{m}\n"),
            { vec![frame(m), frame(m)] },
        ),
        ("nor the second line of a body", format!("Content-Length: 9\r\n\r\n{{\n{m}\n{m}\n"), {
            vec![Owned::Junk(23, b"Content-Length: 9\r\n\r\n".to_vec()), frame(m), frame(m)]
        }),
        (
            "nor where brackets close in a string of it",
            "Content-Length: 26\r\n\r\n[\"\n{\"jsonrpc\":\"2.0\",\"a\":\"]\"}\n".into(),
            vec![
                Owned::Junk(25, b"Content-Length: 26\r\n\r\n".to_vec()),
                frame("{\"jsonrpc\":\"2.0\",\"a\":\"]\"}"),
            ],
        ),
        (
            "body that is no JSON, then another",
            "Content-Length: 3\r\n\r\n{1}Content-Length: 2\r\n\r\n[]".into(),
            { vec![frame("{1}"), frame("[]")] },
        ),
        ("body cut off", "Content-Length: 20\r\n\r\n{\"a\"".into(), vec![Owned::Lost(26)]),
        (
            "body and header on one line",
            "[1]Content-Length: 2\r\n\r\n[]".into(),
            vec![frame("[1]"), frame("[]")],
        ),
        (
            "body and text on one line",
            "{} trailing\n[]\n".into(),
            vec![frame("{}"), Owned::Odd(Framing::TextBehind), junk("trailing\n"), frame("[]")],
        ),
    ];
    for (name, stream, expected) in cases {
        let bytes = stream.as_bytes();
        assert_eq!(cut_all(SMALL, [bytes]), expected, "{name}: in one piece");
        assert_eq!(cut_all(SMALL, bytes.chunks(1)), expected, "{name}: byte by byte");
        for at in 0..bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(cut_all(SMALL, [head, tail]), expected, "{name}: split at {at}");
        }
    }
}

#[test]
fn frames_are_those_of_any_reader() {
    let m = r#"{"id":1,"result":{}}"#;
    let odd = Owned::Odd;
    let cases: Vec<(&str, String, Vec<Owned>)> = vec![
        ("no line feed ever", format!("{m}{m}"), vec![frame(m), frame(m), odd(Framing::Joined)]),
        ("a blank between", format!("{m} {m}\n"), vec![frame(m), frame(m), odd(Framing::Joined)]),
        ("CR between", format!("{m}\r{m}\r\n"), vec![frame(m), frame(m), odd(Framing::Joined)]),
        ("text and CR before", format!("log\r{m}\n"), vec![junk("log\r"), frame(m), odd(Framing::LineEnd)]),
        ("text and U+2028 before", format!("log\u{2028}{m}\n"), {
            vec![junk("log\u{2028}"), frame(m), odd(Framing::LineEnd)]
        }),
        ("what could be a header, CR", format!("Content-Length: 3\r{m}\n"), {
            vec![junk("Content-Length: 3\r"), frame(m), odd(Framing::LineEnd)]
        }),
        ("text before", format!("log {m}\n"), vec![junk("log "), frame(m), odd(Framing::TextBefore)]),
        ("text before, and no message", "log {1} {\"a\n{}\n".into(), {
            vec![junk("log "), junk("{1} "), junk("{\"a\n"), frame("{}")]
        }),
        ("no-break space before", format!("\u{a0}{m}\n"), vec![frame(m), odd(Framing::Blank)]),
        ("NUL before", format!("\0{m}\n{m}\n"), vec![frame(m), odd(Framing::Blank), frame(m)]),
        ("no-break space behind", format!("{m}\u{a0}\n{m}\n"), vec![frame(m), frame(m)]),
    ];
    let big = Limits { max_frame_bytes: 200, max_header_bytes: 200 };
    for (name, stream, expected) in cases {
        let bytes = stream.as_bytes();
        assert_eq!(cut_all(big, [bytes]), expected, "{name}: in one piece");
        for at in 1..bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(cut_all(big, [head, tail]), expected, "{name}: split at {at}");
        }
    }
}

#[test]
fn frame_with_invalid_utf8_is_kept() {
    let bytes = b"{\"a\":\"\xff\xfe\"}\n\xff\xfe\n{}\n";
    let expected = vec![
        Owned::Frame(b"{\"a\":\"\xff\xfe\"}".to_vec()),
        Owned::Junk(3, b"\xff\xfe\n".to_vec()),
        frame("{}"),
    ];
    assert_eq!(cut_all(SMALL, [&bytes[..]]), expected);
    assert_eq!(cut_all(SMALL, bytes.chunks(1)), expected);
}

#[test]
fn gap_loses_only_the_frames_it_touches() {
    let m = r#"{"jsonrpc":"2.0","id":1}"#;
    let cases: Vec<(&str, String, String, Vec<Owned>)> = vec![
        ("between frames", format!("{m}\n"), format!("{m}\n"), vec![frame(m), frame(m)]),
        (
            "in a frame",
            r#"{"a":"#.into(),
            format!("1}}}}\n{m}\n"),
            vec![Owned::Lost(5), Owned::Lost(4), frame(m)],
        ),
        ("tail that looks like a frame", "{".into(), format!("{{\"b\":1}}}}\n{m}\n"), {
            vec![Owned::Lost(1), Owned::Lost(9), frame(m)]
        }),
        ("tail that is a line feed", r#"{"a":"#.into(), format!("\n{m}\n"), vec![Owned::Lost(5), frame(m)]),
        ("in junk", "some te".into(), format!("xt\n{m}\n"), vec![junk("some te"), Owned::Lost(3), frame(m)]),
        ("in headers", "Content-Len".into(), format!("gth: 3\r\n\r\n{m}\n"), {
            vec![junk("Content-Len"), Owned::Lost(8), frame(m)]
        }),
        ("before headers", String::new(), format!("Content-Length: 24\r\n\r\n{m}"), vec![frame(m)]),
        (
            "in a body",
            "Content-Length: 24\r\n\r\n{".into(),
            "\"a\"}Content-Length: 24\r\n\r\n[1]Content-Length: 2\r\n\r\n[]".into(),
            vec![Owned::Lost(23), Owned::Lost(24), frame("[1]"), frame("[]")],
        ),
        ("in a line over the bound", format!("{{{}", "x".repeat(50)), format!("x}}\n{m}\n"), {
            vec![Owned::TooLong(51), Owned::Lost(3), frame(m)]
        }),
    ];
    for (name, before, after, expected) in cases {
        for size in [1, 3, 1000] {
            let mut cutter = FrameCutter::new(SMALL);
            let mut cuts = Vec::new();
            let mut sink = |cut: Cut<'_>| cuts.push(own(cut));
            before.as_bytes().chunks(size).for_each(|piece| cutter.push(piece, Timestamp(1), &mut sink));
            cutter.gap(7, &mut sink);
            after.as_bytes().chunks(size).for_each(|piece| cutter.push(piece, Timestamp(2), &mut sink));
            cutter.finish(&mut sink);
            assert_eq!(cuts, expected, "{name}, pieces of {size}");
        }
    }
}

#[test]
fn empty_gap_is_ignored() {
    let mut cuts = Vec::new();
    let mut cutter = FrameCutter::new(SMALL);
    cutter.push(b"{\"a\"", Timestamp(1), &mut |cut| cuts.push(own(cut)));
    cutter.gap(0, &mut |cut| cuts.push(own(cut)));
    cutter.push(b":1}\n", Timestamp(1), &mut |cut| cuts.push(own(cut)));
    assert_eq!(cuts, [frame("{\"a\":1}")]);
}

#[test]
fn discarded_bytes_are_counted_and_the_stream_resumes() {
    let cases: [(&str, &str, &str, Vec<Owned>); 4] = [
        ("a line", "{\"abc", "def\"}\n{}\n", vec![Owned::Lost(5), Owned::Lost(6), frame("{}")]),
        ("a line that looks like a frame from here on", "[[", "[]]]\n{}\n", {
            vec![Owned::Lost(2), Owned::Lost(5), frame("{}")]
        }),
        ("a body", "Content-Length: 9\n\n{\"a\":", "123}\n{}\n", {
            vec![Owned::Lost(24), Owned::Lost(5), frame("{}")]
        }),
        ("nothing", "{}\n", "{}\n", vec![frame("{}"), frame("{}")]),
    ];
    for (name, before, after, expected) in cases {
        let mut cuts = Vec::new();
        let mut cutter = FrameCutter::new(SMALL);
        cutter.push(before.as_bytes(), Timestamp(1), &mut |cut| cuts.push(own(cut)));
        cutter.discard_pending(&mut |cut| cuts.push(own(cut)));
        assert_eq!(cutter.pending_bytes(), 0, "{name}");
        cutter.push(after.as_bytes(), Timestamp(1), &mut |cut| cuts.push(own(cut)));
        assert_eq!(cuts, expected, "{name}");
    }
}

#[test]
fn frame_is_stamped_with_time_of_first_byte() {
    type Pieces = &'static [(&'static str, u64)];
    let cases: [(&str, Pieces, &[u64]); 4] = [
        ("one push", &[("{}\n{}\n", 1)], &[1, 1]),
        ("three pushes", &[("{", 1), ("}", 2), ("\n", 3)], &[1]),
        ("blanks do not count", &[(" \n", 1), (" {}", 2), ("\n{}\n", 3)], &[2, 3]),
        ("body", &[("Content-Length: 2\n\n", 1), ("{", 2), ("}", 3)], &[2]),
    ];
    for (name, pieces, expected) in cases {
        let mut times = Vec::new();
        let mut cutter = FrameCutter::new(SMALL);
        for (piece, time) in pieces {
            cutter.push(piece.as_bytes(), Timestamp(*time), &mut |cut| {
                if let Cut::Frame { time, .. } = cut {
                    times.push(time.0);
                }
            });
        }
        assert_eq!(times, expected, "{name}");
    }
}

#[test]
fn maximal_frame_arrives_whole_and_frees_its_memory() {
    let limits = Limits::default();
    let mut text = vec![b'['];
    text.resize(limits.max_frame_bytes - 1, b' ');
    text.push(b']');
    for size in [1 << 12, 1 << 20, limits.max_frame_bytes] {
        let mut cutter = FrameCutter::new(limits);
        let mut lengths = Vec::new();
        let (last, before) = text.split_last().unwrap();
        for piece in before.chunks(size) {
            cutter.push(piece, Timestamp(1), &mut |_| panic!("too early"));
        }
        assert_eq!(cutter.pending_bytes(), limits.max_frame_bytes - 1);
        cutter.push(&[*last], Timestamp(1), &mut |cut| {
            if let Cut::Frame { bytes, .. } = cut {
                lengths.push(bytes.len());
            }
        });
        assert_eq!(lengths, [limits.max_frame_bytes]);
        assert!(cutter.buffer.capacity() <= KEPT_BUFFER_BYTES);
    }
}

#[test]
fn endless_junk_is_reported_in_chunks() {
    let text = vec![b'x'; 150_000];
    for size in [1, 1000, text.len()] {
        let cuts = cut_all(SMALL, text.chunks(size));
        let sizes: Vec<u64> =
            cuts.iter().map(|cut| if let Owned::Junk(bytes, _) = cut { *bytes } else { 0 }).collect();
        assert_eq!(sizes, [65_536, 65_536, 18_928], "pieces of {size}");
    }
}

/// Streams of everything that means something to the cutter.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just("{\"jsonrpc\":\"2.0\",\"id\":1}".to_owned()),
        Just("Content-Length: 24\r\n\r\n".to_owned()),
        Just("Content-Length: 7\r\n".to_owned()),
        Just("Content-Type: x\n".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\u{a0}".to_owned()),
        Just("\u{2028}".to_owned()),
        Just("{\n\"a\":\n[1,\n".to_owned()),
        Just("/*".to_owned()),
        Just("\r{\"id\":2,\"result\":{}}\r".to_owned()),
        Just("log".to_owned()),
        Just("y".repeat(70)),
        "[\\[\\]{}\":,\\\\ \r\n\tcC\0a1]{1,4}",
        Just("\n".to_owned()),
    ];
    prop_oneof![
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_bytes_are_split(bytes in stream(), mut cuts in prop::collection::vec(0usize..400, 0..20)) {
        let whole = cut_all(SMALL, [&bytes[..]]);
        cuts.iter_mut().for_each(|at| *at = (*at).min(bytes.len()));
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(cut_all(SMALL, pieces), whole);
    }

    #[test]
    fn random_gaps_never_panic_nor_grow_memory(pieces in prop::collection::vec((stream(), 0u8..4), 0..10)) {
        let mut cutter = FrameCutter::new(SMALL);
        for (bytes, action) in pieces {
            cutter.push(&bytes, Timestamp(1), &mut |_| {});
            match action {
                0 => cutter.gap(1, &mut |_| {}),
                1 => cutter.discard_pending(&mut |_| {}),
                2 => cutter.finish(&mut |_| {}),
                _ => {}
            }
            // Twice a frame: one by lines, one spread over them.
            let bound = SMALL.max_frame_bytes.max(SMALL.max_header_bytes) + SMALL.max_frame_bytes;
            prop_assert!(cutter.pending_bytes() <= bound);
        }
    }
}
