//! Checks that every definition an entry refers to is archived, and that its tier is the one the log claims.

use super::{Class, Finding, Report};
use crate::body::DefinitionDigests;
use countersign_core::{ActionId, Digest, Tier, json};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

/// The definitions in the bundle, and those that the entries refer to.
#[derive(Default)]
pub(super) struct Definitions {
    archived: HashMap<Digest, Option<Defined>>,
    needed: HashMap<Need, Span>,
    trimmed_through: Option<u64>,
}

/// The action and tier of an archived text, if it is a whole definition.
struct Defined {
    action: String,
    tier: Tier,
}

#[derive(PartialEq, Eq, Hash)]
struct Need {
    structural: Digest,
    textual: Digest,
    action: ActionId,
    tier: Tier,
}

/// The first and the last entry that need a definition.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
}

impl Definitions {
    pub(super) fn archive(&mut self, digest: Digest, body: &str) -> Result<(), Finding> {
        if Digest::new(Sha256::digest(body.as_bytes()).into()) != digest {
            return Err(differs(format!("the definition archived as {digest} has another digest")));
        }
        self.archived.insert(digest, defined(body));
        Ok(())
    }

    pub(super) fn need(&mut self, seq: u64, digests: &DefinitionDigests, action: &ActionId, tier: Tier) {
        let need = Need { structural: digests.structural, textual: digests.textual, action: action.clone(), tier };
        self.needed.entry(need).or_insert(Span { first: seq, last: seq }).last = seq;
    }

    /// Retention has deleted the definitions that only entries up to here refer to.
    pub(super) fn trim(&mut self, through: u64) {
        self.trimmed_through = self.trimmed_through.max(Some(through));
    }

    /// Checks in the order of the log, so that the first problem in the log is the one reported.
    pub(super) fn finish(&self, report: &mut Report) -> Result<(), Finding> {
        let mut needed: Vec<_> = self.needed.iter().collect();
        needed.sort_by_key(|(_, span)| span.first);
        for (need, span) in needed {
            for digest in [need.structural, need.textual] {
                if self.archived.contains_key(&digest) {
                    continue;
                }
                if Some(span.last) > self.trimmed_through {
                    let seq = if Some(span.first) > self.trimmed_through { span.first } else { span.last };
                    return Err(differs(format!("the definition {digest} of `{}` is not archived", need.action)).at(seq));
                }
                report.trimmed += 1;
            }
            self.check(need, *span)?;
        }
        Ok(())
    }

    fn check(&self, need: &Need, span: Span) -> Result<(), Finding> {
        match self.archived.get(&need.textual) {
            // A caller may declare a call riskier than its definition says, never less risky.
            Some(Some(defined)) if defined.action == need.action.as_str() && defined.tier <= need.tier => Ok(()),
            Some(_) => Err(differs(format!("the archived definition is not of `{}` at {}", need.action, need.tier)).at(span.first)),
            None => Ok(()),
        }
    }
}

fn defined(body: &str) -> Option<Defined> {
    let value = json::parse_strict(body.as_bytes()).ok()?;
    let text = |field| value.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(Defined { action: text("id")?, tier: Tier::parse(&text("tier")?)? })
}

fn differs(reason: String) -> Finding {
    Finding::new(Class::DecisionNotReproduced, reason)
}
