//! The few texts of a request that may be longer than `limits::TEXT_BYTES_MAX`: the operation that reads one has a bound for it.

use serde::{Deserialize, Deserializer};

/// What a deserializer is told of such a text before it hands it out.
pub const LONG_TEXT: &str = "LongText";

/// A text without the bound that all others have.
#[derive(Deserialize)]
struct LongText(String);

/// Reads one, for `#[serde(deserialize_with)]`.
pub fn long_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    LongText::deserialize(deserializer).map(|LongText(text)| text)
}
