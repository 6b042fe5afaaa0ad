//! Any bytes as what a client writes to a server: the gate says the same however they are cut, never lets through what
//! the parser reads as a denied call, and what it would neutralize lies in the write at hand. The first byte says where to cut.

use std::sync::{Arc, LazyLock};

use mcpwarden_policy::config;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};
use mcpwarden_policy::event::Identity;
use mcpwarden_policy::gate::{GateCompiler, GateReader, GateSubject, GateTable, GateVerdict};
use mcpwarden_policy::guard::{Listing, Profile, Trust};
use mcpwarden_policy::protocol::{self, Kind, Method, members, string};
use mcpwarden_policy::{ServerId, Timestamp};

static TABLE: LazyLock<GateTable> = LazyLock::new(|| {
    let (config, _) = config::parse(b"policy: { denied_tools: ['delete_*', '?'] }").unwrap();
    let detector = Arc::new(Detector::new(RuleSet::default(), &DetectConfig::default()).unwrap());
    let subject = GateSubject {
        server: ServerId("files".into()),
        also: Vec::new(),
        identity: Identity::Derived,
        enabled: true,
        trust: Trust::Medium,
        listing: Listing::Listed,
        profile: Profile::default(),
        tools: Default::default(),
        block: None,
        standing: Vec::new(),
    };
    GateCompiler::new(&config, &detector)
        .and_then(|mut compiler| compiler.compile(&[subject], 1, Timestamp(0)))
        .unwrap()
});

/// The worst that is said of these writes.
fn judge<'a>(writes: impl Iterator<Item = &'a [u8]>) -> GateVerdict {
    let (mut reader, mut worst) = (GateReader::default(), GateVerdict::Allow);
    for bytes in writes {
        reader.write(&TABLE, 0, bytes, |said| {
            assert!(said.place.is_none_or(|place| bytes[place] < 0x80));
            worst = worst.max(said.verdict);
        });
    }
    worst
}

/// Whether the parser finds a call in a line that the policy denies.
fn denied(line: &[u8]) -> bool {
    let mut scratch = String::new();
    let Ok(parsed) = protocol::parse(line, &mut scratch) else { return false };
    // Bytes that are no UTF-8 and control characters are read in as many ways as there are readers.
    !parsed.lossy
        && !parsed.repaired
        && parsed.messages.iter().any(|message| match &message.kind {
            Kind::Request { method: Method::ToolsCall, params: Some(params), .. }
            | Kind::Notification { method: Method::ToolsCall, params: Some(params) } => {
                let [name] = members(params.get(), ["name"]);
                let name = string(name);
                name.starts_with("delete_") || name.chars().count() == 1
            }
            _ => false,
        })
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else { return };
    let whole = judge([stream].into_iter());
    assert_eq!(whole, judge(stream.chunks(usize::from(size).max(1))));
    if stream.split(|byte| *byte == b'\n').any(denied) {
        assert_eq!(whole, GateVerdict::Deny);
    }
}
