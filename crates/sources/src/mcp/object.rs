//! Reads JSON objects of a server.

use serde::Deserialize;

/// Reads a JSON object. The derived readers take an array for one as well, its items for the members in their order.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}
