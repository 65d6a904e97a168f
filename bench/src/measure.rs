//! Measures one engine: the real server and its unavoidable parts, in turns, so that a slow moment of the machine affects all of them.

use crate::child::{Call, Server, start_bare, start_echo};
use crate::cpu::{self, Watched};
use crate::http::HttpCaller;
use crate::load::{Time, drive};
use crate::place::{Database, Place};
use crate::pure::{self, Pure};
use crate::raw::Raw;
use crate::stats::{Spread, Window};
use crate::{catalogue, effect, orgs, progress};
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
    /// The time of a call with many actions in the catalogue, as a multiple of that with few.
    pub(crate) beside_many_actions: Spread,
    /// The throughput of two orgs on two servers, as a multiple of that of one; only on PostgreSQL.
    pub(crate) two_orgs: Option<Spread>,
    pub(crate) started_ms: Spread,
    pub(crate) idle_mb: Spread,
    /// False if the CPU time of the database's own processes could not be read.
    pub(crate) counts_database: bool,
}

/// One kind of call with one number of callers; one turn per repetition.
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
    /// The smallest server that does all parts, one after the other.
    pub(crate) bare: Window,
}

/// How long each thing is measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) server: Time,
    pub(crate) part: Time,
    pub(crate) repetitions: usize,
}

/// Measures one engine. Servers are first started only to take samples: the raw rows are then written to the database of the last of them,
/// and the bare server gets the database of one more.
pub(crate) async fn engine(place: &Place, folder: &Path, plan: Plan) -> Result<Measured> {
    progress(&format!("{}: starting", place.engine_name()));
    let mut started = Vec::new();
    for number in 0..plan.repetitions {
        started.push(sample(place, &folder.join(format!("sample-{number}"))).await?);
    }
    let for_bare = sample(place, &folder.join("sample-bare")).await?;
    let Some(for_rows) = started.last() else { anyhow::bail!("nothing was sampled") };
    let raw = Raw::start(&for_rows.database, place.parent()).await?;
    let store = crate::open_store_at(&for_rows.database).await?;
    let pure = pure::measure(&store, raw.payload.clone()).await?;
    let beside_many_actions = catalogue::measure(&store).await?;
    drop(store);
    let database = place.fresh(&folder.join("served")).await?;
    let server = Server::start(&database.data, database.url.as_deref()).await?;
    let mut cells = Vec::new();
    for (call, bytes) in Call::ALL.into_iter().zip(for_rows.answer_bytes) {
        server.warm_up(call, 50).await?;
        let bench = Bench { place, server: &server, raw: &raw, for_bare: &for_bare.database, folder };
        cells.extend(bench.cells_of(call, bytes, plan).await?);
    }
    server.stop()?;
    let two_orgs = orgs::measure(place, folder, plan.server, plan.repetitions).await?;
    Ok(Measured {
        engine: place.engine_name(),
        cells,
        pure,
        beside_many_actions,
        two_orgs,
        started_ms: Spread::of(started.iter().map(|sampled| sampled.started_ms)),
        idle_mb: Spread::of(started.iter().map(|sampled| sampled.idle_mb)),
        counts_database: place.counts_database(),
    })
}

/// A database that a server has created and filled with some calls of each kind, and that no server uses any more.
struct Sampled {
    database: Database,
    started_ms: f64,
    idle_mb: f64,
    /// The size of the answer to a read and to a write.
    answer_bytes: [usize; 2],
}

async fn sample(place: &Place, data: &Path) -> Result<Sampled> {
    let database = place.fresh(data).await?;
    let server = Server::start(&database.data, database.url.as_deref()).await?;
    let started_ms = server.started_in.as_secs_f64() * 1e3;
    let answer_bytes = [server.warm_up(Call::Read, 10).await?, server.warm_up(Call::Write, 10).await?];
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle_mb = cpu::resident_mb(server.id())?;
    server.stop()?;
    Ok(Sampled { database, started_ms, idle_mb, answer_bytes })
}

/// The things that are measured in turns.
struct Bench<'a> {
    place: &'a Place,
    server: &'a Server,
    raw: &'a Raw,
    for_bare: &'a Database,
    folder: &'a Path,
}

impl Bench<'_> {
    async fn cells_of(&self, call: Call, bytes: usize, plan: Plan) -> Result<Vec<Cell>> {
        let Self { place, server, raw, for_bare, folder } = *self;
        let echo = start_echo(bytes)?;
        let bare = start_bare(call, bytes, for_bare, &folder.join("bare-effects"))?;
        let bare_watched = Watched::process(bare.id()).and_children_of(place.parent());
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
                let bare_calling = HttpCaller::open(callers, bare.address, &count, Arc::clone(&body)).await?;
                turns.push(Turn {
                    server: server.measure(call, callers, plan.server, &watched, &count).await?,
                    rows: raw.measure(call, callers, plan.part).await?,
                    effect: effect::measure(&effects, call, callers, plan.part).await?,
                    echo: drive(echoing, plan.part, &echo_watched).await?,
                    bare: drive(bare_calling, plan.server, &bare_watched).await?,
                });
            }
            cells.push(Cell { call, callers, turns });
        }
        Ok(cells)
    }
}

/// The same request with the path `/`, the only one that the echo and the bare server have.
fn to_root(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let rest = text.split_once(" HTTP/1.1").map_or("", |(_, rest)| rest);
    format!("POST / HTTP/1.1{rest}").into_bytes()
}
