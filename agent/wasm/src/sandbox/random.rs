//! Random numbers that follow from the seed of the call.

use crate::error::HostError;

/// Bytes that a guest gets at once.
const RANDOM_BYTES: u64 = 64 << 10;

/// A generator of numbers (splitmix64). Its numbers can be predicted, and must be: a guard has no secrets of its own, and
/// the same call must get the same answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.state;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub(crate) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, HostError> {
        let length = usize::try_from(length.min(RANDOM_BYTES + 1)).unwrap_or(usize::MAX);
        if length as u64 > RANDOM_BYTES {
            return Err(HostError::Limit("more than 64 KiB of random bytes at once"));
        }
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed() {
        // The first numbers of the reference implementation of splitmix64 for these seeds.
        for (seed, expected) in [(0, 0xe220_a839_7b1d_cdaf), (1_234_567, 6_457_827_717_110_365_317)] {
            assert_eq!(Random::new(seed).next(), expected, "{seed}");
        }
    }

    #[test]
    fn bytes_are_bounded() {
        for length in [0, 1, 8, 9, RANDOM_BYTES] {
            assert_eq!(Random::new(1).bytes(length).unwrap().len() as u64, length);
        }
        for length in [RANDOM_BYTES + 1, u64::MAX] {
            assert!(matches!(Random::new(1).bytes(length), Err(HostError::Limit(_))), "{length}");
        }
    }
}
