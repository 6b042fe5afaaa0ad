//! Values by their words.

use serde::de::DeserializeOwned;

/// A value, by the word that the configuration and events have for it.
pub fn by_word<T: DeserializeOwned>(word: String) -> Result<T, serde_json::Error> {
    serde_json::from_value(word.into())
}
