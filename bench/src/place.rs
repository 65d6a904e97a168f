//! Where a database is: a fresh SQLite file, or a fresh database on the throw-away PostgreSQL of `make bench`.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tokio_postgres::NoTls;

/// An engine that creates fresh databases.
pub(crate) enum Place {
    Sqlite,
    Postgres {
        /// The URL of the server. New databases are created beside the one it names.
        url: String,
        version: String,
        /// The server's first process. The CPU time of its children is counted; `None` if it cannot be found.
        parent: Option<u32>,
    },
}

/// A data folder, and a database URL if the database is not in the folder.
pub(crate) struct Database {
    pub(crate) data: PathBuf,
    pub(crate) url: Option<String>,
}

impl Place {
    pub(crate) async fn postgres(url: String) -> Result<Self> {
        let client = connect(&url).await?;
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        let folder: String = client.query_one("SHOW data_directory", &[]).await?.get(0);
        let pid = std::fs::read_to_string(Path::new(&folder).join("postmaster.pid")).ok();
        let parent = pid.and_then(|text| text.lines().next().and_then(|line| line.trim().parse().ok()));
        Ok(Self::Postgres { url, version, parent })
    }

    pub(crate) const fn engine_name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres { .. } => "PostgreSQL",
        }
    }

    pub(crate) fn version(&self) -> String {
        match self {
            Self::Sqlite => rusqlite::version().to_owned(),
            Self::Postgres { version, .. } => version.clone(),
        }
    }

    pub(crate) const fn parent(&self) -> Option<u32> {
        match self {
            Self::Sqlite => None,
            Self::Postgres { parent, .. } => *parent,
        }
    }

    /// Whether the database's own CPU time can be read completely.
    pub(crate) const fn counts_database(&self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Postgres { parent, .. } => parent.is_some(),
        }
    }

    pub(crate) async fn fresh(&self, data: &Path) -> Result<Database> {
        let url = match self {
            Self::Sqlite => None,
            Self::Postgres { url, .. } => {
                let name = data.file_name().and_then(|name| name.to_str()).context("the folder has no name")?.replace('-', "_");
                let name = format!("bench_{name}_{}", std::process::id());
                connect(url).await?.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await?;
                let (server, _) = url.rsplit_once('/').context("the URL names no database")?;
                Some(format!("{server}/{name}"))
            }
        };
        Ok(Database { data: data.to_owned(), url })
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("the PostgreSQL of `TEST_POSTGRES_URL`")?;
    tokio::spawn(connection);
    Ok(client)
}
