//! The limits of this crate, each with its unit in the name and a comment that says what happens when it is reached.

use automation::limits::TEMPLATE_OUTPUT_BYTES_MAX;

/// Events that one claim takes; more are refused with `invalid_request`.
pub const EVENTS_PER_CLAIM_MAX: u32 = 100;
/// A worker that could not renew a lease stops this long before it ends.
pub const RUN_LEASE_MARGIN_SECONDS: u64 = 2;
/// Bytes of a step's output as JSON that its record keeps; a longer one becomes an artifact.
pub const STEP_OUTPUT_KEPT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a step's output as JSON; a longer one fails the step with `step_output_too_large`.
pub const STEP_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Runs that wait for a worker, of all orgs; while there are more, events are handled slowly. None is dropped.
pub const DUE_RUNS_MAX: u32 = 100_000;
/// Bytes of all texts in the params of one step, once its templates are rendered; more fail the step with `template_output`.
pub const STEP_PARAMS_BYTES_MAX: usize = 4 * TEMPLATE_OUTPUT_BYTES_MAX;
/// How long the templates of one dry run of a plan may take together; the steps that are left then say `template_time`.
pub const DRY_RUN_MS: u64 = 5_000;
