//! An approver edits the params before approving: the edited call is validated, gated, decided and bound again.

use crate::error::{Conflict, Error};
use crate::pipeline::Pipeline;
use crate::walk::admit::{Entrance, Resumed};
use crate::walk::binding::{Terms, seal_params, to_binding};
use crate::walk::decide::Moded;
use crate::walk::gate::Gates;
use countersign_core::invocation::Edit;
use countersign_core::ledger::Edited;
use countersign_core::{Digest, Invocation, Mode, Principal, Status};
use serde_json::Value;

/// The binding that an approver of the edited call approves.
pub(super) fn bound_to(edited: &Edited) -> Option<Digest> {
    edited.invocation.binding.as_ref().map(|binding| binding.digest)
}

impl Pipeline {
    /// The pending call with the edited params; `None` if they do not differ.
    pub(super) async fn edit(
        &self,
        principal: &Principal,
        pending: &Invocation,
        shown: Option<Digest>,
        params: Value,
    ) -> Result<Option<Edited>, Error> {
        let conflict = |conflict| Error::Conflict { invocation: pending.id.clone(), conflict };
        let before = self.walk.open_params(pending).await?;
        let changed = changed(&before, &params);
        if changed.is_empty() {
            return Ok(None);
        }
        let mut admitted = self.walk.admit_held(pending, params).await?.ok_or_else(|| conflict(Conflict::TupleMismatch))?;
        if let Entrance::Resumed(Resumed { is_edited, .. }) = &mut admitted.entrance {
            *is_edited = true;
        }
        let resolved = self.walk.resolve(admitted).await?;
        let Gates::Passed(gated) = self.walk.gate(self.walk.validate(resolved).await?, None).await? else {
            return Err(conflict(Conflict::PolicyMismatch));
        };
        let Moded { decision, policy_slice, .. } = self.walk.mode_of(&gated).await?;
        if decision.mode == Mode::Deny {
            return Err(conflict(Conflict::PolicyMismatch));
        }
        let Some(held) = &pending.binding else {
            return Err(Error::Internal { message: format!("pending `{}` is bound to nothing", pending.id) });
        };
        let terms = Terms { policy_slice, nonce: Digest::new(self.walk.random_bytes()), expires_at: held.expires_at };
        let bound = self.walk.bound(&gated, &decision, terms).await?;
        let mut invocation = gated.to_invocation(Status::Pending, &decision);
        invocation.binding = Some(to_binding(&bound)?);
        invocation.deadline = pending.deadline;
        invocation.observed = pending.observed;
        let (proposed, proposed_params) = match &pending.edit {
            // The requester's original params stay recorded through several edits.
            Some(earlier) => (earlier.proposed, earlier.proposed_params.clone()),
            None => (pending.digests.params, pending.call.params.clone()),
        };
        invocation.edit = Some(Edit { by: principal.id.clone(), at: self.walk.now(), proposed, proposed_params, changed });
        let sealed_params = seal_params(&gated)?;
        Ok(Some(Edited { invocation, sealed_params, shown: shown.unwrap_or(held.digest) }))
    }
}

/// The RFC 6901 pointers to the smallest parts in which two values differ.
fn changed(before: &Value, after: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    compare(before, after, &mut String::new(), &mut pointers);
    pointers
}

fn compare(before: &Value, after: &Value, at: &mut String, pointers: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let length = at.len();
                at.push('/');
                at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match (before.get(key), after.get(key)) {
                    (Some(before), Some(after)) => compare(before, after, at, pointers),
                    (Some(_), None) | (None, Some(_)) | (None, None) => pointers.push(at.clone()),
                }
                at.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                let length = at.len();
                at.push_str(&format!("/{index}"));
                compare(before, after, at, pointers);
                at.truncate(length);
            }
        }
        (before, after) if before == after => {}
        _ => pointers.push(at.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_smallest_parts_that_differ_are_named() {
        let before = json!({ "to": "a", "body": { "text": "x", "a/b": 1 }, "list": [1, 2], "same": null });
        for (after, expected) in [
            (before.clone(), vec![]),
            (json!({ "to": "b", "body": { "text": "x", "a/b": 1 }, "list": [1, 2], "same": null }), vec!["/to"]),
            (
                json!({ "to": "a", "body": { "text": "y", "a/b": 2 }, "list": [1, 3], "same": null }),
                vec!["/body/text", "/body/a~1b", "/list/1"],
            ),
            (json!({ "to": "a", "body": 1, "list": [1, 2, 3], "new": 1 }), vec!["/body", "/list", "/same", "/new"]),
            (json!([]), vec![""]),
        ] {
            assert_eq!(changed(&before, &after), expected);
        }
    }
}
