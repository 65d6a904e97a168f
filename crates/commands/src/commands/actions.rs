//! `countersign actions`: what an agent in a sandbox has. It lists what its session may call, prints how, calls and waits, and requests
//! grants. An action is named by its source, which other programs call an integration, and its name there.

pub(super) mod guide;

use super::action::{self, invoke::Call};
use super::grant;
use super::sum;
use crate::shared::*;
use api::Page;
use api::invocation::GrantScopeName;
use api::rules::{GrantView, SessionGrantRequest};
use clap::{Args, Subcommand, ValueEnum};
use countersign_core::grant::GrantStateName;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(crate) enum Actions {
    /// List what this session may call, each with its present mode
    #[command(before_help = "Examples:\n  countersign actions list\n  countersign actions list --integration files --json")]
    List {
        /// Only the actions of this source
        #[arg(long = "integration", value_name = "SOURCE")]
        source: Option<String>,
    },
    /// Print how a source is used, in its own words; without one, how this command is used
    #[command(before_help = "Examples:\n  countersign actions guide\n  countersign actions guide --integration files")]
    Guide {
        /// Such as files
        #[arg(long = "integration", value_name = "SOURCE")]
        source: Option<String>,
    },
    /// Call an action, and wait until it is decided and done
    #[command(before_help = "\
The result is one JSON document on stdout. Everything else is on stderr, and the exit code says how it ended.

Examples:
  countersign actions run --integration files --action read_text path=notes/today.md
  countersign actions run --integration shop --action refund order=812 amount:=40 --reason 'it came broken'
  countersign actions run --integration shop --action refund --params @refund.json
  countersign actions run --integration shop --action refund --params @refund.json --no-wait")]
    Run(Run),
    /// Request a grant
    #[command(subcommand)]
    Grant(Requested),
    /// List grants
    #[command(subcommand)]
    Grants(Usable),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    call: Call,
}

/// An action, by its source and its name there.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The source, such as files
    #[arg(long = "integration", value_name = "SOURCE")]
    source: String,
    /// The name of the action there, such as write_text; its whole id is taken, too
    #[arg(long, value_name = "NAME")]
    action: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Requested {
    /// Request a grant; it allows nothing until a person approves it
    #[command(before_help = "\
Examples:
  countersign actions grant request --integration files --action write_text --max-calls 5 --reason 'five notes to write'
  countersign actions grant request --integration files --action '*' --scope org
  countersign actions grant request --integration shop --action refund --sum-max 500 --of /amount --per 24h")]
    Request(Request),
}

#[derive(Debug, Args)]
pub(crate) struct Request {
    #[command(flatten)]
    which: Which,
    /// Whose calls: those of this session, or everybody's
    #[arg(long, value_enum, default_value = "session")]
    scope: Scope,
    /// Calls it is good for; any number when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_calls: Option<u32>,
    #[command(flatten)]
    sum: sum::Bound,
    /// How long it lasts, such as 2h; 24h when absent
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    expires: Option<Span>,
    /// Why; shown to whoever answers
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The session, if the token is not that of its agent
    #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Scope {
    Session,
    Org,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Usable {
    /// List the grants that calls of this session can use, newest first
    #[command(before_help = "\
Examples:
  countersign actions grants list
  countersign actions grants list --state requested            what waits for an answer")]
    List {
        /// Those in this state; active when absent
        #[arg(long, value_parser = one_of(GrantStateName::ALL, GrantStateName::as_str))]
        state: Option<GrantStateName>,
        /// The session, if the token is not that of its agent
        #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
        session: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
}

impl Actions {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        // Whoever uses these commands is told of these, and not of those for people.
        self.perform(client, terminal).await.map_err(Failure::for_agent)
    }

    async fn perform(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { source } => {
                let next = "countersign actions guide --integration SOURCE";
                action::list(source.as_deref(), None, next, client, terminal).await
            }
            Self::Guide { source: Some(source) } => action::guide(&source, client, terminal).await,
            Self::Guide { source: None } => {
                let text = guide::of(None, client, terminal).await?;
                if terminal.is_document() {
                    terminal.document(&json!({ "guide": text }))?;
                } else {
                    terminal.line(text.trim_end())?;
                }
                Ok(Exit::Ok)
            }
            Self::Run(Run { which, call }) => call.run(format!("{}.{}", which.source, which.name()), client, terminal).await,
            Self::Grant(Requested::Request(request)) => request.run(client, terminal).await,
            Self::Grants(Usable::List { state, session, paging }) => {
                usable(state.unwrap_or(GrantStateName::Active), session.as_deref(), &paging, client, terminal).await
            }
        }
    }
}

impl Which {
    /// The name of the action in its source.
    fn name(&self) -> &str {
        self.action.strip_prefix(self.source.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&self.action)
    }
}

impl Request {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let session = guide::whose(self.session.as_deref(), client).await?;
        let request = SessionGrantRequest {
            action: self.which.name().to_owned(),
            integration: self.which.source,
            scope: match self.scope {
                Scope::Session => GrantScopeName::Session,
                Scope::Org => GrantScopeName::Org,
            },
            max_calls: self.max_calls,
            sum_max: self.sum.request(),
            expires_in: self.expires.as_ref().map(Span::text),
            reason: self.reason,
        };
        let answer = client.post::<GrantView>(&["sessions", &session, "actions", "grants"], &request).await?;
        grant::requested(&answer, client, terminal).await
    }
}

/// Lists the grants of a session that are in this state.
async fn usable(
    state: GrantStateName,
    session: Option<&str>,
    paging: &Paging,
    client: &Client,
    terminal: &mut Terminal,
) -> Result<Exit, Failure> {
    let session = guide::whose(session, client).await?;
    let query: Vec<_> = paging.query().into_iter().chain([("state", state.to_string())]).collect();
    let Answer { read, raw } = client.get::<Page<GrantView>>(&["sessions", &session, "actions", "grants"], &query).await?;
    let is_active = state == GrantStateName::Active;
    let empty = if is_active { "no grants: every call is approved by itself" } else { "no grant matches" }.to_owned();
    resource::write(&read.items, &raw, empty, client, terminal).await?;
    if let Some(next) = &read.next {
        terminal.next(format!("countersign actions grants list --state {state}{}", paging.next(next)));
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_named_in_its_source_or_by_its_whole_id() {
        for (action, name) in [
            ("write_text", "write_text"),
            ("files.write_text", "write_text"),
            ("filesystem", "filesystem"),
            ("deep.write", "deep.write"),
            ("*", "*"),
        ] {
            let which = Which { source: "files".to_owned(), action: action.to_owned() };
            assert_eq!(which.name(), name, "{action}");
        }
    }
}
