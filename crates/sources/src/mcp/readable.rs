//! What of a server is no tool and can only be read: its prompts and resources. They are passed through as the server wrote them.

use super::connection::{Connection, Until};
use super::listing::rpc;
use super::slot::Answer;
use super::wire::object;
use crate::words::{failed, said};
use countersign_core::SourceId;
use countersign_core::source::Error;
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value};

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable {
    Prompts { cursor: Option<String> },
    Prompt { name: String, arguments: Map<String, Value> },
    Resources { cursor: Option<String> },
    Templates { cursor: Option<String> },
    Resource { uri: String },
}

impl Readable {
    fn request(self) -> ClientRequest {
        let page = |cursor| PaginatedRequestParams::default().with_cursor(cursor);
        match self {
            Self::Prompts { cursor } => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(page(cursor))),
            Self::Prompt { name, arguments } => {
                ClientRequest::GetPromptRequest(GetPromptRequest::new(GetPromptRequestParams::new(name).with_arguments(arguments)))
            }
            Self::Resources { cursor } => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page(cursor))),
            Self::Templates { cursor } => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(page(cursor)))
            }
            Self::Resource { uri } => ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri))),
        }
    }
}

pub(super) async fn read(connection: &Connection, source: &SourceId, what: Readable, until: Until) -> Result<Value, Error> {
    let broken = |message: &str| Error::Broken { source_id: source.to_string(), message: message.to_owned() };
    match connection.ask(what.request(), None, until).await? {
        Answer::Result(raw) => {
            let read: Map<String, Value> = object(&raw.text).ok_or_else(|| broken("its answer is not an object"))?;
            match read.get("resultType").and_then(Value::as_str) {
                None | Some("complete") => Ok(Value::Object(read)),
                Some(_) => Err(broken("it asks for input before it answers, and nobody can be asked")),
            }
        }
        Answer::Error(raw) => Err(failed("source_refused", format!("source `{source}` refused the request: {}", said(&rpc(&raw).message)))),
        Answer::Failed(error) => Err(error),
    }
}
