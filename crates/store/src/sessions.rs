//! Sessions, in which agents work. Creating one also creates its agent's token, in the same write.

use crate::db::{About, Columns, ReadSessions, Row, Val, all, only, to_json, vals};
use crate::orgs::not_among;
use crate::tokens::{Maker, NewToken, TokenKind, draw_token, insert_token, keep_wishes};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::mcp::McpWishes;
use countersign_core::ports::Sessions;
use countersign_core::principal::Device;
use countersign_core::session::{Attendance, Session, SessionLabel};
use countersign_core::{AutomationId, Future, InvocationId, OrgId, PrincipalId, SessionId, SourceId, SpaceId, UserId, random_bytes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub space: SpaceId,
    pub created_by: PrincipalId,
    pub owner: Option<UserId>,
    pub title: String,
    pub attendance: Attendance,
    pub automation: Option<AutomationId>,
    /// The sources it is connected to; absent: all.
    pub sources: Option<BTreeSet<SourceId>>,
    /// The device that its agent's token is bound to.
    pub device: Option<Device>,
    pub token_lifetime_seconds: Option<u64>,
    /// What its agent gets over MCP.
    pub mcp: McpWishes,
}

macro_rules! select_session {
    () => {
        "SELECT org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, asked_by, sources, created_at, ended_at
         FROM sessions WHERE org_id = $1"
    };
}

impl Sessions for Store {
    fn find_session<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<Session>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_session!(), " AND id = $2");
            let params = vals![org.as_str(), session.as_str()];
            let about = |_: &_| About { org: Some(org.clone()), sessions: ReadSessions::Only(Some(session.clone())) };
            let session = self.db.read_remembered_of(sql, &params, |rows| only(rows, read_session), about).await?;
            let Some(mut session) = Option::clone(&session) else {
                return Ok(None);
            };
            // The sessions of a disabled org count as ended, so that no part of a running batch starts either.
            if session.ended_at.is_none() && !self.is_enabled(org).await? {
                session.ended_at = Some(session.created_at);
            }
            Ok(Some(session))
        })
    }

    fn chain_of<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Option<String>, Error>> {
        Box::pin(async move { Ok(self.find_run_of_session(org, session).await?.map(|run| self.sign_chain(org, &run.chain))) })
    }

    fn find_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Arc<Vec<String>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT label FROM session_labels WHERE org_id = $1 AND session_id = $2 ORDER BY label";
            let params = vals![org.as_str(), session.as_str()];
            self.db.read_remembered(org, sql, &params, |rows| all(rows, |row| Columns::of(row).text())).await
        })
    }

    fn list_labels<'a>(&'a self, org: &'a OrgId, session: &'a SessionId) -> Future<'a, Result<Vec<SessionLabel>, Error>> {
        Box::pin(async move {
            let sql = "SELECT label, at, invocation_id FROM session_labels WHERE org_id = $1 AND session_id = $2 ORDER BY at, label";
            all(self.db.read(sql, &vals![org.as_str(), session.as_str()]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok(SessionLabel { label: columns.text()?, at: columns.time()?, invocation: columns.id_or_null()? })
            })
        })
    }

    fn label_session<'a>(
        &'a self,
        org: &'a OrgId,
        session: &'a SessionId,
        label: &'static str,
        invocation: &'a InvocationId,
    ) -> Future<'a, Result<(), Error>> {
        let (org, session, invocation) = (org.clone(), session.clone(), invocation.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                tx.exec(
                    "INSERT INTO session_labels (org_id, session_id, label, at, invocation_id) VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (org_id, session_id, label) DO NOTHING",
                    &vals![org.as_str(), session.as_str(), label, tx.now(), invocation.as_str()],
                )
                .await
                .map(|_| ())
            })
        }))
    }
}

impl Store {
    pub async fn create_session(&self, org: &OrgId, new: NewSession) -> Result<(Session, NewToken), Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let created_at = tx.now();
                    let session = Session {
                        id: SessionId::new(created_at, random_bytes(&*store.random)),
                        org: org.clone(),
                        space: new.space,
                        created_by: new.created_by,
                        owner: new.owner,
                        title: new.title,
                        attendance: new.attendance,
                        automation: new.automation,
                        asked_by: None,
                        sources: new.sources,
                        created_at,
                        ended_at: None,
                    };
                    let sources = session.sources.as_ref().map(to_json).transpose()?;
                    tx.exec(
                        "INSERT INTO sessions (org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, sources, created_at)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                        &vals![
                            org.as_str(),
                            session.id.as_str(),
                            session.space.as_str(),
                            session.created_by.to_string(),
                            session.owner.as_ref().map(UserId::as_str),
                            session.title.as_str(),
                            session.attendance.as_str(),
                            session.automation.as_ref().map(AutomationId::as_str),
                            sources,
                            created_at
                        ],
                    )
                    .await?;
                    let kind = TokenKind::Agent(session.id.clone());
                    let text = draw_token(&*store.random, kind.as_str());
                    let maker = Maker { by: Some(session.created_by.clone()), with: None, device: new.device, sign_in: None };
                    let lifetime = new.token_lifetime_seconds;
                    let token = insert_token(&store, tx, &org, kind, &session.title, &[], lifetime, text, maker).await?;
                    keep_wishes(tx, &org, &token.id, new.mcp).await?;
                    Ok((session, token))
                })
            })
            .await
    }

    /// Lists sessions, newest first, without those of these spaces. Those of runs are seen with their run.
    pub async fn list_sessions(&self, org: &OrgId, hidden: &BTreeSet<SpaceId>, request: &PageRequest) -> Result<Page<Session>, Error> {
        let after = request.after.as_deref().unwrap_or("~");
        let mut params = vals![org.as_str(), after].to_vec();
        let others = not_among("space_id", hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!(
            "{} AND created_by NOT LIKE 'automation:%' AND id < $2{others} ORDER BY id DESC LIMIT ${}",
            select_session!(),
            params.len()
        );
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_session, |session| session.id.to_string())
    }

    /// Ends a session: its token stops working at once. Ending twice changes nothing.
    pub async fn end_session(&self, org: &OrgId, session: &SessionId) -> Result<Option<Session>, Error> {
        let (owned_org, owned_session) = (org.clone(), session.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    tx.exec(
                        "UPDATE sessions SET ended_at = $1 WHERE org_id = $2 AND id = $3 AND ended_at IS NULL",
                        &vals![tx.now(), owned_org.as_str(), owned_session.as_str()],
                    )
                    .await
                })
            })
            .await?;
        self.find_session(org, session).await
    }
}

fn read_session(row: Row) -> Result<Session, Error> {
    let mut columns = Columns::of(row);
    Ok(Session {
        org: columns.id()?,
        id: columns.id()?,
        space: columns.id()?,
        created_by: columns.parsed(PrincipalId::parse)?,
        owner: columns.id_or_null()?,
        title: columns.text()?,
        attendance: columns.parsed(Attendance::parse)?,
        automation: columns.id_or_null()?,
        asked_by: columns.id_or_null()?,
        sources: columns.parsed_or_null(|text| serde_json::from_str(text).ok())?,
        created_at: columns.time()?,
        ended_at: columns.time_or_null()?,
    })
}
