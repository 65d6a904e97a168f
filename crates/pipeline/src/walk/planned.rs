//! What a plan must have: a scope that can be kept, commands that may run, and a way back and a verification where its risk asks for them.
//! A plan that lacks one is denied before it runs, with a receipt. And a plan that is sent again while it waits is not held twice.

use super::decide::Decided;
use super::gate::Gated;
use super::ground::Walk;
use super::join::{identity_of, identity_of_gated};
use super::resolve::Resolved;
use super::validate::unclear_scope;
use crate::error::{Error, ParamError};
use countersign_core::action::{Class, Reversibility};
use countersign_core::call::Planned;
use countersign_core::invocation::Failure;
use countersign_core::{Invocation, Tier};
use serde_json::Value;

const ROLLBACK_PLAN_MISSING: &str = "rollback_plan_missing";
const VERIFICATION_MISSING: &str = "verification_missing";

impl Walk {
    pub(super) fn unless_unfit(&self, decided: Decided) -> Decided {
        let gated = match &decided {
            Decided::Cleared(cleared) => cleared.gated(),
            Decided::Pending(pending) => &pending.gated,
            Decided::Preview(preview) => &preview.gated,
            Decided::Denied(_) => return decided,
        };
        match self.why_unfit(&gated.validated.resolved) {
            None => decided,
            Some(failure) => decided.refused(failure),
        }
    }

    fn why_unfit(&self, resolved: &Resolved) -> Option<Failure> {
        let plan = resolved.plan()?;
        let action = || resolved.action().id.to_string();
        let mut scope = unclear_scope(resolved);
        scope.extend(plan.unknown_limits.iter().map(|name| ParamError {
            pointer: format!("/scope/{name}"),
            message: "is not known here, and a limit that is not known cannot be kept".to_owned(),
        }));
        if !scope.is_empty() {
            return Error::InvalidScope { action: action(), errors: scope }.to_failure();
        }
        let commands = self.refused_commands(resolved);
        if !commands.is_empty() {
            return Error::CommandNotAllowed { action: action(), errors: commands }.to_failure();
        }
        without_way_back(resolved).or_else(|| without_verification(resolved, plan))
    }

    /// The call that the same plan made before and that still waits for a person, if this one has no idempotency key that would tell.
    pub(super) async fn find_waiting_plan(&self, gated: &Gated) -> Result<Option<Invocation>, Error> {
        let resolved = &gated.validated.resolved;
        if resolved.plan().is_none() {
            return Ok(None);
        }
        let identity = Some(identity_of_gated(gated));
        let is_same = |row: &Invocation| row.call.older.as_ref().is_some_and(|older| older.plan.is_some()) && identity_of(row) == identity;
        let mut after = None;
        loop {
            let page = self.ledger().list_pending_of(&resolved.admitted.session.org, &resolved.action().id, after.as_ref()).await?;
            after = page.last().map(|last| last.id.clone());
            if let Some(waiting) = page.into_iter().find(is_same) {
                return Ok(Some(waiting));
            }
            if after.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Whether a plan is a write of tier R2 or above, by its definition or by what it claims. A read stays one, whatever its plan claims.
fn is_write(resolved: &Resolved) -> bool {
    resolved.tier() >= Tier::R2 && resolved.action().tier.class() != Class::Read
}

/// A planned write needs a rollback plan, unless the action itself stores what its rollback needs.
fn without_way_back(resolved: &Resolved) -> Option<Failure> {
    let plan = resolved.admitted.request.call.claimed.as_ref().and_then(|claimed| claimed.rollback_plan.as_ref());
    if !is_write(resolved) || resolved.action().reversibility == Reversibility::Reversible || plan.is_some_and(says_how) {
        return None;
    }
    let message = format!(
        "`rollbackPlan` is missing: a planned write of tier {} needs one, as an object or a text that is not empty, because `{}` cannot be \
         reverted; nothing ran",
        resolved.tier(),
        resolved.action().id
    );
    Some(Failure { code: ROLLBACK_PLAN_MISSING.into(), message })
}

/// A planned write is verified by more than the schema of its result. Whether that of a read fits is looked at whatever its plan says.
fn without_verification(resolved: &Resolved, plan: &Planned) -> Option<Failure> {
    if !is_write(resolved) {
        return None;
    }
    let (tier, action) = (resolved.tier(), &resolved.action().id);
    let has_check = !resolved.action().checks.is_empty() || !resolved.admitted.request.call.commands.is_empty();
    let message = match (plan.is_verified, has_check) {
        (Some(false), _) => {
            format!("`verification.required` must not be false: a planned write of tier {tier} is verified; nothing ran")
        }
        (None | Some(true), true) => return None,
        (None | Some(true), false) => format!(
            "`verification.commands` is empty, and `{action}` declares no check: the effect of a planned write of tier {tier} is verified by \
             more than the schema of its result; nothing ran"
        ),
    };
    Some(Failure { code: VERIFICATION_MISSING.into(), message })
}

/// Whether it says anything of a way back; `false`, a number and emptiness do not.
fn says_how(rollback_plan: &Value) -> bool {
    match rollback_plan {
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.trim().is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}
