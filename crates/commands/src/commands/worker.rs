//! `countersign worker`: works on runs of automations beside the servers of one database.

use super::serve::{ServerFlags, refused};
use crate::shared::*;
use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  countersign worker --database postgres://countersign@db/countersign --data /var/lib/countersign-worker
  countersign worker --database postgres://countersign@db/countersign --queue long";

#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    server: ServerFlags,
    /// Where to serve /healthz, /readyz and /metrics; else COUNTERSIGN_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// A queue to work on: fast, medium, long, or one of `workers` in the config. Without one, all of them
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
}

impl Worker {
    pub(crate) async fn run(self, setting: Setting<'_>) -> Result<Exit, Failure> {
        setting.no_dry_run("worker")?;
        let Self { server: shared, listen, queues } = self;
        let mut config = shared.load_with(host::Flags { listen, ..host::Flags::default() }, &setting)?;
        if config.database.is_none() {
            let hint = "name the database of the servers with --database; on SQLite the server works on runs itself";
            return Err(Failure::usage("a worker shares a PostgreSQL database with servers").hint(hint));
        }
        if !queues.is_empty() {
            let unknown = |name: &str| {
                Failure::usage(format!("there is no queue `{name}`"))
                    .hint("name fast, medium or long, or declare it under `[workers]` in the config file")
            };
            config.workers = config.workers.only(&queues).map_err(unknown)?;
        }
        let terminal = setting.terminal;
        let watched = if terminal.is_watched() { host::LogFormat::Text } else { host::LogFormat::Json };
        host::init_logs(config.log_format.unwrap_or(watched), &config.log_level);
        let tell = |url: &str| {
            // If stdout is closed, the worker keeps working.
            let _closed = terminal.line(format!("health: {url}/readyz")).and_then(|()| terminal.flush());
        };
        setting.serving.work(config, Box::new(tell)).await.map_err(|error| refused(&error))?;
        Ok(Exit::Ok)
    }
}
