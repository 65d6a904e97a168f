//! `countersign connection`: the credentials of sources and of mail servers, each with the address it may be sent to. A credential comes from a prompt, from stdin
//! or from a file, or a person logs in for it in a browser; it is never shown again.

use super::given::Given;
use crate::shared::*;
use api::Code;
use api::connection::{ConnectionTestResponse, ConnectionView, LoginStatus, LoginView, NewConnectionRequest, StartedLoginResponse};
use clap::{Args, Subcommand};
use countersign_core::ports::connections::{ConnectionKind, ConnectionState};
use serde_json::{Value, json};
use std::time::Duration;

/// How often it is asked whether somebody has logged in.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum Connection {
    /// Add a connection; nobody can read its credential afterwards
    #[command(before_help = "Examples:
  countersign connection add github https://api.example.com/mcp --bearer         asks for the token
  countersign connection add search https://search.example.com --header X-Api-Key --secret search-key
  countersign connection add wiki https://wiki.example.com/api --basic robin --file password.txt
  countersign connection add linear https://mcp.example.com/mcp --oauth          prints an address to open
  countersign connection add mail smtps://smtp.example.com --smtp --from team@example.com --username team --secret smtp-password")]
    Add(Box<Add>),
    /// Log in for a connection, in a browser, and wait until that is done
    #[command(before_help = "Examples:\n  countersign connection login linear")]
    Login {
        /// Its name
        #[arg(value_name = "NAME")]
        connection: String,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// List connections, never their credentials
    #[command(before_help = "Examples:\n  countersign connection list")]
    List(Paging),
    /// Show a connection, never its credential
    #[command(before_help = "Examples:
  countersign connection show github
  countersign connection show con_…                          also after it was removed")]
    Show {
        /// Its name or id
        #[arg(value_name = "NAME")]
        connection: String,
    },
    /// Send one request with the credential and one without, and say what was answered; no mail is sent
    #[command(before_help = "Examples:\n  countersign connection test github")]
    Test {
        /// Its name
        #[arg(value_name = "NAME")]
        connection: String,
    },
    /// Remove a connection and its credential
    #[command(before_help = "Examples:\n  countersign connection remove github")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        connection: String,
        #[command(flatten)]
        agreed: Agreed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name, with which it is referred to: letters, digits, _, - and .
    name: String,
    /// The address it is for; the credential goes to this scheme, host and port only
    #[arg(value_name = "URL")]
    address: String,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    given: Given,
    /// The address that mail comes from, for --smtp
    #[arg(long = "from", value_name = "ADDRESS", requires = "smtp")]
    sender: Option<String>,
    /// Who we are to the mail server, for --smtp; absent if it asks for no login
    #[arg(long, value_name = "NAME", requires = "smtp")]
    username: Option<String>,
    /// Use the value of this secret
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stdin", "file", "oauth"])]
    secret: Option<String>,
    /// Only calls of this space may use it; may be given several times
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// A scope that a login asks for, for --oauth; may be given several times
    #[arg(long, value_name = "SCOPE", requires = "oauth")]
    scope: Vec<String>,
    /// A client that you registered by hand, for --oauth; its secret, if it has one, with --stdin or --file
    #[arg(long, value_name = "ID", requires = "oauth")]
    client_id: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
}

/// How it shows who it is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Kind {
    /// A token, as `Authorization: Bearer`
    #[arg(long)]
    bearer: bool,
    /// A header of this name
    #[arg(long, value_name = "HEADER")]
    header: Option<String>,
    /// This user's name and a password
    #[arg(long, value_name = "USER")]
    basic: Option<String>,
    /// A login in a browser, with OAuth 2.1
    #[arg(long)]
    oauth: bool,
    /// A mail server, for email.send and channels: smtps://HOST, or smtp://HOST with STARTTLS
    #[arg(long, requires = "sender")]
    smtp: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// Do not wait until somebody has logged in: print the address only
    #[arg(long)]
    no_wait: bool,
}

impl Resource for ConnectionView {
    const NOUN: &'static str = "connection";
    const LIST: &'static str = "connection list";
    const PATH: &'static [&'static str] = &["connections"];
    const EMPTY: &'static str = "no connections: countersign connection add NAME URL --bearer";
    const OFFERED: (&'static str, &'static [&'static str]) = ("name", &["kind", "url"]);
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("name", Column::Whole, |one, _| text(&one.name)),
        Field::both("kind", Column::Whole, |one, _| text(one.kind.as_str())),
        Field::both("state", Column::Whole, |one, _| Some(state(one))),
        Field::both("url", Column::Cut, |one, _| text(&one.url)),
        Field::line("account", |one, _| maybe(one.account.as_ref())),
        Field::line("from", |one, _| maybe(one.from.as_ref())),
        Field::line("secret", |one, _| maybe(one.secret.as_ref())),
        Field::line("issuer", |one, _| maybe(one.issuer.as_ref())),
        Field::line("scopes", |one, _| maybe(one.scopes.as_ref().map(|scopes| scopes.join(" ")))),
        Field::both("spaces", Column::Extra, |one, _| match &one.spaces {
            Some(spaces) => text(spaces.join(" ")),
            None => Some(Cell::shown("all", "").toned(Tone::Muted)),
        }),
        Field::line("why", |one, _| maybe(one.why.as_ref())),
        Field::line("mended by", |one, _| maybe(one.mended_by.as_ref())),
        Field::both("made by", Column::Extra, |one, view| view.who(&one.made_by)),
        Field::both("made", Column::Whole, |one, view| view.past(one.made_at)),
        Field::line("login by", |one, view| one.login_by.as_ref().and_then(|by| view.who(by))),
        Field::line("login", |one, view| one.login_at.and_then(|at| view.past(at))),
        Field::both("last used", Column::Whole, |one, view| match one.last_used_at {
            Some(at) => view.past(at),
            None => Some(Cell::shown("never", "").toned(Tone::Muted)),
        }),
        Field::line("removed", |one, view| one.removed_at.and_then(|at| view.past(at))),
        Field::line("id", |one, _| text(&one.id)),
    ];

    /// Commands take its name.
    fn id(&self) -> &str {
        self.name.as_str()
    }

    fn next(&self) -> Option<String> {
        match self.state {
            ConnectionState::Ready if self.why.is_none() => Some(format!("countersign connection test {}", self.name)),
            ConnectionState::Ready | ConnectionState::NeedsLogin => Some(format!("countersign connection login {}", self.name)),
            ConnectionState::Revoked => None,
        }
    }
}

fn state(one: &ConnectionView) -> Cell {
    let word = one.state.as_str();
    match one.state {
        // Only some calls need more than it has, so it still is ready for the others.
        ConnectionState::Ready if one.why.is_some() => Cell::shown(format!("{word}, lacks scopes"), word).toned(Tone::Warn),
        ConnectionState::Ready => Cell::text(word).toned(Tone::Ok),
        ConnectionState::NeedsLogin => Cell::text(word).toned(Tone::Warn),
        ConnectionState::Revoked => Cell::text(word).toned(Tone::Muted),
    }
}

impl Connection {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::Add(add) => return add.run(client, terminal).await,
            Self::Login { connection, waiting } => return log_in(&connection, waiting, client, terminal).await,
            Self::List(paging) => drop(resource::list::<ConnectionView>(Asked::of(&paging), client, terminal).await?),
            Self::Show { connection } => drop(resource::show::<ConnectionView>(&connection, client, terminal).await?),
            Self::Test { connection } => return test(&connection, client, terminal).await,
            Self::Remove { connection, agreed } => {
                let question = format!("Remove connection `{}`? Its credential cannot be restored.", clean::line(&connection));
                terminal.consent(&question, agreed.consent(client)).await?;
                client.delete::<Value>(&["connections", &connection]).await?;
                // The server's answer has no body.
                terminal.done("removed", &connection, &json!({ "name": connection, "removed": true }))?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl Add {
    async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { name, address: url, kind, given, sender: from, username, secret, space, scope, client_id, waiting } = self;
        let (kind, account) = match kind {
            Kind { header: Some(header), .. } => (ConnectionKind::Header, Some(header)),
            Kind { basic: Some(user), .. } => (ConnectionKind::Basic, Some(user)),
            Kind { oauth: true, .. } => (ConnectionKind::Oauth, None),
            Kind { smtp: true, .. } => (ConnectionKind::Smtp, username),
            Kind { .. } => (ConnectionKind::Bearer, None),
        };
        let is_oauth = kind == ConnectionKind::Oauth;
        // Nobody is asked for what another one has, nor for the secret of a client or the password of a user that there may not be.
        let has_none = is_oauth || (kind == ConnectionKind::Smtp && account.is_none());
        let is_needed = given.is_named() || (secret.is_none() && !has_none);
        let value = if is_needed { Some(given.read(&name, client, terminal).await?) } else { None };
        let list = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        let (spaces, scopes) = (list(space), list(scope));
        let request = NewConnectionRequest { name: name.clone(), kind, url, account, from, value, secret, spaces, scopes, client_id };
        let made_at = request.url.clone();
        let answer = client.post::<ConnectionView>(&["connections"], &request).await.map_err(|failure| failure.of_url(&made_at))?;
        if is_oauth {
            return log_in(&name, waiting, client, terminal).await.map_err(|failure| made(&name, failure));
        }
        resource::tell(&answer, client, terminal).await?;
        Ok(Exit::Ok)
    }
}

/// A login that could not be started leaves the connection that it was for, with the secret of its client.
fn made(name: &str, mut failure: Failure) -> Failure {
    if failure.problem().is_none() {
        return failure;
    }
    let name = clean::line(name);
    failure.message = format!("connection `{name}` was made, and its login could not be started: {}", failure.message);
    let hint = format!(
        "correct that, then `countersign connection login {name}`; if the address is wrong: `countersign connection remove {name}`"
    );
    failure.hint(hint)
}

/// Starts a login, says which address to open, and waits until somebody came back.
async fn log_in(name: &str, waiting: Waiting, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let path = ["connections", name, "login"];
    let again = format!("countersign connection login {}", clean::line(name));
    let started = client.post::<StartedLoginResponse>(&path, &json!({})).await;
    let started = started.map_err(|failure| {
        if failure.is(Code::LoginFailed) {
            failure.hint(format!("correct that, then log in again with `{again}`"))
        } else if failure.is(Code::InvalidRequest) {
            let show = format!("countersign connection show {}", clean::line(name));
            failure.hint(format!("see what it is with `{show}`; for another credential, remove it and add it again"))
        } else {
            failure
        }
    })?;
    let left = terminal.future(started.read.expires_at);
    terminal.note(format!("open this address within {} to log in for `{}`:", left.as_shown(), clean::line(name)));
    if waiting.no_wait {
        if terminal.is_document() {
            terminal.document(&started.raw)?;
        } else {
            terminal.line(clean::line(&started.read.url))?;
        }
        return Ok(Exit::Ok);
    }
    terminal.note(clean::line(&started.read.url));
    let ended = loop {
        let login = client.get::<LoginView>(&path, &[]).await?.read;
        match login.status {
            LoginStatus::Open => tokio::time::sleep(PAUSE).await,
            LoginStatus::Done | LoginStatus::Failed | LoginStatus::Expired => break login,
        }
    };
    match ended.status {
        LoginStatus::Done => drop(resource::show::<ConnectionView>(name, client, terminal).await?),
        LoginStatus::Failed => {
            let why = ended.problem.as_deref().map_or_else(|| "it is not known why".into(), clean::line);
            return Err(Failure::failed(format!("the login failed: {why}")).hint(again));
        }
        LoginStatus::Open | LoginStatus::Expired => return Err(Failure::new(Exit::Pending, "nobody logged in in time").hint(again)),
    }
    Ok(Exit::Ok)
}

async fn test(name: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let answer = client.post::<ConnectionTestResponse>(&["connections", name, "test"], &json!({})).await?;
    let ConnectionTestResponse { status, status_without, is_let_in } = answer.read;
    let said = match (is_let_in, status_without) {
        // Codes of mail servers, which HTTP does not have.
        (_, _) if status == 250 => "the mail server takes mail from us".to_owned(),
        (_, _) if status == 535 => "the mail server refused the user and the password".to_owned(),
        (_, _) if status == 550 => "the mail server takes no mail from us".to_owned(),
        (Some(true), _) => "the credential was taken".to_owned(),
        (Some(false), _) => "the credential was refused".to_owned(),
        (None, Some(200..=299)) if (200..300).contains(&status) => {
            "nobody checks the credential: the answer without it is a success too".to_owned()
        }
        (None, _) => format!("it answered {status}: that says nothing about the credential"),
    };
    let record = Record::new(name)
        .with("status", Cell::text(status.to_string()))
        .with_some("without it", status_without.map(|status| Cell::text(status.to_string())))
        .with("means", Cell::text(said));
    terminal.record(&answer.raw, &record)?;
    Ok(if is_let_in == Some(true) { Exit::Ok } else { Exit::Failed })
}
