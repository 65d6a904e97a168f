//! What we are to a server: a client that calls its tools. What else it asks of us is refused with a sentence, and forwarded to nobody.

#![expect(deprecated, reason = "servers of earlier revisions still ask for what later ones no longer have")]

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorCode,
    Implementation, ListRootsResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

/// What we are to a server: a client that runs its tools, and does nothing for it.
pub(super) struct Us;

fn not_for_you(what: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{what}; Countersign calls tools, and does nothing else for a server"), None)
}

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(&self, _: CreateMessageRequestParams, _: RequestContext<RoleClient>) -> Result<CreateMessageResult, ErrorData> {
        Err(not_for_you("no model answers here"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(not_for_you("there are no roots here"))
    }

    async fn create_elicitation(&self, _: ElicitRequestParams, _: RequestContext<RoleClient>) -> Result<ElicitResult, ErrorData> {
        Err(not_for_you("nobody can be asked here"))
    }
}
