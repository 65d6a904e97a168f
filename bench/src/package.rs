//! A package whose code does nothing, called through the real server: this measures the jail together with everything around it.

use crate::child::Server;
use crate::http::{self, Connection};
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox::Profile;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The pause before each run, so that the kernel's cleanup after one run is not counted in the next.
pub(crate) const PAUSE: Duration = Duration::from_millis(15);

/// Small and compiled, so that the jail is measured and not the start of an interpreter in it.
const CODE: &str = r#"fn main() { print!("{{\"output\":{{}}}}") }"#;

/// A server with the package installed.
pub(crate) struct Installed {
    server: Server,
    connection: Connection,
}

impl Installed {
    pub(crate) async fn new(folder: &Path) -> Result<Self> {
        let program = BASE64_STANDARD.encode(compile(folder)?);
        let data = folder.join("packages");
        let server = Server::start_with(&data, None, &[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true")]).await?;
        let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?;
        let mut connection = Connection::open(server.address()).await?;
        let mut files = serde_json::Map::new();
        for profile in [Profile::Default, Profile::HighIsolation] {
            let name = name_of(profile);
            let manifest = json!({ "name": name, "riskTier": "R0", "profile": profile.to_string(), "inputSchema": {}, "outputSchema": {} });
            let manifest = BASE64_STANDARD.encode(manifest.to_string());
            files.insert(format!("actions/{name}/action.json"), json!({ "base64": manifest }));
            files.insert(format!("actions/{name}/execute"), json!({ "base64": program, "executable": true }));
        }
        connection.ask("PUT", "/api/v1/packages/bench", owner.trim(), &json!({ "files": files })).await?;
        Ok(Self { server, connection })
    }

    /// The time of one call, in milliseconds.
    pub(crate) async fn call(&mut self, profile: Profile) -> Result<f64> {
        tokio::time::sleep(PAUSE).await;
        let path = format!("/api/v1/sessions/{}/actions/invoke", self.server.session);
        let body = json!({ "action": format!("bench.{}", name_of(profile)), "params": {} });
        let request = http::request("POST", &path, &self.server.token, &body);
        let start = Instant::now();
        let answer = self.connection.exchange(&request).await?;
        let took = start.elapsed().as_secs_f64() * 1_000.0;
        let said: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        ensure!(answer.status == 200 && said["invocation"]["status"] == "succeeded", "the package was answered {}: {said}", answer.status);
        Ok(took)
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.server.stop()
    }
}

const fn name_of(profile: Profile) -> &'static str {
    match profile {
        Profile::Default => "nothing",
        Profile::HighIsolation => "nothing_more",
    }
}

/// Compiles the code with `rustc`.
#[expect(clippy::disallowed_methods, reason = "the benchmark compiles what it measures; the product compiles nothing")]
fn compile(folder: &Path) -> Result<Vec<u8>> {
    let (source, program) = (folder.join("nothing.rs"), folder.join("nothing"));
    std::fs::write(&source, CODE)?;
    let built = Command::new("rustc").args(["-O", "-C", "panic=abort", "-C", "strip=symbols", "-o"]).arg(&program).arg(&source).status();
    ensure!(built.context("starting `rustc`")?.success(), "`rustc` did not compile a program that does nothing");
    Ok(std::fs::read(program)?)
}
