//! One call on a page, for the person who decides about it or looks at what became of it: what the card of the command line says (`cli/src/commands/show/card.rs`).

mod after;
mod changes;
mod drift;
mod reasons;

use super::html::{escaped, escaped_line, page};
use super::invocations::shown;
use super::problem::Refusal;
use super::reviews;
use api::invocation::{AnswerView, ApproveMode, InvocationView, ScopeView};
use api::rules::ReviewView;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_core::action::Reversibility;
use countersign_core::invocation::{Deadline, Failure, Intention};
use countersign_core::part_of::BatchMode;
use countersign_core::ports::connections::Connection;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::{Action, ConnectionId, Invocation, OrgId, Principal, PrincipalId, Session, Status, Timestamp};
use operations::App;
use operations::{answers, invocations, users};
use pipeline::{Eyes, Foresight, is_truncated};
use std::sync::Arc;

/// The calls before this one that are looked at.
const EARLIER_MAX: u32 = 100;

/// Everything that there is to say of a call.
pub(super) struct Card {
    invocation: Invocation,
    view: InvocationView,
    /// What is known before it runs; absent if it is no longer pending, or if whoever looks may not answer it.
    ahead: Option<Foresight>,
    /// What was reviewed of its action, and what it is now; absent if it is no longer pending.
    review: Option<Result<ReviewView, Refusal>>,
    session: Option<Session>,
    space: String,
    /// The connection whose credential its requests carry, by its name and with the address that its mail comes from.
    connection: Option<String>,
    /// As it is defined now; absent if it is gone, or was redefined since the call was made.
    action: Option<Arc<Action>>,
    requester: String,
    owner: Option<String>,
    approvers: Vec<String>,
    answerer: Option<String>,
    editor: Option<String>,
    settler: Option<String>,
    caller_left: bool,
    /// How many earlier calls of the same action in the session, or of the same automation, have ended, and how many of these succeeded.
    before: Option<(usize, usize)>,
    now: Timestamp,
}

impl Card {
    /// Finds out what can be known. Whoever may not see all of it gets less. A `HEAD` shows nothing, so nothing is run for it.
    pub(super) async fn of(app: &App, by: &Principal, invocation: Invocation, method: &Method) -> Self {
        let org = &invocation.org;
        let is_pending = invocation.status == Status::Pending;
        let is_shown = is_pending && *method != Method::HEAD;
        let ahead = match answers::may_look_ahead(by) {
            Ok(()) if is_shown => Some(app.pipeline().foresee(&invocation).await.unwrap_or_else(not_found_out)),
            Ok(()) | Err(_) => None,
        };
        let review = if is_shown { Some(reviews::readable(app, by, &invocation.action).await) } else { None };
        let blocked = ahead.as_ref().and_then(|ahead| ahead.blocked.as_ref());
        let is_redefined = blocked.is_some_and(|blocked| blocked.code == "definition_mismatch");
        let action = app.pipeline().catalogue().find_listed(Eyes::of(org, None), invocation.action.as_str()).await;
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
        let answerer = name(app, org, invocation.answer.as_ref().map(|answer| &answer.by)).await;
        let editor = name(app, org, invocation.edit.as_ref().map(|edit| &edit.by)).await;
        let settler = name(app, org, invocation.aftermath.settled.as_ref().map(|settled| &settled.by)).await;
        // Of a call that has ended, also what it changed and what reverted it.
        let whole = if is_pending { None } else { shown(app, invocation.clone()).await.ok() };
        let space = app.store().find_space(org, &invocation.space).await.unwrap_or_default();
        Self {
            view: whole.map_or_else(|| InvocationView::from(invocation.clone()), |whole| whole.invocation),
            session: app.store().find_session(org, &invocation.session).await.unwrap_or_default(),
            space: space.map_or_else(|| invocation.space.to_string(), |space| format!("{} ({})", space.name, space.band.as_str())),
            action: action.filter(|_| !is_redefined),
            requester: users::name_of(app, org, &invocation.principal).await,
            connection,
            owner,
            approvers,
            answerer,
            editor,
            settler,
            caller_left: !invocation.status.is_final() && app.pipeline().is_left_by_caller(&invocation).await.unwrap_or_default(),
            before: before(app, &invocation).await,
            now: app.parts.clock.now(),
            ahead,
            review,
            invocation,
        }
    }

    pub(super) const fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// Whether an approval would run it, as far as is known.
    pub(super) fn can_run(&self) -> bool {
        self.ahead().is_none_or(|ahead| ahead.blocked.is_none())
    }

    /// Whether there is something to answer.
    pub(super) fn is_pending(&self) -> bool {
        self.invocation.status == Status::Pending
    }

    const fn ahead(&self) -> Option<&Foresight> {
        self.ahead.as_ref()
    }

    pub(super) fn html(&self) -> String {
        let titled =
            self.action.as_ref().map(|action| format!("<p><small>titled “{}” by its source</small></p>", escaped_line(&action.title)));
        let facts: String = self.facts().iter().map(|(label, text)| format!("<dt>{label}<dd>{}", escaped_line(text))).collect();
        format!(
            "<h1>{action}</h1>{titled}<p>{headline} · {id}</p>{blocked}{standing}{drift}<h2>Params</h2>{params}{changes}<dl>{facts}</dl>{result}",
            action = escaped_line(&self.view.action),
            titled = titled.unwrap_or_default(),
            headline = self.headline(),
            id = self.invocation.id,
            blocked = self.blocked(),
            standing = if self.is_pending() { "" } else { standing(self.invocation.status) },
            drift = self.review.as_ref().map(drift::told).unwrap_or_default(),
            params = self.params(),
            changes = self.would_change(),
            result = self.result(),
        )
    }

    fn headline(&self) -> String {
        let dry_run = if self.view.dry_run { " · dry run" } else { "" };
        let deadline = match self.invocation.deadline.filter(|_| self.is_pending()) {
            Some(Deadline::At(at)) => format!(" · expires {}, {} left", at.to_minute(), span(at.millis_since(self.now).div_ceil(1_000))),
            Some(Deadline::Stopped { .. }) => " · a kill switch is on: the deadline is stopped".to_owned(),
            None => String::new(),
        };
        format!("{} · {} {}{dry_run}{deadline}", self.view.status, self.view.tier, self.view.class)
    }

    fn blocked(&self) -> String {
        let said = |failure: &Failure| {
            format!("<p><b>Cannot run now: {} ({})</b></p>", escaped_line(&failure.message), escaped_line(&failure.code))
        };
        let left = if self.caller_left {
            "<p>Its caller has left: an approval is kept, and the call runs when its caller asks for it again.</p>"
        } else {
            ""
        };
        self.ahead().and_then(|ahead| ahead.blocked.as_ref()).map(said).unwrap_or_default() + left
    }

    /// Params that were too large to be stored whole are shown whole.
    fn params(&self) -> String {
        let stored = &self.invocation.call.params;
        let whole = self.ahead().and_then(|ahead| ahead.params.as_ref());
        let params = serde_json::to_string_pretty(whole.unwrap_or(stored)).unwrap_or_default();
        let cut = match (whole.is_none() && is_truncated(stored), self.is_pending()) {
            (true, true) => "<p><b>Too large to be shown: this is not all that would be sent.</b></p>",
            (true, false) => "<p><b>Too large to be kept whole: this is not all of them.</b></p>",
            (false, _) => "",
        };
        format!("<pre>{}</pre>{cut}", escaped(&params))
    }

    /// The files that would change, with what deserves a second look, or why that is not known.
    fn would_change(&self) -> String {
        let declared = self.action.as_ref().map(|action| declared(action)).unwrap_or_default();
        let is_revert = self.invocation.intention == Intention::Revert;
        let told = match self.ahead() {
            Some(Foresight { changes: Some(report), .. }) => format!("<pre>{}</pre>", escaped(&changes::lines(report).join("\n"))),
            Some(Foresight { unknown: Some(why), .. }) => format!("<p>{}{declared}</p>", escaped(why)),
            None if self.is_pending() && !is_revert => format!("<p>It is not known in advance{declared}.</p>"),
            Some(_) | None => return String::new(),
        };
        let ran_code = self.ahead().is_some_and(|ahead| ahead.ran_code);
        let package = escaped(self.invocation.action.source());
        let how = format!("<p>Code of the package {package} was run to find this out, without effect.</p>");
        format!("<h2>Would change</h2>{}{told}", if ran_code { how.as_str() } else { "" })
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let (invocation, view) = (&self.invocation, &self.view);
        let mut facts = vec![("Requested by", self.who())];
        facts.extend(view.reason.as_ref().map(|reason| ("Reason given", format!("“{reason}”"))));
        facts.push(("Space", self.space.clone()));
        facts.extend(self.connection.clone().map(|connection| ("Connection", connection)));
        if let Some(claimed) = &view.claimed {
            facts.extend(claimed.action_id.clone().map(|name| ("Named by caller", name)));
            facts.extend(claimed.confidence.map(|confidence| ("Confidence given", confidence.to_string())));
            facts.extend(claimed.rollback_plan.as_ref().map(|plan| ("Rollback plan", plan.to_string())));
            facts.extend(claimed.more.as_ref().map(|more| ("Other fields", more.to_string())));
        }
        facts.push(("Decision", self.cascade()));
        facts.extend(reasons::facts(invocation, self.ahead()));
        facts.extend(self.of_action());
        facts.extend(view.reverses.clone().map(|id| ("Reverts", id)));
        if let Some(batch) = &view.batch {
            let terms = match batch.mode {
                BatchMode::AllOrNothing if batch.parts > 1 => {
                    "; it runs once all parts are approved, and is reverted without asking again if another fails"
                }
                BatchMode::AllOrNothing | BatchMode::BestEffort => "",
            };
            facts.push(("Part of", format!("batch {}, {} of {}{terms}", batch.id, batch.part, batch.parts)));
        }
        facts.extend(view.scope.as_ref().map(|scope| ("Limited to", touched(scope))));
        facts.extend(view.verification.iter().flat_map(|asked| &asked.commands).map(|command| ("Verified with", command.clone())));
        facts.extend(self.before.map(|(ended, succeeded)| {
            let whose = if view.principal.starts_with("automation:") { "by this automation" } else { "in this session" };
            let none = format!("none of this action {whose}");
            let some = format!("{succeeded} of {ended} of this action succeeded {whose}");
            ("Earlier calls", if ended == 0 { none } else { some })
        }));
        facts.extend(self.answers());
        let redacted: Vec<_> = view.redacted.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        facts.extend((!redacted.is_empty()).then(|| ("Redacted", redacted.join(", "))));
        facts.extend(view.released_from.clone().map(|from| ("Released from", from)));
        for gate in &view.gates {
            facts.extend(gate.errors.iter().map(|error| ("Gate error", format!("{}: {error}", gate.gate))));
        }
        facts.extend(view.binding.is_some().then(|| ("Approval covers", self.covers())));
        facts.extend(self.aftermath());
        facts
    }

    /// Title of the session, who asks, and for whom.
    fn who(&self) -> String {
        let title = self.session.as_ref().map(|session| session.title.clone()).filter(|title| !title.is_empty());
        let mut who: Vec<_> = title.into_iter().chain([self.requester.clone()]).collect();
        // The name of an agent already contains its session.
        if !self.view.principal.ends_with(&self.view.session_id) {
            who.push(format!("session {}", self.view.session_id));
        }
        let is_own = self.view.owner_id.as_ref().is_some_and(|owner| self.view.principal.ends_with(owner));
        who.extend(self.owner.as_ref().filter(|_| !is_own).map(|owner| format!("for {owner}")));
        who.push(self.view.created_at.to_minute());
        who.join(" · ")
    }

    /// The decision as one line: the mode that the cascade found, the reasons that tightened it, and the final mode.
    fn cascade(&self) -> String {
        let decision = &self.view.decision;
        let version = decision.modes_version.map(|version| format!(" (version {version})")).unwrap_or_default();
        let mut steps = vec![format!("{}{version}: {}", decision.source.in_words(), decision.base)];
        steps.extend(decision.tightened.iter().cloned());
        if decision.mode != decision.base {
            steps.push(decision.mode.to_string());
        }
        steps.join(" → ")
    }

    /// What its definition says.
    fn of_action(&self) -> Vec<(&'static str, String)> {
        let Some(action) = &self.action else { return Vec::new() };
        let mut facts = Vec::new();
        let is_revert = self.invocation.intention == Intention::Revert;
        if self.leaves_something() {
            let told = if is_revert { "no: a revert is not itself reverted".to_owned() } else { reversible(action) };
            facts.push(("Reversible", told));
        }
        if let Some(digest) = action.package_sha256 {
            let digest: String = digest.to_string().chars().take(12).collect();
            let reach = if action.hosts.is_empty() { ", with no network" } else { "" };
            let (package, profile) = (action.id.source(), action.profile);
            facts.push(("Runs code", format!("of the package `{package}` ({digest}…), in the sandbox under profile `{profile}`{reach}")));
        }
        if !action.hosts.is_empty() {
            facts.push(("Network", action.hosts.join(", ")));
        }
        if self.is_pending() && !action.checks.is_empty() && !is_revert {
            facts.push(("Verified by", action.checks.join(", ")));
        }
        facts
    }

    /// How many have approved, where more than one person must; who they are; who answered in the end; and how the params were edited.
    fn answers(&self) -> Vec<(&'static str, String)> {
        let view = &self.view;
        let needed = self.ahead().and_then(|ahead| ahead.approvals_needed).filter(|needed| *needed > 1);
        let mut facts = Vec::new();
        facts.extend(needed.map(|needed| ("Approvals", format!("{} of {needed}", view.approvals.len()))));
        if self.is_pending() || view.approvals.len() > 1 {
            facts.extend(view.approvals.iter().zip(&self.approvers).map(|(answer, name)| ("Approved by", answered(answer, name))));
        }
        if let (Some(answer), Some(name)) = (&view.answer, &self.answerer) {
            facts.push(("Answered by", answered(answer, name)));
        }
        let resumed = |at: Timestamp| format!("{}: it was approved and had not started when the server stopped", at.to_minute());
        facts.extend(view.resumed_at.map(|at| ("Resumed", resumed(at))));
        if let (Some(edit), Some(editor)) = (&view.edit, &self.editor) {
            facts.push(("Edited by", format!("{editor}, {}", edit.at.to_minute())));
            let told = |value: Option<&serde_json::Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            let change = |at: &String| format!("{at}: {} → {}", told(edit.proposed_params.pointer(at)), told(view.params.pointer(at)));
            facts.extend(edit.changed.iter().map(|at| ("Edited", change(at))));
        }
        facts
    }

    fn covers(&self) -> String {
        let short = |digest: &str| digest.chars().take(12).collect::<String>();
        let (call, definition) = (short(&self.view.digests.params), short(&self.view.digests.structural));
        let bound = self.view.binding.as_ref().map(|binding| format!("; digest {}…", short(&binding.digest))).unwrap_or_default();
        format!("this one call, with these params ({call}…), this definition ({definition}…), caller and place{bound}")
    }
}

/// How a call stands after an answer, or when there is nothing to answer; without its content, which its page has.
pub(super) fn outcome(status: StatusCode, invocation: &InvocationView) -> Response {
    let failure = invocation.error.as_ref().map(|error| format!("<p>{}</p>", escaped(&error.message))).unwrap_or_default();
    let counted = "<p>The approval is counted. Another person has to approve it too.</p>";
    let is_counted = invocation.status == Status::Pending && status == StatusCode::ACCEPTED;
    let more = if is_counted { counted } else { standing(invocation.status) };
    let (action, id, now) = (escaped_line(&invocation.action), escaped_line(&invocation.id), invocation.status);
    let whole = format!("<p><a href=\"/inbox/{id}\">The page of the call</a> has all of it, after a login.</p>");
    page(status, &format!("<h1>{action}</h1><p>{id} is <strong>{now}</strong>.</p>{failure}{more}{whole}"))
}

/// What comes next, where that is not clear.
const fn standing(status: Status) -> &'static str {
    match status {
        Status::Approved => "<p>It starts soon, or when its caller asks for it again.</p>",
        Status::InDoubt => "<p>Nobody knows yet whether it happened.</p>",
        Status::Pending
        | Status::Running
        | Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => "",
    }
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

/// A preview that failed says so: a page without it would look as if nothing changed.
fn not_found_out(error: pipeline::Error) -> Foresight {
    let Refusal(problem) = Refusal::from(error);
    let why = format!("What it would change could not be found out: {}", problem.detail);
    Foresight { unknown: Some(why), ..Foresight::default() }
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

fn answered(answer: &AnswerView, name: &str) -> String {
    let reason = answer.reason.as_ref().map(|reason| format!(": “{reason}”")).unwrap_or_default();
    let beyond = match answer.mode {
        ApproveMode::Always => ", and allowed from now on",
        ApproveMode::Grant => ", with a grant",
        ApproveMode::Once => "",
    };
    format!("{name}, {}{beyond}{reason}", answer.at.to_minute())
}

/// `; it declares that it changes files and uses the network`
fn declared(action: &Action) -> String {
    let effects: Vec<_> = action.effects.iter().map(|effect| effect.in_words()).collect();
    if effects.is_empty() { String::new() } else { format!("; it declares that it {}", effects.join(" and ")) }
}

fn reversible(action: &Action) -> String {
    match (action.reversibility, action.reversible_seconds) {
        (Reversibility::NoEffect, _) => "there is nothing to revert".to_owned(),
        (Reversibility::Reversible, Some(seconds)) => format!("yes, for {} after the call", span(seconds)),
        (Reversibility::Reversible, None) => "yes".to_owned(),
        (Reversibility::NotReversible, _) => "no".to_owned(),
    }
}

/// A time in the largest unit of which there are two or more.
fn span(seconds: u64) -> String {
    let units = [(24 * 60 * 60, "days"), (60 * 60, "hours"), (60, "minutes")];
    let found = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    found.map_or_else(|| format!("{seconds} seconds"), |(length, unit)| format!("{} {unit}", seconds / length))
}
