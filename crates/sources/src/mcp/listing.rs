//! Lists the tools of a server, page by page within bounds. A tool that cannot be offered is left out and reported; the others are listed
//! all the same.

use super::connection::{Connection, Until};
use super::slot::{Answer, Raw};
use super::tier::Because;
use super::tool::{Common, Skipped};
use super::wire::object;
use crate::words::{failed, said, shown};
use countersign_core::Action;
use countersign_core::limits::{MCP_LISTING_BYTES_MAX, MCP_PAGES_MAX, MCP_SKIPPED_MAX, MCP_TOOLS_MAX};
use countersign_core::source::Error;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The tools that a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    pub actions: Vec<Arc<Action>>,
    /// The tools that are left out, up to `MCP_SKIPPED_MAX`.
    pub skipped: Vec<Skipped>,
    /// How many more are left out.
    pub skipped_more: usize,
    /// Why each action has its tier, by the name of its tool.
    pub because: BTreeMap<String, Because>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A JSON-RPC error.
#[derive(Deserialize)]
pub(super) struct Rpc {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// Lists all tools, or says why not: a listing that is not complete would look like tools that are gone.
pub(super) async fn list(connection: &Connection, common: &Common, until: Until) -> Result<Listed, Error> {
    let (mut reading, mut cursor, mut bytes) = (Reading::new(common), None, 0);
    for _ in 0..MCP_PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let Raw { text, taken } = match connection.ask(request, None, until).await? {
            Answer::Result(raw) => raw,
            Answer::Error(raw) if rpc(&raw).code == METHOD_NOT_FOUND => return Ok(Listed::default()),
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
            None => return Ok(reading.listed),
            next => cursor = next,
        }
    }
    Err(reading.invalid(&format!("sends a listing of more than {MCP_PAGES_MAX} pages")))
}

pub(super) fn rpc(raw: &Raw) -> Rpc {
    object(&raw.text).unwrap_or(Rpc { code: 0, message: String::new(), data: Value::Null })
}

struct Reading<'c> {
    common: &'c Common,
    names: HashSet<String>,
    listed: Listed,
}

impl<'c> Reading<'c> {
    fn new(common: &'c Common) -> Self {
        Self { common, names: HashSet::new(), listed: Listed::default() }
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
        self.listed.actions.push(Arc::new(action));
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
