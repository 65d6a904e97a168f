//! Tries a connection: asks its address once, with its credential, and says what was answered. Nothing of the answer but its status is told:
//! a server may repeat what it was sent.

use super::Connected;
use crate::web::headers;
use countersign_core::source::Error;
use countersign_core::{ConnectionId, OrgId};
use reqwest::header::{ACCEPT, HeaderValue};

/// What the address of a connection answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested {
    pub status: u16,
}

impl Tested {
    /// Whether the credential was taken. Any other answer says so too: whoever is not let in gets 401 or 403.
    pub const fn is_let_in(self) -> bool {
        !matches!(self.status, 401 | 403)
    }
}

impl Connected {
    pub async fn test(&self, org: &OrgId, connection: &ConnectionId) -> Result<Tested, Error> {
        let opened = self.open(org, connection).await?;
        let url = opened.connection.url.clone();
        let credential = self.headers_of(org, opened).await?;
        let mut headers = headers::of_connection(&credential);
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, text/event-stream, */*"));
        let answer = self.fetch.get_once(&url, headers).await?;
        Ok(Tested { status: answer.status })
    }
}
