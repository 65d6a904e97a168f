//! Rules that require approval although the mode of an action is `allow`. A rule that the caller may not read is left out, without a
//! failure.

use crate::shared::*;
use api::action::ActionView;
use api::identity::{SessionView, SpaceView};
use api::invocation::InvocationView;
use api::rules::ModeView;
use countersign_core::decision::{Reason, Verdict};
use countersign_core::{Mode, Tier};

/// The automation that the call was made for. If there is one, its own mode is set, not the org's.
pub(super) async fn automation_of(shown: &InvocationView, client: &Client) -> Option<String> {
    client.get::<SessionView>(&["sessions", &shown.session_id], &[]).await.ok()?.read.automation_id
}

/// One line for each rule that would require approval for the same call again.
pub(super) async fn still_asks(shown: &InvocationView, automation: Option<&str>, client: &Client) -> Vec<String> {
    let mut asking = Vec::new();
    if let Ok(space) = client.get::<SpaceView>(&["spaces", &shown.space_id], &[]).await
        && let Some(least) = Tier::ALL.into_iter().find(|tier| space.read.band.tolerated(*tier) != Mode::Allow)
        && shown.tier >= least
    {
        asking.push(format!("band {} of space {}, for {least} and above", space.read.band.as_str(), clean::line(&space.read.name)));
    }
    if automation.is_some() && is_locked(shown, client).await {
        asking.push(format!("the org's mode of {}, which is locked: an automation's can only be stricter", clean::line(&shown.action)));
    }
    if let Ok(action) = client.get::<ActionView>(&["actions", &shown.action], &[]).await {
        asking.extend(Reason::never_unattended(action.read.tier, action.read.profile).map(|reason| reason.to_string()));
    }
    for gate in shown.gates.iter().filter(|gate| gate.verdict == Verdict::NeedsApproval) {
        asking.push(format!("gate {}, for calls like this one ({})", gate.gate, clean::line(&gate.determining.join(", "))));
    }
    asking
}

async fn is_locked(shown: &InvocationView, client: &Client) -> bool {
    let modes = client.pages::<ModeView>(&["modes"], &[]).all().await.unwrap_or_default();
    let own = modes.iter().find(|(mode, _)| mode.scope == "org" && mode.action == shown.action);
    own.is_some_and(|(mode, _)| mode.locked && mode.mode != Mode::Allow)
}
