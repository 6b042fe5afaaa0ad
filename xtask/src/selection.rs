//! Which end-to-end tests are run for every commit. All of them take half an hour on two processors: these show once what each
//! part does, and `--full` runs the rest. And which of all run alone.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};

use crate::util::root;

/// A program of tests, and those of its tests that are run for every commit: modules, or tests of them.
type Selected = (&'static str, &'static [&'static str]);

/// All programs, in the order in which they run where there is no cargo-nextest.
const EVERY_COMMIT: &[Selected] = &[
    (
        "offline",
        &[
            "check_config::check_config_prints_the_schema",
            "check_config::check_config_reports_all_errors_at_once",
            "check_config::check_config_reports_the_verdict_on_a_file",
            "commands::failed_command_exits_with_code_two",
            "commands::help_lists_all_expected_entries",
            "commands::match_reports_whether_a_command_is_a_server",
            "dashboard",
            "inspect::client_configs::inspect_output_masks_secrets",
            "inspect::definition_files_yield_expected_findings",
            "inspect::http::http_servers_yield_expected_findings",
            "inspect::started_servers_yield_expected_findings",
            "refusals::commands_without_permission_are_refused",
            "refusals::every_command_has_a_table_row",
            "refusals::every_reporting_command_offers_json",
            "spec",
            "unit",
        ],
    ),
    (
        "agent",
        &[
            "answers::candidate_capture_is_limited_by_its_budget",
            "approvals",
            "call::agent_reports_the_call_and_its_decisions_hold",
            "call::denied_call_is_not_sent",
            "call::every_answer_has_its_exit_status_and_words",
            "call::tool_of_each_transport_and_era_is_called",
            "control::follower_gets_exactly_the_printed_events",
            "corpus",
            "early::open_connections_over_tcp_are_adopted",
            "forms::equal_ids_on_concurrent_servers_are_kept_apart",
            "forms::every_form_is_reported_in_both_directions",
            "guards::denial_of_a_component_stands_for_the_calls_that_follow",
            "guards::denial_of_a_service_stands_for_the_calls_that_follow",
            "guards::replay_asks_guards_or_takes_recorded_answers",
            "hostile::terminal_escapes_do_not_reach_the_terminal",
            "http::typescript_sdk_client_over_http_is_reported",
            "http_rough::late_agent_reports_open_and_new_connections",
            "http_rough::sendfile_is_a_gap_and_later_data_is_read",
            "http_servers::declared_servers_get_their_id_and_policy",
            "http_servers::servers_are_found_on_every_loopback_address",
            "intents",
            "lines::servers_in_lines_over_tcp_are_captured",
            "listing::agent_lists_a_server_on_request",
            "listing::credentials_are_requested_and_never_disclosed",
            "loss::data_written_before_server_start_is_a_gap",
            "loss::one_shot_pipeline_to_unnamed_server_is_reported",
            "loss::unrelated_write_is_reported_or_counted_as_gap",
            "methods::every_observable_write_method_is_reported",
            "methods::every_read_method_is_reported",
            "metrics::alert_rules_are_valid_and_fire_as_expected",
            "metrics::default_metrics_address_is_loopback_only",
            "metrics::gauges_reflect_the_current_state",
            "namespaces::accepted_network_namespace_is_a_reported_blind_spot",
            "output::closed_output_does_not_end_the_agent",
            "over_tls::asynchronous_python_client_over_https_is_reported",
            "over_tls::calls_of_curl_and_wget_over_https_are_reported",
            "over_tls::service_reads_tls_with_its_capabilities",
            "profiles::each_client_is_matched_to_its_own_profile",
            "queries",
            "real_servers::python_sdk_client_over_stdio_is_reported",
            "relay::npm_relay_and_npm_server_are_reported_as_one",
            "reload::reload_changes_rules_and_sinks_but_keeps_blocks",
            "requirements::doctor_probes_every_hook_and_leaves_no_trace",
            "requirements::killed_agent_does_not_block_the_next_start",
            "requirements::missing_capabilities_are_named_to_non_root",
            "requirements::second_agent_is_refused_while_one_runs",
            "requirements::signals_end_the_agent_cleanly_and_soon",
            "rounds::one_client_of_each_era_is_reported",
            "schema::published_schema_matches_the_agents_output",
            "schema::schema_rejects_invalid_events",
            "service::reload_signal_without_config_file_is_answered",
            "sinks::file_sinks_match_the_printed_events",
            "sinks::webhook_is_signed_with_systemd_credential",
            "store::event_queries_match_a_full_scan",
            "store::hash_chain_continues_over_two_runs",
            "store::oldest_events_are_pruned_behind_a_checkpoint",
            "store::tampering_with_the_database_is_detected",
            "top::signal_restores_the_terminal",
        ],
    ),
    (
        "network",
        &[
            "block::block_closes_open_connections",
            "block::server_denied_by_guards_is_denied_by_address",
            "connections::connection_is_attributed_to_its_server",
            "connections::denied_address_is_unreachable_by_every_method",
            "found::undeclared_server_is_denied_at_its_address",
            "life::child_cgroups_are_covered_and_subtree_is_selectable",
            "life::connections_are_allowed_after_the_agent_is_killed",
            "namespaces::server_of_the_host_is_denied_on_the_host_alone",
            "opened::open_connection_to_declared_server_is_reported_once",
            "persist::agent_handover_leaves_no_connection_unjudged",
            "resume::messages_during_handover_are_reported_once",
        ],
    ),
    ("gate", &["block", "calls"]),
];

/// The names that are run of a program.
pub fn of(program: &str) -> &'static [&'static str] {
    EVERY_COMMIT.iter().find(|(known, _)| *known == program).map_or(&[], |(_, names)| names)
}

/// All of them, in the language of nextest.
pub fn filter() -> String {
    let mut filter = String::new();
    for (program, names) in EVERY_COMMIT {
        let or = if filter.is_empty() { "" } else { " or " };
        let names = names.join("|");
        // Writing to a string does not fail.
        let _ = write!(filter, "{or}(binary(={program}) and test(/^({names})(::|$)/))");
    }
    filter
}

/// Which tests run alone, in the language of nextest: the first filter of its settings.
///
/// # Errors
/// The settings cannot be read, or begin with something else.
pub fn alone() -> Result<String> {
    let path = root().join(".config/nextest.toml");
    let settings = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let filter = settings.split("filter = \"\"\"").nth(1).and_then(|rest| rest.split("\"\"\"").next());
    Ok(filter.with_context(|| format!("{} names no tests that run alone", path.display()))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::PROGRAMS;

    /// Whether a program has a module, or a function of a module.
    fn exists(program: &str, name: &str) -> bool {
        let place = root().join("tests/tests").join(program);
        let is_module = |path: &str| place.join(format!("{path}.rs")).is_file();
        let is_function = |(module, function): (&str, &str)| {
            let text = fs::read_to_string(place.join(format!("{module}.rs"))).unwrap_or_default();
            text.contains(&format!("fn {function}("))
        };
        let path = name.replace("::", "/");
        is_module(&path) || path.rsplit_once('/').is_some_and(is_function)
    }

    /// A test that is renamed would else run at a wrong time, or not at all, and nobody would notice.
    #[test]
    fn selected_tests_exist() -> Result<()> {
        for (program, names) in EVERY_COMMIT {
            for name in *names {
                assert!(exists(program, name), "there is no {program}::{name}");
            }
        }
        let alone = alone()?;
        let names: Vec<&str> =
            alone.split("test(=").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(!names.is_empty(), "no test runs alone: {alone}");
        for name in names {
            assert!(PROGRAMS.iter().any(|program| exists(program, name)), "there is no {name}");
        }
        Ok(())
    }

    #[test]
    fn missing_tests_are_noticed() {
        for (name, is_there) in [
            ("forms", true),
            ("forms::every_form_is_reported_in_both_directions", true),
            ("forms::every_form", false),
            ("form", false),
            ("no_module::no_test", false),
        ] {
            assert_eq!(exists("agent", name), is_there, "{name}");
        }
    }

    #[test]
    fn every_program_has_selected_tests() {
        for program in PROGRAMS {
            assert!(!of(program).is_empty(), "{program}");
        }
    }
}
