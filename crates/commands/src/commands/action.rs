//! `countersign action`: lists, shows, reviews and invokes actions.

pub(super) mod invoke;
pub(super) mod meant;
pub(super) mod params;
mod price;
pub(super) mod review;
pub(super) mod session;

use crate::shared::*;
use api::Code;
use api::action::{ActionStatsView, ActionView, AvailableResponse, GuideResponse, LatencyView};
use api::identity::{SessionView, WhoamiResponse};
use api::rules::{PriceView, ReviewView};
use clap::{Args, Subcommand};
use countersign_core::artifact::ArtifactSpec;
use countersign_core::decision::Drift;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List actions, each with its present mode
    #[command(before_help = "Examples:\n  countersign action list --source files")]
    List(List),
    /// Show one action with its params
    #[command(before_help = "Examples:\n  countersign action show files.write_text")]
    Show {
        /// Such as files.write_text
        action: String,
    },
    /// Show how well an action does: how often it succeeds, its mean reward, and how long it takes
    #[command(
        before_help = "Examples:\n  countersign action stats files.write_text\n  countersign action stats files.write_text --since 7d"
    )]
    Stats {
        /// Such as files.write_text
        action: String,
        /// Only calls that ended then or later: a time, or how long ago, such as 7d
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
    },
    /// Print the guide of a source, in its own words
    #[command(before_help = "Examples:\n  countersign action guide files")]
    Guide {
        /// Such as files
        source: String,
    },
    /// Mark the definition of an action as reviewed, after a look at what changed
    #[command(before_help = review::EXAMPLES)]
    Review(review::Review),
    /// List reviewed definitions, and what changed since
    #[command(before_help = "Examples:\n  countersign action reviews")]
    Reviews(Paging),
    /// Set what a call of an action costs, in dollars
    #[command(before_help = price::EXAMPLES)]
    Price(price::Price),
    /// List the prices of actions
    #[command(before_help = "Examples:\n  countersign action prices")]
    Prices(Paging),
    /// Invoke an action; it waits where it needs approval
    #[command(before_help = invoke::EXAMPLES)]
    Invoke(invoke::Invoke),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those of this source
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// As they are for this session
    #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
}

const COLUMNS: &[Column] =
    &[Column::Whole("ID"), Column::Whole("TIER"), Column::Whole("MODE"), Column::Cut("TITLE"), Column::Whole("DRIFT")];
const PARAM_COLUMNS: &[Column] = &[Column::Whole("PARAM"), Column::Whole("TYPE"), Column::Whole("NEEDED"), Column::Cut("WHAT")];

impl Action {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => list.run(client, terminal).await,
            Self::Show { action } => show(&action, client, terminal).await,
            Self::Stats { action, since } => stats(&action, since, client, terminal).await,
            Self::Guide { source } => guide(&source, client, terminal).await,
            Self::Review(review) => review.run(client, terminal).await,
            Self::Reviews(paging) => {
                resource::list::<ReviewView>(Asked::of(&paging), client, terminal).await?;
                Ok(Exit::Ok)
            }
            Self::Price(price) => price.run(client, terminal).await,
            Self::Prices(paging) => {
                resource::list::<PriceView>(Asked::of(&paging), client, terminal).await?;
                Ok(Exit::Ok)
            }
            Self::Invoke(invoke) => invoke.run(client, terminal).await,
        }
    }
}

impl List {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let session = maybe_id_of::<SessionView>(self.session.as_deref(), client).await?;
        list(self.source.as_deref(), session.as_deref(), "countersign action show ID", client, terminal).await
    }
}

/// Lists the actions of a source, or of all, and suggests what to do next.
pub(super) async fn list(
    source: Option<&str>,
    session: Option<&str>,
    next: &str,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Exit, Failure> {
    let answer = available(session, client).await?;
    if let Some(named) = source
        && answer.read.sources.iter().all(|listed| listed.id != named)
    {
        return Err(Failure::new(Exit::NotFound, format!("there is no source `{}`", clean::line(named)))
            .hint("leave it out to list the actions of all sources there are"));
    }
    let mut table = Table::new(COLUMNS, "no actions");
    let mut items = Vec::new();
    let raw_sources = answer.raw.get("sources").and_then(Value::as_array).cloned().unwrap_or_default();
    for (listed, raw) in answer.read.sources.iter().zip(raw_sources) {
        if source.is_some_and(|wanted| wanted != listed.id) {
            continue;
        }
        if let Some(error) = &listed.error {
            terminal.note(Tone::Warn.paint(format!("! source `{}` could not be listed: {}", clean::line(&listed.id), clean::line(error))));
        }
        for action in &listed.actions {
            table.row([
                Cell::text(&action.id),
                Cell::tier(action.tier),
                Cell::mode(action.mode),
                Cell::text(&action.title),
                review::drift_cell(Some(action.drift)),
            ]);
        }
        items.extend(raw.get("actions").and_then(Value::as_array).cloned().unwrap_or_default());
    }
    terminal.list(&json!({ "items": items, "next": null }), &table)?;
    if !table.is_empty() {
        terminal.next(next);
    }
    Ok(Exit::Ok)
}

/// The actions of a session if one is named. Otherwise all actions, or for an agent, which may not list all, those of its own session.
async fn available(session: Option<&str>, client: &Client) -> Result<Answer<AvailableResponse>, Failure> {
    if let Some(session) = session {
        return client.get(&["sessions", session, "actions", "available"], &[]).await;
    }
    let everything = client.get(&["actions"], &[]).await;
    match everything {
        Err(failure) if failure.is(Code::Forbidden) => {
            let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read;
            let own = whoami.session_id.ok_or(failure)?;
            client.get(&["sessions", &own, "actions", "available"], &[]).await
        }
        other => other,
    }
}

/// `image, document (permanent, private)`: the kinds of artifacts, and what of them is not usual.
fn makes(artifacts: &[ArtifactSpec]) -> String {
    let told = |spec: &ArtifactSpec| {
        let usual = ArtifactSpec::of(spec.kind);
        let retention = (spec.retention != usual.retention).then_some(spec.retention.as_str());
        let visibility = (spec.visibility != usual.visibility).then_some(spec.visibility.as_str());
        let unusual: Vec<_> = retention.into_iter().chain(visibility).collect();
        if unusual.is_empty() { spec.kind.to_string() } else { format!("{} ({})", spec.kind, unusual.join(", ")) }
    };
    artifacts.iter().map(told).collect::<Vec<_>>().join(", ")
}

async fn show(id: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<ActionView>(&["actions", id], &[]).await?;
    let action = &answer.read;
    let mode_source = format!(" ({})", action.mode_source.as_str().replace('_', " "));
    let dry_run = if action.dry_run_supported { "yes, with --dry-run" } else { "no" };
    let record = Record::new(&action.id)
        .with("id", Cell::text(&action.id).toned(Tone::Strong))
        .with("title", Cell::text(&action.title))
        .with("what it does", Cell::text(&action.description))
        .with("tier", Cell::tier(action.tier).and(format!(" {}", action.class)))
        .with("safety class", Cell::text(action.safety_class.as_str()))
        .with_some("requires", (!action.requires.is_empty()).then(|| Cell::text(action.requires.join(", "))))
        .with("mode", Cell::mode(action.mode).and(mode_source))
        .with("price", Cell::text(price::words(action.price.as_ref())))
        .with("reversible", Cell::text(word(action.reversibility).replace('_', " ")))
        .with_some("reaches", (!action.hosts.is_empty()).then(|| Cell::text(action.hosts.join(", "))))
        .with_some("makes", (!action.produces_artifacts.is_empty()).then(|| Cell::text(makes(&action.produces_artifacts))))
        .with("dry run", Cell::text(dry_run))
        .with_some(
            "automatic key",
            (!action.idempotency_key_fields.is_empty()).then(|| Cell::text(format!("of {}", action.idempotency_key_fields.join(", ")))),
        )
        .with("timeout", Cell::text(format!("{} ms", action.timeout_ms)))
        .with("version", Cell::text(&action.version));
    let has_drifted = action.drift != Drift::None;
    let since = if action.drift == Drift::Appeared { "" } else { " since it was reviewed" };
    let record = record.with_some("drift", has_drifted.then(|| review::drift_cell(Some(action.drift)).and(since)));
    terminal.record(&answer.raw, &record)?;
    if !terminal.is_for_words() {
        return Ok(Exit::Ok);
    }
    terminal.line("")?;
    terminal.list(&Value::Null, &params_table(&action.params_schema))?;
    if has_drifted {
        terminal.next(format!("countersign action review {}", action.id));
    }
    terminal.next(format!("countersign action invoke {}{}", action.id, example(&action.params_schema)));
    Ok(Exit::Ok)
}

async fn stats(id: &str, since: Option<String>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let query: Vec<_> = since.into_iter().map(|since| ("since", since)).collect();
    let answer = client.get::<ActionStatsView>(&["actions", id, "stats"], &query).await?;
    let stats = &answer.read;
    let ended: Vec<_> = stats.calls.iter().map(|(status, calls)| format!("{calls} {status}")).collect();
    let latency = |latency: &LatencyView| format!("{} ms (95 %: {} ms, longest: {} ms)", latency.p50, latency.p95, latency.max);
    let record = Record::new(&stats.action)
        .with("id", Cell::text(&stats.action).toned(Tone::Strong))
        .with("calls", Cell::text(if ended.is_empty() { "none has ended".to_owned() } else { ended.join(", ") }))
        .with("executed", Cell::text(stats.executed.to_string()))
        .with_some("success rate", stats.success_rate.map(|rate| Cell::text(format!("{:.1} %", rate * 100.0))))
        .with_some("mean reward", stats.mean_reward.map(|reward| Cell::text(format!("{reward:.2}"))))
        .with_some("latency", stats.latency_ms.as_ref().map(|times| Cell::text(latency(times))));
    terminal.record(&answer.raw, &record)?;
    Ok(Exit::Ok)
}

pub(super) async fn guide(source: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.get::<GuideResponse>(&["sources", source, "guide"], &[]).await?;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
    } else {
        terminal.line(clean::block(answer.read.guide.trim_end()))?;
    }
    Ok(Exit::Ok)
}

/// The params that a schema declares on its first level, as a table.
fn params_table(schema: &Value) -> Table {
    let mut table = Table::new(PARAM_COLUMNS, "no params");
    let needed = needed(schema);
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let kind = match (property.get("type"), property.get("enum")) {
            (Some(Value::String(kind)), _) => kind.clone(),
            (Some(kinds), _) => kinds.to_string(),
            (None, Some(choices)) => choices.to_string(),
            (None, None) => "any".to_owned(),
        };
        let needed = if needed.contains(&name.as_str()) { "needed" } else { "" };
        let what = property.get("description").and_then(Value::as_str).unwrap_or_default();
        table.row([Cell::text(name), Cell::text(kind), Cell::text(needed), Cell::text(what)]);
    }
    table
}

fn needed(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The required params as they are written in a call: ` path=… amount:=…`.
pub(super) fn example(schema: &Value) -> String {
    let is_text = |name: &str| schema["properties"][name].get("type").is_none_or(|kind| *kind == "string");
    needed(schema).into_iter().map(|name| format!(" {name}{}…", if is_text(name) { "=" } else { ":=" })).collect()
}
