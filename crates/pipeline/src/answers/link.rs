//! Links that answer one invocation in one person's name, for example from a message on a phone. A link is signed under the key of the
//! invocation's space, bound to what the person would see, and no longer valid once the invocation is answered or the token it was made with
//! no longer works.

use super::approve::must_approve;
use crate::error::{Conflict, Error, ParamError};
use crate::limits::LINK_SECONDS_MAX;
use crate::pipeline::Pipeline;
use countersign_core::action::Class;
use countersign_core::ledger::{LinkMaker, NewLink};
use countersign_core::{ChannelId, Digest, Invocation, InvocationId, OrgId, Principal, Status, Timestamp, TokenId};

/// A new link.
pub struct AnswerLink {
    /// Whoever opens it first can use it, once, until it expires.
    pub text: String,
    pub expires_at: Timestamp,
}

/// A valid link, and what it answers.
pub struct OpenedLink {
    pub invocation: Invocation,
    /// The person in whose name it answers.
    pub principal: Principal,
    /// What the person was shown when the link was made.
    pub binding: Digest,
    pub expires_at: Timestamp,
}

struct Link {
    org: OrgId,
    invocation: InvocationId,
    /// A token of the person in whose name it answers.
    token: TokenId,
    expires_at: Timestamp,
}

impl Link {
    fn parse(text: &str) -> Option<(Self, Digest)> {
        let mut parts = text.split('.');
        let org = OrgId::parse(parts.next()?).ok()?;
        let invocation = InvocationId::parse(parts.next()?).ok()?;
        let token = TokenId::parse(parts.next()?).ok()?;
        let expires_at = Timestamp::from_micros(parts.next()?.parse().ok()?);
        let mac = Digest::parse(parts.next()?)?;
        parts.next().is_none().then_some((Self { org, invocation, token, expires_at }, mac))
    }

    fn text(&self, mac: Digest) -> String {
        format!("{}.{}.{}.{}.{mac}", self.org, self.invocation, self.token, self.expires_at.as_micros())
    }
}

impl Pipeline {
    /// Makes a link that answers this one invocation as this person, who wants it.
    pub async fn make_link(&self, principal: &Principal, id: &InvocationId, lifetime_seconds: u64) -> Result<AnswerLink, Error> {
        self.make_link_by(LinkMaker::Person(principal.id.clone()), principal, id, lifetime_seconds).await
    }

    /// Makes a link that answers this one invocation as this person, for a notice of this channel to them. The audit log says so.
    pub async fn make_link_for(
        &self,
        channel: &ChannelId,
        principal: &Principal,
        id: &InvocationId,
        lifetime_seconds: u64,
    ) -> Result<AnswerLink, Error> {
        self.make_link_by(LinkMaker::Channel(channel.clone()), principal, id, lifetime_seconds).await
    }

    async fn make_link_by(
        &self,
        by: LinkMaker,
        principal: &Principal,
        id: &InvocationId,
        lifetime_seconds: u64,
    ) -> Result<AnswerLink, Error> {
        must_approve(principal)?;
        let token = principal.token.clone().ok_or(Error::MayNotApprove)?;
        self.must_be_let_in(principal, id).await?;
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let found = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        if found.status != Status::Pending {
            return Err(Error::Conflict { invocation: found.id, conflict: Conflict::Ended });
        }
        // An R4 call must be approved by typing its name, which a link cannot do.
        if found.tier.class() == Class::Danger {
            return Err(Error::NeedsConfirmation { invocation: found.id, action: found.action });
        }
        if lifetime_seconds > LINK_SECONDS_MAX {
            let errors = vec![ParamError { pointer: "/expires_in".into(), message: format!("must be at most {LINK_SECONDS_MAX} s") }];
            return Err(Error::InvalidRequest { errors });
        }
        let expires_at = self.ledger().now().await?.plus_seconds(lifetime_seconds);
        let link = Link { org: found.org.clone(), invocation: found.id.clone(), token, expires_at };
        let mac = self.link_mac(&link, &found).await?;
        let new = NewLink { invocation: found.id, by, token: link.token.clone(), expires_at };
        self.ledger().record_link(&principal.org, new).await?;
        Ok(AnswerLink { text: link.text(mac), expires_at })
    }

    /// Checks a link, and returns what it answers.
    pub async fn open_link(&self, text: &str) -> Result<OpenedLink, Error> {
        let (link, mac) = Link::parse(text).ok_or(Error::LinkInvalid)?;
        let invocation = self.ledger().find_invocation(&link.org, &link.invocation).await?.ok_or(Error::LinkInvalid)?;
        if !self.link_mac(&link, &invocation).await?.matches(&mac) {
            return Err(Error::LinkInvalid);
        }
        if link.expires_at <= self.ledger().now().await? {
            return Err(Error::LinkExpired);
        }
        let principal = self.ledger().find_bearer(&link.org, &link.token).await?.ok_or(Error::LinkInvalid)?;
        match self.must_be_let_in(&principal, &invocation.id).await {
            Ok(()) => {}
            Err(Error::UnknownInvocation { .. }) => return Err(Error::LinkInvalid),
            Err(error) => return Err(error),
        }
        let binding = invocation.binding.as_ref().map(|binding| binding.digest).ok_or(Error::LinkInvalid)?;
        Ok(OpenedLink { invocation, principal, binding, expires_at: link.expires_at })
    }

    /// The signature covers every field of the link and the binding of the invocation. If the call is edited, the link is no longer valid.
    async fn link_mac(&self, link: &Link, invocation: &Invocation) -> Result<Digest, Error> {
        let key = self.walk.inner.keyring.space_key(&link.org, &invocation.space).await?;
        let binding = invocation.binding.as_ref().map(|binding| binding.digest.to_string()).unwrap_or_default();
        let signed = format!("{} {} {} {} {binding}", link.org, link.invocation, link.token, link.expires_at.as_micros());
        Ok(key.digest("answer_link", signed.as_bytes()))
    }
}
