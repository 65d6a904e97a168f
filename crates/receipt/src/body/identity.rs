//! Who may act, and what people answered. The audit log holds each of them when it happens, so that a verifier needs no database.

use countersign_core::invocation::Beyond;
use countersign_core::ports::connections::ConnectionKind;
use countersign_core::principal::{Device, Permission, Role};
use countersign_core::{
    ApprovalId, ChannelId, ConnectionId, Digest, InvocationId, PrincipalId, SecretId, SpaceId, Timestamp, TokenId, UserId,
};
use serde::{Deserialize, Serialize};

/// A change of who may act: people, their tokens, the links that answer in their name, the secrets and connections with which calls act
/// elsewhere, and the master key that seals them. Roles are rules, see `RuleChange::RoleChanged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityBody {
    /// Absent for the org's first owner, for a person who redeems an invitation or signs in, who have no token yet, and where the server
    /// itself acts.
    pub by: Option<PrincipalId>,
    pub change: IdentityChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "identity", rename_all = "snake_case")]
pub enum IdentityChange {
    UserCreated {
        user: UserId,
        role: Role,
    },
    UserDisabled {
        user: UserId,
    },
    /// An invitation: whoever has its text becomes this person, once. It can do nothing else.
    Invited {
        invitation: TokenId,
        user: UserId,
        expires_at: Timestamp,
        /// The device that the token will be bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Device>,
    },
    InvitationRedeemed {
        invitation: TokenId,
        token: TokenId,
        user: UserId,
    },
    TokenMade {
        token: TokenId,
        holder: PrincipalId,
        /// What a service may do.
        scopes: Vec<Permission>,
        /// The token it was made with; absent for the org's first owner, and for an agent.
        with: Option<TokenId>,
        expires_at: Option<Timestamp>,
        /// The device that it is bound to, as its maker says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Device>,
    },
    TokenRevoked {
        token: TokenId,
    },
    /// Somebody signed in at an issuer that the operator trusts to say who people are. The first sign-in of a subject makes its person. The
    /// role is what the issuer's groups give, and never above the one that somebody gave the person last, or `Role::OF_GROUPS` where nobody has;
    /// for somebody who had another one, `RuleChange::RoleChanged` follows.
    SignedIn {
        user: UserId,
        /// The token of the browser in which they signed in. Nobody has its text.
        token: TokenId,
        role: Role,
        issuer: String,
        /// Stands for what the issuer calls the person: a digest under a key of the server's.
        subject: Digest,
        expires_at: Timestamp,
    },
    /// A link that answers one call in the name of the person whose token this is.
    LinkMade {
        invocation_id: InvocationId,
        token: TokenId,
        expires_at: Timestamp,
        /// The channel for whose notice the server made it; absent if the person made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<ChannelId>,
    },
    /// A secret was made, with its first value. Neither the value nor a digest of it is in the log: a digest of a guessable text would
    /// give it away.
    SecretSet {
        secret: SecretId,
        name: String,
        version: i64,
    },
    /// The secret has another value from here on, which is this version.
    SecretRotated {
        secret: SecretId,
        name: String,
        version: i64,
    },
    SecretDeleted {
        secret: SecretId,
        name: String,
        version: i64,
    },
    /// A connection was made: where its credential may be sent, and for calls of which spaces. Nothing is derived from the credential.
    ConnectionMade {
        connection: ConnectionId,
        name: String,
        kind: ConnectionKind,
        url: String,
        /// The address that mail comes from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The name of the secret that has the value, if the connection has none of its own.
        secret: Option<String>,
        /// Absent: every space.
        spaces: Option<Vec<SpaceId>>,
        version: i64,
    },
    /// A person logged in for it, at this issuer. Tokens that are renewed later are no entry.
    ConnectionLoggedIn {
        connection: ConnectionId,
        name: String,
        issuer: String,
        version: i64,
    },
    ConnectionRemoved {
        connection: ConnectionId,
        name: String,
        version: i64,
    },
    /// From here on another master key seals. Nothing of either key is in the log. It is in the log of the operators' org; `by` is absent
    /// if it was done on the data folder, without a server.
    MasterKeyReplaced,
}

/// A person's answer to a pending call, as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    pub answer: Answer,
    pub approval_id: ApprovalId,
    /// What the answer permits beyond this one call.
    pub beyond: Beyond,
    /// The digest of exactly what was answered.
    pub binding: Digest,
    pub by: PrincipalId,
    pub invocation_id: InvocationId,
    /// The size of the log when the call began to wait for a person.
    pub pending_from_seq: String,
    /// The role that the person had.
    pub role: Role,
    /// The token they answered with, or that they made the link with.
    pub token: TokenId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Approve,
    Deny,
}
