//! The Cedar schema in which policies are written: principals, actions, resources and the context of a call. It is generated from the
//! existing actions, so a policy about a misspelt action is refused instead of protecting nothing.

use countersign_core::action::{Class, Effect};
use countersign_core::{Action, Tier};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// The namespace of all our names in a policy.
pub(super) const NAMESPACE: &str = "Countersign";

/// The group that contains all actions.
const EXECUTE: &str = "execute";

const NOUNS: &str = r#"  type Call = {
    requires: Set<String>,
    consents: Set<String>,
    purpose: String,
    now: datetime,
    tier: Long,
    cross_space: Bool,
    drifted: Bool,
    labels: Set<String>,
    approval?: { by: Set<User>, expires: datetime },
  };

  type Device = { name: String, class: String };

  entity Role;
  entity Space { band: Long, members: Set<User> };
  entity User in [Role] { permissions: Set<String>, max_band: Long, device?: Device };
  entity Agent { owner?: User, permissions: Set<String>, max_band: Long, device?: Device };
  entity Automation { owner?: User, permissions: Set<String>, max_band: Long, device?: Device };
  entity Service { owner?: User, permissions: Set<String>, max_band: Long, device?: Device };
"#;

// Groups have the same `appliesTo` as actions, so a policy about a group that contains no action yet is valid.
const APPLIES: &str = "appliesTo { principal: [User, Agent, Automation, Service], resource: [Space], context: Call }";

/// The Cedar schema for policies about these actions, as people read it.
pub fn schema(actions: &[Arc<Action>]) -> String {
    let actions: BTreeMap<&str, &Action> = actions.iter().map(|action| (action.id.as_str(), &**action)).collect();
    let sources: BTreeSet<&str> = actions.values().map(|action| action.id.source()).collect();
    let fixed = Tier::ALL.map(tier).into_iter().chain(Class::ALL.map(class)).chain(Effect::ALL.map(effect));
    let groups = fixed.chain(sources.into_iter().map(source));
    let mut text = format!("namespace {NAMESPACE} {{\n{NOUNS}\n  action {} {APPLIES};\n", quoted(EXECUTE));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  action {} in [{}] {APPLIES};\n", list(groups), quoted(EXECUTE));
    for action in actions.values() {
        let _ = writeln!(text, "  action {} in [{}] {APPLIES};", quoted(action.id.as_str()), list(narrow_groups(action)));
    }
    text.push_str("}\n");
    text
}

/// Every group that an action is in.
pub(super) fn groups(action: &Action) -> impl Iterator<Item = String> {
    narrow_groups(action).chain([EXECUTE.to_owned()])
}

fn narrow_groups(action: &Action) -> impl Iterator<Item = String> {
    let fixed = [tier(action.tier), class(action.tier.class()), source(action.id.source())];
    let effects: BTreeSet<Effect> = action.effects.iter().copied().collect();
    fixed.into_iter().chain(effects.into_iter().map(effect))
}

fn tier(tier: Tier) -> String {
    format!("tier:{tier}")
}

fn class(class: Class) -> String {
    format!("class:{}", class.as_str())
}

fn effect(effect: Effect) -> String {
    format!("effect:{}", effect.as_str())
}

fn source(slug: &str) -> String {
    format!("source:{slug}")
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.map(|name| quoted(&name)).collect::<Vec<_>>().join(", ")
}

/// The name as a Cedar string. Ids and slugs contain no character that would end it; the escape keeps that true if they ever do.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.escape_default())
}
