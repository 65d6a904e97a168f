//! Principals: who may act, with which role, and up to which band.

use crate::db::{Columns, Row, all, only, vals};
use crate::rule_log::{self, RuleEvent};
use crate::tokens::TokenKind;
use crate::{Error, Store};
use countersign_core::ports::principals::{LinkMaker, NewLink};
use countersign_core::ports::{Principals, Sessions as _};
use countersign_core::principal::{Device, Permission, Role, Standing};
use countersign_core::{AutomationId, Band, Future, OrgId, Principal, PrincipalId, SessionId, TokenId, UserId};
use receipt::body::IdentityChange;
use std::sync::Arc;

impl Principals for Store {
    fn find_principal<'a>(&'a self, org: &'a OrgId, principal: &'a PrincipalId) -> Future<'a, Result<Option<Principal>, Error>> {
        Box::pin(async move {
            if !self.is_enabled(org).await? {
                return Ok(None);
            }
            let now = self.db.now().await?;
            let live = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)";
            let base = |name: String| Principal {
                org: org.clone(),
                id: principal.clone(),
                name,
                role: None,
                owner: None,
                session: None,
                scopes: Vec::new(),
                token: None,
                device: None,
            };
            match principal {
                PrincipalId::User(id) => {
                    let user = self.find_user(org, id).await?.filter(|user| user.disabled_at.is_none());
                    Ok(user.map(|user| Principal { role: Some(user.role), owner: Some(user.id), ..base(user.name) }))
                }
                PrincipalId::Agent(id) => {
                    let sql = format!("SELECT device FROM tokens WHERE org_id = $1 AND session_id = $2 AND {live} LIMIT 1");
                    let token = self.db.read(&sql, &vals![org.as_str(), id.as_str(), now]).await?;
                    let device = only(token, |row| Columns::of(row).parsed_or_null(|text| serde_json::from_str::<Device>(text).ok()))?;
                    let session = self.find_session(org, id).await?.filter(|session| session.ended_at.is_none() && device.is_some());
                    if let Some(owner) = session.as_ref().and_then(|session| session.owner.as_ref())
                        && self.find_user(org, owner).await?.is_none_or(|owner| owner.disabled_at.is_some())
                    {
                        return Ok(None);
                    }
                    let device = device.flatten();
                    Ok(session.map(|session| Principal { owner: session.owner, session: Some(session.id), device, ..base(session.title) }))
                }
                PrincipalId::Service(id) => {
                    let Some(token) = self.find_token(org, id).await?.filter(|token| token.is_live(now)) else {
                        return Ok(None);
                    };
                    let owner = match token.kind {
                        TokenKind::Service { made_by } => made_by,
                        TokenKind::User(_) | TokenKind::Invitation(_) | TokenKind::Agent(_) => None,
                    };
                    Ok(Some(Principal { scopes: token.scopes, owner, device: token.device, ..base(token.name) }))
                }
                PrincipalId::Automation(id) => self.find_acting(org, id, None).await,
            }
        })
    }

    fn find_principal_in<'a>(
        &'a self,
        org: &'a OrgId,
        principal: &'a PrincipalId,
        session: &'a SessionId,
    ) -> Future<'a, Result<Option<Principal>, Error>> {
        Box::pin(async move {
            let PrincipalId::Automation(id) = principal else {
                return self.find_principal(org, principal).await;
            };
            let session = self.find_session(org, session).await?.filter(|session| session.created_by == *principal);
            let owner = session.and_then(|session| session.owner);
            let (Some(owner), true) = (owner, self.is_enabled(org).await?) else { return Ok(None) };
            self.find_acting(org, id, Some(owner)).await
        })
    }

    fn find_bearer<'a>(&'a self, org: &'a OrgId, token: &'a TokenId) -> Future<'a, Result<Option<Principal>, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let Some(found) = self.find_token(org, token).await?.filter(|token| token.is_live(now)) else {
                return Ok(None);
            };
            let principal = match found.kind {
                TokenKind::User(user) => PrincipalId::User(user),
                TokenKind::Invitation(_) => return Ok(None),
                TokenKind::Agent(session) => PrincipalId::Agent(session),
                TokenKind::Service { .. } => PrincipalId::Service(token.clone()),
            };
            let bearer = self.find_principal(org, &principal).await?;
            Ok(bearer.map(|bearer| Principal { token: Some(token.clone()), ..bearer }))
        })
    }

    fn find_standing<'a>(&'a self, org: &'a OrgId, user: &'a UserId) -> Future<'a, Result<Standing, Error>> {
        Box::pin(async move {
            let sql = "SELECT role, max_band FROM users WHERE org_id = $1 AND id = $2";
            let read = |row| {
                let mut columns = Columns::of(row);
                Ok(Standing { role: Some(columns.parsed(Role::parse)?), max_band: columns.parsed(Band::parse)? })
            };
            // A user who does not exist has no role and the lowest band. Their tokens do not work either.
            let nobody = Standing { role: None, max_band: Band::Green };
            let parse = |rows: Vec<Row>| Ok(only(rows, read)?.unwrap_or(nobody));
            self.db.read_remembered(org, sql, &vals![org.as_str(), user.as_str()], parse).await.map(|standing| *standing)
        })
    }

    fn list_approvers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<UserId>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT id, role FROM users WHERE org_id = $1 AND disabled_at IS NULL ORDER BY id";
            let read = |row| {
                let mut columns = Columns::of(row);
                Ok((columns.id()?, columns.parsed(Role::parse)?))
            };
            let parse = |rows| {
                let people = all(rows, read)?.into_iter();
                Ok(people.filter(|(_, role)| role.may(Permission::Approve)).map(|(user, _)| user).collect())
            };
            self.db.read_remembered(org, sql, &vals![org.as_str()], parse).await
        })
    }

    fn record_link(&self, org: &OrgId, link: NewLink) -> Future<'_, Result<(), Error>> {
        let (store, org) = (self.clone(), org.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let NewLink { invocation, by, token, expires_at } = link;
                let told = RuleEvent { name: "link.created", key: invocation.to_string() };
                let (by, channel) = match by {
                    LinkMaker::Person(person) => (Some(person), None),
                    LinkMaker::Channel(channel) => (None, Some(channel)),
                };
                let change = IdentityChange::LinkMade { invocation_id: invocation, token, expires_at, channel };
                rule_log::record_identity(&store, tx, &org, by, change, told).await.map(|_| ())
            })
        }))
    }
}

impl Store {
    /// An automation as it acts for this person, or else for whoever saved its present version: unless it is archived, and no longer than they
    /// may act themselves.
    async fn find_acting(&self, org: &OrgId, id: &AutomationId, person: Option<UserId>) -> Result<Option<Principal>, Error> {
        let sql = "SELECT name, creator_id FROM automations WHERE org_id = $1 AND id = $2 AND status <> 'archived'";
        let read = |row| {
            let mut columns = Columns::of(row);
            Ok((columns.text()?, columns.id()?))
        };
        let params = vals![org.as_str(), id.as_str()];
        let saved = self.db.read_remembered(org, sql, &params, |rows| only::<(String, UserId)>(rows, read)).await?;
        let Some((name, creator)) = &*saved else { return Ok(None) };
        let owner = person.unwrap_or_else(|| creator.clone());
        let sql = "SELECT role FROM users WHERE org_id = $1 AND id = $2 AND disabled_at IS NULL";
        let read = |row| Columns::of(row).parsed(Role::parse);
        let role = self.db.read_remembered(org, sql, &vals![org.as_str(), owner.as_str()], |rows| only(rows, read)).await?;
        let may_act = role.is_some_and(|role| role.may(Permission::Invoke));
        Ok(may_act.then(|| Principal {
            org: org.clone(),
            id: PrincipalId::Automation(id.clone()),
            name: name.clone(),
            role: None,
            owner: Some(owner),
            session: None,
            scopes: Vec::new(),
            token: None,
            device: None,
        }))
    }
}
