//! `countersign mcp`: an MCP server on stdin and stdout, for clients that start programs. It holds nothing of its own: every message goes
//! to the server's `/mcp`, and what comes back is written as it is. Nothing else is ever written to stdout.

pub(super) mod bridge;
mod message;

use crate::context::Environment;
use crate::limits::MCP_LINE_BYTES_MAX;
use crate::shared::*;
use api::identity::SessionView;
use bridge::{Bridge, Out};
use clap::Args;
use tokio::sync::mpsc;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign connect claude-code                  make a token, and print what starts this command
  countersign mcp --context claude-code            speak MCP, with the token of that context
  COUNTERSIGN_TOKEN=cs_agent_… countersign mcp     with the token of a variable";

/// Messages that wait to be written. If the client does not read, the server is not read either.
const WAITING_MAX: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// The session to act in, by its title or id, for a token that has none of its own; an agent's token has one
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// How long the client waits for an answer; by its name when absent. A call that a person decides later gets a reference before that
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    hold: Option<u64>,
}

impl Mcp {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        if setting.global.dry_run {
            return Err(Failure::usage("`mcp` has no dry run: its client decides what is called"));
        }
        let environment = of_context(&setting);
        let setting = Setting { environment: &environment, ..setting };
        let client = setting.client()?;
        let session = maybe_id_of::<SessionView>(self.session.as_deref(), &client).await?;
        let session = session.into_iter().map(|session| ("session", session));
        let hold = self.hold.into_iter().map(|seconds| ("hold", seconds.to_string()));
        let terminal = setting.terminal;
        let (out, mut written) = mpsc::channel(WAITING_MAX);
        let lines = terminal.lines(MCP_LINE_BYTES_MAX);
        let mut listening = tokio::spawn(Bridge::new(client, session.chain(hold).collect(), out).listen(lines));
        let ended = loop {
            tokio::select! {
                biased;
                Some(out) = written.recv() => put(out, terminal)?,
                ended = &mut listening => break ended,
            }
        };
        // The client has closed stdin. What was answered before that is still written.
        while let Ok(out) = written.try_recv() {
            put(out, terminal)?;
        }
        ended.map_err(|error| Failure::failed(format!("the connection to the server stopped: {error}")))?;
        Ok(Exit::Ok)
    }
}

fn put(out: Out, terminal: &mut Terminal) -> Result<(), Failure> {
    match out {
        Out::Line(line) => {
            terminal.bytes(format!("{line}\n").as_bytes())?;
            terminal.flush()
        }
        Out::Note(note) => {
            terminal.note(clean::line(&note));
            Ok(())
        }
    }
}

/// SECURITY: a context that is named is meant, with its address and its token. Whoever starts the client may have a person's token in a
/// variable, and the agent must not act with that.
fn of_context(setting: &Setting<'_>) -> Environment {
    let environment = setting.environment.clone();
    if setting.global.context.is_none() {
        return environment;
    }
    Environment { url: None, token: None, token_is_empty: false, ..environment }
}
