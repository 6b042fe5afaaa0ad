//! Figures of scores that a model gave to what it was not made with.

use std::collections::{BTreeMap, BTreeSet};

use mcpwarden_detect::learned::{Model, Subject};
use mcpwarden_tests::figures::Share;
use mcpwarden_train::{Class, Options, fit};
use sha2::{Digest as _, Sha256};

use crate::data::{Data, Sample, Use, is_high};

const FOLDS: usize = 7;
/// Shares of honest texts at which recall is measured.
const RATES: [f64; 3] = [0.005, 0.01, 0.03];
/// What of the honest texts of the world may be high by rules and scorer together, and of hard honest texts by the scorer.
const HIGH: [f64; 2] = [0.005, 0.03];
/// What of the honest tools of the world may be for review.
const REVIEW: f64 = 0.025;

/// A sample with its score.
pub struct Scored<'d> {
    pub sample: &'d Sample,
    pub score: i64,
}

/// Scores each sample by a model that was made without its group, and without other groups of its language.
pub fn out_of_fold<'d>(data: &'d Data, subject: Subject, options: &Options) -> Vec<Scored<'d>> {
    let samples: Vec<&Sample> = data.samples.iter().filter(|sample| sample.subject == subject).collect();
    let authors: BTreeSet<&str> = { samples.iter() }
        .filter(|sample| sample.example.class != Class::Honest)
        .map(|sample| sample.group.as_str())
        .collect();
    let fold = |sample: &Sample| match authors.iter().position(|author| *author == sample.group) {
        Some(number) => number % FOLDS,
        None => usize::from(Sha256::digest(&sample.group)[1]) % FOLDS,
    };
    let mut scored = Vec::new();
    for number in 0..FOLDS {
        let (tested, rest): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|sample| fold(sample) == number);
        let languages: BTreeSet<&str> = tested
            .iter()
            .map(|sample| sample.language.as_str())
            .filter(|language| *language != "en")
            .collect();
        let learned =
            |sample: &&&Sample| sample.of == Use::Training && !languages.contains(sample.language.as_str());
        let examples: Vec<_> = rest.iter().filter(learned).map(|sample| &sample.example).collect();
        let side = fit(&examples, options);
        scored.extend(tested.into_iter().map(|sample| {
            let score = sample.example.document.score(&side).map_or(i64::MIN, |(score, ..)| score);
            Scored { sample, score }
        }));
    }
    scored
}

/// The least score that at most this share of the honest ones reaches.
fn threshold(scores: &[i64], share: f64) -> i64 {
    let mut scores = scores.to_vec();
    scores.sort_unstable_by(|one, other| other.cmp(one));
    let allowed = (0..=scores.len()).rev().find(|&count| count as f64 <= share * scores.len() as f64);
    scores.get(allowed.unwrap_or(0)).map_or(0, |score| score + 1)
}

/// So many percent of so many, with the 95 % interval of Wilson.
fn share(of: usize, all: usize) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    let share = Share { of, all };
    let (low, high) = share.interval();
    format!("{:.1} [{low:.1} to {high:.1}]", share.percent())
}

fn reached<'s>(
    scored: impl Iterator<Item = &'s Scored<'s>>,
    reaches: impl Fn(&Scored<'_>) -> bool,
) -> String {
    let all: Vec<bool> = scored.map(reaches).collect();
    share(all.iter().filter(|reached| **reached).count(), all.len())
}

type Judge<'j> = (&'j str, Box<dyn Fn(&Scored<'_>) -> i64 + 'j>);

/// Prints the figures. The scores for `review` and for `high` come back.
pub fn print(scored: &[Scored<'_>], subject: Subject) -> (i32, i32) {
    println!("\n== {subject:?}: each author and package by a model made without it");
    let of = |class: Class| scored.iter().filter(move |scored| scored.sample.example.class == class);
    let honest: Vec<i64> = of(Class::Honest).map(|scored| scored.score).collect();
    let hard: Vec<i64> = of(Class::Hard).map(|scored| scored.score).collect();
    // What rules take of the share is not the scorer's to take.
    let by_rules = of(Class::Honest).filter(|scored| is_high(scored.sample.rules)).count();
    let others: Vec<i64> =
        of(Class::Honest).filter(|scored| !is_high(scored.sample.rules)).map(|scored| scored.score).collect();
    let left = (HIGH[0] * honest.len() as f64 - by_rules as f64).max(0.0) / others.len().max(1) as f64;
    let high = threshold(&others, left).max(threshold(&hard, HIGH[1]));
    let review = threshold(&honest, REVIEW).min(high - 1);
    let judges: [Judge<'_>; 3] = [
        ("rules alone", Box::new(|scored| i64::from(scored.sample.rules))),
        ("model alone", Box::new(|scored| scored.score)),
        // On one scale: a rule's high is the model's high.
        (
            "both",
            Box::new(move |scored| {
                scored.score.max(if is_high(scored.sample.rules) {
                    high + i64::from(scored.sample.rules)
                } else {
                    i64::MIN
                })
            }),
        ),
    ];
    println!(
        "{:<14}{:<28}{:<26}{:<26}{:<26}",
        "", "at honest %, of the world | hard", "attacks, all", "English", "other languages"
    );
    for (name, judge) in &judges {
        for rate in RATES {
            let cell = |honest: Class| -> [String; 3] {
                let scores: Vec<i64> = of(honest).map(judge).collect();
                let least = threshold(&scores, rate);
                let attacks = |wanted: &dyn Fn(&str) -> bool| {
                    let of_language = of(Class::Attack).filter(|scored| wanted(&scored.sample.language));
                    reached(of_language, |scored| judge(scored) >= least)
                };
                [
                    attacks(&|_| true),
                    attacks(&|language| language == "en"),
                    attacks(&|language| language != "en"),
                ]
            };
            for class in [Class::Honest, Class::Hard] {
                let [all, english, other] = cell(class);
                println!(
                    "{name:<14}{:<28}{all:<26}{english:<26}{other:<26}",
                    format!("{:.1} of {class:?}", 100.0 * rate)
                );
            }
        }
    }
    let rules_high = |scored: &Scored<'_>| is_high(scored.sample.rules) || scored.sample.is_across;
    tiers(scored, "rules high", &rules_high);
    tiers(scored, "model high", &|scored| scored.score >= high);
    tiers(scored, "both high", &|scored| scored.score >= high || rules_high(scored));
    tiers(scored, "model review", &|scored| scored.score >= review);
    let mut authors: BTreeMap<&str, Vec<&Scored<'_>>> = BTreeMap::new();
    for scored in of(Class::Attack) {
        authors.entry(&scored.sample.group).or_default().push(scored);
    }
    for (author, scored) in authors {
        let recall = |least: i64| reached(scored.iter().copied(), |scored| scored.score >= least);
        let language = scored.first().map_or("", |scored| &scored.sample.language);
        println!("  {author} {language:<3} high {:<24} review {}", recall(high), recall(review));
    }
    let whole = |score: i64| i32::try_from(score).unwrap_or(i32::MAX - 1);
    println!("thresholds: review {review}, high {high}");
    (whole(review), whole(high))
}

fn tiers(scored: &[Scored<'_>], name: &str, is_reached: &dyn Fn(&Scored<'_>) -> bool) {
    let of = |class: Class, of: Option<Use>, english: Option<bool>| {
        let wanted = scored.iter().filter(|scored| {
            let sample = scored.sample;
            sample.example.class == class
                && of.is_none_or(|of| sample.of == of)
                && english.is_none_or(|english| (sample.language == "en") == english)
        });
        reached(wanted, |scored| is_reached(scored))
    };
    println!(
        "{name:<14} attacks {:<24} English {:<24} other {:<24} hard {:<24} honest seen {:<22} unseen {}",
        of(Class::Attack, None, None),
        of(Class::Attack, None, Some(true)),
        of(Class::Attack, None, Some(false)),
        of(Class::Hard, None, None),
        of(Class::Honest, Some(Use::Training), None),
        of(Class::Honest, Some(Use::Measuring), None),
    );
}

/// Prints the honest texts with the highest scores, and the attacks with the lowest: of what may be read.
pub fn misses(scored: &[Scored<'_>], high: i64) {
    let mut scored: Vec<&Scored<'_>> = scored.iter().collect();
    scored.sort_by_key(|scored| std::cmp::Reverse(scored.score));
    let line = |scored: &Scored<'_>| {
        println!(
            "  {:>7} {:?} {} {}",
            scored.score, scored.sample.example.class, scored.sample.group, scored.sample.id
        );
    };
    let honest = scored.iter().filter(|scored| scored.sample.example.class != Class::Attack);
    println!("honest, from {high} on high:");
    honest.take(25).for_each(|scored| line(scored));
    let attacks = scored.iter().rev().filter(|scored| scored.sample.example.class == Class::Attack);
    println!("attacks, the lowest:");
    attacks.take(10).for_each(|scored| line(scored));
}

/// Prints a line for a way to fit: how often an attack scores above a hard honest text and above one of the world, and
/// recall.
pub fn brief(scored: &[Scored<'_>]) {
    let of = |class: Class| -> Vec<i64> {
        let mut scores: Vec<i64> = scored
            .iter()
            .filter(|scored| scored.sample.example.class == class)
            .map(|scored| scored.score)
            .collect();
        scores.sort_unstable();
        scores
    };
    let [attacks, hard, honest] = [Class::Attack, Class::Hard, Class::Honest].map(of);
    let above = |honest: &[i64]| {
        let wins: usize = attacks.iter().map(|score| honest.partition_point(|other| other < score)).sum();
        wins as f64 / (attacks.len() * honest.len()).max(1) as f64
    };
    let recall = |honest: &[i64], rate: f64| {
        let least = threshold(honest, rate);
        100.0 * attacks.iter().filter(|score| **score >= least).count() as f64 / attacks.len().max(1) as f64
    };
    println!(
        "   above hard {:.4}, above honest {:.4}; recall at 1, 3, 10 % of hard {:.1} {:.1} {:.1}, at 0.5, 1, 3 % of honest {:.1} {:.1} {:.1}",
        above(&hard),
        above(&honest),
        recall(&hard, 0.01),
        recall(&hard, 0.03),
        recall(&hard, 0.1),
        recall(&honest, 0.005),
        recall(&honest, 0.01),
        recall(&honest, 0.03)
    );
}

/// Prints totals of what is held out.
pub fn held_out(data: &Data, model: &Model) {
    for subject in [Subject::Definition, Subject::Result] {
        let side = model.side(subject);
        let scored: Vec<Scored<'_>> = { data.samples.iter() }
            .filter(|sample| sample.subject == subject && sample.of == Use::Measuring)
            .map(|sample| Scored {
                sample,
                score: sample.example.document.score(side).map_or(i64::MIN, |(score, ..)| score),
            })
            .collect();
        println!("\n== {subject:?}: held out, {} texts, model {}", scored.len(), model.id());
        let rules = |scored: &Scored<'_>| is_high(scored.sample.rules) || scored.sample.is_across;
        let (review, high) = (i64::from(side.review), i64::from(side.high));
        tiers(&scored, "rules high", &rules);
        tiers(&scored, "model high", &|scored| scored.score >= high);
        tiers(&scored, "both high", &|scored| scored.score >= high || rules(scored));
        tiers(&scored, "model review", &|scored| scored.score >= review);
    }
}
