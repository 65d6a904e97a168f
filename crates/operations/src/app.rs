//! What the doors and the background loops work with: the parts that the composition root has put together, shared by every request.

use crate::followed::Followed;
use crate::limits::{SHUTDOWN_SECONDS, SIGN_INS_PER_MINUTE_MAX};
use crate::one_time_login::OneTimeLogin;
use crate::sign_in::SignIn;
use countersign_core::action::Profile;
use countersign_core::limits::LOGIN_TRIES_PER_MINUTE_MAX;
use countersign_core::{Clock, OrgId, Random};
use homes::{AddedRegistry, Homes};
use host::master_key::MasterKeyFiles;
use metrics_exporter_prometheus::PrometheusHandle;
use notify::Courier;
use pipeline::Pipeline;
use sources::connection::Connected;
use sources::oauth::Own;
use sources::package::Packages;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use stream::tries::Tries;
use stream::{Bounds, Streams};

/// The parts that the doors and the background loops work with.
pub struct Parts {
    pub store: Store,
    pub pipeline: Pipeline,
    pub random: Arc<dyn Random>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Option<PrometheusHandle>,
    /// Workspace and packages of each org; absent if no source works on files.
    pub homes: Option<Arc<Homes>>,
    /// The sources that admins added.
    pub added: Arc<AddedRegistry>,
    /// The credentials with which sources act elsewhere.
    pub connections: Connected,
    /// Delivers the notices of channels.
    pub courier: Courier,
    /// The files of the master key, which can be replaced while the server works.
    pub master_key: MasterKeyFiles,
    /// Where people and authorization servers reach this server.
    pub address: Own,
    /// Whether the operator named that address. If not, it may be another for callers who come through a proxy.
    pub has_public_url: bool,
    /// The profiles that code of packages can have here; absent where none runs.
    pub profiles: Option<Vec<Profile>>,
    /// Where people sign in; absent: with tokens only.
    pub sign_in: Option<SignIn>,
    /// Fires and runs automations.
    pub engine: runs::Engine,
}

/// The parts, shared by every request.
#[derive(Clone)]
pub struct App {
    pub parts: Arc<Parts>,
    streams: Streams,
    followed: Followed,
    tries: Arc<Tries>,
    sign_ins_begun: Arc<Tries>,
    one_time_login: Arc<OneTimeLogin>,
}

impl App {
    pub fn new(parts: Parts) -> Self {
        let (allowed, connections, courier) = (parts.added.allowed(), parts.connections.clone(), parts.courier.clone());
        allowed.tell(move |lists| connections.allow(lists.hosts.clone(), lists.networks.clone()));
        allowed.tell(move |lists| courier.allow(lists.hosts.clone(), lists.networks.clone()));
        let streams = Streams::new(Arc::new(parts.store.clone()), Bounds::new(parts.pipeline.silence()));
        Self {
            parts: Arc::new(parts),
            streams,
            followed: Followed::default(),
            tries: Arc::new(Tries::up_to(LOGIN_TRIES_PER_MINUTE_MAX)),
            sign_ins_begun: Arc::new(Tries::up_to(SIGN_INS_PER_MINUTE_MAX)),
            one_time_login: Arc::default(),
        }
    }

    pub fn store(&self) -> &Store {
        &self.parts.store
    }

    /// The org's packages; absent if none can be installed.
    pub fn packages(&self, org: &OrgId) -> Option<Arc<Packages>> {
        Some(Arc::clone(&self.parts.homes.as_ref()?.of(org).ok()?.packages))
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.parts.pipeline
    }

    pub fn engine(&self) -> &runs::Engine {
        &self.parts.engine
    }

    pub const fn streams(&self) -> &Streams {
        &self.streams
    }

    pub const fn followed(&self) -> &Followed {
        &self.followed
    }

    /// Wrong logins, by the address they came from.
    pub fn tries(&self) -> &Tries {
        &self.tries
    }

    /// Sign-ins that were begun, by the address they came from. A page of others can make a browser begin one, so they are no wrong logins.
    pub fn sign_ins_begun(&self) -> &Tries {
        &self.sign_ins_begun
    }

    /// The login that is offered on the terminal of the server.
    pub fn one_time_login(&self) -> &OneTimeLogin {
        &self.one_time_login
    }

    /// Waits for running calls, then signs a last checkpoint over everything they recorded. Returns whether all of them have ended.
    pub async fn finish(&self) -> bool {
        let limit = Duration::from_secs(SHUTDOWN_SECONDS);
        let is_over = tokio::time::timeout(limit, self.parts.pipeline.finish()).await.is_ok();
        if !is_over {
            tracing::warn!("some invocations did not end in time; the next start finds them in doubt");
        }
        self.parts.added.close().await;
        for org in self.parts.store.list_orgs().await.unwrap_or_default() {
            if let Err(error) = self.parts.store.checkpoint(&org.id).await {
                tracing::warn!(%error, "the last checkpoint could not be signed");
            }
        }
        is_over
    }
}
