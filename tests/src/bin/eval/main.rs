//! `cargo xtask eval`: what the detector finds in a corpus of attacks, and what it reports of honest tools.
//!
//! The corpus is not part of this repository; CONTRIBUTING.md says what its files look like. Each source stands apart. Figures
//! of sources that rules were fitted to are in-sample. Those of the public sources are split in two by a hash: one half may be
//! read (`--misses`), and of the other half, the figures are all that anyone sees. The model of the learned scorer was made with
//! none of these sources; each share is that of the rules alone, and that of the rules with the scorer.

mod corpus;
mod detectors;
mod files;
mod report;
mod servers;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Parser;
use corpus::Sample;
use detectors::{Detectors, TrainedOn};
use mcpwarden_policy::detect::RuleSet;

/// Measures what the detector finds in a corpus of attacks, and what it reports of honest tools.
#[derive(Parser)]
#[command(name = "cargo xtask eval")]
struct Args {
    /// The corpus [default: $MCPWARDEN_CORPUS/.., or beside the checkout]
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Use the rule files (*.yaml) of this directory in place of the built-in ones
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// List misses and false positives, but none of the unseen half
    #[arg(long)]
    misses: bool,
    /// Print each class, author and language apart as well
    #[arg(long)]
    strata: bool,
    /// Measure the definitions in this file instead, one a line: `id`, `label` (attack or benign), `class`, `lang`, `tool`;
    /// if known, `author` and `server`
    #[arg(long, value_name = "FILE", conflicts_with = "corpus")]
    definitions: Option<PathBuf>,
    /// Measure what published servers list and answer instead, as `cargo xtask corpus servers` stores it in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["corpus", "definitions"])]
    servers: Option<PathBuf>,
    /// List the rules that report most honest entries, but of none of the unseen half
    #[arg(long)]
    causes: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let detectors = detectors(args.rules.as_deref())?;
    let samples = samples(&args, &detectors)?;
    if args.misses {
        report::misses(&samples);
    }
    if args.causes {
        report::causes(&samples);
    }
    println!("the scorer: model {}, {}", detectors.model(), made_with(&args));
    report::print(&samples, args.strata || args.definitions.is_some());
    Ok(())
}

/// What the scorer's model was made with, of what is measured.
fn made_with(args: &Args) -> &'static str {
    match (&args.definitions, &args.servers) {
        (None, None) => "made with none of these sources",
        (Some(_), _) => "which may have been made with this file: policy/detect/model/manifest.tsv says so",
        (None, Some(_)) => "made with some of the half that may be read: its figures there are in-sample",
    }
}

fn samples(args: &Args, detector: &Detectors) -> Result<Vec<Sample>> {
    if let Some(path) = &args.definitions {
        return corpus::of_file(detector, path);
    }
    if let Some(directory) = &args.servers {
        return servers::of_directory(detector, directory);
    }
    let directory = match (&args.corpus, env::var_os("MCPWARDEN_CORPUS")) {
        (Some(path), _) => path.clone(),
        (None, Some(transcripts)) => Path::new(&transcripts).join(".."),
        (None, None) => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
    };
    let detect = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/detect");
    let trained = TrainedOn::read(&detect.join("corpus/authors"), &detect.join("model/manifest.tsv"))?;
    corpus::of_directory(detector, &directory, &trained)
}

fn detectors(rules: Option<&Path>) -> Result<Detectors> {
    let said =
        |errors: Vec<_>| anyhow!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let rules = match rules {
        Some(directory) => {
            let texts = files::files(directory, "yaml")?
                .iter()
                .map(|path| Ok((path.display().to_string(), files::read(path)?)))
                .collect::<Result<Vec<_>>>()?;
            RuleSet::parse_all(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        }
        None => RuleSet::built_in(),
    };
    Detectors::new(&rules.map_err(said)?).map_err(said)
}
