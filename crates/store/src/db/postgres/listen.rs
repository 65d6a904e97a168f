//! Hears when another server changes what this one remembers. While nobody would tell us, nothing is remembered.

use super::super::remembered::{Remembered, Trust};
use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;
use tokio_postgres::{AsyncMessage, Client, Config};

/// Said in the transaction that changes something remembered: heard by all when it commits, and by nobody when it does not.
pub(super) const TELL: &str = "NOTIFY countersign_changed";
const LISTEN: &str = "LISTEN countersign_changed";

/// How long a connection that died without a word may go unnoticed.
const ASKED_EVERY: Duration = Duration::from_secs(5);
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// Ends when the store is gone.
pub(super) async fn listen(config: Config, remembered: Weak<Remembered>) {
    while remembered.strong_count() > 0 {
        if let Ok((client, connection)) = config.connect(super::tls()).await {
            hear(&client, connection, &remembered).await;
        }
        if let Some(remembered) = remembered.upgrade() {
            remembered.trust(Trust::Uninformed);
        }
        tokio::time::sleep(TRIED_EVERY).await;
    }
}

/// Until the connection ends, or no longer answers.
async fn hear<S, T>(client: &Client, mut connection: tokio_postgres::Connection<S, T>, remembered: &Weak<Remembered>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let messages = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let (AsyncMessage::Notification(_), Some(remembered)) = (message, remembered.upgrade()) {
                remembered.forget();
            }
        }
    };
    let answers = async {
        let mut words = LISTEN;
        while let Ok(Ok(())) = tokio::time::timeout(ASKED_EVERY, client.batch_execute(words)).await {
            let Some(remembered) = remembered.upgrade() else {
                return;
            };
            if words == LISTEN {
                // Whatever was told before we listened is not in memory: nothing is.
                remembered.trust(Trust::Informed);
                words = "";
            }
            drop(remembered);
            tokio::time::sleep(ASKED_EVERY).await;
        }
    };
    tokio::select! {
        () = messages => {}
        () = answers => {}
    }
}
