//! What it costs a jailed program to reach a host through the relay, beside the same program without the jail, in turns. The program opens a
//! connection for each request, as one without a pool does, and then loads one large answer.

use crate::child::{Server, program};
use crate::http::{self, Connection};
use crate::stats::{Spread, percentile};
use crate::{progress, upstream};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

/// The argument that makes this program an MCP server whose tool asks `localhost` on a port.
pub(crate) const ARGUMENT: &str = "__relayed";

const REQUESTS: usize = 400;
const SMALL_BYTES: u64 = 1_000;
const LARGE_BYTES: u64 = 256 << 20;
const REPETITIONS: usize = 7;

/// What one turn of the program found.
#[derive(Clone, Copy)]
struct Turn {
    p50_ms: f64,
    mb_per_second: f64,
}

pub(crate) struct Measured {
    /// Without the jail, and through the relay.
    turns: Vec<[Turn; 2]>,
}

/// Serves on stdin and stdout until stdin ends.
pub(crate) fn serve(port: &str) -> Result<()> {
    let port: u16 = port.parse()?;
    upstream::serve_stdio(&upstream::tools("relayed", 1), || Ok(figures(ask_all(port)?).to_string()))
}

fn figures(turn: Turn) -> Value {
    json!({ "p50_ms": turn.p50_ms, "mb_per_second": turn.mb_per_second })
}

fn ask_all(port: u16) -> Result<Turn> {
    let mut latencies = Vec::new();
    for _ in 0..REQUESTS {
        let began = Instant::now();
        ask(port, SMALL_BYTES)?;
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    let p50 = percentile(&latencies, 0.50).context("no request was made")?;
    let began = Instant::now();
    ask(port, LARGE_BYTES)?;
    Ok(Turn { p50_ms: p50.as_secs_f64() * 1e3, mb_per_second: LARGE_BYTES as f64 / 1e6 / began.elapsed().as_secs_f64() })
}

/// Asks for so many bytes, and reads them.
fn ask(port: u16, bytes: u64) -> Result<()> {
    let mut stream = TcpStream::connect(("localhost", port))?;
    stream.set_nodelay(true)?;
    stream.write_all(&bytes.to_be_bytes())?;
    let mut buffer = vec![0; 128 << 10];
    let mut left = bytes;
    while left > 0 {
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the answer was cut");
        left -= read as u64;
    }
    Ok(())
}

/// A server that answers each connection with as many bytes as it asks for.
fn start_outside() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(port)
}

fn answer(mut stream: TcpStream) -> Result<()> {
    let mut asked = [0; 8];
    stream.set_nodelay(true)?;
    stream.read_exact(&mut asked)?;
    let chunk = vec![7; 128 << 10];
    let mut left = u64::from_be_bytes(asked);
    while left > 0 {
        let bytes = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stream.write_all(&chunk[..bytes])?;
        left -= bytes as u64;
    }
    Ok(())
}

/// The program without a jail.
struct Bare {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Bare {
    fn start(binary: &Path, port: u16) -> Result<Self> {
        let mut command = program(binary);
        let mut child = command.args([ARGUMENT, &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().context("the child has no stdout")?);
        Ok(Self { child, answers })
    }

    fn turn(&mut self) -> Result<Turn> {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} });
        let stdin = self.child.stdin.as_mut().context("the child has no stdin")?;
        writeln!(stdin, "{call}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        turn_of(&serde_json::from_str::<Value>(&line)?["result"])
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn turn_of(result: &Value) -> Result<Turn> {
    let text = result["content"][0]["text"].as_str().with_context(|| format!("the program answered {result}"))?;
    let found: Value = serde_json::from_str(text)?;
    let figure = |name: &str| found[name].as_f64().with_context(|| format!("no `{name}` in {found}"));
    Ok(Turn { p50_ms: figure("p50_ms")?, mb_per_second: figure("mb_per_second")? })
}

pub(crate) async fn measure(folder: &Path) -> Result<Measured> {
    let (binary, port) = (std::env::current_exe()?, start_outside()?);
    let command = json!([binary, ARGUMENT, port.to_string()]);
    let settings = folder.join("relay.toml");
    std::fs::write(&settings, format!("[[mcp_commands]]\ncommand = {command}\nhosts = [\"http://localhost:{port}\"]\n"))?;
    let settings = settings.to_str().context("a path that is not UTF-8")?;
    let variables = [
        ("COUNTERSIGN_CONFIG", settings),
        ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true"),
        ("COUNTERSIGN_SOURCE_ALLOWED_NETWORKS", "127.0.0.1/32"),
    ];
    let data = folder.join("relay");
    let server = Server::start_with(&data, None, &variables).await?;
    let owner = std::fs::read_to_string(data.join("owner.token"))?.trim().to_owned();
    let mut connection = Connection::open(server.address()).await?;
    let source = json!({ "name": "relayed", "command": command, "default_tier": "R1" });
    connection.ask("POST", "/api/v1/sources", &owner, &source).await?;
    let action = format!("relayed.{}", upstream::tool_name("relayed", 0));
    connection.ask("PUT", &format!("/api/v1/modes/{action}"), &owner, &json!({ "mode": "allow" })).await?;
    let mut bare = Bare::start(&binary, port)?;
    let path = format!("/api/v1/sessions/{}/actions/invoke", server.session);
    let request = http::request("POST", &path, &server.token, &json!({ "action": action, "params": {} }));
    let mut turns = Vec::new();
    // The first turn of each warms it up.
    for turn in 0..=REPETITIONS {
        progress(&format!("a jailed program through the relay, and beside it, {turn} of {REPETITIONS}"));
        let without = bare.turn()?;
        let answer = connection.exchange(&request).await?;
        let body: Value = serde_json::from_slice(answer.body)?;
        let through = turn_of(&body["result"]).with_context(|| format!("{body}"))?;
        turns.push([without, through]);
    }
    turns.remove(0);
    server.stop()?;
    Ok(Measured { turns })
}

impl Measured {
    pub(crate) fn text(&self, machine: &str) -> String {
        let spread = |figure: &dyn Fn(&[Turn; 2]) -> f64| Spread::of(self.turns.iter().map(figure));
        format!(
            "{machine}\n\n## A program's requests through the relay\n\n\
             | | without the jail | in the jail, through the relay | ratio |\n|---|---|---|---|\n\
             | p50 of a request with a connection of its own, {SMALL_BYTES} bytes answered, ms | {} | {} | {} |\n\
             | one answer of {} MiB, MB/s | {} | {} | {} |",
            spread(&|[without, _]| without.p50_ms),
            spread(&|[_, through]| through.p50_ms),
            spread(&|[without, through]| through.p50_ms / without.p50_ms),
            LARGE_BYTES >> 20,
            spread(&|[without, _]| without.mb_per_second),
            spread(&|[_, through]| through.mb_per_second),
            spread(&|[without, through]| through.mb_per_second / without.mb_per_second),
        )
    }
}
