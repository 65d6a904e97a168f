//! `countersign action invoke`: sends the call, waits if it needs approval, and writes the result to stdout.

use super::{params, session};
use crate::commands::lines::{self, Lines};
use crate::commands::wait::{Wait, Waiting, settled};
use crate::shared::*;
use api::Code;
use api::invocation::{InvokeRequest, ScopeView, VerificationView};
use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign action invoke files.read_text path=notes/today.md
  countersign action invoke files.write_text path=a.txt text=hello --reason 'a first try'
  countersign action invoke files.write_text path=a.js text=x=1 --verify-with 'node --check a.js'
  countersign action invoke http.request --params @call.json --idempotency-key order-812 --wait 10m
  countersign action invoke files.list recursive:=true --json";

#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The action, such as files.write_text
    action: String,
    #[command(flatten)]
    call: Call,
}

/// Everything of a call but its action.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Params: key=value is a string, key:=json is typed
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// Params as a JSON object; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// The session it runs in; else the agent's own, else your session `cli`
    #[arg(long, value_name = "SESSION", env = "COUNTERSIGN_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// The same key with the same params has one effect; `auto` derives it
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Why, in your words; shown to whoever approves
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Limit it to this file or folder; may be given again
    #[arg(long, value_name = "PATH")]
    within: Vec<String>,
    /// Never this file or folder; may be given again
    #[arg(long, value_name = "PATH")]
    except: Vec<String>,
    /// Verify the effect with this command; when it fails, the call is repaired once or rolled back. May be given again
    #[arg(long, value_name = "COMMAND")]
    verify_with: Vec<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    lines: Lines,
}

impl Invoke {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        self.call.run(self.action, client, terminal).await
    }
}

impl Call {
    /// Sends the call of this action, and waits for it.
    pub(crate) async fn run(self, action: String, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let params = params::read(self.params.as_deref(), &self.words, terminal).await?;
        let session = session::choose(self.session.as_deref(), client).await?;
        let request = InvokeRequest {
            action,
            params,
            idempotency_key: self.idempotency_key,
            approval_ref: None,
            dry_run: client.rehearses(),
            reason: self.reason,
            context: None,
            provenance: std::collections::BTreeMap::new(),
            scope: scope(self.within, self.except),
            verification: Some(self.verify_with).filter(|commands| !commands.is_empty()).map(|commands| VerificationView { commands }),
        };
        let path = ["sessions", &session, "actions", "invoke"];
        // Under `--dry-run` this is sent too, marked as a dry run: only the server knows what the call would change.
        let shows_lines = self.lines.are_shown(terminal);
        let asked =
            if shows_lines { lines::post(&path, &request, client, terminal).await } else { client.post_always(&path, &request).await };
        let first = match asked {
            Ok(first) => first,
            // What happens to a call depends on its session, so a rehearsal by the rules needs it.
            Err(failure) if failure.is(Code::DryRunUnsupported) => {
                let (action, session) = (clean::line(&request.action), clean::line(&session));
                return Err(failure.hint(format!("see whether it would be allowed with `countersign explain {action} --as {session}`")));
            }
            Err(failure) => return Err(params::retyped(failure, &self.words)),
        };
        let id = first.read.invocation.id.clone();
        let path = ["sessions", &session, "actions", "invocations", &id];
        settled(first, &Wait { client, path: &path, patience: self.waiting.patience(), shows_lines }, terminal).await
    }
}

/// The scope that the flags set; `None` if no flag was given, so that no limit is sent.
fn scope(within: Vec<String>, except: Vec<String>) -> Option<ScopeView> {
    let scope = ScopeView { allowed_files: Vec::new(), allowed_dirs: within, forbidden_files: except };
    (scope != ScopeView::default()).then_some(scope)
}
