//! Checks that every definition an entry refers to is archived, and that its tier is the one the log claims.

use super::{Class, Finding};
use crate::body::DefinitionDigests;
use countersign_core::{ActionId, Digest, Tier, json};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

/// The definitions in the bundle, and those that the entries refer to.
#[derive(Default)]
pub(super) struct Definitions {
    archived: HashMap<Digest, Option<Defined>>,
    /// By the first entry that needs them.
    needed: HashMap<Need, u64>,
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
        self.needed.entry(need).or_insert(seq);
    }

    /// Checks in the order of the log, so that the first problem in the log is the one reported.
    pub(super) fn finish(&self) -> Result<(), Finding> {
        let mut needed: Vec<_> = self.needed.iter().collect();
        needed.sort_by_key(|(_, first)| **first);
        for (need, first) in needed {
            for digest in [need.structural, need.textual] {
                if !self.archived.contains_key(&digest) {
                    return Err(differs(format!("the definition {digest} of `{}` is not archived", need.action)).at(*first));
                }
            }
            self.check(need, *first)?;
        }
        Ok(())
    }

    fn check(&self, need: &Need, first: u64) -> Result<(), Finding> {
        match self.archived.get(&need.textual) {
            // A caller may declare a call riskier than its definition says, never less risky.
            Some(Some(defined)) if defined.action == need.action.as_str() && defined.tier <= need.tier => Ok(()),
            Some(_) => Err(differs(format!("the archived definition is not of `{}` at {}", need.action, need.tier)).at(first)),
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
