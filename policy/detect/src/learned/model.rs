//! The weights, and the file that they come in.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use sha2::{Digest as _, Sha256};

use super::concepts::BITS;
use super::context::Context;
use super::features::{MASK_FEATURES, of_mask};

/// What a file begins with: the format, and its version.
const MAGIC: &[u8; 8] = b"MCPWSC01";
/// Weights of hashed features.
pub(super) const HASHED: usize = 1 << 18;
/// Weights of what is known of a whole text.
pub(super) const WHOLE: usize = 512;
/// Kinds of attacks that the model tells apart.
pub(super) const KINDS: usize = 8;
/// Weights of one kind of attack: for each bit of a mask, and one for itself.
pub(super) const KIND_WEIGHTS: usize = BITS + 1;
/// Bytes of the numbers before the weights of a side.
const NUMBERS: usize = 4 * 4;
const SIDE_BYTES: usize = NUMBERS + HASHED + 2 * (MASK_FEATURES + WHOLE + KINDS * KIND_WEIGHTS);
const DIGEST: usize = 32;
/// Bytes of a file. No other length is right.
pub const MODEL_BYTES: usize = MAGIC.len() + 2 * SIDE_BYTES + DIGEST;

/// The model that comes with the program.
static BUILT_IN: LazyLock<Option<Arc<Model>>> =
    LazyLock::new(|| Model::parse(include_bytes!("../../model/scorer.bin")).ok().map(Arc::new));

/// What is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The definition of a tool.
    Definition,
    /// The result of a call.
    Result,
}

/// Why a file is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Another length than that of every model.
    #[error("it has {0} bytes; expected {MODEL_BYTES}")]
    Length(usize),
    /// Another format, or another version of it.
    #[error("it is no model of this version; expected a file that begins with MCPWSC01")]
    Format,
    /// The digest at its end is not that of the rest.
    #[error("its digest is wrong; expected the SHA-256 of the rest in the last 32 bytes")]
    Digest,
    /// Its thresholds are in the wrong order, or a scale is not positive.
    #[error("its numbers are out of range; expected positive scales, and `review` below `high`")]
    Numbers,
}

/// Weights for definitions and for results, all of them integers.
#[derive(PartialEq)]
pub struct Model {
    sides: [Side; 2],
    id: String,
}

/// Weights for one subject. A score is a thousandth of a natural logarithm of odds.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// What every score has.
    pub bias: i32,
    /// How much a weight is worth: a 65,536th of a thousandth.
    pub scale: i32,
    /// The score from which on a person should look at it.
    pub review: i32,
    /// The score from which on it is a high detection.
    pub high: i32,
    /// Of hashed features.
    pub hashed: Box<[i8]>,
    /// Of what there is in a window: see `features::of_mask`.
    pub masks: Box<[i16]>,
    /// Of what is known of the whole text.
    pub whole: Box<[i16]>,
    /// For each kind of attack, of the bits of a mask; the last one is for every text.
    pub kinds: Box<[i16]>,
}

/// Sums over some sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Of the weights of words, and how many there are.
    pub(super) words: (i64, u64),
    /// The same of the order of concepts.
    pub(super) order: (i64, u64),
    /// What there is.
    pub(super) mask: u64,
}

impl Sums {
    /// Those of both.
    pub(super) fn with(self, other: Self) -> Self {
        let add = |one: (i64, u64), other: (i64, u64)| (one.0 + other.0, one.1 + other.1);
        Self {
            words: add(self.words, other.words),
            order: add(self.order, other.order),
            mask: self.mask | other.mask,
        }
    }
}

impl Side {
    /// A side that finds nothing: all weights are 0.
    pub fn empty() -> Self {
        Self {
            bias: 0,
            scale: 1,
            review: i32::MAX - 1,
            high: i32::MAX,
            hashed: vec![0; HASHED].into(),
            masks: vec![0; MASK_FEATURES].into(),
            whole: vec![0; WHOLE].into(),
            kinds: vec![0; KINDS * KIND_WEIGHTS].into(),
        }
    }

    /// The weight of a hashed feature.
    pub(super) fn hashed(&self, hash: u32) -> i64 {
        self.hashed.get(hash as usize % HASHED).copied().unwrap_or_default().into()
    }

    /// The weight of a feature of a mask.
    pub(super) fn mask(&self, number: usize) -> i64 {
        self.masks.get(number).copied().unwrap_or_default().into()
    }

    /// The score of a window.
    pub(super) fn window(&self, sums: Sums, context: &Context) -> i64 {
        let (mut sum, mut count) = sums.order;
        of_mask(sums.mask, context, |number| {
            sum += self.mask(number);
            count += 1;
        });
        let (words, of) = sums.words;
        self.scaled(per_root(words, of) + per_root(sum, count))
    }

    /// What the features of a whole text add to the score of its worst window.
    pub(super) fn whole(&self, features: &[u16]) -> i64 {
        let weight =
            |number: &u16| i64::from(self.whole.get(usize::from(*number)).copied().unwrap_or_default());
        i64::from(self.bias) + self.scaled(features.iter().map(weight).sum::<i64>() << 10)
    }

    /// Thousandths from 1,024ths of weights.
    pub(super) fn scaled(&self, weights: i64) -> i64 {
        (weights * i64::from(self.scale)) >> 16
    }

    /// The kind of attack that a window with this mask most looks like.
    pub(super) fn kind(&self, mask: u64) -> usize {
        let of_kind = |weights: &[i16]| -> i64 {
            let bits = weights.iter().enumerate().filter(|(bit, _)| *bit == BITS || mask >> bit & 1 == 1);
            bits.map(|(_, weight)| i64::from(*weight)).sum()
        };
        let scores = self.kinds.chunks(KIND_WEIGHTS).map(of_kind).enumerate();
        // Of equals the first.
        scores.rev().max_by_key(|(_, score)| *score).map_or(0, |(kind, _)| kind)
    }

    fn write(&self, out: &mut Vec<u8>) {
        for number in [self.bias, self.scale, self.review, self.high] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.hashed.iter().map(|weight| weight.to_le_bytes()[0]));
        for weights in [&self.masks, &self.whole, &self.kinds] {
            out.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let number =
            |index: usize| Some(i32::from_le_bytes(bytes.get(4 * index..4 * index + 4)?.try_into().ok()?));
        let mut at = NUMBERS;
        let mut take = |length: usize| -> Option<&[u8]> {
            let Range { start, end } = at..at + length;
            at = end;
            bytes.get(start..end)
        };
        let short = |bytes: &[u8]| -> Box<[i16]> {
            bytes.as_chunks::<2>().0.iter().map(|pair| i16::from_le_bytes(*pair)).collect()
        };
        Some(Self {
            bias: number(0)?,
            scale: number(1)?,
            review: number(2)?,
            high: number(3)?,
            hashed: take(HASHED)?.iter().map(|byte| i8::from_le_bytes([*byte])).collect(),
            masks: short(take(2 * MASK_FEATURES)?),
            whole: short(take(2 * WHOLE)?),
            kinds: short(take(2 * KINDS * KIND_WEIGHTS)?),
        })
    }

    fn is_sound(&self) -> bool {
        self.scale > 0 && self.review < self.high
    }
}

/// A sum divided by the root of how many there are, in 1,024ths.
pub(super) fn per_root(sum: i64, count: u64) -> i64 {
    let root = (count << 20).isqrt();
    if root == 0 { 0 } else { (sum << 20) / root.cast_signed() }
}

impl Model {
    /// One of these sides.
    pub fn new(definitions: Side, results: Side) -> Self {
        let mut model = Self { sides: [definitions, results], id: String::new() };
        model.id = id(&model.content());
        model
    }

    /// The one that comes with the program.
    pub fn built_in() -> Option<Arc<Self>> {
        BUILT_IN.clone()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is none of this version, or not whole.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        if !bytes.starts_with(MAGIC) {
            return Err(ModelError::Format);
        }
        if bytes.len() != MODEL_BYTES {
            return Err(ModelError::Length(bytes.len()));
        }
        let (content, digest) = bytes.split_at(MODEL_BYTES - DIGEST);
        if Sha256::digest(content).as_slice() != digest {
            return Err(ModelError::Digest);
        }
        let (first, second) = content[MAGIC.len()..].split_at(SIDE_BYTES);
        let sides = [first, second].map(Side::read);
        let [Some(definitions), Some(results)] = sides else { return Err(ModelError::Length(bytes.len())) };
        if !definitions.is_sound() || !results.is_sound() {
            return Err(ModelError::Numbers);
        }
        Ok(Self { sides: [definitions, results], id: id(content) })
    }

    fn content(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MODEL_BYTES);
        out.extend(MAGIC);
        self.sides.iter().for_each(|side| side.write(&mut out));
        out
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.content();
        let digest = Sha256::digest(&out);
        out.extend(digest);
        out
    }

    /// Which one it is: the first 8 hexadecimal digits of its digest.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The weights for this subject.
    pub fn side(&self, subject: Subject) -> &Side {
        let [definitions, results] = &self.sides;
        match subject {
            Subject::Definition => definitions,
            Subject::Result => results,
        }
    }
}

fn id(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("id", &self.id).finish_non_exhaustive()
    }
}
