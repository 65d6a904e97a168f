//! Gate 6, redaction: takes out of the params what must not reach the source, if the space asks for it. The redacted params are checked
//! against the schema again; a call whose params no longer fit is not sent.

use super::{Gated, Gates, exemption_purpose};
use crate::error::Error;
use crate::walk::admit::Admitted;
use crate::walk::ground::Walk;
use crate::walk::validate::param_errors;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::invocation::{Failure, TakenOut};
use countersign_core::keyring::SpaceKey;
use countersign_core::quarantine::Caught;
use countersign_core::session::Kind;
use countersign_core::{OrgId, Space, SpaceId};
use policy::redact::Replaced;
use policy::{Outgoing, Redaction};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of the space's redaction rule in a verdict.
const SPACE: &str = "space.redaction";

impl Walk {
    pub(super) async fn take_out(&self, mut gated: Gated) -> Result<Gates, Error> {
        gated.taken_out = gated.validated.resolved.admitted.entrance.taken_out().cloned();
        if gated.taken_out.is_some() {
            gated.set(GateVerdict::new(Gate::Redaction, Verdict::Redacted, vec![SPACE.to_owned()]));
        }
        let Admitted { space, request, .. } = &*gated.validated.resolved.admitted;
        if space.redacted_kinds().is_empty() {
            return Ok(Gates::Passed(gated));
        }
        let rules = rules_of(space)?;
        let action = gated.validated.resolved.action();
        let mut exempt = Vec::new();
        if !action.exempt_from_redaction.is_empty()
            && self.purposes_of(&request.principal, space).await?.contains(&exemption_purpose(&action.id))
        {
            exempt.clone_from(&action.exempt_from_redaction);
        }
        let outgoing = redacted(request.call.params.clone(), rules, exempt).await?;
        if !outgoing.unreadable.is_empty() {
            let caught = outgoing.unreadable.iter().map(|place| unreadable(place.pointer.clone())).collect();
            gated.set(GateVerdict::new(Gate::Redaction, Verdict::Quarantine, vec![SPACE.to_owned()]));
            return Ok(Gates::Quarantined(Box::new(gated), caught));
        }
        if outgoing.counts.is_empty() {
            if gated.taken_out.is_none() {
                gated.set(GateVerdict::new(Gate::Redaction, Verdict::Ok, vec![SPACE.to_owned()]));
            }
            return Ok(Gates::Passed(gated));
        }
        self.send_instead(gated, outgoing).await
    }

    /// The params to store of a call that another gate denied: a value that the space redacts from calls is not stored either.
    /// `None` if the space asks for no redaction. Exemptions do not apply, since no source will use the value.
    pub(super) async fn taken_out_for_the_record(&self, gated: &Gated) -> Result<Option<Value>, Error> {
        let Admitted { space, request, .. } = &*gated.validated.resolved.admitted;
        if space.redacted_kinds().is_empty() {
            return Ok(None);
        }
        let outgoing = redacted(request.call.params.clone(), rules_of(space)?, Vec::new()).await?;
        Ok(Some(if outgoing.unreadable.is_empty() { outgoing.value } else { json!({ "_unreadable": true }) }))
    }

    /// Redacts the answer of a source before it is stored and returned, and says which places could not be read.
    /// It never fails: the effect has already happened, and an answer that cannot be checked is withheld.
    pub(crate) async fn take_out_of_answer(&self, org: &OrgId, id: &SpaceId, answer: &Value) -> (Value, Vec<Caught>) {
        let space = self.ledger().find_space(org, id).await;
        let rules = match &space {
            Ok(Some(space)) if space.redacted_kinds().is_empty() => return (answer.clone(), Vec::new()),
            Ok(Some(space)) => rules_of(space),
            Ok(None) => Err(Error::Internal { message: format!("space `{id}` is gone") }),
            Err(error) => Err(Error::Store(error.clone())),
        };
        let looked = match rules {
            Ok(rules) => redacted(answer.clone(), rules, Vec::new()).await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(outgoing) => {
                let caught = outgoing.unreadable.into_iter().map(|place| unreadable(place.pointer)).collect();
                (outgoing.value, caught)
            }
            Err(error) => {
                tracing::error!(%error, space = %id, "an answer could not be redacted; it is withheld");
                (Value::Null, vec![unreadable(String::new())])
            }
        }
    }

    /// Replaces the params with the redacted ones, which are approved, sent and recorded from here on. What was redacted before an approver
    /// edited the params is added.
    async fn send_instead(&self, mut gated: Gated, outgoing: Outgoing) -> Result<Gates, Error> {
        let mut counts: BTreeMap<String, u32> = outgoing.counts.iter().map(|(kind, count)| (kind.as_str().to_owned(), *count)).collect();
        let mut map = outgoing.map;
        let validated = &mut gated.validated;
        let canonical =
            countersign_core::json::canonical(&outgoing.value).map_err(|error| Error::Internal { message: error.to_string() })?;
        validated.digests.params = validated.key.digest("params", canonical.as_bytes());
        gated.as_sent = Some(std::mem::replace(&mut validated.resolved.admitted.request.call.params, outgoing.value));
        let context = format!("redaction:{}", validated.resolved.admitted.id);
        if let Some(earlier) = gated.taken_out.take() {
            // A number is given once more only if the editor took out the token that had it.
            let before = opened(&*validated.key, &context, &earlier.sealed_map)?;
            let kept: Vec<_> = before.into_iter().filter(|old| map.iter().all(|new| new.token != old.token)).collect();
            map.extend(kept);
            for (kind, count) in earlier.counts {
                let sum = counts.entry(kind).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let map = serde_json::to_vec(&map).map_err(|error| Error::Internal { message: error.to_string() })?;
        let sealed_map = STANDARD.encode(validated.key.seal(&context, &map));
        let broken = param_errors(&validated.resolved).await?.into_iter().next();
        gated.taken_out = Some(TakenOut { counts, sealed_map });
        match broken {
            None => {
                gated.set(GateVerdict::new(Gate::Redaction, Verdict::Redacted, vec![SPACE.to_owned()]));
                Ok(Gates::Passed(gated))
            }
            Some(error) => {
                gated.set(GateVerdict::new(Gate::Redaction, Verdict::Deny, vec![SPACE.to_owned()]));
                let message = format!("without what is redacted the params no longer fit at `{}`: {}", error.pointer, error.message);
                Ok(Gates::Denied(Box::new(gated), Failure { code: "redaction_breaks_params".into(), message }))
            }
        }
    }
}

fn rules_of(space: &Space) -> Result<Redaction, Error> {
    Redaction::try_from(&space.redaction)
        .map(|rules| Redaction { kinds: space.redacted_kinds(), ..rules })
        .map_err(|unknown| Error::Internal { message: format!("space `{}` names the region `{}`", space.id, unknown.0) })
}

/// The map of a call that was redacted before.
fn opened(key: &dyn SpaceKey, context: &str, sealed_map: &str) -> Result<Vec<Replaced>, Error> {
    let map = STANDARD.decode(sealed_map).ok().and_then(|sealed| key.open(context, &sealed).ok());
    let map = map.and_then(|map| serde_json::from_slice(&map).ok());
    map.ok_or_else(|| Error::Internal { message: "what was redacted from a held call does not open".to_owned() })
}

fn unreadable(pointer: String) -> Caught {
    Caught {
        rule: "redaction.unreadable".to_owned(),
        pointer,
        message: "it could not be looked into, so it cannot be said that nothing is left in it".to_owned(),
    }
}

/// Images take a while, so they are searched on a blocking thread, not on the threads that answer requests.
async fn redacted(params: Value, rules: Redaction, exempt: Vec<String>) -> Result<Outgoing, Error> {
    if !rules.kinds.contains(&Kind::Face) {
        return Ok(policy::redact_params(&params, &rules, &exempt));
    }
    let looked = tokio::task::spawn_blocking(move || policy::redact_params(&params, &rules, &exempt)).await;
    looked.map_err(|error| Error::Internal { message: error.to_string() })
}
