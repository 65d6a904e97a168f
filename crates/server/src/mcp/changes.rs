//! Says that a list has changed: to the listeners of the stateless revision, and on the own stream of a stateful connection. A session is
//! looked at once for all who listen to it, and not more often than every moment: an event costs a look, not a look for each listener.

use super::caller::{Caller, caller_of};
use super::connections::Owner;
use crate::App;
use crate::operations::seen;
use api::Code;
use countersign_core::limits::MCP_LISTENERS_PER_CALLER_MAX;
use countersign_core::{Session, SessionId};
use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{NotificationContext, Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait before the store is asked again after it was away.
const STORE_PAUSE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The changes that this server tells of.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    accepted.resource_subscriptions = None;
    accepted
}

/// Everybody who is told of changes. Clones share everything.
#[derive(Clone)]
pub(super) struct Changes(Arc<Inner>);

struct Inner {
    app: App,
    /// How many changes each session has seen that somebody listens to.
    followed: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
    listeners: Mutex<HashMap<Owner, usize>>,
}

/// The place of a listener. Dropping it gives the place free.
struct Place {
    changes: Changes,
    owner: Owner,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut listeners = self.changes.0.listeners.lock();
        if let Some(open) = listeners.get_mut(&self.owner) {
            *open -= 1;
            if *open == 0 {
                listeners.remove(&self.owner);
            }
        }
    }
}

impl Changes {
    pub(super) fn new(app: App) -> Self {
        Self(Arc::new(Inner { app, followed: Mutex::default(), listeners: Mutex::default() }))
    }

    /// Tells a listener of every change until it goes or the server stops.
    pub(super) async fn listen(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        let caller = caller_of(&context.request_context().extensions)?;
        let _place = self.place(caller)?;
        tokio::select! {
            () = self.tell(caller, Told::Listener(context)) => {}
            () = context.cancelled() => {}
            () = self.0.app.pipeline().stopping() => {}
        }
        Ok(())
    }

    /// Tells a stateful connection of every change, in the background, until it is closed.
    pub(super) fn announce(&self, context: NotificationContext<RoleServer>) {
        let Ok(caller) = caller_of(&context.extensions).cloned() else { return };
        let (changes, peer) = (self.clone(), context.peer);
        tokio::spawn(async move {
            tokio::select! {
                () = changes.tell(&caller, Told::Connection(&peer)) => {}
                () = changes.0.app.pipeline().stopping() => {}
            }
        });
    }

    fn place(&self, caller: &Caller) -> Result<Place, ErrorData> {
        let owner = Owner::of(caller);
        let mut listeners = self.0.listeners.lock();
        let open = listeners.entry(owner.clone()).or_default();
        if *open >= MCP_LISTENERS_PER_CALLER_MAX {
            let why = format!("{MCP_LISTENERS_PER_CALLER_MAX} listeners of this caller are open already; close one, then listen again");
            return Err(ErrorData::invalid_request(why, Some(json!({ "code": Code::TooManyStreams.as_str() }))));
        }
        *open += 1;
        drop(listeners);
        Ok(Place { changes: self.clone(), owner })
    }

    /// Tells of every change, until nobody listens or the caller may not listen any more. On the stream of a connection that is looked at too
    /// before anything goes out (`stream`), which ends the stream.
    async fn tell(&self, caller: &Caller, told: Told<'_>) {
        let mut changes = self.changes_of(&caller.session);
        while !told.is_gone() {
            // A look now and then, so that a connection that was closed is noticed, and a token that was revoked.
            let changed = tokio::time::timeout(LOOK_EVERY, changes.changed()).await;
            let is_accepted = match (&told, &changed) {
                (Told::Connection(_), Ok(_)) => true,
                (Told::Listener(_), _) | (_, Err(_)) => caller.is_accepted(&self.0.app).await,
            };
            if !is_accepted {
                return;
            }
            let Ok(changed) = changed else { continue };
            if changed.is_err() || !told.tell().await {
                return;
            }
        }
    }

    /// The changes that a session sees from now on.
    fn changes_of(&self, session: &Session) -> watch::Receiver<u64> {
        let mut followed = self.0.followed.lock();
        if let Some(counted) = followed.get(&session.id) {
            return counted.subscribe();
        }
        let (counted, changes) = watch::channel(0);
        followed.insert(session.id.clone(), counted.clone());
        tokio::spawn(self.clone().follow(session.clone(), counted));
        changes
    }

    /// Counts the changes of a session as long as somebody listens.
    async fn follow(self, session: Session, counted: watch::Sender<u64>) {
        let app = &self.0.app;
        let mut before = None;
        while !self.is_over(&session, &counted) {
            let look = async {
                match &before {
                    None => seen::seen(app, &session).await,
                    Some(before) => seen::changed(app, &session, before).await,
                }
            };
            let looked = tokio::select! {
                looked = look => looked,
                () = counted.closed() => continue,
                () = app.pipeline().stopping() => return,
            };
            match looked {
                Ok(now) => {
                    if before.replace(now).is_some() {
                        counted.send_modify(|changes| *changes += 1);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "whether a catalogue has changed cannot be told now");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Whether nobody listens any more. Whoever comes after that begins anew.
    fn is_over(&self, session: &Session, counted: &watch::Sender<u64>) -> bool {
        let mut followed = self.0.followed.lock();
        let is_over = counted.receiver_count() == 0;
        if is_over {
            followed.remove(&session.id);
        }
        is_over
    }
}

/// Who is told.
enum Told<'a> {
    Listener(&'a SubscriptionContext),
    Connection(&'a Peer<RoleServer>),
}

impl Told<'_> {
    /// Whether somebody still listens.
    async fn tell(&self) -> bool {
        match self {
            Self::Listener(context) => {
                let (sink, wants) = (context.sink(), context.accepted());
                (wants.tools_list_changed != Some(true) || sink.notify_tool_list_changed().await.is_ok())
                    && (wants.prompts_list_changed != Some(true) || sink.notify_prompt_list_changed().await.is_ok())
                    && (wants.resources_list_changed != Some(true) || sink.notify_resource_list_changed().await.is_ok())
            }
            Self::Connection(peer) => {
                !peer.is_transport_closed()
                    && peer.notify_tool_list_changed().await.is_ok()
                    && peer.notify_prompt_list_changed().await.is_ok()
                    && peer.notify_resource_list_changed().await.is_ok()
            }
        }
    }

    fn is_gone(&self) -> bool {
        match self {
            Self::Listener(_) => false,
            Self::Connection(peer) => peer.is_transport_closed(),
        }
    }
}
