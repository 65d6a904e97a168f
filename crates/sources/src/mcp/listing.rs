//! Lists the tools of a server, page by page within bounds, and beside them the requests of the protocol that it answers. A tool that cannot be
//! offered is left out and reported; the others are listed all the same.

use super::call::{METHOD_NOT_FOUND, rpc};
use super::connection::{Connection, Until};
use super::object::object;
use super::readable;
use super::slot::{Answer, Raw};
use super::tier::Because;
use super::tool::{Common, Skipped};
use crate::limits::{MCP_INSTRUCTIONS_CHARS_MAX, MCP_LISTING_BYTES_MAX, MCP_PAGES_MAX, MCP_SKIPPED_MAX, MCP_TOOLS_MAX};
use crate::words::{failed, said, shown};
use countersign_core::source::Error;
use countersign_core::{Action, Digest, clean};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerCapabilities};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    pub actions: Vec<Arc<Action>>,
    /// The tools that are left out, up to `MCP_SKIPPED_MAX`.
    pub skipped: Vec<Skipped>,
    /// How many more are left out.
    pub skipped_more: usize,
    /// Why each action has its tier, by the name of its tool.
    pub because: BTreeMap<String, Because>,
    /// The server's instructions, made safe to show. Their digest is part of each action.
    pub guide: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Lists everything, or says why not: a listing that is not complete would look like tools that are gone.
pub(super) async fn list(connection: &Connection, common: &Common, until: Until) -> Result<Listed, Error> {
    let capabilities = connection.capabilities();
    let (mut reading, mut cursor, mut bytes) = (Reading::new(common, connection.instructions()), None, 0);
    for page in 0..MCP_PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let Raw { text, taken } = match connection.ask(request, None, until).await? {
            Answer::Result(raw) => raw,
            // It has no tools, and never said that it had some.
            Answer::Error(raw) if page == 0 && capabilities.tools.is_none() && rpc(&raw).code == METHOD_NOT_FOUND => {
                return Ok(reading.with_readables(capabilities));
            }
            Answer::Error(raw) => return Err(reading.invalid(&format!("answers an error: {}", said(&rpc(&raw).message)))),
            Answer::Failed(error) => return Err(error),
        };
        bytes += text.len();
        if bytes > MCP_LISTING_BYTES_MAX {
            return Err(reading.invalid(&format!("sends a listing longer than {MCP_LISTING_BYTES_MAX} bytes")));
        }
        let next = reading.page(&text)?;
        drop(taken);
        match next {
            None => return Ok(reading.with_readables(capabilities)),
            next => cursor = next,
        }
    }
    Err(reading.invalid(&format!("sends a listing of more than {MCP_PAGES_MAX} pages")))
}

struct Reading<'c> {
    common: &'c Common,
    names: HashSet<String>,
    guide_sha256: Option<Digest>,
    listed: Listed,
}

impl<'c> Reading<'c> {
    fn new(common: &'c Common, instructions: Option<&str>) -> Self {
        let guide = instructions.and_then(guide);
        let guide_sha256 = guide.as_ref().map(|guide| Digest::new(Sha256::digest(guide).into()));
        Self { common, names: HashSet::new(), guide_sha256, listed: Listed { guide, ..Listed::default() } }
    }

    /// The whole listing: the requests of the protocol come after the tools.
    fn with_readables(mut self, capabilities: &ServerCapabilities) -> Listed {
        for (action, because) in readable::actions(self.common, capabilities) {
            self.take(action, because);
        }
        self.listed
    }

    /// Takes a page, and returns the cursor of the next.
    fn page(&mut self, text: &str) -> Result<Option<String>, Error> {
        let page: Page<'_> = object(text).ok_or_else(|| self.invalid("sends a listing without a list of tools"))?;
        for raw in page.tools {
            if self.names.len() + self.listed.skipped.len() + self.listed.skipped_more >= MCP_TOOLS_MAX {
                return Err(self.invalid(&format!("lists more than {MCP_TOOLS_MAX} tools")));
            }
            match self.common.action(raw.get()) {
                Ok((action, because)) => self.take(action, because),
                Err(skipped) => self.skip(skipped),
            }
        }
        Ok(page.next_cursor.filter(|cursor| !cursor.is_empty()))
    }

    /// Of two tools with one name neither is offered: it would not be known which of them a call reaches.
    fn take(&mut self, action: Action, because: Because) {
        let name = action.id.name().to_owned();
        let why = "its name is listed twice";
        if self.names.contains(&name) {
            self.listed.actions.retain(|listed| listed.id != action.id);
            self.listed.because.remove(&name);
            self.skip(Skipped { tool: Some(shown(&name)), why: why.to_owned() });
            return;
        }
        self.listed.because.insert(name.clone(), because);
        self.names.insert(name);
        self.listed.actions.push(Arc::new(Action { guide_sha256: self.guide_sha256, ..action }));
    }

    fn skip(&mut self, skipped: Skipped) {
        if self.listed.skipped.len() < MCP_SKIPPED_MAX {
            self.listed.skipped.push(skipped);
        } else {
            self.listed.skipped_more += 1;
        }
    }

    fn invalid(&self, does: &str) -> Error {
        failed("listing_invalid", format!("source `{}` {does}; its tools are not listed", self.common.source))
    }
}

/// A server's instructions as a guide. They were written by others, and are shown to agents and people.
fn guide(instructions: &str) -> Option<String> {
    let text: String = clean::block(instructions).chars().take(MCP_INSTRUCTIONS_CHARS_MAX).collect();
    Some(text).filter(|text| !text.trim().is_empty())
}
