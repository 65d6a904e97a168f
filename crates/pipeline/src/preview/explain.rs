//! Explains what would happen to a call now, and why. It runs the same stages and leaves no trace: nothing is counted, stored or performed.

use crate::error::{Error, ParamError};
use crate::pipeline::Pipeline;
use crate::request::Request;
use crate::told::told_instead;
use crate::walk::NearGrant;
use crate::walk::admit::{Admitted, Entrance};
use crate::walk::decide::Moded;
use crate::walk::gate::{Gated, Gates};
use crate::walk::resolve::Resolved;
use crate::walk::validate::{param_errors, request_field_errors};
use countersign_core::decision::{Drift, GateVerdict, Verdict};
use countersign_core::observe::Observed;
use countersign_core::{ActionId, Call, Decision, Grant, GrantId, Mode, OrgId, Principal, PrincipalId, Session, SessionId, Tier};

/// A hypothetical call to explain.
#[derive(Clone, Debug)]
pub struct Question {
    pub org: OrgId,
    /// The session whose agent would make the call.
    pub session: SessionId,
    pub action: String,
    pub call: Call,
    /// If false, the answer leaves out whether the params fit the schema.
    pub has_params: bool,
    /// The grants for the action that whoever asks may see. The answer says why they do not replace the approval.
    pub known_grants: Vec<Grant>,
}

/// What would happen to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Would {
    Run,
    Ask,
    Deny,
    Quarantine,
    /// The params do not fit, so the call would not even become an invocation.
    Refuse,
}

/// The answer to a `Question`.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub principal: Principal,
    pub session: Session,
    pub action: ActionId,
    pub tier: Tier,
    pub drift: Drift,
    pub would: Would,
    /// One sentence that says what decides.
    pub because: String,
    pub decision: Decision,
    pub gates: Vec<GateVerdict>,
    pub grant: Option<GrantId>,
    /// Grants that cover the action and do not replace the approval that it needs. Only `explain` looks for them.
    pub near_grants: Vec<NearGrant>,
    /// How many people would have to approve, if any.
    pub approvals_needed: Option<u32>,
    pub errors: Vec<ParamError>,
}

impl Explanation {
    /// The explanation as this principal may see it.
    #[must_use]
    pub fn told_to(mut self, principal: &Principal) -> Self {
        let told = told_instead(principal, &mut self.gates);
        match (self.would, told) {
            (Would::Deny | Would::Quarantine, Some(failure)) => (self.would, self.because) = (Would::Deny, failure.message),
            // Params that do not fit are refused before the gates.
            (Would::Run | Would::Ask | Would::Refuse, Some(_)) | (_, None) => {}
        }
        self
    }
}

impl Pipeline {
    pub async fn explain(&self, mut question: Question) -> Result<Explanation, Error> {
        let (has_params, known_grants) = (question.has_params, std::mem::take(&mut question.known_grants));
        let resolved = self.walk.rehearse(self.imagine(question).await?).await?;
        let params = if has_params { param_errors(&resolved).await? } else { Vec::new() };
        let around = request_field_errors(&resolved);
        let refusal = match (params.is_empty(), around.first()) {
            (false, _) => Some("the params do not fit the action's schema".to_owned()),
            (true, Some(error)) => Some(format!("the request is not valid at `{}`", error.pointer)),
            (true, None) => None,
        };
        let (mut explanation, gated) = self.judge(resolved).await?;
        if explanation.would == Would::Ask && refusal.is_none() {
            let is_grantable = self.walk.mode_of(&gated).await?.is_grantable;
            explanation.near_grants = self.walk.near_grants(&gated, is_grantable, has_params, known_grants).await?;
        }
        if let Some(because) = refusal {
            explanation = Explanation { would: Would::Refuse, because, grant: None, approvals_needed: None, ..explanation };
        }
        explanation.errors = [params, around].concat();
        Ok(explanation)
    }

    /// Decides a hypothetical call. Also returns the call as the gates left it.
    pub(crate) async fn judge(&self, resolved: Resolved) -> Result<(Explanation, Gated), Error> {
        let (action, tier, drift) = (resolved.action().id.clone(), resolved.tier(), resolved.drift);
        let Admitted { session, request, space, .. } = &*resolved.admitted;
        let (session, principal, quorum) = (session.clone(), request.principal.clone(), space.quorum.of(tier));
        let rehearsed = resolved.admitted.rehearsed.clone();
        let validated = self.walk.validated_as_it_is(resolved).await?;
        let (gated, denial, is_caught) = match self.walk.gate_readonly(validated).await? {
            Gates::Passed(gated) => (gated, None, false),
            Gates::Denied(gated, failure) => (*gated, Some(failure.message), false),
            Gates::Quarantined(gated, caught) => (*gated, caught.into_iter().next().map(|caught| caught.message), true),
        };
        let Moded { decision, is_grantable, observed, .. } = self.walk.mode_of(&gated).await?;
        let is_unasked = observed.is_some_and(Observed::ran_unasked);
        let asks = decision.mode == Mode::RequireApproval && denial.is_none();
        let grant = if asks { self.walk.fitting_grant(&gated, is_grantable).await?.map(|grant| grant.id().clone()) } else { None };
        let denial = match denial {
            None if decision.mode != Mode::Deny => self.walk.would_be_impossible(&gated, &decision).await.map(|failure| failure.message),
            known => known,
        };
        let would = match (&denial, decision.mode) {
            (Some(_), _) if is_caught => Would::Quarantine,
            (Some(_), _) | (None, Mode::Deny) => Would::Deny,
            // A dry run asks nobody.
            (None, Mode::RequireApproval) if grant.is_none() && rehearsed.is_none() && !is_unasked => Would::Ask,
            (None, Mode::RequireApproval | Mode::Allow) => Would::Run,
        };
        let because = match (&denial, would) {
            (Some(message), _) => message.clone(),
            (None, Would::Run) if rehearsed.is_some() => rehearsed.unwrap_or_default(),
            (None, Would::Run) if is_unasked && grant.is_none() => {
                format!("the space only observes; otherwise a person is asked: {}", because(&decision, &gated.gates, None))
            }
            (None, Would::Ask) => because(&decision, &gated.gates, None) + &self.by_what_is_held(&gated.gates, &session).await?,
            (None, _) => because(&decision, &gated.gates, grant.as_ref()),
        };
        let approvals_needed = (would == Would::Ask).then_some(quorum);
        let gates = gated.gates.clone();
        let (near_grants, errors) = (Vec::new(), Vec::new());
        let explanation = Explanation {
            principal,
            session,
            action,
            tier,
            drift,
            would,
            because,
            decision,
            gates,
            grant,
            near_grants,
            approvals_needed,
            errors,
        };
        Ok((explanation, gated))
    }

    /// If the session's labels are why an approval is needed: which calls set them, and that a new session would not have them.
    async fn by_what_is_held(&self, gates: &[GateVerdict], session: &Session) -> Result<String, Error> {
        let asks = |gate: &GateVerdict| {
            gate.verdict == Verdict::NeedsApproval && gate.determining.iter().any(|rule| rule == policy::scan::TRIFECTA_ID)
        };
        if !gates.iter().any(asks) {
            return Ok(String::new());
        }
        let held = self.held_by_session(&session.org, &session.id).await?;
        let since = held.iter().map(|held| {
            let started = || " by what started its run".to_owned();
            let by = held.label.invocation.as_ref().map_or_else(started, |by| format!(" by `{by}`"));
            let action = held.action.as_ref().map_or_else(String::new, |action| format!(" (`{action}`)"));
            format!("`{}`{by}{action}", held.label.label)
        });
        Ok(format!("; the session holds {}, and a new one would hold neither", since.collect::<Vec<_>>().join(" and ")))
    }

    /// The hypothetical call, resolved.
    async fn imagine(&self, question: Question) -> Result<Resolved, Error> {
        let agent = PrincipalId::Agent(question.session.clone());
        let session = self.ledger().find_session(&question.org, &question.session).await?;
        let session = session.ok_or_else(|| Error::UnknownSession { session: question.session.clone() })?;
        let principal = self.ledger().find_principal(&question.org, &agent).await?;
        let principal = principal.ok_or_else(|| Error::SessionEnded { session: session.id.clone() })?;
        let request = Request::new(principal, session.id.clone(), question.action, question.call);
        self.walk.resolve_readonly(self.walk.admit_in(session, self.walk.draw_id(), request, Entrance::Fresh).await?).await
    }
}

fn because(decision: &Decision, gates: &[GateVerdict], grant: Option<&GrantId>) -> String {
    if let Some(grant) = grant {
        return format!("grant `{grant}` replaces the approval");
    }
    let asking = gates.iter().find(|gate| gate.verdict == Verdict::NeedsApproval);
    match (decision.tightened.last(), asking) {
        (Some(_), Some(gate)) if decision.mode == Mode::RequireApproval => {
            format!("gate `{}` requires approval, by {}", gate.gate.as_str(), gate.determining.join(", "))
        }
        _ => decision.because(),
    }
}
