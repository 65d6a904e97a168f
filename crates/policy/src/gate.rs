//! The checks before the mode. Each leaves its verdict with the rules that determined it, so a denial says why.
//! All are asked, whatever the others said; the first denial decides.

use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::principal::Permission;
use countersign_core::{Principal, SpaceId, Tier};
use serde_json::Value;

/// What the gates may know of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub principal: &'a Principal,
    /// The permissions the action's definition requires.
    pub requires: &'a [String],
    pub tier: Tier,
    pub space: &'a SpaceId,
    pub params: &'a Value,
}

/// One verdict per gate, in the order of `Gate::ALL`.
pub fn gate(call: &Call) -> Vec<GateVerdict> {
    Gate::ALL
        .into_iter()
        .map(|gate| match gate {
            Gate::Rbac => rbac(call),
            Gate::Space => space(call),
            Gate::Abac | Gate::Consent | Gate::Safety | Gate::Redaction => GateVerdict::new(gate, Verdict::NotApplicable, Vec::new()),
        })
        .collect()
}

/// The denial that decides, if there is one.
pub fn denied(verdicts: &[GateVerdict]) -> Option<&GateVerdict> {
    verdicts.iter().find(|verdict| match verdict.verdict {
        Verdict::Deny => true,
        Verdict::Ok | Verdict::NeedsApproval | Verdict::Quarantine | Verdict::Redacted | Verdict::NotApplicable => false,
    })
}

/// The rule that only who may invoke at all may invoke this.
const INVOKE: &str = "builtin.invoke";
/// The rule that a call stays in its space.
const SAME_SPACE: &str = "builtin.same_space";
/// What the permissions of the actions we ship begin with.
const BUILTIN_PERMISSIONS: [&str; 3] = ["files.", "http.", "notify."];

/// The rule that the principal holds one permission the action requires.
fn holds(permission: &str) -> String {
    format!("builtin.holds:{permission}")
}

fn rbac(call: &Call) -> GateVerdict {
    let gate = Gate::Rbac;
    if !call.principal.may(Permission::Invoke) {
        return GateVerdict::new(gate, Verdict::Deny, vec![INVOKE.to_owned()]);
    }
    let (held, missing): (Vec<&String>, Vec<&String>) = call.requires.iter().partition(|permission| is_builtin(permission));
    if missing.is_empty() {
        let determining = std::iter::once(INVOKE.to_owned()).chain(held.into_iter().map(|permission| holds(permission))).collect();
        GateVerdict::new(gate, Verdict::Ok, determining)
    } else {
        GateVerdict::new(gate, Verdict::Deny, missing.into_iter().map(|permission| holds(permission)).collect())
    }
}

/// Whoever may invoke holds every permission of the actions we ship, and no other.
fn is_builtin(permission: &str) -> bool {
    BUILTIN_PERMISSIONS.into_iter().any(|prefix| permission.strip_prefix(prefix).is_some_and(|name| !name.is_empty()))
}

fn space(call: &Call) -> GateVerdict {
    let verdict = match call.params.get("space_id") {
        None | Some(Value::Null) => Verdict::Ok,
        Some(Value::String(named)) if named == call.space.as_str() => Verdict::Ok,
        // What cannot be compared cannot be shown to be this space.
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => Verdict::Deny,
    };
    GateVerdict::new(Gate::Space, verdict, vec![SAME_SPACE.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::principal::Role;
    use countersign_core::{AutomationId, OrgId, PrincipalId, SessionId, Timestamp, TokenId, UserId};
    use serde_json::json;

    const AT: Timestamp = Timestamp::from_micros(0);

    fn principal(id: PrincipalId, role: Option<Role>, scopes: &[Permission]) -> Principal {
        Principal { org: OrgId::new(AT, [0; 10]), id, name: "x".to_owned(), role, owner: None, session: None, scopes: scopes.to_vec() }
    }

    fn user(role: Option<Role>) -> Principal {
        principal(PrincipalId::User(UserId::new(AT, [2; 10])), role, &[])
    }

    fn agent() -> Principal {
        principal(PrincipalId::Agent(SessionId::new(AT, [3; 10])), None, &[])
    }

    fn service(scopes: &[Permission]) -> Principal {
        principal(PrincipalId::Service(TokenId::new(AT, [4; 10])), None, scopes)
    }

    fn automation() -> Principal {
        principal(PrincipalId::Automation(AutomationId::new(AT, [5; 10])), None, &[])
    }

    fn here() -> SpaceId {
        SpaceId::new(AT, [6; 10])
    }

    fn verdicts(principal: &Principal, requires: &[&str], params: &Value) -> Vec<GateVerdict> {
        let requires: Vec<String> = requires.iter().map(|&permission| permission.to_owned()).collect();
        let verdicts = gate(&Call { principal, requires: &requires, tier: Tier::R2, space: &here(), params });
        assert_eq!(verdicts.iter().map(|verdict| verdict.gate).collect::<Vec<_>>(), Gate::ALL);
        verdicts
    }

    fn check(verdicts: &[GateVerdict], gate: Gate, verdict: Verdict, determining: &[&str]) {
        let expected = GateVerdict::new(gate, verdict, determining.iter().map(|&rule| rule.to_owned()).collect());
        assert_eq!(verdicts.iter().find(|verdict| verdict.gate == gate), Some(&expected));
        if verdict == Verdict::Deny {
            assert_eq!(denied(verdicts), Some(&expected));
        }
    }

    #[test]
    fn whoever_may_invoke_holds_the_permissions_of_the_actions_we_ship() {
        let invoke = [Permission::Invoke];
        for principal in [user(Some(Role::Member)), user(Some(Role::Owner)), agent(), service(&invoke), automation()] {
            let verdicts = verdicts(&principal, &["files.write", "notify.send"], &json!({}));
            check(&verdicts, Gate::Rbac, Verdict::Ok, &["builtin.invoke", "builtin.holds:files.write", "builtin.holds:notify.send"]);
            check(&verdicts, Gate::Space, Verdict::Ok, &["builtin.same_space"]);
            for gate in [Gate::Abac, Gate::Consent, Gate::Safety, Gate::Redaction] {
                check(&verdicts, gate, Verdict::NotApplicable, &[]);
            }
            assert_eq!(denied(&verdicts), None);
        }
    }

    #[test]
    fn whoever_may_not_invoke_is_denied_even_what_requires_nothing() {
        for principal in [user(None), service(&[]), service(&[Permission::Read, Permission::ManagePolicy])] {
            check(&verdicts(&principal, &[], &json!({})), Gate::Rbac, Verdict::Deny, &["builtin.invoke"]);
            check(&verdicts(&principal, &["files.write"], &json!({})), Gate::Rbac, Verdict::Deny, &["builtin.invoke"]);
        }
    }

    #[test]
    fn a_permission_nobody_gave_is_denied_and_named() {
        for (permission, rule) in [
            ("billing.refund", "builtin.holds:billing.refund"),
            ("files", "builtin.holds:files"),
            ("files.", "builtin.holds:files."),
            ("filesystem.write", "builtin.holds:filesystem.write"),
            ("Files.write", "builtin.holds:Files.write"),
            ("", "builtin.holds:"),
            ("*", "builtin.holds:*"),
        ] {
            check(&verdicts(&user(Some(Role::Owner)), &["files.read", permission], &json!({})), Gate::Rbac, Verdict::Deny, &[rule]);
        }
    }

    #[test]
    fn a_call_that_names_another_space_or_something_that_is_no_space_is_denied() {
        for (params, expected) in [
            (json!({}), Verdict::Ok),
            (json!(null), Verdict::Ok),
            (json!({ "space_id": here().as_str() }), Verdict::Ok),
            (json!({ "space_id": null }), Verdict::Ok),
            (json!({ "inner": { "space_id": "elsewhere" } }), Verdict::Ok),
            (json!({ "space_id": SpaceId::new(AT, [9; 10]).as_str() }), Verdict::Deny),
            (json!({ "space_id": "" }), Verdict::Deny),
            (json!({ "space_id": here().as_str().to_uppercase() }), Verdict::Deny),
            (json!({ "space_id": [here().as_str()] }), Verdict::Deny),
            (json!({ "space_id": 6 }), Verdict::Deny),
        ] {
            check(&verdicts(&agent(), &[], &params), Gate::Space, expected, &["builtin.same_space"]);
        }
    }

    #[test]
    fn the_first_denial_decides_and_the_others_are_still_told() {
        let verdicts = verdicts(&user(None), &[], &json!({ "space_id": "elsewhere" }));
        assert_eq!(denied(&verdicts).map(|verdict| verdict.gate), Some(Gate::Rbac));
        assert_eq!(verdicts.iter().filter(|verdict| verdict.verdict == Verdict::Deny).count(), 2);
    }
}
