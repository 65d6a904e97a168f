//! The current mode of an action, without a call.

use crate::error::Error;
use crate::pipeline::Pipeline;
use countersign_core::consent::purposes_of;
use countersign_core::decision::{Drift, Gate};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{Action, Band, Decision, OrgId, Session, Space};
use std::sync::Arc;

/// The current mode and drift of an action.
pub struct Standing {
    pub decision: Decision,
    pub drift: Drift,
}

impl Pipeline {
    /// The current mode of an action: in a session, or without one as in a green space.
    pub async fn standing(&self, org: &OrgId, session: Option<(&Session, &Space)>, action: &Arc<Action>) -> Result<Standing, Error> {
        let version = self.ledger().rules_version(org).await?;
        let automation = session.and_then(|(session, _)| session.automation.as_ref());
        let modes = self.ledger().find_modes(org, automation, &action.id).await?;
        let needs_review = self.catalogue().needs_review(org, action.id.source()).await;
        let drift = self.walk.drift_seen(org, action, needs_review).await?;
        let switches = self.ledger().list_switches(org).await?;
        let covers = |scope: &SwitchScope| match session {
            Some((session, _)) => scope.covers(&session.space, &session.id, &action.id),
            None => match scope {
                SwitchScope::Org => true,
                SwitchScope::Source(source) => source.as_str() == action.id.source(),
                SwitchScope::Action(stopped) => *stopped == action.id,
                SwitchScope::Space(_) | SwitchScope::Session(_) => false,
            },
        };
        // Calls that are answered with their dry run can be made, with the mode that they have.
        let is_rehearsed = |stop: Stop| stop == Stop::AsDryRun && action.has_dry_run();
        let stopped = switches.iter().find(|switch| covers(&switch.scope) && !is_rehearsed(switch.stop));
        let stopped = stopped.map(|switch| switch.scope.clone());
        let rules = policy::Rules { version, modes, band: session.map_or(Band::Green, |(_, space)| space.band), policies: None };
        let asks = match session {
            Some((session, space)) if space.asks_consent && action.needs_consent() && !self.has_consent(session, action).await? => {
                Some(Gate::Consent)
            }
            Some(_) | None => None,
        };
        let decision = policy::decide(&policy::Facts { tier: action.tier, profile: action.profile, drift, asks, stopped }, &rules);
        Ok(Standing { decision, drift })
    }

    /// Whether the person whom the session works for has consented to the action.
    async fn has_consent(&self, session: &Session, action: &Action) -> Result<bool, Error> {
        let Some(owner) = &session.owner else { return Ok(false) };
        let given = self.ledger().find_purposes(&session.org, owner, &session.space).await?;
        Ok(given.iter().any(|purpose| purposes_of(&action.id).contains(purpose)))
    }
}
