//! What of a server is no tool and can only be read: its resources and prompts. The requests for them are actions like the tools, but defined
//! here: nothing that the server writes is part of them. Their answers are carried as the server wrote them.

use super::call::{refusal, rpc};
use super::connection::{Connection, Until};
use super::object::object;
use super::slot::Answer;
use super::tier::{Annotations, Because, Tiered, tier};
use super::tool::Common;
use crate::words::refused;
use countersign_core::source::{Error, Output};
use countersign_core::{Action, ActionId};
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ServerCapabilities,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A request of the protocol that is an action. Their names are `PROTOCOL_ACTIONS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable {
    Resources,
    Templates,
    Resource,
    Prompts,
    Prompt,
}

/// The words of a definition that are the same for every server.
struct Words {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The member of an answer that has what was asked for.
    answer: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByUri {
    uri: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByName {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Readable {
    const ALL: [Self; 5] = [Self::Resources, Self::Templates, Self::Resource, Self::Prompts, Self::Prompt];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|readable| readable.words().name == name)
    }

    const fn words(self) -> Words {
        match self {
            Self::Resources => Words {
                name: "resources.list",
                title: "List resources",
                description: "Lists the resources that the MCP server offers for reading, one page at a time.",
                answer: "resources",
            },
            Self::Templates => Words {
                name: "resources.templates.list",
                title: "List resource templates",
                description: "Lists the templates from which addresses of resources of the MCP server are made, one page at a time.",
                answer: "resourceTemplates",
            },
            Self::Resource => Words {
                name: "resources.read",
                title: "Read a resource",
                description: "Reads one resource of the MCP server.",
                answer: "contents",
            },
            Self::Prompts => Words {
                name: "prompts.list",
                title: "List prompts",
                description: "Lists the prompts that the MCP server offers, one page at a time.",
                answer: "prompts",
            },
            Self::Prompt => Words {
                name: "prompts.get",
                title: "Get a prompt",
                description: "Gets one prompt of the MCP server, filled in with these arguments.",
                answer: "messages",
            },
        }
    }

    fn params_schema(self) -> Value {
        let text = |description: &str| json!({ "type": "string", "minLength": 1, "description": description });
        let (properties, required) = match self {
            Self::Resources | Self::Templates | Self::Prompts => {
                (json!({ "cursor": text("The `nextCursor` of the page before; absent for the first page.") }), json!([]))
            }
            Self::Resource => (json!({ "uri": text("The address of the resource.") }), json!(["uri"])),
            Self::Prompt => {
                let arguments = json!({ "type": "object", "additionalProperties": { "type": "string" },
                    "description": "The arguments that the prompt asks for, by name." });
                (json!({ "name": text("The name of the prompt."), "arguments": arguments }), json!(["name"]))
            }
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn action(self, common: &Common) -> Option<(Action, Because)> {
        let Words { name, title, description, answer } = self.words();
        let id = ActionId::parse(&format!("{}.{name}", common.source)).ok()?;
        let Tiered { tier, because } = tier(name, Annotations::default(), &common.tiers);
        let list = json!({ "type": "array", "items": { "type": "object" } });
        let action = Action {
            title: title.to_owned(),
            description: description.to_owned(),
            params_schema: self.params_schema(),
            result_schema: json!({ "type": "object", "properties": { answer: list }, "required": [answer] }),
            ..common.base(id, tier)
        };
        Some((action, because))
    }

    fn request(self, action: &ActionId, params: &Value) -> Result<ClientRequest, Error> {
        let page = || read::<Page>(action, params).map(|page| PaginatedRequestParams::default().with_cursor(page.cursor));
        Ok(match self {
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page()?)),
            Self::Templates => ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(page()?)),
            Self::Resource => {
                let ByUri { uri } = read(action, params)?;
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri)))
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(page()?)),
            Self::Prompt => {
                let ByName { name, arguments } = read(action, params)?;
                ClientRequest::GetPromptRequest(GetPromptRequest::new(GetPromptRequestParams::new(name).with_arguments(arguments)))
            }
        })
    }

    /// Makes the request.
    pub(super) async fn ask(self, connection: &Connection, action: &ActionId, params: &Value, until: Until) -> Result<Output, Error> {
        let broken = |message: &str| Error::Broken { source_id: action.source().to_owned(), message: message.to_owned() };
        match connection.ask(self.request(action, params)?, None, until).await? {
            Answer::Result(raw) => {
                let answer: Map<String, Value> = object(&raw.text).ok_or_else(|| broken("its answer is not an object"))?;
                match answer.get("resultType").and_then(Value::as_str) {
                    None | Some("complete") => Ok(Output::new(Value::Object(answer))),
                    Some(_) => Err(broken("it asks for input before it answers, and nobody can be asked")),
                }
            }
            Answer::Error(raw) => Err(refusal(action, rpc(&raw))),
            Answer::Failed(error) => Err(error),
        }
    }
}

/// The requests that a server with these capabilities answers, each as an action, and why it has its tier.
pub(super) fn actions(common: &Common, capabilities: &ServerCapabilities) -> Vec<(Action, Because)> {
    let is_offered = |readable: &Readable| match readable {
        Readable::Resources | Readable::Templates | Readable::Resource => capabilities.resources.is_some(),
        Readable::Prompts | Readable::Prompt => capabilities.prompts.is_some(),
    };
    Readable::ALL.into_iter().filter(is_offered).filter_map(|readable| readable.action(common)).collect()
}

fn read<T: for<'de> Deserialize<'de>>(action: &ActionId, params: &Value) -> Result<T, Error> {
    T::deserialize(params).map_err(|_| refused("invalid_params", format!("the params do not fit the schema of `{action}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::action::PROTOCOL_ACTIONS;

    #[test]
    fn every_request_has_the_name_that_no_tool_may_have() {
        assert_eq!(Readable::ALL.map(|readable| readable.words().name), PROTOCOL_ACTIONS);
        assert_eq!(PROTOCOL_ACTIONS.map(Readable::named), Readable::ALL.map(Some));
        assert_eq!(Readable::named("resources"), None);
    }
}
