//! The sources and their actions. The pipeline owns the sources: no other part of the server holds one.
//! `catalogue/org.rs` decides when a source is asked for its actions; finding an action is only a look-up.

mod definition;
mod eyes;
mod listing;
mod org;
mod schema;

use countersign_core::nearest::nearest;
use countersign_core::source::{Error, Listings, Past, Source, SourceRegistry};
use countersign_core::{Action, ActionId, Clock, Digest, Invocation, OrgId, Timestamp};
use futures_util::future::join_all;
use listing::Listed;
use org::{OrgCatalogue, Slot, Sources};
use parking_lot::RwLock;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(crate) use definition::Definition;
pub use definition::{check_condition, check_schema};
pub use eyes::Eyes;
pub(crate) use schema::Schema;
pub use schema::UnusableSchema;

/// The sources of every org, by name.
pub struct Catalogue {
    /// Every org has these, and they list the same actions for each.
    builtin: Vec<Arc<Slot>>,
    registries: Vec<Arc<dyn SourceRegistry>>,
    listings: Arc<dyn Listings>,
    clock: Arc<dyn Clock>,
    orgs: RwLock<HashMap<OrgId, Arc<OrgCatalogue>>>,
    /// Digests of the texts that are known to be in the store.
    archived: RwLock<HashMap<OrgId, HashSet<Digest>>>,
}

/// One source with its actions.
pub struct SourceListing {
    pub id: String,
    pub title: String,
    pub actions: Vec<Arc<Action>>,
    /// When the source listed them; absent if it never did. If it could not be asked since the server started, up to an hour before that.
    pub listed_at: Option<Timestamp>,
    /// The actions are from an earlier listing, because the source could not be asked.
    pub is_stale: bool,
    /// Why the source could not be asked. Its actions are then the ones it listed last, or none.
    pub error: Option<String>,
}

/// An action as its source listed it last.
pub(crate) struct Found {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) listed_at: Timestamp,
    /// The source could not be asked since.
    pub(crate) is_stale: bool,
}

impl Catalogue {
    pub(crate) fn new(
        builtin: Vec<Arc<dyn Source>>,
        registries: Vec<Arc<dyn SourceRegistry>>,
        listings: Arc<dyn Listings>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let builtin = builtin.into_iter().map(|source| Slot::new(source, true)).collect();
        Self { builtin, registries, listings, clock, orgs: RwLock::default(), archived: RwLock::default() }
    }

    /// Every source with its actions. A source that fails is listed with its error.
    pub async fn list<'a>(&self, eyes: impl Into<Eyes<'a>>) -> Vec<SourceListing> {
        let eyes = eyes.into();
        let (catalogue, sources) = self.of(eyes.org()).await;
        let listed = sources.seen_by(eyes).map(|slot| listing_of(&catalogue, &sources, slot));
        join_all(listed).await
    }

    /// Every action there is now. A source that cannot be asked contributes the actions it listed last, or none.
    pub async fn all_actions<'a>(&self, eyes: impl Into<Eyes<'a>>) -> Vec<Arc<Action>> {
        self.list(eyes).await.into_iter().flat_map(|source| source.actions).collect()
    }

    /// The action as its source lists it now, or listed it last. Unlike `find` it also finds one that does not compile.
    pub async fn find_listed<'a>(&self, eyes: impl Into<Eyes<'a>>, named: &str) -> Option<Arc<Action>> {
        let eyes = eyes.into();
        let id = ActionId::parse(named).ok()?;
        let (catalogue, sources) = self.of(eyes.org()).await;
        let slot = sources.find(eyes, id.source())?;
        listing_of(&catalogue, &sources, slot).await.actions.into_iter().find(|action| action.id == id)
    }

    /// Why the action would refuse these params, if its schema says so: where it is in them, and what.
    pub async fn misfit(&self, org: &OrgId, named: &str, params: &Value) -> Option<String> {
        let id = ActionId::parse(named).ok()?;
        let (_, definition) = self.find(org, &id).await.ok()??;
        let mismatch = definition.params.mismatches(params).await.ok()?.into_iter().next()?;
        Some(format!("`{}`: {}", mismatch.pointer, mismatch.message))
    }

    /// Whether the action is there no more: its source is gone, or lists it no longer. Where a source cannot tell, it is not.
    pub async fn is_gone(&self, org: &OrgId, named: &str) -> bool {
        match ActionId::parse(named) {
            Ok(id) => matches!(self.look_up(org, &id).await, Ok(None)),
            Err(_) => true,
        }
    }

    /// Takes over what the registries have now. A source that is gone ends with the last call that uses it. Nobody waits for a source.
    pub async fn look_again(&self, org: &OrgId) {
        self.of(org).await;
    }

    /// Whether there is a source of this name. No source is asked.
    pub async fn has_source<'a>(&self, eyes: impl Into<Eyes<'a>>, source: &str) -> bool {
        let eyes = eyes.into();
        self.of(eyes.org()).await.1.find(eyes, source).is_some()
    }

    /// Names of actions that are like one that does not exist.
    pub async fn suggest<'a>(&self, eyes: impl Into<Eyes<'a>>, named: &str) -> Vec<String> {
        let actions = self.all_actions(eyes).await;
        nearest(named, actions.iter().map(|action| action.id.as_str())).into_iter().map(str::to_owned).collect()
    }

    /// Asks a source for its actions now, or waits for the answer if it is being asked. `None` when there is no such source. An error means
    /// that it could not be asked and never listed anything.
    pub async fn refresh(&self, org: &OrgId, source: &str) -> Option<Result<SourceListing, Error>> {
        let (catalogue, sources) = self.of(org).await;
        let slot = sources.find(Eyes::Org(org), source)?;
        Some(catalogue.refresh(slot).await.map(|listing| SourceListing::of(slot, &listing.listed)))
    }

    /// How to use a source: the guide that it gave with its listing, or one made from its definitions. What another server wrote is added to
    /// that one and never stands in its place: it may say nothing of the actions. `None` when there is no such source.
    pub async fn guide<'a>(&self, eyes: impl Into<Eyes<'a>>, source: &str) -> Option<String> {
        let eyes = eyes.into();
        let (catalogue, sources) = self.of(eyes.org()).await;
        let slot = sources.find(eyes, source)?;
        let listing = catalogue.listing(&sources, slot).await.ok();
        let listed = listing.as_ref().map(|listing| &listing.listed);
        let given = listed.and_then(|listed| listed.guide.as_deref());
        let is_theirs = listed.is_some_and(|listed| listed.actions.iter().any(|action| action.guide_sha256.is_some()));
        if let Some(guide) = given.filter(|_| !is_theirs) {
            return Some(guide.to_owned());
        }
        let mut text = format!("# {}\n", slot.source.title());
        for action in listed.into_iter().flat_map(|listed| listed.actions.iter()) {
            text.push_str(&format!("\n## `{}` ({}, {})\n\n{}\n", action.id, action.tier, action.tier.class().as_str(), action.description));
            let schema = serde_json::to_string_pretty(&action.params_schema).unwrap_or_default();
            text.push_str(&format!("\nParams:\n\n```json\n{schema}\n```\n"));
        }
        if let Some(guide) = given {
            text.push_str(&format!("\n## What the server of `{source}` says about its use\n\n{}\n", guide.trim()));
        }
        Some(text)
    }

    /// The guide that a source gave with its listing, in its own words.
    pub async fn given_guide<'a>(&self, eyes: impl Into<Eyes<'a>>, source: &str) -> Option<String> {
        let eyes = eyes.into();
        let (catalogue, sources) = self.of(eyes.org()).await;
        let listing = catalogue.listing(&sources, sources.find(eyes, source)?).await.ok()?;
        listing.listed.guide.as_deref().map(str::to_owned)
    }

    /// The action as its source defines it now, compiled.
    pub(crate) async fn find<'a>(
        &self,
        eyes: impl Into<Eyes<'a>>,
        id: &ActionId,
    ) -> Result<Option<(Arc<dyn Source>, Arc<Definition>)>, Error> {
        Ok(self.look_up(eyes, id).await?.map(|found| (found.source, found.definition)))
    }

    /// The same, with how current it is.
    pub(crate) async fn look_up<'a>(&self, eyes: impl Into<Eyes<'a>>, id: &ActionId) -> Result<Option<Found>, Error> {
        let eyes = eyes.into();
        let (catalogue, sources) = self.of(eyes.org()).await;
        let Some(slot) = sources.find(eyes, id.source()) else {
            return Ok(None);
        };
        let listing = catalogue.listing(&sources, slot).await?;
        let definition = listing.definitions.get(id).cloned().transpose()?;
        let Listed { listed_at, error, .. } = &listing.listed;
        Ok(definition.map(|definition| Found {
            source: Arc::clone(&slot.source),
            definition,
            listed_at: *listed_at,
            is_stale: error.is_some(),
        }))
    }

    /// Asks a source once more if it was not asked since this change of a review. `now` is the store's time.
    pub(crate) async fn confirm(&self, org: &OrgId, source: &str, changed_at: Option<Timestamp>, now: Timestamp) {
        let (catalogue, sources) = self.of(org).await;
        if let Some(slot) = sources.find(Eyes::Org(org), source) {
            catalogue.confirm(slot, changed_at, now).await;
        }
    }

    /// Has a source asked for its actions at the next look-up, because a call could not reach it.
    pub(crate) fn suspect(&self, org: &OrgId, source: &str) {
        let known = self.orgs.read().get(org).map(Arc::clone);
        if let Some(catalogue) = known {
            catalogue.suspect(source);
        }
    }

    /// Whether an action of this source that nobody has reviewed needs an approval for every call.
    pub(crate) async fn needs_review(&self, org: &OrgId, source: &str) -> bool {
        let (_, sources) = self.of(org).await;
        sources.find(Eyes::Org(org), source).is_some_and(|slot| slot.source.needs_review())
    }

    /// The action as it was when this invocation was decided, for an action that has changed or gone since. It counts only if the
    /// definition that was kept then still has the digests it had then.
    pub(crate) async fn find_past(&self, of: &Invocation) -> Option<(Arc<dyn Source>, Arc<Definition>)> {
        let evidence = of.evidence.as_ref()?;
        for registry in &self.registries {
            let Some(Past { source, action }) = registry.past(&of.org, &of.action, evidence).await else { continue };
            let Ok(definition) = Definition::new(action) else { continue };
            let is_the_one = (definition.structural, definition.textual) == (of.digests.structural, of.digests.textual);
            if is_the_one && definition.action.id == of.action {
                return Some((source, Arc::new(definition)));
            }
        }
        None
    }

    async fn of(&self, org: &OrgId) -> (Arc<OrgCatalogue>, Arc<Sources>) {
        let mut registered = Vec::with_capacity(self.registries.len());
        for registry in &self.registries {
            registered.push(registry.sources(org).await);
        }
        let known = self.orgs.read().get(org).map(Arc::clone);
        let catalogue = known.unwrap_or_else(|| {
            let new = || Arc::new(OrgCatalogue::new(org.clone(), Arc::clone(&self.listings), Arc::clone(&self.clock)));
            Arc::clone(self.orgs.write().entry(org.clone()).or_insert_with(new))
        });
        let sources = catalogue.sources(&self.builtin, registered);
        (catalogue, sources)
    }

    pub(crate) fn is_archived(&self, org: &OrgId, digest: Digest) -> bool {
        self.archived.read().get(org).is_some_and(|digests| digests.contains(&digest))
    }

    pub(crate) fn mark_archived(&self, org: &OrgId, digest: Digest) {
        self.archived.write().entry(org.clone()).or_default().insert(digest);
    }
}

async fn listing_of(catalogue: &Arc<OrgCatalogue>, sources: &Sources, slot: &Arc<Slot>) -> SourceListing {
    match catalogue.listing(sources, slot).await {
        Ok(listing) => SourceListing::of(slot, &listing.listed),
        Err(error) => SourceListing { error: Some(told(&error)), ..SourceListing::unlisted(slot) },
    }
}

/// An error may quote what others said, such as the last words of a program.
fn told(error: &Error) -> String {
    policy::redact_text(&error.to_string())
}

impl SourceListing {
    fn unlisted(slot: &Slot) -> Self {
        let (id, title) = (slot.source.id().to_string(), slot.source.title().to_owned());
        Self { id, title, actions: Vec::new(), listed_at: None, is_stale: false, error: None }
    }

    fn of(slot: &Slot, listed: &Listed) -> Self {
        Self {
            actions: listed.actions.to_vec(),
            listed_at: Some(listed.listed_at),
            is_stale: listed.error.is_some(),
            error: listed.error.as_ref().map(told),
            ..Self::unlisted(slot)
        }
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
