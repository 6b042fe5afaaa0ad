use super::*;
use crate::config::parse;

#[test]
fn similarity_threshold_reaches_registry_settings() {
    for (file, threshold) in [("", 0.85), ("inspection: { similarity_threshold: 0.7 }", 0.7)] {
        let settings = registry(&parse(file.as_bytes()).unwrap().0);
        assert!((settings.similarity_threshold - threshold).abs() < f64::EPSILON, "{file}: {settings:?}");
    }
}

/// What a guard looks for itself, the detector looks for in the tools of its servers.
#[test]
fn guard_patterns_are_passed_to_detector() {
    let file = "guards: [{ kind: tool_poisoning, servers: [a], config: { custom_patterns: ['execute.*as.*root'] } }, \
                { kind: tool_poisoning, servers: [b], enabled: false, config: { custom_patterns: [x] } }, \
                { kind: rug_pull, servers: [d] }, \
                { kind: tool_poisoning, servers: ['c*', b], config: { custom_patterns: [{ pattern: y, severity: low }, { pattern: z }] } }]";
    let whole = parse(file.as_bytes()).unwrap().0;
    let place = |name: &str| place_of_pattern(&whole, name);
    assert_eq!(place("guards[3].custom_patterns[1]"), Some(PatternPlace::Guard(3, 1)));
    assert_eq!(place("guards[3].custom_patterns[2]"), None);
    let config = detect(&whole);
    assert_eq!(config.custom_patterns, []);
    let said = |entry: &ServerPatterns| {
        let own = entry.patterns.iter();
        let own = own.map(|own| format!("{} {} {:?}", own.name, own.pattern, own.severity));
        format!("{}: {}", entry.servers.join(" "), own.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        config.of_servers.iter().map(said).collect::<Vec<_>>(),
        [
            "a: guards[0].custom_patterns[0] execute.*as.*root High",
            "b: ",
            "c* b: guards[3].custom_patterns[0] y Low, guards[3].custom_patterns[1] z High",
        ]
    );
}

#[test]
fn config_file_yields_network_rules() {
    let file = "\
servers:
  - { id: files, command: x, egress: none }
  - { id: web, command: y, egress: [a.example, { host: 10.0.0.0/8, port: 443, reason: inside }] }
  - { id: free, command: z }
  - { id: remote, type: http, url: 'https://mcp.example/mcp', egress: none }
network: { default: deny, allow: [b.example], deny: [{ host: 169.254.169.254, reason: cloud metadata }] }
enforcement: { network: deny }
";
    let rules = network_rules(&parse(file.as_bytes()).unwrap().0, &HashMap::new());
    assert!(rules.enforced && rules.deny_by_default);
    let texts = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&rules.deny), ["network.deny[0] (169.254.169.254): cloud metadata"]);
    assert_eq!(texts(&rules.allow), ["network.allow[0] (b.example)"]);
    let egress: Vec<_> = rules.servers.iter().map(|server| server.egress.as_deref().map(texts)).collect();
    let web = ["egress of server 'web'[0] (a.example)", "egress of server 'web'[1] (10.0.0.0/8:443): inside"];
    assert_eq!(egress, [Some(vec![]), Some(web.map(str::to_owned).to_vec()), None, None]);
    let addresses: Vec<_> =
        rules.servers.iter().map(|server| server.address.as_ref().map(ToString::to_string)).collect();
    assert_eq!(addresses, [None, None, None, Some("mcp.example:443".to_owned())]);
}
