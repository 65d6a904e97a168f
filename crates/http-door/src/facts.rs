//! The facts of a call, in the order in which they are read. They are made here alone: the page of a call, the command line and the web UI only
//! show them.

mod after;
mod reasons;

use api::invocation::{AnswerView, ApproveMode, DecisionView, FactTone, FactView, ForesightView, InvocationView, ScopeView};
use countersign_core::action::Reversibility;
use countersign_core::part_of::BatchMode;
use countersign_core::ports::connections::Connection;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::{Action, ConnectionId, Invocation, OrgId, PrincipalId, Status};
use operations::App;
use operations::{invocations, users};
use pipeline::Eyes;
use serde_json::Value;
use std::sync::Arc;

/// The calls before this one that are looked at.
const EARLIER_MAX: u32 = 100;

/// What the row of a call says only by ids, or not at all.
#[derive(Default)]
struct Known {
    session_title: Option<String>,
    requester: String,
    owner: Option<String>,
    space: String,
    /// The connection whose credential its requests carry, by its name and with the address that its mail comes from.
    connection: Option<String>,
    approvers: Vec<String>,
    answerer: Option<String>,
    editor: Option<String>,
    settler: Option<String>,
    /// How many earlier calls of the same action in the session, or of the same automation, have ended, and how many of these succeeded.
    before: Option<(usize, usize)>,
}

/// The facts of a call; with what is known before it runs, if `ahead` is given.
pub(super) async fn facts(
    app: &App,
    invocation: &Invocation,
    view: &InvocationView,
    action: Option<&Action>,
    ahead: Option<&ForesightView>,
) -> Vec<FactView> {
    Facts { view, action, ahead, known: &Known::of(app, invocation).await }.all()
}

/// The action as it is defined now; absent if it is gone, or was redefined since the call was made.
pub(super) async fn definition(app: &App, view: &InvocationView, org: &OrgId, ahead: Option<&ForesightView>) -> Option<Arc<Action>> {
    let blocked = ahead.and_then(|ahead| ahead.blocked.as_ref());
    if blocked.is_some_and(|blocked| blocked.code == "definition_mismatch") {
        return None;
    }
    app.pipeline().catalogue().find_listed(Eyes::of(org, None), &view.action).await
}

impl Known {
    async fn of(app: &App, invocation: &Invocation) -> Self {
        let org = &invocation.org;
        let mut approvers = Vec::with_capacity(invocation.approvals.len());
        for approval in &invocation.approvals {
            approvers.push(users::name_of(app, org, &approval.by).await);
        }
        let owner = match &invocation.owner {
            Some(owner) => Some(users::name_of_user(app, org, owner).await),
            None => None,
        };
        let connection = match &invocation.connection {
            Some(id) => Some(connection_named(app, org, id).await),
            None => None,
        };
        let space = app.store().find_space(org, &invocation.space).await.unwrap_or_default();
        let session = app.store().find_session(org, &invocation.session).await.unwrap_or_default();
        Self {
            session_title: session.map(|session| session.title).filter(|title| !title.is_empty()),
            requester: users::name_of(app, org, &invocation.principal).await,
            owner,
            space: space.map_or_else(|| invocation.space.to_string(), |space| format!("{} ({})", space.name, space.band.as_str())),
            connection,
            approvers,
            answerer: name(app, org, invocation.answer.as_ref().map(|answer| &answer.by)).await,
            editor: name(app, org, invocation.edit.as_ref().map(|edit| &edit.by)).await,
            settler: name(app, org, invocation.aftermath.settled.as_ref().map(|settled| &settled.by)).await,
            before: before(app, invocation).await,
        }
    }
}

struct Facts<'a> {
    view: &'a InvocationView,
    action: Option<&'a Action>,
    ahead: Option<&'a ForesightView>,
    known: &'a Known,
}

impl Facts<'_> {
    fn all(&self) -> Vec<FactView> {
        let (view, known) = (self.view, self.known);
        let mut facts = vec![self.requested_by()];
        facts.extend(view.reason.as_ref().map(|reason| FactView::new("Reason given", format!("“{reason}”"))));
        facts.push(FactView::new("Space", &known.space));
        facts.extend(known.connection.as_ref().map(|connection| FactView::new("Connection", connection)));
        if let Some(claimed) = &view.claimed {
            facts.extend(claimed.action_id.as_ref().map(|name| FactView::new("Named by caller", name)));
            facts.extend(claimed.confidence.map(|confidence| FactView::new("Confidence given", confidence.to_string())));
            facts.extend(claimed.rollback_plan.as_ref().map(|plan| FactView::new("Rollback plan", plan.to_string())));
            facts.extend(claimed.more.as_ref().map(|more| FactView::new("Other fields", more.to_string())));
        }
        facts.push(FactView::new("Decision", cascade(&view.decision)));
        facts.extend(reasons::facts(&view.gates, self.ahead));
        facts.extend(self.of_action());
        facts.extend(view.reverses.as_ref().map(|id| FactView::new("Reverts", id)));
        if let Some(batch) = &view.batch {
            let terms = match batch.mode {
                BatchMode::AllOrNothing if batch.parts > 1 => {
                    "; it runs once all parts are approved, and is reverted without asking again if another fails"
                }
                BatchMode::AllOrNothing | BatchMode::BestEffort => "",
            };
            facts.push(FactView::new("Part of", format!("batch {}, {} of {}{terms}", batch.id, batch.part, batch.parts)));
        }
        facts.extend(view.scope.as_ref().map(|scope| FactView::new("Limited to", touched(scope))));
        facts.extend(view.verification.iter().flat_map(|asked| &asked.commands).map(|command| FactView::new("Verified with", command)));
        facts.extend(known.before.map(|(ended, succeeded)| {
            let whose = if view.principal.starts_with("automation:") { "by this automation" } else { "in this session" };
            let none = format!("none of this action {whose}");
            let some = format!("{succeeded} of {ended} of this action succeeded {whose}");
            FactView::new("Earlier calls", if ended == 0 { none } else { some })
        }));
        facts.extend(self.answers());
        let redacted: Vec<_> = view.redacted.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        facts.extend((!redacted.is_empty()).then(|| FactView::new("Redacted", redacted.join(", "))));
        facts.extend(view.released_from.as_ref().map(|from| FactView::new("Released from", from)));
        for gate in &view.gates {
            let failed = |error| FactView::new("Gate error", format!("{}: {error}", gate.gate)).toned(FactTone::Danger);
            facts.extend(gate.errors.iter().map(failed));
        }
        facts.extend(view.binding.is_some().then(|| FactView::new("Approval covers", self.covers())));
        facts.extend(self.aftermath());
        facts
    }

    /// Title of the session, who asks, and for whom.
    fn requested_by(&self) -> FactView {
        let mut who: Vec<_> = self.known.session_title.iter().chain([&self.known.requester]).cloned().collect();
        // The name of an agent already contains its session.
        if !self.view.principal.ends_with(&self.view.session_id) {
            who.push(format!("session {}", self.view.session_id));
        }
        let is_own = self.view.owner_id.as_ref().is_some_and(|owner| self.view.principal.ends_with(owner));
        who.extend(self.known.owner.as_ref().filter(|_| !is_own).map(|owner| format!("for {owner}")));
        FactView::new("Requested by", format!("{} · ", who.join(" · "))).at(self.view.created_at, "")
    }

    /// What its definition says.
    fn of_action(&self) -> Vec<FactView> {
        let Some(action) = self.action else { return Vec::new() };
        let mut facts = Vec::new();
        let is_revert = self.view.reverses.is_some();
        if self.leaves_something() {
            facts.push(if is_revert { FactView::new("Reversible", "no: a revert is not itself reverted") } else { reversible(action) });
        }
        if let Some(digest) = action.package_sha256 {
            let digest: String = digest.to_string().chars().take(12).collect();
            let reach = if action.hosts.is_empty() { ", with no network" } else { "" };
            let (package, profile) = (action.id.source(), action.profile);
            let told = format!("of the package `{package}` ({digest}…), in the sandbox under profile `{profile}`{reach}");
            facts.push(FactView::new("Runs code", told).toned(FactTone::Warn));
        }
        if !action.hosts.is_empty() {
            facts.push(FactView::new("Network", action.hosts.join(", ")));
        }
        if self.is_pending() && !action.checks.is_empty() && !is_revert {
            facts.push(FactView::new("Verified by", action.checks.join(", ")));
        }
        facts
    }

    /// How many have approved, where more than one person must, or must have when the first of them did; who they are; who answered in the
    /// end; and how the params were edited.
    fn answers(&self) -> Vec<FactView> {
        let (view, known) = (self.view, self.known);
        let mut facts = Vec::new();
        if let Some(needed) = self.ahead.and_then(|ahead| ahead.approvals_needed) {
            let given = view.approvals.len();
            let is_enough = given >= needed as usize;
            let more = if is_enough { ", which is enough by now: the next one runs it, also by somebody who has approved" } else { "" };
            facts.extend((needed > 1 || given > 0).then(|| FactView::new("Approvals", format!("{given} of {needed}{more}"))));
        }
        if self.is_pending() || view.approvals.len() > 1 {
            facts.extend(view.approvals.iter().zip(&known.approvers).map(|(answer, name)| answered("Approved by", answer, name)));
        }
        if let (Some(answer), Some(name)) = (&view.answer, &known.answerer) {
            facts.push(answered("Answered by", answer, name));
        }
        let resumed = |at| FactView::new("Resumed", "").at(at, ": it was approved and had not started when the server stopped");
        facts.extend(view.resumed_at.map(resumed));
        if let (Some(edit), Some(editor)) = (&view.edit, &known.editor) {
            facts.push(FactView::new("Edited by", format!("{editor}, ")).at(edit.at, ""));
            let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            let change = |at: &String| format!("{at}: {} → {}", told(edit.proposed_params.pointer(at)), told(view.params.pointer(at)));
            facts.extend(edit.changed.iter().map(|at| FactView::new("Edited", change(at))));
        }
        facts
    }

    fn covers(&self) -> String {
        let short = |digest: &str| digest.chars().take(12).collect::<String>();
        let (call, definition) = (short(&self.view.digests.params), short(&self.view.digests.structural));
        let bound = self.view.binding.as_ref().map(|binding| format!("; digest {}…", short(&binding.digest))).unwrap_or_default();
        format!("this one call, with these params ({call}…), this definition ({definition}…), caller and place{bound}")
    }

    fn is_pending(&self) -> bool {
        self.view.status == Status::Pending
    }
}

/// The decision as one line: the mode that the cascade found, the reasons that tightened it, and the final mode.
fn cascade(decision: &DecisionView) -> String {
    let version = decision.modes_version.map(|version| format!(" (version {version})")).unwrap_or_default();
    let mut steps = vec![format!("{}{version}: {}", decision.source.in_words(), decision.base)];
    steps.extend(decision.tightened.iter().cloned());
    if decision.mode != decision.base {
        steps.push(decision.mode.to_string());
    }
    steps.join(" → ")
}

async fn name(app: &App, org: &OrgId, of: Option<&PrincipalId>) -> Option<String> {
    match of {
        Some(of) => Some(users::name_of(app, org, of).await),
        None => None,
    }
}

async fn connection_named(app: &App, org: &OrgId, id: &ConnectionId) -> String {
    match app.store().find_connection_by_id(org, id).await.unwrap_or_default() {
        Some(Connection { name, from: Some(from), .. }) => format!("{name} ({id}), from {from}"),
        Some(Connection { name, from: None, .. }) => format!("{name} ({id})"),
        None => id.to_string(),
    }
}

async fn before(app: &App, invocation: &Invocation) -> Option<(usize, usize)> {
    let earlier = invocations::earlier(app, invocation, EARLIER_MAX).await.ok()?;
    // Dry runs are not counted, and reverts are compared only with reverts.
    let is_ended = |other: &&Invocation| other.intention == invocation.intention && other.status.is_final();
    let ended: Vec<_> = earlier.iter().filter(is_ended).collect();
    Some((ended.len(), ended.iter().filter(|other| other.status == Status::Succeeded).count()))
}

/// The limits of what a call may touch.
fn touched(scope: &ScopeView) -> String {
    let within: Vec<_> = scope.allowed_files.iter().chain(&scope.allowed_dirs).map(String::as_str).collect();
    let within =
        if within.is_empty() { "whatever its source can reach".to_owned() } else { format!("{} and nothing else", within.join(", ")) };
    if scope.forbidden_files.is_empty() { within } else { format!("{within}, except {}", scope.forbidden_files.join(", ")) }
}

fn answered(label: &str, answer: &AnswerView, name: &str) -> FactView {
    let reason = answer.reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
    let beyond = match answer.mode {
        ApproveMode::Always => ", and allowed from now on",
        ApproveMode::Grant => ", with a grant",
        ApproveMode::Once => "",
    };
    FactView::new(label, format!("{name}, ")).at(answer.at, format!("{beyond}{reason}"))
}

fn reversible(action: &Action) -> FactView {
    match (action.reversibility, action.reversible_seconds) {
        (Reversibility::NoEffect, _) => FactView::new("Reversible", "there is nothing to revert"),
        (Reversibility::Reversible, Some(seconds)) => FactView::new("Reversible", format!("yes, for {} after the call", span(seconds))),
        (Reversibility::Reversible, None) => FactView::new("Reversible", "yes"),
        (Reversibility::NotReversible, _) => FactView::new("Reversible", "no").toned(FactTone::Danger),
    }
}

/// A time in the largest unit of which there are two or more.
pub(super) fn span(seconds: u64) -> String {
    let units = [(24 * 60 * 60, "days"), (60 * 60, "hours"), (60, "minutes")];
    let found = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    found.map_or_else(|| format!("{seconds} seconds"), |(length, unit)| format!("{} {unit}", seconds / length))
}

#[cfg(test)]
mod tests;
