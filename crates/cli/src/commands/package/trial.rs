//! Runs a package's tests as the server would run its actions: a real server, on a throw-away folder, in this process.

use super::request;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Column, Table, Terminal};
use crate::style::Tone;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

/// One file of `tests/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    action: String,
    input: Value,
    /// The workspace before it.
    #[serde(default)]
    files: BTreeMap<String, String>,
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// `succeeded`, `reverted` or `failed`.
    status: String,
    output: Option<Value>,
    /// The workspace after it; every file of it.
    files: Option<BTreeMap<String, String>>,
}

const COLUMNS: &[Column] = &[Column::Whole("CASE"), Column::Whole("RESULT"), Column::Cut("WHY")];
/// How long the throw-away server may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run(dir: &Path, name: &str, terminal: &mut Terminal) -> Result<Exit, Failure> {
    server::packages::check(name, dir).map_err(Failure::failed)?;
    let cases = cases_of(dir)?;
    let mut table = Table::new(COLUMNS, "no tests: write one to tests/");
    let mut results = Vec::new();
    for (file, case) in &cases {
        // Each has a server of its own: what one leaves is not there for the next.
        let failed = try_case(dir, name, case).await.err();
        let cell = if failed.is_none() { Cell::text("ok").toned(Tone::Ok) } else { Cell::text("failed").toned(Tone::Danger) };
        table.row([Cell::text(file), cell, Cell::text(failed.as_deref().unwrap_or_default())]);
        results.push(json!({ "case": file, "ok": failed.is_none(), "why": failed }));
    }
    let all_passed = results.iter().all(|result| result["ok"] == true);
    terminal.list(&json!({ "items": results }), &table)?;
    if all_passed {
        terminal.next(format!("countersign package install {}", dir.display()));
        return Ok(Exit::Ok);
    }
    Err(Failure::failed("a test failed"))
}

fn cases_of(dir: &Path) -> Result<Vec<(String, Case)>, Failure> {
    let files = server::packages::read(dir).map_err(Failure::failed)?;
    let tests = files.iter().filter(|(path, _)| path.starts_with("tests/") && path.ends_with(".json"));
    tests
        .map(|(path, file)| {
            let case = serde_json::from_slice(&file.bytes).map_err(|error| Failure::failed(format!("`{path}` is not a test: {error}")))?;
            Ok((path.clone(), case))
        })
        .collect()
}

async fn try_case(dir: &Path, name: &str, case: &Case) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let workspace = data.path().join("workspace");
    for (path, text) in &case.files {
        let target = workspace.join(path);
        let written = target.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&target, text));
        written.map_err(|error| format!("`{path}` cannot be written: {error}"))?;
    }
    let trial = Trial::start(data.path()).await?;
    let tried = tokio::time::timeout(PATIENCE, trial.play(dir, name, case)).await;
    trial.serving.abort();
    let status = tried.map_err(|_| "the server did not answer in time".to_owned())??;
    if let Some(expected) = &case.expect.files {
        let found = server::packages::read_workspace(&workspace)?;
        let found: BTreeMap<_, _> =
            found.into_iter().map(|(path, file)| (path, String::from_utf8_lossy(&file.bytes).into_owned())).collect();
        if found != *expected {
            return Err(format!("{status}, and the workspace holds {found:?} where {expected:?} was expected"));
        }
    }
    Ok(())
}

/// Whom its code may ask, as whoever runs the tests says: of itself, nobody.
fn network() -> impl Iterator<Item = (String, String)> {
    const NAMES: [&str; 2] = ["COUNTERSIGN_PACKAGE_ALLOWED_HOSTS", "COUNTERSIGN_PACKAGE_ALLOWED_NETWORKS"];
    NAMES.into_iter().filter_map(|name| std::env::var(name).ok().map(|value| (name.to_owned(), value)))
}

/// A server of its own, and how to ask it.
struct Trial {
    url: String,
    token: String,
    http: reqwest::Client,
    serving: tokio::task::JoinHandle<()>,
}

impl Trial {
    async fn start(data: &Path) -> Result<Self, String> {
        let flags = server::Flags { data: Some(data.to_owned()), listen: Some("127.0.0.1:0".to_owned()), ..server::Flags::default() };
        let allowed = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION".to_owned(), "true".to_owned());
        let config = server::Config::load(flags, std::iter::once(allowed).chain(network())).map_err(|error| error.to_string())?;
        let (tell, told) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let served = server::serve(config, |started| {
                let _nobody_waits = tell.send((started.url.clone(), started.owner_token.clone().unwrap_or_default()));
            });
            // One that does not start is missed by who waits for it.
            let _ended = served.await;
        });
        let (url, token) = told.await.map_err(|_| "the throw-away server did not start".to_owned())?;
        Ok(Self { url, token, http: reqwest::Client::new(), serving })
    }

    /// Installs the package, calls the action as it would be called, and answers how it ended.
    async fn play(&self, dir: &Path, name: &str, case: &Case) -> Result<String, String> {
        let body = request(dir).map_err(|failure| failure.message)?;
        self.send(reqwest::Method::PUT, &format!("packages/{name}"), &json!(body)).await?;
        let session = self.send(reqwest::Method::POST, "sessions", &json!({})).await?;
        let session = session["id"].as_str().unwrap_or_default().to_owned();
        let call = json!({ "action": format!("{name}.{}", case.action), "params": case.input });
        let mut answer = self.send(reqwest::Method::POST, &format!("sessions/{session}/actions/invoke"), &call).await?;
        if answer["invocation"]["status"] == "pending" {
            let id = answer["invocation"]["id"].as_str().unwrap_or_default().to_owned();
            answer = self.send(reqwest::Method::POST, &format!("invocations/{id}/approve"), &json!({})).await?;
        }
        let status = answer["invocation"]["status"].as_str().unwrap_or_default();
        if status != case.expect.status {
            let why = answer["invocation"]["error"]["message"].as_str().or(answer["detail"].as_str()).unwrap_or("nothing was said");
            return Err(format!("it is `{status}` where `{}` was expected: {why}", case.expect.status));
        }
        match &case.expect.output {
            Some(expected) if answer["result"] != *expected => {
                Err(format!("it answered {} where {expected} was expected", answer["result"]))
            }
            Some(_) | None => Ok(status.to_owned()),
        }
    }

    /// An answer that tells of an invocation is one, whatever became of it.
    async fn send(&self, method: reqwest::Method, path: &str, body: &Value) -> Result<Value, String> {
        let request = self.http.request(method, format!("{}/api/v1/{path}", self.url)).bearer_auth(&self.token).json(body);
        let response = request.send().await.map_err(|error| error.to_string())?;
        let is_good = response.status().is_success();
        let answer: Value = response.json().await.map_err(|error| error.to_string())?;
        if is_good || answer["invocation"].is_object() {
            Ok(answer)
        } else {
            Err(answer["detail"].as_str().unwrap_or("it was refused").to_owned())
        }
    }
}
