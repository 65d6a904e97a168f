//! The server's MCP endpoint, for `countersign mcp`: requests with the token and nothing else, and the words for what goes wrong.

use super::{Client, Effect, problem};
use crate::exit::Failure;
use reqwest::{Method, RequestBuilder, Response};

impl Client {
    /// A request to `/mcp`, with what its address asks for.
    pub(crate) fn mcp(&self, method: Method, wishes: &[(&str, String)]) -> Result<RequestBuilder, Failure> {
        Ok(self.at(method, &["mcp"])?.query(wishes))
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
