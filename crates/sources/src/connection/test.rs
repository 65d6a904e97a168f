//! Tries a connection: asks its address once with its credential, and once without, and says what was answered; a mail server is asked in
//! `mail`. Nothing of the answers but
//! their status is told: a server may repeat what it was sent.

use super::Connected;
use crate::oauth::Answer;
use crate::web::headers;
use crate::words::failed;
use countersign_core::ports::connections::{ConnectionKind, ConnectionName};
use countersign_core::source::Error;
use countersign_core::{ConnectionId, OrgId};
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;

const ANYTHING: &str = "application/json, text/event-stream, */*";

/// What the address of a connection answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested {
    pub status: u16,
    /// The status of the same request without the credential; `None` if it was not sent or not answered.
    pub status_without: Option<u16>,
    /// The answer is a message of an MCP server, whatever its status.
    is_message: bool,
}

impl Tested {
    /// What a mail server answered: a code of SMTP.
    pub(super) const fn of_mail(status: u16) -> Self {
        Self { status, status_without: None, is_message: false }
    }

    /// Whether the credential was taken; `None` if the answer does not say.
    pub const fn is_let_in(self) -> Option<bool> {
        let is_closed = matches!(self.status_without, Some(401 | 403));
        match self.status {
            // With the last two a mail server refuses a login, and a sender. HTTP has no such statuses.
            401 | 403 | 535 | 550 => Some(false),
            // Whoever answers everybody has not looked at the credential.
            200..=299 if matches!(self.status_without, Some(200..=299)) => None,
            200..=299 => Some(true),
            // So an MCP server answers a GET, and only those whom it lets in.
            405 | 406 if is_closed => Some(true),
            _ if is_closed && self.is_message => Some(true),
            _ => None,
        }
    }
}

impl Connected {
    pub async fn test(&self, org: &OrgId, connection: &ConnectionId) -> Result<Tested, Error> {
        let opened = self.open(org, connection).await?;
        if opened.connection.kind == ConnectionKind::Smtp {
            return self.test_mail(opened).await;
        }
        let (name, url) = (opened.connection.name.clone(), opened.connection.url.clone());
        let credential = self.headers_of(org, opened).await?;
        let without = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ANYTHING))]);
        let mut headers = without.clone();
        headers.extend(headers::of_connection(&credential));
        let answer = self.fetch().get_once(&url, headers).await.map_err(|error| unanswered(&name, error))?;
        let status_without = match answer.status {
            401 | 403 => None,
            _ => self.fetch().get_once(&url, without).await.ok().map(|answer| answer.status),
        };
        Ok(Tested { status: answer.status, status_without, is_message: is_message(&answer, &url) })
    }
}

fn is_message(answer: &Answer, url: &str) -> bool {
    answer.json::<Value>(url).is_ok_and(|message| message["jsonrpc"] == "2.0")
}

/// Nobody logs in here, and no source is asked: the address is the cause.
fn unanswered(name: &ConnectionName, error: Error) -> Error {
    let (Error::Unreachable { message, .. } | Error::Failed { code: "login_failed", message }) = &error else {
        return error;
    };
    failed("connection_unreachable", format!("the address of connection `{name}` gave no answer: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_nobody_else_gets_says_that_the_credential_was_taken() {
        for (status, is_message, status_without, expected) in [
            (200, false, Some(401), Some(true)),
            (204, false, Some(404), Some(true)),
            (200, false, None, Some(true)),
            // Nobody looks at the credential there.
            (200, false, Some(200), None),
            (405, false, Some(401), Some(true)),
            (406, false, Some(403), Some(true)),
            (405, false, Some(405), None),
            (405, false, None, None),
            (400, true, Some(401), Some(true)),
            (400, true, Some(400), None),
            (400, false, Some(401), None),
            (404, false, Some(401), None),
            (404, false, Some(404), None),
            (500, false, Some(401), None),
            (302, false, Some(401), None),
            (401, true, None, Some(false)),
            (403, false, None, Some(false)),
            (250, false, None, Some(true)),
            (535, false, None, Some(false)),
            (550, false, None, Some(false)),
        ] {
            let tested = Tested { status, status_without, is_message };
            assert_eq!(tested.is_let_in(), expected, "{tested:?}");
        }
    }

    #[test]
    fn an_address_that_does_not_answer_is_named_by_its_connection() {
        let name = ConnectionName::parse("github").unwrap();
        let away = Error::Unreachable { source_id: "connection".into(), message: "`https://x.test`: connection refused".into() };
        let told = unanswered(&name, away);
        assert_eq!(told.code(), "connection_unreachable");
        assert_eq!(told.to_string(), "the address of connection `github` gave no answer: `https://x.test`: connection refused");
        let late = unanswered(&name, failed("login_failed", "`https://x.test` did not answer within 10000 ms"));
        assert_eq!(late.code(), "connection_unreachable");
        assert_eq!(unanswered(&name, failed("other", "x")), failed("other", "x"));
    }
}
