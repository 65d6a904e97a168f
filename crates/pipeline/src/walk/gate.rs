//! Stage 4: the gates, which run before the mode is decided. Every gate records its verdict; the first denial decides. The last two gates
//! look at the content and run only if no other gate denied: `safety` quarantines dangerous calls, `redaction` redacts the params.

mod outgoing;

use crate::error::Error;
use crate::walk::admit::Admitted;
use crate::walk::ground::Walk;
use crate::walk::inputs::digested;
use crate::walk::policies::{Slice, slice_of};
use crate::walk::resolve::Resolved;
use crate::walk::stage::Stage;
use crate::walk::truncate::truncate;
use crate::walk::validate::Validated;
use countersign_core::call::Older;
use countersign_core::consent::purpose_of;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::effect::{Aftermath, Purpose};
use countersign_core::invocation::{Failure, TakenOut};
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use countersign_core::principal::Standing;
use countersign_core::quarantine::Caught;
use countersign_core::{ActionId, Band, Call, Decision, Digest, Invocation, Principal, Space, SpaceId, Status, Timestamp, UserId};
use policy::scan::{SessionLabel, Severity};
use policy::{CallFacts, Finding, Provenance};
use serde_json::Value;
use std::collections::BTreeSet;

/// The code of a failure that says a gate denied the call.
pub(crate) const DENIED_BY_GATE: &str = "denied_by_gate";

/// A call that has passed through the gates, with their verdicts.
pub(crate) struct Gated {
    pub(crate) validated: Validated,
    pub(crate) gates: Vec<GateVerdict>,
    /// The digest of the org's policies that concern the action.
    pub(crate) policies: Option<Digest>,
    pub(crate) taken_out: Option<TakenOut>,
    /// The params as the caller sent them, if they were redacted since.
    as_sent: Option<Value>,
    /// The params to store, if the call was denied before the redaction gate and the space asks for redaction.
    for_the_record: Option<Value>,
}

impl Gated {
    /// The params as people see them: without secrets.
    pub(crate) fn params_told(&self) -> Value {
        policy::redact(self.for_the_record.as_ref().unwrap_or(&self.validated.resolved.admitted.request.call.params)).value
    }

    /// The call as it is stored: without secrets, truncated, and without the params of a quarantined call, which are sealed for review.
    fn call_told(&self, status: Status) -> Call {
        let call = &self.validated.resolved.admitted.request.call;
        Call {
            params: match status {
                Status::Quarantined => crate::walk::quarantine::marker(),
                Status::Pending
                | Status::Approved
                | Status::Running
                | Status::Succeeded
                | Status::Failed
                | Status::Denied
                | Status::Expired
                | Status::Reverted
                | Status::InDoubt
                | Status::Cancelled => truncate(self.params_told(), PARAMS_STORED_BYTES_MAX),
            },
            reason: call.reason.as_deref().map(policy::redact_text),
            claimed: call.claimed.as_ref().map(crate::walk::claimed::without_secrets),
            scope: call.scope.clone(),
            bounds: call.bounds.clone(),
            commands: call.commands.clone(),
            provenance: call.provenance.clone(),
            older: call.older.as_ref().map(|older| self.older_told(older, status)),
        }
    }

    /// With the inputs of an action request. Those of a quarantined call are sealed with its params, and a plan's answer tells none.
    fn older_told(&self, older: &Older, status: Status) -> Older {
        let is_told = older.plan.is_none() && status != Status::Quarantined;
        let inputs = is_told.then(|| digested(&self.params_told(), &self.validated.resolved.action().idempotency_key_fields));
        Older { inputs: inputs.map(|inputs| truncate(inputs, PARAMS_STORED_BYTES_MAX)), ..older.clone() }
    }

    /// Whether the call works in the workspace of its space, which only spaces with members have.
    pub(crate) fn has_own_workspace(&self) -> bool {
        self.validated.resolved.admitted.space.members.is_some()
    }

    /// The invocation row as it is stored from here on; later stages fill in the rest.
    pub(crate) fn to_invocation(&self, status: Status, decision: &Decision) -> Box<Invocation> {
        let resolved = &self.validated.resolved;
        let Admitted { id, created_at, session, request, .. } = &*resolved.admitted;
        Box::new(Invocation {
            id: id.clone(),
            org: session.org.clone(),
            space: session.space.clone(),
            has_own_workspace: self.has_own_workspace(),
            session: session.id.clone(),
            principal: request.principal.id.clone(),
            owner: request.principal.owner.clone(),
            asked_by: session.asked_by.clone(),
            device: request.principal.device.clone(),
            action: resolved.action().id.clone(),
            connection: resolved.connection().cloned(),
            tier: resolved.tier(),
            status,
            intention: request.intention,
            decision: decision.clone(),
            gates: self.gates.clone(),
            digests: self.validated.digests,
            call: self.call_told(status),
            result: None,
            evidence: None,
            purpose: Purpose::Effect,
            aftermath: Aftermath::default(),
            reverses: request.reverses.clone(),
            batch: resolved.admitted.entrance.part().cloned(),
            meter: Default::default(),
            failure: None,
            denied_by: None,
            idempotency_key: self.validated.idempotency_key.clone(),
            binding: None,
            deadline: None,
            pending_from_seq: None,
            approvals: Vec::new(),
            answer: None,
            edit: None,
            grant: None,
            spends: None,
            charge: None,
            observed: None,
            redacted: self.taken_out.clone(),
            released_from: resolved.admitted.entrance.released_from().cloned(),
            policies: self.policies,
            announced: None,
            attempts: 0,
            created_at: *created_at,
            taken_up_at: None,
            started_at: None,
            ended_at: None,
            receipt: None,
            trace_id: request.trace_id.clone(),
        })
    }

    /// Returns the request as it was sent, to be decided again: the rules changed before this decision could be used.
    pub(crate) fn undecided(self) -> Box<Admitted> {
        let mut admitted = self.validated.resolved.admitted;
        if let Some(params) = self.as_sent {
            admitted.request.call.params = params;
        }
        admitted
    }

    fn set(&mut self, verdict: GateVerdict) {
        if let Some(said) = self.gates.iter_mut().find(|said| said.gate == verdict.gate) {
            *said = verdict;
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Gates {
    Passed(Gated),
    /// A gate denied the call; the failure names the gate and the rule.
    Denied(Box<Gated>, Failure),
    /// The call ends here, and its content is kept for review.
    Quarantined(Box<Gated>, Vec<Caught>),
}

impl Walk {
    /// `yes` is the approval, if the call enters again with one.
    pub(crate) async fn gate(&self, validated: Validated, yes: Option<policy::Approval>) -> Result<Gates, Error> {
        let _timed = self.timed(Stage::Gate);
        let (gated, slice) = self.ruled(validated, yes).await?;
        self.note_ruling(&gated, slice).await?;
        self.look_inside(gated).await
    }

    /// Runs the gates for a preview: nothing is stored, logged or counted.
    pub(crate) async fn gate_readonly(&self, validated: Validated) -> Result<Gates, Error> {
        let (gated, _) = self.ruled(validated, None).await?;
        self.look_inside(gated).await
    }

    /// Archives the policies that were applied, and raises an alert if one of them could not be evaluated.
    async fn note_ruling(&self, gated: &Gated, slice: Option<Slice>) -> Result<(), Error> {
        let resolved = &gated.validated.resolved;
        for broken in gated.gates.iter().filter(|verdict| !verdict.errors.is_empty()) {
            tracing::error!(gate = broken.gate.as_str(), action = %resolved.action().id, errors = ?broken.errors, "a policy could not be evaluated; the call is denied");
            metrics::counter!("countersign_policy_errors_total", "gate" => broken.gate.as_str()).increment(1);
        }
        match slice {
            Some(Slice { digest, text }) => self.archive_once(&resolved.admitted.session.org, digest, text).await,
            None => Ok(()),
        }
    }

    /// Runs the two gates that look at the content.
    async fn look_inside(&self, mut gated: Gated) -> Result<Gates, Error> {
        if let Some(denial) = policy::denied(&gated.gates) {
            let failure = denied_by(denial);
            gated.for_the_record = self.taken_out_for_the_record(&gated).await?;
            return Ok(Gates::Denied(Box::new(gated), failure));
        }
        let caught = self.scan(&mut gated).await?;
        if !caught.is_empty() {
            return Ok(Gates::Quarantined(Box::new(gated), caught));
        }
        self.take_out(gated).await
    }

    /// Runs the first four gates, which apply our own rules and the org's policies.
    async fn ruled(&self, validated: Validated, yes: Option<policy::Approval>) -> Result<(Gated, Option<Slice>), Error> {
        let policies = self.inner.compiled.of(&validated.resolved.admitted.session.org, self.ledger()).await?;
        let gates = self.verdicts(&validated, policies.as_deref(), yes.as_ref()).await?;
        let slice = slice_of(policies.as_deref(), validated.resolved.action());
        let policies = slice.as_ref().map(|slice| slice.digest);
        Ok((Gated { validated, gates, policies, taken_out: None, as_sent: None, for_the_record: None }, slice))
    }

    /// Whether the first four gates let the call pass with this approval.
    pub(crate) async fn passes_with(&self, gated: &Gated, yes: &policy::Approval) -> Result<bool, Error> {
        let policies = self.inner.compiled.of(&gated.validated.resolved.admitted.session.org, self.ledger()).await?;
        let gates = self.verdicts(&gated.validated, policies.as_deref(), Some(yes)).await?;
        Ok(policy::denied(&gates).is_none())
    }

    async fn verdicts(
        &self,
        validated: &Validated,
        policies: Option<&policy::Policies>,
        yes: Option<&policy::Approval>,
    ) -> Result<Vec<GateVerdict>, Error> {
        let resolved = &validated.resolved;
        let Admitted { space, request, .. } = &*resolved.admitted;
        let action = resolved.action();
        let standing = self.standing_of(&request.principal).await?;
        let cross_space_listed = self.is_listed_crossing(&request.principal, space, &request.call.params, &action.id).await?;
        let mut facts = Facts::default();
        // Only the org's policies need the remaining facts.
        if policies.is_some() {
            facts = self.facts(validated).await?;
        }
        let call = CallFacts {
            principal: &request.principal,
            action,
            space,
            params: &request.call.params,
            claimed_space: request.call.claimed_space(),
            standing,
            now: facts.now,
            consents: &facts.consents,
            drift: resolved.drift,
            labels: &facts.labels,
            cross_space_listed,
            approval: yes,
            obtainable: facts.obtainable.as_ref(),
        };
        Ok(policy::gate(&call, policies))
    }

    async fn facts(&self, validated: &Validated) -> Result<Facts, Error> {
        let Admitted { session, space, request, .. } = &*validated.resolved.admitted;
        let org = &session.org;
        let now = self.ledger().now().await?;
        let consents = self.purposes_of(&request.principal, space).await?;
        let mut labels = self.ledger().find_labels(org, &session.id).await?.to_vec();
        labels.extend(request.call.labels());
        let may = |user: &&UserId| space.lets_approve(user, request.principal.owner.as_ref(), session);
        let by: Vec<_> = self.ledger().list_approvers(org).await?.iter().filter(may).cloned().collect();
        let expires = now.plus_seconds(session.attendance.approval_seconds());
        let obtainable = (!by.is_empty()).then_some(policy::Approval { by, expires });
        Ok(Facts { now, consents, labels, obtainable })
    }

    /// The role and the strictest band of the person behind the caller. It is read here and not taken from the token, because it is a rule
    /// and must belong to the rules version that the call is decided under.
    pub(crate) async fn standing_of(&self, principal: &Principal) -> Result<Standing, Error> {
        match &principal.owner {
            Some(owner) => Ok(self.ledger().find_standing(&principal.org, owner).await?),
            None => Ok(Standing { role: None, max_band: Band::Black }),
        }
    }

    /// The purposes that the person behind the caller has consented to in this space.
    pub(crate) async fn purposes_of(&self, principal: &Principal, space: &Space) -> Result<Vec<String>, Error> {
        match &principal.owner {
            Some(owner) => Ok(self.ledger().find_purposes(&principal.org, owner, &space.id).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Whether the params name another space that this action may reach, and that lets the person behind the caller in.
    pub(crate) async fn is_listed_crossing(
        &self,
        principal: &Principal,
        space: &Space,
        params: &Value,
        action: &ActionId,
    ) -> Result<bool, Error> {
        let named = params.get("space_id").and_then(Value::as_str).filter(|named| *named != space.id.as_str());
        let Some(to) = named.and_then(|named| SpaceId::parse(named).ok()) else { return Ok(false) };
        if !self.ledger().is_crossing(&space.org, &space.id, to.as_str(), action).await? {
            return Ok(false);
        }
        let to = self.ledger().find_space(&space.org, &to).await?;
        Ok(to.is_some_and(|to| to.lets_in(principal.owner.as_ref())))
    }

    /// What the scan finds in the content of a call.
    pub(crate) async fn findings_in(&self, resolved: &Resolved) -> Result<Vec<Finding>, Error> {
        let Admitted { session, request, .. } = &*resolved.admitted;
        let labels = self.ledger().find_labels(&session.org, &session.id).await?;
        let canaries = self.ledger().list_canary_texts(&session.org).await?;
        let provenance = Provenance {
            labels: request.call.provenance.clone(),
            session: labels.iter().filter_map(|label| session_label(label)).collect(),
            canaries: canaries.as_slice(),
        };
        Ok(policy::scan(resolved.action(), &request.call.params, &provenance))
    }

    /// Scans the content. Returns the findings that quarantine the call; a finding that only needs approval is noted in the verdict.
    async fn scan(&self, gated: &mut Gated) -> Result<Vec<Caught>, Error> {
        let findings = self.findings_in(&gated.validated.resolved).await?;
        let resolved = &gated.validated.resolved;
        let session = &resolved.admitted.session;
        let mut verdict = policy::scan::verdict(&findings);
        let unread = self.unread_findings(&session.org, &resolved.definition).await?;
        let unread: BTreeSet<_> = unread.iter().map(|finding| format!("definition:{}", finding.rule)).collect();
        // A person has released exactly these params from quarantine.
        let entrance = &resolved.admitted.entrance;
        if let (Some(from), Verdict::Quarantine, false) = (entrance.released_from(), verdict.verdict, entrance.is_edited()) {
            let mut determining = vec![format!("released:{from}")];
            determining.extend(verdict.determining);
            // The release covers the content only. An unread definition still needs an approval.
            let left = if unread.is_empty() { Verdict::Ok } else { Verdict::NeedsApproval };
            determining.extend(unread);
            gated.set(GateVerdict::new(Gate::Safety, left, determining));
            return Ok(Vec::new());
        }
        if !unread.is_empty() && verdict.verdict == Verdict::Ok {
            verdict.verdict = Verdict::NeedsApproval;
        }
        verdict.determining.extend(unread);
        let is_quarantined = verdict.verdict == Verdict::Quarantine;
        gated.set(verdict);
        Ok(if is_quarantined { caught(&findings) } else { Vec::new() })
    }
}

/// Facts that only the org's policies need.
#[derive(Default)]
struct Facts {
    now: Timestamp,
    consents: Vec<String>,
    labels: Vec<String>,
    obtainable: Option<policy::Approval>,
}

/// The findings that quarantine a call, without the content they were found in.
pub(crate) fn caught(findings: &[Finding]) -> Vec<Caught> {
    let dangerous = findings.iter().filter(|finding| finding.severity == Severity::Quarantines);
    dangerous
        .map(|finding| Caught { rule: finding.rule.to_owned(), pointer: finding.pointer.clone(), message: finding.message.clone() })
        .collect()
}

fn denied_by(denial: &GateVerdict) -> Failure {
    let because = match denial.errors.first() {
        Some(error) => format!("a rule of it could not be evaluated: {error}"),
        None => format!("determined by {}", denial.determining.join(", ")),
    };
    Failure { code: DENIED_BY_GATE.into(), message: format!("gate `{}` denied it; {because}", denial.gate.as_str()) }
}

fn session_label(text: &str) -> Option<SessionLabel> {
    serde_json::from_value(Value::String(text.to_owned())).ok()
}

/// The purpose that a person consents to so that an action receives values that would otherwise be redacted.
fn exemption_purpose(action: &countersign_core::ActionId) -> String {
    purpose_of(action).replacen("action:", "redaction:", 1)
}
