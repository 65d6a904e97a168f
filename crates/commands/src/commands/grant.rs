//! `countersign grant`: permissions for more than one call, within limits. Agents request grants; people give, refuse and revoke them.

use super::action::params;
use super::sum;
use crate::shared::*;
use crate::style::time;
use api::identity::{SessionView, SpaceView};
use api::invocation::GrantScopeName;
use api::rules::{GrantView, NewGrantRequest};
use clap::{Args, Subcommand};
use countersign_core::grant::GrantStateName;
use countersign_core::limits::PAGE_ROWS_MAX;

#[derive(Debug, Subcommand)]
pub(crate) enum Grant {
    /// List grants and requests for them, newest first
    #[command(before_help = "Examples:\n  countersign grant list --state requested                what agents request")]
    List {
        /// Only those in this state
        #[arg(long, value_parser = one_of(GrantStateName::ALL, GrantStateName::as_str))]
        state: Option<GrantStateName>,
        /// Only those this session can use or has requested
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one grant
    #[command(before_help = "Examples:\n  countersign grant show grt_…")]
    Show {
        /// Its id
        grant: String,
    },
    /// Let calls run without asking, within limits
    #[command(before_help = "Examples:
  countersign grant give files.write_text --session ses_… --calls 5
  countersign grant give 'files.*' --org --space lab --expires 2h      a whole source; asks first
  countersign grant give files.write_text --org --condition @notes-only.json
  countersign grant give shop.refund --org --sum-max 500 --of /amount --per 24h")]
    Give(Give),
    /// Request a grant, as an agent; it allows nothing until a person approves it
    #[command(before_help = "Examples:\n  countersign grant request files.write_text --calls 5 --reason 'five notes to write'")]
    Request(Ask),
    /// Approve a grant that an agent requested
    #[command(before_help = "Examples:\n  countersign grant approve grt_…")]
    Approve {
        /// Its id
        grant: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Refuse a grant that an agent requested
    #[command(before_help = "Examples:\n  countersign grant refuse grt_…")]
    Refuse {
        /// Its id
        grant: String,
    },
    /// Revoke a grant at once: the next call needs approval again
    #[command(before_help = "Examples:\n  countersign grant revoke grt_…")]
    Revoke {
        /// Its id
        grant: String,
        #[command(flatten)]
        _unasked: Unasked,
    },
}

/// Within which limits.
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
    #[command(flatten)]
    sum: sum::Bound,
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
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// For the calls of this automation
    #[arg(long, value_name = "ID")]
    automation: Option<String>,
    /// For everybody's calls
    #[arg(long)]
    org: bool,
}

impl Resource for GrantView {
    const NOUN: &'static str = "grant";
    const LIST: &'static str = "grant list";
    const PATH: &'static [&'static str] = &["grants"];
    const EMPTY: &'static str = "no grants: every call is approved by itself";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["covers", "state"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("covers", Column::Cut, |one, _| text(&one.covers)),
        Field::column("scope", Column::Extra, |one, _| Some(Cell::principal(&one.scope))),
        Field::line("scope", |one, _| text(&one.scope)),
        Field::both("used", Column::Whole, |one, _| {
            text(one.calls_max.map_or_else(|| format!("{} of any", one.calls_used), |most| format!("{} of {most}", one.calls_used)))
        }),
        Field::line("sum", spent),
        Field::both("state", Column::Whole, |one, _| Some(state(one.state))),
        Field::both("expires", Column::Whole, |one, view| match one.state {
            GrantStateName::Requested | GrantStateName::Active => view.future(one.expires_at),
            GrantStateName::Refused | GrantStateName::Revoked | GrantStateName::Expired | GrantStateName::UsedUp => {
                Some(Cell::shown("–", one.expires_at.to_string()).toned(Tone::Muted))
            }
        }),
        Field::line("lasts", |one, _| text(lasts(one))),
        Field::line("space", |one, view| view.space(one.space_id.as_ref()?)),
        Field::line("condition", |one, _| maybe(one.condition.as_ref().map(ToString::to_string))),
        Field::line("requested by", requester),
        Field::line("reason given", |one, _| maybe(one.reason.as_ref())),
        Field::both("given by", Column::Extra, |one, view| view.who(one.given_by.as_ref()?)),
        Field::column("requested by", Column::Below, requester),
        Field::column("reason given", Column::Cut, |one, _| maybe(one.reason.as_ref())),
        // Scripts count columns, so this one is the last.
        Field::column("sum", Column::Below, spent),
        Field::line("given", |one, view| view.past(one.given_at?)),
        Field::line("given with", |one, _| maybe(one.invocation_id.as_ref())),
        Field::line("ended by", |one, view| view.who(one.ended_by.as_ref()?)),
        Field::line("ended", |one, view| view.past(one.ended_at?)),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        let id = &self.id;
        match self.state {
            GrantStateName::Requested => Some(format!("countersign grant approve {id}, or countersign grant refuse {id}")),
            GrantStateName::Active => Some(format!("countersign grant revoke {id}")),
            GrantStateName::Refused | GrantStateName::Revoked | GrantStateName::Expired | GrantStateName::UsedUp => None,
        }
    }

    fn next_of(items: &[Self]) -> Option<String> {
        let requested = items.iter().find(|grant| grant.state == GrantStateName::Requested)?;
        Some(format!("countersign grant show {}", requested.id))
    }
}

/// How much of its sum is spent, if it bounds one.
fn spent(grant: &GrantView, _: &View<'_>) -> Option<Cell> {
    maybe(grant.sum_max.as_ref().map(|sum| format!("{} of {}", clean::line(&sum.spent), sum::words(sum))))
}

/// Who requested the grant: an agent by the title of its session, a person by name.
fn requester(grant: &GrantView, view: &View<'_>) -> Option<Cell> {
    view.requester(grant.requested_by.as_ref()?, grant.session_title.as_deref())
}

/// How long it allows calls. A request has an end of its own until it is answered.
fn lasts(grant: &GrantView) -> String {
    let lifetime = time::span(grant.lifetime_seconds);
    match grant.state {
        GrantStateName::Requested => format!("{lifetime} from when it is given"),
        GrantStateName::Active | GrantStateName::Refused | GrantStateName::Revoked | GrantStateName::Expired | GrantStateName::UsedUp => {
            lifetime
        }
    }
}

fn state(state: GrantStateName) -> Cell {
    let (symbol, tone) = match state {
        GrantStateName::Requested => ("◷", Tone::Warn),
        GrantStateName::Active => ("●", Tone::Primary),
        GrantStateName::Refused => ("⊘", Tone::Danger),
        GrantStateName::Revoked | GrantStateName::Expired | GrantStateName::UsedUp => ("–", Tone::Muted),
    };
    Cell::shown(format!("{symbol} {}", word(state).replace('_', " ")), word(state)).toned(tone)
}

impl Grant {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let answer = match self {
            Self::List { state, session, paging } => {
                let session = maybe_id_of::<SessionView>(session.as_deref(), client).await?;
                let asked = Asked::of(&paging).only("state", state.map(|state| state.to_string())).only("session", session);
                resource::list::<GrantView>(asked, client, terminal).await?;
                return Ok(Exit::Ok);
            }
            Self::Show { grant } => client.get(&["grants", &grant], &[]).await?,
            Self::Give(Give { bounds, whose, agreed }) => {
                let scope = match (&whose.session, &whose.automation) {
                    (Some(_), _) => GrantScopeName::Session,
                    (None, Some(_)) => GrantScopeName::Automation,
                    (None, None) => GrantScopeName::Org,
                };
                let session_id = maybe_id_of::<SessionView>(whose.session.as_deref(), client).await?;
                let request =
                    NewGrantRequest { session_id, automation_id: whose.automation, scope, ..bounds.read(client, terminal).await? };
                if request.covers.ends_with('*') {
                    let question = format!("Give a grant for every action of `{}`, also later ones?", clean::line(&request.covers));
                    terminal.consent(&question, agreed.consent(client)).await?;
                }
                create(&request, client).await?
            }
            Self::Request(Ask { bounds }) => {
                let answer = create(&bounds.read(client, terminal).await?, client).await?;
                return requested(&answer, client, terminal).await;
            }
            Self::Approve { grant, agreed } => {
                let asked = client.get::<GrantView>(&["grants", &grant], &[]).await?.read;
                if asked.state == GrantStateName::Requested {
                    let title = asked.session_title.as_deref().map(|title| format!("{} · ", clean::line(title))).unwrap_or_default();
                    let by = asked.requested_by.as_deref().map(clean::line).unwrap_or_default();
                    terminal.remark(format!("Requested by {title}{by}"));
                    if let Some(reason) = &asked.reason {
                        terminal.remark(format!("Reason given “{}”", clean::line(reason)));
                    }
                    terminal.remark(format!("{} {}", Tone::Warn.paint("! gives"), summary(&asked)));
                    terminal.consent("Give this grant?", agreed.consent(client)).await?;
                }
                client.post_empty(&["grants", &grant, "approve"]).await?
            }
            Self::Refuse { grant } => client.post_empty(&["grants", &grant, "refuse"]).await?,
            Self::Revoke { grant, .. } => client.delete(&["grants", &grant]).await?,
        };
        resource::tell::<GrantView>(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}

/// Shows a grant that was just asked for, and says if a person has to approve it first.
pub(super) async fn requested(answer: &Answer<GrantView>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if answer.read.state != GrantStateName::Requested {
        resource::tell(answer, client, terminal).await?;
        return Ok(Exit::Ok);
    }
    // Whoever has to request a grant cannot approve it.
    let next = "countersign actions grants list --state requested".to_owned();
    resource::tell_then(answer, |record| record, Some(next), client, terminal).await?;
    terminal.remark(Tone::Warn.paint("◷ requested: it allows nothing until a person approves it"));
    Ok(Exit::Pending)
}

/// How many requests for grants wait for an answer, of one page; none if the list cannot be read.
pub(super) async fn waiting(client: &Client) -> u64 {
    let query = [("state", GrantStateName::Requested.to_string()), ("limit", PAGE_ROWS_MAX.to_string())];
    let page = client.get::<api::Page<GrantView>>(GrantView::PATH, &query).await.ok();
    page.map_or(0, |page| page.read.items.len() as u64)
}

impl Bounds {
    async fn read(self, client: &Client, terminal: &Terminal) -> Result<NewGrantRequest, Failure> {
        let condition = match &self.condition {
            Some(given) => {
                let condition = params::read(Some(given), &[], terminal).await;
                Some(condition.map_err(|failure| params::renamed(failure, "--condition", "the condition is"))?)
            }
            None => None,
        };
        let space_id = maybe_id_of::<SpaceView>(self.space.as_deref(), client).await?;
        Ok(NewGrantRequest {
            covers: self.covers,
            scope: GrantScopeName::Session,
            session_id: None,
            automation_id: None,
            space_id,
            condition,
            calls_max: self.calls,
            max_calls: None,
            sum_max: self.sum.request(),
            expires_in: self.expires.as_ref().map(Span::text),
            reason: self.reason,
        })
    }
}

async fn create(request: &NewGrantRequest, client: &Client) -> Result<Answer<GrantView>, Failure> {
    client.post::<GrantView>(&["grants"], request).await
}

/// One line that says everything the grant allows.
fn summary(grant: &GrantView) -> String {
    let calls = match grant.calls_max {
        Some(calls) => counted(calls, "call", "calls"),
        None => "any number of calls".to_owned(),
    };
    let sum = grant.sum_max.as_ref().map(|sum| format!(", {} in sum", sum::words(sum))).unwrap_or_default();
    let space = grant.space_id.as_ref().map(|space| format!(" in space {space}")).unwrap_or_default();
    let condition = grant.condition.as_ref().map(|condition| format!(", where {condition}")).unwrap_or_default();
    let lifetime = time::span(grant.lifetime_seconds);
    clean::line(&format!("a grant for {} to {}{space}, {calls}{sum}, for {lifetime}{condition}", grant.covers, grant.scope))
}
