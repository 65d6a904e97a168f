//! The credentials of a source that has a connection. They are resolved for each request; the connection to the server
//! remembers the last few only to take them out of what the server says (`given`).

use super::http::Credentials;
use countersign_core::ports::Connections;
use countersign_core::ports::connections::{ConnectionHeaders, Refusal, Wanted};
use countersign_core::source::Error;
use countersign_core::{ConnectionId, Future, OrgId};
use std::sync::Arc;

/// The connection of a source, and the address that its credential is sent to.
pub struct OfConnection {
    pub connections: Arc<dyn Connections>,
    pub org: OrgId,
    pub connection: ConnectionId,
    pub url: String,
}

impl OfConnection {
    /// A source is only there for the spaces of its connection, so the space of a call was checked before the source is asked.
    fn wanted(&self) -> Wanted<'_> {
        Wanted { org: &self.org, connection: &self.connection, space: None, url: &self.url }
    }
}

impl Credentials for OfConnection {
    fn headers(&self) -> Future<'_, Result<ConnectionHeaders, Error>> {
        self.connections.resolve_connection(self.wanted())
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Future<'a, Result<bool, Error>> {
        self.connections.refused_connection(self.wanted(), refusal)
    }
}
