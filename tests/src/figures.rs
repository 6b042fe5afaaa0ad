//! Figures of a measurement: shares with their confidence intervals, and the score from which on few honest ones are reported.

/// The normal quantile of a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that hold.
    pub of: usize,
    /// All of them.
    pub all: usize,
}

impl Share {
    /// How many of these hold.
    pub fn count(all: impl IntoIterator<Item = bool>) -> Self {
        all.into_iter().fold(Self::default(), |share, holds| Self {
            of: share.of + usize::from(holds),
            all: share.all + 1,
        })
    }

    /// In percent; 0 of none.
    pub fn percent(self) -> f64 {
        if self.all == 0 { 0.0 } else { 100.0 * self.of as f64 / self.all as f64 }
    }

    /// The 95 % interval of Wilson, in percent: it is right for small numbers and for shares near 0 and 1 as well.
    /// (Brown, Cai and DasGupta, Interval Estimation for a Binomial Proportion, 2001.)
    pub fn interval(self) -> (f64, f64) {
        if self.all == 0 {
            return (0.0, 100.0);
        }
        let (n, p) = (self.all as f64, self.of as f64 / self.all as f64);
        let (scale, half) = (1.0 + Z * Z / n, Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt());
        let middle = p + Z * Z / (2.0 * n);
        let percent = |share: f64| (100.0 * share / scale).clamp(0.0, 100.0);
        (percent(middle - half), percent(middle + half))
    }
}

/// The least score, but not below `least`, that at most this share of the honest ones reaches.
pub fn threshold(honest: &[u32], share: f64, least: u32) -> u32 {
    let mut scores = honest.to_vec();
    scores.sort_unstable_by(|a, b| b.cmp(a));
    let allowed = (0..=scores.len()).rev().find(|&count| count as f64 <= share * scores.len() as f64);
    // The next one must not reach it.
    scores.get(allowed.unwrap_or(0)).map_or(least, |score| least.max(score + 1))
}

/// The mean of some numbers; 0 of none.
pub fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

/// The 95 % interval of the mean of what such numbers are drawn from, by the normal approximation; all of them where there are
/// less than two.
pub fn interval_of_mean(numbers: &[f64]) -> (f64, f64) {
    if numbers.len() < 2 {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let (count, middle) = (numbers.len() as f64, mean(numbers));
    let variance = numbers.iter().map(|number| (number - middle).powi(2)).sum::<f64>() / (count - 1.0);
    let half = Z * (variance / count).sqrt();
    (middle - half, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many so many, and the interval as published tables have it, in percent.
    #[test]
    fn wilson_interval_matches_published_values() {
        for (of, all, low, high) in [
            (0, 10, 0.0, 27.75),
            (1, 10, 1.79, 40.42),
            (5, 10, 23.66, 76.34),
            (10, 10, 72.25, 100.0),
            (0, 1, 0.0, 79.35),
            (0, 100, 0.0, 3.70),
            (4, 819, 0.19, 1.25),
            (81, 263, 25.53, 36.62),
            (0, 0, 0.0, 100.0),
        ] {
            let (found_low, found_high) = Share { of, all }.interval();
            assert!((found_low - low).abs() < 0.006, "{of} of {all}: {found_low}");
            assert!((found_high - high).abs() < 0.006, "{of} of {all}: {found_high}");
        }
        assert_eq!(Share::count([true, false, true, true]), Share { of: 3, all: 4 });
        assert_eq!(Share { of: 0, all: 0 }.percent().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn threshold_keeps_false_positives_below_the_share() {
        let honest: Vec<u32> = (0..200).map(|number| if number < 6 { 100 + number } else { 0 }).collect();
        for (share, expected, reached) in
            [(0.0, 106, 0), (0.005, 105, 1), (0.01, 104, 2), (0.02, 102, 4), (0.03, 25, 6), (1.0, 25, 6)]
        {
            let found = threshold(&honest, share, 25);
            assert_eq!(found, expected, "{share}");
            assert_eq!(honest.iter().filter(|score| **score >= found).count(), reached, "{share}");
        }
        // Of equal scores none may reach it, or all.
        assert_eq!(threshold(&[100; 200], 0.5, 25), 101);
        assert_eq!(threshold(&[], 0.01, 25), 25);
        assert!((mean(&[1.0, 2.0]) - 1.5).abs() < f64::EPSILON && mean(&[]).abs() < f64::EPSILON);
    }

    #[test]
    fn interval_of_mean_matches_its_formula() {
        for (numbers, low, high) in [
            (&[1.0, 1.0, 1.0][..], 1.0, 1.0),
            (&[0.0, 2.0], -0.96, 2.96),
            (&[0.0, 0.0, 0.0, 4.0], -0.96, 2.96),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], 1.614, 4.386),
            (&[7.0], f64::NEG_INFINITY, f64::INFINITY),
            (&[], f64::NEG_INFINITY, f64::INFINITY),
        ] {
            let found = interval_of_mean(numbers);
            let is_near = |found: f64, expected: f64| {
                (found - expected).abs() < 0.001 || found.to_bits() == expected.to_bits()
            };
            assert!(is_near(found.0, low) && is_near(found.1, high), "{numbers:?}: {found:?}");
        }
    }
}
