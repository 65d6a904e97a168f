//! `countersign trigger`: what starts an automation.

use super::automation_name::automation_named;
use crate::shared::*;
use api::Page;
use api::automation::{EnableTriggerRequest, HookTokenView, RotateTokenRequest, TriggerView};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Trigger {
    /// List the triggers of an automation
    #[command(before_help = "Examples:\n  countersign trigger list 'Daily digest'")]
    List {
        /// The name or id of the automation
        automation: String,
    },
    /// Enable a trigger; a schedule starts from now
    #[command(before_help = "Examples:
  countersign trigger enable 'Daily digest' weekdays
  countersign trigger enable 'Daily digest' weekdays --catch-up                     what it missed is made up for")]
    Enable {
        /// The name or id of the automation
        automation: String,
        /// Its id in the definition
        trigger: String,
        /// Make up for what a schedule missed since it was disabled, as its `catch_up` says
        #[arg(long)]
        catch_up: bool,
    },
    /// Disable a trigger: it starts nothing until it is enabled
    #[command(before_help = "Examples:\n  countersign trigger disable 'Daily digest' weekdays")]
    Disable {
        /// The name or id of the automation
        automation: String,
        /// Its id in the definition
        trigger: String,
    },
    /// Give a webhook a new token, which is shown once
    #[command(before_help = "Examples:
  countersign trigger rotate-token 'CI failed' hook
  countersign trigger rotate-token 'CI failed' hook --keep-old                      the old one is taken for another day")]
    RotateToken {
        /// The name or id of the automation
        automation: String,
        /// Its id in the definition
        trigger: String,
        /// Take the old token for another 24 hours
        #[arg(long)]
        keep_old: bool,
    },
}

impl Resource for TriggerView {
    const NOUN: &'static str = "trigger";
    const LIST: &'static str = "trigger list";
    const PATH: &'static [&'static str] = &["automations"];
    const EMPTY: &'static str = "no triggers: it runs when somebody asks for it by name";
    const FIELDS: &'static [Field<Self>] = &[
        Field::both("id", Column::Whole, |one, _| text(&one.id)),
        Field::both("type", Column::Whole, |one, _| text(one.kind.as_str())),
        Field::both("enabled", Column::Whole, |one, _| Some(enabled(one))),
        Field::both("fires", Column::Cut, |one, _| maybe(fires(one))),
        Field::both("next", Column::Whole, |one, view| view.future(one.next_due_at?)),
        Field::both("last fired", Column::Whole, |one, view| view.past(one.last_fired_at?)),
        Field::line("send to", |one, _| maybe(one.fire_url.as_ref())),
        Field::line("signed by", |one, _| maybe(one.signed_by.as_ref())),
        Field::line("disabled because", |one, _| maybe(one.disabled_why.as_ref())),
    ];

    fn id(&self) -> &str {
        &self.id
    }
}

fn enabled(one: &TriggerView) -> Cell {
    if one.enabled { Cell::text("yes").toned(Tone::Ok) } else { Cell::text("no").toned(Tone::Warn) }
}

/// When or how it fires.
fn fires(one: &TriggerView) -> Option<String> {
    let by_hook =
        || one.signed_by.as_ref().map(|secret| format!("signed by {secret}")).or_else(|| one.has_token.then(|| "with its token".into()));
    one.schedule.clone().or_else(by_hook)
}

/// `weekdays: schedule, at 09:00 on weekdays`.
pub(super) fn in_words(one: &TriggerView) -> String {
    let fires = fires(one).map(|fires| format!(", {fires}")).unwrap_or_default();
    let off = if one.enabled { "" } else { ", disabled" };
    format!("{}: {}{fires}{off}", one.id, one.kind)
}

impl Trigger {
    pub(crate) async fn run(self, client: &Client, terminal: &mut Terminal) -> Result<Exit, Failure> {
        match self {
            Self::List { automation } => {
                let id = automation_named(&automation, client).await?;
                let answer = client.get::<Page<TriggerView>>(&["automations", &id, "triggers"], &[]).await?;
                resource::write(&answer.read.items, &answer.raw, TriggerView::EMPTY.to_owned(), client, terminal).await?;
            }
            Self::Enable { automation, trigger, catch_up } => {
                let id = automation_named(&automation, client).await?;
                let path = ["automations", &id, "triggers", &trigger, "enable"];
                let answer = client.post::<TriggerView>(&path, &EnableTriggerRequest { catch_up }).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::Disable { automation, trigger } => {
                let id = automation_named(&automation, client).await?;
                let answer = client.post_empty::<TriggerView>(&["automations", &id, "triggers", &trigger, "disable"]).await?;
                resource::tell(&answer, client, terminal).await?;
            }
            Self::RotateToken { automation, trigger, keep_old } => {
                let id = automation_named(&automation, client).await?;
                let path = ["automations", &id, "triggers", &trigger, "rotate-token"];
                let answer = client.post::<HookTokenView>(&path, &RotateTokenRequest { keep_old }).await?;
                hook_token(&answer.read, terminal)?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Shows the token of a webhook.
pub(super) fn hook_token(token: &HookTokenView, terminal: &mut Terminal) -> Result<(), Failure> {
    let record = Record::new(&token.token)
        .with("webhook", Cell::text(&token.trigger_id))
        .with("token", Cell::text(&token.token))
        .with("send to", Cell::text(&token.fire_url));
    terminal.secret("token", &serde_json::json!(token), &record)
}
