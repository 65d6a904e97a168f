//! The approval card in the terminal. Every param is there, whole; whose words are whose is said; nothing is hidden.

use crate::commands::outcome;
use crate::output::Terminal;
use crate::style::{self, Tone, clean};
use api::action::ActionView;
use api::invocation::{DecisionView, InvocationView};
use countersign_core::Status;
use serde_json::Value;

const LABEL_CHARS: usize = 19;

/// How the same action went before.
pub(super) struct Before {
    pub(super) ended: usize,
    pub(super) succeeded: usize,
}

/// What a card is drawn from.
pub(super) struct Card<'a> {
    pub(super) invocation: &'a InvocationView,
    /// As it is defined now; absent when it is gone or may not be read.
    pub(super) action: Option<&'a ActionView>,
    pub(super) before: Option<Before>,
}

impl Card<'_> {
    pub(super) fn lines(&self, terminal: &Terminal) -> Vec<String> {
        let mut lines = vec![self.headline(terminal), self.title(), Tone::Muted.paint(clean::line(&self.invocation.id)), String::new()];
        lines.extend(self.sent());
        lines.push(String::new());
        lines.extend(self.facts(terminal).into_iter().map(|(label, text)| fact(label, &text)));
        lines.extend(self.result());
        lines
    }

    fn headline(&self, terminal: &Terminal) -> String {
        let invocation = self.invocation;
        let (status, status_tone) = style::status_word(&invocation.status);
        let (tier, tier_tone) = style::tier(&invocation.tier);
        let mut parts = vec![status_tone.paint(status), format!("{} {}", tier_tone.paint(tier), clean::line(&invocation.class))];
        if invocation.dry_run {
            parts.push("dry run".to_owned());
        }
        if let Some(at) = &invocation.expires_at {
            parts.push(Tone::Warn.paint(format!("expires in {}", terminal.future(at).as_shown())));
        }
        parts.join(" · ")
    }

    /// The id is ours, the title is the source's.
    fn title(&self) -> String {
        let id = Tone::Strong.paint(clean::line(&self.invocation.action));
        match self.action {
            Some(action) => format!("{id}  {}", Tone::Muted.paint(format!("which its source calls “{}”", clean::line(&action.title)))),
            None => id,
        }
    }

    fn sent(&self) -> Vec<String> {
        let label = if self.is_pending() { "WHAT WILL BE SENT" } else { "WHAT WAS ASKED" };
        let mut lines = vec![Tone::Muted.paint(label)];
        match self.invocation.params.as_object() {
            Some(members) if members.is_empty() => lines.push("  no params".to_owned()),
            Some(members) => {
                let width = members.keys().map(|name| clean::line(name).chars().count()).max().unwrap_or_default();
                lines.extend(members.iter().flat_map(|(name, value)| member(name, value, width)));
            }
            None => lines.extend(value_lines(&self.invocation.params)),
        }
        if self.invocation.params.get("_truncated") == Some(&Value::Bool(true)) {
            lines.push(format!("  {}", Tone::Danger.paint("! too large to be kept whole: what is shown is not all that will be sent")));
        }
        lines
    }

    fn facts(&self, terminal: &Terminal) -> Vec<(&'static str, String)> {
        let invocation = self.invocation;
        let mut facts = vec![("WHO ASKS", self.who(terminal))];
        if let Some(reason) = &invocation.reason {
            facts.push(("THEIR WORDS", format!("“{}”", clean::line(reason))));
        }
        facts.push((
            if invocation.answer.is_some() || invocation.expires_at.is_some() { "WHY YOU ARE ASKED" } else { "DECIDED BY" },
            cascade(&invocation.decision),
        ));
        if let Some(action) = self.action {
            facts.push(("REVERSIBLE", reversible(&action.reversibility)));
            if self.is_pending() {
                facts.push(("WHAT WOULD CHANGE", preview(action)));
            }
        }
        if let Some(Before { ended, succeeded }) = &self.before {
            let text = if *ended == 0 {
                "never done in this session".to_owned()
            } else {
                format!("in this session {succeeded} of {ended} succeeded")
            };
            facts.push(("BEFORE", text));
        }
        if let Some(binding) = &invocation.binding {
            let short = |digest: &str| clean::line(digest).chars().take(12).collect::<String>();
            let (call, definition) = (short(&invocation.digests.params), short(&invocation.digests.structural));
            let policy = invocation.decision.modes_version.map_or_else(|| "inferred".to_owned(), |version| format!("version {version}"));
            let text =
                format!("params {call}…, definition {definition}…, policy {policy}, caller and place; digest {}…", short(&binding.digest));
            facts.push((if self.is_pending() { "A YES BINDS" } else { "WAS BOUND TO" }, text));
        }
        if let Some(answer) = &invocation.answer {
            let reason = answer.reason.as_ref().map(|reason| format!(": “{}”", clean::line(reason))).unwrap_or_default();
            facts.push(("ANSWERED BY", format!("{} {}{reason}", clean::line(&answer.by), terminal.past(&answer.at).as_shown())));
        }
        if let Some(error) = &invocation.error {
            facts.push(("ERROR", format!("{}: {}", clean::line(&error.code), clean::line(&error.message))));
        }
        if let Some(receipt) = &invocation.receipt {
            facts.push(("RECEIPT", format!("{} (#{})", clean::line(&receipt.id), receipt.seq)));
        }
        facts
    }

    fn who(&self, terminal: &Terminal) -> String {
        let invocation = self.invocation;
        let mut who = vec![clean::line(&invocation.principal)];
        // An agent is named by its session already.
        if !invocation.principal.ends_with(&invocation.session_id) {
            who.push(format!("session {}", clean::line(&invocation.session_id)));
        }
        who.extend(
            invocation
                .owner_id
                .as_ref()
                .filter(|owner| !invocation.principal.ends_with(*owner))
                .map(|owner| format!("for {}", clean::line(owner))),
        );
        who.push(terminal.past(&invocation.created_at).as_shown().to_owned());
        who.join(" · ")
    }

    fn is_pending(&self) -> bool {
        outcome::status(self.invocation) == Status::Pending
    }

    fn result(&self) -> Vec<String> {
        let Some(result) = &self.invocation.result else { return Vec::new() };
        let mut lines = vec![String::new(), Tone::Muted.paint("RESULT")];
        lines.extend(value_lines(result));
        lines
    }
}

/// The decision as one line: what the cascade found, what tightened it, what holds.
pub(in crate::commands) fn cascade(decision: &DecisionView) -> String {
    let found = match decision.source.as_ref() {
        "inferred_default" => "inferred from the tier".to_owned(),
        "org_default" => "set for the org".to_owned(),
        "automation_override" => "set for the automation".to_owned(),
        other => clean::line(other),
    };
    let version = decision.modes_version.map(|version| format!(" (version {version})")).unwrap_or_default();
    let mut steps = vec![format!("{found}{version}: {}", clean::line(&decision.base))];
    steps.extend(decision.tightened.iter().map(|reason| clean::line(reason)));
    if decision.mode != decision.base {
        steps.push(clean::line(&decision.mode));
    }
    steps.join(" → ")
}

fn preview(action: &ActionView) -> String {
    if action.dry_run_supported {
        format!("countersign action invoke {} --dry-run with these params tells", clean::line(&action.id))
    } else {
        "this action cannot tell in advance".to_owned()
    }
}

fn reversible(word: &str) -> String {
    match word {
        "no_effect" => "there is nothing to take back".to_owned(),
        "reversible" => "yes: what was there before is kept".to_owned(),
        "not_reversible" => Tone::Danger.paint("no: it leaves our reach"),
        other => clean::line(other),
    }
}

fn fact(label: &str, text: &str) -> String {
    format!("{}{text}", Tone::Muted.paint(format!("{label:LABEL_CHARS$}")))
}

/// Strings in quotes, so that "1" and 1 differ; several lines as a block.
fn member(name: &str, value: &Value, width: usize) -> Vec<String> {
    let name = format!("{:width$}", clean::line(name));
    match value {
        Value::String(text) if text.contains('\n') => {
            let mut lines = vec![format!("  {name}  {}", Tone::Muted.paint(format!("{} lines", text.lines().count())))];
            lines.extend(block(text));
            lines
        }
        Value::String(text) => vec![format!("  {name}  \"{}\"", clean::line(text))],
        Value::Array(_) | Value::Object(_) if !is_small(value) => [vec![format!("  {name}")], value_lines(value)].concat(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            vec![format!("  {name}  {}", clean::json(&value.to_string()))]
        }
    }
}

fn value_lines(value: &Value) -> Vec<String> {
    block(&clean::json(&serde_json::to_string_pretty(value).unwrap_or_default()))
}

fn block(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = clean::block(text).split('\n').map(|line| format!("    {} {line}", Tone::Muted.paint("│"))).collect();
    if text.ends_with('\n') {
        lines.pop();
    } else if text.contains('\n') && !text.starts_with(['{', '[']) {
        lines.push(format!("    {}", Tone::Muted.paint("╵ no line break at the end")));
    }
    lines
}

fn is_small(value: &Value) -> bool {
    value.to_string().len() <= 60
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
