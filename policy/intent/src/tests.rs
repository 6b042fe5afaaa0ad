//! Answers and requests as tables: what is written, and what comes out.

mod answers;
mod hostile;
mod names;
mod properties;
mod requests;

use super::*;

pub(super) const LIMITS: IntentLimits =
    IntentLimits { value_bytes: 64 * 1024, argument_bytes: 1024, calls: 16, name_bytes: 64, entries: 8 };

/// What comes out of an answer that comes in pieces of this size, in a line each.
pub(super) fn read(limits: IntentLimits, body: &[u8], size: usize) -> (Vec<String>, IntentCounters) {
    read_pieces(limits, body.chunks(size.max(1)))
}

pub(super) fn read_pieces<'a>(
    limits: IntentLimits,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<String>, IntentCounters) {
    let (mut answer, mut lines) = (Answer::new(limits), Vec::new());
    for piece in pieces {
        answer.push(piece, &mut |output| lines.push(line(output)));
        let most = limits.value_bytes + limits.calls * (limits.argument_bytes + 4 * limits.name_bytes + 512);
        assert!(answer.held() <= most, "{} bytes held", answer.held());
    }
    answer.end(&mut |output| lines.push(line(output)));
    assert_eq!(answer.held(), 0);
    (lines, answer.counters())
}

fn line(output: AnswerOutput<'_>) -> String {
    let named = |call: ToolCall<'_>| {
        let by = match call.executor {
            Executor::Client => String::new(),
            Executor::Provider => " by provider".to_owned(),
            Executor::ProviderMcp { server } => format!(" by {server}"),
        };
        let namespace = call.namespace.map_or(String::new(), |namespace| format!("{namespace}|"));
        format!("{} {} {namespace}{}{by}", call.number, call.id.unwrap_or("-"), call.name)
    };
    match output {
        AnswerOutput::Begun { dialect, id, model } => {
            format!("begun {} {} {}", dialect.as_str(), id.unwrap_or("-"), model.unwrap_or("-"))
        }
        AnswerOutput::Named(call) => format!("named {}", named(call)),
        AnswerOutput::Called { call, arguments } => {
            let arguments = match arguments {
                Arguments::Json(text) => text.to_owned(),
                Arguments::Text(text) => format!("text {text}"),
                Arguments::TooLong(bytes) => format!("too long {bytes}"),
                Arguments::Unread => "unread".to_owned(),
            };
            format!("called {} {arguments}", named(call))
        }
        AnswerOutput::ProviderResult { id, is_error, content } => {
            format!("result {id} {is_error} {}", content.bytes)
        }
        AnswerOutput::ProviderTool { server, name, definition } => {
            format!("tool {server} {name} {}", definition.len())
        }
        AnswerOutput::Failed { kind } => format!("failed {kind}"),
        AnswerOutput::Missing(missing) => format!("missing {missing:?}"),
        AnswerOutput::Ended { stop, tokens } => {
            let number = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
            let Tokens { input, output, cached } = tokens;
            format!("ended {} {} {} {}", stop.unwrap_or("-"), number(input), number(output), number(cached))
        }
    }
}

/// As a whole, and cut everywhere.
pub(super) fn check(name: &str, body: &[u8], expected: &[&str]) {
    let (whole, counters) = read(LIMITS, body, usize::MAX);
    assert_eq!(whole, expected, "{name}");
    assert_eq!(read(LIMITS, body, 1), (whole.clone(), counters), "{name}: byte by byte");
    for at in 0..body.len() {
        let (first, second) = body.split_at(at);
        let cut = read_pieces(LIMITS, [first, second].into_iter());
        assert_eq!(cut, (whole.clone(), counters), "{name}: cut at {at}");
    }
}
