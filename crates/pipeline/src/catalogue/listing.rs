//! The actions that one source listed, compiled for look-ups.

use super::definition::Definition;
use countersign_core::source::Error;
use countersign_core::{Action, ActionId, Timestamp};
use policy::scan::{Others, names_of, scan_definition_beside, scan_guide};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The actions of one source. It stays the same `Arc` while the listing does not change.
pub(super) type Actions = Arc<Vec<Arc<Action>>>;

/// What a source listed, or what it listed before if it could not be asked.
#[derive(Clone)]
pub(super) struct Listed {
    pub(super) actions: Actions,
    /// How to use the source, as it said when it listed them; absent if it did not, or if only its actions were kept.
    pub(super) guide: Option<Arc<str>>,
    /// The source's `revision` when it was asked.
    pub(super) revision: u64,
    /// When the source listed the actions.
    pub(super) listed_at: Timestamp,
    /// When to ask again; only remote sources are asked again.
    pub(super) due: Option<Timestamp>,
    /// Why the source could not be asked last time; the actions are then the ones it listed before.
    pub(super) error: Option<Error>,
}

/// A listing with every definition compiled and scanned.
pub(super) struct Listing {
    pub(super) listed: Listed,
    pub(super) definitions: HashMap<ActionId, Result<Arc<Definition>, Error>>,
    /// The actions of other sources that the definitions were compared with in the scan.
    beside: Vec<Actions>,
}

impl Listing {
    /// Compiles the definitions that are new since `before`, and scans those that are new, have another guide, or are compared with other
    /// actions than before.
    pub(super) fn new(listed: Listed, beside: Vec<Actions>, before: Option<&Self>) -> Self {
        let has_same_names = |before: &Self| before.listed.actions.iter().map(|one| &one.id).eq(listed.actions.iter().map(|one| &one.id));
        let is_beside_same =
            before.is_some_and(|before| before.is_beside(&beside) && before.listed.guide == listed.guide && has_same_names(before));
        let others = LazyCell::new(|| Others::new(beside.iter().flat_map(|actions| actions.iter()).map(AsRef::as_ref)));
        let own = LazyCell::new(|| names_of(listed.actions.iter().map(AsRef::as_ref)));
        let in_guide = LazyCell::new(|| listed.guide.as_deref().map(|guide| scan_guide(guide, &others)).unwrap_or_default());
        let scanned = |mut definition: Definition| {
            definition.findings = scan_definition_beside(&definition.action, &own, &others);
            // A guide that is no part of the definition is ours.
            if definition.action.guide_sha256.is_some() {
                definition.findings.extend_from_slice(&in_guide);
            }
            Arc::new(definition)
        };
        let mut definitions = HashMap::with_capacity(listed.actions.len());
        for action in listed.actions.iter() {
            let known = before.and_then(|before| before.definitions.get(&action.id));
            let known = known.and_then(|known| known.as_ref().ok()).filter(|known| is_same(&known.action, action));
            let definition = match known {
                Some(known) if is_beside_same => Ok(Arc::clone(known)),
                Some(known) => Ok(scanned(Definition::clone(known))),
                None => Definition::new(Arc::clone(action)).map(scanned),
            };
            definitions.entry(action.id.clone()).or_insert(definition);
        }
        drop(in_guide);
        drop(own);
        drop(others);
        Self { listed, definitions, beside }
    }

    pub(super) fn is_beside(&self, others: &[Actions]) -> bool {
        self.beside.len() == others.len() && self.beside.iter().zip(others).all(|(then, now)| Arc::ptr_eq(then, now))
    }
}

/// Whether two listings are equal. Most sources return the same `Arc`s again.
pub(super) fn are_same(one: &[Arc<Action>], other: &[Arc<Action>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
}

fn is_same(one: &Arc<Action>, other: &Arc<Action>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
