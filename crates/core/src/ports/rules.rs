//! The rules that a call is decided by. They are read for every call and rarely change.

use super::Error;
use crate::decision::Lock;
use crate::policies::PoliciesInForce;
use crate::price::PriceRow;
use crate::switch::Switch;
use crate::{ActionId, AutomationId, ConnectionId, Future, Grant, Mode, OrgId, Session, Space, SpaceId, UserId};
use std::sync::Arc;

/// The org's rules in force.
pub trait Rules: Send + Sync {
    /// Grows with every change of any rule of the org. Read it before the rules, so that a later change is noticed.
    fn rules_version<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    /// The same, read from the database itself, for a decision that no later write compares. Rules read after it are those in force now.
    fn rules_version_anew<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    fn find_space<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<Space>, Error>>;
    fn find_modes<'a>(
        &'a self,
        org: &'a OrgId,
        automation: Option<&'a AutomationId>,
        action: &'a ActionId,
    ) -> Future<'a, Result<ModeRows, Error>>;
    /// Every kill switch that is on.
    fn list_switches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Switch>>, Error>>;
    /// The org's policies in force.
    fn find_policies<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<PoliciesInForce>, Error>>;
    /// The purposes that this person currently consents to in this space.
    fn find_purposes<'a>(&'a self, org: &'a OrgId, user: &'a UserId, space: &'a SpaceId) -> Future<'a, Result<Vec<String>, Error>>;
    /// Whether this action may reach from one space into another, which is named as the params name it.
    fn is_crossing<'a>(&'a self, org: &'a OrgId, from: &'a SpaceId, to: &'a str, action: &'a ActionId) -> Future<'a, Result<bool, Error>>;
    /// What a call of this action costs; `None` if it has no price.
    fn find_price<'a>(&'a self, org: &'a OrgId, action: &'a ActionId) -> Future<'a, Result<Option<PriceRow>, Error>>;
    /// The texts of the org's canary tokens.
    fn list_canary_texts<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<String>>, Error>>;
    /// Grants that could replace an approval now, the narrowest first.
    fn find_grants<'a>(&'a self, session: &'a Session, action: &'a ActionId) -> Future<'a, Result<Vec<Grant>, Error>>;
    /// The version of a connection, which is another one after each login; `None` if the org has no such connection. It is read from the
    /// database itself: an approval is bound to it.
    fn connection_version<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId) -> Future<'a, Result<Option<i64>, Error>>;
}

/// The rows of the mode cascade for one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeRows {
    pub automation: Option<ModeRow>,
    pub org: Option<ModeRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeRow {
    pub mode: Mode,
    /// Used only in an org's row.
    pub lock: Lock,
    /// Grows with every change of any mode in the org.
    pub version: i64,
}
