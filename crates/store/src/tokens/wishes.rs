//! What a token asks for at the MCP door.

use crate::db::{Columns, Tx, only, vals};
use crate::{Error, Store};
use countersign_core::mcp::{McpTools, McpWishes};
use countersign_core::{OrgId, TokenId};

impl Store {
    /// What the clients of a token get; `None` if there is no such token. Every request at the door asks; see `db/remembered.rs`.
    pub async fn find_mcp_wishes(&self, org: &OrgId, token: &TokenId) -> Result<Option<McpWishes>, Error> {
        let sql = "SELECT mcp_tools, hold_seconds FROM tokens WHERE org_id = $1 AND id = $2";
        let params = vals![org.as_str(), token.as_str()];
        let found = self.db.read_remembered(org, sql, &params, |rows| only(rows, |row| read_wishes(&mut Columns::of(row)))).await?;
        Ok(*found)
    }
}

pub(super) fn read_wishes(columns: &mut Columns) -> Result<McpWishes, Error> {
    let (tools, hold_seconds) = (columns.parsed_or_null(McpTools::parse)?, columns.int_or_null()?);
    Ok(McpWishes { tools, hold_seconds: hold_seconds.and_then(|seconds| seconds.try_into().ok()) })
}

/// Writes what a token that was just made asks for.
pub(crate) async fn keep_wishes(tx: &mut Tx, org: &OrgId, token: &TokenId, wishes: McpWishes) -> Result<(), Error> {
    if wishes == McpWishes::default() {
        return Ok(());
    }
    let sql = "UPDATE tokens SET mcp_tools = $1, hold_seconds = $2 WHERE org_id = $3 AND id = $4";
    let (tools, hold) = (wishes.tools.map(McpTools::as_str), wishes.hold_seconds.map(|seconds| seconds as i64));
    tx.exec(sql, &vals![tools, hold, org.as_str(), token.as_str()]).await?;
    Ok(())
}
