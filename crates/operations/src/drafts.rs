//! Drafts: definitions that wait for a person to save them. Whoever saves one answers for it, so its flags are read first.

use super::automations::rights::{self, Right};
use super::automations::{self, Applied, Checked, Proposed};
use super::{Error, sight};
use crate::App;
use api::automation::SaveDraftRequest;
use automation::Mistake;
use countersign_core::automation::{Automation, Draft};
use countersign_core::ports::Automations;
use countersign_core::{DraftId, Principal, Space};
use serde_json::Value;
use store::{Page, PageRequest};

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Draft>, Error> {
    super::must_read(by)?;
    Ok(app.store().list_drafts(&by.org, &sight::hidden(app, by).await?, request).await?)
}

/// A draft with what is worth checking about it, as things are now.
pub async fn find(app: &App, by: &Principal, text: &str) -> Result<(Draft, Vec<Mistake>), Error> {
    let (draft, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Read, &space).await?;
    let mut flags = match automations::check(app, by, &space, draft.automation.as_ref(), &draft.definition).await {
        Ok(Checked { read, facts, .. }) => automations::flags(&read.definition, &facts),
        // An action has gone since: that is worth knowing too.
        Err(Error::Definition { mistakes }) => mistakes,
        Err(error) => return Err(error),
    };
    if draft.automation.is_none() {
        flags.extend(name_taken(app, &space, draft.definition["name"].as_str().unwrap_or_default()).await?);
    }
    Ok((draft, flags))
}

/// Says of a draft of a new automation that another one has its name. Accepting it would not help, so saving does not ask for that, and refuses.
async fn name_taken(app: &App, space: &Space, name: &str) -> Result<Option<Mistake>, Error> {
    let taken = app.store().find_automation_by_name(&space.org, &space.id, name).await?;
    Ok(taken.map(|_| {
        let mistake = Mistake::new("name_taken", format!("another automation of this space is called `{name}`, so this cannot be saved"));
        let hint = "save it with another `name` (`countersign automation draft save --name`), or make it a new version of that one with \
            `countersign automation apply`";
        mistake.hint(hint).under("/name")
    }))
}

async fn visible(app: &App, by: &Principal, text: &str) -> Result<(Draft, Space), Error> {
    let unknown = || Error::not_found("draft", text);
    let id = DraftId::parse(text).map_err(|_| unknown())?;
    let draft = app.store().find_draft(&by.org, &id).await?.ok_or_else(unknown)?;
    let space = rights::visible(app, by, &draft.space, unknown).await?;
    Ok((draft, space))
}

/// Keeps a definition that comes from elsewhere. It is always a draft, also if a person brings it: its author is somebody else.
pub async fn import(app: &App, by: &Principal, space: &Space, written: &Value) -> Result<(Draft, Vec<Mistake>), Error> {
    rights::must_have(app, by, Right::Write, space).await?;
    let Checked { read, facts, .. } = automations::check(app, by, space, None, written).await?;
    let mut flags = automations::flags(&read.definition, &facts);
    flags.extend(name_taken(app, space, &read.definition.name).await?);
    Ok((automations::keep_draft(app, by, space, None, read.normalised).await?, flags))
}

/// Saves a draft for a person, who has read its flags, and names the place of each. It is checked again, because a day may have passed.
pub async fn save(app: &App, by: &Principal, text: &str, request: SaveDraftRequest) -> Result<(Applied, Vec<Mistake>), Error> {
    let SaveDraftRequest { name, accept, signing_secrets } = request;
    let (mut draft, space) = visible(app, by, text).await?;
    rights::must_save(app, by, &space).await?;
    if let (Some(name), Some(members)) = (name, draft.definition.as_object_mut()) {
        members.insert("name".to_owned(), Value::String(name));
    }
    let saved = saved_before(app, &draft).await?;
    let Checked { read, facts, .. } = automations::check(app, by, &space, draft.automation.as_ref(), &draft.definition).await?;
    let mut unread = automations::flags(&read.definition, &facts);
    unread.retain(|flag| !accept.contains(&flag.pointer));
    if !unread.is_empty() {
        return Err(Error::DraftFlags { draft: draft.id, flags: unread });
    }
    // Whoever made it has seen this version of the automation, and no later one.
    let expected = draft.replaces;
    let proposed = Proposed { automation: saved.as_ref(), definition: &draft.definition, signing_secrets: &signing_secrets, expected };
    let applied = automations::apply(app, by, &space, proposed).await?;
    // It is saved: a draft that cannot be removed now is gone tomorrow.
    if let Err(error) = app.store().drop_draft(&by.org, &draft.id).await {
        tracing::warn!(%error, draft = %draft.id, "a draft that was saved stays until it expires");
    }
    Ok(applied)
}

/// The automation that a draft would be a new version of.
async fn saved_before(app: &App, draft: &Draft) -> Result<Option<Automation>, Error> {
    match &draft.automation {
        None => Ok(None),
        Some(id) => {
            let found = app.store().find_automation(&draft.org, id).await?;
            found.map(Some).ok_or_else(|| Error::not_found("automation", id.as_str()))
        }
    }
}

pub async fn discard(app: &App, by: &Principal, text: &str) -> Result<(), Error> {
    let (draft, space) = visible(app, by, text).await?;
    rights::must_have(app, by, Right::Write, &space).await?;
    if rights::person(by).is_none() && draft.made_by != by.id {
        return Err(Error::NotAPerson { does_what: "drops a draft that somebody else made" });
    }
    let is_dropped = app.store().drop_draft(&by.org, &draft.id).await?;
    if is_dropped { Ok(()) } else { Err(Error::not_found("draft", text)) }
}
