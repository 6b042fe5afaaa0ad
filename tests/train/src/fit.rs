//! The fit, and the weights as integers.

use std::ops::Range;

use mcpwarden_detect::learned::{KINDS, Recorded, Side, windows};

use super::numbers::{Random, exp, logistic};
use super::{Class, Example};

/// How to fit.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often each example is read.
    pub epochs: usize,
    /// The rate of learning.
    pub rate: f64,
    /// How much each weight that is used decays.
    pub decay: f64,
    /// What all attacks together weigh, all hard honest examples, and all others.
    pub shares: [f64; 3],
    /// What the order of examples comes from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { epochs: 12, rate: 0.15, decay: 2e-4, shares: [1.0, 1.0, 1.0], seed: 20_261_126 }
    }
}

/// Weights, and how much each has moved.
struct Weights {
    values: Vec<f64>,
    moved: Vec<f64>,
    /// The sum of the values at the ends of epochs.
    sums: Vec<f64>,
}

impl Weights {
    fn new(count: usize) -> Self {
        Self { values: vec![0.0; count], moved: vec![1e-3; count], sums: vec![0.0; count] }
    }

    /// Adds the values to the sums.
    fn add(&mut self) {
        self.sums.iter_mut().zip(&self.values).for_each(|(sum, value)| *sum += value);
    }

    /// Makes the mean of so many values the values.
    fn average(&mut self, count: usize) {
        let mean = |sum: &f64| sum / count as f64;
        self.values = self.sums.iter().map(mean).collect();
    }

    fn step(&mut self, index: usize, gradient: f64, options: &Options) {
        let gradient = gradient + options.decay * self.values[index];
        self.moved[index] += gradient * gradient;
        self.values[index] -= options.rate * gradient / self.moved[index].sqrt();
    }
}

/// The model while it is fitted.
struct Fit<'o> {
    options: &'o Options,
    hashed: Weights,
    masks: Weights,
    whole: Weights,
    bias: Weights,
}

/// A window of an example, and its score.
struct Window {
    text: usize,
    range: Range<usize>,
    score: f64,
}

/// Fits weights to examples. The thresholds are left for others to set.
pub fn fit(examples: &[&Example], options: &Options) -> Side {
    let mut side = Side::empty();
    let mut fit = Fit {
        options,
        hashed: Weights::new(side.hashed.len()),
        masks: Weights::new(side.masks.len()),
        whole: Weights::new(side.whole.len()),
        bias: Weights::new(1),
    };
    let count = |class| examples.iter().filter(|example| example.class == class).count().max(1) as f64;
    let [attack, hard, honest] = options.shares;
    let weights = [attack / count(Class::Attack), hard / count(Class::Hard), honest / count(Class::Honest)];
    let all = examples.len() as f64
        / weights
            .iter()
            .zip([Class::Attack, Class::Hard, Class::Honest])
            .map(|(weight, class)| weight * count(class))
            .sum::<f64>();
    let mut random = Random::new(options.seed);
    let mut order: Vec<usize> = (0..examples.len()).collect();
    for epoch in 0..options.epochs {
        random.shuffle(&mut order);
        // The worst window has ever more of the gradient.
        let sharpness = 0.5 + epoch as f64;
        for &index in &order {
            let example = examples[index];
            let weight = all
                * match example.class {
                    Class::Attack => weights[0],
                    Class::Hard => weights[1],
                    Class::Honest => weights[2],
                };
            fit.learn(example, weight, sharpness);
        }
        // The mean of several epochs hangs less on the order of examples than the last one does.
        if epoch >= options.epochs / 2 {
            fit.all().into_iter().for_each(Weights::add);
        }
    }
    let averaged = options.epochs - options.epochs / 2;
    fit.all().into_iter().for_each(|weights| weights.average(averaged));
    fit.write(&mut side);
    kinds(examples, &mut side, options);
    side
}

impl Fit<'_> {
    fn all(&mut self) -> [&mut Weights; 4] {
        [&mut self.hashed, &mut self.masks, &mut self.whole, &mut self.bias]
    }

    fn sums(&self, sentence: &Recorded) -> [f64; 2] {
        let sum =
            |hashes: &[u32]| hashes.iter().map(|hash| self.hashed.values[self.index(*hash)]).sum::<f64>();
        [sum(&sentence.words), sum(&sentence.order)]
    }

    fn index(&self, hash: u32) -> usize {
        hash as usize % self.hashed.values.len()
    }

    /// All windows of an example, scored.
    fn windows(&self, example: &Example) -> Vec<Window> {
        let mut found = Vec::new();
        for (number, text) in example.document.texts.iter().enumerate() {
            let sums: Vec<[f64; 2]> = text.iter().map(|sentence| self.sums(sentence)).collect();
            for range in windows(text.len()) {
                let (mask, [words, order]) = counts(&text[range.clone()]);
                let (mut all, mut concepts) = (order, 0.0);
                example.document.of_mask(mask, |number| {
                    concepts += self.masks.values[number];
                    all += 1.0;
                });
                let of = |index: usize| sums[range.clone()].iter().map(|sum| sum[index]).sum::<f64>();
                let score = of(0) / words.max(1.0).sqrt() + (of(1) + concepts) / all.max(1.0).sqrt();
                found.push(Window { text: number, range, score });
            }
        }
        found
    }

    fn learn(&mut self, example: &Example, weight: f64, sharpness: f64) {
        let found = self.windows(example);
        let Some(most) = found.iter().map(|window| window.score).reduce(f64::max) else { return };
        let whole: f64 =
            example.document.whole.iter().map(|number| self.whole.values[usize::from(*number)]).sum();
        let label = if example.class == Class::Attack { 1.0 } else { 0.0 };
        let gradient = (logistic(most + whole + self.bias.values[0]) - label) * weight;
        if gradient.abs() < 1e-4 {
            return;
        }
        let parts: Vec<f64> = found.iter().map(|window| exp((window.score - most) * sharpness)).collect();
        let sum: f64 = parts.iter().sum();
        for (window, part) in found.iter().zip(parts) {
            // What has next to nothing of it takes as long as the rest.
            if part / sum >= 0.03 {
                self.step(example, window, gradient * part / sum);
            }
        }
        for number in &example.document.whole {
            self.whole.step(usize::from(*number), gradient, self.options);
        }
        self.bias.step(0, gradient, self.options);
    }

    fn step(&mut self, example: &Example, window: &Window, gradient: f64) {
        let sentences = &example.document.texts[window.text][window.range.clone()];
        let (mask, [words, order]) = counts(sentences);
        let mut all = order;
        example.document.of_mask(mask, |_| all += 1.0);
        let (of_word, of_concept) = (gradient / words.max(1.0).sqrt(), gradient / all.max(1.0).sqrt());
        for sentence in sentences {
            for hash in &sentence.words {
                let index = self.index(*hash);
                self.hashed.step(index, of_word, self.options);
            }
            for hash in &sentence.order {
                let index = self.index(*hash);
                self.hashed.step(index, of_concept, self.options);
            }
        }
        let (masks, options) = (&mut self.masks, self.options);
        example.document.of_mask(mask, |number| masks.step(number, of_concept, options));
    }

    /// The weights as integers: all in one unit, by which the largest of the hashed ones fit into a byte.
    fn write(&self, side: &mut Side) {
        let mut sizes: Vec<f64> =
            self.hashed.values.iter().map(|weight| weight.abs()).filter(|size| *size > 0.0).collect();
        sizes.sort_by(f64::total_cmp);
        // One in a thousand may be cut off.
        let largest = sizes.get(sizes.len().saturating_sub(1 + sizes.len() / 1_000)).copied().unwrap_or(1.0);
        let unit = (largest / 127.0).max(1e-6);
        let whole = |weight: f64, most: f64| (weight / unit).round().clamp(-most, most);
        #[expect(clippy::cast_possible_truncation, reason = "rounded and clamped")]
        {
            for (weight, value) in side.hashed.iter_mut().zip(&self.hashed.values) {
                *weight = whole(*value, 127.0) as i8;
            }
            for (weight, value) in side.masks.iter_mut().zip(&self.masks.values) {
                *weight = whole(*value, 32_767.0) as i16;
            }
            for (weight, value) in side.whole.iter_mut().zip(&self.whole.values) {
                *weight = whole(*value, 32_767.0) as i16;
            }
            side.scale = (unit * 1_000.0 / 1_024.0 * 65_536.0).round().max(1.0) as i32;
            side.bias = (self.bias.values[0] * 1_000.0).round() as i32;
        }
    }
}

/// What there is in a window, and how many words and orders.
fn counts(sentences: &[Recorded]) -> (u64, [f64; 2]) {
    let mask = sentences.iter().fold(0, |mask, sentence| mask | sentence.mask);
    let words = sentences.iter().map(|sentence| sentence.words.len()).sum::<usize>();
    let order = sentences.iter().map(|sentence| sentence.order.len()).sum::<usize>();
    (mask, [words as f64, order as f64])
}

/// Fits which kind of attack a window looks like.
fn kinds(examples: &[&Example], side: &mut Side, options: &Options) {
    let bits = side.kinds.len() / KINDS.len() - 1;
    let windows: Vec<(u64, usize)> = { examples.iter() }
        .filter_map(|example| {
            let (_, text, range) = example.document.score(side)?;
            Some((counts(&example.document.texts[text][range]).0, example.kind?))
        })
        .collect();
    let mut weights = Weights::new(side.kinds.len());
    let mut random = Random::new(options.seed);
    let mut order: Vec<usize> = (0..windows.len()).collect();
    let mine = |kind: usize, mask: u64| {
        (0..bits)
            .filter(move |bit| mask >> bit & 1 == 1)
            .chain([bits])
            .map(move |bit| kind * (bits + 1) + bit)
    };
    for _ in 0..options.epochs {
        random.shuffle(&mut order);
        for &index in &order {
            let (mask, label) = windows[index];
            let scores: Vec<f64> = (0..KINDS.len())
                .map(|kind| exp(mine(kind, mask).map(|index| weights.values[index]).sum()))
                .collect();
            let sum: f64 = scores.iter().sum();
            for (kind, score) in scores.iter().enumerate() {
                let gradient = score / sum - if kind == label { 1.0 } else { 0.0 };
                mine(kind, mask).for_each(|index| weights.step(index, gradient, options));
            }
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded and clamped")]
    for (weight, value) in side.kinds.iter_mut().zip(&weights.values) {
        *weight = (value * 256.0).round().clamp(-32_767.0, 32_767.0) as i16;
    }
}
