//! What a text of a definition is for, by where it stands.

use mcpwarden_protocol::message::members;

use super::names::words;
use super::redact;
use super::walk::{Leaf, Path};

/// Keywords of a schema whose values the model passes on as they are.
const VALUES: [&str; 5] = ["default", "const", "enum", "examples", "example"];
/// Words in the name of a parameter for which the path of a file, or of a key, may be the value.
const FILES: [&str; 30] = [
    "key",
    "keys",
    "identity",
    "ssh",
    "cert",
    "certificate",
    "certs",
    "pem",
    "credential",
    "credentials",
    "auth",
    "secret",
    "secrets",
    "token",
    "config",
    "conf",
    "kubeconfig",
    "netrc",
    "profile",
    "file",
    "files",
    "filename",
    "filepath",
    "path",
    "paths",
    "dir",
    "directory",
    "folder",
    "uri",
    "source",
];

/// Whether a definition says of itself that the tool changes nothing.
pub(super) fn only_reads(json: &str) -> bool {
    let [annotations] = members(json, ["annotations"]);
    let hint = annotations.and_then(|annotations| members(annotations.get(), ["readOnlyHint"])[0]);
    hint.is_some_and(|hint| hint.get() == "true")
}

/// Whether a text is an image of the tool, in its address: no model reads it. Text with blanks may be prose.
pub(super) fn is_icon(path: &Path<'_>, leaf: Leaf, text: &str) -> bool {
    let is_image = |text: &str| text.get(..11).is_some_and(|start| start.eq_ignore_ascii_case("data:image/"));
    leaf == Leaf::Text
        && path.root() == "icons"
        && path.keys().eq(["src", "icons"])
        && is_image(text)
        && !text.contains(char::is_whitespace)
}

/// Whether a text is the name of a header that repeats a parameter which takes a secret, by the name of either.
pub(super) fn repeats_secret(path: &Path<'_>, header: &str) -> bool {
    let mut keys = path.keys();
    path.root() == "inputSchema"
        && keys.next() == Some("x-mcp-header")
        && (redact::is_secret_name(header, false)
            || keys.next().is_some_and(|parameter| redact::is_secret_name(parameter, false)))
}

/// The parameter that a definition gives this text to as a value.
pub(super) fn parameter_of_value<'a>(path: &Path<'a>) -> Option<&'a str> {
    let (mut parameter, mut is_value) = (None, false);
    for key in path.keys() {
        if key == "properties" {
            return parameter.filter(|_| is_value);
        }
        // What is behind the name of the parameter, which may be any.
        is_value |= parameter.is_some_and(|key| VALUES.contains(&key));
        parameter = Some(key);
    }
    None
}

/// Whether a parameter is for a file or a key, by its name.
pub(super) fn is_for_file(parameter: &str) -> bool {
    let words = words(parameter).text.to_ascii_lowercase();
    words.split(' ').any(|word| FILES.contains(&word))
}
