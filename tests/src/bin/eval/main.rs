//! `cargo xtask eval`: what the detector finds in a corpus of attacks, and what it reports of honest tools.
//!
//! The corpus is not part of this repository; CONTRIBUTING.md says what its files look like. Each source stands apart. Figures
//! of sources that rules were fitted to are in-sample. Those of the public sources are split in two by a hash: one half may be
//! read (`--misses`), and of the other half, the figures are all that anyone sees.

mod corpus;
mod report;
mod servers;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Parser;
use corpus::Sample;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};

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
    let detector = detector(args.rules.as_deref())?;
    let samples = samples(&args, &detector)?;
    if args.misses {
        report::misses(&samples);
    }
    if args.causes {
        report::causes(&samples);
    }
    report::print(&samples, args.strata || args.definitions.is_some());
    Ok(())
}

fn samples(args: &Args, detector: &Detector) -> Result<Vec<Sample>> {
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
    corpus::of_directory(detector, &directory)
}

fn detector(rules: Option<&Path>) -> Result<Detector> {
    let said =
        |errors: Vec<_>| anyhow!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let rules = match rules {
        Some(directory) => {
            let texts = corpus::files(directory, "yaml")?
                .iter()
                .map(|path| Ok((path.display().to_string(), corpus::read(path)?)))
                .collect::<Result<Vec<_>>>()?;
            RuleSet::parse_all(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        }
        None => RuleSet::built_in(),
    };
    Detector::new(rules.map_err(said)?, &DetectConfig::default()).map_err(said)
}
