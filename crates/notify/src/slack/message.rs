//! The message about a call, of Block Kit blocks. All text is `plain_text`: what agents and sources wrote is shown as it is, and never becomes
//! markup, a link or a mention.

use super::interaction::{APPROVE, DENY, OPEN, Shown};
use crate::Notice;
use crate::limits::{SLACK_PARAMS_CHARS_MAX, SLACK_TEXT_CHARS_MAX};
use countersign_core::action::Class;
use countersign_core::{Invocation, Status, clean};
use serde_json::{Value, json};

/// Slack's bound for the text of a header.
const HEADER_CHARS_MAX: usize = 150;

pub(super) struct Message {
    /// What a notification on a phone shows.
    pub(super) text: String,
    pub(super) blocks: Vec<Value>,
}

/// A call that waits, with its buttons. `page` is where it can be looked at.
pub(super) fn pending(notice: &Notice, page: &str) -> Message {
    let invocation = &*notice.invocation;
    let title = format!("{} waits for an approval", invocation.action);
    let params = Params::of(invocation);
    let is_named = invocation.tier.class() == Class::Danger;
    let mut blocks = vec![header(&title), facts(notice), section(&params.text)];
    if is_named {
        blocks.push(context("An action of tier R4 is approved by typing its name, which cannot be done here."));
    } else if !params.is_whole {
        blocks.push(context("This is not all that would be sent, so it cannot be approved here. Open it to see the rest."));
    }
    let shown = invocation.binding.as_ref().map(|binding| Shown { invocation: invocation.id.clone(), binding: binding.digest });
    let mut buttons = Vec::new();
    if let Some(shown) = &shown {
        // Nobody approves what they were not shown.
        if params.is_whole && !is_named {
            buttons.push(button("Approve once", APPROVE, "primary", shown));
        }
        buttons.push(button("Deny", DENY, "danger", shown));
        buttons.push(json!({ "type": "button", "action_id": OPEN, "text": plain("Open"), "url": page }));
    }
    if !buttons.is_empty() {
        blocks.push(json!({ "type": "actions", "elements": buttons }));
    }
    Message { text: escaped(&title), blocks }
}

/// A message that only tries the channel. It has nothing that looks like a call.
pub(super) fn test(notice: &Notice) -> Message {
    let title = "This is a test: no call waits";
    let mut lines = vec![format!("Sent by: {}", clean::line(&notice.who.requester))];
    lines.extend(notice.invocation.call.reason.as_deref().map(clean::line));
    Message { text: escaped(title), blocks: vec![header(title), section(&lines.join("\n"))] }
}

/// What became of it. The buttons are gone.
pub(super) fn outcome(notice: &Notice) -> Message {
    let invocation = &*notice.invocation;
    // As it is now: two notices of one call may be on their way at once.
    let became = match invocation.status {
        Status::Pending => "waits".to_owned(),
        Status::Approved | Status::Running => "is approved and runs".to_owned(),
        Status::InDoubt => "is in doubt: nobody knows whether it happened".to_owned(),
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Expired
        | Status::Cancelled
        | Status::Quarantined => format!("has ended: {}", invocation.status),
    };
    let title = format!("{} {became}", invocation.action);
    let blocks = vec![header(&title), facts(notice), section(&Params::of(invocation).text)];
    Message { text: escaped(&title), blocks }
}

fn facts(notice: &Notice) -> Value {
    let lines: Vec<_> = notice.facts().iter().map(|(label, text)| format!("{label}: {}", cut(text, SLACK_TEXT_CHARS_MAX))).collect();
    section(&lines.join("\n"))
}

/// The params as they are kept, and whether that is all of them.
struct Params {
    text: String,
    is_whole: bool,
}

impl Params {
    fn of(invocation: &Invocation) -> Self {
        let params = &invocation.call.params;
        let text = clean::json(&serde_json::to_string_pretty(params).unwrap_or_default());
        let is_whole = !pipeline::is_truncated(params) && text.chars().count() <= SLACK_PARAMS_CHARS_MAX;
        Self { text: cut(&text, SLACK_PARAMS_CHARS_MAX), is_whole }
    }
}

fn header(text: &str) -> Value {
    json!({ "type": "header", "text": plain(&cut(text, HEADER_CHARS_MAX)) })
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": plain(text) })
}

fn context(text: &str) -> Value {
    json!({ "type": "context", "elements": [plain(text)] })
}

fn button(label: &str, action_id: &str, style: &str, shown: &Shown) -> Value {
    json!({ "type": "button", "action_id": action_id, "style": style, "text": plain(label), "value": shown.text() })
}

fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A text outside of blocks is read as markup, in which these three begin links and mentions.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
