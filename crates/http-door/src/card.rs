//! One call on a page, for the person who decides about it or looks at what became of it.

mod changes;
mod drift;

use super::facts::{definition, facts, span};
use super::foresight::view as foreseen;
use super::html::{escaped, escaped_line, page};
use super::invocations::shown;
use super::problem::Refusal;
use super::reviews;
use api::invocation::{FactView, FailureView, ForesightView, InvocationView};
use api::rules::ReviewView;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_core::invocation::{Deadline, Intention};
use countersign_core::{Action, Invocation, Principal, Status, Timestamp};
use operations::App;
use operations::answers;
use pipeline::is_truncated;
use std::sync::Arc;

/// Everything that there is to say of a call.
pub(super) struct Card {
    invocation: Invocation,
    view: InvocationView,
    /// What is known before it runs; absent if it is no longer pending, or if whoever looks may not answer it.
    ahead: Option<ForesightView>,
    /// What was reviewed of its action, and what it is now; absent if it is no longer pending.
    review: Option<Result<ReviewView, Refusal>>,
    /// As it is defined now; absent if it is gone, or was redefined since the call was made.
    action: Option<Arc<Action>>,
    caller_left: bool,
    facts: Vec<FactView>,
    now: Timestamp,
}

impl Card {
    /// Finds out what can be known. Whoever may not see all of it gets less. A `HEAD` shows nothing, so nothing is run for it.
    pub(super) async fn of(app: &App, by: &Principal, invocation: Invocation, method: &Method) -> Self {
        let is_pending = invocation.status == Status::Pending;
        let is_shown = is_pending && *method != Method::HEAD;
        let ahead = match answers::may_look_ahead(by) {
            Ok(()) if is_shown => Some(app.pipeline().foresee(&invocation).await.map_or_else(not_found_out, foreseen)),
            Ok(()) | Err(_) => None,
        };
        let review = if is_shown { Some(reviews::readable(app, by, &invocation.action).await) } else { None };
        // Of a call that has ended, also what it changed and what reverted it.
        let whole = if is_pending { None } else { shown(app, invocation.clone()).await.ok() };
        let view = whole.map_or_else(|| InvocationView::from(invocation.clone()), |whole| whole.invocation);
        let action = definition(app, &view, &invocation.org, ahead.as_ref()).await;
        Self {
            facts: facts(app, &invocation, &view, action.as_deref(), ahead.as_ref()).await,
            caller_left: !invocation.status.is_final() && app.pipeline().is_left_by_caller(&invocation).await.unwrap_or_default(),
            now: app.parts.clock.now(),
            view,
            action,
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

    const fn ahead(&self) -> Option<&ForesightView> {
        self.ahead.as_ref()
    }

    pub(super) fn html(&self) -> String {
        let titled =
            self.action.as_ref().map(|action| format!("<p><small>titled “{}” by its source</small></p>", escaped_line(&action.title)));
        let facts: String = self.facts.iter().map(|fact| format!("<dt>{}<dd>{}", fact.label, escaped_line(&told(fact)))).collect();
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
        let said = |failure: &FailureView| {
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
            Some(ForesightView { changes: Some(report), .. }) => format!("<pre>{}</pre>", escaped(&changes::lines(report).join("\n"))),
            Some(ForesightView { unknown: Some(why), .. }) => format!("<p>{}{declared}</p>", escaped(why)),
            None if self.is_pending() && !is_revert => format!("<p>It is not known in advance{declared}.</p>"),
            Some(_) | None => return String::new(),
        };
        let ran_code = self.ahead().is_some_and(|ahead| ahead.ran_code);
        let package = escaped(self.invocation.action.source());
        let how = format!("<p>Code of the package {package} was run to find this out, without effect.</p>");
        format!("<h2>Would change</h2>{}{told}", if ran_code { how.as_str() } else { "" })
    }

    fn result(&self) -> String {
        let Some(result) = &self.view.result else { return String::new() };
        format!("<h2>Result</h2><pre>{}</pre>", escaped(&serde_json::to_string_pretty(result).unwrap_or_default()))
    }
}

/// The text of a fact, with its time.
fn told(fact: &FactView) -> String {
    format!("{}{}{}", fact.text, fact.at.map(Timestamp::to_minute).unwrap_or_default(), fact.more)
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

/// A preview that failed says so: a page without it would look as if nothing changed.
fn not_found_out(error: pipeline::Error) -> ForesightView {
    let Refusal(problem) = Refusal::from(error);
    let why = format!("What it would change could not be found out: {}", problem.detail);
    ForesightView { unknown: Some(why), ..ForesightView::default() }
}

/// `; it declares that it changes files and uses the network`
fn declared(action: &Action) -> String {
    let effects: Vec<_> = action.effects.iter().map(|effect| effect.in_words()).collect();
    if effects.is_empty() { String::new() } else { format!("; it declares that it {}", effects.join(" and ")) }
}
