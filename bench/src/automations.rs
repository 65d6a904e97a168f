//! Automations beside the engines of others, in the same run and in turns: one run of many light steps, many runs at once, and how soon a run
//! starts on an idle server; then the matcher of events. `ours` is our side, `peer` the others', `tables` has the limits.

mod filters;
mod ours;
mod peer;
pub(crate) mod tables;

use crate::place::Place;
use crate::progress;
use crate::stats::percentile;
use anyhow::{Context, Result};
use filters::Filters;
use ours::{Ours, Run, Steps};
use peer::{DbosSize, Journal, Peer, Peers};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The steps of the one long run, and of each of many.
const LONG: usize = 40;
const SHORT: usize = 3;
/// Runs at once, which is how many our server works on if nobody says otherwise.
const AT_ONCE: usize = 16;
/// How long an engine has nothing to do before it is fired once.
const IDLE: Duration = Duration::from_millis(20);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) repetitions: usize,
    /// Runs of ours in a repetition of many, and the longest repetition of a peer.
    runs: usize,
    peer_seconds: usize,
    /// Chains of Celery in a repetition.
    chains: usize,
    /// Runs on an idle server in a repetition.
    singles: usize,
    filters: &'static [usize],
}

impl Size {
    pub(crate) const STANDARD: Self =
        Self { repetitions: 5, runs: 800, peer_seconds: 3, chains: 100, singles: 200, filters: &[100, 10_000, 100_000] };
    pub(crate) const QUICK: Self = Self { repetitions: 1, runs: 160, peer_seconds: 1, chains: 10, singles: 20, filters: &[100, 10_000] };
}

/// Everything measured about automations.
pub(crate) struct Measured {
    pub(crate) long: Vec<Long>,
    pub(crate) many: Vec<Many>,
    pub(crate) starts: Vec<Starts>,
    pub(crate) filters: Vec<Filters>,
    pub(crate) notes: Vec<String>,
}

/// One run of many steps on one engine, turn by turn.
pub(crate) struct Long {
    pub(crate) engine: &'static str,
    pub(crate) plain: Vec<Run>,
    pub(crate) templates: Vec<Run>,
    pub(crate) peers: Vec<(&'static str, Vec<f64>)>,
}

/// Many runs at once, turn by turn: runs per second, and CPU time per run in µs.
pub(crate) struct Many {
    pub(crate) engine: &'static str,
    pub(crate) ours: Vec<Rate>,
    pub(crate) peers: Vec<(&'static str, Vec<Rate>)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
}

/// How soon runs start, turn by turn.
pub(crate) struct Starts {
    pub(crate) what: &'static str,
    pub(crate) turns: Vec<Waits>,
}

#[derive(Clone, Copy)]
pub(crate) struct Waits {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// A peer beside one of our engines.
struct Named {
    name: &'static str,
    peer: Peer,
}

pub(crate) const DBOS: &str = "DBOS";
pub(crate) const DBOS_WAL: &str = "DBOS with a write-ahead log";
pub(crate) const CELERY: &str = "Celery, Redis";
pub(crate) const GRAPHILE: &str = "graphile-worker, PostgreSQL";

pub(crate) async fn measure(places: &[Place], folder: &Path, size: Size) -> Result<Measured> {
    let peers = Peers::find();
    let mut notes = Vec::new();
    if peers.is_none() {
        notes.push("The engines of others were skipped: `BENCH_PEERS` is not set.".to_owned());
    }
    let (mut long, mut many) = (Vec::new(), Vec::new());
    for (number, place) in places.iter().enumerate() {
        let folder = folder.join(format!("automations-{number}"));
        std::fs::create_dir_all(&folder)?;
        long.extend(or_noted(long_runs(place, &folder, peers.as_ref(), size).await, "One long run", &mut notes));
        many.extend(or_noted(many_runs(place, &folder, peers.as_ref(), size).await, "The rate of many runs", &mut notes));
    }
    let starts = or_noted(starts(places, folder, peers.as_ref(), size).await, "The start of a run", &mut notes).unwrap_or_default();
    let filters = filters::measure(peers.as_ref(), folder, size.filters, size.repetitions.min(3));
    let filters = or_noted(filters, "The matcher", &mut notes).unwrap_or_default();
    Ok(Measured { long, many, starts, filters, notes })
}

/// If one measurement fails, the others are still reported.
fn or_noted<T>(measured: Result<T>, what: &str, notes: &mut Vec<String>) -> Option<T> {
    measured.inspect_err(|error| notes.push(format!("{what} was not measured: {error:#}."))).ok()
}

async fn long_runs(place: &Place, folder: &Path, peers: Option<&Peers>, size: Size) -> Result<Long> {
    let engine = place.engine_name();
    progress(&format!("{engine}: one run of {LONG} steps"));
    let ours = Ours::start(place, &folder.join("long")).await?;
    let plain_one = ours.save("plain", LONG, Steps::Plain).await?;
    let templates_one = ours.save("templates", LONG, Steps::Templates).await?;
    let dbos = DbosSize { steps: LONG, callers: 1, runs: 1, seconds: size.peer_seconds };
    let mut beside = started(place, folder, "long_dbos", peers, dbos).await?;
    ours.run(&plain_one).await?;
    ours.run(&templates_one).await?;
    let (mut plain, mut templates) = (Vec::new(), Vec::new());
    let mut theirs: Vec<(&'static str, Vec<f64>)> = beside.iter().map(|named| (named.name, Vec::new())).collect();
    for _ in 0..size.repetitions {
        plain.push(ours.run(&plain_one).await?);
        templates.push(ours.run(&templates_one).await?);
        for (named, (_, times)) in beside.iter_mut().zip(&mut theirs) {
            times.push(named.peer.repeat()?.number("seconds")? * 1e3);
        }
    }
    ours.stop()?;
    Ok(Long { engine, plain, templates, peers: theirs })
}

async fn many_runs(place: &Place, folder: &Path, peers: Option<&Peers>, size: Size) -> Result<Many> {
    let engine = place.engine_name();
    progress(&format!("{engine}: runs of {SHORT} steps, {AT_ONCE} at once"));
    let ours = Ours::start(place, &folder.join("many")).await?;
    let dbos = DbosSize { steps: SHORT, callers: AT_ONCE, runs: usize::MAX >> 1, seconds: size.peer_seconds };
    let mut beside = started(place, folder, "many_dbos", peers, dbos).await?;
    if let (Some(peers), Place::Sqlite, Ok(redis)) = (peers, place, std::env::var("TEST_REDIS_URL")) {
        let redis = format!("{redis}0");
        beside.push(Named { name: CELERY, peer: peers.celery(&redis, SHORT, size.chains, 30)? });
    }
    let warm = ours.save("warm", SHORT, Steps::Plain).await?;
    ours.many(&warm, AT_ONCE * 4, AT_ONCE).await?;
    let mut rates = Vec::new();
    let mut theirs: Vec<(&'static str, Vec<Rate>)> = beside.iter().map(|named| (named.name, Vec::new())).collect();
    for turn in 0..size.repetitions.min(3) {
        // One of its own each time, so that its runs are those of the turn.
        let automation = ours.save(&format!("turn {turn}"), SHORT, Steps::Plain).await?;
        let ours::Many { per_second, cpu_us } = ours.many(&automation, size.runs, AT_ONCE).await?;
        rates.push(Rate { per_second, cpu_us });
        for (named, (_, rates)) in beside.iter_mut().zip(&mut theirs) {
            let repeated = named.peer.repeat()?;
            let (runs, seconds) = (repeated.number("runs")?, repeated.number("seconds")?);
            rates.push(Rate { per_second: runs / seconds, cpu_us: repeated.cpu_us / runs });
        }
    }
    ours.stop()?;
    Ok(Many { engine, ours: rates, peers: theirs })
}

/// DBOS on the same kind of database: on SQLite as it comes, and with the journal that ours has.
async fn started(place: &Place, folder: &Path, name: &str, peers: Option<&Peers>, size: DbosSize) -> Result<Vec<Named>> {
    let Some(peers) = peers else { return Ok(Vec::new()) };
    let database = place.fresh(&folder.join(name)).await?;
    match &database.url {
        Some(url) => Ok(vec![Named { name: DBOS, peer: peers.dbos(url, size, Journal::Own, place.parent())? }]),
        None => {
            let file = |journal: &str| format!("sqlite:///{}", folder.join(format!("{name}_{journal}.db")).display());
            let own = peers.dbos(&file("own"), size, Journal::Own, None)?;
            let write_ahead = peers.dbos(&file("wal"), size, Journal::WriteAhead, None)?;
            Ok(vec![Named { name: DBOS, peer: own }, Named { name: DBOS_WAL, peer: write_ahead }])
        }
    }
}

async fn starts(places: &[Place], folder: &Path, peers: Option<&Peers>, size: Size) -> Result<Vec<Starts>> {
    progress("how soon a run starts on an idle server");
    let ours = Ours::start(&Place::Sqlite, &folder.join("automations-idle")).await?;
    let automation = ours.save("idle", 1, Steps::Plain).await?;
    let mut graphile = match (peers, places.iter().find(|place| matches!(place, Place::Postgres { .. }))) {
        (Some(peers), Some(place)) => {
            let database = place.fresh(&folder.join("automations-graphile")).await?;
            let url = database.url.context("PostgreSQL has no URL")?;
            Some(peers.graphile(&url, size.singles, IDLE, place.parent())?)
        }
        (Some(_), None) | (None, _) => None,
    };
    ours.singles(&automation, 20, IDLE).await?;
    let (mut requested, mut fired, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..size.repetitions {
        let waits = ours.singles(&automation, size.singles, IDLE).await?;
        requested.push(Waits::of(waits.iter().map(|[requested, _]| *requested))?);
        fired.push(Waits::of(waits.iter().map(|[_, fired]| *fired))?);
        if let Some(graphile) = &mut graphile {
            let repeated = graphile.repeat()?;
            let waits = repeated.said.get("waits").and_then(Value::as_array).context("graphile-worker said no waits")?;
            added.push(Waits::of(waits.iter().filter_map(Value::as_f64))?);
        }
    }
    ours.stop()?;
    let mut starts = vec![
        Starts { what: "ours, SQLite, since the request was sent", turns: requested },
        Starts { what: "ours, SQLite, since the firing", turns: fired },
    ];
    if !added.is_empty() {
        starts.push(Starts { what: GRAPHILE, turns: added });
    }
    Ok(starts)
}

impl Waits {
    fn of(waits_ms: impl Iterator<Item = f64>) -> Result<Self> {
        // A clock that was set back meanwhile makes a wait of nothing.
        let mut waits: Vec<Duration> = waits_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3)).collect();
        waits.sort_unstable();
        let at = |share| percentile(&waits, share).map(|wait| wait.as_secs_f64() * 1e3).context("nothing was started");
        Ok(Self { p50_ms: at(0.50)?, p99_ms: at(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_no_wait_counts_as_none() {
        let waits = Waits::of([4.0, -1.0, 2.0].into_iter()).unwrap();
        assert_eq!((waits.p50_ms, waits.p99_ms), (2.0, 4.0));
        assert!(Waits::of(std::iter::empty()).is_err());
    }
}
