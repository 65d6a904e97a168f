//! `make bench`: measures the release build beside the parts no call can do without, in the same run and in turns.
//! Read `measure` for what is measured, and `report` for the limits. `raw`, `echo`, `effect` and `pure` measure the parts; `bare` is the
//! smallest server that does all of them; `catalogue` measures a call beside many other actions, `orgs` two orgs on two servers, `mcp`
//! tools of MCP servers, of which `upstream` is one, `door` calls that come over MCP, `held` those of them that wait for a person, `outage`
//! servers whose database goes away, `automations` runs beside the engines of others, `storm` runs whose workers are killed,
//! `answered` runs whose servers are killed around an approval, `relay` a jailed program's way to the network, and `against` another build.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's tables are read at the terminal")]

mod against;
mod answered;
mod automations;
mod bare;
mod catalogue;
mod child;
mod cpu;
mod door;
mod echo;
mod effect;
mod growth;
mod held;
mod http;
mod load;
mod mcp;
mod measure;
mod orgs;
mod outage;
mod package;
mod place;
mod pure;
mod raw;
mod relay;
mod report;
mod spawn;
mod stats;
mod storm;
mod upstream;

use anyhow::{Context, Result, bail};
use load::Time;
use measure::Plan;
use place::{Database, Place};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Store;

const USAGE: &str = "usage: make bench [ARGS=\"--quick\"]
  --quick  one short repetition of everything: to see that it works, not to quote
  --against FILE  only what a call costs here and in another build of countersign, in turns
  --jail   only what it costs to start a program that does nothing
  --mcp    only what it costs to govern the tools of an MCP server
  --door   only what calls over MCP cost, beside the proxies of others, and then the same as --held
  --held   only how soon held calls are released, and the memory of many of them and of many readers of the live stream
  --automations only runs of automations and filters of events, beside the engines of others
  --cron   only whether schedules fire as their rule says, compared with a naive statement of it
  --outage only how soon servers work again after the database was away, and wake who waits on another server
  --storm  only whether runs of automations survive it that their workers are killed, and how soon they go on; then the same as --answered
  --answered only how soon a run has ended after its approval, while one of two servers after the other is killed
  --kills  only whether anything is lost, done twice or stuck while a server is killed every few seconds for ten minutes
  --relay  only what it costs a jailed program to reach a host";

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Quick,
    Standard,
}

// One thread serves all callers, which leaves most of the processor to the server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(echo::ARGUMENT) => echo::serve(arguments.next()).await,
        Some(child::BARE) => bare::serve(arguments).await,
        Some(upstream::ARGUMENT) => upstream::serve().await,
        Some(upstream::STDIO_ARGUMENT) => {
            let name = arguments.next().context(USAGE)?;
            upstream::serve_stdio(&upstream::tools(&name, mcp::FEW), || Ok("done".to_owned()))
        }
        Some(relay::ARGUMENT) => relay::serve(&arguments.next().context(USAGE)?),
        None => run(Extent::Standard).await,
        Some("--quick") => run(Extent::Quick).await,
        Some("--against") => against_alone(arguments.next().context(USAGE)?.as_ref()).await,
        Some("--jail") => jail_alone().await,
        Some("--mcp") => mcp_alone().await,
        Some("--door") => door_alone().await,
        Some("--held") => held_alone().await,
        Some("--automations") => automations_alone().await,
        Some("--outage") => outages_alone().await,
        Some("--storm") => storm_alone().await,
        Some("--answered") => answered_alone().await,
        Some("--relay") => relay_alone().await,
        Some(other) => bail!("there is no argument `{other}`\n{USAGE}"),
    }
}

async fn run(extent: Extent) -> Result<()> {
    let (target, folder) = folder_on_disk()?;
    let mut notes = Vec::new();
    let mut places = vec![Place::Sqlite];
    match std::env::var("TEST_POSTGRES_URL") {
        Ok(url) => places.push(Place::postgres(url).await?),
        Err(_) => notes.push("PostgreSQL was skipped: `TEST_POSTGRES_URL` is not set.".to_owned()),
    }
    let plan = plan(extent);
    let mut measured = Vec::new();
    for place in &places {
        let folder = folder.path().join(place.engine_name());
        std::fs::create_dir_all(&folder)?;
        measured.push(measure::engine(place, &folder, plan).await.with_context(|| format!("measuring {}", place.engine_name()))?);
    }
    let sizes = growth::measure(folder.path(), receipt_counts(extent), plan.server, plan.repetitions).await?;
    let (rounds, repetitions) = spawns(extent);
    // If this measurement fails, the figures measured before it are still reported.
    let spawned = spawn::measure(&child::server_binary()?, folder.path(), rounds, repetitions).await.unwrap_or_else(|error| {
        notes.push(format!("Starting a program was not measured: {error:#}."));
        Vec::new()
    });
    let governed = match mcp::measure(&places, folder.path(), plan).await {
        Ok(governed) => Some(governed),
        Err(error) => {
            notes.push(format!("MCP servers were not measured: {error:#}."));
            None
        }
    };
    let automated = match automations::measure(&places, folder.path(), automations_size(extent)).await {
        Ok(automated) => automations::tables::text(&automated),
        Err(error) => {
            notes.push(format!("Automations were not measured: {error:#}."));
            String::new()
        }
    };
    let relayed = match relay::measure(folder.path()).await {
        Ok(relayed) => relayed.text(""),
        Err(error) => {
            notes.push(format!("The relay was not measured: {error:#}."));
            String::new()
        }
    };
    notes.extend(said_of(extent, &measured));
    let text = report::text(&machine(&places), &measured, &sizes, &spawned, governed.as_ref(), &notes);
    let text = format!("{text}\n{automated}\n{relayed}");
    println!("{text}");
    let kept = target.join("bench.md");
    std::fs::write(&kept, &text)?;
    progress(&format!("kept in {}", kept.display()));
    Ok(())
}

/// The target folder, and a new folder in it. It must be on a disk, like the build: in a folder in memory, commits would cost nothing.
fn folder_on_disk() -> Result<(PathBuf, tempfile::TempDir)> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent).context("the program is not in a target folder")?;
    Ok((target.to_owned(), tempfile::Builder::new().prefix("bench-").tempdir_in(target)?))
}

async fn against_alone(other: &Path) -> Result<()> {
    let places = [Place::Sqlite, Place::postgres(std::env::var("TEST_POSTGRES_URL").context("`TEST_POSTGRES_URL` is not set")?).await?];
    let (_, folder) = folder_on_disk()?;
    let mut compared = Vec::new();
    for place in &places {
        let folder = folder.path().join(place.engine_name());
        std::fs::create_dir_all(&folder)?;
        compared.extend(against::measure(place, &folder, other, plan(Extent::Standard)).await?);
    }
    println!("{}", report::compared(&machine(&places), &compared));
    Ok(())
}

async fn jail_alone() -> Result<()> {
    let (rounds, repetitions) = spawns(Extent::Standard);
    let folder = tempfile::tempdir()?;
    let spawned = spawn::measure(&child::server_binary()?, folder.path(), rounds, repetitions).await?;
    println!("{}", report::text(&machine(&[]), &[], &[], &spawned, None, &[]));
    Ok(())
}

async fn relay_alone() -> Result<()> {
    let (_, folder) = folder_on_disk()?;
    let measured = relay::measure(folder.path()).await?;
    println!("{}", measured.text(&machine(&[Place::Sqlite])));
    Ok(())
}

async fn mcp_alone() -> Result<()> {
    let mut places = vec![Place::Sqlite];
    if let Ok(url) = std::env::var("TEST_POSTGRES_URL") {
        places.push(Place::postgres(url).await?);
    }
    let (_, folder) = folder_on_disk()?;
    let governed = mcp::measure(&places, folder.path(), plan(Extent::Standard)).await?;
    println!("{}", report::text(&machine(&places), &[], &[], &[], Some(&governed), &[]));
    Ok(())
}

async fn door_alone() -> Result<()> {
    let (_, folder) = folder_on_disk()?;
    let measured = door::measure(folder.path(), plan(Extent::Standard)).await?;
    println!("{}", report::door(&machine(&[Place::Sqlite]), &measured));
    held_alone().await
}

async fn held_alone() -> Result<()> {
    let mut places = vec![Place::Sqlite];
    if let Ok(url) = std::env::var("TEST_POSTGRES_URL") {
        places.push(Place::postgres(url).await?);
    }
    let (_, folder) = folder_on_disk()?;
    let measured = held::measure(places.get(1), folder.path()).await?;
    println!("{}", report::held(&machine(&places), &measured));
    Ok(())
}

async fn automations_alone() -> Result<()> {
    let mut places = vec![Place::Sqlite];
    if let Ok(url) = std::env::var("TEST_POSTGRES_URL") {
        places.push(Place::postgres(url).await?);
    }
    let (_, folder) = folder_on_disk()?;
    let measured = automations::measure(&places, folder.path(), automations::Size::STANDARD).await?;
    println!("{}\n\n{}", machine(&places), automations::tables::text(&measured));
    Ok(())
}

async fn outages_alone() -> Result<()> {
    let place = Place::postgres(std::env::var("TEST_POSTGRES_URL").context("`TEST_POSTGRES_URL` is not set")?).await?;
    let folder = tempfile::tempdir()?;
    let (outages, woken) = outage::measure(&place, folder.path()).await?;
    println!("{}", report::outages(&machine(&[place]), &outages, &woken));
    Ok(())
}

async fn storm_alone() -> Result<()> {
    let place = Place::postgres(std::env::var("TEST_POSTGRES_URL").context("`TEST_POSTGRES_URL` is not set")?).await?;
    let (_, folder) = folder_on_disk()?;
    let measured = storm::measure(&place, folder.path()).await?;
    println!("{}", report::storm(&machine(&[place]), &measured));
    // How long it took decides nothing; what went wrong does.
    let wrong = measured.storm.wrong() + measured.orphaned.wrong();
    anyhow::ensure!(wrong == 0, "the storm lost, doubled, stuck or quarantined something");
    answered_alone().await
}

async fn answered_alone() -> Result<()> {
    let place = Place::postgres(std::env::var("TEST_POSTGRES_URL").context("`TEST_POSTGRES_URL` is not set")?).await?;
    let (_, folder) = folder_on_disk()?;
    progress(&format!("{} runs that wait for an approval; one of two servers after the other is killed", answered::RUNS));
    let answered = answered::measure(&place, folder.path()).await?;
    println!("{}", report::answered(&machine(&[place]), &answered));
    anyhow::ensure!(answered.wrong() == 0, "a kill lost, stuck or failed a run that was answered");
    Ok(())
}

fn plan(extent: Extent) -> Plan {
    let time = |warm_ms, counted_ms| Time { warm: Duration::from_millis(warm_ms), counted: Duration::from_millis(counted_ms) };
    match extent {
        Extent::Quick => Plan { server: time(100, 400), part: time(50, 300), repetitions: 1 },
        Extent::Standard => Plan { server: time(300, 1_200), part: time(100, 500), repetitions: 5 },
    }
}

const fn automations_size(extent: Extent) -> automations::Size {
    match extent {
        Extent::Quick => automations::Size::QUICK,
        Extent::Standard => automations::Size::STANDARD,
    }
}

/// The number of programs started in each repetition, and the number of repetitions.
const fn spawns(extent: Extent) -> (usize, usize) {
    match extent {
        Extent::Quick => (10, 1),
        Extent::Standard => (60, 5),
    }
}

const fn receipt_counts(extent: Extent) -> &'static [u64] {
    match extent {
        Extent::Quick => &[1_000],
        Extent::Standard => &[1_000, 100_000, 1_000_000],
    }
}

fn said_of(extent: Extent, measured: &[measure::Measured]) -> Vec<String> {
    let mut said = Vec::new();
    match extent {
        Extent::Quick => said.push("One short repetition: these figures show that it runs, and nothing more.".to_owned()),
        Extent::Standard => {}
    }
    for engine in measured.iter().filter(|engine| !engine.counts_database) {
        said.push(format!("{}: its own processes could not be read, so their time is missing on both sides.", engine.engine));
    }
    said
}

/// A description of the machine the figures were measured on.
fn machine(places: &[Place]) -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("unknown", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let engines: Vec<String> = places.iter().map(|place| format!("{} {}", place.engine_name(), place.version())).collect();
    format!(
        "Countersign {}, {}, on {cores} cores of {model}, Linux {}. Median (least–greatest) of the repetitions; parts in CPU µs per call.",
        env!("CARGO_PKG_VERSION"),
        engines.join(", "),
        kernel.trim()
    )
}

/// Opens the store of a data folder whose server has stopped.
async fn open_store(data: &Path) -> Result<Store> {
    open_store_at(&Database { data: data.to_owned(), url: None }).await
}

async fn open_store_at(database: &Database) -> Result<Store> {
    let flags = server::Flags { data: Some(database.data.clone()), database: database.url.clone(), ..server::Flags::default() };
    server::init_process();
    Ok(server::open_store(&server::Config::load(flags, std::iter::empty())?).await?)
}

/// Prints one line of data.
fn say(line: &str) {
    println!("{line}");
}

fn progress(line: &str) {
    eprintln!("== {line}");
}
