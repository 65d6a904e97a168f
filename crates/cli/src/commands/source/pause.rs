//! `countersign source pause` and `resume`: the kill switch of a source, under the words that people look for.

use crate::commands::kill_switch::changed;
use crate::shared::*;
use api::rules::{SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest};
use api::source::AddedSourceView;
use countersign_core::switch::Stop;

pub(super) async fn pause(name: &str, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    // A switch can be set for any name, so a misspelt one would stop nothing and say nothing.
    client.get::<AddedSourceView>(&["sources", name], &[]).await?;
    let question = format!("Stop every call of source `{}` at once?", clean::line(name));
    terminal.consent(&question, agreed.consent(client)).await?;
    let request = SwitchOnRequest { scope: scope(name), stop: Stop::Everything, reason };
    changed(&client.post::<SwitchChangedResponse>(&["kill-switches", "on"], &request).await?, terminal)?;
    terminal.next(format!("countersign source resume {}", clean::line(name)));
    Ok(())
}

pub(super) async fn resume(name: &str, reason: Option<String>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let request = SwitchOffRequest { scope: scope(name), reason };
    changed(&client.post::<SwitchChangedResponse>(&["kill-switches", "off"], &request).await?, terminal)
}

fn scope(name: &str) -> String {
    format!("source:{name}")
}
