//! The stateful connections (`Mcp-Session-Id`) and whose they are: an id that somebody else learns opens nothing. How many a caller may
//! have is bounded; the oldest is closed for a further one, and one without traffic by the library.

use super::caller::Caller;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use countersign_core::limits::{MCP_CONNECTIONS_MAX, MCP_CONNECTIONS_PER_CALLER_MAX};
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
pub(super) struct Owner(String);

impl Owner {
    pub(super) fn of(caller: &Caller) -> Self {
        Self(format!("{} {} {}", caller.principal.org, caller.principal.id, caller.session.id))
    }
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

    /// The answer that opens a connection; `None` if there is none. It is made in a task of its own: a client that goes meanwhile would leave a
    /// connection that nobody counts. If it has gone, the connection is closed again.
    pub(super) async fn open(
        self: &Arc<Self>,
        answering: impl Future<Output = Response> + Send + 'static,
        owner: Owner,
    ) -> Option<Response> {
        let (tell, told) = oneshot::channel();
        let connections = Arc::clone(self);
        tokio::spawn(async move {
            let response = answering.await;
            let id = connections.note(response.headers(), &owner).await;
            if tell.send(response).is_err()
                && let Some(id) = id
            {
                connections.forget(&id);
                connections.close(id).await;
            }
        });
        told.await.ok()
    }

    /// Notes whose connection an answer opened, if it opened one.
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
        for id in surplus {
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

    /// The oldest connections, as many as there are too many.
    fn surplus(&mut self, owner: &Owner) -> Vec<String> {
        let mut own: Vec<_> = self.owners.iter().filter(|(_, (_, of))| of == owner).map(|(id, (at, _))| (*at, id.clone())).collect();
        own.sort_unstable();
        let mut surplus: Vec<_> =
            own.iter().take(own.len().saturating_sub(MCP_CONNECTIONS_PER_CALLER_MAX)).map(|(_, id)| id.clone()).collect();
        if self.owners.len() > MCP_CONNECTIONS_MAX {
            surplus.extend(self.owners.iter().min_by_key(|(_, (at, _))| *at).map(|(id, _)| id.clone()));
        }
        surplus.iter().for_each(|id| {
            self.owners.remove(id);
        });
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

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
        let one = Owner("one".into());
        for stays in [false, true] {
            let (release, answering) = opening(&manager);
            let (asking, owner) = (Arc::clone(&connections), one.clone());
            let asked = tokio::spawn(async move { asking.open(answering, owner).await.is_some() });
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
        let (one, other) = (Owner("one".into()), Owner("other".into()));
        known.owners.insert("theirs".into(), (0, other));
        for at in 1..=MCP_CONNECTIONS_PER_CALLER_MAX as u64 {
            known.owners.insert(format!("{at}"), (at, one.clone()));
            assert_eq!(known.surplus(&one), Vec::<String>::new());
        }
        known.owners.insert("last".into(), (1_000, one.clone()));
        assert_eq!(known.surplus(&one), ["1"]);
        assert!(known.owners.contains_key("theirs"));
    }
}
