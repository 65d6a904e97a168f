//! What to do about an invocation that did not end as asked for: the hint of its problem.

use countersign_core::decision::{ModeSource, Reason};
use countersign_core::{Invocation, Mode};

pub(super) fn next_step(invocation: &Invocation) -> String {
    let Invocation { id, action, .. } = invocation;
    let code = invocation.failure.as_ref().map(|failure| failure.code.as_ref());
    match code {
        Some("denied_by_mode") => mode_that_denied(invocation),
        Some("stopped") => {
            "see which switch is on with `countersign kill-switch list`; an admin ends it with `countersign kill-switch off org`, \
             or what it names in place of `org`"
                .to_owned()
        }
        Some("host_not_allowed") if action.source() == "http" => {
            "the operator adds it, with its scheme and port unless they are https and 443, to `allowed_hosts` under `[http]` in \
             `countersign.toml`, or to COUNTERSIGN_HTTP_ALLOWED_HOSTS"
                .to_owned()
        }
        Some("path_outside_workspace" | "path_not_allowed") => {
            "name files from the workspace on, such as `notes/today.md`; see what is there with `countersign action invoke files.list`"
                .to_owned()
        }
        Some("file_not_found") => "see what is there with `countersign action invoke files.list`".to_owned(),
        Some("breaker_open") => "see how its target fares with `countersign breaker list`".to_owned(),
        _ => format!("see why with `countersign explain {id}`"),
    }
}

/// Who said no decides who can say otherwise, and how.
fn mode_that_denied(invocation: &Invocation) -> String {
    let Invocation { id, action, decision, .. } = invocation;
    if decision.mode != Mode::Deny {
        // A dry run that would show what another action reads: its message names that one.
        return "an admin can change the mode of the action it names; see `countersign mode list`".to_owned();
    }
    if decision.base != Mode::Deny {
        return match decision.tightened.last() {
            Some(Reason::Band { .. }) => "an admin can say that the space tolerates more, with `countersign space band`".to_owned(),
            Some(Reason::Drift { .. }) => format!("an admin looks at what changed with `countersign action review {action}`"),
            Some(Reason::DangerIsNeverAllowed | Reason::PackageNeverUnattended | Reason::Gate { .. } | Reason::Stopped { .. }) | None => {
                format!("see why with `countersign explain {id}`")
            }
        };
    }
    match decision.source {
        ModeSource::AutomationOverride => {
            format!("an admin can take that back: `countersign mode unset {action} --automation ID`; `countersign mode list` names it")
        }
        ModeSource::OrgDefault => format!("an admin can take that back: `countersign mode unset {action}`; see `countersign mode list`"),
        ModeSource::InferredDefault => {
            format!("an admin can let a person decide: `countersign mode set {action} require_approval`")
        }
    }
}
