//! The MCP server of an installed package as a program: what it is given each time it is started.

use super::connection::MakeSpec;
use super::program::{bare, environment};
use crate::package::PackageServer;
use countersign_core::ports::Secrets;
use countersign_core::ports::sources::Variable;
use countersign_core::resident::Spec;
use countersign_core::source::Error;
use countersign_core::{OrgId, SourceId};
use std::sync::Arc;

/// The package of one source, and what its program is given.
pub struct Packaged {
    pub org: OrgId,
    pub source: SourceId,
    pub server: PackageServer,
    pub env: Vec<Variable>,
    pub secrets: Arc<dyn Secrets>,
}

impl Packaged {
    /// Makes the spec of the program each time it is started. Its files are the same each time.
    pub fn spec(self) -> MakeSpec {
        let own = Arc::new(self);
        Arc::new(move || {
            let own = Arc::clone(&own);
            Box::pin(async move { own.spec_now().await })
        })
    }

    async fn spec_now(&self) -> Result<Spec, Error> {
        let Self { org, source, server, env, secrets } = self;
        server.check_variables(env)?;
        let started = server.program().await?;
        Ok(Spec {
            args: started.args,
            env: environment(org, source, env, &**secrets).await?,
            read_only: started.read_only,
            inputs: started.inputs,
            egress: server.way_out(source),
            ..bare(org, started.program, started.memory_bytes)
        })
    }
}
