//! `countersign session`: the working contexts of agents, each with the token that the agent acts under.

mod bootstrap;

use crate::shared::*;
use api::Code;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView};
use clap::Subcommand;
use countersign_core::SessionId;

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Create a session and its agent's token
    #[command(before_help = "Examples:
  countersign session create --title 'nightly triage' --unattended
  countersign session create --source files --source github         it knows no other actions
  export COUNTERSIGN_TOKEN=$(countersign session create --json | jq -r .token)")]
    Create {
        /// Nobody watches it: approvals may take 24 hours instead of 5 minutes
        #[arg(long)]
        unattended: bool,
        /// What it is for, and the name it can be called by; cli@ and this machine's name when absent
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// The name or the id of its space
        #[arg(long, value_name = "SPACE")]
        space: Option<String>,
        /// The automation it works for, whose modes and grants its calls then have
        #[arg(long, value_name = "ID")]
        automation: Option<String>,
        /// A source that it is connected to; may be given several times. Actions of others do not exist for it; all sources when absent
        #[arg(long, value_name = "SOURCE")]
        source: Vec<String>,
        #[command(flatten)]
        over_mcp: OverMcp,
    },
    /// List sessions, newest first
    #[command(before_help = "Examples:\n  countersign session list")]
    List(Paging),
    /// Show one session
    #[command(before_help = "Examples:\n  countersign session show ses_…\n  countersign session show 'nightly triage'")]
    Show {
        /// Its title or its id
        session: String,
    },
    /// End a session: its token stops working at once
    #[command(before_help = "Examples:\n  countersign session end ses_… --yes")]
    End {
        /// Its title or its id
        session: String,
        #[command(flatten)]
        agreed: Agreed,
    },
    /// Write the guide of a session for its agent, to .countersign/actions-guide.md in a folder
    #[command(before_help = bootstrap::EXAMPLES)]
    Bootstrap(bootstrap::Bootstrap),
}

impl Resource for SessionView {
    const NOUN: &'static str = "session";
    const LIST: &'static str = "session list";
    const PATH: &'static [&'static str] = &["sessions"];
    const EMPTY: &'static str = "no sessions yet: countersign session create";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["title", "attendance"]);
    const SHOWS_SPACES: bool = true;
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("title", Column::Cut, |one, _| text(&one.title)),
        Field::both("attendance", Column::Extra, |one, _| text(one.attendance.as_str())),
        Field::line("space", |one, view| view.space(&one.space_id)),
        Field::line("automation", |one, _| maybe(one.automation_id.as_ref())),
        Field::line("sources", |one, _| maybe(one.sources.as_ref().map(|sources| sources.join(" ")))),
        Field::both("created by", Column::Extra, |one, view| view.who(&one.created_by)),
        Field::line("works for", |one, view| view.who(one.owner_id.as_ref()?)),
        Field::both("created", Column::Extra, |one, view| view.past(one.created_at)),
        Field::line("ended", |one, view| view.past(one.ended_at?)),
        Field::both("state", Column::Whole, |one, _| {
            Some(match one.ended_at {
                Some(_) => Cell::shown("– ended", "ended").toned(Tone::Muted),
                None => Cell::shown("● open", "open").toned(Tone::Primary),
            })
        }),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> Option<String> {
        Some(format!("countersign invocation list --session {}", self.id))
    }
}

impl Named for SessionView {
    const PAGES_MAX: usize = 10;
    const HAS_MAKERS: bool = true;

    fn is_id(text: &str) -> bool {
        SessionId::parse(text).is_ok()
    }

    fn name(&self) -> &str {
        &self.title
    }

    fn works(&self) -> bool {
        self.ended_at.is_none()
    }

    fn is_made_by(&self, principal: &str) -> bool {
        self.created_by == principal
    }
}

impl Session {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { unattended, title, space, automation, source, over_mcp } => {
                let title = title.or_else(default_title);
                let sources = Some(source).filter(|sources| !sources.is_empty());
                let mcp = over_mcp.wishes();
                let request = NewSessionRequest { space, title, unattended, automation_id: automation, sources, mcp };
                let answer = client.post::<NewSessionResponse>(&["sessions"], &request).await;
                let answer = answer.map_err(|failure| with_sources(failure, &request))?;
                let created = &answer.read;
                let record = Record::new(&created.id)
                    .with("id", Cell::text(&created.id))
                    .with("token", Cell::text(&created.token).toned(Tone::Strong))
                    .with("title", Cell::text(&created.session.title))
                    .with("space", Cell::text(&created.session.space_id))
                    .with("attendance", Cell::text(created.session.attendance.as_str()))
                    .with_some("automation", created.session.automation_id.as_ref().map(Cell::text))
                    .with_some("sources", created.session.sources.as_ref().map(|sources| Cell::text(sources.join(" "))));
                terminal.secret("token", &answer.raw, &record)?;
                terminal.next("COUNTERSIGN_TOKEN=… countersign action list");
            }
            Self::List(paging) => drop(resource::list::<SessionView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { session } => {
                let id = id_of::<SessionView>(&session, client).await?;
                resource::show::<SessionView>(&id, client, terminal).await?;
            }
            Self::End { session, agreed } => {
                let id = id_of::<SessionView>(&session, client).await?;
                terminal.consent(&format!("End session `{}`?", clean::line(&session)), agreed.consent(client)).await?;
                let answer = client.post_empty::<SessionView>(&["sessions", &id, "end"]).await?;
                terminal.done("ended", &id, &answer.raw)?;
            }
            Self::Bootstrap(bootstrap) => return bootstrap.run(client, terminal).await,
        }
        Ok(Exit::Ok)
    }
}

/// Adds where the names of sources are found, if they may be what was refused.
fn with_sources(failure: Failure, request: &NewSessionRequest) -> Failure {
    if request.sources.is_none() || !failure.is(Code::InvalidRequest) {
        return failure;
    }
    failure.hint("list those that were added with `countersign source list`, and all with `countersign action list`")
}

/// A title from the host name, for a session that the user gave none.
fn default_title() -> Option<String> {
    let system = rustix::system::uname();
    let host = system.nodename().to_str().ok().filter(|host| !host.is_empty())?;
    Some(format!("cli@{host}"))
}
