//! Stage 9: did the source answer as its definition says? A result that does not fit its schema is not a success.

use crate::Pipeline;
use crate::execute::Done;
use crate::stage::Stage;
use countersign_core::invocation::Failure;
use receipt::body::Verification;

/// An executed call whose result was checked.
pub(crate) struct Verified {
    pub(crate) done: Done,
    pub(crate) verification: Option<Verification>,
    /// Why the result does not count.
    pub(crate) failure: Option<Failure>,
}

const RESULT_SCHEMA: &str = "result_schema";

impl Pipeline {
    pub(crate) fn verify(&self, done: Done) -> Verified {
        let _timed = self.timed(Stage::Verify);
        let Some(value) = done.checked_value() else {
            return Verified { done, verification: None, failure: None };
        };
        let mismatch = done.definition.result.iter_errors(value).next().map(|error| Failure {
            code: "result_schema_mismatch".into(),
            message: format!("the result does not fit its schema at `{}`: {}", error.instance_path(), error.masked()),
        });
        let verification = Verification { ok: mismatch.is_none(), checks: vec![RESULT_SCHEMA.to_owned()] };
        Verified { done, verification: Some(verification), failure: mismatch }
    }
}
