//! The pipeline: the only way to perform an action.
//!
//! `walk/` takes one call through its stages, in order: read `walk.rs` first. Above `walk` are the modules that start, continue or inspect
//! calls: `batch`, `preview`, `answers`, `recovery`, `progress`, `rules`. They depend on `walk`; `walk` depends on none of them
//! (`crates/testkit/tests/it/parts.rs` checks this).

pub mod limits;
mod error;
mod line;
mod request;
mod catalogue;
mod progress;
mod walk;
mod pipeline;
mod preview;
mod rules;
mod batch;
mod answers;
mod recovery;
mod told;
mod callers;
mod waiting;
mod artifacts;

pub use answers::approve::{BeyondAsked, GrantFor, Yes, must_approve, needed_reason};
pub use answers::doubt::Settlement;
pub use answers::link::{AnswerLink, OpenedLink};
pub use answers::quarantine::{Released, Word};
pub use answers::void::is_void_by_rules;
pub use batch::{BatchRequest, Batched};
pub use callers::Asked;
pub use catalogue::{Catalogue, Eyes, SourceListing, UnusableSchema, check_condition, check_schema};
pub use durable::Ladder;
pub use error::{Conflict, Error, ParamError};
pub use line::Line;
pub use pipeline::Pipeline;
pub use policy::redact_text;
pub use preview::explain::{Explanation, Question, Would};
pub use preview::foresee::{Foresight, Held};
pub use preview::revert::RevertForesight;
pub use preview::what_if::{Fate, Proposal, ProposedModes, Replayed, WhatIf};
pub use progress::{Follower, Next, ProgressEvent};
pub use request::{Outcome, Request};
pub use rules::grants::{check_bounds, check_sum_of};
pub use rules::observe::{Suggestion, Suggestions, suggest};
pub use rules::policies::KnownPurposes;
pub use rules::review::{DefinitionNow, Reviewed};
pub use rules::standing::Standing;
pub use told::{may_read_entries, told_to};
pub use waiting::{News, Waiting};
pub use walk::{Made, NearGrant, Ports, RewardWeights, Settings, count_conflict, is_truncated};
