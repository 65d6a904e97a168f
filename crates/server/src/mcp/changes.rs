//! Says that a list has changed: to the listeners of the stateless revision, and on the own stream of a stateful connection.

use super::caller::{Caller, caller_of};
use crate::App;
use crate::operations::seen;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{NotificationContext, Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
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

/// Tells a listener of every change until it goes or the server stops.
pub(super) async fn listen(app: &App, context: &SubscriptionContext) -> Result<(), ErrorData> {
    let caller = caller_of(&context.request_context().extensions)?;
    tokio::select! {
        () = follow(app, caller, Told::Listener(context)) => {}
        () = context.cancelled() => {}
        () = app.pipeline().stopping() => {}
    }
    Ok(())
}

/// Tells a stateful connection of every change, in the background, until it is closed.
pub(super) fn announce(app: &App, context: NotificationContext<RoleServer>) {
    let Ok(caller) = caller_of(&context.extensions).cloned() else { return };
    let (app, peer) = (app.clone(), context.peer);
    tokio::spawn(async move {
        tokio::select! {
            () = follow(&app, &caller, Told::Connection(&peer)) => {}
            () = app.pipeline().stopping() => {}
        }
    });
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

/// Tells of every change, until nobody listens.
async fn follow(app: &App, caller: &Caller, told: Told<'_>) {
    let mut before = None;
    while !told.is_gone() {
        let now = match &before {
            None => seen::seen(app, &caller.session).await.map(Some),
            // A look now and then, so that a connection that was closed is noticed.
            Some(before) => match tokio::time::timeout(LOOK_EVERY, seen::changed(app, &caller.session, before)).await {
                Ok(now) => now.map(Some),
                Err(_) => Ok(None),
            },
        };
        match now {
            Ok(Some(now)) => {
                if before.is_some() && !told.tell().await {
                    return;
                }
                before = Some(now);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "whether a catalogue has changed cannot be told now");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }
}
