//! The processes that are measured: the real server, and the programs it is compared with.

use crate::cpu::Watched;
use crate::http::{self, Connection, HttpCaller};
use crate::load::{Time, drive};
use crate::place::Database;
use crate::stats::Window;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// A process that is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The release build of `countersign serve`, with a session to call in.
pub(crate) struct Server {
    running: Running,
    pub(crate) session: String,
    pub(crate) token: String,
    /// The time from the start of the process to its first answer.
    pub(crate) started_in: Duration,
}

/// The two calls that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    Write,
}

impl Call {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    pub(crate) const fn action(self) -> &'static str {
        match self {
            Self::Read => "files.read_text",
            Self::Write => "files.write_text",
        }
    }

    /// Signed entries per call: a write has an intent before its receipt.
    pub(crate) const fn entries(self) -> f64 {
        match self {
            Self::Read => 1.0,
            Self::Write => 2.0,
        }
    }

    /// The body of the request. Each write creates a new file.
    pub(crate) fn body(self, number: u64) -> Value {
        let params = match self {
            Self::Read => json!({ "path": READ_FILE }),
            Self::Write => json!({ "path": format!("out/{number:012}.txt"), "text": content() }),
        };
        json!({ "action": self.action(), "params": params })
    }
}

pub(crate) const READ_FILE: &str = "small.txt";

/// The content of the files that are read and written: 100 bytes.
pub(crate) fn content() -> String {
    "0123456789".repeat(10)
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts a program and waits until it prints `url: http://…`, which it does once it answers.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("starting {command:?}"))?;
        let stdout = child.stdout.take().context("the child has no stdout")?;
        let mut said = String::new();
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            // A worker has no other address than that of its health.
            let health = || line.strip_prefix("health: http://").and_then(|rest| rest.strip_suffix("/readyz"));
            if let Some(address) = line.strip_prefix("url: http://").or_else(health) {
                return Ok(Self { child, address: address.trim_end_matches('/').parse()? });
            }
            said.push_str(&line);
        }
        bail!("{command:?} ended before it answered: {said}");
    }

    /// Asks the process to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(id) = rustix::process::Pid::from_raw(i32::try_from(self.child.id())?) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    /// Starts the server on a data folder, creates a session and allows the write.
    pub(crate) async fn start(data: &Path, database: Option<&str>) -> Result<Self> {
        Self::start_with(data, database, &[]).await
    }

    /// Like `start`, with more settings.
    pub(crate) async fn start_with(data: &Path, database: Option<&str>, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_build(&server_binary()?, data, database, settings).await
    }

    /// Like `start_with`, with a given build of the server.
    pub(crate) async fn start_build(binary: &Path, data: &Path, database: Option<&str>, settings: &[(&str, &str)]) -> Result<Self> {
        let began = Instant::now();
        let mut command = serve(binary, data, database);
        command.envs(settings.iter().copied());
        // Its way to the database may be a proxy that runs on this thread.
        let running = tokio::task::spawn_blocking(move || Running::start(&mut command)).await??;
        let mut connection = Connection::open(running.address).await?;
        let answer = connection.exchange(&http::request("GET", "/healthz", "", &Value::Null)).await?;
        anyhow::ensure!(answer.status == 200, "`/healthz` was answered {}", answer.status);
        let started_in = began.elapsed();
        let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?;
        let owner = owner.trim();
        let created = connection.ask("POST", "/api/v1/sessions", owner, &json!({ "title": "bench" })).await?;
        connection.ask("PUT", "/api/v1/modes/files.write_text", owner, &json!({ "mode": "allow" })).await?;
        std::fs::write(data.join("workspace").join(READ_FILE), content())?;
        let text = |name: &str| created.get(name).and_then(Value::as_str).map(str::to_owned).with_context(|| format!("no `{name}`"));
        Ok(Self { session: text("id")?, token: text("token")?, running, started_in })
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.running.stop()
    }

    /// The bytes of the request for one call.
    pub(crate) fn request(&self, call: Call, number: u64) -> Vec<u8> {
        let path = format!("/api/v1/sessions/{}/actions/invoke", self.session);
        http::request("POST", &path, &self.token, &call.body(number))
    }

    /// One window of calls.
    pub(crate) async fn measure(
        &self,
        call: Call,
        callers: usize,
        time: Time,
        watched: &Watched,
        count: &Arc<AtomicU64>,
    ) -> Result<Window> {
        let path = format!("/api/v1/sessions/{}/actions/invoke", self.session);
        let token = self.token.clone();
        let next = Arc::new(move |number: u64| http::request("POST", &path, &token, &call.body(number)));
        let open = HttpCaller::open(callers, self.address(), count, next).await?;
        drive(open, time, watched).await
    }

    /// Makes some calls, one after the other, and returns the size of the last answer's body.
    pub(crate) async fn warm_up(&self, call: Call, calls: u64) -> Result<usize> {
        let mut connection = Connection::open(self.address()).await?;
        let mut bytes = 0;
        for number in 0..calls {
            let answer = connection.exchange(&self.request(call, WARM_UP_FROM + number)).await?;
            anyhow::ensure!(answer.status == 200, "{} was answered {}", call.action(), String::from_utf8_lossy(answer.body));
            bytes = answer.body.len();
        }
        Ok(bytes)
    }
}

/// The first number of the warm-up calls; the measured calls never reach it.
const WARM_UP_FROM: u64 = 900_000_000_000;

/// Starts a worker of runs beside the servers of a database. Its data folder has their master key.
pub(crate) fn start_worker(data: &Path, database: &str, settings: &[(String, String)]) -> Result<Running> {
    let mut command = program(&server_binary()?);
    command.args(["worker", "--listen", "127.0.0.1:0", "--database", database, "--data"]).arg(data);
    Running::start(unhindered(&mut command).envs(settings.iter().cloned()))
}

/// Starts a server on a data folder and a database.
pub(crate) fn start_server(data: &Path, database: &str, settings: &[(String, String)]) -> Result<Running> {
    Running::start(serve(&server_binary()?, data, Some(database)).envs(settings.iter().cloned()))
}

/// Starts this program again as the bare echo, which answers with `bytes` bytes.
pub(crate) fn start_echo(bytes: usize) -> Result<Running> {
    Running::start(program(&std::env::current_exe()?).args([crate::echo::ARGUMENT, &bytes.to_string()]))
}

/// Starts this program again as an MCP server.
pub(crate) fn start_upstream() -> Result<Running> {
    Running::start(program(&std::env::current_exe()?).arg(crate::upstream::ARGUMENT))
}

/// Starts a program of `bench/proxies` with an interpreter of Python.
pub(crate) fn start_proxy(python: &Path, script: &str, arguments: &[&str]) -> Result<Running> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("proxies").join(script);
    Running::start(program(python).arg(script).args(arguments))
}

/// The argument that makes this program the bare server.
pub(crate) const BARE: &str = "__bare";

/// Starts this program again as the bare server, which does only the parts of a call. Its database was created by a real server.
pub(crate) fn start_bare(call: Call, bytes: usize, sampled: &Database, effects: &Path) -> Result<Running> {
    let mut command = program(&std::env::current_exe()?);
    command.args([BARE, call.as_str(), &bytes.to_string()]).arg(effects).arg(&sampled.data);
    Running::start(command.args(&sampled.url))
}

/// The release binary, which is in the same folder as this program.
pub(crate) fn server_binary() -> Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("countersign");
    anyhow::ensure!(binary.is_file(), "`{}` is missing: run `make bench`", binary.display());
    Ok(binary)
}

fn serve(binary: &Path, data: &Path, database: Option<&str>) -> Command {
    let mut command = program(binary);
    command.arg("serve").arg("--listen").arg("127.0.0.1:0").arg("--data").arg(data);
    if let Some(url) = database {
        command.arg("--database").arg(url);
    }
    unhindered(&mut command);
    command
}

/// The rate limit protects against a runaway agent. Here it would distort the measurement.
fn unhindered(command: &mut Command) -> &mut Command {
    command.env("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "100000000").env("COUNTERSIGN_LOG_LEVEL", "error")
}

#[expect(clippy::disallowed_methods, reason = "the benchmark measures whole processes; the product spawns none here")]
pub(crate) fn program(path: &Path) -> Command {
    Command::new(path)
}
