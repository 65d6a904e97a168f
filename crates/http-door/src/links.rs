//! Links that answer one invocation in one person's name (`operations/links.rs`), as pages for a phone. A page says what the card of the
//! command line says. A link is opened by pressing a button, because programs that look through mail follow links, and press nothing.

use super::answers::{approve_one, deny_one};
use super::body::OrEmpty;
use super::caller::Caller;
use super::card::{Card, outcome};
use super::html::{escaped_line, page, told, told_with};
use super::login::{Visitor, needed};
use super::page::{innermost, seconds_of};
use super::problem::Refusal;
use api::Code;
use api::invocation::{ApproveRequest, DenyRequest, InvocationView, LinkResponse, NewLinkRequest};
use axum::Json;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use countersign_core::{InvocationId, Status};
use operations::App;
use operations::links::{self, Link};
use operations::{Error, answers};
use pipeline::OpenedLink;
use pipeline::limits::LINK_SECONDS_MAX;
use serde::Deserialize;
use utoipa::ToSchema;

/// Where a link that answers nothing leads.
const INBOX: &str = "<p><a href=\"/\">Your inbox</a></p>";
/// How long a link lives when nobody says.
const LINK_SECONDS: u64 = 15 * 60;

/// Makes a link that answers this one invocation as you. Whoever opens it first can use it, in that browser, once, until it ends.
#[utoipa::path(operation_id = "invocations_link", post, path = "/api/v1/invocations/{invocation}/link", tag = "invocations", params(("invocation" = String, Path)),
    request_body = NewLinkRequest,
    responses((status = 200, body = LinkResponse)))]
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

/// What the link is about, with two buttons, in the browser that has opened it. The link itself is the secret: there is no token.
#[utoipa::path(operation_id = "answers_show", get, path = "/answer/{link}", tag = "answers", security(()), params(("link" = String, Path)),
    responses((status = 200, description = "A page for a person: a button that opens the link, or the question, or how it ended.", content_type = "text/html", body = String),
        (status = 401, description = "The link was opened in another browser: a page that asks for a login.", content_type = "text/html", body = String),
        (status = 404, description = "The link is not valid, or what it is about has changed; a page.", content_type = "text/html", body = String),
        (status = 410, description = "The link has expired; a page.", content_type = "text/html", body = String)))]
pub(super) async fn show(State(app): State<App>, method: Method, visitor: Visitor, Path(link): Path<String>) -> Response {
    let response = match links::find(&app, &link, visitor.browser()).await {
        // Whoever has not opened it may be a program that looks through mail.
        Ok(Link::Unopened(found)) if found.invocation.status != Status::Pending => {
            outcome(StatusCode::OK, &InvocationView::from(found.invocation))
        }
        Ok(Link::Unopened(found)) => page(StatusCode::OK, &unopened(&visitor, &link, &found)),
        Ok(Link::Here(found)) => {
            let OpenedLink { invocation, principal, .. } = *found;
            let card = Card::of(&app, &principal, invocation, &method).await;
            let form = if card.is_pending() { answer_form(&visitor.field(&link), &card) } else { String::new() };
            page(StatusCode::OK, &format!("{}{form}", card.html()))
        }
        Ok(Link::Elsewhere(invocation)) => elsewhere(&visitor, &invocation),
        Err(error) => told_with(&error.into(), INBOX),
    };
    visitor.known(response)
}

/// Opens the link in this browser, or answers the pending invocation with the form of the page. A refused answer is a page, too, with its
/// status.
#[utoipa::path(operation_id = "answers_give", post, path = "/answer/{link}", tag = "answers", security(()), params(("link" = String, Path)),
    request_body(content = LinkAnswer, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "A page for a person: what became of it.", content_type = "text/html", body = String),
        (status = 202, description = "A page: the approval is counted, and another person has to approve too.", content_type = "text/html", body = String),
        (status = 303, description = "The link is open; to its page."),
        (status = 401, description = "The link was opened in another browser: a page that asks for a login.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why the answer was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn answer(
    State(app): State<App>,
    visitor: Visitor,
    Path(link): Path<String>,
    form: Result<Form<LinkAnswer>, FormRejection>,
) -> Response {
    match give(&app, &visitor, &link, form).await {
        Ok(response) => response,
        Err(Error::OpenedElsewhere { invocation }) => visitor.known(elsewhere(&visitor, &invocation)),
        Err(error) => told_with(&error.into(), INBOX),
    }
}

/// A link that is not valid says so before anything else.
async fn give(app: &App, visitor: &Visitor, link: &str, form: Result<Form<LinkAnswer>, FormRejection>) -> Result<Response, Error> {
    links::find(app, link, visitor.browser()).await?;
    let form = match form {
        Ok(Form(form)) => form,
        Err(error) => return Ok(told(&Refusal::new(Code::InvalidRequest, format!("the form does not make sense: {}", innermost(&error))))),
    };
    if let Err(refusal) = visitor.check(link, form.form.as_deref().unwrap_or_default()) {
        return Ok(told(&refusal));
    }
    let reason = form.reason.filter(|reason| !reason.trim().is_empty());
    let answered = match form.answer {
        LinkAnswerName::Open => {
            links::open(app, link, visitor.browser()).await?;
            return Ok(Redirect::to(&format!("/answer/{link}")).into_response());
        }
        LinkAnswerName::Approve => {
            let OpenedLink { invocation, principal, binding, .. } = links::answerable(app, link, visitor.browser()).await?;
            let body = ApproveRequest { binding: Some(binding.to_string()), reason, ..ApproveRequest::default() };
            approve_one(app, &principal, &invocation.id, body).await.map(|(status, approved)| (status, approved.invocation))
        }
        LinkAnswerName::Deny => {
            let OpenedLink { invocation, principal, .. } = links::answerable(app, link, visitor.browser()).await?;
            deny_one(app, &principal, &invocation.id, DenyRequest { reason }).await.map(|denied| (StatusCode::OK, denied.invocation))
        }
    };
    Ok(match answered {
        Ok((status, invocation)) => outcome(status, &invocation),
        Err(refusal) => told(&refusal),
    })
}

/// What the form sends. A field that stands there twice, or that is not known, is refused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkAnswer {
    /// From the page: the form of another page is refused.
    form: Option<String>,
    answer: LinkAnswerName,
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LinkAnswerName {
    Open,
    Approve,
    Deny,
}

/// Says whose link it is, and nothing of the call.
fn unopened(visitor: &Visitor, link: &str, found: &OpenedLink) -> String {
    format!(
        "<h1>A call waits for {name}</h1><p>This link answers one call as {name}. It opens in one browser: in any other it then asks for a \
         login. Whoever is not {name} logs in instead, at <a href=\"/inbox/{id}\">the page of the call</a>.</p>\
         <form method=\"post\">{field}<p><button name=\"answer\" value=\"open\">Open it here</button></p></form>",
        name = escaped_line(&found.principal.name),
        id = found.invocation.id,
        field = visitor.field(link),
    )
}

/// Where one may answer, with a reason. Approving is not offered if it would do nothing.
fn answer_form(field: &str, card: &Card) -> String {
    let approve = "<button name=\"answer\" value=\"approve\">Approve once</button> ";
    format!(
        "<form method=\"post\">{field}<label>Reason <input name=\"reason\" maxlength=\"2000\"></label>\
         <p>{}<button name=\"answer\" value=\"deny\">Deny</button></p></form>",
        if card.can_run() { approve } else { "" },
    )
}

fn elsewhere(visitor: &Visitor, invocation: &InvocationId) -> Response {
    needed(visitor, invocation, "<p>This link was opened in another browser. It answers in nobody's name here.</p>")
}
