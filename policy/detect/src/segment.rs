//! A long text in segments, so that its forms never take more memory than those of one, and in an order that has something
//! of all its parts first: where the budget ends, neither padding in front of a text nor behind it hides the rest.

use std::ops::Range;

/// How much of a text is looked at in all its forms at once. Bytes.
pub(super) const SEGMENT_BYTES: usize = 256 << 10;
/// How far a segment goes on into the next one, in bytes of its normal form: as far as hits may be from each other.
pub(super) const OVERLAP_BYTES: usize = 4 << 10;

/// The segments of a text, in the order in which they are looked at; one where it is short.
pub(super) fn segments(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let border = |number: usize| text.floor_char_boundary((number * SEGMENT_BYTES).min(text.len()));
    spread(text.len().div_ceil(SEGMENT_BYTES).max(1)).map(move |number| border(number)..border(number + 1))
}

/// The numbers below `count`: the first, the last, the middle and so on, always far from those before.
pub(super) fn spread(count: usize) -> impl Iterator<Item = usize> {
    let bits = count.checked_next_power_of_two().unwrap_or(1 << (usize::BITS - 1)).trailing_zeros();
    let middle = (1..1usize << bits).map(move |number| number.reverse_bits() >> (usize::BITS - bits));
    let last = count.saturating_sub(1);
    let ends = (count > 0).then_some(0).into_iter().chain((count > 1).then_some(last));
    ends.chain(middle.filter(move |number| *number < last))
}

/// The parts of a range of at most `most` bytes that are looked at: all of it, or its beginning, its end and its middle.
/// Each begins a multiple of four bytes behind the beginning.
pub(super) fn samples(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let from = |at: usize| range.start + (at - range.start) / 4 * 4;
    let length = range.len();
    let starts = match length <= most {
        true => [Some(range.start), None, None],
        false => {
            [Some(range.start), Some(from(range.end - most)), Some(from(range.start + (length - most) / 2))]
        }
    };
    let end = range.end;
    starts.into_iter().flatten().map(move |start| start..end.min(start + most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_comes_once_and_early_ones_lie_apart() {
        for (count, expected) in [
            (0, vec![]),
            (1, vec![0]),
            (2, vec![0, 1]),
            (3, vec![0, 2, 1]),
            (8, vec![0, 7, 4, 2, 6, 1, 5, 3]),
        ] {
            assert_eq!(spread(count).collect::<Vec<_>>(), expected, "{count}");
        }
        for count in 0..300 {
            let mut all: Vec<usize> = spread(count).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn segments_cover_a_text_and_cut_no_character() {
        for (letter, bytes) in
            [("a", 0), ("a", 10), ("a", SEGMENT_BYTES + 1), ("\u{fdfa}", 3 * SEGMENT_BYTES + 7)]
        {
            let text = letter.repeat(bytes / letter.len());
            let mut found: Vec<Range<usize>> = segments(&text).collect();
            found.sort_unstable_by_key(|range| range.start);
            assert_eq!(found.iter().map(|range| &text[range.clone()]).collect::<String>(), text);
        }
    }

    #[test]
    fn long_range_is_sampled_at_its_ends_and_middle() {
        assert!(samples(3..10, 7).eq(std::iter::once(3..10)));
        assert_eq!(samples(3..104, 8).collect::<Vec<_>>(), [3..11, 95..103, 47..55]);
    }
}
