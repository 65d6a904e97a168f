//! A PostgreSQL database for each test, on the throw-away server of `make test`.

use std::hash::{BuildHasher, Hasher, RandomState};
use tokio_postgres::NoTls;

/// Creates an empty database and returns its URL. It is never dropped, because the server itself is thrown away.
pub async fn fresh_database() -> String {
    let server = Server::connect().await;
    server.new_database("template0").await
}

/// Creates a migrated database: a copy of one on which `migrate` was run, once per server and build of the tests.
///
/// Migrating takes several times as long as copying. Many tests may start at once, each in a process of its own: one of them migrates, and
/// the others wait.
pub async fn migrated_database(migrate: impl AsyncFnOnce(String)) -> String {
    let server = Server::connect().await;
    let template = format!("migrated_{}", crate::build::fingerprint());
    let exists = format!("SELECT FROM pg_database WHERE datname = '{template}'");
    if server.client.query(&exists, &[]).await.expect("the server lists its databases").is_empty() {
        server.run("SELECT pg_advisory_lock(7117099)").await;
        if server.client.query(&exists, &[]).await.expect("the server lists its databases").is_empty() {
            let url = server.new_database("template0").await;
            migrate(url.clone()).await;
            let made = url.rsplit('/').next().unwrap_or_default();
            // The connections that migrated it may not have closed yet.
            server.run(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{made}'")).await;
            server.run(&format!("ALTER DATABASE {made} RENAME TO {template}")).await;
        }
        server.run("SELECT pg_advisory_unlock(7117099)").await;
    }
    server.new_database(&template).await
}

struct Server {
    url: String,
    client: tokio_postgres::Client,
}

impl Server {
    async fn connect() -> Self {
        let url = crate::from_make_test("TEST_POSTGRES_URL");
        let (client, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .unwrap_or_else(|error| panic!("the PostgreSQL server in `TEST_POSTGRES_URL` cannot be reached ({error}): run `make test`"));
        tokio::spawn(connection);
        Self { url, client }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("the test server refuses `{sql}`: {error}"));
    }

    async fn new_database(&self, template: &str) -> String {
        let name = unique_name();
        self.run(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        with_database(&self.url, &name)
    }
}

/// Every row of every table as text, as a dump has them.
pub async fn rows(url: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the database of the test can be reached");
    tokio::spawn(connection);
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename";
    let mut text = String::new();
    for table in client.query(tables, &[]).await.expect("the database lists its tables") {
        let table: String = table.get(0);
        let rows = format!("SELECT coalesce(string_agg(kept::text, chr(10)), '') FROM \"{table}\" AS kept");
        let rows: String = client.query_one(&rows, &[]).await.expect("a table can be read").get(0);
        text.push_str(&format!("{table}\n{rows}\n"));
    }
    text
}

/// Changes a database without the program that works on it. Returns how many rows changed.
pub async fn tamper(url: &str, sql: &str) -> u64 {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the test's database can be reached");
    let driver = tokio::spawn(connection);
    let changed = client.execute(sql, &[]).await.expect("the statement is right");
    drop(client);
    driver.await.expect("the connection does not panic").expect("the connection ends in peace");
    changed
}

/// The process id, for a person who looks at the server, and 64 random bits that differ with every call.
fn unique_name() -> String {
    format!("test_{}_{:016x}", std::process::id(), RandomState::new().build_hasher().finish())
}

/// Replaces the database in a connection URL and keeps everything else.
fn with_database(server: &str, name: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, None), |(address, query)| (address, Some(query)));
    let authority_at = address.find("://").map_or(0, |at| at + 3);
    let path_at = address[authority_at..].find('/').map_or(address.len(), |at| authority_at + at);
    let url = format!("{}/{name}", &address[..path_at]);
    query.map_or_else(|| url.clone(), |query| format!("{url}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_replaced_and_the_rest_is_kept() {
        for (server, expected) in [
            ("postgres://me@127.0.0.1:5433/postgres", "postgres://me@127.0.0.1:5433/fresh"),
            ("postgres://me@127.0.0.1:5433/", "postgres://me@127.0.0.1:5433/fresh"),
            ("postgres://me@127.0.0.1:5433", "postgres://me@127.0.0.1:5433/fresh"),
            ("postgres://me:word@host/postgres?sslmode=disable", "postgres://me:word@host/fresh?sslmode=disable"),
            ("postgresql:///postgres?host=/tmp/x", "postgresql:///fresh?host=/tmp/x"),
        ] {
            assert_eq!(with_database(server, "fresh"), expected);
        }
    }

    #[test]
    fn names_never_repeat() {
        let names: std::collections::HashSet<_> = (0..1_000).map(|_| unique_name()).collect();
        assert_eq!(names.len(), 1_000);
    }

    #[tokio::test]
    async fn every_database_is_new_and_empty() {
        let (first, second) = tokio::join!(fresh_database(), fresh_database());
        assert_ne!(first, second);
        for url in [&first, &second] {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
            assert_eq!(client.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 0);
            client.batch_execute("CREATE TABLE mine (id BIGINT)").await.unwrap();
        }
    }
}
