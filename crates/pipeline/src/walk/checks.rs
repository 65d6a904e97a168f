//! The checks after an effect, and their combined verdict.

use super::execute::Done;
use super::ground::Walk;
use super::unverified::unverified;
use crate::limits::{CHECK_DETAIL_CHARS_MAX, CHECK_NAME_CHARS_MAX};
use countersign_core::Invocation;
use countersign_core::effect::Check;
use countersign_core::invocation::{Failure, Intention};
use countersign_core::source;

/// The result of verifying an executed call.
pub(crate) enum Looked {
    Verified(Verified),
    /// A repair was tried and its outcome is unknown, or the effect could not be checked.
    InDoubt(Box<Invocation>),
}

/// An executed call that was verified, with the result.
pub(crate) struct Verified {
    pub(crate) done: Box<Done>,
    /// Why the result does not count, if it does not.
    pub(crate) failure: Option<Failure>,
}

impl Verified {
    pub(crate) fn looked(done: Box<Done>, failure: Option<Failure>) -> Looked {
        Looked::Verified(Self { done, failure })
    }
}

pub(crate) const VERIFICATION_FAILED: &str = "verification_failed";
const RESULT_SCHEMA: &str = "result_schema";

impl Walk {
    /// Runs the checks after an effect; `None` if there is nothing to check. A check that could not be made has not passed.
    pub(crate) async fn check(&self, done: &Done) -> Option<Checks> {
        let output = done.answer.as_ref().ok()?;
        match done.invocation.intention {
            // A preview has a result of another shape, and the source itself checks a revert.
            Intention::DryRun | Intention::Revert => return None,
            Intention::Effect => {}
        }
        let declared = &done.definition.action.checks;
        let mut checks = Checks::default();
        let mismatches = done.definition.result.mismatches(&output.value).await;
        checks.made.push(match mismatches.map(|found| found.into_iter().next()) {
            Ok(None) => Check::passed(RESULT_SCHEMA),
            Ok(Some(found)) => {
                Check::failed(RESULT_SCHEMA, format!("the result does not fit its schema at `{}`: {}", found.pointer, found.message))
            }
            Err(error) => Check::failed(RESULT_SCHEMA, error.to_string()),
        });
        let subject = done.subject();
        if !declared.is_empty() {
            match self.patiently(|| self.ask_to_verify(subject, output)).await {
                Ok(looked_at) => {
                    let missing = declared.iter().filter(|name| !looked_at.iter().any(|check| check.name == **name));
                    let missing: Vec<_> = missing.map(|name| Check::failed(name, "it was declared, and was not made")).collect();
                    checks.made.extend(looked_at);
                    checks.made.extend(missing);
                }
                Err(error) => declared.iter().for_each(|name| checks.add_unanswered(name, &error)),
            }
        }
        for command in &done.invocation.call.commands {
            match self.patiently(|| self.ask_to_run_command(subject, command)).await {
                Ok(check) => checks.made.push(check),
                Err(error) => checks.add_unanswered(command, &error),
            }
        }
        Some(checks.bounded(declared))
    }

    /// Asks again a few times if the source was not asked because too many calls were under way. Checking changes nothing, so it needs no
    /// intent. A source that is unreachable was asked, so that check has failed.
    async fn patiently<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, source::Error>
    where
        Asked: Future<Output = Result<T, source::Error>>,
    {
        let mut tries = 1;
        loop {
            match ask().await {
                Err(error) if error.why_no_turn().is_some() && tries < self.inner.settings.attempts_max => {
                    tokio::time::sleep(self.backoff(tries, &error)).await;
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }
}

/// The checks that were due after an effect.
#[derive(Default)]
pub(crate) struct Checks {
    made: Vec<Check>,
    /// Checks that were not made, because too many calls were under way. They have neither passed nor failed.
    unmade: Vec<Check>,
}

/// The combined result of all checks.
pub(crate) enum Verdict {
    Passed,
    Failed(Failure),
    /// No check failed, but not every check could be made.
    Unknown(Failure),
}

impl Checks {
    fn add_unanswered(&mut self, name: &str, error: &source::Error) {
        match error.why_no_turn() {
            Some(why) => self.unmade.push(Check::failed(name, format!("nobody could look: {why}"))),
            None => self.made.push(Check::failed(name, error.to_string())),
        }
    }

    fn bounded(self, declared: &[String]) -> Self {
        let bounded = |checks: Vec<Check>| checks.into_iter().map(|check| kept(check, declared)).collect();
        Self { made: bounded(self.made), unmade: bounded(self.unmade) }
    }

    /// A failed check outweighs one that could not be made.
    pub(crate) fn verdict(&self) -> Verdict {
        match (failure_of(&self.made), self.unmade.first()) {
            (Some(failure), _) => Verdict::Failed(failure),
            (None, Some(unmade)) => Verdict::Unknown(unverified(unmade)),
            (None, None) => Verdict::Passed,
        }
    }

    /// The checks as they are stored: first those that were made.
    pub(crate) fn into_kept(mut self) -> Vec<Check> {
        self.made.append(&mut self.unmade);
        self.made
    }
}

/// A check as it may be stored and signed. Texts written by others are redacted and bounded; names that the definition declares are known.
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

/// The failure of the first check that did not pass.
pub(crate) fn failure_of(checks: &[Check]) -> Option<Failure> {
    let failed = checks.iter().find(|check| !check.ok)?;
    let detail = failed.detail.as_deref().unwrap_or("it failed");
    Some(if failed.name == RESULT_SCHEMA {
        Failure { code: "result_schema_mismatch".into(), message: detail.to_owned() }
    } else {
        Failure { code: VERIFICATION_FAILED.into(), message: format!("check `{}`: {detail}", failed.name) }
    })
}
