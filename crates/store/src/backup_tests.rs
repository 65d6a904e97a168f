//! A backup contains every table and every column: one that was added and forgotten fails here.

use super::*;
use crate::db::Columns;
use crate::fixture::{postgres, sqlite};

/// Tables and columns that the database has and a backup would not contain. There must be none.
async fn forgotten(tx: &mut Tx) -> Result<Vec<String>, Error> {
    let sql = if tx.is_postgres() {
        "/* every org */ SELECT table_name::text || '.' || column_name::text FROM information_schema.columns WHERE table_schema = current_schema()"
    } else {
        "/* every org */ SELECT t.name || '.' || c.name FROM sqlite_master t, pragma_table_info(t.name) c
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
    };
    let mut forgotten = Vec::new();
    for row in tx.query(sql, &[]).await? {
        let place = Columns::of(row).text()?;
        let (table, column) = place.split_once('.').unwrap_or_default();
        let kept = TABLES.iter().any(|(known, columns, _)| *known == table && columns.split(", ").any(|kept| kept == column));
        // The history of the schema and the list of servers are not data, and the index of words follows from the documents.
        let follows = table.starts_with("document_words") || place == "documents.words";
        if !["schema_migrations", "servers"].contains(&table) && !follows && !kept {
            forgotten.push(place);
        }
    }
    Ok(forgotten)
}

#[tokio::test]
async fn no_table_and_no_column_is_left_out() {
    for store in [sqlite().await, postgres().await] {
        assert_eq!(store.db.write_unscoped(|tx| Box::pin(forgotten(tx))).await, Ok(vec![]));
        // This shows that the test above can fail.
        let added = store.db.write_unscoped(|tx| {
            Box::pin(async move {
                tx.exec("/* every org */ CREATE TABLE added (org_id TEXT)", &[]).await?;
                tx.exec("/* every org */ ALTER TABLE users ADD COLUMN added TEXT", &[]).await?;
                forgotten(tx).await
            })
        });
        let mut added = added.await.unwrap();
        added.sort();
        assert_eq!(added, ["added.org_id", "users.added"]);
    }
}
