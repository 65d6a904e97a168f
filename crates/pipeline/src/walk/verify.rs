//! Stage 9: is the effect what it should be? An effect that fails its checks is repaired once, or else rolled back (`remedy.rs`). An effect
//! that could not be checked is left as it is, in doubt.

use super::checks::{Looked, Verdict, Verified};
use super::execute::Done;
use super::ground::Walk;
use super::stage::Stage;
use crate::error::Error;

impl Walk {
    pub(crate) async fn verify(&self, mut done: Box<Done>) -> Result<Looked, Error> {
        let _timed = self.timed(Stage::Verify);
        let Some(checks) = self.check(&done).await else {
            return Ok(Verified::looked(done, None));
        };
        self.fault("verify.checked");
        let verdict = checks.verdict();
        done.invocation.aftermath.checks = Some(checks.into_kept());
        match verdict {
            Verdict::Passed => Ok(Verified::looked(done, None)),
            Verdict::Failed(failure) => Box::pin(self.remedy(done, failure)).await,
            Verdict::Unknown(failure) => Box::pin(self.leave_unverified(done, failure)).await,
        }
    }
}
