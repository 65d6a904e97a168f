//! `countersign automation edit`: the definition of an automation in the user's editor, saved if nobody else has saved another one meanwhile.

use super::apply::saved;
use super::mistakes;
use crate::client::Method;
use crate::commands::action::params;
use crate::commands::automation_name::automation_named;
use crate::commands::editor::{self, About};
use crate::shared::*;
use api::automation::{AutomationView, SaveAutomationRequest, SavedAutomationResponse};
use std::collections::BTreeMap;

const ABOUT: About<'static> = About {
    what: "definition",
    otherwise: "not saved",
    elsewhere: "write it to a file with countersign automation export, and save that with countersign automation apply",
};

pub(super) async fn edit(named: &str, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let id = automation_named(named, client).await?;
    let AutomationView { definition, digest, .. } = client.get::<AutomationView>(&["automations", &id], &[]).await?.read;
    let before = definition.unwrap_or_default();
    let mut text = serde_json::to_string_pretty(&before).map_err(|error| Failure::failed(error.to_string()))?;
    let headers = [("if-match", format!("\"{digest}\""))];
    loop {
        text = editor::edited(&text, &ABOUT, terminal).await?;
        let failure = match params::exact(&text, "what was edited is") {
            Ok(written) if written == before => {
                terminal.remark("nothing was changed");
                return Ok(Exit::Ok);
            }
            Ok(definition) => {
                let request = SaveAutomationRequest { space: None, definition, signing_secrets: BTreeMap::new() };
                let answer =
                    client.change_with::<SavedAutomationResponse>(Method::PUT, &["automations", &id], &headers, Some(&request)).await;
                match answer {
                    Ok(answer) => return saved(&answer, client, terminal).await,
                    Err(failure) => mistakes::refused(failure, terminal),
                }
            }
            Err(failure) => failure,
        };
        if !matches!(failure.exit, Exit::Invalid | Exit::Usage) {
            return Err(not_lost(failure, &text, &id));
        }
        terminal.failure(&failure);
        if !terminal.agrees("Edit it again?").await? {
            return Err(not_lost(Failure::new(failure.exit, "not saved: you did not say yes"), &text, &id));
        }
    }
}

/// Says where what was written is, unless nothing was to be sent.
fn not_lost(failure: Failure, text: &str, id: &str) -> Failure {
    if failure.exit == Exit::Ok {
        return failure;
    }
    match editor::kept(text, ABOUT.what) {
        Some(path) => failure.hint(format!("countersign automation apply -f {path} --automation {id}")),
        None => failure,
    }
}
