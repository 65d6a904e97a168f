//! The server's MCP endpoint, for `countersign mcp`: requests with the token and nothing else, and the words for what goes wrong.

use super::{Client, Effect, problem};
use crate::exit::Failure;
use reqwest::{Method, RequestBuilder, Response};

impl Client {
    /// A request to `/mcp`. `session` is the session to act in, for a token that has none of its own.
    pub(crate) fn mcp(&self, method: Method, session: Option<&str>) -> Result<RequestBuilder, Failure> {
        let request = self.at(method, &["mcp"])?;
        Ok(match session {
            Some(session) => request.query(&[("session", session)]),
            None => request,
        })
    }

    /// Why a request had no answer. A call may have been made all the same.
    pub(crate) fn mcp_unreachable(&self, error: &reqwest::Error) -> Failure {
        self.unreachable(error, Effect::Possible)
    }

    /// Why the server refused a request.
    pub(crate) async fn mcp_refused(&self, response: Response) -> Failure {
        self.refused(problem(response).await)
    }
}
