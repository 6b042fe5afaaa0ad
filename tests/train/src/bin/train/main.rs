//! `cargo xtask train`: makes the weights of the learned scorer, and measures them on what they were not made with.
//!
//! Every author is scored by a model that has seen nothing of this author, nor of any other in the same language but English;
//! every package by one that has seen nothing of this package. The thresholds come from these scores.

mod data;
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Parser;
use data::{Data, Use};
use mcpwarden_detect::learned::{Model, Side, Subject};
use mcpwarden_detect::{DetectConfig, Detector, RuleSet, ScorerModel};
use mcpwarden_train::{Options, fit};

/// Makes the weights of the learned scorer, and measures them on what they were not made with.
#[derive(Parser)]
#[command(name = "cargo xtask train")]
struct Args {
    /// Texts of authors [default: policy/detect/corpus/authors]
    #[arg(long, value_name = "DIR")]
    authors: Option<PathBuf>,
    /// Lists of published servers, as `cargo xtask corpus servers` stores them [default: target/servers-cache]
    #[arg(long, value_name = "DIR")]
    servers: Option<PathBuf>,
    /// Only measure, with the authors that are held out and the servers that nobody reads; prints totals
    #[arg(long)]
    held_out: bool,
    /// List honest texts that are high, and attacks that score least
    #[arg(long)]
    misses: bool,
    /// Measure several ways to fit
    #[arg(long)]
    grid: bool,
    /// Write the model and its manifest
    #[arg(long)]
    write: bool,
    /// Fail unless the model that comes with the program is the one that training makes
    #[arg(long)]
    check: bool,
    /// Passes over the data
    #[arg(long, default_value_t = Options::default().epochs)]
    epochs: usize,
    /// The rate of learning
    #[arg(long, default_value_t = Options::default().rate)]
    rate: f64,
    /// The decay of weights
    #[arg(long, default_value_t = Options::default().decay)]
    decay: f64,
    /// What attacks, hard honest texts and other honest texts weigh
    #[arg(long, value_delimiter = ',', default_values_t = Options::default().shares)]
    shares: Vec<f64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model_directory = root.join("policy/detect/model");
    let authors = args.authors.clone().unwrap_or_else(|| root.join("policy/detect/corpus/authors"));
    let rules = RuleSet::built_in().map_err(|errors| anyhow!("the built-in rules: {errors:?}"))?;
    let config = DetectConfig { scorer: ScorerModel::Off, ..DetectConfig::default() };
    let detector = Detector::new(rules, &config).map_err(|errors| anyhow!("the rules: {errors:?}"))?;
    let mut data = Data::default();
    data.authors(&detector, &authors, args.held_out)?;
    let servers = args.servers.clone().unwrap_or_else(|| root.join("target/servers-cache"));
    if servers.is_dir() {
        data.servers(&detector, &servers, args.held_out)?;
    }
    if args.held_out {
        let model = Model::parse(&fs::read(model_directory.join("scorer.bin"))?)?;
        measure::held_out(&data, &model);
        return Ok(());
    }
    data.crates(&detector, &fs::read_to_string(root.join("Cargo.lock"))?)?;
    if args.check {
        let manifest = fs::read_to_string(model_directory.join("manifest.tsv"))?;
        if let Some(file) = data.differs_from(&manifest) {
            println!("skipped: {file} is missing here, or another one than the model was made with");
            return Ok(());
        }
    }
    for (name, count) in data.counts() {
        println!("{count:>7}  {name}");
    }
    let shares =
        <[f64; 3]>::try_from(args.shares.as_slice()).map_err(|_| anyhow!("expected three shares"))?;
    let options =
        Options { epochs: args.epochs, rate: args.rate, decay: args.decay, shares, ..Options::default() };
    if args.grid {
        for (epochs, rate, decay, shares) in [
            (12, 0.15, 2e-4, [1.0, 1.0, 1.0]),
            (12, 0.15, 2e-5, [1.0, 1.0, 1.0]),
            (12, 0.05, 2e-4, [1.0, 1.0, 1.0]),
            (8, 0.15, 2e-4, [1.0, 1.5, 0.7]),
        ] {
            let options = Options { epochs, rate, decay, shares, ..options.clone() };
            println!("{epochs} {rate} {decay} {shares:?}");
            for subject in [Subject::Definition, Subject::Result] {
                measure::brief(&measure::out_of_fold(&data, subject, &options));
            }
        }
        return Ok(());
    }
    let [definitions, results] =
        [Subject::Definition, Subject::Result].map(|subject| side(&data, subject, &options, &args));
    if args.write || args.check {
        let model = Model::new(definitions, results);
        let (bytes, path) = (model.to_bytes(), model_directory.join("scorer.bin"));
        if args.check {
            let shipped = fs::read(&path)?;
            anyhow::ensure!(
                shipped == bytes,
                "training makes {}, and {} is another one",
                model.id(),
                path.display()
            );
        } else {
            fs::create_dir_all(&model_directory)?;
            fs::write(path, bytes)?;
            fs::write(model_directory.join("manifest.tsv"), manifest(&data, &model))?;
            println!("model {}", model.id());
        }
    }
    Ok(())
}

/// Measures on folds, and fits all of it.
fn side(data: &Data, subject: Subject, options: &Options, args: &Args) -> Side {
    let folds = measure::out_of_fold(data, subject, options);
    let (review, high) = measure::print(&folds, subject);
    if args.misses {
        measure::misses(&folds, i64::from(high));
    }
    if !args.write && !args.check {
        return Side::empty();
    }
    let of = |sample: &&data::Sample| sample.subject == subject && sample.of == Use::Training;
    let examples: Vec<_> = data.samples.iter().filter(of).map(|sample| &sample.example).collect();
    let mut side = fit(&examples, options);
    (side.review, side.high) = (review, high);
    side
}

/// What the model was made of: a line for each file.
fn manifest(data: &Data, model: &Model) -> String {
    let mut out = format!("# model {}: file, licence, entries, SHA-256\n", model.id());
    for source in &data.sources {
        let _ = writeln!(out, "{}\t{}\t{}\t{}", source.file, source.licence, source.entries, source.digest);
    }
    out
}
