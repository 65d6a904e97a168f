//! The jail of a server that runs programs of sources and no code of packages: the host is probed when the first program is started.

use super::SandboxJail;
use countersign_core::jail::Error;
use countersign_core::resident::{Resident, Residents, Spec};
use tokio::sync::OnceCell;

pub struct LateJail {
    allow_degraded: bool,
    opened: OnceCell<SandboxJail>,
}

impl LateJail {
    pub fn new(allow_degraded: bool) -> Self {
        Self { allow_degraded, opened: OnceCell::new() }
    }

    async fn opened(&self) -> Result<&SandboxJail, Error> {
        let allow_degraded = self.allow_degraded;
        let open = || tokio::task::spawn_blocking(move || SandboxJail::open(allow_degraded));
        self.opened.get_or_try_init(open).await.map_err(|error| Error::Busy { message: format!("the host could not be probed: {error}") })
    }
}

impl Residents for LateJail {
    fn start(&self, spec: Spec) -> countersign_core::Future<'_, Result<Resident, Error>> {
        Box::pin(async move { self.opened().await?.start(spec).await })
    }
}
