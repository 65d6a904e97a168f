//! Messages to people inside the product.

use crate::db::{Columns, Row, Tx, Val, only, vals};
use crate::orgs::not_among;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::notification::{Notification, Notifier};
use countersign_core::{Future, InvocationId, NotificationId, OrgId, SpaceId, random_bytes};
use std::collections::BTreeSet;

impl Notifier for Store {
    fn deliver<'a>(&'a self, notification: &'a Notification) -> Future<'a, Result<(), Error>> {
        Box::pin(async move {
            let notification = notification.clone();
            self.db
                .write(notification.org.clone(), move |tx| {
                    Box::pin(async move {
                        // Once a call has ended, or another server has claimed it, somebody may have been told that it sent nothing.
                        let over = "SELECT 1 FROM invocations WHERE org_id = $1 AND id = $2 AND (status <> 'running' OR run_by <> $3)";
                        let invocation = notification.invocation.as_ref().map(InvocationId::as_str);
                        let params = vals![notification.org.as_str(), invocation, tx.lease().id().as_str()];
                        if !tx.query(over, &params).await?.is_empty() {
                            return Err(Error::Fenced);
                        }
                        // One per invocation: a call that is attempted again does not notify twice.
                        tx.exec(
                            "INSERT INTO notifications (org_id, id, space_id, invocation_id, title, body, created_at)
                             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (org_id, invocation_id) DO NOTHING",
                            &vals![
                                notification.org.as_str(),
                                notification.id.as_str(),
                                notification.space.as_str(),
                                invocation,
                                notification.title.as_str(),
                                notification.body.as_str(),
                                notification.created_at
                            ],
                        )
                        .await
                        .map(|_| ())
                    })
                })
                .await
        })
    }

    fn find_delivered<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<NotificationId>, Error>> {
        Box::pin(async move {
            let (owned, invocation) = (org.clone(), invocation.clone());
            // Read in the order of the writes: a delivery of this process is committed or dropped by then, and one of another holds the
            // org's lock until it is.
            self.db
                .write(org.clone(), move |tx| {
                    Box::pin(async move {
                        let sql = "SELECT id FROM notifications WHERE org_id = $1 AND invocation_id = $2";
                        let rows = tx.query(sql, &vals![owned.as_str(), invocation.as_str()]).await?;
                        only(rows, |row| Columns::of(row).id())
                    })
                })
                .await
        })
    }
}

impl Store {
    /// Lists notifications, newest first, without those of these spaces.
    pub async fn list_notifications(
        &self,
        org: &OrgId,
        hidden: &BTreeSet<SpaceId>,
        request: &PageRequest,
    ) -> Result<Page<Notification>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        let visible = not_among("space_id", hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!(
            "SELECT org_id, id, space_id, invocation_id, title, body, created_at FROM notifications
             WHERE org_id = $1 AND id < $2{visible} ORDER BY id DESC LIMIT ${}",
            params.len()
        );
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_notification, |notification| notification.id.to_string())
    }
}

/// Says something to the people of a space that no call says.
pub(crate) async fn notify_in(store: &Store, tx: &mut Tx, org: &OrgId, space: &SpaceId, title: &str, body: &str) -> Result<(), Error> {
    let id = NotificationId::new(tx.now(), random_bytes(&*store.random));
    let sql = "INSERT INTO notifications (org_id, id, space_id, title, body, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
    tx.exec(sql, &vals![org.as_str(), id.as_str(), space.as_str(), title, body, tx.now()]).await.map(|_| ())
}

fn read_notification(row: Row) -> Result<Notification, Error> {
    let mut columns = Columns::of(row);
    Ok(Notification {
        org: columns.id()?,
        id: columns.id()?,
        space: columns.id()?,
        invocation: columns.id_or_null()?,
        title: columns.text()?,
        body: columns.text()?,
        created_at: columns.time()?,
    })
}
