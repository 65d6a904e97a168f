//! The part of a card about what comes next: whether the call could run, and what it would change.

use super::{Card, fact};
use crate::commands::changes;
use crate::shared::*;
use crate::style::hang;
use api::action::ActionView;
use api::invocation::{ForesightView, InvocationView};

const REDEFINED: &str = "definition_mismatch";
/// How the server begins to say that the action is gone.
const GONE: &str = "the action is no longer there";

/// Error codes that mean the server's settings keep a package's code from running.
const SET_UP: [&str; 5] = [
    "package_code_disabled",
    "package_command_not_allowed",
    "package_interpreter_missing",
    "package_network_not_allowed",
    "sandbox_unavailable",
];

impl Card<'_> {
    /// Why the call cannot run now. It stands at the top in red, so that nobody misses it.
    pub(super) fn blocked(&self, terminal: &Terminal) -> Option<String> {
        let blocked = self.foresight?.blocked.as_ref()?;
        let (why, code) = (clean::line(&blocked.message), clean::line(&blocked.code));
        let said = Tone::Danger.paint(self.with_how_known(format!("! cannot run now: {why} ({code})")));
        Some(hang(&said, 2, terminal.columns()))
    }

    /// The note that a package's code was run to find out what the card says; `None` if none was run.
    fn how_known(&self) -> Option<String> {
        let package = package_of(&self.invocation.action);
        self.foresight?.ran_code.then(|| format!("code of the package `{package}` was run to find this out, without effect"))
    }

    fn with_how_known(&self, said: String) -> String {
        match self.how_known() {
            Some(how) => format!("{said}; {how}"),
            None => said,
        }
    }

    /// The commands that answer the call. Approving is not suggested if it would do nothing.
    pub(in crate::commands::show) fn answer(&self) -> String {
        let id = &self.invocation.id;
        let deny = format!("countersign deny {id} --reason …");
        let Some(blocked) = self.foresight.and_then(|foresight| foresight.blocked.as_ref()) else {
            return format!("countersign approve {id}, or {deny}");
        };
        match (blocked.code.as_str(), &self.invocation.reverses) {
            ("stopped", _) => "countersign kill-switch list".to_owned(),
            (REDEFINED, _) if blocked.message.starts_with(GONE) => deny,
            (REDEFINED, _) => format!("{deny}, then countersign action review {}", self.invocation.action),
            (_, Some(reversed)) => format!("countersign show {reversed}, or {deny}"),
            (code, None) if SET_UP.contains(&code) => format!("countersign doctor, or {deny}"),
            (_, None) => deny,
        }
    }

    /// The diff of the changes, if the source could predict them.
    pub(super) fn foreseen(&self, terminal: &Terminal) -> Vec<String> {
        let Some(lines) = self.foresight.and_then(|foresight| foresight.changes.as_ref()).and_then(changes::foreseen) else {
            return Vec::new();
        };
        let heading = match self.how_known() {
            Some(how) => fact("Would change", &how, terminal.columns()),
            None => Tone::Muted.paint("Would change"),
        };
        let mut section = vec![String::new(), heading];
        section.extend(lines.into_iter().map(|line| format!("  {line}")));
        section
    }

    /// The same in one sentence, if there is no diff.
    pub(super) fn unforeseen(&self, action: &ActionView) -> Option<String> {
        let declared = declared(action);
        match self.foresight {
            Some(ForesightView { blocked: Some(_), .. }) => None,
            Some(ForesightView { changes: Some(changes), .. }) => {
                changes::foreseen(changes).is_none().then(|| clean::json(&changes.to_string()))
            }
            Some(ForesightView { unknown: Some(why), .. }) => Some(self.with_how_known(format!("{}{declared}", clean::line(why)))),
            Some(_) => None,
            None if action.dry_run_supported => {
                Some(format!("not known; try countersign action invoke {} --dry-run with these params", clean::line(&action.id)))
            }
            None => Some(format!("not known in advance{declared}")),
        }
    }
}

/// Whether the action was redefined since the call was requested.
pub(in crate::commands::show) fn is_redefined(foresight: &ForesightView) -> bool {
    foresight.blocked.as_ref().is_some_and(|blocked| blocked.code == REDEFINED)
}

/// The line that says what is going on until the card is shown. It is short enough to be overwritten.
pub(in crate::commands::show) fn meanwhile(invocation: &InvocationView, action: Option<&ActionView>) -> &'static str {
    let is_rehearsed = |action: &&ActionView| action.package_sha256.is_some() && action.dry_run_supported && invocation.reverses.is_none();
    match action.filter(is_rehearsed) {
        Some(_) => "running the package's code without effect, to see what it would change…",
        None => "looking at what it would change…",
    }
}

fn package_of(action: &str) -> String {
    clean::line(action.split('.').next().unwrap_or_default())
}

/// `; it declares that it changes files and uses the network`
fn declared(action: &ActionView) -> String {
    match action.effects.as_slice() {
        [] => String::new(),
        effects => format!("; it declares that it {}", effects.iter().map(|effect| effect.in_words()).collect::<Vec<_>>().join(" and ")),
    }
}
