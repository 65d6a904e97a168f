//! Actions and sources on the wire.

use crate::rules::PriceTerms;
use countersign_core::action::Class;
use countersign_core::action::{Effect, Profile, Reversibility, SafetyClass};
use countersign_core::artifact::ArtifactSpec;
use countersign_core::decision::Drift;
use countersign_core::decision::ModeSource;
use countersign_core::{Mode, Tier};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a session may invoke, source by source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AvailableResponse {
    pub sources: Vec<SourceView>,
}

/// One source with its actions, or the reason it has none to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SourceView {
    pub id: String,
    pub title: String,
    pub actions: Vec<ActionView>,
    /// The actions are from an earlier listing, because the source could not be asked.
    #[serde(default)]
    pub stale: bool,
    /// Why the source could not be listed; the others are listed all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How well an action does, over its last calls that have ended, 10 000 at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionStatsView {
    pub action: String,
    /// How many calls ended in each status, such as `{"succeeded": 9, "denied": 1}`.
    pub calls: BTreeMap<String, u64>,
    /// How many effects were tried: neither dry runs nor calls that never ran.
    pub executed: u64,
    /// The share of these that succeeded, from 0 to 1; null if none was tried.
    pub success_rate: Option<f64>,
    /// The mean of their rewards, from -1 to 1; null if none was tried.
    pub mean_reward: Option<f64>,
    /// How long they took; null if none was tried.
    pub latency_ms: Option<LatencyView>,
}

/// How long effects took, in milliseconds. The time that calls waited for people is not part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyView {
    pub mean: f64,
    pub p50: u64,
    pub p95: u64,
    pub max: u64,
}

impl LatencyView {
    /// Of times that are sorted, shortest first.
    pub fn of(sorted: &[u64]) -> Option<Self> {
        let max = *sorted.last()?;
        // The nearest rank: at least this share of the times is no longer.
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(max);
        let mean = sorted.iter().map(|&time| time as f64).sum::<f64>() / sorted.len() as f64;
        Some(Self { mean, p50: at(50), p95: at(95), max })
    }
}

/// One action, with the mode it would have for this session now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionView {
    pub id: String,
    pub title: String,
    pub description: String,
    pub version: String,
    pub tier: Tier,
    pub class: Class,
    /// The class of older contracts, which follows from the tier and the effects.
    pub safety_class: SafetyClass,
    /// The permissions that a caller needs.
    #[serde(default)]
    pub requires: Vec<String>,
    /// What `"idempotency_key": "auto"` is derived from; empty: the action has no automatic key.
    #[serde(default)]
    pub idempotency_key_fields: Vec<String>,
    pub mode: Mode,
    pub mode_source: ModeSource,
    /// How it differs from what was reviewed.
    pub drift: Drift,
    #[schema(value_type = BTreeMap<String, Value>)]
    pub params_schema: Value,
    #[schema(value_type = BTreeMap<String, Value>)]
    pub result_schema: Value,
    pub reversibility: Reversibility,
    /// How long the effect can be reverted, in seconds from when it was made. If absent, there is no time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible_seconds: Option<u64>,
    /// The checks that run after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The hosts its code may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What it does to the world.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The kinds of artifacts that it makes, each with how long it is kept and for whom; empty: it makes none.
    #[serde(default)]
    pub produces_artifacts: Vec<ArtifactSpec>,
    /// The isolation it runs in.
    pub profile: Profile,
    /// Digest of the code it runs, where that is a package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_sha256: Option<String>,
    /// Why the mode is stricter than what was set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tightened: Vec<String>,
    pub dry_run_supported: bool,
    pub timeout_ms: u64,
    /// What a call costs; null: nothing, because nobody has set a price.
    #[serde(default)]
    pub price: Option<PriceTerms>,
}

/// How to use a source, in markdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuideResponse {
    pub source: String,
    pub guide: String,
}
