//! Findings on the wire: why a call, a result or a definition was caught.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something was caught; never the content itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaughtView {
    pub rule: String,
    pub pointer: String,
    pub message: String,
}
