//! Facts about a machine that `countersign doctor` shows, besides the sandbox probes (`jail.rs`).

pub use sources::package::{Interpreter, interpreters};
pub use sources::workspace::Spelling;

use crate::data_dir::workspace_below;
use std::path::Path;

/// Whether the workspace of this data folder distinguishes names by case; `None` if no server has worked there yet.
pub fn spelling_below(data: &Path) -> Option<Spelling> {
    sources::workspace::spelling_of(&workspace_below(data))
}
