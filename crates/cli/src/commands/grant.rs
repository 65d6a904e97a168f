//! Grants: a person's yes to more than one call, within bounds. Agents ask for them; people give, refuse and revoke them.

use super::action::{meant, params};
use super::people::People;
use super::{more, named, space};
use crate::args::{Agreed, Paging, Span, Unasked};
use crate::client::{Answer, Client};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Record, Table, Terminal};
use crate::style::{Tone, clean, counted};
use api::Page;
use api::invocation::GrantScopeName;
use api::rules::{GrantView, NewGrantRequest};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Grant {
    /// Grants and requests for them, newest first
    #[command(before_help = "Examples:\n  countersign grant list --state requested                what agents ask for")]
    List {
        /// Only those in this state
        #[arg(long, value_enum)]
        state: Option<State>,
        /// Only what this session can use or has asked for
        #[arg(long, value_name = "TITLE|ID")]
        session: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// One grant
    #[command(before_help = "Examples:\n  countersign grant show grt_…")]
    Show { id: String },
    /// Let calls run without asking, within bounds
    #[command(before_help = "Examples:
  countersign grant give files.write_text --session ses_… --calls 5
  countersign grant give 'files.*' --org --space lab --expires 2h      a whole source; asks first
  countersign grant give files.write_text --org --condition @notes-only.json")]
    Give(Give),
    /// Ask for a grant, as an agent; it allows nothing until a person gives it
    #[command(before_help = "Examples:\n  countersign grant request files.write_text --calls 5 --reason 'five notes to write'")]
    Request(Ask),
    /// Give what an agent asked for
    #[command(before_help = "Examples:\n  countersign grant approve grt_…")]
    Approve {
        id: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Refuse what an agent asked for
    Refuse { id: String },
    /// End a grant at once: the next call asks a person again
    Revoke {
        id: String,
        #[command(flatten)]
        _unasked: Unasked,
    },
}

/// Within which bounds.
#[derive(Debug, Args)]
pub(crate) struct Bounds {
    /// An action such as files.write_text, a source such as files.*, or *
    #[arg(value_name = "COVERS")]
    covers: String,
    /// Only calls made in this space, by its name or its id
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Calls it is good for; any number when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    calls: Option<u32>,
    /// How long it lasts, such as 2h; 24h when absent
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    expires: Option<Span>,
    /// A JSON Schema the params must fit, too; @file reads a file
    #[arg(long, value_name = "JSON")]
    condition: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Debug, Args)]
pub(crate) struct Give {
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    agreed: Agreed,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Whose {
    /// For the calls of this session
    #[arg(long, value_name = "TITLE|ID")]
    session: Option<String>,
    /// For the calls of this automation
    #[arg(long, value_name = "ID")]
    automation: Option<String>,
    /// For everybody's calls
    #[arg(long)]
    org: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Requested,
    Active,
    Refused,
    Revoked,
    Expired,
}

const COLUMNS: &[Column] = &[
    Column::Whole("ID"),
    Column::Cut("COVERS"),
    Column::Extra("SCOPE"),
    Column::Whole("USED"),
    Column::Whole("STATE"),
    Column::Whole("EXPIRES"),
    Column::Extra("GIVEN BY"),
];

impl Grant {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { state, session, paging } => {
                let session = named::maybe_session(session.as_deref(), client).await?;
                list(state, session, &paging, client, terminal).await?;
            }
            Self::Show { id } => {
                let answer = client.get::<GrantView>(&["grants", &id], &[]).await?;
                tell(&answer, client, terminal).await?;
                match answer.read.state.as_str() {
                    "requested" => terminal.next(format!("countersign grant approve {id}, or countersign grant refuse {id}")),
                    "active" => terminal.next(format!("countersign grant revoke {id}")),
                    _ => {}
                }
            }
            Self::Give(Give { bounds, whose, agreed }) => {
                let scope = match (&whose.session, &whose.automation) {
                    (Some(_), _) => GrantScopeName::Session,
                    (None, Some(_)) => GrantScopeName::Automation,
                    (None, None) => GrantScopeName::Org,
                };
                let session_id = named::maybe_session(whose.session.as_deref(), client).await?;
                let request = NewGrantRequest { session_id, automation_id: whose.automation, scope, ..bounds.read(client).await? };
                if request.covers.ends_with('*') {
                    let question =
                        format!("give a grant for every action that `{}` covers, also later ones?", clean::line(&request.covers));
                    terminal.consent(&question, agreed.consent(client)).await?;
                }
                let answer = create(&request, client).await?;
                tell(&answer, client, terminal).await?;
                terminal.next(format!("countersign grant revoke {}", answer.read.id));
            }
            Self::Request(Ask { bounds }) => {
                let answer = create(&bounds.read(client).await?, client).await?;
                tell(&answer, client, terminal).await?;
                if answer.read.state == "requested" {
                    terminal.remark(Tone::Warn.paint("◷ asked for: it allows nothing until a person gives it"));
                    return Ok(Exit::Pending);
                }
            }
            Self::Approve { id, agreed } => {
                let asked = client.get::<GrantView>(&["grants", &id], &[]).await?.read;
                if asked.state == "requested" {
                    terminal.remark(format!("{} {}", Tone::Warn.paint("! gives"), summary(&asked, terminal)));
                    terminal.consent("give this grant?", agreed.consent(client)).await?;
                }
                let answer = client.post_empty::<GrantView>(&["grants", &id, "approve"]).await?;
                tell(&answer, client, terminal).await?;
                terminal.next(format!("countersign grant revoke {id}"));
            }
            Self::Refuse { id } => {
                let answer = client.post_empty::<GrantView>(&["grants", &id, "refuse"]).await?;
                tell(&answer, client, terminal).await?;
            }
            Self::Revoke { id, .. } => {
                let answer = client.delete::<GrantView>(&["grants", &id]).await?;
                tell(&answer, client, terminal).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl Bounds {
    async fn read(self, client: &Client) -> Result<NewGrantRequest, Failure> {
        let condition = match &self.condition {
            Some(given) => Some(params::read(Some(given), &[]).await.map_err(|mut failure| {
                failure.message = failure.message.replace("--params", "--condition").replace("the params are", "the condition is");
                failure.hint = failure.hint.map(|hint| hint.replace("--params", "--condition"));
                failure
            })?),
            None => None,
        };
        let space_id = match &self.space {
            Some(space) => Some(space::id_of(space, client).await?),
            None => None,
        };
        Ok(NewGrantRequest {
            covers: self.covers,
            scope: GrantScopeName::Session,
            session_id: None,
            automation_id: None,
            space_id,
            condition,
            calls_max: self.calls,
            max_calls: None,
            expires_in: self.expires.as_ref().map(Span::text),
            reason: self.reason,
        })
    }
}

async fn create(request: &NewGrantRequest, client: &Client) -> Result<Answer<GrantView>, Failure> {
    match client.post::<GrantView>(&["grants"], request).await {
        Ok(answer) => Ok(answer),
        Err(failure) => Err(meant::with_guess(failure, &request.covers, client).await),
    }
}

async fn list(
    state: Option<State>,
    session: Option<String>,
    paging: &Paging,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let word = |state: State| state.to_possible_value().map(|value| value.get_name().to_owned());
    let filters = [("state", state.and_then(word)), ("session", session)];
    let filters: Vec<_> = filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let flags: String = filters.iter().map(|(name, value)| format!(" --{name} {value}")).collect();
    let query: Vec<_> = paging.query().into_iter().chain(filters).collect();
    let answer = client.get::<Page<GrantView>>(&["grants"], &query).await?;
    let people = People::load(client, terminal).await;
    let mut table = Table::new(COLUMNS, "no grants: every call is answered by itself");
    for grant in &answer.read.items {
        table.row([
            Cell::text(&grant.id),
            Cell::text(&grant.covers),
            Cell::principal(&grant.scope),
            Cell::text(used(grant)),
            state_cell(grant),
            expires(grant, terminal),
            grant.given_by.as_ref().map_or_else(Cell::missing, |by| people.cell(by)),
        ]);
    }
    terminal.list(&answer.raw, &table)?;
    let requested = answer.read.items.iter().find(|grant| grant.state == "requested");
    match (&answer.read.next, requested) {
        (Some(next), _) => more(terminal, paging, Some(next), &format!("countersign grant list{flags}")),
        (None, Some(asked)) => terminal.next(format!("countersign grant show {}", asked.id)),
        (None, None) => {}
    }
    Ok(())
}

async fn tell(answer: &Answer<GrantView>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let people = People::load(client, terminal).await;
    let grant = &answer.read;
    let by = |principal: &String| people.whole(principal);
    let mut record = Record::new(&grant.id)
        .with("id", Cell::text(&grant.id).toned(Tone::Strong))
        .with("state", state_cell(grant))
        .with("covers", Cell::text(&grant.covers))
        .with("scope", Cell::text(&grant.scope))
        .with("used", Cell::text(used(grant)))
        .with("expires", expires(grant, terminal));
    let some = [
        ("space", grant.space_id.as_ref().map(Cell::text)),
        ("condition", grant.condition.as_ref().map(|condition| Cell::text(condition.to_string()))),
        ("reason", grant.reason.as_ref().map(Cell::text)),
        ("asked for by", grant.requested_by.as_ref().map(by)),
        ("given by", grant.given_by.as_ref().map(by)),
        ("given", grant.given_at.as_ref().map(|at| terminal.past(at))),
        ("given with", grant.invocation_id.as_ref().map(Cell::text)),
        ("ended by", grant.ended_by.as_ref().map(by)),
        ("ended", grant.ended_at.as_ref().map(|at| terminal.past(at))),
    ];
    for (label, cell) in some {
        record = record.with_some(label, cell);
    }
    terminal.record(&answer.raw, &record)
}

/// One line that says everything a yes gives away.
fn summary(grant: &GrantView, terminal: &Terminal) -> String {
    let calls = match grant.calls_max {
        Some(calls) => counted(calls, "call", "calls"),
        None => "any number of calls".to_owned(),
    };
    let space = grant.space_id.as_ref().map(|space| format!(" in space {space}")).unwrap_or_default();
    let condition = grant.condition.as_ref().map(|condition| format!(", where {condition}")).unwrap_or_default();
    let until = terminal.future(&grant.expires_at);
    clean::line(&format!("a grant for {} to {}{space}, {calls}, for {}{condition}", grant.covers, grant.scope, until.as_shown()))
}

fn used(grant: &GrantView) -> String {
    grant.calls_max.map_or_else(|| format!("{} of any", grant.calls_used), |most| format!("{} of {most}", grant.calls_used))
}

fn expires(grant: &GrantView, terminal: &Terminal) -> Cell {
    match grant.state.as_str() {
        "requested" | "active" => terminal.future(&grant.expires_at),
        _ => Cell::shown("–", &grant.expires_at).toned(Tone::Muted),
    }
}

fn state_cell(grant: &GrantView) -> Cell {
    let (symbol, tone) = match grant.state.as_str() {
        "requested" => ("◷ ", Tone::Warn),
        "active" => ("● ", Tone::Primary),
        "refused" => ("⊘ ", Tone::Danger),
        "revoked" | "expired" | "used_up" => ("– ", Tone::Muted),
        _ => ("", Tone::Plain),
    };
    Cell::shown(format!("{symbol}{}", grant.state.replace('_', " ")), &grant.state).toned(tone)
}
