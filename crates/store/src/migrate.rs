//! Brings a database to this binary's schema version: numbered files, each applied once and recorded with its checksum.

use crate::Error;
use crate::db::{Columns, Db, Tx, vals};
use sha2::{Digest as _, Sha256};

const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../migrations/0001_schema.sql")),
    (2, include_str!("../migrations/0002_prices.sql")),
    (3, include_str!("../migrations/0003_consent.sql")),
    (4, include_str!("../migrations/0004_trigger_payloads.sql")),
    (5, include_str!("../migrations/0005_action_id.sql")),
    (6, include_str!("../migrations/0006_allowed.sql")),
];

/// Applies the missing migrations. A database of a newer version, or one whose applied files differ, is refused unchanged.
pub(crate) async fn migrate(db: &Db) -> Result<(), Error> {
    db.write_unscoped(|tx| Box::pin(apply(tx))).await
}

/// Whether the database is at this binary's version. It changes nothing.
pub(crate) async fn check(db: &Db) -> Result<(), Error> {
    let rows = db.read("/* every org */ SELECT max(version) FROM schema_migrations", &[]).await?;
    let found = rows.into_iter().next().map_or(Ok(None), |row| Columns::of(row).int_or_null())?.unwrap_or_default();
    if found == version() {
        return Ok(());
    }
    Err(Error::Corrupt {
        message: format!("the database is at schema version {found} and this binary at {}; use the binary the server runs", version()),
    })
}

/// The newest version this binary knows.
pub(crate) fn version() -> i64 {
    MIGRATIONS.iter().map(|(version, _)| *version).max().unwrap_or_default()
}

async fn apply(tx: &mut Tx) -> Result<(), Error> {
    if tx.is_postgres() {
        // If two servers start together, the second waits here and then finds the migrations applied.
        tx.query("/* every org */ SELECT 1 FROM (SELECT pg_advisory_xact_lock(7117001)) AS held", &[]).await?;
    }
    tx.exec("/* every org */ CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, checksum TEXT NOT NULL, at BIGINT NOT NULL)", &[])
        .await?;
    let applied = tx.query("/* every org */ SELECT version, checksum FROM schema_migrations ORDER BY version", &[]).await?;
    let mut newest = 0;
    for row in applied {
        let mut columns = Columns::of(row);
        let (version, checksum) = (columns.int()?, columns.text()?);
        let Some((_, text)) = MIGRATIONS.iter().find(|(known, _)| *known == version) else {
            return Err(Error::Corrupt {
                message: format!("the database is at schema version {version}, which is newer than this binary; run the newer one"),
            });
        };
        if checksum != checksum_of(text) {
            return Err(Error::Corrupt { message: format!("migration {version} was applied from another text than this binary's") });
        }
        newest = version;
    }
    for (version, text) in MIGRATIONS.iter().filter(|(version, _)| *version > newest) {
        let dialect = Dialect::of(tx);
        let statements = in_dialect(&without_comments(text), dialect);
        for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty() && dialect.has(statement)) {
            tx.exec(&format!("/* every org */ {statement}"), &[]).await?;
        }
        tx.exec(
            "/* every org */ INSERT INTO schema_migrations (version, checksum, at) VALUES ($1, $2, $3)",
            &vals![*version, checksum_of(text), tx.now()],
        )
        .await?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    const fn of(tx: &Tx) -> Self {
        if tx.is_postgres() { Self::Postgres } else { Self::Sqlite }
    }

    /// Whether a statement is for this engine: one that is for the other alone begins with its name.
    fn has(self, statement: &str) -> bool {
        let other = match self {
            Self::Sqlite => "/* postgres */",
            Self::Postgres => "/* sqlite */",
        };
        !statement.starts_with(other)
    }
}

/// Replaces the few words in which the two engines' schemas differ.
fn in_dialect(text: &str, dialect: Dialect) -> String {
    match dialect {
        // PostgreSQL then compares ids byte by byte, as SQLite does, whatever the cluster's locale.
        Dialect::Postgres => text.replace(" TEXT", " TEXT COLLATE \"C\""),
        Dialect::Sqlite => text.replace("BYTEA", "BLOB").replace("BIGINT", "INTEGER"),
    }
}

/// A comment may hold a semicolon, which would divide a statement.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

fn checksum_of(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}
