//! What one guard may use.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values that a guard reads with `get-config`.
pub type WasmConfig = BTreeMap<String, String>;

/// Makes the values of `get-config` from the configuration of a guard: strings as they are, everything else as JSON text.
pub fn config_from_json<'a>(values: impl IntoIterator<Item = (&'a String, &'a Value)>) -> WasmConfig {
    values
        .into_iter()
        .map(|(key, value)| match value {
            Value::String(text) => (key.clone(), text.clone()),
            other => (key.clone(), other.to_string()),
        })
        .collect()
}

/// What one guard may use. The stack is a limit of the whole engine: `RuntimeOptions::stack_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of one instance, all its memories together.
    pub memory_bytes: usize,
    /// Units of fuel of one call: about one for each WebAssembly instruction.
    pub fuel: u64,
    /// Elements of all tables of one instance together.
    pub table_elements: usize,
    /// Bytes that the guard may pass to the agent at once: an answer, or the arguments of one call of a host function.
    pub answer_bytes: usize,
    /// Instances, and so calls at the same time; at least one.
    pub instances: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            fuel: 5_000_000_000,
            table_elements: 100_000,
            answer_bytes: 1 << 20,
            instances: 2,
        }
    }
}

/// The largest component, in bytes.
pub(crate) const COMPONENT_BYTES: usize = 64 << 20;
/// Threads that compile a component. Compiling may take many seconds, and must leave the rest of a large machine alone.
pub(crate) const COMPILE_THREADS: usize = 4;
/// Handles of resources that one instance may hold at once.
pub(crate) const HANDLES: usize = 4096;
/// Core instances of one component. Those of componentize-py, which link libraries, have some fifty.
pub(crate) const CORE_INSTANCES: usize = 1000;
/// Memories of one component.
pub(crate) const MEMORIES: usize = 64;
/// Tables of one component.
pub(crate) const TABLES: usize = 1000;
/// Bytes by which the memory of an instance may have grown for the instance to be used again.
pub(crate) const GROWTH_KEPT_BYTES: usize = 8 << 20;
/// Bytes of a text in an error.
pub(crate) const ERROR_BYTES: usize = 1024;

/// Cuts a text to a number of bytes, at the border of a character; whether the text was longer.
pub(crate) fn cut(text: &mut String, bytes: usize) -> bool {
    if text.len() <= bytes {
        return false;
    }
    text.truncate(text.floor_char_boundary(bytes));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_keeps_strings_and_writes_the_rest_as_json() {
        let values = serde_json::json!({"a": "x y", "b": 2, "c": ["p", true], "d": null});
        let config = config_from_json(values.as_object().unwrap());
        let found: Vec<_> = config.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "x y"), ("b", "2"), ("c", "[\"p\",true]"), ("d", "null")]);
    }

    #[test]
    fn cut_ends_at_a_character() {
        for (text, bytes, expected, was_cut) in
            [("abc", 3, "abc", false), ("abcd", 3, "abc", true), ("aßb", 2, "a", true), ("", 0, "", false)]
        {
            let mut text = text.to_owned();
            assert_eq!(cut(&mut text, bytes), was_cut, "{text}");
            assert_eq!(text, expected);
        }
    }
}
