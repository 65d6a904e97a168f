//! Sessions, spaces, users and tokens on the wire.

use countersign_core::action::Profile;
use countersign_core::mcp::McpWishes;
use countersign_core::principal::{Device, Permission, Role};
use countersign_core::session::{Attendance, Band, Keeps, Kind, SelfApproval};
use countersign_core::{Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Who the bearer of the token is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoamiResponse {
    pub org_id: String,
    pub principal: String,
    pub name: String,
    /// For people only.
    pub role: Option<Role>,
    /// The one session an agent may act in.
    pub session_id: Option<String>,
    pub permissions: Vec<Permission>,
    /// The device that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
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
    /// No person waits for the session: an approval may take 24 hours instead of 5 minutes.
    #[serde(default)]
    pub unattended: bool,
    /// The automation that the session works for; its modes and grants apply. Only a person who may change policy can set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation_id: Option<String>,
    /// The sources that it is connected to; all when absent. Actions of others do not exist for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// What its agent gets over MCP, where the URL says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpWishes>,
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
    pub attendance: Attendance,
    pub automation_id: Option<String>,
    /// The sources it is connected to; null: all.
    #[serde(default)]
    pub sources: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
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
    /// How strict it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// Whether the requester, or the owner of the requesting agent, may also answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_approval: Option<SelfApproval>,
    /// How many different people must approve, by tier, such as `{"R3": 2}`; replaces what was set before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<BTreeMap<Tier, u32>>,
    /// What is redacted from params before a source sees them; replaces what was set before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<RedactionRule>,
    /// What stays of calls that have ended: their texts, or digests only. An hour after their end, texts that are not kept are gone for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<Keeps>,
    /// Whether it only observes: calls that need approval run, and are noted for the report, but those of R4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observes: Option<bool>,
    /// Whether calls of class HIGH that do more than read need the consent of the person behind them, or an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_consent: Option<bool>,
    /// What its automations are given for an input whose default is `$space_default`, by the name of the input; replaces what was set before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<BTreeMap<String, Value>>,
}

/// What must not reach a source from a space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RedactionRule {
    /// Null, or absent: what the band says, which is nothing in a green space, and e-mails, telephone numbers and faces in any other.
    pub kinds: Option<Vec<Kind>>,
    /// Two capital letters each: where national telephone numbers are from.
    pub regions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceView {
    pub id: String,
    pub name: String,
    pub band: Band,
    pub self_approval: SelfApproval,
    /// How many different people must approve, by tier; one where a tier is absent.
    pub quorum: BTreeMap<Tier, u32>,
    /// What was set to be redacted from params before a source sees them.
    pub redaction: RedactionRule,
    /// What is redacted: what was set, or what the band says.
    #[serde(default)]
    pub redacts: Vec<Kind>,
    /// What stays of calls that have ended.
    #[serde(default)]
    pub keeps: Keeps,
    /// The people who may act in it and see it, by their ids; null: everybody in the org.
    #[serde(default)]
    pub members: Option<Vec<String>>,
    /// Whether it only observes: calls that need approval run, and are noted for the report, but those of R4.
    #[serde(default)]
    pub observes: bool,
    /// Whether calls of class HIGH that do more than read need the consent of the person behind them, or an approval.
    #[serde(default)]
    pub asks_consent: bool,
    /// What its automations are given for an input whose default is `$space_default`, by the name of the input.
    #[serde(default)]
    pub defaults: BTreeMap<String, Value>,
    pub created_at: Timestamp,
}

/// A person who becomes a member of a space. The first member closes the space to everybody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMemberRequest {
    pub user_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUserRequest {
    pub name: String,
    pub role: Role,
}

/// A person just added, with the invitation that they redeem for a token of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewUserResponse {
    pub id: String,
    pub user: UserView,
    pub invitation: InvitationResponse,
}

/// An invitation. Its text is shown here and never again. It can only be redeemed, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationResponse {
    pub id: String,
    pub invitation: String,
    pub expires_at: Timestamp,
}

/// What the token will be that is redeemed for an invitation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// The device that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
}

/// An invitation to be redeemed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedeemRequest {
    pub invitation: String,
    /// What the new token is for, such as `laptop`; `first` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The token of the person who redeemed an invitation. It is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedeemResponse {
    pub id: String,
    pub token: String,
    pub user_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// The strictest band of a space in which this user, and every agent or service of theirs, may act.
    pub max_band: Band,
    pub created_at: Timestamp,
    pub disabled_at: Option<Timestamp>,
}

/// A change to a person; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUserRequest {
    /// What they may do. Nobody changes their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The strictest band of a space in which this user, and every agent or service of theirs, may act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_band: Option<Band>,
}

/// A token to be created: for yourself, or for a service with scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTokenRequest {
    pub name: String,
    /// Yourself; absent for a service token. Others redeem an invitation for their tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// What a service may do. `approve` is for people only.
    #[serde(default)]
    pub scopes: Vec<Permission>,
    /// Days until it stops working; absent: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<u64>,
    /// What its clients get over MCP, where the URL says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpWishes>,
    /// The device that it is bound to, for those who manage identity; absent: that of the token that it is made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
}

/// A token just created. It is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTokenResponse {
    pub id: String,
    pub token: String,
}

/// Who holds a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKindName {
    User,
    /// Can only be redeemed for a token of its person, once.
    Invitation,
    Agent,
    Service,
}

/// Why a token no longer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LostName {
    /// Its person is disabled, or the person who answers for its agent or service.
    PersonDisabled,
    SessionEnded,
    /// Its row is not as it was written: somebody has changed the database.
    ChangedInDatabase,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    pub id: String,
    pub kind: TokenKindName,
    pub name: String,
    pub user_id: Option<String>,
    pub session_id: Option<String>,
    /// Who made a service's token and answers for it.
    #[serde(default)]
    pub made_by_id: Option<String>,
    pub scopes: Vec<Permission>,
    /// The device that it is bound to.
    #[serde(default)]
    pub device: Option<Device>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// Why it no longer works although it was not revoked and has not expired.
    #[serde(default)]
    pub lost: Option<LostName>,
    /// What its clients get over MCP, where the URL says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpWishes>,
}

/// A message to people, from an action or from the server itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotificationView {
    pub id: String,
    pub space_id: String,
    /// The call that sent it; null if the server says it itself.
    pub invocation_id: Option<String>,
    /// The sender's words: show as plain text.
    pub title: String,
    pub body: String,
    pub created_at: Timestamp,
}

/// The database a server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreName {
    Sqlite,
    Postgresql,
}

/// How the server is doing, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusResponse {
    pub version: String,
    /// The release of the time zones that schedules follow, such as `2026a`.
    #[serde(default)]
    pub tzdata: String,
    pub store: StoreName,
    pub ready: bool,
    /// Why not, when it is not.
    pub problem: Option<String>,
    pub pending: u64,
    pub in_doubt: u64,
    /// Entries in the org's log.
    pub log_size: u64,
    /// The sandbox profiles that code of packages can have on the server that answers; absent where it runs none.
    #[serde(default)]
    pub code_profiles: Option<Vec<Profile>>,
    /// Servers that work on the same database, or did lately, the oldest first.
    #[serde(default)]
    pub servers: Vec<ServerView>,
}

/// A server that works on the database, or did lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerView {
    pub id: String,
    pub started_at: Timestamp,
    /// When it last renewed its lease.
    pub seen_at: Timestamp,
    /// Its lease has expired: other servers resume what it was running.
    pub gone: bool,
}

/// An org to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOrgRequest {
    /// Unique on the server.
    pub name: String,
}

/// An org just created, with the invitation of its owner, which is shown here and never again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewOrgResponse {
    pub id: String,
    /// Its owner, named `owner`.
    pub owner_id: String,
    pub invitation: InvitationResponse,
    pub org: OrgView,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgView {
    pub id: String,
    pub name: String,
    /// Whether it is the org of the first start, whose owners are the operators.
    pub first: bool,
    pub created_at: Timestamp,
    /// From then on its tokens are refused.
    pub disabled_at: Option<Timestamp>,
}
