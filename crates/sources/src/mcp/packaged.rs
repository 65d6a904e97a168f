//! The MCP server of an installed package as a program: what it is given each time it is started.

use super::connection::{Start, Startable};
use super::program::{bare, environment, versions};
use crate::limits::MCP_PROGRAM_START_SECONDS_DEFAULT;
use crate::package::PackageServer;
use countersign_core::ports::Secrets;
use countersign_core::ports::sources::Variable;
use countersign_core::resident::Spec;
use countersign_core::source::Error;
use countersign_core::{Future, OrgId, SourceId};
use std::sync::Arc;
use std::time::Duration;

/// The package of one source, and what its program is given. Its files are the same at each start.
pub struct Packaged {
    pub org: OrgId,
    pub source: SourceId,
    pub server: PackageServer,
    pub env: Vec<Variable>,
    pub secrets: Arc<dyn Secrets>,
}

impl Packaged {
    async fn start_now(&self) -> Result<Start, Error> {
        let Self { org, source, server, env, secrets } = self;
        server.check_variables(env)?;
        let environment = environment(org, source, env, &**secrets).await?;
        let started = server.program().await?;
        Ok(environment.start(Spec {
            args: started.args,
            read_only: started.read_only,
            inputs: started.inputs,
            egress: server.way_out(source),
            ..bare(org, started.program, started.memory_bytes)
        }))
    }
}

impl Startable for Packaged {
    fn start(&self) -> Future<'_, Result<Start, Error>> {
        Box::pin(self.start_now())
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(MCP_PROGRAM_START_SECONDS_DEFAULT)
    }

    fn versions(&self) -> Future<'_, Result<Vec<Option<i64>>, Error>> {
        Box::pin(versions(&self.org, &self.source, &self.env, &*self.secrets))
    }
}
