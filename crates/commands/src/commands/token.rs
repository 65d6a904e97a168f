//! `countersign token`: tokens of people and services. A token is shown once, when it is created. Agents get theirs with their session.

use crate::shared::*;
use api::identity::{NewTokenRequest, NewTokenResponse, TokenKindName, TokenView, WhoamiResponse};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use countersign_core::limits::TOKEN_LIFETIME_DAYS_MAX;
use countersign_core::principal::{Device, Permission};

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token: for yourself, or for a service with scopes
    #[command(before_help = "Examples:
  countersign token create laptop                                  for yourself
  countersign token create ci --scope create_session --scope invoke --expires-in-days 30
  countersign token create kiosk --scope invoke --device front-desk --device-class shared")]
    Create {
        /// What it is for, so that it can be recognised in the list
        name: String,
        /// What a service may do: invoke, read_session, read, create_session, manage_policy, manage_identity. Without it the token is for yourself
        #[arg(long = "scope", value_name = "SCOPE", value_parser = PossibleValuesParser::new(SCOPES), hide_possible_values = true)]
        scopes: Vec<String>,
        /// Days until it stops working, 1 to 3650; it does not expire when absent
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=TOKEN_LIFETIME_DAYS_MAX))]
        expires_in_days: Option<u64>,
        #[command(flatten)]
        over_mcp: OverMcp,
        #[command(flatten)]
        bound: Bound,
    },
    /// List tokens, never their texts
    #[command(before_help = "Examples:\n  countersign token list")]
    List(Paging),
    /// Revoke a token at once
    #[command(before_help = "Examples:\n  countersign token revoke tok_…")]
    Revoke {
        /// Its id
        token: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

/// The device that a token is bound to.
#[derive(Debug, Args)]
pub(crate) struct Bound {
    /// The device it is bound to; without it, that of your own token
    #[arg(long, value_name = "NAME", requires = "device_class")]
    device: Option<String>,
    /// What kind of device that is, for policies, such as managed or phone
    #[arg(long, value_name = "CLASS", requires = "device")]
    device_class: Option<String>,
}

impl Bound {
    pub(super) fn device(self) -> Option<Device> {
        self.device.zip(self.device_class).map(|(name, class)| Device { name, class })
    }
}

/// All scopes except answering calls, which only a person may do.
const SCOPES: [&str; 6] = ["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"];

impl Resource for TokenView {
    const NOUN: &'static str = "token";
    const LIST: &'static str = "token list";
    const PATH: &'static [&'static str] = &["tokens"];
    const EMPTY: &'static str = "no tokens";
    const OFFERED: (&'static str, &'static [&'static str]) = ("id", &["name", "kind"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("kind", Column::Whole, |one, _| text(word(one.kind))),
        Field::both("name", Column::Cut, |one, _| text(&one.name)),
        Field::both("for", Column::Below, whose),
        Field::both("scopes", Column::Cut, |one, _| text(one.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(","))),
        Field::both("over mcp", Column::Extra, over_mcp),
        Field::both("device", Column::Extra, |one, _| {
            maybe(one.device.as_ref().map(|device| format!("{} ({})", device.name, device.class)))
        }),
        Field::both("created", Column::Extra, |one, view| view.past(one.created_at)),
        Field::both("state", Column::Whole, state),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

impl Token {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Create { name, scopes, expires_in_days, over_mcp, bound } => {
                let user_id = if scopes.is_empty() { Some(own_user(client).await?) } else { None };
                let scopes = scopes.iter().filter_map(|scope| Permission::parse(scope)).collect();
                let request = NewTokenRequest { name, user_id, scopes, expires_in_days, mcp: over_mcp.wishes(), device: bound.device() };
                create(request, client, terminal).await?;
            }
            Self::List(paging) => drop(resource::list::<TokenView>(Asked::of(&paging), client, terminal).await?),
            Self::Revoke { token, agreed } => {
                terminal.consent(&format!("Revoke token `{}`?", clean::line(&token)), agreed.consent(client)).await?;
                let answer = client.post_empty::<TokenView>(&["tokens", &token, "revoke"]).await?;
                terminal.done("revoked", format!("{token}` (`{}", answer.read.name), &answer.raw)?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn own_user(client: &Client) -> Result<String, Failure> {
    let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read;
    let own = whoami.principal.strip_prefix("user:").map(str::to_owned);
    own.ok_or_else(|| Failure::usage(format!("`{}` is not a person", whoami.principal)).hint("say what a service may do with --scope"))
}

async fn create(request: NewTokenRequest, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let answer = client.post::<NewTokenResponse>(&["tokens"], &request).await?;
    let record = Record::new(&answer.read.id)
        .with("id", Cell::text(&answer.read.id))
        .with("token", Cell::text(&answer.read.token).toned(Tone::Strong));
    terminal.secret("token", &answer.raw, &record)
}

fn state(token: &TokenView, view: &View<'_>) -> Option<Cell> {
    match (token.revoked_at, token.expires_at, token.lost) {
        (Some(_), _, _) if token.kind == TokenKindName::Invitation => Some(Cell::text("used or revoked").toned(Tone::Muted)),
        (Some(_), _, _) => Some(Cell::text("revoked").toned(Tone::Danger)),
        (None, Some(at), _) if view.is_past(at) => Some(Cell::text("expired").toned(Tone::Muted)),
        (None, _, Some(why)) => Some(Cell::shown(word(why).replace('_', " "), word(why)).toned(Tone::Muted)),
        (None, Some(at), None) => view.future(at),
        (None, None, None) => text("does not expire"),
    }
}

/// What its clients get over MCP, if that was said.
fn over_mcp(token: &TokenView, _view: &View<'_>) -> Option<Cell> {
    let mcp = token.mcp?;
    let hold = mcp.hold_seconds.map(|seconds| format!("hold {seconds} s"));
    let said: Vec<_> = mcp.tools.map(|tools| tools.as_str().to_owned()).into_iter().chain(hold).collect();
    text(said.join(", "))
}

/// The person or session that the token belongs to. A service has neither, so the creator of its token is shown.
fn whose(token: &TokenView, view: &View<'_>) -> Option<Cell> {
    match (token.user_id.as_ref().or(token.session_id.as_ref()), &token.made_by_id) {
        (Some(own), _) => view.who(own),
        (None, Some(maker)) => Some(Cell::shown(format!("made by {}", view.name(maker)), "")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::SCOPES;
    use countersign_core::principal::Permission;

    #[test]
    fn every_permission_but_answering_is_a_scope() {
        let known = Permission::ALL.into_iter().filter(|permission| *permission != Permission::Approve);
        assert_eq!(known.map(Permission::as_str).collect::<Vec<_>>(), SCOPES);
    }
}
