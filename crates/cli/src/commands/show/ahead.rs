//! The part of a card that looks ahead: whether the call could run, what it would change, whose code runs, and what made us ask.

use super::card::Card;
use crate::commands::changes;
use crate::output::Terminal;
use crate::style::{Tone, clean};
use api::action::ActionView;
use api::invocation::{ForesightView, LabelView};

impl Card<'_> {
    /// First, and in red: whoever reads no further must have read this.
    pub(super) fn blocked(&self) -> Option<String> {
        let blocked = self.foresight?.blocked.as_ref()?;
        Some(Tone::Danger.paint(format!("! cannot run now: {} ({})", clean::line(&blocked.message), clean::line(&blocked.code))))
    }

    /// The diff, where its source could tell.
    pub(super) fn foreseen(&self) -> Vec<String> {
        let Some(lines) = self.foresight.and_then(|foresight| foresight.changes.as_ref()).and_then(changes::foreseen) else {
            return Vec::new();
        };
        let mut section = vec![String::new(), Tone::Muted.paint("WHAT WOULD CHANGE")];
        section.extend(lines.into_iter().map(|line| format!("  {line}")));
        section
    }

    /// The same in one sentence, where it could not.
    pub(super) fn unforeseen(&self, action: &ActionView) -> Option<String> {
        let declared = declared(action);
        match self.foresight {
            Some(ForesightView { blocked: Some(_), .. }) => None,
            Some(ForesightView { changes: Some(changes), .. }) => {
                changes::foreseen(changes).is_none().then(|| clean::json(&changes.to_string()))
            }
            Some(ForesightView { unknown: Some(why), .. }) => Some(format!("{}{declared}", clean::line(why))),
            Some(_) => None,
            None if action.dry_run_supported => {
                Some(format!("countersign action invoke {} --dry-run with these params tells", clean::line(&action.id)))
            }
            None => Some(format!("this action cannot tell in advance{declared}")),
        }
    }

    /// What the gates that ask say, each in its own sentence, and what they say it of.
    pub(super) fn asked_by(&self, terminal: &Terminal) -> Vec<(&'static str, String)> {
        let concerns = self.foresight.map(|foresight| foresight.concerns.as_slice()).unwrap_or_default();
        let mut facts = Vec::new();
        for gate in self.invocation.gates.iter().filter(|gate| gate.verdict == "needs_approval") {
            for rule in &gate.determining {
                let said: Vec<_> = concerns.iter().filter(|concern| concern.rule == *rule).collect();
                let places: Vec<_> = said.iter().map(|concern| clean::line(&concern.pointer)).filter(|place| !place.is_empty()).collect();
                let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
                let rule = clean::line(rule);
                let sentence = said.first().map_or_else(|| rule.clone(), |concern| format!("{} ({rule})", clean::line(&concern.message)));
                facts.push(("", Tone::Warn.paint(format!("gate `{}` asks: {sentence}{at}", clean::line(&gate.gate)))));
            }
        }
        if !facts.is_empty() {
            let labels = self.foresight.map(|foresight| foresight.labels.as_slice()).unwrap_or_default();
            facts.extend(labels.iter().map(|label| ("SESSION HOLDS", held(label, terminal))));
        }
        facts
    }
}

/// `private_data since 3 min ago, from files.read_text inv_…`
fn held(label: &LabelView, terminal: &Terminal) -> String {
    let since = terminal.past(&label.at);
    let from: Vec<_> = [&label.action, &label.invocation_id].into_iter().flatten().map(|word| clean::line(word)).collect();
    let from = if from.is_empty() { String::new() } else { format!(", from {}", from.join(" ")) };
    format!("{} since {}{from}", clean::line(&label.label), since.as_shown())
}

/// Code of others, and what holds it.
pub(super) fn code(action: &ActionView) -> Option<String> {
    let digest: String = clean::line(action.package_sha256.as_ref()?).chars().take(12).collect();
    let package = action.id.split('.').next().unwrap_or_default();
    let reach = if action.hosts.is_empty() { ", with no network" } else { "" };
    let (package, profile) = (clean::line(package), clean::line(&action.profile));
    Some(Tone::Warn.paint(format!("of the package `{package}` ({digest}…), in the sandbox under profile `{profile}`{reach}")))
}

/// `; it says that it changes files and asks others over the network`
fn declared(action: &ActionView) -> String {
    let word = |effect: &String| match effect.as_str() {
        "filesystem_read" => "reads files".to_owned(),
        "filesystem_write" => "changes files".to_owned(),
        "network_call" => "asks others over the network".to_owned(),
        "device_notification" => "tells people".to_owned(),
        other => clean::line(other),
    };
    match action.effects.as_slice() {
        [] => String::new(),
        effects => format!("; it says that it {}", effects.iter().map(word).collect::<Vec<_>>().join(" and ")),
    }
}
