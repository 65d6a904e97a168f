//! Stage 5: run now, ask a person, or refuse. The only place, with `hold`, that clears a call to run.

use crate::gate::Gated;
use crate::hold::Redeemed;
use crate::stage::Stage;
use crate::{Error, Pipeline};
use countersign_core::decision::Drift;
use countersign_core::invocation::{Failure, Intention};
use countersign_core::{Decision, Digest, Mode, Tier};

/// What policy answered.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Decided {
    Cleared(Cleared),
    Pending(Box<Pending>),
    /// A dry run that is not denied: it may say what would change, and nothing more.
    Preview(Box<PreviewOnly>),
    Denied(Box<Denied>),
}

/// An invocation that policy, or a person, has cleared to run. `execute` accepts nothing else.
///
/// Fields are private to this file. `decide` builds one on `allow`; `hold::resume` builds one by handing in a `Redeemed`
/// approval, which only `hold.rs` can make. There is no third way that compiles.
pub(crate) struct Cleared {
    gated: Gated,
    decision: Decision,
    policy_slice: Digest,
    approval: Option<Redeemed>,
}

/// A call that policy refused.
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
}

/// A call that may be previewed. It cannot become `Cleared`.
pub(crate) struct PreviewOnly {
    pub(crate) gated: Gated,
    pub(crate) decision: Decision,
    pub(crate) policy_slice: Digest,
}

impl Cleared {
    fn by_policy(gated: Gated, decision: Decision, policy_slice: Digest) -> Self {
        Self { gated, decision, policy_slice, approval: None }
    }

    pub(crate) fn by_person(gated: Gated, decision: Decision, policy_slice: Digest, approval: Redeemed) -> Self {
        Self { gated, decision, policy_slice, approval: Some(approval) }
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
        self.approval.as_ref()
    }
}

impl Pipeline {
    pub(crate) async fn decide(&self, gated: Gated) -> Result<Decided, Error> {
        let _timed = self.timed(Stage::Decide);
        let (decision, policy_slice) = self.mode_of(&gated).await?;
        let intention = gated.validated.resolved.admitted.request.intention;
        if intention == Intention::DryRun
            && let Some(failure) = self.reads_too_much(&gated).await?
        {
            return Ok(Decided::Denied(Box::new(Denied { gated, decision, policy_slice, failure })));
        }
        Ok(match (decision.mode, intention) {
            (Mode::Deny, _) => {
                let failure = Failure { code: "denied_by_mode".into(), message: denial_of(&gated, &decision) };
                Decided::Denied(Box::new(Denied { gated, decision, policy_slice, failure }))
            }
            (Mode::Allow | Mode::RequireApproval, Intention::DryRun) => {
                Decided::Preview(Box::new(PreviewOnly { gated, decision, policy_slice }))
            }
            (Mode::RequireApproval, Intention::Effect) => Decided::Pending(Box::new(Pending { gated, decision, policy_slice })),
            (Mode::Allow, Intention::Effect) => Decided::Cleared(Cleared::by_policy(gated, decision, policy_slice)),
        })
    }

    /// A preview that shows what a read would show is held to that read's mode: it must not be the way around it.
    async fn reads_too_much(&self, gated: &Gated) -> Result<Option<Failure>, Error> {
        let resolved = &gated.validated.resolved;
        let Some(read) = &resolved.action().preview_reads else {
            return Ok(None);
        };
        let session = &resolved.admitted.session;
        let found = self.inner.catalogue.find(&session.org, read).await;
        let found = found.map_err(|error| Error::SourceUnavailable { message: error.to_string() })?;
        let modes = self.ledger().find_modes(&session.org, session.automation.as_ref(), read).await?;
        // An action that is not there cannot be allowed.
        let tier = found.map_or(Tier::R4, |(_, definition)| definition.action.tier);
        let facts = policy::Facts { tier, drift: Drift::None, asks: None };
        let mode = policy::decide(&facts, &policy::Rules { modes, band: resolved.admitted.space.band }).mode;
        Ok((mode != Mode::Allow).then(|| Failure {
            code: "denied_by_mode".into(),
            message: format!("a dry run of `{}` shows what `{read}` reads, and that is `{mode}`", resolved.action().id),
        }))
    }

    /// A gate said no. The mode is still resolved, so that the receipt shows the whole decision.
    pub(crate) async fn refuse(&self, gated: Gated, failure: Failure) -> Result<Box<Denied>, Error> {
        let (decision, policy_slice) = self.mode_of(&gated).await?;
        Ok(Box::new(Denied { gated, decision, policy_slice, failure }))
    }

    /// The decision, and the digest of the rules that made it.
    pub(crate) async fn mode_of(&self, gated: &Gated) -> Result<(Decision, Digest), Error> {
        let resolved = &gated.validated.resolved;
        let session = &resolved.admitted.session;
        let modes = self.ledger().find_modes(&session.org, session.automation.as_ref(), &resolved.action().id).await?;
        let rules = policy::Rules { modes, band: resolved.admitted.space.band };
        let facts = policy::Facts { tier: resolved.action().tier, drift: Drift::None, asks: policy::asking(&gated.gates) };
        Ok((policy::decide(&facts, &rules), policy::digest::policy_slice(&rules)))
    }
}

fn denial_of(gated: &Gated, decision: &Decision) -> String {
    let action = gated.validated.resolved.action();
    format!("action `{}` ({}) is denied: mode `{}` from `{}`", action.id, action.tier, decision.mode, decision.source.as_str())
}
