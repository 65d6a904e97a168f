//! What the caller claims about a call (time, device, actor and so on). Claims are checked for size and stored without secrets. They decide
//! nothing, but that a call that claims to be in another space is denied.

use crate::error::ParamError;
use crate::limits::{CLAIMED_CHARS_MAX, ROLLBACK_PLAN_BYTES_MAX, UNKNOWN_FIELDS_BYTES_MAX};
use countersign_core::call::Claimed;

/// Claims that are too large to record. The pointers use the field names of the current API; the compatibility endpoints have other names
/// for some fields and check those themselves.
pub(crate) fn errors_in(claimed: &Claimed) -> Vec<ParamError> {
    let words = [("time", &claimed.time), ("device", &claimed.device), ("actor", &claimed.actor)];
    let is_unfit = |word: &String| word.chars().count() > CLAIMED_CHARS_MAX || word.contains('\0');
    let unfit = words.into_iter().filter(|(_, word)| word.as_ref().is_some_and(is_unfit));
    let message = format!("is longer than {CLAIMED_CHARS_MAX} characters, or holds U+0000");
    let mut errors: Vec<_> = unfit.map(|(name, _)| ParamError { pointer: format!("/context/{name}"), message: message.clone() }).collect();
    if claimed.rollback_plan.as_ref().is_some_and(|plan| plan.to_string().len() > ROLLBACK_PLAN_BYTES_MAX) {
        let message = format!("is longer than {ROLLBACK_PLAN_BYTES_MAX} bytes as JSON");
        errors.push(ParamError { pointer: "/rollbackPlan".into(), message });
    }
    if claimed.more.as_ref().is_some_and(|more| more.to_string().len() > UNKNOWN_FIELDS_BYTES_MAX) {
        let message = format!("the fields that are not known here are longer than {UNKNOWN_FIELDS_BYTES_MAX} bytes as JSON");
        errors.push(ParamError { pointer: String::new(), message });
    }
    errors
}

/// The claims as they are stored and shown.
pub(crate) fn without_secrets(claimed: &Claimed) -> Claimed {
    let text = |word: &Option<String>| word.as_deref().map(policy::redact_text);
    Claimed {
        time: text(&claimed.time),
        device: text(&claimed.device),
        actor: text(&claimed.actor),
        subject: text(&claimed.subject),
        action_id: text(&claimed.action_id),
        space: text(&claimed.space),
        confidence: claimed.confidence.clone(),
        rollback_plan: claimed.rollback_plan.as_ref().map(|plan| policy::redact(plan).value),
        more: claimed.more.as_ref().map(|more| policy::redact(more).value),
    }
}
