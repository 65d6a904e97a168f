//! The stateful connections (`Mcp-Session-Id`) and whose they are: an id that somebody else learns opens nothing. How many a caller and an org
//! may have is bounded; their oldest is closed for a further one, never one of another org, and one without traffic by the library.

use super::caller::Caller;
use crate::limits::{MCP_CONNECTIONS_MAX, MCP_CONNECTIONS_PER_CALLER_MAX, MCP_CONNECTIONS_PER_ORG_MAX};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use countersign_core::OrgId;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

const HEADER: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

pub(super) struct Connections {
    manager: Arc<LocalSessionManager>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    owners: HashMap<String, (u64, Owner)>,
    opened: u64,
}

/// Whose a connection is: the same caller in the same session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    org: OrgId,
    caller: String,
}

impl Owner {
    pub(super) fn of(caller: &Caller) -> Self {
        Self { org: caller.principal.org.clone(), caller: format!("{} {}", caller.principal.id, caller.session.id) }
    }
}

/// Why no connection was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// There are as many as there may be, and none of them is the org's.
    TooMany,
    /// By a bug.
    Broken,
}

/// The connection that a request names.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    // One that cannot be read is nobody's, like any other that is unknown.
    headers.get(HEADER).map(|value| value.to_str().unwrap_or_default())
}

/// Whether a request wants to go on with the stream of a call that was cut off. The caller of that call has left: it asks for the call again,
/// and joins it. Resumed as well, the result could be told twice, or told here and taken for not delivered. The stream of the
/// connection itself, whose events have ids without a `/`, is resumed.
pub(super) fn resumes_a_call(parts: &Parts) -> bool {
    let last = parts.headers.get(LAST_EVENT).and_then(|value| value.to_str().ok());
    parts.method == Method::GET && last.is_some_and(|last| last.contains('/'))
}

impl Connections {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, known: Mutex::default() }
    }

    pub(super) fn is_of(&self, id: &str, owner: &Owner) -> bool {
        self.known.lock().owners.get(id).is_some_and(|(_, known)| known == owner)
    }

    pub(super) fn forget(&self, id: &str) {
        let mut known = self.known.lock();
        known.owners.remove(id);
        known.tell();
    }

    /// The answer that opens a connection. It is made in a task of its own: a client that goes meanwhile would leave a connection that nobody
    /// counts. If it has gone, the connection is closed again.
    pub(super) async fn open(
        self: &Arc<Self>,
        answering: impl Future<Output = Response> + Send + 'static,
        owner: Owner,
    ) -> Result<Response, NotOpened> {
        let (tell, told) = oneshot::channel();
        let connections = Arc::clone(self);
        tokio::spawn(async move {
            let response = answering.await;
            let id = connections.note(response.headers(), &owner).await;
            let is_refused = id.as_ref().is_some_and(|id| !connections.is_of(id, &owner));
            let told = if is_refused { Err(NotOpened::TooMany) } else { Ok(response) };
            if tell.send(told).is_err()
                && let Some(id) = id
            {
                connections.forget(&id);
                connections.close(id).await;
            }
        });
        told.await.unwrap_or(Err(NotOpened::Broken))
    }

    /// Notes whose connection an answer opened, if it opened one. It may be one too many, and closed again.
    async fn note(&self, headers: &HeaderMap, owner: &Owner) -> Option<String> {
        let id = headers.get(HEADER).and_then(|value| value.to_str().ok())?.to_owned();
        let surplus = {
            let alive = self.manager.sessions.read().await;
            let mut known = self.known.lock();
            // Those that the library has closed, because there was no traffic or their client ended them.
            known.owners.retain(|id, _| alive.contains_key(id.as_str()));
            known.opened += 1;
            let opened = known.opened;
            known.owners.insert(id.clone(), (opened, owner.clone()));
            let surplus = known.surplus(owner);
            known.tell();
            surplus
        };
        if let Some(id) = surplus {
            self.close(id).await;
        }
        Some(id)
    }

    async fn close(&self, id: String) {
        if let Err(error) = self.manager.close_session(&id.into()).await {
            tracing::debug!(%error, "a connection was closed already");
        }
    }
}

impl Known {
    fn tell(&self) {
        metrics::gauge!("countersign_mcp_connections").set(self.owners.len() as f64);
    }

    /// The connections that are closed for the newest of this owner: the oldest of the owner if it has too many, or of its org if there are too
    /// many. If the org has no other, that is the newest itself.
    fn surplus(&mut self, owner: &Owner) -> Option<String> {
        let (mut own, mut of_org) = (Oldest::default(), Oldest::default());
        for (id, (at, of)) in &self.owners {
            if of.org == owner.org {
                of_org.add(*at, id);
            }
            if of == owner {
                own.add(*at, id);
            }
        }
        let is_full = of_org.count > MCP_CONNECTIONS_PER_ORG_MAX || self.owners.len() > MCP_CONNECTIONS_MAX;
        let oldest = if own.count > MCP_CONNECTIONS_PER_CALLER_MAX { own.found } else { of_org.found.filter(|_| is_full) };
        let surplus = oldest.map(|(_, id)| id.to_owned())?;
        self.owners.remove(&surplus);
        Some(surplus)
    }
}

/// The oldest of some connections, and how many they are.
#[derive(Default)]
struct Oldest<'a> {
    found: Option<(u64, &'a str)>,
    count: usize,
}

impl<'a> Oldest<'a> {
    fn add(&mut self, at: u64, id: &'a str) {
        self.count += 1;
        if self.found.is_none_or(|(found, _)| at < found) {
            self.found = Some((at, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use countersign_core::Timestamp;

    fn owner(org: u8, caller: &str) -> Owner {
        Owner { org: OrgId::new(Timestamp::default(), [org; 10]), caller: caller.to_owned() }
    }

    /// A connection that is being opened, until it is released.
    fn opening(manager: &Arc<LocalSessionManager>) -> (oneshot::Sender<()>, impl Future<Output = Response> + Send + 'static) {
        let (release, released) = oneshot::channel();
        let manager = Arc::clone(manager);
        let answering = async move {
            let (id, _transport) = manager.create_session().await.unwrap();
            let _released = released.await;
            Response::builder().header(HEADER, &*id).body(Body::empty()).unwrap()
        };
        (release, answering)
    }

    #[tokio::test]
    async fn a_connection_whose_client_went_while_it_was_opened_is_closed() {
        let manager = Arc::new(LocalSessionManager::default());
        let connections = Arc::new(Connections::new(Arc::clone(&manager)));
        let one = owner(1, "one");
        for stays in [false, true] {
            let (release, answering) = opening(&manager);
            let (asking, owner) = (Arc::clone(&connections), one.clone());
            let asked = tokio::spawn(async move { asking.open(answering, owner).await.is_ok() });
            while manager.sessions.read().await.is_empty() {
                tokio::task::yield_now().await;
            }
            if stays {
                release.send(()).unwrap();
                assert!(asked.await.unwrap());
                let ids: Vec<_> = connections.known.lock().owners.keys().cloned().collect();
                assert!(ids.len() == 1 && connections.is_of(&ids[0], &one), "{ids:?}");
            } else {
                asked.abort();
                assert!(asked.await.is_err());
                release.send(()).unwrap();
                while !manager.sessions.read().await.is_empty() {
                    tokio::task::yield_now().await;
                }
                assert!(connections.known.lock().owners.is_empty());
            }
        }
    }

    #[test]
    fn the_oldest_connection_of_a_caller_makes_room() {
        let mut known = Known::default();
        let (one, other) = (owner(1, "one"), owner(1, "other"));
        known.owners.insert("theirs".into(), (0, other));
        for at in 1..=MCP_CONNECTIONS_PER_CALLER_MAX as u64 {
            known.owners.insert(format!("{at}"), (at, one.clone()));
            assert_eq!(known.surplus(&one), None);
        }
        known.owners.insert("last".into(), (1_000, one.clone()));
        assert_eq!(known.surplus(&one).as_deref(), Some("1"));
        assert!(known.owners.contains_key("theirs"));
    }

    #[test]
    fn no_connection_makes_room_for_another_org() {
        let mut known = Known::default();
        let fill = |known: &mut Known, org: u8, count: usize| {
            for at in known.owners.len()..known.owners.len() + count {
                known.owners.insert(format!("{at}"), (at as u64, owner(org, &format!("{at}"))));
            }
        };
        fill(&mut known, 1, MCP_CONNECTIONS_PER_ORG_MAX);
        known.owners.insert("last".into(), (20_000, owner(1, "last")));
        assert_eq!(known.surplus(&owner(1, "last")).as_deref(), Some("0"), "the oldest of the org");
        fill(&mut known, 2, MCP_CONNECTIONS_MAX - MCP_CONNECTIONS_PER_ORG_MAX);
        for (id, closed) in [("first of a third", "first of a third"), ("of the second", "6000")] {
            let org = if id == closed { 3 } else { 2 };
            known.owners.insert(id.into(), (30_000, owner(org, id)));
            assert_eq!(known.surplus(&owner(org, id)).as_deref(), Some(closed));
        }
    }
}
