//! One engine: the real server beside its unavoidable parts, taken in turns so that a slow moment of the machine hits all of them.

use crate::child::{Call, Server, start_echo};
use crate::cpu::{self, Watched};
use crate::http::{self, HttpCaller};
use crate::load::{Time, drive};
use crate::place::{Database, Place};
use crate::pure::{self, Pure};
use crate::raw::{self, Raw};
use crate::stats::{Spread, Window};
use crate::{effect, progress};
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub(crate) const CALLERS: [usize; 3] = [1, 8, 64];

/// Everything measured on one engine.
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    pub(crate) cells: Vec<Cell>,
    pub(crate) pure: Pure,
    pub(crate) started_ms: Spread,
    pub(crate) idle_mb: Spread,
    /// False when the time of the database's own processes could not be read.
    pub(crate) counts_database: bool,
}

/// One kind of call at one number of callers; one window per repetition.
pub(crate) struct Cell {
    pub(crate) call: Call,
    pub(crate) callers: usize,
    pub(crate) turns: Vec<Turn>,
}

/// The server and its parts, measured one right after the other.
pub(crate) struct Turn {
    pub(crate) server: Window,
    pub(crate) echo: Window,
    pub(crate) rows: Window,
    pub(crate) effect: Window,
}

/// How long things are measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) server: Time,
    pub(crate) part: Time,
    pub(crate) repetitions: usize,
}

/// Measures one engine. The first servers are only started and sampled; the raw rows are written where the last of them ran.
pub(crate) async fn engine(place: &Place, folder: &Path, plan: Plan) -> Result<Measured> {
    progress(&format!("{}: starting", place.engine_name()));
    let mut started_ms = Vec::new();
    let mut idle_mb = Vec::new();
    let mut left = None;
    let mut answer_bytes = Vec::new();
    for number in 0..plan.repetitions {
        let database = place.fresh(&folder.join(format!("sample-{number}"))).await?;
        let server = Server::start(&database.data, database.url.as_deref()).await?;
        started_ms.push(server.started_in.as_secs_f64() * 1e3);
        answer_bytes.clear();
        for call in Call::ALL {
            answer_bytes.push(server.warm_up(call, 10).await?);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        idle_mb.push(cpu::resident_mb(server.id())?);
        server.stop()?;
        left = Some(database);
    }
    let sampled = left.ok_or_else(|| anyhow::anyhow!("nothing was sampled"))?;
    let raw = start_raw(place, &sampled).await?;
    let pure = pure::measure(&crate::open_store_at(&sampled).await?, raw.payload.clone()).await?;
    let database = place.fresh(&folder.join("served")).await?;
    let server = Server::start(&database.data, database.url.as_deref()).await?;
    let mut cells = Vec::new();
    for (call, bytes) in Call::ALL.into_iter().zip(answer_bytes) {
        server.warm_up(call, 50).await?;
        cells.extend(cells_of(place, &server, &raw, call, bytes, folder, plan).await?);
    }
    server.stop()?;
    Ok(Measured {
        engine: place.engine_name(),
        cells,
        pure,
        started_ms: Spread::of(started_ms),
        idle_mb: Spread::of(idle_mb),
        counts_database: place.counts_database(),
    })
}

async fn cells_of(place: &Place, server: &Server, raw: &Raw, call: Call, bytes: usize, folder: &Path, plan: Plan) -> Result<Vec<Cell>> {
    let echo = start_echo(bytes)?;
    let echo_watched = Watched::process(echo.id());
    let watched = Watched::process(server.id()).and_children_of(place.parent());
    let effects = folder.join("effects");
    let count = Arc::new(AtomicU64::new(0));
    let body: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> = {
        let request = to_root(&server.request(call, 0));
        Arc::new(move |_| request.clone())
    };
    let mut cells = Vec::new();
    for callers in CALLERS {
        progress(&format!("{}: {} at {callers} callers", place.engine_name(), call.as_str()));
        let mut turns = Vec::new();
        for _ in 0..plan.repetitions {
            let echoing = HttpCaller::open(callers, echo.address, &count, Arc::clone(&body)).await?;
            turns.push(Turn {
                server: self::server(server, call, callers, plan.server, &watched, &count).await?,
                rows: raw.measure(call, callers, plan.part).await?,
                effect: effect::measure(&effects, call, callers, plan.part).await?,
                echo: drive(echoing, plan.part, &echo_watched).await?,
            });
        }
        cells.push(Cell { call, callers, turns });
    }
    Ok(cells)
}

/// One window of calls to a running server.
pub(crate) async fn server(
    server: &Server,
    call: Call,
    callers: usize,
    time: Time,
    watched: &Watched,
    count: &Arc<AtomicU64>,
) -> Result<Window> {
    let path = format!("/api/v1/sessions/{}/actions/invoke", server.session);
    let (token, params) = (server.token.clone(), call);
    let next = Arc::new(move |number: u64| http::request("POST", &path, &token, &params.body(number)));
    let open = HttpCaller::open(callers, server.address(), count, next).await?;
    drive(open, time, watched).await
}

async fn start_raw(place: &Place, sampled: &Database) -> Result<Raw> {
    match &sampled.url {
        None => raw::Sqlite::start(&sampled.data.join("countersign.db")).await,
        Some(url) => raw::Postgres::start(url, place.parent()).await,
    }
}

/// The same request, to the echo's one path.
fn to_root(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let rest = text.split_once(" HTTP/1.1").map_or("", |(_, rest)| rest);
    format!("POST / HTTP/1.1{rest}").into_bytes()
}
