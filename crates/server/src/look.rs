//! What a machine is asked for before a server runs on it, besides what confines code: `countersign doctor` tells it.

pub use sources::package::{Interpreter, interpreters};
pub use sources::workspace::Spelling;

use crate::data_dir::workspace_below;
use std::path::Path;

/// Whether the workspace below this data folder tells names apart by case; `None` where no server has worked there yet.
pub fn spelling_below(data: &Path) -> Option<Spelling> {
    sources::workspace::spelling_of(&workspace_below(data))
}
