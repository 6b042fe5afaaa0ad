//! Arithmetic that is the same on every machine.

/// e to the power of `x`, between -40 and 40.
pub(super) fn exp(x: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    let x = x.clamp(-40.0, 40.0);
    let whole = (x / LN_2).round();
    let rest = x - whole * LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for number in 1..16 {
        term = term * rest / f64::from(number);
        sum += term;
    }
    // 2 to the power of `whole`: repeated, since it is small.
    let factor = if whole < 0.0 { 0.5 } else { 2.0 };
    let (mut power, mut left) = (1.0, whole.abs());
    while left >= 1.0 {
        power *= factor;
        left -= 1.0;
    }
    sum * power
}

/// The logistic function.
pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// Numbers that look random, from a seed (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed, which is not 0.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// The next number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        usize::try_from(number % (end as u64).max(1)).unwrap_or(0)
    }

    /// Puts a list in another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_matches_the_standard_library() {
        for step in -400..=400 {
            let x = f64::from(step) / 10.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "{x}");
        }
        assert!((logistic(0.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn shuffle_keeps_every_element() {
        let mut list: Vec<usize> = (0..100).collect();
        Random::new(7).shuffle(&mut list);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
