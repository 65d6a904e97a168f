//! Links that answer one invocation in one person's name (`pipeline/src/answers/link.rs`), as pages for a phone. A page says what the card
//! of the command line says.

mod changes;
mod reasons;

use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{innermost, seconds_of};
use super::problem::Refusal;
use crate::App;
use crate::operations::answers;
use api::invocation::{LinkResponse, NewLinkRequest};
use api::{Code, Problem};
use axum::Json;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use countersign_core::invocation::Failure;
use countersign_core::limits::LINK_SECONDS_MAX;
use countersign_core::ports::Sessions;
use countersign_core::{Invocation, Session, Status, clean};
use pipeline::{Foresight, OpenedLink, Outcome, Yes, is_truncated};
use serde::Deserialize;
use utoipa::ToSchema;

/// How long a link lives when nobody says.
const LINK_SECONDS: u64 = 15 * 60;

/// Makes a link that answers this one invocation as you. Whoever holds it can use it, once, until it ends.
#[utoipa::path(operation_id = "invocations_link", post, path = "/api/v1/invocations/{invocation}/link", tag = "invocations", params(("invocation" = String, Path)),
    request_body = NewLinkRequest,
    responses((status = 200, body = LinkResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    OrEmpty(body): OrEmpty<NewLinkRequest>,
) -> Result<Json<LinkResponse>, Refusal> {
    let id = answers::id_of(&caller.principal, &invocation)?;
    let seconds = body.expires_in.as_deref().map_or(Ok(LINK_SECONDS), |text| seconds_of("expires_in", text, LINK_SECONDS_MAX))?;
    let link = app.pipeline().make_link(&caller.principal, &id, seconds).await?;
    Ok(Json(LinkResponse { path: format!("/answer/{}", link.text), expires_at: link.expires_at }))
}

/// What the link is about, with two buttons. The link itself is the secret: there is no token.
#[utoipa::path(operation_id = "answers_show", get, path = "/answer/{link}", tag = "answers", security(()), params(("link" = String, Path)),
    responses((status = 200, description = "A page for a person: the question, or how it ended.", content_type = "text/html", body = String),
        (status = 404, description = "The link is not valid, or what it is about has changed; a page.", content_type = "text/html", body = String),
        (status = 410, description = "The link has expired; a page.", content_type = "text/html", body = String)))]
pub(super) async fn show(State(app): State<App>, method: Method, Path(link): Path<String>) -> Response {
    match app.pipeline().open_link(&link).await {
        Ok(OpenedLink { invocation, principal, .. }) if invocation.status == Status::Pending => {
            // Whoever cannot see all of it can still say no. A `HEAD` shows nothing, so nothing is run for it.
            let ahead = match answers::may_look_ahead(&principal) {
                Ok(()) if method != Method::HEAD => app.pipeline().foresee(&invocation).await.unwrap_or_else(not_found_out),
                Ok(()) | Err(_) => Foresight::default(),
            };
            let session = app.store().find_session(&invocation.org, &invocation.session).await.unwrap_or_default();
            page(StatusCode::OK, &question(&invocation, session.as_ref(), &ahead))
        }
        Ok(OpenedLink { invocation, .. }) => page(StatusCode::OK, &ended(&invocation)),
        Err(error) => told(&error.into()),
    }
}

/// Answers a pending invocation with the form of the page. A refused answer is a page, too, with its status.
#[utoipa::path(operation_id = "answers_give", post, path = "/answer/{link}", tag = "answers", security(()), params(("link" = String, Path)),
    request_body(content = LinkAnswer, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "A page for a person: what became of it.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why the answer was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn answer(State(app): State<App>, Path(link): Path<String>, form: Result<Form<LinkAnswer>, FormRejection>) -> Response {
    let OpenedLink { invocation, principal, binding } = match app.pipeline().open_link(&link).await {
        Ok(opened) => opened,
        Err(error) => return told(&error.into()),
    };
    let Form(form) = match form {
        Ok(form) => form,
        Err(error) => return told(&Refusal::new(Code::InvalidRequest, format!("the form does not make sense: {}", innermost(&error)))),
    };
    let reason = form.reason.filter(|reason| !reason.trim().is_empty());
    let answered = match form.answer {
        LinkAnswerName::Approve => {
            let yes = Yes { shown: Some(binding), reason, ..Yes::default() };
            app.pipeline().approve(&principal, &invocation.id, yes).await.map(|outcome| match outcome {
                Outcome::Ended { invocation, .. }
                | Outcome::Replayed(invocation)
                | Outcome::Pending(invocation)
                | Outcome::InDoubt(invocation) => *invocation,
            })
        }
        LinkAnswerName::Deny => app.pipeline().deny(&principal, &invocation.id, reason).await,
    };
    match answered {
        Ok(invocation) => page(StatusCode::OK, &ended(&invocation)),
        Err(error) => told(&Refusal::from(error)),
    }
}

/// What the form sends. A field that stands there twice, or that is not known, is refused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkAnswer {
    answer: LinkAnswerName,
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LinkAnswerName {
    Approve,
    Deny,
}

/// A preview that failed says so: a page without it would look as if nothing changed.
fn not_found_out(error: pipeline::Error) -> Foresight {
    let Refusal(problem) = Refusal::from(error);
    let why = format!("What it would change could not be found out: {}", problem.detail);
    Foresight { unknown: Some(why), ..Foresight::default() }
}

fn question(invocation: &Invocation, session: Option<&Session>, ahead: &Foresight) -> String {
    // Params that were too large to be stored whole are shown whole.
    let params = serde_json::to_string_pretty(ahead.params.as_ref().unwrap_or(&invocation.call.params)).unwrap_or_default();
    let is_cut = ahead.params.is_none() && is_truncated(&invocation.call.params);
    let cut = if is_cut { "<p><b>Too large to be shown: this is not all that would be sent.</b></p>" } else { "" };
    let why = invocation.call.reason.as_deref().map(|reason| format!("<dt>Reason given<dd>“{}”", escaped(reason))).unwrap_or_default();
    let title = session.map(|session| format!("{} · ", escaped(&session.title))).unwrap_or_default();
    format!(
        "<h1>{action}</h1><p>{tier} · {id}</p>{blocked}<pre>{params}</pre>{cut}{changes}\
         <dl><dt>Requested by<dd>{title}{principal}{why}{reasons}{approvals}<dt>Approval covers<dd>this one call, with these params</dl>\
         <form method=\"post\"><label>Reason <input name=\"reason\" maxlength=\"2000\"></label>\
         <p><button name=\"answer\" value=\"approve\">Approve once</button> <button name=\"answer\" value=\"deny\">Deny</button></p></form>",
        action = escaped(invocation.action.as_str()),
        principal = escaped(&invocation.principal.to_string()),
        tier = invocation.tier,
        id = invocation.id,
        params = escaped(&params),
        blocked = blocked(ahead),
        changes = would_change(invocation, ahead),
        reasons = reasons::entries(invocation, ahead),
        approvals = approvals(invocation, ahead),
    )
}

fn blocked(ahead: &Foresight) -> String {
    let said = |failure: &Failure| format!("<p><b>Cannot run now: {} ({})</b></p>", escaped(&failure.message), escaped(&failure.code));
    ahead.blocked.as_ref().map(said).unwrap_or_default()
}

/// The files that would change, with what deserves a second look, or why that is not known.
fn would_change(invocation: &Invocation, ahead: &Foresight) -> String {
    let told = match (&ahead.changes, &ahead.unknown) {
        (Some(report), _) => format!("<pre>{}</pre>", escaped(&changes::lines(report).join("\n"))),
        (None, Some(why)) => format!("<p>{}</p>", escaped(why)),
        (None, None) => return String::new(),
    };
    let package = escaped(invocation.action.source());
    let how = format!("<p>Code of the package {package} was run to find this out, without effect.</p>");
    format!("<h2>Would change</h2>{}{told}", if ahead.ran_code { how.as_str() } else { "" })
}

/// How many have approved, where more than one person must.
fn approvals(invocation: &Invocation, ahead: &Foresight) -> String {
    let needed = ahead.approvals_needed.filter(|needed| *needed > 1);
    needed.map(|needed| format!("<dt>Approvals<dd>{} of {needed}", invocation.approvals.len())).unwrap_or_default()
}

fn ended(invocation: &Invocation) -> String {
    let failure = invocation.failure.as_ref().map(|failure| format!("<p>{}</p>", escaped(&failure.message))).unwrap_or_default();
    format!("<h1>{}</h1><p>{} is <b>{}</b>.</p>{failure}", escaped(invocation.action.as_str()), invocation.id, invocation.status)
}

pub(super) fn told(refusal: &Refusal) -> Response {
    let hint = refusal.0.hint.as_deref().map(|hint| format!("<p>{}</p>", escaped(hint))).unwrap_or_default();
    let status = StatusCode::from_u16(refusal.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    page(status, &format!("<h1>{}</h1><p>{}</p>{hint}", escaped(&refusal.0.title), escaped(&refusal.0.detail)))
}

/// SECURITY: nothing is loaded and nothing runs; the address, which is a secret, is told to nobody.
pub(super) fn page(status: StatusCode, body: &str) -> Response {
    let style = "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}\
                 h1{font-size:1.25rem}h2{font-size:1rem}dt{font-weight:600}pre{background:#f4f4f5;padding:.75rem;overflow:auto;border-radius:.5rem}\
                 button{font:inherit;padding:.5rem 1rem}input{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}";
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Countersign</title><style>{style}</style>{body}</html>"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(text)).into_response()
}

/// SECURITY: text of others never becomes markup, and shows what it hides as the card does.
pub(super) fn escaped(text: &str) -> String {
    clean::block(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
