//! The sources and what they offer. The pipeline owns them: nobody else holds one.

use countersign_core::action::{Effect, Reversibility};
use countersign_core::limits::LIST_TIMEOUT_MS;
use countersign_core::source::{self, Past, Shelf, Source};
use countersign_core::{Action, ActionId, Digest, Invocation, OrgId, Tier};
use jsonschema::{PatternOptions, Validator};
use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// All sources, by slug.
pub struct Catalogue {
    sources: Vec<Arc<dyn Source>>,
    shelf: Option<Arc<dyn Shelf>>,
    /// Definitions made ready, by action; made again when the source's definition differs, or what there is beside it.
    ready: RwLock<HashMap<ActionId, Ready>>,
    /// Texts known to be in the store.
    archived: RwLock<HashMap<OrgId, HashSet<Digest>>>,
}

/// A definition, and the actions of others it was looked at beside.
struct Ready {
    definition: Arc<Definition>,
    beside: Vec<Arc<Action>>,
}

/// An action made ready to check calls with: schemas compiled, digests computed, once.
pub(crate) struct Definition {
    pub(crate) action: Arc<Action>,
    pub(crate) structural: Digest,
    pub(crate) textual: Digest,
    pub(crate) params: Validator,
    pub(crate) result: Validator,
    /// Kept so that receipts can be verified against it later: digest and canonical text.
    pub(crate) archive: [(Digest, String); 2],
    /// What is odd about it, seen beside the actions of the other sources when it was made ready.
    pub(crate) findings: Vec<policy::Finding>,
}

/// One source as it is listed, with its actions or the reason there are none.
pub struct SourceListing {
    pub id: String,
    pub title: String,
    pub listed: Listed,
}

/// What a source answered when asked for its actions.
pub enum Listed {
    Actions(Vec<Arc<Action>>),
    /// It could not be reached; the others are not held up by it.
    Failed {
        message: String,
    },
}

impl Catalogue {
    pub(crate) fn new(sources: Vec<Arc<dyn Source>>, shelf: Option<Arc<dyn Shelf>>) -> Self {
        Self { sources, shelf, ready: RwLock::default(), archived: RwLock::default() }
    }

    /// All of them now. Nothing on the shelf can take the name of one of ours.
    fn sources(&self) -> Vec<Arc<dyn Source>> {
        let more = self.shelf.as_ref().map(|shelf| shelf.sources()).unwrap_or_default();
        let more = more.into_iter().filter(|source| !self.is_core(source.id().as_str()));
        self.sources.iter().map(Arc::clone).chain(more).collect()
    }

    /// Whether a source is one of ours, and not on the shelf. What is on the shelf changes nothing about it.
    pub fn is_core(&self, slug: &str) -> bool {
        self.sources.iter().any(|source| source.id().as_str() == slug)
    }

    /// Every source with what it offers. A source that fails is shown with its failure.
    pub async fn list(&self, org: &OrgId) -> Vec<SourceListing> {
        let asked = self.sources().into_iter().map(|source| async move {
            let listed = match list_of(&*source, org).await {
                Ok(actions) => Listed::Actions(actions),
                Err(error) => Listed::Failed { message: error.to_string() },
            };
            SourceListing { id: source.id().to_string(), title: source.title().to_owned(), listed }
        });
        futures_util::future::join_all(asked).await
    }

    /// How to use a source: its own guide, or one made from its definitions. `None` when there is no such source.
    pub async fn guide(&self, org: &OrgId, slug: &str) -> Option<String> {
        let source = self.source(slug)?;
        if let Some(guide) = source.guide() {
            return Some(guide.to_owned());
        }
        let mut text = format!("# {}\n", source.title());
        for action in list_of(&*source, org).await.unwrap_or_default() {
            text.push_str(&format!("\n## `{}` ({}, {})\n\n{}\n", action.id, action.tier, action.tier.class().as_str(), action.description));
            let schema = serde_json::to_string_pretty(&action.params_schema).unwrap_or_default();
            text.push_str(&format!("\nParams:\n\n```json\n{schema}\n```\n"));
        }
        Some(text)
    }

    pub(crate) fn is_archived(&self, org: &OrgId, digest: Digest) -> bool {
        self.archived.read().get(org).is_some_and(|digests| digests.contains(&digest))
    }

    pub(crate) fn mark_archived(&self, org: &OrgId, digest: Digest) {
        self.archived.write().entry(org.clone()).or_default().insert(digest);
    }

    /// Every action there is now. A source that cannot be asked has none.
    pub async fn all_actions(&self, org: &OrgId) -> Vec<Arc<Action>> {
        let listed = self.list(org).await.into_iter().filter_map(|source| match source.listed {
            Listed::Actions(actions) => Some(actions),
            Listed::Failed { .. } => None,
        });
        listed.flatten().collect()
    }

    pub(crate) fn source(&self, slug: &str) -> Option<Arc<dyn Source>> {
        self.sources().into_iter().find(|source| source.id().as_str() == slug)
    }

    /// The action as its source defines it now, made ready.
    pub(crate) async fn find(&self, org: &OrgId, id: &ActionId) -> Result<Option<(Arc<dyn Source>, Arc<Definition>)>, source::Error> {
        let Some(source) = self.source(id.source()) else {
            return Ok(None);
        };
        let listed = list_of(&*source, org).await?;
        let Some(action) = listed.into_iter().find(|action| action.id == *id) else {
            return Ok(None);
        };
        let beside = self.actions_beside(org, id).await;
        if let Some(known) = self.ready.read().get(id)
            && is_same(&known.definition.action, &action)
            && known.beside.len() == beside.len()
            && known.beside.iter().zip(&beside).all(|(then, now)| is_same(then, now))
        {
            return Ok(Some((source, Arc::clone(&known.definition))));
        }
        let definition = Arc::new(Definition::new(action, &beside)?);
        self.ready.write().insert(id.clone(), Ready { definition: Arc::clone(&definition), beside });
        Ok(Some((source, definition)))
    }

    /// What an action could be taken for, or could speak of: the actions of the other sources. One of ours was here before all others, so
    /// it is looked at by itself, and whoever takes its name is the one that is odd.
    async fn actions_beside(&self, org: &OrgId, id: &ActionId) -> Vec<Arc<Action>> {
        if self.is_core(id.source()) {
            return Vec::new();
        }
        let mut beside = self.all_actions(org).await;
        beside.retain(|other| other.id.source() != id.source());
        beside
    }

    /// The action as it was when this was decided about, for what it is otherwise now, or is no more. Only what was kept of it then,
    /// with the digests it had then, counts.
    pub(crate) async fn find_past(&self, of: &Invocation) -> Option<(Arc<dyn Source>, Arc<Definition>)> {
        let Past { source, action } = self.shelf.as_ref()?.past(&of.action, of.evidence.as_ref()?).await?;
        let definition = Definition::new(action, &[]).ok()?;
        let is_the_one = (definition.structural, definition.textual) == (of.digests.structural, of.digests.textual);
        (is_the_one && definition.action.id == of.action).then(|| (source, Arc::new(definition)))
    }
}

impl Definition {
    fn new(action: Arc<Action>, others: &[Arc<Action>]) -> Result<Self, source::Error> {
        check_promise(&action)?;
        let structural = policy::digest::structural(&action);
        let textual = policy::digest::textual(&action);
        let archive = [(structural, policy::digest::structural_body(&action)), (textual, policy::digest::textual_body(&action))];
        let params = compile(&action, &action.params_schema)?;
        let result = compile(&action, &action.result_schema)?;
        let findings = policy::scan_definition(&action, others);
        Ok(Self { structural, textual, params, result, archive, findings, action })
    }
}

/// R2 is for what is checked and can be taken back: a write that is neither has no business there.
fn check_promise(action: &Action) -> Result<(), source::Error> {
    let writes = action.tier == Tier::R2 && action.effects.contains(&Effect::FilesystemWrite);
    if writes && (action.reversibility != Reversibility::Reversible || action.checks.is_empty()) {
        let message = format!("action `{}` writes at tier R2, and is not checked afterwards or cannot be taken back", action.id);
        return Err(source::Error::Failed { code: "definition_invalid", message });
    }
    Ok(())
}

fn compile(action: &Action, schema: &serde_json::Value) -> Result<Validator, source::Error> {
    compile_condition(schema).map_err(|error| source::Error::Failed {
        code: "definition_invalid",
        message: format!("the schema of action `{}` does not compile: {error}", action.id),
    })
}

/// Whether this is a schema that params can be held against.
pub fn check_condition(schema: &serde_json::Value) -> Result<(), String> {
    compile_condition(schema).map(|_| ())
}

/// SECURITY: patterns run on a linear-time engine and references are resolved inside the schema only, since schemas come from strangers.
pub(crate) fn compile_condition(schema: &serde_json::Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

fn is_same(one: &Arc<Action>, other: &Arc<Action>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

async fn list_of(source: &dyn Source, org: &OrgId) -> Result<Vec<Arc<Action>>, source::Error> {
    let limit = Duration::from_millis(LIST_TIMEOUT_MS);
    match tokio::time::timeout(limit, source.list(org)).await {
        Ok(listed) => listed,
        Err(_) => Err(source::Error::Unreachable {
            source_id: source.id().to_string(),
            message: format!("it did not list its actions within {LIST_TIMEOUT_MS} ms"),
        }),
    }
}
