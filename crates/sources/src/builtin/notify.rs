//! `notify`: a message to the people of the org, shown inside the product as plain text.

use crate::builtin::{Builtin, Open, VERSION, action_id, object_schema, read_params, source_id, unknown_action};
use crate::limits::{MEDIUM_TIMEOUT_MS, NOTIFICATION_BODY_CHARS_MAX, NOTIFICATION_TITLE_CHARS_MAX};
use crate::words::{failed, refused};
use countersign_core::action::Effect;
use countersign_core::notification::{Notification, Notifier};
use countersign_core::source::{CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, Clock, Future, NotificationId, OrgId, Random, SourceId, Tier, ledger, random_bytes};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const BUILTIN: Builtin = Builtin {
    actions: || Ok(vec![Arc::new(definition()?)]),
    open: Open::Once(|parts| {
        let (notifier, clock, random) = (Arc::clone(&parts.notifier), Arc::clone(&parts.clock), Arc::clone(&parts.random));
        Ok(Some(Arc::new(Notify::new(notifier, clock, random)?)))
    }),
};

/// The source `notify`.
pub struct Notify {
    id: SourceId,
    action: Arc<Action>,
    notifier: Arc<dyn Notifier>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    title: String,
    body: String,
}

impl Notify {
    pub fn new(notifier: Arc<dyn Notifier>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self, crate::Error> {
        Ok(Self { id: source_id("notify")?, action: Arc::new(definition()?), notifier, clock, random })
    }

    async fn send(&self, context: &CallContext, action: &ActionId, params: &Value) -> Result<Output, Error> {
        if *action != self.action.id {
            return Err(unknown_action(action));
        }
        let Send { title, body } = read_params(action, params)?;
        check_length("title", &title, NOTIFICATION_TITLE_CHARS_MAX)?;
        check_length("body", &body, NOTIFICATION_BODY_CHARS_MAX)?;
        let now = self.clock.now();
        let notification = Notification {
            id: NotificationId::new(now, random_bytes(&*self.random)),
            org: context.org.clone(),
            space: context.space.clone(),
            invocation: Some(context.invocation.clone()),
            title,
            body,
            created_at: now,
        };
        self.notifier.deliver(&notification).await.map_err(meaning)?;
        Ok(sent(&notification.id))
    }

    /// Looks for the notification: an invocation sends one in a single write, so its row shows whether it happened.
    async fn find_out(&self, context: &CallContext) -> Result<Reconciled, Error> {
        let found = self.notifier.find_delivered(&context.org, &context.invocation).await.map_err(meaning)?;
        Ok(found.map_or(Reconciled::DidNot, |id| Reconciled::Happened(sent(&id))))
    }
}

impl Source for Notify {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn title(&self) -> &str {
        "Notifications"
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        Some(include_str!("notify/guide.md").into())
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(std::future::ready(Ok(vec![self.action.clone()])))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.send(context, action, params))
    }

    fn reconcile<'a>(
        &'a self,
        context: &'a CallContext,
        _action: &'a ActionId,
        _params: &'a Value,
    ) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(self.find_out(context))
    }
}

fn sent(notification: &NotificationId) -> Output {
    Output { value: json!({ "notification_id": notification }), quality_thousandths: 1_000, evidence: None }
}

fn check_length(field: &str, text: &str, chars_max: usize) -> Result<(), Error> {
    if text.trim().is_empty() {
        return Err(refused("invalid_params", format!("`{field}` is empty")));
    }
    if text.chars().nth(chars_max).is_some() {
        return Err(refused("invalid_params", format!("`{field}` is longer than {chars_max} characters")));
    }
    Ok(())
}

/// Converts an error of the store to an error of the source.
fn meaning(error: ledger::Error) -> Error {
    let source_id = || "notify".to_owned();
    match error {
        ledger::Error::Unavailable { message } => Error::Unreachable { source_id: source_id(), message },
        ledger::Error::Fenced => Error::Unreachable { source_id: source_id(), message: error.to_string() },
        ledger::Error::CommitUnknown { message } => Error::Broken { source_id: source_id(), message },
        // The store's own message goes to the log, not to the caller.
        ledger::Error::Corrupt { .. } => failed("notification_refused", "the store did not accept the notification; nobody was notified"),
    }
}

fn definition() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Notify people".to_owned(),
        description: "Shows a message to the people of the org. An invocation notifies once, however often it is tried.".to_owned(),
        params_schema: object_schema(
            json!({
                "title": text_schema(NOTIFICATION_TITLE_CHARS_MAX, "One line."),
                "body": text_schema(NOTIFICATION_BODY_CHARS_MAX, "Plain text; markup is shown, not rendered."),
            }),
            &["title", "body"],
        ),
        result_schema: object_schema(json!({ "notification_id": { "type": "string", "maxLength": 64 } }), &["notification_id"]),
        requires: vec!["notify.send".to_owned()],
        effects: vec![Effect::DeviceNotification],
        timeout_ms: MEDIUM_TIMEOUT_MS,
        // A message that was read cannot be unread, so there is no rollback.
        ..Action::new(action_id("notify.send")?, Tier::R3)
    })
}

fn text_schema(chars_max: usize, description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": chars_max, "description": description })
}

#[cfg(test)]
#[path = "notify_tests.rs"]
mod tests;
