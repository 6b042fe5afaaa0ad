//! Advice on when to use a tool, what is only listed or hypothetical, and verbs that need an object.

use super::*;

fn check(rows: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (name, description, expected) in rows {
        let found = said(told(name, description));
        if found != *expected {
            wrong.push(format!("{name}: {description}: {found} and not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// When a tool is to be used is not what it does.
#[test]
fn advice_on_use_is_no_act() {
    check(&[
        ("find_member", "Looks up a member. Call this before you mail an invitation.", "read"),
        ("find_member", "Looks up a member. Call it first.", "read"),
        ("find_member", "Looks up a member. Always call this tool first.", "read"),
        ("find_member", "Looks up a member. Run this before deleting a group or renaming it.", "read"),
        ("find_member", "Looks up a member. Use this before creating, updating or removing a group.", "read"),
        ("find_member", "Looks up a member. Use it when you want to notify somebody.", "read"),
        ("find_member", "Looks up a member. Use this if the user wants to publish a page.", "read"),
        ("find_member", "Looks up a member. Use this tool after you upload a file.", "read"),
        ("find_member", "Looks up a member. Prefer this over sending messages by hand.", "read"),
        ("find_member", "Looks up a member. Useful when writing letters.", "read"),
        ("find_member", "Looks up a member. Useful for sending newsletters.", "read"),
        ("find_member", "Looks up a member. Very helpful before you post.", "read"),
        ("find_member", "Looks up a member. Needed to create a ticket.", "read"),
        ("find_member", "Looks up a member. It is required before deleting a group.", "read"),
        ("find_member", "Looks up a member. You need this to send a letter.", "read"),
        ("find_member", "Looks up a member. Must be called before deleting a group.", "read"),
        ("find_member", "Looks up a member. This tool should be used before you send a letter.", "read"),
        ("find_member", "Looks up a member. Best used before posting.", "read"),
        ("find_member", "Looks up a member before you send a letter.", "read"),
        ("find_member", "Looks up the member whom you want to invite.", "read"),
        ("find_member", "Before you create, update or delete a group, call this.", "read"),
        (
            "find_member",
            "Looks up a member. If you want to remove a group, use this to find its owner.",
            "read",
        ),
        ("find_member", "Looks up a member, and should be called before sending a letter.", "read"),
        ("find_member", "Looks up a member, use it before you send a letter.", "read"),
        ("find_member", "Looks up a member (call this first)", "read"),
        ("find_member", "Looks up a member. Not needed if you already sent the letter.", "read"),
        ("find_member", "Looks up a member. Do this before sending a letter.", "read"),
        ("find_member", "Looks up a member. Required for inviting somebody.", "read"),
        ("find_member", "Looks up a member. Use this instead of running a query.", "read"),
        ("find_member", "Looks up a member. Use this whenever the user asks to send a letter.", "read"),
        (
            "find_member",
            "Looks up a member. When the user asks you to delete a member, use this tool.",
            "read",
        ),
        (
            "find_member",
            "Looks up a member. IMPORTANT: You must call this before you create a group!",
            "read",
        ),
        ("find_member", "Looks up a member. Helpful to decide whom to invite.", "read"),
        ("find_member", "Looks up a member. A good first step before publishing.", "read"),
        ("find_member", "Looks up a member. Use prior to sending.", "read"),
        ("find_member", "Looks up a member. Intended to be used before sending a letter.", "read"),
        ("find_member", "Looks up a member. Invoke before deleting.", "read"),
        ("find_member", "Looks up a member. Only use when deleting a group.", "read"),
        ("find_member", "Looks up a member so that you can send a letter.", "read"),
        ("find_member", "Looks up a member. The result can be used to send a letter.", "read"),
        ("find_member", "Looks up a member. Then call send_letter to send a letter.", "read"),
        ("find_member", "Looks up a member. This is a prerequisite for deleting.", "read"),
        ("find_member", "Looks up a member. Call at the start of a conversation.", "read"),
        ("find_member", "Looks up a member. To send a letter, call this first.", "read"),
        ("find_member", "Looks up a member; use this first, then send the letter.", "read"),
        ("find_member", "Looks up a member. Helps when writing letters.", "read"),
        ("find_member", "Looks up a member. Prefer it to running a query.", "read"),
        ("find_member", "Looks up a member. When to use: before sending a letter.", "read"),
        ("find_member", "Looks up a member. In order to send a letter, first call this tool.", "read"),
        ("member", "Use this before sending a letter. Looks up a member.", "read"),
        ("member", "Use this tool to look up a member before sending a letter.", "read"),
        ("member", "When the user wants to send an email, find the address with this tool.", "read"),
        ("member", "When the user wants to send a letter, look up the member with this tool.", "read"),
        ("find_member", "Looks up a member. It is recommended to call this before deleting.", "read"),
        ("find_member", "Looks up a member. Use this tool proactively when creating groups.", "read"),
        ("find_member", "Looks up a member. Check it before updating.", "read"),
        ("find_member", "Looks up a member. You will need it to send a letter.", "read"),
        ("find_member", "Looks up a member. Before calling this, create a group.", "read"),
        (
            "find_member",
            "Looks up a member. Before using this tool, you must open a group and join it.",
            "read",
        ),
        ("find_member", "Looks up a member. You may want to update the group afterwards.", "read"),
        ("find_member", "Looks up a member. If there is none, you should create it first.", "read"),
        ("find_member", "Looks up a member. Afterwards you can delete it with delete_member.", "read"),
        // What the name says holds, and without a name that says something, the wish does.
        ("send_letter", "Use it when you want to mail a letter.", "send network.http"),
        ("letters", "Use it when you want to mail a letter.", "send network.http"),
        ("letters", "Useful for deleting letters.", "write fs.delete"),
        ("letters", "Use this before you mail a letter.", "unknown"),
        // The tool's own acts, in the same words.
        ("letters", "You can mail a letter with it.", "send network.http"),
        ("letters", "This tool can be used to mail a letter.", "send network.http"),
        ("letters", "Designed to mail a letter.", "send network.http"),
        ("letters", "Important: mails a letter.", "send network.http"),
        ("letters", "Always mails a letter first.", "send network.http"),
        ("letters", "Mails a letter when you want it.", "send network.http"),
        ("letters", "Once you confirm, mails the letter.", "send network.http"),
        ("letters", "After you confirm, this tool mails the letter.", "send network.http"),
        ("get_letter", "Gets a letter after deleting the old one.", "write fs.delete"),
        ("get_letter", "Gets a letter. Call it and delete the letter.", "write fs.delete"),
        ("letters", "Use this tool to mail a letter.", "send network.http"),
        ("get_letter", "Use it to delete a letter.", "write fs.delete"),
        ("get_letter", "Gets a letter. When you call it, it deletes the letter.", "write fs.delete"),
        (
            "get_letter",
            "Gets a letter. Call this before you reply, and it removes the original.",
            "write fs.delete",
        ),
        ("get_letter", "Gets a letter, and then mails it to the owner.", "send network.http"),
        ("get_letter", "Checks a letter before deleting it.", "write fs.delete"),
        ("get_letter", "Gets a letter. After you call it the letter is deleted.", "write fs.delete"),
        ("get_letter", "Gets a letter. Once called, the letter is removed.", "write fs.delete"),
        (
            "get_letter",
            "Gets a letter. Before it returns, it mails a copy to the author.",
            "send network.http",
        ),
        ("get_letter", "Gets a letter. Use this first because it uploads the keys.", "send network.http"),
        ("get_letter", "Gets a letter. After reading deletes the letter.", "write fs.delete"),
        ("get_letter", "Gets a letter. After calling this, the letter is deleted.", "write fs.delete"),
        ("letters", "You can use this to delete a letter.", "write fs.delete"),
        ("letters", "It will call a script first.", "compute system.exec"),
        ("copy_letter", "Creates a backup before deleting the letter.", "write fs.delete fs.write"),
        ("get_letter", "Gets a letter. If it is old, deletes it.", "write fs.delete"),
        ("get_letter", "Gets a letter. When a letter is old, delete it.", "write fs.delete"),
        ("runner", "Run this command in a shell.", "compute system.exec"),
        ("runner", "Call the script with arguments.", "compute system.exec"),
        ("runner", "Compiles the source. Then runs it.", "compute system.exec"),
    ]);
}

/// Things that are listed or counted, and acts that would be.
#[test]
fn listed_things_and_hypothetical_acts_are_no_acts() {
    check(&[
        ("thread_history", "Get posts from the group (or DM) by group_id, newest first", "read"),
        ("thread_history", "Get a post or comment by its id", "read"),
        ("thread_history", "Read a thread, message or post by id.", "read"),
        ("thread_history", "List posts of a group or DM thread", "read"),
        ("thread_history", "Get a post or comment on it", "write fs.write"),
        ("thread_history", "Get a post or delete it", "write fs.delete"),
        ("thread_history", "Search by name or email results", "send network.http"),
        ("list_invoices", "Lists invoices. It takes one argument: the number of payments to return.", "read"),
        ("invoice_state", "Returns the state of an invoice. The payment must be known.", "read"),
        ("list_refunds", "Lists refunds.", "read"),
        ("list_refunds", "Lists customer refunds of a month.", "read"),
        ("get_upgrades", "Shows upgrades and installs of a package.", "read"),
        ("create_refund", "", "write fs.write payments"),
        ("refund_order", "Refunds an order.", "write payments"),
        ("invoice", "Makes a payment.", "write payments"),
        ("create_payment", "Creates it.", "write fs.write payments"),
        ("plan", "Shows the statements that an upgrade would run", "read"),
        ("plan", "Shows the rows a cleanup would delete, move or archive.", "read"),
        ("plan", "Returns what the script could remove and create", "read"),
        ("plan", "Shows what would change, and then changes it.", "write fs.write"),
        ("plan", "Shows what could change and will delete it.", "write fs.delete"),
        ("plan", "Shows the steps that a job will run", "read"),
        ("plan", "Shows a step that it will run", "compute system.exec"),
        ("plan", "It would delete all rows.", "write fs.delete"),
    ]);
}

/// Verbs whose meaning is in their object.
#[test]
fn verbs_act_with_their_objects() {
    check(&[
        ("transition_ticket", "Transition a ticket to a new status", "write fs.write"),
        ("get_transitions", "Get the transitions of a ticket", "read"),
        ("place_share_order", "Places an order at the exchange.", "write fs.write"),
        ("maps_place_details", "Get details of a place", "read"),
        ("search_places", "Searches for places near a station, in order of distance.", "read"),
        ("make_phone_call", "Make a call to a number", "send network.http"),
        ("phone", "Places a call to a customer.", "send network.http"),
        ("speak_text", "Speaks a text.", "send network.http"),
        ("folder", "Gives access to a folder.", "write fs.write"),
        ("resolve_incident", "Resolves an incident", "write fs.write"),
        ("resolve-package-id", "Resolves a package name to an id", "read"),
        ("bank", "Wires money to an account.", "write payments"),
        ("ping_host", "Pings a host.", "read network.http"),
        ("chat", "Pings the owner of a page.", "send network.http"),
        ("feed", "Streams the log to a collector.", "send network.http"),
        ("tail_log", "Streams the log to the client.", "unknown"),
        ("relay_file", "Hands it to another agent.", "send network.http"),
        ("ui_type", "Type text into a field", "write fs.write"),
        ("list_types", "Lists the types of a text.", "read"),
        ("press_key", "Press a key", "write fs.write"),
        ("press_releases", "Lists press releases.", "read"),
        ("format_disk", "Formats a disk.", "write fs.delete"),
        ("format_date", "Formats a date.", "unknown"),
        ("roll_back_release", "Rolls back a release.", "write fs.write"),
        ("list_rollbacks", "Lists rollbacks.", "read"),
        ("get_type_text", "Gets the type of a text.", "read"),
    ]);
}
