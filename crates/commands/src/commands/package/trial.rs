//! Runs the tests of a package as the server would run its actions: on a real server in this process, with a temporary data folder.

use super::{Allowed, checked, request};
use crate::serving::{Serving, with_the_process};
use crate::shared::*;
use homes::packages::Case;
use host::limits::INVOCATIONS_PER_MINUTE_MAX;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

const COLUMNS: &[Column] = &[Column::Whole("CASE"), Column::Whole("RESULT"), Column::Under("WHY")];
/// How long a request to the temporary server may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run(dir: &Path, name: &str, allowed: Allowed, setting: Setting<'_>) -> Result<Exit, Failure> {
    setting.no_dry_run("package test")?;
    let settings = allowed.load(&setting)?;
    let (terminal, serving) = (setting.terminal, setting.serving);
    let cases = checked(name, dir, terminal).await?.cases;
    if cases.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("there is nothing to test: `{}` has no tests/*.json", dir.display())).hint(
            format!(
                "write {}: {{\"action\": …, \"input\": {{…}}, \"expect\": {{\"status\": \"succeeded\"}}}}",
                dir.join("tests/first.json").display()
            ),
        ));
    }
    let mut table = Table::new(COLUMNS, "no tests");
    let mut results = Vec::new();
    for (file, case) in &cases {
        // Each case has its own server, so that the files of one case are not there in the next.
        let failed = try_case(dir, name, case, &settings, serving).await.err();
        let cell = if failed.is_none() { Cell::text("ok").toned(Tone::Ok) } else { Cell::text("failed").toned(Tone::Danger) };
        table.row([Cell::text(file), cell, Cell::text(failed.as_deref().unwrap_or_default())]);
        results.push(json!({ "case": file, "ok": failed.is_none(), "why": failed }));
    }
    let failed = results.iter().filter(|result| result["ok"] != true).count();
    terminal.list(&json!({ "items": results }), &table)?;
    if failed == 0 {
        terminal.next(format!("countersign package install {}", dir.display()));
        return Ok(Exit::Ok);
    }
    Err(Failure::failed(format!("{failed} of {} failed", counted(results.len() as u64, "test", "tests"))))
}

impl Allowed {
    /// Loads the settings that the server would start with, so that the tests are refused exactly what the server would refuse.
    fn load(self, setting: &Setting<'_>) -> Result<host::Config, Failure> {
        let flags = host::Flags { data: self.data, config: self.config, ..host::Flags::default() };
        host::Config::load(flags, setting.environment.variables.clone().into_iter()).map_err(|error| Failure::usage(error.to_string()))
    }
}

async fn try_case(dir: &Path, name: &str, case: &Case, settings: &host::Config, serving: &'static dyn Serving) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let workspace = data.path().join("workspace");
    for (path, text) in &case.files {
        let target = workspace.join(path);
        let written = target.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&target, text));
        written.map_err(|error| format!("`{path}` cannot be written: {error}"))?;
    }
    let trial = Trial::start(data.path(), settings, serving).await?;
    let tried = tokio::time::timeout(PATIENCE, trial.play(dir, name, case)).await;
    trial.serving.abort();
    let status = tried.map_err(|_| "the server did not answer in time".to_owned())??;
    if let Some(expected) = &case.files_after {
        let found = homes::packages::read_workspace(&workspace).map_err(|problem| problem.detail)?;
        let found: BTreeMap<_, _> =
            found.into_iter().map(|(path, file)| (path, String::from_utf8_lossy(&file.bytes).into_owned())).collect();
        if found != *expected {
            return Err(format!("{status}, and the workspace holds {found:?} where {expected:?} was expected"));
        }
    }
    Ok(())
}

/// A temporary server, and a client for it.
struct Trial {
    url: String,
    token: String,
    http: reqwest::Client,
    serving: tokio::task::JoinHandle<()>,
}

impl Trial {
    /// Starts the server. What packages may do comes from the real settings; everything else is separate, so that nothing real is touched.
    async fn start(data: &Path, settings: &host::Config, serving: &'static dyn Serving) -> Result<Self, String> {
        let config = host::Config {
            data: data.to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            database: None,
            redis: None,
            http_allowed_hosts: Vec::new(),
            http_allowed_networks: Vec::new(),
            invocations_per_minute: INVOCATIONS_PER_MINUTE_MAX.into(),
            master_key_file: None,
            allow_plugin_code_execution: true,
            allow_mcp_commands: true,
            email: host::config::EmailConfig::default(),
            oidc: None,
            artifacts: host::config::ArtifactsConfig::default(),
            ..settings.clone()
        };
        let (tell, told) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let started = Box::new(|started: &host::Started| {
                let _nobody_waits = tell.send((started.url.clone(), started.owner_token.clone().unwrap_or_default()));
            });
            // The error is dropped: if the server does not start, the receiver below sees that the sender is gone.
            let _ended = serving.serve(config, started, with_the_process()).await;
        });
        let (url, token) = told.await.map_err(|_| "the throw-away server did not start".to_owned())?;
        Ok(Self { url, token, http: reqwest::Client::new(), serving })
    }

    /// Installs the package, makes the call, approves it if it is pending, and returns how it ended.
    async fn play(&self, dir: &Path, name: &str, case: &Case) -> Result<String, String> {
        // Findings are accepted here without a person, because nobody else uses this server. The real server asks for a person to read
        // them.
        let body = request(dir, true).map_err(|failure| failure.message)?;
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
        if status != case.status.as_str() {
            let why = answer["invocation"]["error"]["message"].as_str().or(answer["detail"].as_str()).unwrap_or("nothing was said");
            return Err(format!("it is `{status}` where `{}` was expected: {why}", case.status));
        }
        let error = &answer["invocation"]["error"];
        let told = error["code"].as_str().zip(error["message"].as_str()).map(|(code, message)| format!("{code}: {message}"));
        let told = told.unwrap_or_else(|| "none".to_owned());
        if let Some(expected) = case.error.as_ref().filter(|expected| !told.contains(expected.as_str())) {
            return Err(format!("its error is `{told}` where `{expected}` was expected in it"));
        }
        match &case.output {
            Some(expected) if answer["result"] != *expected => {
                Err(format!("it answered {} where {expected} was expected", answer["result"]))
            }
            Some(_) | None => Ok(status.to_owned()),
        }
    }

    /// Sends a request. An answer with an invocation counts as success here, however the invocation ended.
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
