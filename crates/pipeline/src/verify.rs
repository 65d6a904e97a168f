//! Stage 9: is the effect what it should be? What fails its checks is repaired once, else taken back; `remedy.rs` does both.

use crate::execute::Done;
use crate::stage::Stage;
use crate::{Error, Pipeline};
use countersign_core::Invocation;
use countersign_core::effect::Check;
use countersign_core::invocation::{Failure, Intention};
use countersign_core::limits::{CHECK_DETAIL_CHARS_MAX, CHECK_NAME_CHARS_MAX};

/// What looking at an executed call came to.
pub(crate) enum Looked {
    Verified(Box<Verified>),
    /// It was repaired, and nobody knows whether that happened.
    InDoubt(Box<Invocation>),
}

/// An executed call that was looked at, and what came of it.
pub(crate) struct Verified {
    pub(crate) done: Done,
    /// Why the result does not count.
    pub(crate) failure: Option<Failure>,
}

impl Verified {
    pub(crate) fn looked(done: Done, failure: Option<Failure>) -> Looked {
        Looked::Verified(Box::new(Self { done, failure }))
    }
}

pub(crate) const VERIFICATION_FAILED: &str = "verification_failed";
const RESULT_SCHEMA: &str = "result_schema";

impl Pipeline {
    pub(crate) async fn verify(&self, mut done: Done) -> Result<Looked, Error> {
        let _timed = self.timed(Stage::Verify);
        let Some(checks) = self.check(&done).await else {
            return Ok(Verified::looked(done, None));
        };
        self.fault("verify.checked");
        let failure = failure_of(&checks);
        done.invocation.aftermath.checks = Some(checks);
        match failure {
            None => Ok(Verified::looked(done, None)),
            Some(failure) => self.remedy(done, failure).await,
        }
    }

    /// What is looked at after an effect; `None` where there is nothing to look at. What cannot be looked at has not passed.
    pub(crate) async fn check(&self, done: &Done) -> Option<Vec<Check>> {
        let output = done.answer.as_ref().ok()?;
        match done.invocation.intention {
            // A preview has a shape of its own, and what was taken back was looked at by who took it back.
            Intention::DryRun | Intention::Revert => return None,
            Intention::Effect => {}
        }
        let mismatch = done.definition.result.iter_errors(&output.value).next();
        let mut checks = vec![match mismatch {
            None => Check::passed(RESULT_SCHEMA),
            Some(error) => Check::failed(
                RESULT_SCHEMA,
                format!("the result does not fit its schema at `{}`: {}", error.instance_path(), error.masked()),
            ),
        }];
        if !done.definition.action.checks.is_empty() {
            match self.ask_to_verify(done.subject(), output).await {
                Ok(looked_at) => {
                    let missing = done.definition.action.checks.iter().filter(|name| !looked_at.iter().any(|check| check.name == **name));
                    let missing: Vec<_> = missing.map(|name| Check::failed(name, "it was declared, and was not made")).collect();
                    checks.extend(looked_at);
                    checks.extend(missing);
                }
                Err(error) => {
                    let detail = policy::redact_text(&error.to_string());
                    checks.extend(done.definition.action.checks.iter().map(|name| Check::failed(name, detail.clone())));
                }
            }
        }
        checks.extend(self.ask_to_run_commands(done.subject()).await);
        let declared = &done.definition.action.checks;
        Some(checks.into_iter().map(|check| kept(check, declared)).collect())
    }
}

/// As it may be kept and signed, where others chose the words: names that the definition declares are known.
fn kept(check: Check, declared: &[String]) -> Check {
    if check.detail.is_none() && (check.name == RESULT_SCHEMA || declared.contains(&check.name)) {
        return check;
    }
    let bounded = |text: &str, chars: usize| policy::redact_text(text).chars().take(chars).collect::<String>();
    Check {
        name: bounded(&check.name, CHECK_NAME_CHARS_MAX),
        ok: check.ok,
        detail: check.detail.map(|detail| bounded(&detail, CHECK_DETAIL_CHARS_MAX)),
    }
}

/// The first thing that is not as it should be.
pub(crate) fn failure_of(checks: &[Check]) -> Option<Failure> {
    let failed = checks.iter().find(|check| !check.ok)?;
    let detail = failed.detail.as_deref().unwrap_or("it failed");
    Some(if failed.name == RESULT_SCHEMA {
        Failure { code: "result_schema_mismatch".into(), message: detail.to_owned() }
    } else {
        Failure { code: VERIFICATION_FAILED.into(), message: format!("check `{}`: {detail}", failed.name) }
    })
}
