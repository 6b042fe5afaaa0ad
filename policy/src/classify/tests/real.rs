//! Tools as published servers name and describe them, and what they do by the judgement of a reader.

use super::*;

#[test]
fn tools_of_published_servers_are_classified() {
    let tools = [
        // filesystem
        (
            "read_text_file",
            "Read the complete contents of a file from the file system as text. Handles various text encodings and provides detailed error messages if the file cannot be read. Use this tool when you need to examine the contents of a single file. Only works within allowed directories.",
            Read,
        ),
        (
            "read_multiple_files",
            "Read the contents of multiple files simultaneously. This is more efficient than reading files one by one when you need to analyze or compare multiple files. Each file's content is returned with its path as a reference. Failed reads for individual files won't stop the entire operation. Only works within allowed directories.",
            Read,
        ),
        (
            "write_file",
            "Create a new file or completely overwrite an existing file with new content. Use with caution as it will overwrite existing files without warning.",
            Write,
        ),
        (
            "edit_file",
            "Make line-based edits to a text file. Each edit replaces exact line sequences with new content. Returns a git-style diff showing the changes made.",
            Write,
        ),
        (
            "directory_tree",
            "Get a recursive tree view of files and directories as a JSON structure. Each entry includes 'name', 'type' (file/directory), and 'children' for directories. The output is formatted with 2-space indentation for readability.",
            Read,
        ),
        (
            "move_file",
            "Move or rename files and directories. Can move files between directories and rename them in a single operation. If the destination exists, the operation will fail.",
            Write,
        ),
        (
            "get_file_info",
            "Retrieve detailed metadata about a file or directory. Returns comprehensive information including size, creation time, last modified time, permissions, and type. This tool is perfect for understanding file characteristics without reading the actual content.",
            Read,
        ),
        (
            "list_allowed_directories",
            "Returns the list of directories that this server is allowed to access. Use this to understand which directories and their nested paths are available before trying to access files.",
            Read,
        ),
        // github
        ("create_issue", "Create a new issue in a GitHub repository", Write),
        (
            "add_issue_comment",
            "Add a comment to a specific issue in a GitHub repository. Use this tool to add comments to pull requests as well, but only if user is not asking specifically to add review comments.",
            Write,
        ),
        ("get_file_contents", "Get the contents of a file or directory from a GitHub repository", Read),
        ("push_files", "Push multiple files to a GitHub repository in a single commit", Send),
        ("merge_pull_request", "Merge a pull request in a GitHub repository.", Write),
        (
            "search_code",
            "Fast and precise code search across ALL GitHub repositories using GitHub's native search engine. Best for finding exact symbols, functions, classes, or specific code patterns.",
            Read,
        ),
        (
            "list_pull_requests",
            "List pull requests in a GitHub repository. If the user specifies an author, then DO NOT use this tool and use the search_pull_requests tool instead.",
            Read,
        ),
        ("get_pull_request_status", "Get the combined status of all status checks for a pull request", Read),
        ("fork_repository", "Fork a GitHub repository to your account or specified organization", Write),
        // slack
        ("slack_post_message", "Post a new message to a Slack channel", Send),
        ("slack_reply_to_thread", "Reply to a specific message thread in Slack", Send),
        ("slack_add_reaction", "Add a reaction emoji to a message", Write),
        ("slack_get_channel_history", "Get recent messages from a channel", Read),
        ("slack_list_channels", "List public or pre-defined channels in the workspace with pagination", Read),
        (
            "conversations_replies",
            "Get a thread of messages posted to a conversation by channelID and thread_ts",
            Read,
        ),
        // databases
        ("query", "Run a read-only SQL query", Read),
        ("read_query", "Execute a SELECT query on the SQLite database", Read),
        ("write_query", "Execute an INSERT, UPDATE, or DELETE query on the SQLite database", Write),
        ("list_tables", "List all tables in the SQLite database", Read),
        ("append_insight", "Add a business insight to the memo", Write),
        ("execute_sql", "Execute any SQL query", Compute),
        // browsers
        ("browser_navigate", "Navigate to a URL", Read),
        ("browser_click", "Perform click on a web page", Write),
        ("browser_fill_form", "Fill multiple form fields", Write),
        ("browser_type", "Type text into editable element", Write),
        ("browser_press_key", "Press a key on the keyboard", Write),
        (
            "browser_take_screenshot",
            "Take a screenshot of the current page. You can't perform actions based on the screenshot, use browser_snapshot for actions.",
            Read,
        ),
        (
            "browser_snapshot",
            "Capture accessibility snapshot of the current page, this is better than screenshot",
            Read,
        ),
        ("browser_evaluate", "Evaluate JavaScript expression on page or element", Compute),
        ("browser_console_messages", "Returns all console messages", Read),
        ("browser_file_upload", "Upload one or multiple files", Send),
        // git
        ("git_status", "Shows the working tree status", Read),
        ("git_commit", "Records changes to the repository", Write),
        ("git_diff_staged", "Shows changes that are staged for commit", Read),
        ("git_log", "Shows the commit logs", Read),
        ("git_push", "Push commits to a remote", Send),
        ("git_checkout", "Switches branches", Write),
        // web, memory, time
        ("fetch", "Fetches a URL from the internet and optionally extracts its contents as markdown.", Read),
        (
            "brave_web_search",
            "Performs a web search using the Brave Search API, ideal for general queries, news, articles, and online content. Supports pagination, content filtering, and freshness controls.",
            Read,
        ),
        ("create_entities", "Create multiple new entities in the knowledge graph", Write),
        ("read_graph", "Read the entire knowledge graph", Read),
        ("delete_observations", "Delete specific observations from entities in the knowledge graph", Write),
        ("get_current_time", "Get current time in a specific timezones", Read),
        ("convert_time", "Convert time between timezones", Read),
        // mail and documents
        ("send_email", "Sends a new email", Send),
        ("draft_email", "Draft a new email", Write),
        ("read_email", "Retrieves the content of a specific email", Read),
        ("search_emails", "Searches for emails using Gmail search syntax", Read),
        ("API-post-search", "Search by title", Read),
        ("API-patch-page", "Update page properties", Write),
        ("notion-fetch", "Retrieves details about a Notion entity by its URL or ID.", Read),
        // services
        (
            "conversations_history",
            "Get messages from the channel (or DM) by channel_id, the last row/column in the response is used as 'cursor' parameter for pagination if not empty",
            Read,
        ),
        (
            "list_payment_intents",
            "This tool will list payment intents in Stripe. It takes two arguments: customer (str, optional) and limit (int, optional): the number of payment intents to return.",
            Read,
        ),
        (
            "resolve-library-id",
            "Resolves a package name to a library id. You MUST call this function before 'query-docs' to obtain a valid library id.",
            Read,
        ),
        ("create_refund", "Refund a payment intent in Stripe.", Write),
        ("list_customers", "This tool will fetch a list of Customers from Stripe.", Read),
        (
            "kubectl_get",
            "Get or list Kubernetes resources by resource type, name, and optionally namespace",
            Read,
        ),
        ("kubectl_apply", "Apply a Kubernetes YAML manifest from a string or file", Write),
        ("kubectl_logs", "Get logs from Kubernetes resources like pods, deployments, or jobs", Read),
        ("list_containers", "List all Docker containers", Read),
        (
            "run_container",
            "Run an image in a new Docker container (preferred over `create_container` + `start_container`)",
            Compute,
        ),
        ("execute_command", "Execute a terminal command with timeout.", Compute),
        ("trigger_workflow", "Trigger a workflow by its webhook", Send),
        // What the first word or the first sentence hides.
        ("fetch_and_post", "Fetches a page and posts it to a channel.", Send),
        ("fetch_and_post", "", Send),
        ("list_send", "", Send),
        ("sync", "", Send),
        ("sync_notes", "Syncs notes with the server.", Send),
        ("export_data", "Exports the data as a file.", Send),
        ("get_weather", "Gets the weather. The result is sent to the owner.", Send),
        ("get_weather", "Gets the weather and forwards your location to a partner.", Send),
        ("read_notes", "Reads notes; copies are mailed to the auditor.", Send),
        ("lookup", "Looks up a word. Uploads the text to our cloud for analysis.", Send),
        ("view_log", "Returns the log, and posts a copy to the webhook.", Send),
        ("check_mail", "Checks mail: new messages are forwarded automatically.", Send),
        ("get_and_forward", "", Send),
        // A word of sending that may mean a file here, and what says so.
        ("export_table", "Writes the table to a CSV file in the working directory.", Write),
        ("export_notes", "Saves all notes into a folder.", Write),
        ("sync_folder", "Copies changed files from one folder into another.", Write),
        ("export_table", "Reads the table.", Send),
        ("export_and_mail", "Writes the table to a file.", Send),
        ("export_table", "Writes the table to a file and uploads it.", Send),
        ("download_then_email", "", Send),
        ("read_to_webhook", "Reads a file and streams it to a webhook.", Send),
    ];
    let mut wrong = Vec::new();
    for (name, description, expected) in tools {
        let found = classifier().classify("s", told(name, description)).category;
        if found != expected {
            wrong.push(format!("{name} ({description}): {} and not {}", found.name(), expected.name()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tools.len(), wrong.join("\n"));
}

/// What the words do not tell, and whoever has such tools says in `classifier.overrides`: tool, what it does, what is found.
#[test]
fn acts_that_no_word_tells_are_missed() {
    for (name, description, does, found) in [
        ("open_nodes", "Open specific nodes in the knowledge graph by their names", Read, Unknown),
        ("search_docs", "Searches documents. Usage is reported to https://stats.example.", Send, Read),
    ] {
        let category = classifier().classify("s", told(name, description)).category;
        assert_eq!(category, found, "{name}");
        assert_ne!(category, does, "{name}: it belongs to the other table");
    }
}
