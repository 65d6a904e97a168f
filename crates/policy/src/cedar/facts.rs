//! Converts a call to what Cedar sees: principal, action, resource and context. A caller's text always becomes a value, never Cedar source.

use super::schema::NAMESPACE;
use crate::facts::{Approval, CallFacts, Reach};
use cedar_policy::{
    Context, ContextCreationError, Entity, EntityAttrEvaluationError, EntityId, EntityTypeName, EntityUid, ParseErrors,
    RestrictedExpression,
};
use countersign_core::consent::in_older_words;
use countersign_core::decision::Drift;
use countersign_core::principal::Device;
use countersign_core::{Band, PrincipalId, Tier, Timestamp, UserId};
use std::collections::{HashMap, HashSet};

/// The entity type names that policies use, parsed once.
pub(super) struct Vocabulary {
    action: EntityTypeName,
    role: EntityTypeName,
    space: EntityTypeName,
    user: EntityTypeName,
    agent: EntityTypeName,
    automation: EntityTypeName,
    service: EntityTypeName,
}

impl Vocabulary {
    pub(super) fn new() -> Result<Self, Box<ParseErrors>> {
        let name = |noun: &str| format!("{NAMESPACE}::{noun}").parse::<EntityTypeName>().map_err(Box::new);
        Ok(Self {
            action: name("Action")?,
            role: name("Role")?,
            space: name("Space")?,
            user: name("User")?,
            agent: name("Agent")?,
            automation: name("Automation")?,
            service: name("Service")?,
        })
    }

    /// The uid of an action, or of a group of actions.
    pub(super) fn action(&self, id: &str) -> EntityUid {
        uid(&self.action, id)
    }

    pub(super) fn space(&self, call: &CallFacts) -> EntityUid {
        uid(&self.space, call.space.id.as_str())
    }

    pub(super) fn principal(&self, call: &CallFacts) -> EntityUid {
        match &call.principal.id {
            PrincipalId::User(id) => uid(&self.user, id.as_str()),
            PrincipalId::Agent(id) => uid(&self.agent, id.as_str()),
            PrincipalId::Service(id) => uid(&self.service, id.as_str()),
            PrincipalId::Automation(id) => uid(&self.automation, id.as_str()),
        }
    }

    /// The principal, its owner, and the space. A principal has the strictest band of the person behind it, never a stricter one.
    pub(super) fn entities(&self, call: &CallFacts) -> Result<Vec<Entity>, Box<EntityAttrEvaluationError>> {
        let roles: HashSet<_> = call.standing.role.iter().map(|role| uid(&self.role, role.as_str())).collect();
        let (held, _) = call.requirements();
        let mut principal = reach(held, call.standing.max_band);
        principal.extend(call.principal.device.as_ref().and_then(device).map(|device| ("device".to_owned(), device)));
        let mut entities = Vec::with_capacity(3);
        let own_roles = match (&call.principal.id, &call.principal.owner) {
            (PrincipalId::User(_), _) => roles,
            (PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_), Some(owner)) => {
                principal.insert("owner".to_owned(), self.user(owner));
                let behind = reach(call.held_by_owner(), call.standing.max_band);
                entities.push(Entity::new(uid(&self.user, owner.as_str()), behind, roles)?);
                HashSet::new()
            }
            (PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_), None) => HashSet::new(),
        };
        entities.push(Entity::new(self.principal(call), principal, own_roles)?);
        let band = RestrictedExpression::new_long(band(call.space.band));
        // Empty where the space is open to everybody in the org.
        let members = call.space.members.iter().flatten().map(|member| self.user(member));
        let members = RestrictedExpression::new_set(members);
        let space = HashMap::from([("band".to_owned(), band), ("members".to_owned(), members)]);
        entities.push(Entity::new(self.space(call), space, HashSet::new())?);
        Ok(entities)
    }

    /// The context of the call, with an approval or without.
    pub(super) fn context(&self, call: &CallFacts, approval: Option<&Approval>) -> Result<Context, Box<ContextCreationError>> {
        let cross_space = match call.reach() {
            Reach::Here => false,
            Reach::Elsewhere | Reach::Unknown => true,
        };
        // A policy may name a purpose by its older word.
        let older = call.consents.iter().filter_map(|purpose| in_older_words(purpose));
        let consents: Vec<_> = call.consents.iter().cloned().chain(older).collect();
        let facts = [
            ("requires", strings(&call.action.requires)),
            ("consents", strings(&consents)),
            ("purpose", RestrictedExpression::new_string(format!("action:{}", call.action.id))),
            ("now", datetime(call.now)),
            ("tier", RestrictedExpression::new_long(tier(call.action.tier))),
            ("cross_space", RestrictedExpression::new_bool(cross_space)),
            ("drifted", RestrictedExpression::new_bool(call.drift != Drift::None)),
            ("labels", strings(call.labels)),
        ];
        let approval = match approval {
            Some(approval) => {
                let by = RestrictedExpression::new_set(approval.by.iter().map(|user| self.user(user)));
                let fields = [("by".to_owned(), by), ("expires".to_owned(), datetime(approval.expires))];
                // This fails only if two fields have the same name.
                RestrictedExpression::new_record(fields).ok().map(|approval| ("approval", approval))
            }
            None => None,
        };
        Context::from_pairs(facts.into_iter().chain(approval).map(|(name, value)| (name.to_owned(), value))).map_err(Box::new)
    }

    fn user(&self, id: &UserId) -> RestrictedExpression {
        RestrictedExpression::new_entity_uid(uid(&self.user, id.as_str()))
    }
}

fn reach<'a>(held: impl IntoIterator<Item = &'a String>, max_band: Band) -> HashMap<String, RestrictedExpression> {
    let max_band = RestrictedExpression::new_long(band(max_band));
    HashMap::from([("permissions".to_owned(), strings(held)), ("max_band".to_owned(), max_band)])
}

/// The device that the principal's token is bound to. Making the record fails only if two fields have the same name.
fn device(device: &Device) -> Option<RestrictedExpression> {
    let text = |text: &String| RestrictedExpression::new_string(text.clone());
    RestrictedExpression::new_record([("name".to_owned(), text(&device.name)), ("class".to_owned(), text(&device.class))]).ok()
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(|text| RestrictedExpression::new_string(text.clone())))
}

/// A time to the millisecond, which is Cedar's precision. A year that does not have four digits is no valid Cedar time, so the call is
/// denied.
fn datetime(at: Timestamp) -> RestrictedExpression {
    let text = at.to_string();
    let millis = text.get(..23).unwrap_or(&text);
    RestrictedExpression::new_datetime(format!("{millis}Z"))
}

const fn band(band: Band) -> i64 {
    match band {
        Band::Green => 0,
        Band::Amber => 1,
        Band::Red => 2,
        Band::Black => 3,
    }
}

const fn tier(tier: Tier) -> i64 {
    match tier {
        Tier::R0 => 0,
        Tier::R1 => 1,
        Tier::R2 => 2,
        Tier::R3 => 3,
        Tier::R4 => 4,
    }
}
