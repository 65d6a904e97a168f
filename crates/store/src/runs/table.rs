//! The table of runs: how a row is read.

use crate::Error;
use crate::db::{Columns, Row};
use countersign_core::PrincipalId;
use countersign_core::run::{Run, RunStatus};

macro_rules! select_run {
    () => {
        "SELECT body, status, started_at, cancelled_by FROM runs WHERE org_id = $1"
    };
}
pub(super) use select_run;

pub(super) fn read_run(row: Row) -> Result<Run, Error> {
    read_run_columns(&mut Columns::of(row))
}

pub(super) fn read_run_columns(columns: &mut Columns) -> Result<Run, Error> {
    let run: Run = columns.json()?;
    // A worker that takes a run writes the columns alone.
    let (status, started_at) = (columns.parsed(RunStatus::parse)?, columns.time_or_null()?);
    let waiting_for = run.waiting_for.filter(|_| status == RunStatus::Waiting);
    Ok(Run { status, waiting_for, started_at, cancelled_by: columns.parsed_or_null(PrincipalId::parse)?, ..run })
}
