//! The approval card in the terminal. It shows every param in full, and says which texts come from the caller and which from the source.

pub(super) mod ahead;

use crate::commands::outcome;
use crate::shared::*;
use crate::style;
use api::action::ActionView;
use api::invocation::{FactTone, ForesightView, InvocationView};
use countersign_core::Status;
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use serde_json::Value;
use std::borrow::Cow;

const LABEL_CHARS: usize = 18;

/// Everything that a card shows.
pub(super) struct Card<'a> {
    pub(super) invocation: &'a InvocationView,
    /// The action as it is defined now; `None` if it is gone, may not be read, or was redefined since the request.
    pub(super) action: Option<&'a ActionView>,
    /// What is known about the call before it runs; `None` if the call is no longer pending or the caller may not answer it.
    pub(super) foresight: Option<&'a ForesightView>,
}

impl Card<'_> {
    pub(super) fn lines(&self, terminal: &Terminal) -> Vec<String> {
        let mut lines = vec![self.headline(terminal), self.title(), Tone::Muted.paint(clean::line(&self.invocation.id))];
        lines.extend(self.blocked(terminal));
        lines.push(String::new());
        lines.extend(self.sent());
        lines.extend(self.foreseen(terminal));
        lines.push(String::new());
        lines.extend(self.facts(terminal));
        lines.extend(self.result());
        lines
    }

    fn headline(&self, terminal: &Terminal) -> String {
        let invocation = self.invocation;
        let (status, status_tone) = style::status_word(invocation.status);
        let (tier, tier_tone) = style::tier(invocation.tier);
        let mut parts = vec![status_tone.paint(status), format!("{} {}", tier_tone.paint(tier), invocation.class)];
        if invocation.dry_run {
            parts.push("dry run".to_owned());
        }
        if let Some(at) = invocation.expires_at {
            parts.push(Tone::Warn.paint(format!("expires in {}", terminal.future(at).as_shown())));
        }
        if invocation.clock_stopped {
            parts.push(Tone::Danger.paint("a kill switch is on: the deadline is stopped"));
        }
        parts.join(" · ")
    }

    /// The id comes from Countersign, the title from the source, and the card says so.
    fn title(&self) -> String {
        let id = Tone::Strong.paint(clean::line(&self.invocation.action));
        match self.action {
            Some(action) => format!("{id}  {}", Tone::Muted.paint(format!("titled “{}” by its source", clean::line(&action.title)))),
            None => id,
        }
    }

    fn sent(&self) -> Vec<String> {
        let label = match (self.is_pending(), &self.invocation.edit) {
            (true, _) => "Params",
            (false, Some(_)) => "Params, as edited",
            (false, None) => "Params",
        };
        let mut lines = vec![Tone::Muted.paint(label)];
        // Params that were too large to be stored whole are shown whole to a person who may answer the call.
        let whole = self.foresight.and_then(|foresight| foresight.params.as_ref());
        let (params, cut) = whole.map_or_else(|| asked_for(&self.invocation.params), |whole| (Cow::Borrowed(whole), None));
        match params.as_object() {
            Some(members) if members.is_empty() => lines.push("  no params".to_owned()),
            Some(members) => {
                let width = members.keys().map(|name| clean::line(name).chars().count()).max().unwrap_or_default();
                lines.extend(members.iter().flat_map(|(name, value)| member(name, value, width)));
            }
            None => lines.extend(value_lines(&params)),
        }
        if let Some(bytes) = cut {
            let all = if self.is_pending() { "a part that will be sent" } else { "a part" };
            let warning = format!("! too large to be kept whole ({bytes} bytes): {all} is not shown");
            lines.push(format!("  {}", Tone::Danger.paint(warning)));
        }
        lines
    }

    /// The facts as the server tells them; with what is known before the call runs, if that may be known.
    fn facts(&self, terminal: &Terminal) -> Vec<String> {
        let columns = terminal.columns();
        // A revert restores kept content, so there is no dry run of its source to report.
        let action = self.action.filter(|_| self.is_pending() && self.invocation.reverses.is_none());
        let unforeseen = action.and_then(|action| self.unforeseen(action));
        let mut lines: Vec<_> = unforeseen.map(|told| fact("Would change", &told, columns)).into_iter().collect();
        let mut before = "";
        let ahead = self.foresight.map(|foresight| &foresight.facts).filter(|facts| !facts.is_empty());
        for told in ahead.unwrap_or(&self.invocation.facts) {
            let when = told.at.map(|at| terminal.past(at).as_shown().to_owned()).unwrap_or_default();
            let text = format!("{}{when}{}", clean::line(&told.text), clean::line(&told.more));
            let text = match told.tone {
                Some(FactTone::Warn) => Tone::Warn.paint(text),
                Some(FactTone::Danger) => Tone::Danger.paint(text),
                None => text,
            };
            let label = if told.label == before { "" } else { told.label.as_str() };
            lines.push(fact(&clean::line(label), &text, columns));
            before = &told.label;
        }
        lines
    }

    fn is_pending(&self) -> bool {
        outcome::status(self.invocation) == Status::Pending
    }

    fn result(&self) -> Vec<String> {
        let Some(result) = &self.invocation.result else { return Vec::new() };
        let mut lines = vec![String::new(), Tone::Muted.paint("Result")];
        lines.extend(value_lines(result));
        lines
    }
}

/// The params as they were requested, and their original size if they were too large to be stored whole. The two members that mark
/// truncated params are removed. They count only if the params are as large as truncated params are: a caller may have sent members with
/// the same names.
pub(in crate::commands) fn asked_for(params: &Value) -> (Cow<'_, Value>, Option<u64>) {
    let is_as_large_as_is_kept = || params.to_string().len() > PARAMS_STORED_BYTES_MAX / 2;
    let bytes = params.get("_original_bytes").and_then(Value::as_u64).filter(|_| is_as_large_as_is_kept());
    let (Some(bytes), Some(members), Some(true)) = (bytes, params.as_object(), params.get("_truncated").and_then(Value::as_bool)) else {
        return (Cow::Borrowed(params), None);
    };
    let asked = members.iter().filter(|(name, _)| !["_truncated", "_original_bytes"].contains(&name.as_str()));
    let asked = asked.map(|(name, value)| (name.clone(), value.clone())).collect();
    (Cow::Owned(Value::Object(asked)), Some(bytes))
}

fn fact(label: &str, text: &str, columns: Option<u16>) -> String {
    format!("{}{}", Tone::Muted.paint(format!("{label:LABEL_CHARS$}")), style::hang(text, LABEL_CHARS, columns))
}

/// One param. Strings are in quotes, so that "1" and 1 differ; a string of several lines is shown as a block.
fn member(name: &str, value: &Value, width: usize) -> Vec<String> {
    let name = format!("{:width$}", clean::line(name));
    match value {
        Value::String(text) if text.contains('\n') => {
            let mut lines = vec![format!("  {name}  {}", Tone::Muted.paint(counted(text.lines().count() as u64, "line", "lines")))];
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
mod tests;
