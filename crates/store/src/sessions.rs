//! Sessions: where agents work. Creating one gives its agent a token, in the same write.

use crate::db::{Columns, Row, vals};
use crate::tokens::{NewToken, TokenKind, draw_token, insert_token};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::session::{Attendance, Session, SessionLabel};
use countersign_core::{AutomationId, InvocationId, OrgId, PrincipalId, SessionId, SpaceId, UserId, random_bytes};
use std::sync::Arc;

/// A session to be created.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub space: SpaceId,
    pub created_by: PrincipalId,
    pub owner: Option<UserId>,
    pub title: String,
    pub attendance: Attendance,
    pub automation: Option<AutomationId>,
    pub token_lifetime_seconds: Option<u64>,
}

macro_rules! select_session {
    () => {
        "SELECT org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, created_at, ended_at FROM sessions WHERE org_id = $1"
    };
}

impl Store {
    pub async fn create_session(&self, org: &OrgId, new: NewSession) -> Result<(Session, NewToken), Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(move |tx| {
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
                        created_at,
                        ended_at: None,
                    };
                    tx.exec(
                        "INSERT INTO sessions (org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, created_at)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                        &vals![
                            org.as_str(),
                            session.id.as_str(),
                            session.space.as_str(),
                            session.created_by.to_string(),
                            session.owner.as_ref().map(UserId::as_str),
                            session.title.as_str(),
                            session.attendance.as_str(),
                            session.automation.as_ref().map(AutomationId::as_str),
                            created_at
                        ],
                    )
                    .await?;
                    let kind = TokenKind::Agent(session.id.clone());
                    let text = draw_token(&*store.random, kind.as_str());
                    let token = insert_token(&store, tx, &org, kind, &session.title, &[], new.token_lifetime_seconds, text).await?;
                    Ok((session, token))
                })
            })
            .await
    }

    pub async fn find_session(&self, org: &OrgId, session: &SessionId) -> Result<Option<Session>, Error> {
        let sql = concat!(select_session!(), " AND id = $2");
        let only = |rows: Vec<Row>| rows.into_iter().next().map(read_session).transpose();
        let session = self.db.read_remembered(sql, &vals![org.as_str(), session.as_str()], only).await?;
        Ok(Option::clone(&session))
    }

    /// What the session has come to hold.
    pub(crate) async fn labels_of(&self, org: &OrgId, session: &SessionId) -> Result<Arc<Vec<String>>, Error> {
        let sql = "SELECT label FROM session_labels WHERE org_id = $1 AND session_id = $2 ORDER BY label";
        let parse = |rows: Vec<Row>| rows.into_iter().map(|row| Columns::of(row).text()).collect();
        self.db.read_remembered(sql, &vals![org.as_str(), session.as_str()], parse).await
    }

    /// The same with where it came from, in the order it came.
    pub(crate) async fn label_origins(&self, org: &OrgId, session: &SessionId) -> Result<Vec<SessionLabel>, Error> {
        let sql = "SELECT label, at, invocation_id FROM session_labels WHERE org_id = $1 AND session_id = $2 ORDER BY at, label";
        let rows = self.db.read(sql, &vals![org.as_str(), session.as_str()]).await?;
        let read = |row| {
            let mut columns = Columns::of(row);
            let (label, at) = (columns.text()?, columns.time()?);
            Ok(SessionLabel { label, at, invocation: columns.parsed_or_null(|text| InvocationId::parse(text).ok())? })
        };
        rows.into_iter().map(read).collect()
    }

    pub(crate) async fn label(
        &self,
        org: &OrgId,
        session: &SessionId,
        label: &'static str,
        invocation: &InvocationId,
    ) -> Result<(), Error> {
        let (org, session, invocation) = (org.clone(), session.clone(), invocation.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    tx.exec(
                        "INSERT INTO session_labels (org_id, session_id, label, at, invocation_id) VALUES ($1, $2, $3, $4, $5)
                         ON CONFLICT (org_id, session_id, label) DO NOTHING",
                        &vals![org.as_str(), session.as_str(), label, tx.now(), invocation.as_str()],
                    )
                    .await
                    .map(|_| ())
                })
            })
            .await
    }

    /// Newest first.
    pub async fn list_sessions(&self, org: &OrgId, request: &PageRequest) -> Result<Page<Session>, Error> {
        let after = request.after.as_deref().unwrap_or("~");
        let rows = self
            .db
            .read(
                concat!(select_session!(), " AND id < $2 ORDER BY id DESC LIMIT $3"),
                &vals![org.as_str(), after, i64::from(request.limit) + 1],
            )
            .await?;
        let sessions = rows.into_iter().map(read_session).collect::<Result<Vec<_>, _>>()?;
        Ok(page(sessions, request.limit, |session| session.id.to_string()))
    }

    /// Ends a session: its token stops working at once. Ending twice changes nothing.
    pub async fn end_session(&self, org: &OrgId, session: &SessionId) -> Result<Option<Session>, Error> {
        let (owned_org, owned_session) = (org.clone(), session.clone());
        self.db
            .write(move |tx| {
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
        org: columns.parsed(|text| OrgId::parse(text).ok())?,
        id: columns.parsed(|text| SessionId::parse(text).ok())?,
        space: columns.parsed(|text| SpaceId::parse(text).ok())?,
        created_by: columns.parsed(PrincipalId::parse)?,
        owner: columns.parsed_or_null(|text| UserId::parse(text).ok())?,
        title: columns.text()?,
        attendance: columns.parsed(Attendance::parse)?,
        automation: columns.parsed_or_null(|text| AutomationId::parse(text).ok())?,
        created_at: columns.time()?,
        ended_at: columns.time_or_null()?,
    })
}
