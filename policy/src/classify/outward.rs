//! Tools that send what their caller says to wherever their caller says: requests with a body, and webhooks. Their verbs say
//! nothing of it: `fetch` reads, `trigger` computes.

use super::for_each_word;
use crate::terms::ToolCategory;

/// HTTP methods that carry a body, as they are written where they are meant.
const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];
/// What descriptions say of requests that carry one. Of answers they say "the body", "response body".
const BODIES: [&str; 14] = [
    "request body",
    "request payload",
    "with a body",
    "with body",
    "and a body",
    "and body",
    "json body",
    "json payload",
    "custom body",
    "optional body",
    "any method",
    "any http method",
    "all http methods",
    "arbitrary http request",
];
/// What is known by its first word to speak of what comes back.
const ANSWERS: [&str; 3] = ["status and body", "headers and body", "response"];

/// Whether a tool sends data to an address: by its name and description, and what its verbs say of it.
pub(super) fn sends(name: &str, description: &str, category: ToolCategory) -> bool {
    let has_webhook = |text: &str| {
        let mut found = false;
        for_each_word(text, |word| found |= matches!(word, "webhook" | "webhooks"));
        found
    };
    let acts = matches!(category, ToolCategory::Compute | ToolCategory::Unknown);
    if acts && has_webhook(name) || category == ToolCategory::Compute && has_webhook(description) {
        return true;
    }
    let mut words = description.split(|c: char| !c.is_ascii_alphanumeric());
    if words.any(|word| METHODS.contains(&word)) {
        return true;
    }
    let small = description.to_lowercase();
    let speaks_of_requests = ["http", "url", "request"].iter().any(|word| small.contains(word));
    speaks_of_requests
        && BODIES.iter().any(|phrase| small.contains(phrase))
        && !ANSWERS.iter().any(|phrase| small.contains(phrase))
}
