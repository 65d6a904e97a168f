//! `countersign login` and `countersign logout`: keep a server and a token under a name, in a file that only its owner can read. The token
//! comes from a prompt or from stdin, never from the command line, where others could see it.

use super::status;
use crate::client::Rehearsal;
use crate::context::{Context, Contexts, Origin, Server, is_local};
use crate::shared::*;
use api::identity::{RedeemRequest, RedeemResponse, WhoamiResponse};
use clap::Args;
use countersign_core::Secret;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign login                                              asks for the token
  countersign login --url https://countersign.example --context work
  countersign login --url https://cs.internal:7117 --ca-cert ca.pem    the CA is kept with the context
  countersign login --token-stdin < ./countersign-data/owner.token

An invitation works in place of a token: it is redeemed for a token of your own, once.";

const TOKEN_BYTES_MAX: u64 = 4_096;
/// How the text of an invitation begins.
const INVITATION: &str = "cs_invitation_";

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Read the token from stdin
    #[arg(long, visible_alias = "stdin")]
    token_stdin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// The context to forget; the current one when absent
    #[arg(value_name = "NAME")]
    known_context: Option<String>,
}

impl Login {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("login")?;
        let Setting { global, environment, terminal, .. } = setting;
        let path = environment.contexts_file()?;
        let mut contexts = Contexts::load(&path)?;
        let (url, place, name) = Server::to_log_in(global.url.as_deref(), global.context.as_deref(), environment, &contexts)?;
        if url.scheme() == "http" && !is_local(&url) {
            terminal.note(Tone::Warn.paint(format!("! the connection to `{url}` is not encrypted: others on the way can read the token")));
        }
        let token = if self.token_stdin {
            Secret::new(terminal.read_stdin(TOKEN_BYTES_MAX).await?.trim().to_owned())
        } else if terminal.can_ask() {
            terminal.ask_secret(&format!("Token or invitation for {url}: ")).await?
        } else {
            return Err(
                Failure::usage("no token was given, and there is no terminal to ask for it").hint("countersign login --token-stdin < FILE")
            );
        };
        if token.expose().is_empty() {
            return Err(Failure::usage("the token is empty"));
        }
        let kept = || contexts.contexts.get(&name).and_then(|context| context.ca_cert.clone());
        let ca_cert = global.ca_cert.clone().or_else(|| environment.ca_cert.clone()).or_else(kept);
        // The context is used from other folders too.
        let ca_cert = ca_cert.map(|file| std::path::absolute(&file).unwrap_or(file));
        let connect = |token: Secret<String>, origin: Origin| {
            let (url, place, ca_cert) = (url.clone(), place.clone(), ca_cert.clone());
            Client::new(Server { url, place, token: Some(token), origin, ca_cert }, Rehearsal::Off)
        };
        let token = if token.expose().starts_with(INVITATION) {
            let request = RedeemRequest { invitation: token.expose().clone(), name: None };
            let redeemed = connect(token, Origin::Invitation)?.post::<RedeemResponse>(&["invitations", "redeem"], &request).await?;
            Secret::new(redeemed.read.token)
        } else {
            token
        };
        let mut context = Context::new(&url, &token);
        context.ca_cert.clone_from(&ca_cert);
        let client = connect(token, Origin::Login)?;
        let answer = client.get::<WhoamiResponse>(&["whoami"], &[]).await?;
        contexts.contexts.insert(name.clone(), context);
        contexts.current = Some(name.clone());
        contexts.save(&path)?;
        terminal.record(&answer.raw, &status::identity(&answer.read, &client))?;
        let whoami = &answer.read;
        let (who, name) = (clean::line(&whoami.name), clean::line(&name));
        let what = clean::line(whoami.role.map_or(whoami.principal.as_str(), |role| role.as_str()));
        terminal.note(format!("{} as `{who}` ({what}); the token is kept as the context `{name}`", Tone::Ok.paint("✓ logged in")));
        Ok(Exit::Ok)
    }
}

impl Logout {
    pub(crate) fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("logout")?;
        let path = setting.environment.contexts_file()?;
        let mut contexts = Contexts::load(&path)?;
        let name = self.known_context.or_else(|| setting.global.context.clone()).or_else(|| contexts.current.clone());
        let name = name.ok_or_else(|| Failure::new(Exit::NotFound, "you are not logged in anywhere").hint("countersign login"))?;
        contexts.get(&name)?;
        contexts.contexts.remove(&name);
        if contexts.current.as_ref() == Some(&name) {
            contexts.current = None;
        }
        contexts.save(&path)?;
        setting.terminal.note(format!("{} `{name}`; the token itself still works until it is revoked", Tone::Ok.paint("✓ forgot")));
        setting.terminal.next("countersign token list");
        Ok(Exit::Ok)
    }
}
