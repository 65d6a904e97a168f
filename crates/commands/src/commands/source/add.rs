//! `countersign source add`: the server connects to the MCP server and lists its tools; only if that works is the source added.

use super::tiers::{Irreversible, tier};
use super::{drift, harvest, program, to_review};
use crate::commands::allow::Terms;
use crate::shared::*;
use api::Code;
use api::source::{AddedSourceView, NewSourceRequest, VariableRequest};
use clap::Args;
use countersign_core::limits::{CALL_TIMEOUT_MS, LIST_TIMEOUT_MS_MAX};
use countersign_core::{SourceId, Tier};

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign source add clock -- uvx mcp-server-time                            shows what it will see, and asks
  countersign source add web --allow-host '*.example.org' --yes -- uvx mcp-server-fetch
  countersign source add docs --mcp https://mcp.example.com/mcp                  asks whether to believe it
  countersign source add github --mcp https://api.example.com/mcp --connection github --space main
  countersign source add stage --mcp-stdio --trust-hints -- node /opt/mcp/filesystem.js /stage
  countersign source add crm --mcp-stdio --secret-env API_TOKEN=crm-token -- /opt/mcp/crm
  countersign source add crm --mcp-stdio --package crm-server                    the MCP server of a package";

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its name, with which the ids of its actions begin: lower-case letters, digits, _ and -
    name: String,
    #[command(flatten)]
    server: Server,
    /// The program and its words, after --. An operator allows it with this; an admin adds what is allowed already, with --mcp-stdio
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "mcp", group = "program")]
    command: Vec<String>,
    /// The installed package whose MCP server it is, instead of a command
    #[arg(long, value_name = "PACKAGE", conflicts_with = "mcp", group = "program")]
    package: Option<String>,
    /// The connection whose credential its requests carry
    #[arg(long, value_name = "NAME", conflicts_with = "mcp_stdio")]
    connection: Option<String>,
    /// What people read; its name when absent
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The tier of actions about which nothing else is known; R3 when absent
    #[arg(long, value_name = "TIER", value_parser = tier)]
    default_tier: Option<Tier>,
    #[command(flatten)]
    trust: Trust,
    /// Only calls of this space may use it; may be given several times
    #[arg(long, value_name = "SPACE")]
    space: Vec<String>,
    /// A variable of the program; may be given several times. Others can see it: use --secret-env for what is secret
    #[arg(long, value_name = "NAME=VALUE", value_parser = assigned, conflicts_with = "mcp")]
    env: Vec<(String, String)>,
    /// A variable of the program that has the value of a secret; may be given several times
    #[arg(long, value_name = "NAME=SECRET", value_parser = assigned, conflicts_with = "mcp")]
    secret_env: Vec<(String, String)>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    agreed: Agreed,
    #[command(flatten)]
    irreversible: Irreversible,
}

/// Where the MCP server is.
#[derive(Debug, Args)]
struct Server {
    /// The address of an MCP server, over streamable HTTP
    #[arg(long, value_name = "URL", required_unless_present_any = ["mcp_stdio", "program"], conflicts_with = "mcp_stdio")]
    mcp: Option<String>,
    /// A program that speaks MCP, in the jail: a command that an operator has allowed already, or a package
    #[arg(long, requires = "program")]
    mcp_stdio: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Trust {
    /// Whether to believe the server where it says that a tool only reads: such a tool runs without approval
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) trust_hints: Option<bool>,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Limits {
    /// How long it may take to list its tools, 15 at first
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=LIST_TIMEOUT_MS_MAX / 1_000))]
    list_timeout: Option<u64>,
    /// How long a call may take
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=CALL_TIMEOUT_MS / 1_000))]
    call_timeout: Option<u64>,
}

impl Limits {
    pub(super) fn list_ms(self) -> Option<u64> {
        self.list_timeout.map(|seconds| seconds.saturating_mul(1_000))
    }

    pub(super) fn call_ms(self) -> Option<u64> {
        self.call_timeout.map(|seconds| seconds.saturating_mul(1_000))
    }
}

impl Add {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
        let is_allowing = !self.server.mcp_stdio && self.server.mcp.is_none() && self.package.is_none();
        if !is_allowing && !self.terms.is_empty() {
            return Err(Failure::usage("what a program may use is said where it is allowed, and not here")
                .hint("countersign source add NAME --allow-host HOST -- COMMAND, without --mcp-stdio"));
        }
        // Who allows a program is asked about that, and about nothing else.
        let trust_hints = match is_allowing {
            true => self.trust.trust_hints.unwrap_or(false),
            false => self.trust.decide(&self.name, client, terminal).await?,
        };
        let plain = self.env.into_iter().map(|(name, value)| VariableRequest { name, value: Some(value), secret: None });
        let secret = self.secret_env.into_iter().map(|(name, secret)| VariableRequest { name, value: None, secret: Some(secret) });
        let env: Vec<_> = plain.chain(secret).collect();
        let (command, allow) = if is_allowing {
            let allow = program::agreed_to(&self.name, self.command, self.terms, &env, self.agreed, client, terminal).await?;
            (Some(allow.command.clone()), Some(allow))
        } else {
            (Some(self.command).filter(|words| !words.is_empty()), None)
        };
        let request = NewSourceRequest {
            name: self.name,
            url: self.server.mcp,
            command,
            allow,
            package: self.package,
            env,
            connection: self.connection,
            title: self.title,
            default_tier: self.default_tier,
            trust_hints,
            spaces: Some(self.space).filter(|spaces| !spaces.is_empty()),
            list_timeout_ms: self.limits.list_ms(),
            call_timeout_ms: self.limits.call_ms(),
            accept_irreversible: self.irreversible.accept_irreversible,
        };
        let adding = client.post_within::<AddedSourceView>(&["sources"], &request, program::PATIENCE);
        let answer = program::waited(&format!("starting `{}`", clean::line(&request.name)), adding, terminal).await;
        let answer = answer.map_err(|failure| named_well(failure, &request.name).of_url(request.url.as_deref().unwrap_or_default()))?;
        let source = &answer.read;
        if !terminal.is_for_words() {
            return terminal.record(&answer.raw, &Record::new(&source.id));
        }
        let revision = source.harvest.protocol.as_ref().map(|revision| format!(", which speaks MCP {revision}")).unwrap_or_default();
        terminal.note(format!("{} `{}`{}", Tone::Ok.paint("✓ added"), clean::line(&source.id), clean::line(&revision)));
        harvest::tell(&source.harvest, terminal)?;
        if to_review(source) > 0 {
            drift::why_not_reviewed(&source.id, client, terminal).await;
            terminal.next(format!("countersign source review {}", source.id));
        } else if let Some(command) = harvest::safest(&source.harvest, client).await {
            terminal.next(command);
        }
        Ok(())
    }
}

/// Adds a name that can be taken, if the name is what was refused.
fn named_well(failure: Failure, name: &str) -> Failure {
    if !failure.is(Code::InvalidRequest) || SourceId::parse(name).is_ok() {
        return failure;
    }
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let meant: String = name.chars().map(letter).take(32).collect();
    let meant = if SourceId::parse(&meant).is_ok() { meant } else { "github".to_owned() };
    failure.hint(format!("such as `countersign source add {meant} …`"))
}

impl Trust {
    /// Whether the server's promises are believed. Whoever did not say is asked, once; where nobody can be asked, they are not.
    async fn decide(self, name: &str, client: &Client, terminal: &mut Terminal) -> Result<bool, Failure> {
        if let Some(said) = self.trust_hints {
            return Ok(said);
        }
        if client.rehearses() || !terminal.can_ask() {
            return Ok(false);
        }
        terminal.note(
            "An MCP server can say of a tool that it only reads. If you believe this server, such tools are R1 and run without \
             approval; if not, they need one, as every tool of which nothing is known.",
        );
        terminal.agrees(&format!("Believe the read-only hints of `{}`?", clean::line(name))).await
    }
}

/// Reads `NAME=VALUE`.
fn assigned(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected a name and what it is set to, such as LOG_LEVEL=info")?;
    if name.is_empty() { Err("the name before `=` is empty".to_owned()) } else { Ok((name.to_owned(), value.to_owned())) }
}
