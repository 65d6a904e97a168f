//! `countersign source`: the MCP servers that admins added. Their tools are actions, with a tier, a mode and a review as all others have.

mod add;
mod drift;
mod edit;
mod harvest;
mod pause;
mod program;
mod review;
mod tiers;

use crate::shared::*;
use api::source::{AddedSourceView, SourceProgramView, SourceTestView};
use clap::Subcommand;
use countersign_core::decision::Drift;

#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Add an MCP server: its tools become actions, which count as reviewed by you
    #[command(before_help = add::EXAMPLES)]
    Add(Box<add::Add>),
    /// List the sources that were added
    #[command(before_help = "Examples:\n  countersign source list")]
    List(Paging),
    /// Show a source: its settings, who added it, and what it listed last
    #[command(before_help = "Examples:\n  countersign source show github              also after it was removed")]
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
    },
    /// Change what was set about a source; what is not named stays
    #[command(before_help = edit::EXAMPLES)]
    Edit(Box<edit::Edit>),
    /// Show the tier of each of its tools and why, and change several at once
    #[command(before_help = tiers::EXAMPLES)]
    Tiers(tiers::Tiers),
    /// Connect to a source and list its tools, and keep nothing of it
    #[command(before_help = "Examples:\n  countersign source test github")]
    Test {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
    },
    /// List the tools of a source again, now
    #[command(before_help = "Examples:\n  countersign source refresh github")]
    Refresh {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
    },
    /// Show what changed since it was reviewed, and what appeared or went
    #[command(before_help = "Examples:\n  countersign source drift                    of all sources\n  countersign source drift github")]
    Drift {
        /// Its name; all sources when absent
        #[arg(value_name = "NAME")]
        added: Option<String>,
    },
    /// Mark what changed or appeared in a source as reviewed, after a look at it
    #[command(before_help = review::EXAMPLES)]
    Review(review::Review),
    /// Stop every call of a source until it is resumed; pending calls are kept
    #[command(before_help = "Examples:\n  countersign source pause github --reason 'it answers nonsense'")]
    Pause {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
        /// Why; recorded, and told to those whose calls are stopped
        #[arg(long, value_name = "TEXT", default_value = "paused", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Let the calls of a paused source through again
    #[command(before_help = "Examples:\n  countersign source resume github")]
    Resume {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
        /// Why; recorded
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        unasked: Unasked,
    },
    /// Remove a source: its actions are gone; its receipts and past definitions stay readable
    #[command(before_help = "Examples:\n  countersign source remove github")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        added: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

impl Resource for AddedSourceView {
    const NOUN: &'static str = "source";
    const LIST: &'static str = "source list";
    const PATH: &'static [&'static str] = &["sources"];
    const EMPTY: &'static str = "no sources were added: countersign source add NAME --mcp URL, or countersign source add NAME -- COMMAND";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["title"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("name", Column::Whole, |one, _| text(&one.id)),
        Field::line("title", |one, _| text(&one.title)),
        Field::both("kind", Column::Whole, |one, _| text(&one.kind)),
        Field::both("state", Column::Whole, |one, _| Some(state(one))),
        Field::both("actions", Column::Number, |one, _| text(one.harvest.actions.len().to_string())),
        Field::both("server", Column::Below, |one, _| text(server(one))),
        Field::line("env", |one, _| variables(one)),
        Field::line("connection", |one, _| maybe(one.connection.as_ref().map(|connection| &connection.name))),
        Field::line("default tier", |one, _| one.default_tier.map(Cell::tier)),
        Field::line("read-only hints", |one, _| text(if one.trust_hints { "believed" } else { "not believed" })),
        Field::line("tiers set", |one, _| tiers::line(&one.tiers)),
        Field::both("spaces", Column::Extra, |one, _| match &one.spaces {
            Some(spaces) => text(spaces.join(" ")),
            None => Some(Cell::shown("all", "").toned(Tone::Muted)),
        }),
        Field::line("may take", |one, _| text(format!("{} ms to list, {} ms to call", one.list_timeout_ms, one.call_timeout_ms))),
        Field::both("listed", Column::Extra, |one, view| match one.harvest.listed_at {
            Some(at) => view.past(at),
            None => Some(Cell::shown("never", "").toned(Tone::Muted)),
        }),
        Field::line("stale", |one, _| one.harvest.is_stale.then(|| Cell::shown("! yes: it did not answer since", "yes").toned(Tone::Warn))),
        Field::line("error", |one, _| maybe(one.harvest.error.as_ref()).map(|error| error.toned(Tone::Danger))),
        Field::line("program", |one, _| one.program.as_ref().map(program)),
        Field::line("MCP", |one, _| maybe(one.harvest.protocol.as_ref())),
        Field::both("added by", Column::Extra, |one, view| view.who(&one.added_by)),
        Field::both("added", Column::Whole, |one, view| view.past(one.added_at)),
        Field::line("version", |one, _| text(one.version.to_string())),
        Field::line("changed by", |one, view| view.who(&one.changed_by).filter(|_| one.version > 1)),
        Field::line("changed", |one, view| view.past(one.changed_at).filter(|_| one.version > 1)),
        Field::line("removed", |one, view| view.past(one.removed_at?)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let drifted = items.iter().find(|source| to_review(source) > 0)?;
        Some(format!("countersign source review {}", drifted.id))
    }
}

/// How many of its actions changed or appeared since they were reviewed.
fn to_review(source: &AddedSourceView) -> usize {
    source.harvest.actions.iter().filter(|action| action.drift != Drift::None).count()
}

/// The one thing about a source that a person should know first.
fn state(source: &AddedSourceView) -> Cell {
    let harvest = &source.harvest;
    if source.removed_at.is_some() {
        return Cell::shown("– removed", "removed").toned(Tone::Muted);
    }
    if source.paused {
        return Cell::shown("■ paused", "paused").toned(Tone::Danger);
    }
    if harvest.error.is_some() {
        return Cell::shown("✗ unavailable", "unavailable").toned(Tone::Danger);
    }
    match to_review(source) {
        0 if harvest.is_stale => Cell::shown("! stale", "stale").toned(Tone::Warn),
        0 => Cell::shown("✓ ready", "ready").toned(Tone::Ok),
        count => Cell::shown(format!("! {count} to review"), "drifted").toned(Tone::Warn),
    }
}

/// How its program ended and what to do, or that it runs, and what it said last.
fn program(program: &SourceProgramView) -> Cell {
    let SourceProgramView { ended, hint, stderr } = program;
    let mut said = vec![ended.as_ref().map_or_else(|| "runs".to_owned(), Clone::clone)];
    said.extend(hint.clone());
    if !stderr.is_empty() {
        said.push(format!("its last lines: {}", stderr.join(" | ")));
    }
    let cell = Cell::text(said.join("; "));
    if ended.is_some() { cell.toned(Tone::Danger) } else { cell }
}

/// Its address, its command, or its package.
fn server(source: &AddedSourceView) -> String {
    let command = || source.command.as_ref().map(|words| words.join(" "));
    let package = || source.package.as_ref().map(|package| format!("package `{package}`"));
    source.url.clone().or_else(command).or_else(package).unwrap_or_default()
}

fn variables(source: &AddedSourceView) -> Option<Cell> {
    let told = source.env.iter().map(|variable| match (&variable.value, &variable.secret) {
        (_, Some(secret)) => format!("{} (secret `{secret}`)", variable.name),
        (Some(value), None) => format!("{}={value}", variable.name),
        (None, None) => variable.name.clone(),
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| Cell::text(told.join(", ")))
}

impl Source {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Add(add) => add.run(client, terminal).await?,
            Self::List(paging) => drop(resource::list::<AddedSourceView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { added } => {
                let answer = client.get::<AddedSourceView>(&["sources", &added], &[]).await?;
                tell(&answer, client, terminal).await?;
            }
            Self::Edit(edit) => edit.run(client, terminal).await?,
            Self::Tiers(tiers) => tiers.run(client, terminal).await?,
            Self::Test { added } => return test(&added, client, terminal).await,
            Self::Refresh { added } => {
                let answer = client.post_empty::<AddedSourceView>(&["sources", &added, "refresh"]).await?;
                tell(&answer, client, terminal).await?;
                if let Some(error) = &answer.read.harvest.error {
                    let message = format!("`{}` could not be listed: {}", clean::line(&added), clean::line(error));
                    return Err(Failure::failed(message).hint(format!("countersign source test {}", clean::line(&added))));
                }
            }
            Self::Drift { added } => drift::run(added.as_deref(), client, terminal).await?,
            Self::Review(review) => review.run(client, terminal).await?,
            Self::Pause { added, reason, agreed } => pause::pause(&added, reason, agreed, client, terminal).await?,
            Self::Resume { added, reason, unasked: _ } => pause::resume(&added, reason, client, terminal).await?,
            Self::Remove { added, agreed } => {
                let question = format!("Remove source `{}`? Its actions are gone then; its receipts stay.", clean::line(&added));
                terminal.consent(&question, agreed.consent(client)).await?;
                let answer = client.delete::<AddedSourceView>(&["sources", &added]).await?;
                terminal.done("removed", &added, &answer.raw)?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Writes a source, and for people what it offers.
async fn tell(answer: &Answer<AddedSourceView>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    resource::tell(answer, client, terminal).await?;
    if !terminal.is_for_words() {
        return Ok(());
    }
    let source = &answer.read;
    terminal.line("")?;
    harvest::tell(&source.harvest, terminal)?;
    let next = match source {
        AddedSourceView { removed_at: Some(_), .. } => None,
        AddedSourceView { paused: true, .. } => Some(format!("countersign source resume {}", source.id)),
        _ if to_review(source) > 0 => Some(format!("countersign source review {}", source.id)),
        _ if source.harvest.error.is_some() => Some(format!("countersign source test {}", source.id)),
        _ => harvest::safest(&source.harvest, client).await,
    };
    if let Some(next) = next {
        terminal.next(next);
    }
    Ok(())
}

async fn test(name: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.post_empty::<SourceTestView>(&["sources", name, "test"]).await?;
    let SourceTestView { protocol, actions, left_out, took_ms, error } = &answer.read;
    let found = match error {
        Some(error) => Cell::text(format!("✗ {}: {}", error.code, error.message)).toned(Tone::Danger),
        None => Cell::shown("✓ it answers", "ok").toned(Tone::Ok),
    };
    let record = Record::new(name)
        .with("source", Cell::text(name).toned(Tone::Strong))
        .with("state", found)
        .with_some("MCP", protocol.as_ref().map(Cell::text))
        .with("actions", Cell::text(actions.to_string()))
        .with("left out", Cell::text(left_out.to_string()))
        .with("took", Cell::lasting(*took_ms));
    terminal.record(&answer.raw, &record)?;
    let Some(error) = error else { return Ok(Exit::Ok) };
    let name = clean::line(name);
    terminal.next(match error.code.as_str() {
        "source_unauthorized" => format!("countersign source edit {name} --connection CONNECTION"),
        _ => format!("countersign source show {name}"),
    });
    Ok(Exit::Failed)
}
