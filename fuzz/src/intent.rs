//! Any bytes as what the API of a model answers, and as what it is asked: read the same wherever they are cut, calls are named
//! before they are called, and nothing is longer than its bound. The first byte says how they are cut.

use std::collections::BTreeSet;

use mcpwarden_intent::{Answer, AnswerOutput, Arguments, IntentLimits, Request};

/// Small ones, which inputs of a few KiB can reach.
const LIMITS: IntentLimits =
    IntentLimits { value_bytes: 4096, argument_bytes: 128, calls: 4, name_bytes: 32, entries: 4 };

fn outputs(input: &[u8], size: usize) -> Vec<String> {
    let (mut outputs, mut named, mut called) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut sink = |output: AnswerOutput<'_>| {
        match output {
            AnswerOutput::Begun { .. } => assert!(outputs.is_empty()),
            _ => assert!(!outputs.is_empty()),
        }
        match output {
            AnswerOutput::Named(call) => {
                assert!(call.name.len() <= LIMITS.name_bytes && !called.contains(&call.number));
                named.insert(call.number);
            }
            AnswerOutput::Called { call, arguments } => {
                assert!(named.contains(&call.number) && called.insert(call.number));
                if let Arguments::Json(text) | Arguments::Text(text) = arguments {
                    assert!(text.len() <= LIMITS.argument_bytes);
                    outputs.push(text.to_owned());
                }
            }
            _ => {}
        }
        outputs.push(format!("{output:?}"));
    };
    let mut answer = Answer::new(LIMITS);
    for piece in input.chunks(size) {
        answer.push(piece, &mut sink);
    }
    answer.end(&mut sink);
    assert_eq!(answer.held(), 0);
    outputs.push(format!("{:?}", answer.counters()));
    outputs
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((&size, input)) = input.split_first() else { return };
    assert_eq!(outputs(input, usize::MAX), outputs(input, usize::from(size).max(1)));
    if let Some(request) = Request::of(input, &LIMITS) {
        let most = LIMITS.entries;
        assert!(request.tools.len().max(request.servers.len()).max(request.results.len()) <= most);
    }
}
