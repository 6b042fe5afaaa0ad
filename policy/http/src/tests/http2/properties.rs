//! The same bytes cut anywhere, and streams in each other in any way, give the same; anything at all breaks nothing.

use proptest::prelude::*;

use super::*;

/// One stream: its head, and what it says behind that.
#[derive(Clone, Debug)]
struct Talk {
    asked: String,
    bodies: Vec<String>,
    answered: String,
    answers: Vec<String>,
}

fn talk() -> impl Strategy<Value = Talk> {
    let cut = |text: String| {
        prop::collection::vec(0usize..200, 0..3).prop_map(move |cuts| {
            let mut cuts: Vec<usize> =
                cuts.iter().map(|at| at % (text.len() + 1)).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect::<Vec<String>>()
        })
    };
    let asked = prop_oneof![
        Just((format!("{POST} mcp-session-id=s"), PING.to_owned())),
        Just((format!("{POST} mcp-session-id=t x=y"), NOTE.to_owned())),
        Just((format!("{GET} mcp-session-id=s"), String::new())),
        Just((":method=POST :scheme=http :authority=b :path=/x?y".to_owned(), "{".to_owned())),
    ];
    let answered = prop_oneof![
        Just((OK.to_owned(), PONG.to_owned())),
        Just((EVENTS.to_owned(), format!("data: {PONG}\n\ndata: {NOTE}\n\n"))),
        Just((":status=500".to_owned(), "no".to_owned())),
        Just((":status=202".to_owned(), String::new())),
    ];
    (asked, answered).prop_flat_map(move |((asked, body), (answered, answer))| {
        (Just(asked), cut(body), Just(answered), cut(answer))
            .prop_map(|(asked, bodies, answered, answers)| Talk { asked, bodies, answered, answers })
    })
}

/// Each stream's frames in its order, and otherwise as `order` says.
fn interleave(streams: Vec<Vec<Vec<u8>>>, order: &[usize]) -> Vec<Vec<u8>> {
    let mut streams: Vec<VecDeque<Vec<u8>>> = streams.into_iter().map(VecDeque::from).collect();
    let (mut frames, mut order) = (Vec::new(), order.iter().cycle());
    while streams.iter().any(|stream| !stream.is_empty()) {
        let waiting: Vec<usize> = (0..streams.len()).filter(|at| !streams[*at].is_empty()).collect();
        let at = waiting[order.next().unwrap() % waiting.len()];
        frames.extend(streams[at].pop_front());
    }
    frames
}

/// The bodies of one stream as frames; the last one ends it.
fn bodies(stream: u32, texts: &[String]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| data(stream, text)).chain([last(stream, "")]).collect()
}

/// What both sides write. Heads stand in one order, since they build on each other.
fn written(talks: &[Talk], style: Style, order: &[usize]) -> (Vec<u8>, Vec<u8>) {
    let (mut c, mut s) = ends(style);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let (mut heads, mut answer_heads) = (Vec::new(), Vec::new());
    for (at, talk) in talks.iter().enumerate() {
        let stream = at as u32 * 2 + 1;
        heads.extend(c.head(stream, false, &talk.asked));
        asked.push(bodies(stream, &talk.bodies));
        answer_heads.extend(s.head(stream, false, &talk.answered));
        answered.push(bodies(stream, &talk.answers));
    }
    let asked = [PREFACE.as_bytes(), &settings(), &heads, &interleave(asked, order).concat()].concat();
    (asked, [settings(), answer_heads, interleave(answered, order).concat()].concat())
}

fn pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

/// The messages, whatever their order; a link is known by what opened it.
fn messages(lines: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = lines
        .into_iter()
        .map(|line| line.trim_start_matches(|byte: char| byte.is_ascii_digit()).to_owned())
        .collect();
    lines.retain(|line| line.starts_with(" > ") || line.starts_with(" < "));
    lines.sort();
    lines
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(PREFACE.as_bytes().to_vec()),
        Just(settings()),
        (0u8..12, any::<u8>(), 0u32..8, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload)),
        (talk(), 0u32..8, any::<bool>()).prop_map(|(talk, stream, literal)| {
            let mut encoder = Encoder::new(Style { huffman: true, literal });
            [encoder.head(stream, false, &talk.asked), data(stream, PING)].concat()
        }),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(token, 0..6).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn http2_outputs_do_not_depend_on_how_bytes_are_split(
        talks in prop::collection::vec(talk(), 1..5),
        order in prop::collection::vec(0usize..4, 1..8),
        cuts in prop::collection::vec(0usize..10_000, 0..12),
        (huffman, literal, answers_first) in any::<(bool, bool, bool)>(),
    ) {
        let (asked, answered) = written(&talks, Style { huffman, literal }, &order);
        let whole = vec![ask(1, &asked), answer(1, &answered), Step::Close(1)];
        let asked = pieces(&asked, &cuts).into_iter().map(|piece| ask(1, piece));
        let answered = pieces(&answered, &cuts).into_iter().map(|piece| answer(1, piece));
        let mut cut: Vec<Step> = match answers_first {
            true => answered.chain(asked).collect(),
            false => asked.chain(answered).collect(),
        };
        cut.push(Step::Close(1));
        let (whole, counters) = run(LIMITS, &whole);
        prop_assert_eq!(messages(run(LIMITS, &cut).0), messages(whole));
        prop_assert_eq!((counters.h2_faults, counters.head_fields_unknown), (0, 0));
    }

    #[test]
    fn http2_messages_do_not_depend_on_the_order_of_streams(
        talks in prop::collection::vec(talk(), 1..5),
        orders in prop::array::uniform2(prop::collection::vec(0usize..4, 1..8)),
    ) {
        let [one, other] = orders.map(|order| {
            let (asked, answered) = written(&talks, Style::default(), &order);
            messages(run(LIMITS, &[ask(1, asked), answer(1, answered), Step::Close(1)]).0)
        });
        prop_assert_eq!(one, other);
    }

    #[test]
    fn random_http2_never_panics_nor_grows_memory(
        steps in prop::collection::vec((anything(), 0u64..3, 0u8..10), 0..20),
    ) {
        let mut all = Vec::new();
        for (bytes, stream, action) in steps {
            let stream = if stream == 2 { 1000 } else { stream };
            all.push(match action {
                0 => Step::Gap(stream, ASKED, bytes.len() as u64),
                1 => Step::Gap(stream, ANSWERED, bytes.len() as u64),
                2 => Step::Close(stream),
                3 | 4 => Step::Ask(stream, [PREFACE.as_bytes(), &bytes].concat()),
                5 | 6 => Step::Ask(stream, bytes),
                _ => Step::Answer(stream, bytes),
            });
        }
        let limits = HttpLimits { held_bytes: 3000, ..LIMITS };
        let again = run(limits, &all);
        prop_assert_eq!(run(limits, &all), again);
    }
}
