//! `countersign source pause` and `resume`: the kill switch of a source, under the words that people look for.

use crate::commands::kill_switch::{changed, on};
use crate::shared::*;
use api::Code;
use api::rules::{SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest, SwitchView};
use api::source::AddedSourceView;
use countersign_core::switch::Stop;

pub(super) async fn pause(name: &str, reason: String, agreed: Agreed, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    // A switch can be set for any name, so a misspelt one would stop nothing and say nothing.
    client.get::<AddedSourceView>(&["sources", name], &[]).await?;
    // A second pause would replace the reason of the first one.
    let is_paused = |switch: &SwitchView| switch.scope == scope(name) && switch.stop == Stop::Everything;
    if let Some(switch) = on(client).await.into_iter().find(is_paused) {
        let record = Record::new(&switch.scope)
            .with("kill switch", Cell::text(&switch.scope))
            .with("state", Cell::shown("■ on already", "on").toned(Tone::Danger))
            .with("reason", Cell::text(&switch.reason));
        terminal.record(&serde_json::to_value(&switch).unwrap_or_default(), &record)?;
        terminal.next(format!("countersign source resume {}", clean::line(name)));
        return Ok(());
    }
    let question = format!("Stop every call of source `{}` at once?", clean::line(name));
    terminal.consent(&question, agreed.consent(client)).await?;
    let request = SwitchOnRequest { scope: scope(name), stop: Stop::Everything, reason };
    changed(&client.post::<SwitchChangedResponse>(&["kill-switches", "on"], &request).await?, terminal)?;
    terminal.next(format!("countersign source resume {}", clean::line(name)));
    Ok(())
}

pub(super) async fn resume(name: &str, reason: Option<String>, client: &Client, terminal: &mut Terminal) -> Result<(), Failure> {
    let request = SwitchOffRequest { scope: scope(name), reason };
    let answer = client.post::<SwitchChangedResponse>(&["kill-switches", "off"], &request).await;
    let answer = answer.map_err(|failure| {
        let is_not_paused = failure.is(Code::NotFound);
        if is_not_paused { failure.hint("it is not paused; see how each is with `countersign source list`") } else { failure }
    });
    changed(&answer?, terminal)
}

fn scope(name: &str) -> String {
    format!("source:{name}")
}
