//! Who acts, as proved by a token.

use crate::{Band, OrgId, PrincipalId, SessionId, Space, TokenId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a person is in the org, ordered: each role may do all that the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
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

crate::words!(Role { Viewer = "viewer", Member = "member", Approver = "approver", Admin = "admin", Owner = "owner" });

impl Role {
    /// The highest role that the groups of an issuer give by themselves. It does not approve: whether somebody who signs in for the first time is
    /// somebody else than the people who are there already is for a person to say.
    pub const OF_GROUPS: Self = Self::Member;

    /// The role with its article, for a sentence.
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Viewer => "a viewer",
            Self::Member => "a member",
            Self::Approver => "an approver",
            Self::Admin => "an admin",
            Self::Owner => "an owner",
        }
    }

    /// The lowest role that holds the permission. This is the whole table of roles and permissions.
    const fn lowest_with(permission: Permission) -> Self {
        match permission {
            Permission::Read | Permission::ReadSession => Self::Viewer,
            Permission::Invoke | Permission::CreateSession => Self::Member,
            Permission::Approve => Self::Approver,
            Permission::ManagePolicy | Permission::ManageIdentity => Self::Admin,
        }
    }

    pub fn may(self, permission: Permission) -> bool {
        self >= Self::lowest_with(permission)
    }
}

/// The role and the strictest band of a person. It also limits whoever acts for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `None` if there is no such person.
    pub role: Option<Role>,
    /// The strictest band they may act in.
    pub max_band: Band,
}

/// What a principal may do at a door. Agents hold `Invoke` and `ReadSession` for their own session, never more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Invoke actions in a session of one's own.
    Invoke,
    /// Read one's own session.
    ReadSession,
    /// Read everything in the org.
    Read,
    /// Create sessions.
    CreateSession,
    /// Answer pending invocations, give grants, and settle what is quarantined.
    Approve,
    /// Change modes, spaces, policies, packages, sources and channels; turn kill switches.
    ManagePolicy,
    /// Create and revoke other people's tokens, users, service tokens, keys, secrets and connections.
    ManageIdentity,
}

crate::words!(Permission {
    Invoke = "invoke", ReadSession = "read_session", Read = "read", CreateSession = "create_session", Approve = "approve",
    ManagePolicy = "manage_policy", ManageIdentity = "manage_identity",
});

/// The device that a token is bound to, in the words of whoever bound it. Nothing proves that its bearer is on that device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    /// Such as `managed` or `phone`, for policies.
    pub class: String,
}

/// What the bearer of a token has been shown to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub org: OrgId,
    pub id: PrincipalId,
    pub name: String,
    /// Set for people only.
    pub role: Option<Role>,
    /// The person behind an agent or a service; for a person, themselves.
    pub owner: Option<UserId>,
    /// The one session an agent may act in.
    pub session: Option<SessionId>,
    /// Narrows a service token; empty for people and agents.
    pub scopes: Vec<Permission>,
    /// The token that was shown; absent for a principal that was looked up.
    pub token: Option<TokenId>,
    /// The device that the token is bound to.
    pub device: Option<Device>,
}

impl Principal {
    pub fn permissions(&self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(|permission| self.may(*permission))
    }

    /// Whether the space, and what happens in it, exists for them: for those it lets in, and for those who administer the org. An agent
    /// administers nothing.
    pub fn sees(&self, space: &Space) -> bool {
        space.lets_in(self.owner.as_ref()) || self.may(Permission::ManagePolicy) || self.may(Permission::ManageIdentity)
    }

    /// The only place that decides who may do what at a door.
    pub fn may(&self, permission: Permission) -> bool {
        match &self.id {
            PrincipalId::User(_) => self.role.is_some_and(|role| role.may(permission)),
            PrincipalId::Agent(_) => matches!(permission, Permission::Invoke | Permission::ReadSession),
            // A service has the permissions of its scopes, and never approves in place of a person.
            PrincipalId::Service(_) => permission != Permission::Approve && self.scopes.contains(&permission),
            PrincipalId::Automation(_) => matches!(permission, Permission::Invoke | Permission::ReadSession),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AutomationId, Timestamp};

    fn principal(id: PrincipalId, role: Option<Role>, scopes: Vec<Permission>) -> Principal {
        let at = Timestamp::from_micros(0);
        Principal {
            org: OrgId::new(at, [0; 10]),
            id,
            name: "x".into(),
            role,
            owner: None,
            session: None,
            scopes,
            token: None,
            device: None,
        }
    }

    #[test]
    fn the_groups_of_an_issuer_give_nobody_a_vote() {
        assert!(!Role::OF_GROUPS.may(Permission::Approve));
    }

    #[test]
    fn each_role_may_do_what_the_one_before_it_may_and_more() {
        let user = |role| principal(PrincipalId::User(UserId::new(Timestamp::from_micros(0), [1; 10])), role, vec![]);
        for (role, expected) in [
            (None, &[][..]),
            (Some(Role::Viewer), &["read_session", "read"][..]),
            (Some(Role::Member), &["invoke", "read_session", "read", "create_session"]),
            (Some(Role::Approver), &["invoke", "read_session", "read", "create_session", "approve"]),
            (Some(Role::Admin), &Permission::ALL.map(Permission::as_str)),
            (Some(Role::Owner), &Permission::ALL.map(Permission::as_str)),
        ] {
            let held = Permission::ALL.into_iter().filter(|permission| user(role).may(*permission));
            assert_eq!(held.map(Permission::as_str).collect::<Vec<_>>(), expected, "{role:?}");
        }
        assert!(Role::ALL.is_sorted());
    }

    #[test]
    fn only_people_approve() {
        let at = Timestamp::from_micros(0);
        for id in [
            PrincipalId::Agent(SessionId::new(at, [2; 10])),
            PrincipalId::Service(TokenId::new(at, [3; 10])),
            PrincipalId::Automation(AutomationId::new(at, [4; 10])),
        ] {
            let who = principal(id, None, Permission::ALL.to_vec());
            assert!(!who.may(Permission::Approve), "{who:?}");
        }
    }

    #[test]
    fn principals_print_and_read_back() {
        let id = PrincipalId::Agent(SessionId::new(Timestamp::from_micros(5), [2; 10]));
        assert_eq!(PrincipalId::parse(&id.to_string()), Some(id));
        assert_eq!(PrincipalId::parse("root:usr_1"), None);
    }
}
