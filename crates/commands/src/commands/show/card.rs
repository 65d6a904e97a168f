//! The approval card in the terminal. It shows every param in full, and says which texts come from the caller and which from the source.

pub(super) mod ahead;

use crate::commands::outcome;
use crate::shared::*;
use crate::style::{self, time};
use api::action::ActionView;
use api::invocation::{
    AnswerView, ApproveMode, ChangedFileView, CheckView, ClaimedView, DecisionView, EditView, ForesightView, InvocationView, RemedyView,
    ScopeView,
};
use countersign_core::Status;
use countersign_core::action::Reversibility;
use countersign_core::changed_file::FileChange;
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use countersign_core::observe::Observed;
use countersign_core::part_of::BatchMode;
use serde_json::Value;
use std::borrow::Cow;

const LABEL_CHARS: usize = 18;

/// How many earlier calls of the same action ended, and how many of them succeeded.
pub(super) struct Before {
    pub(super) ended: usize,
    pub(super) succeeded: usize,
}

/// Everything that a card shows.
pub(super) struct Card<'a> {
    pub(super) invocation: &'a InvocationView,
    /// The action as it is defined now; `None` if it is gone, may not be read, or was redefined since the request.
    pub(super) action: Option<&'a ActionView>,
    pub(super) before: Option<Before>,
    /// What is known about the call before it runs; `None` if the call is no longer pending or the caller may not answer it.
    pub(super) foresight: Option<&'a ForesightView>,
    pub(super) names: &'a Names,
}

impl Card<'_> {
    pub(super) fn lines(&self, terminal: &Terminal) -> Vec<String> {
        let mut lines = vec![self.headline(terminal), self.title(), Tone::Muted.paint(clean::line(&self.invocation.id))];
        lines.extend(self.blocked(terminal));
        lines.push(String::new());
        lines.extend(self.sent());
        lines.extend(self.foreseen(terminal));
        lines.push(String::new());
        lines.extend(self.facts(terminal).into_iter().map(|(label, text)| fact(label, &text, terminal.columns())));
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

    fn facts(&self, terminal: &Terminal) -> Vec<(&'static str, String)> {
        let invocation = self.invocation;
        let mut facts = vec![("Requested by", self.who(terminal))];
        if let Some(reason) = &invocation.reason {
            facts.push(("Reason given", format!("“{}”", clean::line(reason))));
        }
        facts.extend(invocation.connection_id.as_ref().map(|id| ("Connection", clean::line(id))));
        facts.extend(invocation.claimed.iter().flat_map(claims));
        facts.push(("Space", self.names.space(&invocation.space_id).as_shown().to_owned()));
        facts.push(("Decision", cascade(&invocation.decision)));
        facts.extend(self.asked_by(terminal));
        if let Some(action) = self.action {
            if self.leaves_something() {
                facts.push(match invocation.reverses {
                    Some(_) => ("Reversible", "no: a revert is not itself reverted".to_owned()),
                    None => ("Reversible", reversible(action.reversibility, action.reversible_seconds)),
                });
            }
            facts.extend(ahead::code(action).map(|code| ("Runs code", code)));
            if !action.hosts.is_empty() {
                let hosts: Vec<_> = action.hosts.iter().map(|host| clean::line(host)).collect();
                facts.push(("Network", hosts.join(", ")));
            }
            // A revert restores kept content, so there is no dry run of its source to report.
            if self.is_pending() && invocation.reverses.is_none() {
                facts.extend(self.unforeseen(action).map(|told| ("Would change", told)));
            }
            if self.is_pending() && !action.checks.is_empty() && invocation.reverses.is_none() {
                let checks: Vec<_> = action.checks.iter().map(|check| clean::line(check)).collect();
                facts.push(("Verified by", checks.join(", ")));
            }
        }
        if let Some(batch) = &invocation.batch {
            let (part, parts, id) = (batch.part, batch.parts, clean::line(&batch.id));
            let terms = match batch.mode {
                BatchMode::AllOrNothing if parts > 1 => {
                    "; it runs once all parts are approved, and is reverted without asking again if another fails"
                }
                BatchMode::AllOrNothing | BatchMode::BestEffort => "",
            };
            facts.push(("Part of", format!("batch {id}, {part} of {parts}{terms}")));
        }
        facts.extend(invocation.scope.as_ref().map(|scope| ("Limited to", touched(scope))));
        facts.extend(
            invocation.verification.iter().flat_map(|asked| &asked.commands).map(|command| ("Verified with", clean::line(command))),
        );
        if let Some(Before { ended, succeeded }) = &self.before {
            let text = if *ended == 0 {
                "none of this action in this session".to_owned()
            } else {
                format!("{succeeded} of {ended} of this action succeeded in this session")
            };
            facts.push(("Earlier calls", text));
        }
        if let Some(binding) = &invocation.binding {
            let short = |digest: &str| clean::line(digest).chars().take(12).collect::<String>();
            let (call, definition) = (short(&invocation.digests.params), short(&invocation.digests.structural));
            let policy = invocation.decision.modes_version.map_or_else(|| "inferred".to_owned(), |version| format!("version {version}"));
            let text =
                format!("params {call}…, definition {definition}…, policy {policy}, caller and place; digest {}…", short(&binding.digest));
            facts.push(("Approval covers", text));
        }
        facts.extend(self.answers(terminal));
        facts.extend(invocation.grant_id.as_ref().map(|grant| ("By grant", self.names.grant(grant).as_shown().to_owned())));
        let is_unasked = invocation.observed.is_some_and(Observed::ran_unasked);
        facts.extend(is_unasked.then(|| ("Observed", "nobody was asked, because the space only observes".to_owned())));
        facts.extend(outcome::redacted(&invocation.redacted).map(|taken| ("Redacted", taken)));
        facts.extend(invocation.released_from.as_ref().map(|from| ("Released from", clean::line(from))));
        for gate in &invocation.gates {
            facts.extend(
                gate.errors.iter().map(|error| ("Gate error", Tone::Danger.paint(clean::line(&format!("{}: {error}", gate.gate))))),
            );
        }
        facts.extend(self.aftermath(terminal));
        if let Some(error) = &invocation.error {
            facts.push(("Error", format!("{}: {}", clean::line(&error.code), clean::line(&error.message))));
        }
        facts.extend(took(invocation).map(|took| ("Took", took)));
        if let Some(receipt) = &invocation.receipt {
            facts.push(("Receipt", format!("{} (#{})", clean::line(&receipt.id), receipt.seq)));
        }
        facts
    }

    /// Everyone who has approved so far, the final answer, and how the params were edited.
    fn answers(&self, terminal: &Terminal) -> Vec<(&'static str, String)> {
        let invocation = self.invocation;
        let told = |answer: &AnswerView| answered(answer, self.names, terminal.past(answer.at).as_shown());
        let mut facts = Vec::new();
        facts.extend(self.how_many_approved().map(|told| ("Approvals", told)));
        if self.is_pending() || invocation.approvals.len() > 1 {
            facts.extend(invocation.approvals.iter().map(|yes| ("Approved by", told(yes))));
        }
        facts.extend(invocation.answer.as_ref().map(|answer| ("Answered by", told(answer))));
        facts.extend(invocation.resumed_at.map(|at| ("Resumed", resumed(terminal.past(at).as_shown()))));
        if let Some(edit) = &invocation.edit {
            facts.push(("Edited by", format!("{} {}", self.names.name(&edit.by), terminal.past(edit.at).as_shown())));
            facts.extend(edited(edit, &invocation.params).into_iter().map(|change| ("", change)));
        }
        facts
    }

    /// How many have approved, where more than one person must, or must have when the first of them did.
    fn how_many_approved(&self) -> Option<String> {
        let needed = self.foresight?.approvals_needed?;
        let given = self.invocation.approvals.len();
        let is_enough = given >= needed as usize;
        (needed > 1 || given > 0).then(|| {
            let more = if is_enough { ", which is enough by now: the next one runs it, also by somebody who has approved" } else { "" };
            format!("{given} of {needed}{more}")
        })
    }

    /// The changed files, the checks after the effect, and what was done about a failed check.
    fn aftermath(&self, terminal: &Terminal) -> Vec<(&'static str, String)> {
        let invocation = self.invocation;
        let mut facts = Vec::new();
        facts.extend(self.changed());
        facts.extend(invocation.reverses.as_ref().map(|id| ("Reverts", clean::line(id))));
        facts.extend(invocation.reverted_by.as_ref().map(|id| ("Reverted by", Tone::Warn.paint(clean::line(id)))));
        if !invocation.checks.is_empty() {
            facts.push(("Checks", invocation.checks.iter().map(check).collect::<Vec<_>>().join(", ")));
        }
        facts.extend(invocation.repair.map(|repair| ("Repair", remedy(repair, "repaired", "tried, and it still failed"))));
        facts.extend(invocation.rollback.map(|rollback| ("Rollback", remedy(rollback, "rolled back", "could not be rolled back"))));
        facts.extend(invocation.settled.as_ref().map(|settled| {
            let reason = settled.reason.as_ref().map(|reason| format!(": “{}”", clean::line(reason))).unwrap_or_default();
            ("Settled by", format!("{} {}{reason}", self.names.name(&settled.by), terminal.past(settled.at).as_shown()))
        }));
        facts
    }

    /// The files that the call changed, or for a revert those it restored, one line each.
    fn changed(&self) -> Vec<(&'static str, String)> {
        let label = match (outcome::status(self.invocation), self.invocation.reverses.is_some()) {
            (Status::InDoubt, _) => "May have changed",
            (_, true) => "Restored",
            (_, false) => "Changed",
        };
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        labels.zip(&self.invocation.changed_files).map(|(label, file)| (label, changed_file(file))).collect()
    }

    fn who(&self, terminal: &Terminal) -> String {
        let invocation = self.invocation;
        let title = invocation.session_title.as_deref().map(clean::line).filter(|title| !title.is_empty());
        let mut who: Vec<_> = title.into_iter().chain([self.names.name(&invocation.principal)]).collect();
        // The name of an agent already contains its session.
        if !invocation.principal.ends_with(&invocation.session_id) {
            who.push(format!("session {}", clean::line(&invocation.session_id)));
        }
        who.extend(
            invocation
                .owner_id
                .as_ref()
                .filter(|owner| !invocation.principal.ends_with(*owner))
                .map(|owner| format!("for {}", self.names.name(owner))),
        );
        who.push(terminal.past(invocation.created_at).as_shown().to_owned());
        who.join(" · ")
    }

    /// Whether there is or will be an effect to revert. There is none if the call had no effect or was reverted already.
    fn leaves_something(&self) -> bool {
        let came_to_nothing = matches!(
            outcome::status(self.invocation),
            Status::Denied | Status::Expired | Status::Cancelled | Status::Reverted | Status::Quarantined
        );
        !came_to_nothing && !self.invocation.dry_run && self.invocation.reverted_by.is_none()
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

/// The limits of what a call may touch, as one line.
fn touched(scope: &ScopeView) -> String {
    let names = |names: Vec<&String>| names.into_iter().map(|name| clean::line(name)).collect::<Vec<_>>().join(", ");
    let within: Vec<_> = scope.allowed_files.iter().chain(&scope.allowed_dirs).collect();
    let within = if within.is_empty() { "whatever its source can reach".to_owned() } else { format!("{} and nothing else", names(within)) };
    match scope.forbidden_files.as_slice() {
        [] => within,
        except => format!("{within}, except {}", names(except.iter().collect())),
    }
}

/// What the caller claims about the call. None of it was checked.
fn claims(claimed: &ClaimedView) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(claimed.action_id.as_ref().map(|name| ("Named by caller", clean::line(name))));
    facts.extend(claimed.confidence.map(|confidence| ("Confidence given", confidence.to_string())));
    facts.extend(claimed.rollback_plan.as_ref().map(|plan| ("Rollback plan", clean::line(&plan.to_string()))));
    facts.extend(claimed.more.as_ref().map(|more| ("Other fields", clean::line(&more.to_string()))));
    facts
}

/// The decision as one line: the mode that the cascade found, the reasons that tightened it, and the final mode.
pub(in crate::commands) fn cascade(decision: &DecisionView) -> String {
    let found = decision.source.in_words();
    let version = decision.modes_version.map(|version| format!(" (version {version})")).unwrap_or_default();
    let mut steps = vec![format!("{found}{version}: {}", decision.base)];
    steps.extend(decision.tightened.iter().map(|reason| clean::line(reason)));
    if decision.mode != decision.base {
        steps.push(decision.mode.to_string());
    }
    steps.join(" → ")
}

/// `robin 3 min ago: “fine”`, and what the approval does beyond this call. `when` is the time of the answer, relative or absolute.
pub(in crate::commands) fn answered(answer: &AnswerView, names: &Names, when: &str) -> String {
    let reason = answer.reason.as_ref().map(|reason| format!(": “{}”", clean::line(reason))).unwrap_or_default();
    let beyond = match answer.mode {
        ApproveMode::Always => ", and allowed from now on",
        ApproveMode::Grant => ", with a grant",
        ApproveMode::Once => "",
    };
    format!("{} {when}{beyond}{reason}", names.name(&answer.by))
}

/// `3 min ago: …`. `when` is the time, relative or absolute.
pub(in crate::commands) fn resumed(when: &str) -> String {
    format!("{when}: it was approved and had not started when the server stopped")
}

/// `/text: "a" → "b"`: the requested value, and the value that was approved instead.
pub(in crate::commands) fn edited(edit: &EditView, params: &Value) -> Vec<String> {
    let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), |value| clean::json(&value.to_string()));
    let line = |at: &String| format!("{}: {} → {}", clean::line(at), told(edit.proposed_params.pointer(at)), told(params.pointer(at)));
    edit.changed.iter().map(line).collect()
}

/// `12 ms in 1 attempt, and waited 37 s for approval`
fn took(invocation: &InvocationView) -> Option<String> {
    let lasted = time::lasting(invocation.duration_ms?);
    let attempts = match invocation.attempts {
        0 => "without a call to its source".to_owned(),
        1 => "in 1 attempt".to_owned(),
        several => format!("in {several} attempts, repair and rollback included"),
    };
    let waited = invocation.waited_ms.map(|waited| format!(", and waited {} for approval", time::lasting(waited))).unwrap_or_default();
    Some(format!("{lasted} {attempts}{waited}"))
}

/// `+ created a.txt`
fn changed_file(file: &ChangedFileView) -> String {
    let (sign, tone) = match file.change {
        FileChange::Created => ("+", Tone::Ok),
        FileChange::Removed => ("−", Tone::Danger),
        FileChange::Changed => ("~", Tone::Warn),
    };
    format!("{} {}", tone.paint(format!("{sign} {}", file.change.as_str())), clean::line(&file.path))
}

fn check(check: &CheckView) -> String {
    let name = clean::line(&check.name);
    if check.ok {
        return format!("{name} ✓");
    }
    let detail = check.detail.as_ref().map(|detail| format!(": {}", clean::line(detail))).unwrap_or_default();
    Tone::Danger.paint(format!("{name} ✗{detail}"))
}

fn remedy(remedy: RemedyView, well: &str, ill: &str) -> String {
    match (remedy.attempted, remedy.ok) {
        (true, true) => well.to_owned(),
        (true, false) => Tone::Danger.paint(ill),
        (false, _) => "not tried".to_owned(),
    }
}

/// For as long as the source says, and without an end where it says nothing.
fn reversible(reversibility: Reversibility, seconds: Option<u64>) -> String {
    match reversibility {
        Reversibility::NoEffect => "there is nothing to revert".to_owned(),
        Reversibility::Reversible => match seconds {
            Some(seconds) => format!("yes, for {} after the call", time::span(seconds)),
            None => "yes".to_owned(),
        },
        Reversibility::NotReversible => Tone::Danger.paint("no"),
    }
}

pub(super) fn fact(label: &str, text: &str, columns: Option<u16>) -> String {
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
