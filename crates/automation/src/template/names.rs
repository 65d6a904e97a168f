//! The names that a template may use, and the nearest of them for one that it may not.

use countersign_core::nearest::nearest;
use std::collections::BTreeSet;

/// The members of `run` that every template sees.
pub(super) const RUN: [&str; 11] = [
    "id",
    "started_at",
    "automation_id",
    "automation_name",
    "automation_version",
    "trigger_type",
    "trigger_id",
    "space_id",
    "search_space_id",
    "creator_id",
    "attempt",
];
/// The members of `run` that only the steps of `on_failure` see.
pub(super) const RUN_FAILED: [&str; 2] = ["failed_step_id", "error"];
/// The members of `run.error`.
pub(super) const RUN_ERROR: [&str; 3] = ["code", "message", "step_id"];

/// Names that are listed where none is near; of more, the first.
const NAMES_LISTED_MAX: usize = 50;

/// The names that are bound where a template stands.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The inputs that are declared; `None` where any may be given.
    pub inputs: Option<BTreeSet<String>>,
    /// The `output_as` names of earlier steps.
    pub outputs: BTreeSet<String>,
    /// Whether the template stands in a step of `on_failure`.
    pub in_on_failure: bool,
}

impl Names {
    /// Whether the context has this member.
    pub(super) fn has(&self, name: &str) -> bool {
        name == "run" || name == "inputs" || self.outputs.contains(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        ["run", "inputs"].into_iter().chain(self.outputs.iter().map(String::as_str))
    }

    /// The members that the value at `path` is known to have; `None` if it may have any.
    pub(super) fn members(&self, path: &[&str]) -> Option<Vec<&str>> {
        match path {
            ["inputs"] => self.inputs.as_ref().map(|inputs| inputs.iter().map(String::as_str).collect()),
            ["run"] if self.in_on_failure => Some(RUN.into_iter().chain(RUN_FAILED).collect()),
            ["run"] => Some(RUN.to_vec()),
            ["run", "error"] => Some(RUN_ERROR.to_vec()),
            _ => None,
        }
    }
}

/// What to try instead of a name that is not known.
pub(super) fn hint<'a>(named: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let near = nearest(named, known.iter().copied());
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (near.is_empty(), known.is_empty()) {
        (false, _) => format!("the nearest names are {}", quoted(&near)),
        (true, false) if known.len() > NAMES_LISTED_MAX => {
            format!("there are {} and {} more", quoted(&known[..NAMES_LISTED_MAX]), known.len() - NAMES_LISTED_MAX)
        }
        (true, false) => format!("there are {}", quoted(&known)),
        (true, true) => "there are none here".to_owned(),
    }
}
