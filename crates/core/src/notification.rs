//! Messages to people inside the product.

use crate::{Future, InvocationId, NotificationId, OrgId, SpaceId, Timestamp, ledger};
use serde::{Deserialize, Serialize};

/// A message shown to people inside the product. The sender writes the text, and it is shown as plain text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    pub id: NotificationId,
    pub org: OrgId,
    pub space: SpaceId,
    /// The invocation that sent it. Each invocation sends at most one notification, so a repeated call does not notify twice. Absent: the server
    /// says it itself.
    pub invocation: Option<InvocationId>,
    pub title: String,
    pub body: String,
    pub created_at: Timestamp,
}

/// Delivers notifications. When it returns, the notification is durable.
pub trait Notifier: Send + Sync {
    fn deliver<'a>(&'a self, notification: &'a Notification) -> Future<'a, Result<(), ledger::Error>>;
    /// The notification that an invocation sent. The answer is final: a delivery that was under way has ended before.
    fn find_delivered<'a>(
        &'a self,
        org: &'a OrgId,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<Option<NotificationId>, ledger::Error>>;
}
