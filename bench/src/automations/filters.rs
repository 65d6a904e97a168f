//! The matcher of events beside quamina, and beside asking each filter: the same filters and the same events, on one thread each, in turns.

use super::peer::Peers;
use crate::child::program;
use crate::progress;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 75 % equals, the rest half prefixes and half ranges.
const KIND: &str = "mixed";

/// So many filters.
pub(crate) struct Filters {
    pub(crate) count: usize,
    pub(crate) turns: Vec<Turn>,
}

/// One measurement of each.
pub(crate) struct Turn {
    pub(crate) ours: Ours,
    pub(crate) quamina: Option<Quamina>,
}

pub(crate) struct Ours {
    /// Events that are values already, as they are where events are published.
    pub(crate) per_second: f64,
    /// Events that have to be read first, as quamina does.
    pub(crate) from_bytes: f64,
    pub(crate) naively: f64,
    pub(crate) mb: f64,
}

pub(crate) struct Quamina {
    pub(crate) per_second: f64,
    pub(crate) mb: f64,
}

pub(crate) fn measure(peers: Option<&Peers>, folder: &Path, counts: &[usize], repetitions: usize) -> Result<Vec<Filters>> {
    let example = example()?;
    let mut measured = Vec::new();
    for &count in counts {
        progress(&format!("{count} filters"));
        let workload = folder.join(format!("workload-{count}"));
        write_workload(&example, &workload, count)?;
        let mut turns = Vec::new();
        for _ in 0..repetitions {
            turns.push(turn(&example, peers, &workload, count)?);
        }
        measured.push(Filters { count, turns });
    }
    Ok(measured)
}

fn turn(example: &Path, peers: Option<&Peers>, workload: &Path, count: usize) -> Result<Turn> {
    let said = said(program(example).args(["json", KIND, &count.to_string()]))?;
    let (ours, matches) = (
        Ours {
            per_second: number(&said, "per_second")?,
            from_bytes: number(&said, "from_bytes")?,
            naively: number(&said, "naively")?,
            mb: number(&said, "bytes")? / 1e6,
        },
        number(&said, "matches")?,
    );
    let Some(peers) = peers else { return Ok(Turn { ours, quamina: None }) };
    let said = self::said(program(&peers.quamina()).stdin(File::open(workload)?))?;
    let theirs = number(&said, "matches")?;
    anyhow::ensure!((theirs - matches).abs() < 1e-9, "an event matches {matches} filters here, and {theirs} in quamina");
    let quamina = Quamina { per_second: number(&said, "per_second")?, mb: number(&said, "bytes")? / 1e6 };
    Ok(Turn { ours, quamina: Some(quamina) })
}

fn write_workload(example: &Path, file: &Path, count: usize) -> Result<()> {
    let status = program(example).args(["workload", KIND, &count.to_string()]).stdout(File::create(file)?).status()?;
    anyhow::ensure!(status.success(), "the workload of {count} filters could not be written");
    Ok(())
}

/// The line of JSON that a program ends with.
fn said(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting {command:?}"))?;
    anyhow::ensure!(output.status.success(), "{command:?} failed");
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} said `{}`", String::from_utf8_lossy(&output.stdout)))
}

fn number(said: &Value, name: &str) -> Result<f64> {
    said.get(name).and_then(Value::as_f64).with_context(|| format!("there is no `{name}` in {said}"))
}

/// The example `filters` of `countersign-automation`, which `make bench` builds beside this program.
fn example() -> Result<PathBuf> {
    let example = std::env::current_exe()?.with_file_name("examples").join("filters");
    anyhow::ensure!(example.is_file(), "`{}` is missing: run `make bench`", example.display());
    Ok(example)
}
