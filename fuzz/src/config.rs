//! Any bytes as a configuration file: problems have places in it, and what is accepted can be used.

use std::sync::{Arc, LazyLock};

use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::guards::SessionRule;
use mcpwarden_policy::lint::parse;
use mcpwarden_policy::settings;

static DETECTOR: LazyLock<Arc<Detector>> = LazyLock::new(|| {
    Arc::new(Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap())
});

/// Runs one input.
pub fn run(file: &[u8]) {
    let lines = file.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 2;
    match parse(file) {
        Ok((config, _)) => {
            // What a file says must be all that is wrong with it.
            settings::patterns(&config).unwrap();
            let session = |entry| SessionRule::new(entry, true, None, false).unwrap();
            Judge::new(&config, config.sessions.iter().map(session).collect(), &DETECTOR).unwrap();
            settings::declared(&config);
            settings::registry(&config);
            let effective = serde_json::to_vec(&config).unwrap();
            let (again, _) = parse(&effective).expect("the effective configuration is one");
            assert_eq!(config, again);
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.at.line <= lines, "{problem} in line {}", problem.at.line);
                let _ = problem.to_string();
            }
        }
    }
}
