//! Who asks and who answered, by the names that people know. An id says nothing to somebody who reads it on a phone.

use countersign_core::ports::Sessions;
use countersign_core::{Invocation, OrgId, PrincipalId, clean};
use store::Store;

/// Names as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Who {
    pub session_title: Option<String>,
    /// A person by their name, anybody else by their id.
    pub requester: String,
    /// The person for whom the requester acts, unless they ask themselves.
    pub owner: Option<String>,
    pub(crate) answered_by: Option<String>,
}

impl Who {
    pub(super) async fn of(store: &Store, invocation: &Invocation) -> Result<Self, store::Error> {
        let org = &invocation.org;
        let session = store.find_session(org, &invocation.session).await?;
        let owner = invocation.owner.clone().map(PrincipalId::User).filter(|owner| *owner != invocation.principal);
        let owner = match &owner {
            Some(owner) => Some(name_of(store, org, owner).await?),
            None => None,
        };
        let answered_by = match &invocation.answer {
            Some(answer) => Some(name_of(store, org, &answer.by).await?),
            None => None,
        };
        let session_title = session.map(|session| session.title).filter(|title| !title.is_empty());
        Ok(Self { session_title, requester: name_of(store, org, &invocation.principal).await?, owner, answered_by })
    }

    /// In one line: the title of the session, who asks, and for whom.
    pub(super) fn asks(&self) -> String {
        let owner = self.owner.as_ref().map(|owner| format!("for {owner}"));
        let words: Vec<_> = self.session_title.iter().chain([&self.requester]).chain(&owner).map(String::as_str).collect();
        clean::line(&words.join(", "))
    }
}

async fn name_of(store: &Store, org: &OrgId, principal: &PrincipalId) -> Result<String, store::Error> {
    let user = match principal {
        PrincipalId::User(user) => store.find_user(org, user).await?,
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => None,
    };
    Ok(user.map_or_else(|| principal.to_string(), |user| user.name))
}
