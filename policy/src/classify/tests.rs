mod advice;
mod real;

use super::*;
use ToolCategory::{Compute, Read, Send, Unknown, Write};

fn classifier() -> Classifier {
    Classifier::default()
}

fn told<'a>(name: &'a str, description: &'a str) -> Told<'a> {
    Told { name, description, annotations: "" }
}

/// "send fs.write": category and side effects.
fn said(told: Told<'_>) -> String {
    let told = classifier().classify("s", told);
    let tags = told.side_effects.into_iter().collect::<Vec<_>>().join(" ");
    format!("{} {tags}", told.category.name()).trim_end().to_owned()
}

#[test]
fn category_follows_documented_prefixes() {
    for (prefixes, expected) in [
        ("read_ get_ query_ list_ fetch_ search_ find_ lookup_", Read),
        ("write_ update_ set_ create_ delete_ remove_ put_ insert_", Write),
        ("send_ post_ upload_ http_ email_ notify_ publish_ push_", Send),
        ("run_ exec_ eval_ execute_ invoke_ call_", Compute),
        ("reads_ getter_ sender weather_ do_ mypost_ _", Unknown),
    ] {
        for prefix in prefixes.split(' ') {
            let name = format!("{prefix}thing");
            assert_eq!(classifier().category("s", &name), expected, "{name}");
        }
    }
}

#[test]
fn category_is_derived_from_words_in_any_spelling() {
    for (name, expected) in [
        ("readFile", Read),
        ("ReadFile", Read),
        ("read-file", Read),
        ("files.read", Read),
        ("read.file", Read),
        ("fs/read_file", Read),
        ("mcp__files__read_file", Read),
        ("mcp__send__read_file", Read),
        ("mcp__files__", Unknown),
        ("HTTPGet", Send),
        ("fetch", Read),
        ("send", Send),
        ("SEND", Send),
        ("email", Send),
        ("slack_post_message", Send),
        ("gmail.sendEmail", Send),
        ("notion-create-page", Write),
        ("todo_list", Read),
        ("blog_post_get", Read),
        ("user_email", Unknown),
        ("feature_set", Unknown),
        ("api_call", Unknown),
        ("spreadsheet", Unknown),
        ("postgres", Unknown),
        ("", Unknown),
        ("__", Unknown),
        ("größe_lesen", Unknown),
        ("verylongwordthatisnoneatallreally_send", Send),
        // As a model reads them: look-alike letters, full-width ones, accents, characters that nobody sees.
        ("\u{455}\u{435}nd_mail", Send),
        ("re\u{430}dFile", Read),
        ("\u{ff52}\u{ff45}\u{ff41}\u{ff44}\u{ff3f}\u{ff46}\u{ff49}\u{ff4c}\u{ff45}", Read),
        ("se\u{200b}nd_mail", Send),
        ("s\u{e9}nd_mail", Send),
        ("mcp__mail__\u{2060}send", Send),
        ("files\u{ff0e}read", Read),
    ] {
        assert_eq!(classifier().category("s", name), expected, "{name}");
    }
}

#[test]
fn classifier_overrides_precede_word_rules() {
    let overrides: Vec<ClassifierOverride> = serde_json::from_value(serde_json::json!([
        {"server": "mail*", "tool": "list_*", "category": "send"},
        {"tool": "weather", "category": "read", "risk_level": "critical", "side_effect_tags": ["payments"]},
        {"tool": "list_*", "risk_level": "high"},
    ]))
    .unwrap();
    let classifier = Classifier::new(&overrides, true).unwrap();
    assert_eq!(classifier.category("mailer", "list_x"), Send);
    assert_eq!(classifier.category("files", "list_x"), Read);
    assert_eq!(classifier.classify("files", told("list_x", "")).risk, RiskLevel::High);
    let weather = classifier.classify("s", told("weather", "reads"));
    assert_eq!((weather.category, weather.risk), (Read, RiskLevel::Critical));
    assert_eq!(weather.side_effects, BTreeSet::from(["payments".to_owned()]));
}

#[test]
fn risk_level_is_derived_from_whole_words() {
    for (name, description, expected) in [
        ("delete_file", "", RiskLevel::Critical),
        ("d\u{435}lete_file", "", RiskLevel::Critical),
        ("x", "del\u{ad}etes a file", RiskLevel::Critical),
        ("x", "Drops a table", RiskLevel::Critical),
        ("x", "destroys it", RiskLevel::Critical),
        ("x", "Makes a payment.", RiskLevel::Critical),
        ("write_file", "", RiskLevel::High),
        ("read_file", "updates the cache", RiskLevel::High),
        ("x", "modifies it", RiskLevel::High),
        ("createIssue", "", RiskLevel::High),
        ("x", "uses the network", RiskLevel::Medium),
        ("fetch", "", RiskLevel::Medium),
        ("http_get", "", RiskLevel::Medium),
        ("x", "calls an API", RiskLevel::Medium),
        ("read", "", RiskLevel::Low),
        ("get_time", "", RiskLevel::Low),
        ("x", "Lists files", RiskLevel::Low),
        ("search", "", RiskLevel::Low),
        ("echo", "", RiskLevel::Low),
        // No whole words: they tell nothing.
        ("undeleted", "", RiskLevel::Medium),
        ("backdrop", "wallpaper", RiskLevel::Medium),
        ("spread", "target", RiskLevel::Medium),
        ("x", "", RiskLevel::Medium),
    ] {
        assert_eq!(
            classifier().classify("s", told(name, description)).risk,
            expected,
            "{name}: {description}"
        );
    }
}

#[test]
fn side_effects_are_derived_from_whole_words() {
    for (name, description, expected) in [
        ("write_file", "", "fs.write"),
        ("delete_file", "", "fs.delete"),
        ("x", "over the network", "network.http"),
        ("x", "payment", "payments"),
        ("execute_command", "", "system.exec"),
        ("x", "Running shell commands", "system.exec"),
        ("x", "Deletes, then writes", "fs.delete fs.write"),
        ("read_file", "Reads a file", ""),
        ("overwriter", "", ""),
    ] {
        let told = classifier().classify("s", told(name, description));
        assert_eq!(
            told.side_effects.into_iter().collect::<Vec<_>>().join(" "),
            expected,
            "{name}: {description}"
        );
    }
}

/// All words of a name and all sentences of a description count; nouns, participles and what is denied do not.
#[test]
fn category_and_side_effects_agree() {
    for (name, description, expected) in [
        // The strongest act, not the first word.
        ("list_publish", "", "send network.http"),
        ("get_or_insert", "", "write fs.write"),
        ("search_and_swap", "", "write fs.write"),
        ("list_archive", "", "write fs.write"),
        ("list_archive", "Archives a list.", "write fs.write"),
        ("read_ledger", "Reads a ledger and mails it to the auditor.", "send network.http"),
        ("peek_queue", "Shows the head of a queue, then removes it.", "write fs.delete"),
        ("view_log", "Shows a log. The log is erased afterwards.", "write fs.delete"),
        ("check_parcel", "Does not only look: it updates the parcel.", "write fs.write"),
        ("get_page", "Gets a page, creating it if it is not there.", "write fs.write"),
        ("sync", "", "send network.http"),
        ("export_data", "", "send network.http"),
        ("catalogue_sync", "", "send network.http"),
        ("picture_upload", "", "send network.http"),
        ("crane", "Lifts boxes. Can also delete boxes.", "write fs.delete"),
        ("abacus", "Actions: create, move, clear", "write fs.delete fs.write"),
        ("snake", "Executes code.", "compute system.exec"),
        ("deletes_page", "", "write fs.delete"),
        ("buy_ticket", "", "write payments"),
        (&format!("{}unlink", "get_".repeat(30)), "", "write fs.write"),
        // Nouns and participles.
        ("get_update_status", "", "read"),
        ("list_updates", "Lists updates of a package.", "read"),
        ("list_run", "Lists the steps of a run.", "compute system.exec"),
        ("get_run", "Gets a run by its number.", "read"),
        ("read_sent_letters", "Reads letters that were sent.", "read"),
        ("find_removed_words", "Finds words removed since the last edition.", "read"),
        ("list_payments", "Lists payments of a customer.", "read"),
        ("get_command_history", "Shows the latest commands.", "read"),
        ("show_calls", "Shows calls and posts of a day.", "read"),
        ("describe_order", "Describes an order", "read"),
        ("search_issues", "Search issues by creation date, updated time or label.", "read"),
        ("search_issues", "Search issues by author, and archive them.", "write fs.write"),
        ("find_commit", "Finds commits, including branch, tag and comment", "read"),
        ("add", "Adds two numbers.", "read"),
        ("add", "Add two numbers together and return their sum", "read"),
        ("add", "Adds a number to the ledger.", "write fs.write"),
        ("get_write_permissions", "Shows who may write.", "read"),
        ("list_delete_events", "", "read"),
        ("write_permissions", "", "write fs.write"),
        ("get_or_create_token", "", "write fs.write"),
        ("read_delete_keys", "", "write fs.delete"),
        ("tidy", "Reads what you name and will delete it afterwards.", "write fs.delete"),
        ("tidy", "Lists files whether old or new and will delete each of them.", "write fs.delete"),
        ("tidy", "Lists who may see it and will email all of them.", "send network.http"),
        ("look", "Search by name and email results", "send network.http"),
        ("del_user", "", "write fs.delete"),
        ("cp_file", "", "write fs.write"),
        ("search_tweets", "Search for tweets on Twitter", "read"),
        ("tweet", "Tweets a text.", "send network.http"),
        ("explain_query", "Explains the plan of a query, showing how the server would run it.", "read"),
        ("find", "Run a find query against a collection", "read"),
        ("web_search", "Performs web searches and returns titles", "read"),
        ("get_recent_changes", "Get recently modified files in the vault.", "read"),
        ("validate_config", "Checks a file for mistakes. Nothing is changed", "read"),
        ("preview_changes", "Shows what an update would change, without applying it.", "read"),
        ("preview_changes", "Shows what would change. Then changes it.", "write fs.write"),
        ("read_file", "Reads a file which it will delete.", "write fs.delete"),
        // What is denied, asked, explained, or done by others.
        ("get_state", "Never writes, moves or deletes anything.", "read"),
        ("get_state", "Reads without changing anything.", "read"),
        ("get_state", "Tells whether the page is deleted, moved or archived.", "read"),
        ("get_guide", "Explains how to delete a page.", "read"),
        ("get_rules", "Returns the rule that deletes old rows.", "read"),
        ("get_page", "Gets a page. To change a page, use update_page.", "read"),
        ("get_page", "Gets a page (read-only, write-protected).", "read"),
        // What a list behind a colon or dash names: states, and what others do.
        ("get_parcel_status", "Returns the status of a parcel: packed, sent, moving or cancelled.", "read"),
        ("get_task", "Shows the state of a task \u{2014} waiting, running, failed, done.", "read"),
        ("get_task", "Gets the phase of a task - starting, in progress, stopped", "read"),
        ("list_hooks", "Lists the hooks of a shelf: insert, update, remove.", "read"),
        ("show_grants", "Shows the privileges of a user: read, write and delete", "read"),
        ("get_parcel", "Gets a parcel. Possible values: packed, sent, moving.", "read"),
        ("get_parcel", "Gets a parcel and its state (one of: packed, moving, cancelled).", "read"),
        (
            "post_office",
            "Get more out of letters: sending mail, archiving threads, filters.",
            "send fs.write network.http",
        ),
        (
            "post_office",
            "Gets the state of letters: sending mail, moving mail.",
            "send fs.write network.http",
        ),
        ("shelf", "Works on a shelf: insert, update, remove.", "write fs.delete fs.write"),
        ("shelf", "Provides access to a shelf: insert, update, remove.", "write fs.delete fs.write"),
        ("shelf", "Reads a shelf: then removes it, moves it.", "write fs.delete fs.write"),
        ("shelf", "Reads and rewrites shelves: moved, sent, done.", "write fs.write"),
        ("tidy", "Shows a log: delete the log, write another.", "write fs.delete fs.write"),
        // Relative clauses about somebody else.
        ("get_members", "Lists who may read, write or share a shelf.", "read"),
        ("get_members", "Lists who can edit, move and delete books", "read"),
        ("get_members", "Shows what readers can borrow, move or remove.", "read"),
        ("list_roles", "Lists the roles that may create, update or delete a book.", "read"),
        ("find_rule", "Finds rules which move, copy or delete books.", "read"),
        ("find_rule", "Finds the rule that moves or deletes old books.", "read"),
        ("tidy", "Lists who may read it and will email all of them.", "send network.http"),
        ("tidy", "Lists who may read a book, and deletes it.", "write fs.delete"),
        ("tidy", "Finds the page that fits and deletes it.", "write fs.delete"),
        ("tidy", "Finds books that are old, deletes them.", "write fs.delete"),
        // Who is called.
        ("dial", "Calls a phone number and reads a poem aloud.", "send network.http"),
        ("ring_up", "Dials a number and plays a tune.", "send network.http"),
        ("call_customer", "", "send network.http system.exec"),
        ("call_function", "Calls a function by its name.", "compute system.exec"),
        ("get_number", "Gets a phone number of a customer.", "read"),
        ("weather", "Returns the weather.", "read"),
        ("weather", "", "unknown"),
        ("weather", "Updates on the weather", "write fs.write"),
        ("fetch_page", "", "read network.http"),
        ("read_page", "Reads a page over http.", "read network.http"),
    ] {
        assert_eq!(said(told(name, description)), expected, "{name}: {description}");
    }
}

/// A server's annotations add an act and take none away.
#[test]
fn annotations_only_add_side_effects() {
    for (name, annotations, expected) in [
        ("erase_tape", r#"{"readOnlyHint":true,"destructiveHint":false}"#, "write fs.delete"),
        ("read_tape", r#"{"readOnlyHint":false}"#, "write fs.write"),
        ("read_tape", r#"{"readOnlyHint":true,"destructiveHint":true}"#, "write fs.write"),
        ("read_tape", r#"{"readOnlyHint":true,"openWorldHint":true}"#, "read"),
        ("read_tape", r#"{"destructiveHint":false,"idempotentHint":false}"#, "read"),
        ("read_tape", r#"{"readOnlyHint":"false"}"#, "read"),
        ("read_tape", r#"{"READONLYHINT":false}"#, "write fs.write"),
        ("read_tape", r#"{"destructivehint":true}"#, "write fs.write"),
        ("read_tape", "[1", "read"),
        ("mail_tape", r#"{"readOnlyHint":false}"#, "send fs.write network.http"),
        ("tape", r#"{"readOnlyHint":true}"#, "unknown"),
    ] {
        let told = Told { name, description: "", annotations };
        assert_eq!(said(told), expected, "{name}: {annotations}");
    }
}

/// What an operator gives is whole: a category brings its side effect, reading denies those of the words.
#[test]
fn overrides_keep_category_and_side_effects_in_agreement() {
    for (given, name, expected) in [
        (r#"{"category":"send"}"#, "read_x", "send network.http false"),
        (r#"{"category":"read"}"#, "list_send", "read  false"),
        (r#"{"category":"read"}"#, "fetch_x", "read network.http false"),
        (r#"{"category":"write"}"#, "erase_x", "write fs.delete fs.write false"),
        (r#"{"category":"unknown"}"#, "read_x", "unknown  true"),
        (r#"{"side_effect_tags":[]}"#, "erase_x", "write  false"),
        (r#"{"side_effect_tags":[]}"#, "x", "unknown  false"),
        (r#"{"category":"read"}"#, "x", "read  false"),
        (r#"{"risk_level":"low"}"#, "x", "unknown  true"),
    ] {
        let mut entry: serde_json::Value = serde_json::from_str(given).unwrap();
        entry["tool"] = "*".into();
        let overrides: ClassifierOverride = serde_json::from_value(entry).unwrap();
        let told = Classifier::new(&[overrides], true).unwrap();
        let told = told.classify("s", name);
        let tags = told.side_effects.into_iter().collect::<Vec<_>>().join(" ");
        let said = format!("{} {tags} {}", told.category.name(), told.may_do_anything);
        assert_eq!(said, expected, "{given} {name}");
    }
}

/// Tools that send what their caller says, and others of the same words. Written before the rule, without a look at it.
#[test]
fn requests_with_a_body_and_webhooks_send() {
    for (name, description, expected) in [
        ("http_request", "Performs an HTTP request with the given method, headers and JSON body.", "send"),
        ("fetch", "Makes a POST request to a URL.", "send"),
        ("open_url", "Opens a URL; supports GET, POST and DELETE.", "send"),
        ("curl", "Runs an HTTP request with an optional body.", "send"),
        ("rest_client", "Calls a REST endpoint (GET/PUT) and returns its answer.", "send"),
        ("fetch_any", "Fetches a URL by any HTTP method.", "send"),
        ("trigger_webhook", "Triggers the webhook of a workflow.", "send"),
        ("fireWebhook", "", "send"),
        ("run_flow", "Runs a flow by calling its webhook.", "send"),
        ("call-web-hook", "Invokes a configured webhook with data.", "send"),
        // What comes back has a body, too; webhooks are listed, and set up.
        ("fetch", "Fetches a URL and returns the body as Markdown.", "read"),
        ("fetch_page", "Fetches a page: status, headers and body.", "read"),
        ("get_request", "Shows a recorded HTTP request and the response body.", "read"),
        ("list_webhooks", "Lists the webhooks of a repository.", "read"),
        ("get_webhook", "Shows a webhook and its last deliveries.", "read"),
        ("read_post", "Reads a post of a blog.", "read"),
        ("get_post", "Shows a blog post with its comments.", "read"),
        ("create_webhook", "Creates a webhook for a repository.", "write"),
        ("get_body", "Shows the body of a message.", "read"),
        ("list_patches", "Lists patches of a series.", "read"),
    ] {
        let found = classifier().classify("s", told(name, description)).category;
        assert_eq!(found.name(), expected, "{name}: {description}");
    }
}
