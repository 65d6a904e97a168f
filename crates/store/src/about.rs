//! Which spaces something is about, by the ids that it names. What is about a space with members stays with those who see that space.

use crate::{Error, Store};
use countersign_core::consent::action_of;
use countersign_core::ports::events::{Event, TOLD_BY_SOURCES};
use countersign_core::ports::{Automations, Invocations, Runs, Sessions};
use countersign_core::{
    AutomationId, ChannelId, ConnectionId, DocumentId, GrantId, InvocationId, OrgId, PrincipalId, RunId, SessionId, SourceId, SpaceId,
};
use std::collections::BTreeSet;

impl Store {
    /// Whether a text names one of these spaces, a session, an invocation, an automation, a run or a document in one, or a channel or a
    /// connection for one. An invocation that is no longer kept may have been in one of them, and counts as if it had.
    pub async fn is_about(&self, org: &OrgId, spaces: &BTreeSet<SpaceId>, text: &str) -> Result<bool, Error> {
        if spaces.is_empty() {
            return Ok(false);
        }
        for word in text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_') {
            let space = if let Ok(space) = SpaceId::parse(word) {
                Some(space)
            } else if let Ok(session) = SessionId::parse(word) {
                self.find_session(org, &session).await?.map(|session| session.space)
            } else if let Ok(invocation) = InvocationId::parse(word) {
                match self.find_invocation(org, &invocation).await? {
                    Some(invocation) => Some(invocation.space),
                    None => return Ok(true),
                }
            } else if let Ok(automation) = AutomationId::parse(word) {
                self.find_automation(org, &automation).await?.map(|automation| automation.space)
            } else if let Ok(run) = RunId::parse(word) {
                self.find_run(org, &run).await?.map(|run| run.space)
            } else if let Ok(document) = DocumentId::parse(word) {
                self.find_document_of_org(org, &document).await?.map(|(document, _)| document.space)
            } else if let Ok(channel) = ChannelId::parse(word) {
                self.find_channel(org, &channel).await?.and_then(|channel| channel.space)
            } else if let Ok(connection) = ConnectionId::parse(word) {
                let found = self.find_connection_by_id(org, &connection).await?;
                if found.is_some_and(|connection| is_only_for(spaces, connection.spaces.as_ref())) {
                    return Ok(true);
                }
                None
            } else {
                None
            };
            if space.is_some_and(|space| spaces.contains(&space)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an event of ours that belongs to no space is about one of these, or about a source that is only for them, also after it was
    /// removed. Of a grant, whoever gave or requested it is told: for `told` it is about none.
    pub async fn is_event_about(
        &self,
        org: &OrgId,
        spaces: &BTreeSet<SpaceId>,
        event: &Event,
        told: Option<&PrincipalId>,
    ) -> Result<bool, Error> {
        if spaces.is_empty() {
            return Ok(false);
        }
        // The ids in what a source told are not looked up: it may have written thousands of them.
        let ours = if TOLD_BY_SOURCES.contains(&event.name.as_str()) { "" } else { event.body.as_str() };
        if self.is_about(org, spaces, &format!("{} {ours}", event.key)).await? {
            return Ok(true);
        }
        let named = if event.name == "consent.given" {
            purpose_in(&event.body).as_deref().and_then(action_of).map(str::to_owned)
        } else if let Some(grant) = event.name.strip_prefix("grant.").and_then(|_| GrantId::parse(&event.key).ok()) {
            // Not every event of a grant says what it covers.
            let grant = self.find_grant(org, &grant).await?.filter(|grant| told.is_none_or(|told| !grant.is_by(told)));
            grant.map(|grant| grant.terms.covers.to_string())
        } else if ["source.", "action.", "breaker.", "switch."].iter().any(|group| event.name.starts_with(group)) {
            // Of a switch, the key says what it stops; of an action, it begins with the source.
            Some(event.key.split_once(':').map_or(event.key.as_str(), |(_, named)| named).to_owned())
        } else {
            None
        };
        let Some(id) = named.as_deref().and_then(|named| named.split('.').next()).and_then(|source| SourceId::parse(source).ok()) else {
            return Ok(false);
        };
        Ok(self.find_source(org, &id).await?.is_some_and(|source| is_only_for(spaces, source.settings.spaces.as_ref())))
    }
}

/// Whether what is for these spaces, or for all if none is named, is for none but those of the set.
fn is_only_for<'a>(set: &BTreeSet<SpaceId>, spaces: Option<impl IntoIterator<Item = &'a SpaceId>>) -> bool {
    spaces.is_some_and(|spaces| spaces.into_iter().all(|space| set.contains(space)))
}

/// What somebody consented to, in the body of the event.
fn purpose_in(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(body["change"]["purpose"].as_str()?.to_owned())
}
