//! A new database does not know how many rows its tables have. It then plans as for empty tables, and reads all rows of an org where it wants
//! one. PostgreSQL counts by itself about once a minute; until then this server has it count what has grown.

use super::{checked_out, classify, query};
use crate::Error;
use crate::db::Columns;
use deadpool_postgres::{Object, Pool};
use tokio::runtime::Handle;

/// After so many writes of this server the tables are counted, and then after four times as many, until so many.
const FIRST_AFTER: usize = 128;
const LAST_AFTER: usize = 32_768;

/// The tables with rows that were never counted. Once they were, PostgreSQL knows when to count them again.
const UNCOUNTED: &str = "/* every org: tables belong to none */ SELECT relname::text FROM pg_stat_user_tables
     WHERE schemaname = current_schema() AND pg_relation_size(relid) > 0 AND last_analyze IS NULL AND last_autoanalyze IS NULL";

pub(super) struct Counting {
    pool: Pool,
    runtime: Handle,
    writes: usize,
    next: usize,
}

impl Counting {
    /// To be made on the runtime on which the tables are counted, which is not the one of the writer.
    pub(super) fn of(pool: Pool) -> Self {
        Self { pool, runtime: Handle::current(), writes: 0, next: FIRST_AFTER }
    }

    pub(super) fn note(&mut self, writes: usize) {
        self.writes += writes;
        if self.writes < self.next || self.next > LAST_AFTER {
            return;
        }
        self.next *= 4;
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            if let Err(error) = count(&pool).await {
                tracing::debug!(%error, "the rows of new tables were not counted; the database does it by itself later");
            }
        });
    }
}

async fn count(pool: &Pool) -> Result<(), Error> {
    // A connection of its own: readers do not wait for it.
    let client = Object::take(checked_out(pool).await?);
    for row in query(&client, UNCOUNTED, &[]).await? {
        let table = Columns::of(row).text()?;
        client.batch_execute(&format!("ANALYZE \"{table}\"")).await.map_err(classify)?;
    }
    Ok(())
}
