//! Sessions, spaces, users and tokens on the wire.

use countersign_core::principal::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Who the bearer of the token is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoamiResponse {
    pub org_id: String,
    pub principal: String,
    pub name: String,
    /// `viewer`, `member`, `approver`, `admin` or `owner`; for people only.
    pub role: Option<String>,
    /// The one session an agent may act in.
    pub session_id: Option<String>,
    pub permissions: Vec<String>,
}

/// A session to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSessionRequest {
    /// The name or the id of a space; `main` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Nobody sits at the other end: approvals may take 24 hours instead of 5 minutes.
    #[serde(default)]
    pub unattended: bool,
    /// The automation it works for, whose modes and grants its calls then have. Takes the right to change policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation_id: Option<String>,
}

/// A session just created. The token is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewSessionResponse {
    pub id: String,
    pub token: String,
    pub session: SessionView,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    pub id: String,
    pub space_id: String,
    pub created_by: String,
    pub owner_id: Option<String>,
    pub title: String,
    /// `interactive` or `unattended`.
    pub attendance: String,
    pub automation_id: Option<String>,
    pub created_at: String,
    pub ended_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSpaceRequest {
    pub name: String,
}

/// A change to a space; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSpaceRequest {
    /// How much risk it tolerates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<BandName>,
    /// Whether whoever asked, or owns the agent that asked, may also answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_approval: Option<SelfApprovalRule>,
    /// How many different people must say yes, by tier, such as `{"R3": 2}`; replaces what was set before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<BTreeMap<String, u32>>,
    /// What is taken out of params before a source sees them; replaces what was set before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<RedactionRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BandName {
    Green,
    Amber,
    Red,
    Black,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelfApprovalRule {
    Allowed,
    Refused,
}

/// What must not reach a source from a space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedactionRule {
    /// Of `email`, `phone`, `secret` and `face`.
    pub kinds: Vec<String>,
    /// Two capital letters each: where national telephone numbers are from.
    pub regions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceView {
    pub id: String,
    pub name: String,
    /// `green`, `amber`, `red` or `black`.
    pub band: String,
    pub self_approval: SelfApprovalRule,
    /// How many different people must say yes, by tier; one where a tier is absent.
    pub quorum: BTreeMap<String, u32>,
    /// What is taken out of params before a source sees them.
    pub redaction: RedactionRule,
    pub created_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUserRequest {
    pub name: String,
    pub role: RoleName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleName {
    /// Reads.
    Viewer,
    /// Invokes too, in sessions of their own.
    Member,
    /// Answers pending calls too.
    Approver,
    /// Manages rules, packages and people too.
    Admin,
    /// Manages owners too.
    Owner,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Member => Self::Member,
            RoleName::Approver => Self::Approver,
            RoleName::Admin => Self::Admin,
            RoleName::Owner => Self::Owner,
        }
    }
}

impl From<Role> for RoleName {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Member => Self::Member,
            Role::Approver => Self::Approver,
            Role::Admin => Self::Admin,
            Role::Owner => Self::Owner,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    pub id: String,
    pub name: String,
    pub role: RoleName,
    /// The most dangerous band they, and whoever acts for them, may act in.
    pub max_band: String,
    pub created_at: String,
    pub disabled_at: Option<String>,
}

/// A change to a person; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUserRequest {
    /// What they may do. Nobody changes their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<RoleName>,
    /// The most dangerous band they, and whoever acts for them, may act in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_band: Option<BandName>,
}

/// A token to be created: for a person, or for a service with scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTokenRequest {
    pub name: String,
    /// Whose token it is; absent for a service token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// What a service may do: `invoke`, `read_session`, `read`, `create_session`, `manage_policy`, `manage_identity`.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Days until it stops working; absent: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<u64>,
}

/// A token just created. It is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTokenResponse {
    pub id: String,
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    pub id: String,
    /// `user`, `agent` or `service`.
    pub kind: String,
    pub name: String,
    pub user_id: Option<String>,
    pub session_id: Option<String>,
    /// Who made a service's token and answers for it.
    #[serde(default)]
    pub made_by_id: Option<String>,
    pub scopes: Vec<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
    /// What it had to stand on and has no more, whether or not it was revoked or has expired: `person_disabled` (its person, or the one who
    /// answers for its agent or service) or `session_ended`.
    #[serde(default)]
    pub lost: Option<String>,
}

/// A message an action sent to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotificationView {
    pub id: String,
    pub space_id: String,
    pub invocation_id: String,
    /// The sender's words: show as plain text.
    pub title: String,
    pub body: String,
    pub created_at: String,
}

/// How the server is doing, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusResponse {
    pub version: String,
    /// `sqlite` or `postgresql`.
    pub store: String,
    pub ready: bool,
    /// Why not, when it is not.
    pub problem: Option<String>,
    pub pending: u64,
    pub in_doubt: u64,
    /// Entries in the org's log.
    pub log_size: u64,
    /// The sandbox profiles that code of packages can have on the server that answers; absent where it runs none.
    #[serde(default)]
    pub code_profiles: Option<Vec<String>>,
    /// Servers that work on the same database, or did lately, the oldest first.
    #[serde(default)]
    pub servers: Vec<ServerView>,
}

/// A server that works on the database, or did lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerView {
    pub id: String,
    pub started_at: String,
    /// When it last renewed its lease.
    pub seen_at: String,
    /// Its lease has run out: what it was running is taken up by others.
    pub gone: bool,
}

/// An org to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOrgRequest {
    /// Unique on the server.
    pub name: String,
}

/// An org just created. The owner's token is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewOrgResponse {
    pub id: String,
    /// Its owner, named `owner`.
    pub owner_id: String,
    pub token: String,
    pub org: OrgView,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgView {
    pub id: String,
    pub name: String,
    /// Whether it is the org of the first start, whose owners are the operators.
    pub first: bool,
    pub created_at: String,
    /// From then on its tokens are refused.
    pub disabled_at: Option<String>,
}
