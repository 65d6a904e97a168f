//! Rules that require approval although the mode of an action is `allow`. A rule that the caller may not read is left out, without a
//! failure.

use crate::commands::action::never;
use crate::shared::*;
use api::action::ActionView;
use api::identity::{SessionView, SpaceView};
use api::invocation::InvocationView;
use api::rules::{ModeName, ModeView};

/// The automation that the call was made for. If there is one, its own mode is set, not the org's.
pub(super) async fn automation_of(shown: &InvocationView, client: &Client) -> Option<String> {
    client.get::<SessionView>(&["sessions", &shown.session_id], &[]).await.ok()?.read.automation_id
}

/// One line for each rule that would require approval for the same call again.
pub(super) async fn still_asks(shown: &InvocationView, automation: Option<&str>, client: &Client) -> Vec<String> {
    let mut asking = Vec::new();
    if let Ok(space) = client.get::<SpaceView>(&["spaces", &shown.space_id], &[]).await
        && asks(&space.read.band, &shown.tier)
    {
        asking.push(format!(
            "band {} of space {}, for {} and above",
            space.read.band,
            clean::line(&space.read.name),
            least(&space.read.band)
        ));
    }
    if automation.is_some() && is_locked(shown, client).await {
        asking.push(format!("the org's mode of {}, which is locked: an automation's can only be stricter", clean::line(&shown.action)));
    }
    if let Ok(action) = client.get::<ActionView>(&["actions", &shown.action], &[]).await {
        asking.extend(never::unattended(&action.read));
    }
    for gate in shown.gates.iter().filter(|gate| gate.verdict == "needs_approval") {
        asking.push(format!("gate {}, for calls like this one ({})", clean::line(&gate.gate), clean::line(&gate.determining.join(", "))));
    }
    asking
}

async fn is_locked(shown: &InvocationView, client: &Client) -> bool {
    let modes = client.pages::<ModeView>(&["modes"], &[]).all().await.unwrap_or_default();
    let own = modes.iter().find(|(mode, _)| mode.scope == "org" && mode.action == shown.action);
    own.is_some_and(|(mode, _)| mode.locked && mode.mode != ModeName::Allow)
}

/// The lowest tier that a band requires approval for; `nothing` if there is none.
fn least(band: &str) -> &'static str {
    match band {
        "amber" => "R2",
        "red" => "R1",
        "black" => "R0",
        _ => "nothing",
    }
}

/// Tiers are compared by name, which is also their order.
fn asks(band: &str, tier: &str) -> bool {
    least(band) != "nothing" && tier >= least(band)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_asks_from_some_tier_on() {
        let asked = |band: &str| ["R0", "R1", "R2", "R3"].into_iter().filter(|tier| asks(band, tier)).count();
        assert_eq!(["green", "amber", "red", "black"].map(asked), [0, 2, 3, 4]);
    }
}
