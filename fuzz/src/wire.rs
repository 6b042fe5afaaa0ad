//! Any bytes as a stream: cut the same wherever it is split, and nothing comes out that did not go in. The first byte
//! says where it is split.

use mcpwarden_policy::{Cut, FrameCutter, Limits, Timestamp};

/// Small ones, which inputs of a few KiB can reach.
const LIMITS: Limits = Limits { max_frame_bytes: 256, max_header_bytes: 64 };

fn cuts<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut cuts = Vec::new();
    let mut sink = |cut: Cut<'_>| {
        if let Cut::Frame { bytes, .. } = cut {
            assert!(bytes.len() <= LIMITS.max_frame_bytes);
            assert!(matches!(bytes.first(), Some(b'{' | b'[')), "{bytes:?}");
        }
        cuts.push(format!("{cut:?}"));
    };
    let mut cutter = FrameCutter::new(LIMITS);
    for piece in pieces {
        cutter.push(piece, Timestamp(0), &mut sink);
        // What goes on in further lines is held whole, and its last line by itself.
        let most = 2 * LIMITS.max_frame_bytes.max(LIMITS.max_header_bytes) + 1;
        assert!(cutter.pending_bytes() <= most, "{}", cutter.pending_bytes());
    }
    cutter.finish(&mut sink);
    cuts
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else { return };
    assert_eq!(cuts(stream.chunks(usize::from(size).max(1))), cuts([stream].into_iter()));
    // Behind a gap anything may follow.
    let mut cutter = FrameCutter::new(LIMITS);
    for piece in stream.chunks(usize::from(size).max(1)) {
        cutter.push(piece, Timestamp(0), &mut |_| {});
        cutter.gap(u64::from(size), &mut |_| {});
    }
}
