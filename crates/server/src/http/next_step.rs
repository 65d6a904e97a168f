//! What to do about an invocation that did not end as asked for: the hint of its problem.

use api::invocation::InvocationView;

pub(super) fn next_step(invocation: &InvocationView) -> String {
    let InvocationView { id, action, .. } = invocation;
    let code = invocation.error.as_ref().map(|error| error.code.as_str());
    match code {
        Some("denied_by_mode") if invocation.mode_source == "inferred_default" => {
            format!("an admin can let a person decide: `countersign mode set {action} require_approval`")
        }
        Some("denied_by_mode") => format!("an admin can take that back: `countersign mode unset {action}`; see `countersign mode list`"),
        Some("stopped") => {
            "see which switch is on with `countersign kill-switch list`; an admin ends it with `countersign kill-switch off`".to_owned()
        }
        Some("host_not_allowed") if invocation.source == "http" => {
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
