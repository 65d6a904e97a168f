//! What an approval is bound to: the exact call, its definition, the rules, the requester and the deadline. If any of them changes, the
//! approval is void.

use super::gate::Gated;
use super::ground::Walk;
use super::resolve::Resolved;
use crate::error::{Conflict, Error};
use countersign_core::invocation::{Answer, Binding};
use countersign_core::ledger::SignedAnswer;
use countersign_core::source::SentAs;
use countersign_core::{Decision, Digest, Invocation, PrincipalId, Status, Timestamp, json};
use durable::heavy;
use policy::digest::{Bound, Mismatch, binding, mismatch};
use serde_json::Value;
use std::collections::BTreeSet;

/// An approval that was given for exactly this call and has not been used.
pub(crate) struct Redeemed {
    approvers: Vec<PrincipalId>,
    binding: Digest,
}

impl Redeemed {
    /// Returns one only for an approved call, only if everything that its approval is bound to still holds, and only if every approval in
    /// the row is an answer that the audit log holds with a signature.
    pub(crate) fn of(approved: &Invocation, live: &Bound, answers: &[SignedAnswer]) -> Result<Result<Self, Conflict>, Error> {
        if approved.status != Status::Approved {
            return Ok(Err(Conflict::Consumed));
        }
        if let Some(mismatch) = mismatch(&bound_to(approved)?, live) {
            return Ok(Err(conflict_of(mismatch)));
        }
        let binding = binding(live);
        let is_signed = |approval: &Answer| {
            let is_of = |signed: &&SignedAnswer| signed.approves && signed.binding == binding && signed.by == approval.by;
            answers.iter().filter(is_of).any(|signed| signed.beyond == approval.beyond)
        };
        let people: BTreeSet<_> = approved.approvals.iter().map(|approval| &approval.by).collect();
        let is_once_each = !people.is_empty() && people.len() == approved.approvals.len();
        if !is_once_each || !approved.approvals.iter().chain(&approved.answer).all(is_signed) {
            tracing::error!(invocation = %approved.id, "the audit log holds no signed answer for a stored approval: somebody has changed the database");
            return Ok(Err(Conflict::Unproven));
        }
        let approvers = approved.approvals.iter().map(|approval| approval.by.clone()).collect();
        Ok(Ok(Self { approvers, binding }))
    }

    pub(crate) fn approvers(&self) -> &[PrincipalId] {
        &self.approvers
    }

    pub(crate) const fn binding(&self) -> Digest {
        self.binding
    }
}

/// The facts of a binding that are not the call's own.
pub(crate) struct Terms {
    pub(crate) policy_slice: Digest,
    pub(crate) nonce: Digest,
    pub(crate) expires_at: Timestamp,
}

impl Walk {
    /// What this call would be bound to now. The login of its connection is read here, for a call that a person answers, and not for every
    /// call.
    pub(crate) async fn bound(&self, gated: &Gated, decision: &Decision, terms: Terms) -> Result<Bound, Error> {
        let resolved = &gated.validated.resolved;
        let (session, request, action) = (&resolved.admitted.session, &resolved.admitted.request, resolved.action());
        let (connection, connection_version) = self.sent_as(resolved).await?;
        Ok(Bound {
            org: session.org.clone(),
            space: session.space.clone(),
            session: session.id.clone(),
            principal: request.principal.id.clone(),
            owner: request.principal.owner.clone(),
            automation_run: None,
            source: action.id.source().to_owned(),
            connection,
            connection_version,
            action: action.id.clone(),
            tier: resolved.tier(),
            params: gated.validated.digests.params,
            raw: gated.validated.digests.raw,
            scope: request.call.scope.clone(),
            commands: request.call.commands.clone(),
            structural: gated.validated.digests.structural,
            textual: gated.validated.digests.textual,
            policy_slice: terms.policy_slice,
            modes_version: decision.modes_version,
            profile: action.profile.as_str().to_owned(),
            nonce: terms.nonce,
            expires_at: terms.expires_at,
        })
    }

    /// As whom the call's requests are sent now, and the version of that connection.
    pub(crate) async fn sent_as(&self, resolved: &Resolved) -> Result<(Option<String>, Option<i64>), Error> {
        let version = match resolved.connection() {
            Some(connection) => self.ledger().connection_version(&resolved.admitted.session.org, connection).await?,
            None => None,
        };
        let sent_as = resolved.sent_as.as_ref().map(|sent_as| match sent_as {
            SentAs::Connection(connection) => connection.to_string(),
            SentAs::Setting(setting) => setting.clone(),
        });
        Ok((sent_as, version))
    }

    pub(crate) async fn open_params(&self, approved: &Invocation) -> Result<Value, Error> {
        let missing = || Error::Internal { message: format!("the params of `{}` are gone or do not open", approved.id) };
        let sealed = self.ledger().find_sealed_params(&approved.org, &approved.id).await?.ok_or_else(missing)?;
        let key = self.inner.keyring.space_key(&approved.org, &approved.space).await?;
        let context = params_context(approved.id.as_str());
        let open = move || json::parse_strict(&key.open(&context, &sealed).ok()?).ok();
        heavy::compute(open).await.ok_or_else(missing)
    }
}

/// What a held call is bound to.
pub(crate) fn bound_to(held: &Invocation) -> Result<Bound, Error> {
    let facts = held.binding.as_ref().and_then(|binding| serde_json::from_value(binding.facts.clone()).ok());
    facts.ok_or_else(|| Error::Internal { message: format!("`{}` waited for a person and is bound to nothing", held.id) })
}

pub(crate) fn to_binding(bound: &Bound) -> Result<Binding, Error> {
    let facts = serde_json::to_value(bound).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(Binding { digest: binding(bound), nonce: bound.nonce, expires_at: bound.expires_at, facts })
}

pub(crate) fn seal_params(gated: &Gated) -> Result<Vec<u8>, Error> {
    let admitted = &gated.validated.resolved.admitted;
    // In the order in which they were sent: a person reads them once more when the call has ended.
    let text = serde_json::to_vec(&admitted.request.call.params).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(gated.validated.key.seal(&params_context(admitted.id.as_str()), &text))
}

fn params_context(invocation: &str) -> String {
    format!("params:{invocation}")
}

pub(crate) const fn conflict_of(mismatch: Mismatch) -> Conflict {
    match mismatch {
        Mismatch::Args => Conflict::ArgsMismatch,
        Mismatch::Definition => Conflict::DefinitionMismatch,
        Mismatch::Policy => Conflict::PolicyMismatch,
        Mismatch::Tuple => Conflict::TupleMismatch,
    }
}
