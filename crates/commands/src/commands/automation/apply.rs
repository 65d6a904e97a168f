//! `countersign automation apply`: puts the definition of a file into force, as a new automation or as a new version.

use super::{draft_view, file, mistakes};
use crate::client::Method;
use crate::commands::automation_name::automation_named;
use crate::commands::trigger::hook_token;
use crate::shared::*;
use api::Page;
use api::automation::{AutomationView, SaveAutomationRequest, SavedAutomationResponse};
use clap::{Args, ValueHint};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const EXAMPLES: &str = "\
Examples:
  countersign automation apply -f digest.json
  countersign automation apply -f digest.yaml --space shop
  countersign automation apply -f ci.json --signed-by hook=ci-key                  the secret that signs its webhook `hook`
  countersign automation apply -f digest.json --automation aut_… --if-match 0123…  only if nobody has saved another version";

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file with the definition, JSON or YAML; - reads JSON from stdin
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    /// The space that it acts in; main when absent
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// The automation that it is a new version of; else the one of its name in the space, else a new one
    #[arg(long, value_name = "AUTOMATION")]
    automation: Option<String>,
    /// The digest of the definition that you have seen: nothing is saved if it is another one by now
    #[arg(long, value_name = "DIGEST", requires = "automation")]
    if_match: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// The secrets that sign its webhooks.
#[derive(Debug, Args)]
pub(crate) struct Signing {
    /// A webhook and the secret that signs it, such as hook=ci-key; may be given several times
    #[arg(long = "signed-by", value_name = "TRIGGER=SECRET", value_parser = pair)]
    signed_by: Vec<(String, String)>,
}

impl Signing {
    pub(super) fn secrets(self) -> BTreeMap<String, String> {
        self.signed_by.into_iter().collect()
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (trigger, secret) = text.split_once('=').ok_or("expected a trigger and a secret, such as hook=ci-key")?;
    Ok((trigger.to_owned(), secret.to_owned()))
}

impl Apply {
    pub(super) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let Self { file, space, automation, if_match, signing } = self;
        let definition = file::read(&file, terminal).await?;
        let before = match automation {
            Some(named) => Some(automation_named(&named, client).await?),
            None => of_name(&name_of(&definition), space.as_deref(), client).await?,
        };
        let headers: Vec<_> = if_match.map(|digest| ("if-match", format!("\"{digest}\""))).into_iter().collect();
        let request = SaveAutomationRequest { space, definition, signing_secrets: signing.secrets() };
        let (method, path) = match &before {
            Some(id) => (Method::PUT, vec!["automations", id.as_str()]),
            None => (Method::POST, vec!["automations"]),
        };
        let answer = client.change_with::<SavedAutomationResponse>(method, &path, &headers, Some(&request)).await;
        let answer = answer.map_err(|failure| mistakes::refused(failure, terminal))?;
        saved(&answer, client, terminal).await
    }
}

/// The name that a definition gives its automation.
pub(super) fn name_of(definition: &Value) -> String {
    definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The automation that has the name in this space. Whoever may not list automations makes a draft of a new one.
pub(super) async fn of_name(name: &str, space: Option<&str>, client: &Client) -> Result<Option<String>, Failure> {
    let space = space.map(|space| ("space", space.to_owned()));
    let query: Vec<_> = [("name", name.to_owned())].into_iter().chain(space).collect();
    match client.get::<Page<AutomationView>>(&["automations"], &query).await {
        Ok(page) => Ok(page.read.items.into_iter().next().map(|found| found.id)),
        Err(failure) if failure.exit == Exit::Denied => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Tells what became of a definition that was to be saved, and the tokens of its new webhooks, which are shown this once.
pub(super) async fn saved(answer: &Answer<SavedAutomationResponse>, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let SavedAutomationResponse { automation, draft, is_new_version, tokens, warnings } = &answer.read;
    if terminal.is_document() {
        terminal.document(&answer.raw)?;
        return Ok(Exit::Ok);
    }
    mistakes::tell(warnings, Tone::Warn, terminal);
    if let Some(draft) = draft {
        let part = Answer { read: draft.clone(), raw: answer.raw["draft"].clone() };
        draft_view::tell(&part, client, terminal).await?;
        terminal.remark(Tone::Warn.paint("! it is a draft: a person has to save it within 24 hours"));
    }
    if let Some(automation) = automation {
        let part = Answer { read: automation.clone(), raw: answer.raw["automation"].clone() };
        resource::tell(&part, client, terminal).await?;
        let done = if *is_new_version {
            format!("version {} is in force", automation.version)
        } else {
            format!("the definition is the same: version {} stays in force", automation.version)
        };
        terminal.note(format!("{} {done}", Tone::Ok.paint("✓")));
    }
    tokens.iter().try_for_each(|token| hook_token(token, terminal))?;
    Ok(Exit::Ok)
}
