//! The stage of the demo: a real server on a free port of this machine, with a data folder of its own, two reports in its workspace and
//! three MCP servers beside it; its owner; and an agent with a session. All of it is gone at the end.

use crate::client::Rehearsal;
use crate::commands::outcome;
use crate::context::{Origin, Place, Server, parse_url};
use crate::serving::Serving;
use crate::shared::*;
use api::identity::NewSessionResponse;
use api::invocation::{InvocationView, InvokeResponse};
use countersign_core::{Future, Secret, Status};
use demo::Upstream;
use host::Started;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long the server holds one request open while the agent waits.
const HELD: &str = "20s";
/// The time between two looks at what the person may change.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Stage {
    pub(super) started: Started,
    pub(super) upstream: Upstream,
    pub(super) owner: Client,
    agent: Client,
    session: String,
    serving: JoinHandle<Result<(), host::Error>>,
    /// The server stops when this is dropped.
    stop: oneshot::Sender<()>,
    folder: TempDir,
}

/// What the agent asks for.
#[derive(Serialize)]
pub(super) struct Call {
    pub(super) action: &'static str,
    pub(super) params: Value,
    pub(super) reason: &'static str,
    pub(super) idempotency_key: Option<&'static str>,
}

/// What the person of the script answers.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Approve,
    Grant { calls: u32 },
    Deny { reason: &'static str },
}

impl Verdict {
    /// The command that answers so.
    pub(super) fn command(self, id: &str) -> String {
        match self {
            Self::Approve => format!("countersign approve {id}"),
            Self::Grant { calls } => format!("countersign approve {id} --grant --calls {calls}"),
            Self::Deny { reason } => format!("countersign deny {id} --reason '{reason}'"),
        }
    }
}

impl Stage {
    pub(super) async fn set(serving: &'static dyn Serving) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("countersign-demo-").tempdir();
        let folder = folder.map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
        let upstream = Upstream::start().await;
        let upstream = upstream.map_err(|error| Failure::failed(format!("the servers of the demo cannot listen: {error}")))?;
        let config = config(&folder, &upstream)?;
        host::init_logs(host::LogFormat::Text, &config.log_level);
        let (tell, told) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let on_start = move |started: &Started| {
            let _unheard = tell.send(started.clone());
        };
        let until = move || -> Future<'static, ()> {
            Box::pin(async move {
                let _dropped = stopped.await;
            })
        };
        let serving = tokio::spawn(serving.serve(config, Box::new(on_start), Box::new(until)));
        let Ok(started) = told.await else { return Err(not_started(serving).await) };
        let owner = client(&started, started.owner_token.as_deref())?;
        let session = furnish(&owner, &upstream).await?;
        write_reports(&started.workspace)?;
        let agent = client(&started, Some(&session.token))?;
        Ok(Self { started, upstream, owner, agent, session: session.id, serving, stop, folder })
    }

    /// Stops the server as Ctrl-C would, and deletes everything.
    pub(super) async fn end(self) {
        drop(self.stop);
        // Nothing is kept, so nothing depends on how it ended.
        let _ended = self.serving.await;
        let _deleted = self.folder.close();
    }

    /// A file beside the data folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The address of a page of the web UI.
    pub(super) fn page(&self, path: &str) -> String {
        format!("{}/{path}", self.started.url)
    }

    /// The agent asks. A call that was refused or failed is an answer, too.
    pub(super) async fn ask(&self, call: &Call) -> Result<InvocationView, Failure> {
        let path = ["sessions", &self.session, "actions", "invoke"];
        match self.agent.post::<InvokeResponse>(&path, call).await {
            Ok(answer) => Ok(answer.read.invocation),
            Err(failure) => failure.problem().and_then(|problem| problem.invocation).map(|ended| *ended).ok_or(failure),
        }
    }

    /// The agent waits until its call has ended or is in doubt, however long the person takes.
    pub(super) async fn wait(&self, id: &str) -> Result<InvocationView, Failure> {
        loop {
            let now = self.look(id).await?;
            if outcome::is_settled(&now) {
                return Ok(now);
            }
        }
    }

    /// The agent waits until somebody has said what became of a call in doubt.
    pub(super) async fn wait_out_doubt(&self, id: &str) -> Result<InvocationView, Failure> {
        loop {
            let now = self.look(id).await?;
            if now.status != Status::InDoubt {
                return Ok(now);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The call as it is once it has ended or is in doubt, or a while later.
    async fn look(&self, id: &str) -> Result<InvocationView, Failure> {
        let path = ["sessions", &self.session, "actions", "invocations", id];
        let answer = self.agent.get::<InvokeResponse>(&path, &[("wait", HELD.to_owned())]).await?;
        Ok(answer.read.invocation)
    }

    /// The owner decides about a call, as it was shown.
    pub(super) async fn decide(&self, call: &InvocationView, verdict: Verdict) -> Result<(), Failure> {
        let shown = call.binding.as_ref().map(|binding| &binding.digest);
        let (verb, body) = match verdict {
            Verdict::Approve => ("approve", json!({ "binding": shown })),
            Verdict::Grant { calls } => ("approve", json!({ "binding": shown, "mode": "grant", "grant": { "calls_max": calls } })),
            Verdict::Deny { reason } => ("deny", json!({ "reason": reason })),
        };
        self.owner.post::<Value>(&["invocations", &call.id, verb], &body).await?;
        Ok(())
    }

    /// The owner says that a call in doubt happened.
    pub(super) async fn settle(&self, id: &str, reason: &str) -> Result<(), Failure> {
        self.owner.post::<Value>(&["invocations", id, "settle"], &json!({ "as": "succeeded", "reason": reason })).await?;
        Ok(())
    }
}

/// The settings of the server. None of the user's own count: their database must not become a part of the demo.
fn config(folder: &TempDir, upstream: &Upstream) -> Result<host::Config, Failure> {
    let data = Some(folder.path().join("data"));
    let flags = host::Flags { data, listen: Some("127.0.0.1:0".to_owned()), ..host::Flags::default() };
    let variables =
        [("SOURCE_ALLOWED_HOSTS", upstream.origin.as_str()), ("SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32"), ("LOG_LEVEL", "error")];
    let variables = variables.map(|(name, value)| (format!("COUNTERSIGN_{name}"), value.to_owned()));
    host::Config::load(flags, variables.into_iter()).map_err(|error| Failure::failed(error.to_string()))
}

async fn not_started(serving: JoinHandle<Result<(), host::Error>>) -> Failure {
    let why = match serving.await {
        Ok(Ok(())) => "it ended at once".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Failure::failed(format!("the server of the demo cannot start: {why}"))
}

fn client(started: &Started, token: Option<&str>) -> Result<Client, Failure> {
    let token = token.map(|token| Secret::new(token.to_owned()));
    let server = Server { url: parse_url(&started.url)?, place: Place::Said, token, origin: Origin::Login, ca_cert: None };
    Client::new(server, Rehearsal::Off)
}

/// Adds the sources, sets the modes that the story begins with, and makes the agent's session.
async fn furnish(owner: &Client, upstream: &Upstream) -> Result<NewSessionResponse, Failure> {
    for name in ["crm", "github", "chat"] {
        let source = json!({ "name": name, "url": format!("{}/{name}", upstream.origin), "trust_hints": true });
        owner.post::<Value>(&["sources"], &source).await?;
    }
    for action in ["github.merge_pull_request", "chat.post_message"] {
        owner.put::<Value>(&["modes", action], &json!({ "mode": "allow" })).await?;
        owner.post::<Value>(&["consents"], &json!({ "purpose": format!("action:{action}") })).await?;
    }
    // Unattended, so that nothing expires while its person reads.
    let session = json!({ "title": "support agent", "unattended": true });
    Ok(owner.post::<NewSessionResponse>(&["sessions"], &session).await?.read)
}

/// What the automation of the story finds in the workspace.
fn write_reports(workspace: &Path) -> Result<(), Failure> {
    let reports = workspace.join("reports");
    std::fs::create_dir_all(&reports).map_err(|error| Failure::file(&reports, &error))?;
    for name in ["refunds.md", "returns.md"] {
        let file = reports.join(name);
        std::fs::write(&file, "Written by the support team.\n").map_err(|error| Failure::file(&file, &error))?;
    }
    Ok(())
}
