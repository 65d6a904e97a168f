//! The policies of an org, indexed by action, so that policies about other actions cost a call nothing. The slice of policies for an action
//! is built at its first call and kept; later calls only look it up.

use super::facts::Vocabulary;
use super::schema::groups;
use super::{BUILTIN, GATES};
use cedar_policy::{ActionConstraint, Entities, Entity, EntityUid, ParseErrors, Policy, PolicyId, PolicySet};
use countersign_core::action::Effect;
use countersign_core::{Action, ActionId, Tier};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// An org's policies, ready to evaluate calls.
pub struct Policies {
    pub(super) vocabulary: Vocabulary,
    gates: [Rules; 4],
    seen: RwLock<Seen>,
}

/// One policy.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    /// The byte offset in the text of its gate at which it begins.
    pub(super) start: usize,
    pub(super) source: String,
    pub(super) policy: Policy,
}

/// The policies of one gate.
struct Rules {
    /// Applies before any policy of the org: the built-in rule in Cedar's form.
    baseline: Policy,
    rules: Vec<Rule>,
    /// Indices of the rules about every action.
    any: Vec<usize>,
    /// Indices of the rules about one action, or one group.
    about: HashMap<EntityUid, Vec<usize>>,
}

/// The slices built so far. Actions that have the same policies share their sets.
#[derive(Default)]
struct Seen {
    slices: HashMap<ActionId, Arc<Slice>>,
    sets: HashMap<(usize, BTreeSet<usize>), Set>,
}

/// The policies that one gate evaluates. An error is possible only if two policies have the same id, and it denies.
type Set = Arc<Result<PolicySet, String>>;

/// Everything a call of one action needs for its evaluation.
pub(super) struct Slice {
    tier: Tier,
    effects: Vec<Effect>,
    /// The action with the groups it is in.
    pub(super) action: Entity,
    /// The same, with the hierarchy computed. This is the most expensive part of a call's facts, and the same for all calls.
    pub(super) entities: Result<Entities, String>,
    /// One per gate; `None` where no policy of the org concerns the action.
    pub(super) sets: [Option<Set>; 4],
    text: Option<String>,
}

/// A principal that holds what the action requires passes.
const BASELINE_RBAC: &str = "permit (principal, action, resource) when { principal.permissions.containsAll(context.requires) };";
/// A call that no policy forbids passes.
const BASELINE: &str = "permit (principal, action, resource);";

impl Policies {
    pub(super) fn new(rules: [Vec<Rule>; 4]) -> Result<Self, Box<ParseErrors>> {
        let vocabulary = Vocabulary::new()?;
        let id = PolicyId::new(format!("{BUILTIN}baseline"));
        let rbac = Policy::parse(Some(id.clone()), BASELINE_RBAC)?;
        let other = Policy::parse(Some(id), BASELINE)?;
        let [of_rbac, of_abac, of_consent, of_space] = rules;
        let gates = [
            Rules::new(rbac, of_rbac),
            Rules::new(other.clone(), of_abac),
            Rules::new(other.clone(), of_consent),
            Rules::new(other, of_space),
        ];
        Ok(Self { vocabulary, gates, seen: RwLock::default() })
    }

    /// Whether there is no policy at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.gates.iter().map(|gate| gate.rules.len()).sum()
    }

    /// The text of the policies that concern the action, ordered by gate and then by id; `None` if no policy does.
    pub fn slice_of(&self, action: &Action) -> Option<String> {
        self.slice(action).text.clone()
    }

    pub(super) fn slice(&self, action: &Action) -> Arc<Slice> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner).slices.get(&action.id).cloned();
        match seen {
            Some(slice) if slice.tier == action.tier && slice.effects == action.effects => slice,
            // The action is new, or its definition has moved to other groups since.
            Some(_) | None => {
                let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
                let slice = Arc::new(self.put_together(action, &mut seen));
                seen.slices.insert(action.id.clone(), Arc::clone(&slice));
                slice
            }
        }
    }

    fn put_together(&self, action: &Action, seen: &mut Seen) -> Slice {
        let uid = self.vocabulary.action(action.id.as_str());
        let groups: HashSet<EntityUid> = groups(action).map(|group| self.vocabulary.action(&group)).collect();
        let found: [BTreeSet<usize>; 4] = std::array::from_fn(|gate| self.gates[gate].concerning(&uid, &groups));
        let text = self.text(&found);
        let sets = std::array::from_fn(|gate| {
            let key = (gate, found[gate].clone());
            let set = || Arc::new(self.gates[gate].set(&found[gate]));
            (!found[gate].is_empty()).then(|| Arc::clone(seen.sets.entry(key).or_insert_with(set)))
        });
        let entity = Entity::new_no_attrs(uid, groups);
        let entities = Entities::from_entities([entity.clone()], None).map_err(|error| error.to_string());
        Slice { tier: action.tier, effects: action.effects.clone(), action: entity, entities, sets, text }
    }

    fn text(&self, found: &[BTreeSet<usize>; 4]) -> Option<String> {
        let mut text = String::new();
        for ((gate, rules), found) in GATES.into_iter().zip(&self.gates).zip(found) {
            let mut rules: Vec<&Rule> = found.iter().filter_map(|&index| rules.rules.get(index)).collect();
            rules.sort_by(|a, b| a.id.cmp(&b.id));
            for rule in rules {
                text.extend(["// ", gate.as_str(), "\n", &rule.source, "\n"]);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Rules {
    fn new(baseline: Policy, rules: Vec<Rule>) -> Self {
        let mut any = Vec::new();
        let mut about: HashMap<EntityUid, Vec<usize>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            match rule.policy.action_constraint() {
                ActionConstraint::Any => any.push(index),
                ActionConstraint::Eq(action) => about.entry(action).or_default().push(index),
                ActionConstraint::In(groups) => {
                    for group in groups {
                        about.entry(group).or_default().push(index);
                    }
                }
            }
        }
        Self { baseline, rules, any, about }
    }

    /// The rules whose action constraint can match the action.
    fn concerning(&self, action: &EntityUid, groups: &HashSet<EntityUid>) -> BTreeSet<usize> {
        let named = groups.iter().chain([action]).filter_map(|uid| self.about.get(uid)).flatten();
        named.chain(&self.any).copied().collect()
    }

    fn set(&self, found: &BTreeSet<usize>) -> Result<PolicySet, String> {
        let rules = found.iter().filter_map(|&index| self.rules.get(index));
        PolicySet::from_policies(rules.map(|rule| &rule.policy).chain([&self.baseline]).cloned()).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies").field("policies", &self.len()).finish_non_exhaustive()
    }
}
