//! Stage 5: run now, ask a person, or deny. Only this stage and `hold` clear a call to run.

use crate::error::Error;
use crate::walk::admit::{Admitted, Compensation};
use crate::walk::binding::Redeemed;
use crate::walk::gate::Gated;
use crate::walk::grant::Fitting;
use crate::walk::ground::Walk;
use crate::walk::stage::Stage;
use countersign_core::action::{Class, Profile};
use countersign_core::decision::{Drift, Reason};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::limits::LOW_TIMEOUT_MS;
use countersign_core::observe::Observed;
use countersign_core::session::SelfApproval;
use countersign_core::switch::SwitchScope;
use countersign_core::{Amount, Decision, Digest, GrantId, Mode, PrincipalId, Tier};

/// What the policy decided.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Decided {
    Cleared(Cleared),
    Pending(Box<Pending>),
    /// A dry run that is not denied. It may only report what would change.
    Preview(Box<PreviewOnly>),
    Denied(Box<Denied>),
}

/// An invocation that policy, or a person, has cleared to run. `execute` accepts nothing else.
///
/// The fields are private to this file. `decide` builds one on `allow`, or with a grant that `grant.rs` found to fit, or with a
/// `Compensation` from a batch whose part's effect stands, or in a space that only observes, below R4. `hold::redeem` builds one from a
/// `Redeemed` approval, which exists only for an approved call whose binding still holds. No other way compiles.
pub(crate) struct Cleared {
    gated: Gated,
    decision: Decision,
    policy_slice: Digest,
    by: Clearance,
}

/// What cleared the call.
enum Clearance {
    Policy,
    Grant(Fitting),
    Batch,
    Person(Redeemed),
    /// Nobody was asked, because the space only observes.
    Observed(Observed),
}

/// A call that was denied.
pub(crate) struct Denied {
    pub(crate) gated: Gated,
    pub(crate) decision: Decision,
    pub(crate) policy_slice: Digest,
    pub(crate) failure: Failure,
}

/// A call that waits for a person.
pub(crate) struct Pending {
    pub(crate) gated: Gated,
    pub(crate) decision: Decision,
    pub(crate) policy_slice: Digest,
    /// Set where the space only observes, and asks all the same.
    pub(crate) observed: Option<Observed>,
}

/// A call that may be previewed. It cannot become `Cleared`.
pub(crate) struct PreviewOnly {
    pub(crate) gated: Gated,
    pub(crate) decision: Decision,
    pub(crate) policy_slice: Digest,
}

impl Decided {
    /// The same call, denied because it cannot be performed.
    pub(crate) fn refused(self, failure: Failure) -> Self {
        let (gated, decision, policy_slice) = match self {
            Self::Cleared(cleared) => return Self::Denied(Box::new(cleared.refused(failure))),
            Self::Pending(pending) => (pending.gated, pending.decision, pending.policy_slice),
            Self::Preview(preview) => (preview.gated, preview.decision, preview.policy_slice),
            Self::Denied(denied) => return Self::Denied(denied),
        };
        Self::Denied(Box::new(Denied { gated, decision, policy_slice, failure }))
    }
}

/// A run keeps what it has read, and reads again what it lost in a crash. So the key of a quick read promises nothing, and it needs no intent.
fn without_needless_key(mut gated: Gated) -> Gated {
    let resolved = &gated.validated.resolved;
    let is_of_run = matches!(resolved.admitted.request.principal.id, PrincipalId::Automation(_));
    let is_quick = resolved.action().timeout_ms <= LOW_TIMEOUT_MS;
    if is_of_run && is_quick && resolved.tier().class() == Class::Read {
        gated.validated.idempotency_key = None;
    }
    gated
}

impl Cleared {
    fn by_policy(gated: Gated, decision: Decision, policy_slice: Digest) -> Self {
        Self { gated, decision, policy_slice, by: Clearance::Policy }
    }

    fn by_grant(gated: Gated, decision: Decision, policy_slice: Digest, grant: Fitting) -> Self {
        Self { gated, decision, policy_slice, by: Clearance::Grant(grant) }
    }

    fn by_batch(gated: Gated, decision: Decision, policy_slice: Digest, _permission: &Compensation) -> Self {
        Self { gated, decision, policy_slice, by: Clearance::Batch }
    }

    fn by_observing(gated: Gated, decision: Decision, policy_slice: Digest, observed: Observed) -> Self {
        Self { gated, decision, policy_slice, by: Clearance::Observed(observed) }
    }

    pub(crate) fn by_person(gated: Gated, decision: Decision, policy_slice: Digest, approval: Redeemed) -> Self {
        Self { gated, decision, policy_slice, by: Clearance::Person(approval) }
    }

    pub(crate) const fn gated(&self) -> &Gated {
        &self.gated
    }

    pub(crate) const fn decision(&self) -> &Decision {
        &self.decision
    }

    pub(crate) const fn policy_slice(&self) -> Digest {
        self.policy_slice
    }

    pub(crate) const fn approval(&self) -> Option<&Redeemed> {
        match &self.by {
            Clearance::Person(redeemed) => Some(redeemed),
            Clearance::Policy | Clearance::Grant(_) | Clearance::Batch | Clearance::Observed(_) => None,
        }
    }

    pub(crate) const fn is_by_batch(&self) -> bool {
        matches!(self.by, Clearance::Batch)
    }

    pub(crate) const fn grant(&self) -> Option<&GrantId> {
        match &self.by {
            Clearance::Grant(fitting) => Some(fitting.id()),
            Clearance::Policy | Clearance::Batch | Clearance::Person(_) | Clearance::Observed(_) => None,
        }
    }

    /// What it takes of the sum that its grant bounds.
    pub(crate) const fn spends(&self) -> Option<Amount> {
        match &self.by {
            Clearance::Grant(fitting) => fitting.spends(),
            Clearance::Policy | Clearance::Batch | Clearance::Person(_) | Clearance::Observed(_) => None,
        }
    }

    /// Set if nobody was asked, because the space only observes.
    pub(crate) const fn observed(&self) -> Option<Observed> {
        match &self.by {
            Clearance::Observed(observed) => Some(*observed),
            Clearance::Policy | Clearance::Grant(_) | Clearance::Batch | Clearance::Person(_) => None,
        }
    }

    pub(crate) const fn rules_version(&self) -> i64 {
        self.gated.validated.resolved.admitted.rules_version
    }

    /// The same call, which ends without being performed.
    pub(crate) fn refused(self, failure: Failure) -> Denied {
        let Self { gated, decision, policy_slice, by: _ } = self;
        Denied { gated, decision, policy_slice, failure }
    }

    /// See `Gated::undecided`.
    pub(crate) fn undecided(self) -> Box<Admitted> {
        self.gated.undecided()
    }
}

impl Walk {
    pub(crate) async fn decide(&self, gated: Gated) -> Result<Decided, Error> {
        let _timed = self.timed(Stage::Decide);
        let Moded { decision, policy_slice, is_grantable, observed, stopped_because } = self.mode_of(&gated).await?;
        let intention = gated.validated.resolved.admitted.request.intention;
        if intention == Intention::DryRun
            && let Some(failure) = self.reads_too_much(&gated).await?
        {
            return Ok(Decided::Denied(Box::new(Denied { gated, decision, policy_slice, failure })));
        }
        let leave = gated.validated.resolved.admitted.entrance.compensation().cloned();
        Ok(match (decision.mode, intention, leave) {
            (Mode::Deny, _, _) => {
                let failure = denial_of(&gated, &decision, stopped_because.as_deref());
                Decided::Denied(Box::new(Denied { gated, decision, policy_slice, failure }))
            }
            (Mode::Allow | Mode::RequireApproval, Intention::DryRun, _) => {
                Decided::Preview(Box::new(PreviewOnly { gated, decision, policy_slice }))
            }
            (Mode::RequireApproval, Intention::Revert, Some(leave)) => {
                Decided::Cleared(Cleared::by_batch(gated, decision, policy_slice, &leave))
            }
            (Mode::RequireApproval, Intention::Effect | Intention::Revert, _) => match self.fitting_grant(&gated, is_grantable).await? {
                Some(grant) => Decided::Cleared(Cleared::by_grant(gated, decision, policy_slice, grant)),
                None => match observed {
                    Some(unasked) if unasked.ran_unasked() => {
                        Decided::Cleared(Cleared::by_observing(gated, decision, policy_slice, unasked))
                    }
                    Some(_) | None => Decided::Pending(Box::new(Pending { gated, decision, policy_slice, observed })),
                },
            },
            (Mode::Allow, Intention::Effect | Intention::Revert, _) => {
                Decided::Cleared(Cleared::by_policy(without_needless_key(gated), decision, policy_slice))
            }
        })
    }

    /// The preview of some actions shows what a read would show. Such a dry run needs the read's mode to be `allow`, so that it is no way
    /// around the read's rules.
    pub(crate) async fn reads_too_much(&self, gated: &Gated) -> Result<Option<Failure>, Error> {
        let resolved = &gated.validated.resolved;
        let Some(read) = &resolved.action().preview_reads else {
            return Ok(None);
        };
        let session = &resolved.admitted.session;
        let found = self.inner.catalogue.find(session, read).await;
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        let modes = self.ledger().find_modes(&session.org, session.automation.as_ref(), read).await?;
        // An action that does not exist counts as R4, so it is never allowed.
        let tier = found.map_or(Tier::R4, |(_, definition)| definition.action.tier);
        let facts = policy::Facts { tier, profile: Profile::InProcess, drift: Drift::None, asks: None, stopped: None };
        let rules = policy::Rules { version: resolved.admitted.rules_version, modes, band: resolved.admitted.space.band, policies: None };
        let mode = policy::decide(&facts, &rules).mode;
        Ok((mode != Mode::Allow).then(|| Failure {
            code: "denied_by_mode".into(),
            message: format!("a dry run of `{}` shows what `{read}` reads, and that is `{mode}`", resolved.action().id),
        }))
    }

    /// A gate denied the call. The mode is still decided, so that the receipt shows the whole decision.
    pub(crate) async fn refuse(&self, gated: Gated, failure: Failure) -> Result<Box<Denied>, Error> {
        let Moded { decision, policy_slice, .. } = self.mode_of(&gated).await?;
        Ok(Box::new(Denied { gated, decision, policy_slice, failure }))
    }

    /// The decision, and the digest of the rules it was made by.
    pub(crate) async fn mode_of(&self, gated: &Gated) -> Result<Moded, Error> {
        let resolved = &gated.validated.resolved;
        let Admitted { session, space, request, rules_version, .. } = &*resolved.admitted;
        let action = &resolved.action().id;
        let modes = self.ledger().find_modes(&session.org, session.automation.as_ref(), action).await?;
        let switches = self.ledger().list_switches(&session.org).await?;
        let stopped = switches.iter().find(|switch| {
            let spared = switch.stop.spares_dry_runs() && request.intention == Intention::DryRun;
            !spared && switch.scope.covers(&session.space, &session.id, action)
        });
        let rules = policy::Rules { version: *rules_version, modes, band: space.band, policies: gated.policies };
        let facts = policy::Facts {
            tier: resolved.tier(),
            profile: resolved.action().profile,
            drift: resolved.drift,
            asks: policy::asking(&gated.gates),
            stopped: stopped.map(|switch| switch.scope.clone()),
        };
        let stopped_because = stopped.map(|switch| switch.reason.clone());
        let decision = policy::decide(&facts, &rules);
        let is_grantable = policy::is_grantable(&decision, &facts, &rules);
        let observed = (space.observes && decision.mode == Mode::RequireApproval).then(|| {
            let one_person = space.quorum.of(facts.tier) <= 1 && space.self_approval == SelfApproval::Allowed;
            policy::observed(&decision, &facts, &rules, resolved.action().tier, one_person)
        });
        Ok(Moded { policy_slice: policy::digest::policy_slice(&rules), decision, is_grantable, observed, stopped_because })
    }
}

/// The mode that the rules give a call.
pub(crate) struct Moded {
    pub(crate) decision: Decision,
    pub(crate) policy_slice: Digest,
    /// Whether a grant may replace the approval.
    pub(crate) is_grantable: bool,
    /// Set if the space only observes, and the decision asks for a person.
    pub(crate) observed: Option<Observed>,
    /// Why the kill switch that stops the call was turned on.
    pub(crate) stopped_because: Option<String>,
}

impl Moded {
    /// The kill switch that stops the call, if there is one.
    pub(crate) fn stopped(&self) -> Option<&SwitchScope> {
        stopped_by(&self.decision)
    }
}

fn stopped_by(decision: &Decision) -> Option<&SwitchScope> {
    decision.tightened.iter().find_map(|reason| match reason {
        Reason::Stopped { scope } => Some(scope),
        Reason::DangerIsNeverAllowed
        | Reason::PackageNeverUnattended
        | Reason::Band { .. }
        | Reason::Drift { .. }
        | Reason::Gate { .. } => None,
    })
}

fn denial_of(gated: &Gated, decision: &Decision, stopped_because: Option<&str>) -> Failure {
    let (action, tier) = (gated.validated.resolved.action(), gated.validated.resolved.tier());
    if let Some(scope) = stopped_by(decision) {
        let why = stopped_because.map(|reason| format!(" (“{}”)", policy::redact_text(reason))).unwrap_or_default();
        let message = format!("a kill switch on `{scope}` is on{why}: nothing it covers is executed");
        return Failure { code: "stopped".into(), message };
    }
    let message = format!("action `{}` ({tier}) is denied: {}", action.id, decision.because());
    Failure { code: "denied_by_mode".into(), message }
}
