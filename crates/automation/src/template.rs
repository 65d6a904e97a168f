//! Templates: text with `{{ … }}` and `{% … %}` in it, written by models and people, and rendered over data from strangers.
//!
//! `check` reads a template when a definition is saved and refuses everything that is not on the list; `Renderer` renders what was checked.
//! A template that is proven trivial renders in this process, because its cost is bounded. Every other one could take any time and memory
//! within one instruction of the engine, so it renders in a worker, a process that can be killed (`worker`). The engine (minijinja) is known
//! in this module alone.

mod check;
mod context;
mod engine;
mod error;
mod filters;
mod json;
mod kinds;
mod names;
mod renderer;
pub mod worker;

pub use check::{check, check_predicate};
pub use context::{Context, Failure, Run, build_run_context};
pub use error::{Reason, RenderError};
pub use filters::FILTERS;
pub use kinds::TESTS;
pub use names::Names;
pub use renderer::{Renderer, Workers};

use std::collections::BTreeSet;

/// A template that was checked. `check` alone makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    /// The expression of a template that is exactly one `{{ … }}`, or of a predicate.
    expression: Option<String>,
    is_trivial: bool,
    /// The members of the context that it reads.
    reads: BTreeSet<String>,
}

impl Template {
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it is exactly one `{{ … }}`, so that it can keep the type of its value.
    pub fn is_one_expression(&self) -> bool {
        self.expression.is_some()
    }

    /// Whether it is only text and `{{ dotted.path | filter(literals) }}`, so that it may render in this process.
    pub fn is_trivial(&self) -> bool {
        self.is_trivial
    }

    /// The members of the context that it reads: `run`, `inputs`, outputs of earlier steps.
    pub fn reads(&self) -> &BTreeSet<String> {
        &self.reads
    }
}

/// Whether a text of a definition is a template.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|opening| text.contains(opening))
}

#[cfg(test)]
mod tests;
