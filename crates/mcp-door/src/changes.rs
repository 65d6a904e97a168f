//! Says that a list has changed: to the listeners of the stateless revision, and on the own stream of a stateful connection. An org is looked
//! at once for all who listen (`operations/seen.rs`), so an event costs one look, not one for each listener.

use super::caller::{Caller, caller_of};
use super::connections::Owner;
use crate::limits::MCP_LISTENERS_PER_CALLER_MAX;
use api::Code;
use operations::App;
use operations::seen;
use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{NotificationContext, Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

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
    /// How many listeners each caller has.
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
        Self(Arc::new(Inner { app, listeners: Mutex::default() }))
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
        let app = &self.0.app;
        let mut before = None;
        while !told.is_gone() {
            let look = async {
                match &before {
                    None => seen::seen(app, &caller.session).await,
                    Some(before) => seen::changed(app, &caller.session, before).await,
                }
            };
            // A look now and then, so that a connection that was closed is noticed, and a token that was revoked.
            let looked = tokio::time::timeout(LOOK_EVERY, look).await;
            let is_accepted = match (&told, &looked) {
                (Told::Connection(_), Ok(_)) => true,
                (Told::Listener(_), _) | (_, Err(_)) => caller.is_accepted(app).await,
            };
            if !is_accepted {
                return;
            }
            match looked {
                Ok(Ok(now)) => {
                    if before.replace(now).is_some() && !told.tell().await {
                        return;
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "whether a catalogue has changed cannot be told now");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(_nothing_changed) => {}
            }
        }
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
