//! What a text of a definition is for, by where it stands.

use mcpwarden_protocol::message::{decode_str, members};

use super::fold::folded;
use super::learned::Context;
use super::names::words;
use super::redact;
use super::walk::{Leaf, Path, walk};

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

/// Most names of parameters that are known of one tool.
const MAX_PARAMETERS: usize = 1_024;
/// How much of a description says what a tool is for. Bytes.
const TOPIC_BYTES: usize = 160;

/// What a definition is about: the names of the tool and of its parameters, and how its description begins.
pub(super) fn context(json: &str) -> Context {
    let [name, description, schema] =
        members(json, ["name", "description", "inputSchema"]).map(|member| member.map(|member| member.get()));
    let string =
        |member: Option<&str>| member.and_then(|member| decode_str(member).map(|text| text.into_owned()));
    let description = string(description).unwrap_or_default();
    let start = &description[..description.floor_char_boundary(TOPIC_BYTES)];
    let mut parameters: Vec<String> = Vec::new();
    walk(schema.unwrap_or_default(), |path, leaf, key| {
        let is_parameter = leaf != Leaf::Text && path.keys().nth(1) == Some("properties");
        if is_parameter && parameters.len() < MAX_PARAMETERS {
            parameters.push(key.into_owned());
        }
    });
    let start = folded(start);
    let start = start.split_inclusive(['.', '。', '\n']).next().unwrap_or_default();
    Context::new(&string(name).unwrap_or_default(), start, parameters.iter().map(String::as_str))
}

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
