//! The tables: each figure beside its comparison, and every limit with PASS or MISS. The same text is printed and saved.

use crate::against::Compared;
use crate::answered::{self, Answered};
use crate::catalogue;
use crate::child::Call;
use crate::door;
use crate::growth::Size;
use crate::held::{self, ACROSS, BURST, Delays, HELD, Memory, READERS, Released};
use crate::mcp;
use crate::measure::{Cell, Measured, Turn};
use crate::outage::{Outage, Woken};
use crate::pure::Waited;
use crate::spawn::{Spawned, WAYS, Way};
use crate::stats::{Spread, Window, short};
use crate::storm::{self, ORPHANED, RUNS, STEPS, Storm};
use std::fmt::Write as _;

/// CPU time of a call, as a multiple of that of its parts.
const CPU_RATIO_MAX: f64 = 2.0;
/// How much a single call may take beyond its commits and its effect.
const ADDED_MS_MAX: f64 = 1.0;
/// Calls per second with many callers, as a share of the raw store's.
const THROUGHPUT_SHARE_MIN: f64 = 0.5;
const DECISION_US_MAX: f64 = 50.0;
const POLICIES_DECISION_US_MAX: f64 = 60.0;
/// The time of a call with many actions in the catalogue, as a multiple of that with few.
const CATALOGUE_RATIO_MAX: f64 = 1.1;
/// CPU time of a call, as a multiple of that in another build.
const DEARER_MAX: f64 = 1.05;
/// How much more memory a server may take while an MCP server lies, whatever the lie is.
const GROWN_MB_MAX: f64 = 32.0;
const TWO_ORGS_RATIO_MIN: f64 = 1.6;
const IDLE_MB_MAX: f64 = 60.0;
const START_MS_MAX: f64 = 300.0;
/// The limit for "nearly flat": CPU time per call at any size, as a multiple of that at the smallest.
const GROWTH_RATIO_MAX: f64 = 1.25;
const SPAWN_MS_MAX: f64 = 5.0;
/// From the database's return to the first success of every server.
const BACK_SECONDS_MAX: f64 = 5.0;
/// How long a run may stand still whose worker was killed, p99.
const RECOVERED_SECONDS_MAX: f64 = 10.0;
/// From an approval to the end of its run while servers are killed, p99.
const ANSWERED_SECONDS_MAX: f64 = 3.0;
/// The delay of a caller who waits on another server than the one that answers, p99.
const WOKEN_MS_MAX: f64 = 150.0;
/// CPU time of a governed call over MCP, as a share of that of FastMCP's proxy and of `mcp-proxy`, which decide and keep nothing.
const FASTMCP_SHARE_MAX: f64 = 1.0 / 40.0;
const MCP_PROXY_SHARE_MAX: f64 = 1.0;
/// The delay of a held caller after the answer, p99, and the memory of all of them.
const RELEASED_MS_MAX: f64 = 100.0;
const HELD_MB_MAX: f64 = 300.0;
const READERS_MB_MAX: f64 = 200.0;
/// The limit for "independent of the server's memory".
const SPAWN_GROWTH_MAX: f64 = 1.25;

/// The report as markdown that is also readable in a terminal.
pub(crate) fn text(
    machine: &str,
    measured: &[Measured],
    sizes: &[Size],
    spawned: &[Spawned],
    governed: Option<&mcp::Measured>,
    notes: &[String],
) -> String {
    let mut text = format!("{machine}\n\n");
    for engine in measured {
        let _ = write!(text, "## {}\n\n{}\n{}\n{}\n", engine.engine, calls(engine), parts(engine), bare(engine));
    }
    if !sizes.is_empty() {
        let _ = write!(text, "## How cost grows (SQLite, 8 callers)\n\n{}\n", growth(sizes));
    }
    if !spawned.is_empty() {
        let _ = write!(text, "## Starting a program that does nothing\n\n{}\n", spawns(spawned));
    }
    if let Some(governed) = governed {
        let _ = write!(text, "## A tool of an MCP server, directly and governed\n\n{}\n", tools(governed));
    }
    let _ = write!(text, "## Bars\n\n{}", bars(measured, sizes, spawned, governed));
    for note in notes {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

/// The report of `make bench ARGS=--outage`.
pub(crate) fn outages(machine: &str, outages: &[Outage], woken: &Woken) -> String {
    let mut rows = vec![["servers", "callers", "away s", "back after s", "bar", ""].map(str::to_owned).to_vec()];
    let limit = Limit::AtMost(BACK_SECONDS_MAX);
    for outage in outages {
        let back = outage.back.map_or(f64::INFINITY, |back| back.as_secs_f64());
        let counts = [outage.servers.to_string(), outage.callers.to_string(), outage.away_seconds.to_string()];
        rows.push([counts.to_vec(), vec![short(back), limit.to_string(), limit.verdict(back).to_owned()]].concat());
    }
    let mut delays = vec![["woken on another server", "ms", "bar", ""].map(str::to_owned).to_vec()];
    for (name, delay, limit) in [("p50", woken.p50, Limit::None), ("p99", woken.p99, Limit::AtMost(WOKEN_MS_MAX))] {
        let ms = delay.as_secs_f64() * 1e3;
        delays.push(vec![name.to_owned(), short(ms), limit.to_string(), limit.verdict(ms).to_owned()]);
    }
    format!("{machine}\n\n{}\n{}", table(&rows), table(&delays))
}

/// The report of `make bench ARGS=--storm`.
pub(crate) fn storm(machine: &str, measured: &storm::Measured) -> String {
    let storm::Measured { storm, orphaned } = measured;
    let both = |figure: fn(&Storm) -> usize| (figure(storm) + figure(orphaned)) as f64;
    let seconds = |of: &Storm, share| of.stood_still_for(share).map_or(f64::NAN, |stood| stood.as_secs_f64());
    let never = Limit::AtMost(0.0);
    let rows = [
        ("runs lost", both(|of| of.lost), never),
        ("runs stuck", both(|of| of.stuck), never),
        ("runs failed", both(|of| of.failed), never),
        ("runs quarantined, after their worker was killed too often", both(|of| of.quarantined), never),
        ("effects missing", both(|of| of.missing), never),
        ("effects done twice", both(|of| of.twice), never),
        ("calls in doubt, settled by a person", both(|of| of.doubted), Limit::None),
        ("requests sent again under their key", (storm.asked_again + orphaned.asked_again) as f64, Limit::None),
        ("a run whose worker was replaced stood still: s, p50", seconds(storm, 0.50), Limit::None),
        ("the same: s, p99", seconds(storm, 0.99), Limit::AtMost(RECOVERED_SECONDS_MAX)),
        ("the same: s, longest", seconds(storm, 1.0), Limit::None),
        ("one that lost several workers: s, longest", storm.stood_again.map_or(f64::NAN, |stood| stood.as_secs_f64()), Limit::None),
        ("a run whose worker never came back stood still: s, p50", seconds(orphaned, 0.50), Limit::None),
        ("the same: s, p99", seconds(orphaned, 0.99), Limit::AtMost(RECOVERED_SECONDS_MAX)),
        ("the same: s, longest", seconds(orphaned, 1.0), Limit::None),
    ];
    let mut table_rows = vec![["storm", "measured", "bar", ""].map(str::to_owned).to_vec()];
    for (name, figure, limit) in rows {
        // No run may have been hit, or none twice.
        let measured = if figure.is_nan() { "–".to_owned() } else { short(figure) };
        table_rows.push(vec![name.to_owned(), measured, limit.to_string(), limit.verdict(figure).to_owned()]);
    }
    let Storm { kills, hit, took, .. } = storm;
    let did = format!(
        "{RUNS} runs of {STEPS} steps took {} s; {kills} kills hit {hit} of them. Of {ORPHANED} more, {} lost their worker for good.",
        short(took.as_secs_f64()),
        orphaned.hit
    );
    format!("{machine}\n\n{did}\n\n{}", table(&table_rows))
}

/// The report of `make bench ARGS=--answered`.
pub(crate) fn answered(machine: &str, answered: &Answered) -> String {
    let seconds = |share| answered.took(share).map_or(f64::NAN, |took| took.as_secs_f64());
    let never = Limit::AtMost(0.0);
    let rows = [
        ("runs lost", answered.lost as f64, never),
        ("runs stuck", answered.stuck as f64, never),
        ("runs failed", answered.failed as f64, never),
        ("effects missing", answered.missing as f64, never),
        ("from an approval to the end of its run: s, p50", seconds(0.50), Limit::None),
        ("the same: s, p99", seconds(0.99), Limit::AtMost(ANSWERED_SECONDS_MAX)),
        ("the same: s, longest", seconds(1.0), Limit::None),
    ];
    let mut table_rows = vec![["approvals", "measured", "bar", ""].map(str::to_owned).to_vec()];
    for (name, figure, limit) in rows {
        table_rows.push(vec![name.to_owned(), short(figure), limit.to_string(), limit.verdict(figure).to_owned()]);
    }
    let did =
        format!("{} runs that wait for an approval; {} kills, of one of two servers after the other.", answered::RUNS, answered.kills);
    format!("{machine}\n\n{did}\n\n{}", table(&table_rows))
}

/// The report of `make bench ARGS=--door`.
pub(crate) fn door(machine: &str, measured: &door::Measured) -> String {
    let header =
        ["call", "callers", "direct: CPU µs/call", "ours", "p50 ms", "p99 ms", "FastMCP's proxy: CPU µs/call", "mcp-proxy: CPU µs/call"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut bars = vec![["bar", "measured", "limit", ""].map(str::to_owned).to_vec()];
    let mut bar = |name: String, measured: String, median: f64, limit: Limit| {
        // A proxy that is not installed is not measured.
        if !median.is_nan() {
            bars.push(vec![name, measured, limit.to_string(), limit.verdict(median).to_owned()]);
        }
    };
    for cell in &measured.cells {
        let call = vec![cell.kind.as_str().to_owned(), cell.callers.to_string()];
        let figures = [
            cell.spread(|turn| Some(turn.direct.cpu_us)),
            cell.spread(|turn| Some(turn.ours.cpu_us)),
            cell.spread(|turn| Some(turn.ours.p50_ms)),
            cell.spread(|turn| Some(turn.ours.p99_ms)),
            cell.spread(|turn| turn.fastmcp.map(|window| window.cpu_us)),
            cell.spread(|turn| turn.mcp_proxy.map(|window| window.cpu_us)),
        ];
        rows.push([call, figures.map(|figure| figure.to_string()).to_vec()].concat());
        let what = format!("{} over MCP at {}: CPU", cell.kind.as_str(), cell.callers);
        let share = cell.spread(|turn| turn.fastmcp.map(|proxy| turn.ours.cpu_us / proxy.cpu_us));
        bar(format!("{what} ÷ FastMCP's proxy"), share.to_string(), share.median, Limit::AtMost(FASTMCP_SHARE_MAX));
        let share = cell.spread(|turn| turn.mcp_proxy.map(|proxy| turn.ours.cpu_us / proxy.cpu_us));
        bar(format!("{what} ÷ mcp-proxy"), share.to_string(), share.median, Limit::AtMost(MCP_PROXY_SHARE_MAX));
    }
    format!("{machine}\n\n{}\n{}\n{}\n", table(&rows), table(&bars), measured.notes.join("\n"))
}

/// The report of `make bench ARGS=--held`.
pub(crate) fn held(machine: &str, measured: &held::Measured) -> String {
    let header = ["held calls", "decided", "released after", "p50 ms", "p99 ms", "longest ms", "bar for p99", ""];
    let mut delays = vec![header.map(str::to_owned).to_vec()];
    let mut released = |calls: &str, decided: &str, released: &Released, since_sent: Limit, since_answered: Limit| {
        let since = [("it was sent", &released.sent, since_sent), ("it was answered", &released.answered, since_answered)];
        for (since, Delays { p50, p99, longest }, limit) in since {
            let ms = [p50, p99, longest].map(|delay| delay.as_secs_f64() * 1e3);
            let bar = vec![limit.to_string(), limit.verdict(ms[1]).to_owned()];
            delays.push([vec![calls.to_owned(), decided.to_owned(), since.to_owned()], ms.map(short).to_vec(), bar].concat());
        }
    };
    let (held, bursts) = (format!("{HELD} on one server"), format!("{BURST} at once"));
    released(&held, "one by one", &measured.one_by_one, Limit::AtMost(RELEASED_MS_MAX), Limit::None);
    released(&held, &bursts, &measured.in_bursts, Limit::AtMost(RELEASED_MS_MAX), Limit::None);
    if let Some(across) = &measured.across {
        released(&format!("{ACROSS} on another server"), "one by one", across, Limit::None, Limit::AtMost(WOKEN_MS_MAX));
    }
    let mut memory = vec![["memory of the server", "before, MB", "MB", "bar", ""].map(str::to_owned).to_vec()];
    for (what, Memory { before, then }, most) in [
        (format!("{HELD} held calls, at most"), &measured.held, HELD_MB_MAX),
        (format!("{READERS} idle readers of the live stream"), &measured.readers, READERS_MB_MAX),
    ] {
        let limit = Limit::AtMost(most);
        memory.push(vec![what, short(*before), short(*then), limit.to_string(), limit.verdict(*then).to_owned()]);
    }
    format!("{machine}\n\n{}\n{}\n{}\n", table(&delays), table(&memory), measured.notes.join("\n"))
}

/// The report of `make bench ARGS='--against FILE'`.
pub(crate) fn compared(machine: &str, compared: &[Compared]) -> String {
    let header = ["database", "call", "callers", "CPU µs/call there", "here", "CPU ratio", "p50 ratio", "bar", ""];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let limit = Limit::AtMost(DEARER_MAX);
    for Compared { engine, call, callers, cpu_us: [there, here], cpu_ratio, p50_ratio } in compared {
        let figures = [there, here, cpu_ratio, p50_ratio].map(Spread::to_string).to_vec();
        let call = vec![(*engine).to_owned(), call.as_str().to_owned(), callers.to_string()];
        rows.push([call, figures, vec![limit.to_string(), limit.verdict(cpu_ratio.median).to_owned()]].concat());
    }
    format!("{machine}\n\n{}", table(&rows))
}

fn calls(measured: &Measured) -> String {
    let header = [
        "call",
        "callers",
        "calls/s",
        "p50 ms",
        "p99 ms",
        "CPU µs/call",
        "echo",
        "signatures",
        "rows",
        "effect",
        "sum of parts",
        "CPU ratio",
        "ratio without effect",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for cell in &measured.cells {
        let signatures = cell.call.entries() * measured.pure.signature_us.median;
        let cpu = |part: fn(&Turn) -> &Window| short(cell.spread(|turn| part(turn).cpu_us).median);
        rows.push(vec![
            cell.call.as_str().to_owned(),
            cell.callers.to_string(),
            cell.spread(|turn| turn.server.per_second).to_string(),
            cell.spread(|turn| turn.server.p50_ms).to_string(),
            cell.spread(|turn| turn.server.p99_ms).to_string(),
            cell.spread(|turn| turn.server.cpu_us).to_string(),
            cpu(|turn| &turn.echo),
            short(signatures),
            cpu(|turn| &turn.rows),
            cpu(|turn| &turn.effect),
            cell.spread(|turn| turn.parts_us(cell.call, measured)).to_string(),
            cell.cpu_ratio(measured).to_string(),
            cell.spread(|turn| turn.server.cpu_us / turn.parts_without_effect_us(cell.call, measured)).to_string(),
        ]);
    }
    table(&rows)
}

fn parts(measured: &Measured) -> String {
    let header =
        ["call", "callers", "rows raw, calls/s", "p50 ms", "effect raw, calls/s", "p50 ms", "echo, calls/s", "p50 ms", "server ÷ rows"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for cell in &measured.cells {
        rows.push(vec![
            cell.call.as_str().to_owned(),
            cell.callers.to_string(),
            cell.spread(|turn| turn.rows.per_second).to_string(),
            cell.spread(|turn| turn.rows.p50_ms).to_string(),
            cell.spread(|turn| turn.effect.per_second).to_string(),
            cell.spread(|turn| turn.effect.p50_ms).to_string(),
            cell.spread(|turn| turn.echo.per_second).to_string(),
            cell.spread(|turn| turn.echo.p50_ms).to_string(),
            cell.throughput_share().to_string(),
        ]);
    }
    table(&rows)
}

/// The bare server, beside the sum of the parts and beside the real server.
fn bare(measured: &Measured) -> String {
    let header = [
        "call",
        "callers",
        "bare server, calls/s",
        "p50 ms",
        "CPU µs/call",
        "its CPU ÷ sum of parts",
        "server's CPU ÷ its",
        "server's calls/s ÷ its",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for cell in &measured.cells {
        rows.push(vec![
            cell.call.as_str().to_owned(),
            cell.callers.to_string(),
            cell.spread(|turn| turn.bare.per_second).to_string(),
            cell.spread(|turn| turn.bare.p50_ms).to_string(),
            cell.spread(|turn| turn.bare.cpu_us).to_string(),
            cell.spread(|turn| turn.bare.cpu_us / turn.parts_us(cell.call, measured)).to_string(),
            cell.spread(|turn| turn.server.cpu_us / turn.bare.cpu_us).to_string(),
            cell.spread(|turn| turn.server.per_second / turn.bare.per_second).to_string(),
        ]);
    }
    table(&rows)
}

fn growth(sizes: &[Size]) -> String {
    let header = ["receipts", "file MB", "start ms", "call", "calls/s", "p50 ms", "p99 ms", "CPU µs/call", "CPU ÷ smallest"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for size in sizes {
        for call in Call::ALL {
            let windows = size.windows(call);
            let spread = |figure: fn(&Window) -> f64| Spread::of(windows.iter().map(figure));
            rows.push(vec![
                size.receipts.to_string(),
                short(size.file_mb),
                short(size.started_ms),
                call.as_str().to_owned(),
                spread(|window| window.per_second).to_string(),
                spread(|window| window.p50_ms).to_string(),
                spread(|window| window.p99_ms).to_string(),
                spread(|window| window.cpu_us).to_string(),
                grown(sizes, size, call).to_string(),
            ]);
        }
    }
    table(&rows)
}

/// CPU time per call at this size, as a multiple of that at the first, turn by turn.
fn grown(sizes: &[Size], size: &Size, call: Call) -> Spread {
    let first = sizes.first().map(|first| first.windows(call)).unwrap_or_default();
    Spread::of(size.windows(call).iter().zip(first).map(|(window, first)| window.cpu_us / first.cpu_us))
}

fn spawns(spawned: &[Spawned]) -> String {
    let header = ["what", "parent holds, MiB", "p50 ms", "÷ bubblewrap"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for row in spawned {
        let ratio = spawn_ratio(spawned, (row.way, row.resident_mib), (Way::Bubblewrap, row.resident_mib));
        rows.push(vec![row.way.name().to_owned(), row.resident_mib.to_string(), row.p50_ms().to_string(), ratio.to_string()]);
    }
    table(&rows)
}

fn tools(governed: &mcp::Measured) -> String {
    let header = [
        "database",
        "call",
        "callers",
        "direct, calls/s",
        "p50 ms",
        "governed, calls/s",
        "p50 ms",
        "p99 ms",
        "CPU µs/call",
        "p50 beyond direct, ms",
        "calls/s ÷ direct",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for cell in &governed.cells {
        let call = vec![cell.engine.to_owned(), cell.kind.as_str().to_owned(), cell.callers.to_string()];
        let figures = [
            cell.spread(|[direct, _]| direct.per_second),
            cell.spread(|[direct, _]| direct.p50_ms),
            cell.spread(|[_, ours]| ours.per_second),
            cell.spread(|[_, ours]| ours.p50_ms),
            cell.spread(|[_, ours]| ours.p99_ms),
            cell.spread(|[_, ours]| ours.cpu_us),
            cell.spread(|[direct, ours]| ours.p50_ms - direct.p50_ms),
            cell.spread(|[direct, ours]| ours.per_second / direct.per_second),
        ];
        rows.push([call, figures.map(|figure| figure.to_string()).to_vec()].concat());
    }
    table(&rows)
}

/// The ratio of one way to another, repetition by repetition.
fn spawn_ratio(spawned: &[Spawned], one: (Way, usize), other: (Way, usize)) -> Spread {
    let of = |(way, resident_mib): (Way, usize)| {
        let found = spawned.iter().find(|row| row.way == way && row.resident_mib == resident_mib);
        found.map(|row| row.p50s_ms.as_slice()).unwrap_or_default()
    };
    Spread::of(of(one).iter().zip(of(other)).map(|(one, other)| one / other))
}

fn bars(measured: &[Measured], sizes: &[Size], spawned: &[Spawned], governed: Option<&mcp::Measured>) -> String {
    let mut rows = vec![["bar", "measured", "limit", ""].map(str::to_owned).to_vec()];
    let mut bar = |name: String, spread: Spread, limit: Limit| {
        rows.push(vec![name, spread.to_string(), limit.to_string(), limit.verdict(spread.median).to_owned()]);
    };
    for engine in measured {
        let name = engine.engine;
        for cell in &engine.cells {
            let what = format!("{name}, {} at {}", cell.call.as_str(), cell.callers);
            bar(format!("{what}: CPU ÷ sum of its parts"), cell.cpu_ratio(engine), Limit::AtMost(CPU_RATIO_MAX));
            if cell.call == Call::Write {
                // The effect is what the caller wants. Without it among the parts, the limit is for our own work alone.
                let strict = cell.spread(|turn| turn.server.cpu_us / turn.parts_without_effect_us(cell.call, engine));
                bar(format!("{what}: the same with the effect not counted as a part"), strict, Limit::AtMost(CPU_RATIO_MAX));
            }
            if cell.callers == 1 {
                let added = cell.spread(|turn| turn.server.p50_ms - turn.rows.p50_ms - effect_ms(cell.call, turn));
                bar(format!("{what}: p50 beyond {}, ms", commits(cell.call)), added, Limit::AtMost(ADDED_MS_MAX));
            }
            if cell.callers == 64 {
                bar(format!("{what}: calls/s ÷ raw rows'"), cell.throughput_share(), Limit::AtLeast(THROUGHPUT_SHARE_MIN));
            }
        }
        let mut decision = |what: &str, waited: &Waited, limit: f64| {
            bar(format!("{name}: {what}, p50 µs"), waited.p50_us, Limit::AtMost(limit));
            bar(format!("{name}: {what}, p99 µs"), waited.p99_us, Limit::None);
        };
        decision("the decision alone", &engine.pure.decision, DECISION_US_MAX);
        for (count, waited) in &engine.pure.decisions_by_policies {
            decision(&format!("the decision with {count} policies"), waited, POLICIES_DECISION_US_MAX);
        }
        // A gate that requires an approval is evaluated twice. The report shows what that costs, but sets no limit.
        let (count, asks) = &engine.pure.decision_that_asks;
        bar(format!("{name}: the decision with {count} policies, one of which asks, p50 µs"), asks.p50_us, Limit::None);
        bar(format!("{name}: the decision with {count} policies, one of which asks, p99 µs"), asks.p99_us, Limit::None);
        if let [(fewest, few), .., (most, many)] = engine.pure.decisions_by_policies.as_slice() {
            let growth = Spread::of([many.p50_us.median / few.p50_us.median]);
            let limit = *most as f64 / *fewest as f64;
            bar(format!("{name}: the decision with {most} policies ÷ with {fewest}, less than linear"), growth, Limit::AtMost(limit));
        }
        let beside = format!("{name}: a call beside {} actions ÷ beside {}", catalogue::MANY, catalogue::FEW);
        bar(beside, engine.beside_many_actions, Limit::AtMost(CATALOGUE_RATIO_MAX));
        if let Some(ratio) = engine.two_orgs {
            bar(format!("{name}: calls/s of two orgs on two servers ÷ of one"), ratio, Limit::AtLeast(TWO_ORGS_RATIO_MIN));
        }
        bar(format!("{name}: idle memory, MB"), engine.idle_mb, Limit::AtMost(IDLE_MB_MAX));
        bar(format!("{name}: first start to first answer, ms"), engine.started_ms, Limit::AtMost(START_MS_MAX));
    }
    for size in sizes.iter().skip(1) {
        for call in Call::ALL {
            let what =
                format!("{} at {} receipts: CPU ÷ at {}", call.as_str(), size.receipts, sizes.first().map_or(0, |first| first.receipts));
            bar(what, grown(sizes, size, call), Limit::AtMost(GROWTH_RATIO_MAX));
        }
    }
    for way in WAYS.into_iter().filter(|way| matches!(way, Way::Jail(_))) {
        for row in spawned.iter().filter(|row| row.way == way) {
            let what = format!("{}, parent of {} MiB", way.name(), row.resident_mib);
            bar(format!("{what}: p50 ms"), row.p50_ms(), Limit::AtMost(SPAWN_MS_MAX));
            let beside = spawn_ratio(spawned, (way, row.resident_mib), (Way::Bubblewrap, row.resident_mib));
            bar(format!("{what}: ÷ bubblewrap"), beside, Limit::AtMost(1.0));
        }
        if let (Some(small), Some(large)) = (spawned.first(), spawned.last()) {
            let grown = spawn_ratio(spawned, (way, large.resident_mib), (way, small.resident_mib));
            bar(
                format!("{}: from a parent of {} MiB ÷ from a small one", way.name(), large.resident_mib),
                grown,
                Limit::AtMost(SPAWN_GROWTH_MAX),
            );
        }
    }
    if let Some(governed) = governed {
        let beside = format!("a tool beside {} actions ÷ beside {}", mcp::MANY, mcp::FEW);
        bar(format!("{beside}: CPU"), governed.beside_many(|window| window.cpu_us), Limit::AtMost(CATALOGUE_RATIO_MAX));
        bar(format!("{beside}: p50"), governed.beside_many(|window| window.p50_ms), Limit::AtMost(CATALOGUE_RATIO_MAX));
        for grown in &governed.grown {
            bar(format!("memory beyond before, {}, MB", grown.what), Spread::of([grown.mb]), Limit::AtMost(GROWN_MB_MAX));
        }
    }
    table(&rows)
}

const fn commits(call: Call) -> &'static str {
    match call {
        Call::Read => "its commit",
        Call::Write => "its two commits and its effect",
    }
}

/// A write waits for its effect's own syncs. A read has no effect.
const fn effect_ms(call: Call, turn: &Turn) -> f64 {
    match call {
        Call::Read => 0.0,
        Call::Write => turn.effect.p50_ms,
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// Reported without a limit.
    None,
}

impl Limit {
    pub(crate) fn verdict(self, figure: f64) -> &'static str {
        let holds = match self {
            Self::AtMost(limit) => figure <= limit,
            Self::AtLeast(limit) => figure >= limit,
            Self::None => return "",
        };
        if holds { "PASS" } else { "MISS" }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::None => f.write_str("–"),
        }
    }
}

impl Cell {
    fn spread(&self, figure: impl Fn(&Turn) -> f64) -> Spread {
        Spread::of(self.turns.iter().map(figure))
    }

    fn cpu_ratio(&self, measured: &Measured) -> Spread {
        self.spread(|turn| turn.server.cpu_us / turn.parts_us(self.call, measured))
    }

    fn throughput_share(&self) -> Spread {
        self.spread(|turn| turn.server.per_second / turn.rows.per_second)
    }
}

impl Turn {
    /// The CPU time of the parts that a call cannot do without.
    fn parts_us(&self, call: Call, measured: &Measured) -> f64 {
        self.parts_without_effect_us(call, measured) + self.effect.cpu_us
    }

    /// Like `parts_us`, without the effect.
    fn parts_without_effect_us(&self, call: Call, measured: &Measured) -> f64 {
        self.echo.cpu_us + call.entries() * measured.pure.signature_us.median + self.rows.cpu_us
    }
}

/// A markdown table with its columns lined up.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
            let _ = writeln!(text, "| {} |", rules.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lines_up_whatever_stands_in_it() {
        let rows = [["µs", "b"], ["1", "long"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "| µs | b    |\n| -- | ---- |\n| 1  | long |\n");
    }

    #[test]
    fn a_bar_that_is_just_reached_passes_and_one_without_a_figure_does_not() {
        assert_eq!(Limit::AtMost(2.0).verdict(2.0), "PASS");
        assert_eq!(Limit::AtMost(2.0).verdict(2.01), "MISS");
        assert_eq!(Limit::AtLeast(0.5).verdict(0.5), "PASS");
        assert_eq!(Limit::AtLeast(0.5).verdict(0.49), "MISS");
        assert_eq!(Limit::AtMost(2.0).verdict(f64::NAN), "MISS");
    }
}
