//! The page of one call, for whoever logs in. Its address answers nothing by itself, so that it can be told to anybody: an agent's client
//! shows it to the person at the screen.

use super::answers::{approve_one, deny_one};
use super::card::{Card, outcome};
use super::html::{escaped_line, page, told};
use super::login::{Visitor, foot, needed};
use super::page::innermost;
use super::problem::Refusal;
use api::Code;
use api::invocation::{ApproveRequest, DenyRequest};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{Redirect, Response};
use countersign_core::Principal;
use countersign_core::action::Class;
use operations::App;
use operations::{answers, invocations};
use serde::Deserialize;
use utoipa::ToSchema;

/// All calls are in the web UI.
#[utoipa::path(operation_id = "inbox_home", get, path = "/inbox", tag = "answers", security(()),
    responses((status = 303, description = "To the inbox of the web UI.")))]
pub(super) async fn home() -> Redirect {
    Redirect::to("/")
}

/// The page of a call: after a login, what it is and two buttons, or how it ended.
#[utoipa::path(operation_id = "inbox_show", get, path = "/inbox/{invocation}", tag = "answers", security(()), params(("invocation" = String, Path)),
    responses((status = 200, description = "A page for a person: the question, or how it ended.", content_type = "text/html", body = String),
        (status = 401, description = "A page that asks for a login. It says nothing of the call.", content_type = "text/html", body = String),
        (status = 404, description = "Whoever logged in can read no such call; a page.", content_type = "text/html", body = String)))]
pub(super) async fn show(State(app): State<App>, method: Method, visitor: Visitor, Path(invocation): Path<String>) -> Response {
    let shown = async {
        let id = invocations::parse(&invocation)?;
        let Some(person) = visitor.person(&app).await? else { return Ok(needed(&visitor, &id, "")) };
        let found = invocations::readable(&app, &person, id.as_str()).await?;
        let card = Card::of(&app, &person, found, &method).await;
        let form = if card.is_pending() { answer_form(&visitor, &person, &card) } else { String::new() };
        Ok::<_, Refusal>(page(StatusCode::OK, &format!("{}{form}{}", card.html(), foot(&visitor, &person))))
    };
    visitor.known(shown.await.unwrap_or_else(|refusal| told(&refusal)))
}

/// Answers a pending call as the person who has logged in, with the form of the page. A refused answer is a page, too, with its status.
#[utoipa::path(operation_id = "inbox_answer", post, path = "/inbox/{invocation}", tag = "answers", security(()), params(("invocation" = String, Path)),
    request_body(content = InboxAnswer, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "A page for a person: what became of it.", content_type = "text/html", body = String),
        (status = 202, description = "A page: the approval is counted, and another person has to approve too.", content_type = "text/html", body = String),
        (status = 401, description = "A page that asks for a login: nothing was answered.", content_type = "text/html", body = String),
        (status = 403, description = "This person may not answer it, or the form is not of this browser's page; a page.", content_type = "text/html", body = String),
        (status = 409, description = "It was answered already, or an approval would no longer fit; a page.", content_type = "text/html", body = String),
        (status = 410, description = "It has expired; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why the answer was refused; a page.", content_type = "text/html", body = String),
        (status = 502, description = "It was approved, and its source failed; a page.", content_type = "text/html", body = String)))]
pub(super) async fn answer(
    State(app): State<App>,
    visitor: Visitor,
    Path(invocation): Path<String>,
    form: Result<Form<InboxAnswer>, FormRejection>,
) -> Response {
    let answered = async {
        let id = invocations::parse(&invocation)?;
        let Some(person) = visitor.person(&app).await? else {
            return Ok(needed(&visitor, &id, "<p>You are not logged in any more, and nothing was answered.</p>"));
        };
        let why = |error: FormRejection| Refusal::new(Code::InvalidRequest, format!("the form does not make sense: {}", innermost(&error)));
        let Form(InboxAnswer { form, binding, answer, reason, confirm }) = form.map_err(why)?;
        visitor.check_of_login(id.as_str(), &form)?;
        let id = answers::id_of(&person, id.as_str())?;
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (status, invocation) = match answer {
            InboxAnswerName::Approve => {
                let confirm = said(confirm).map(|text| text.trim().to_owned());
                let body = ApproveRequest { binding: Some(binding), reason: said(reason), confirm, ..ApproveRequest::default() };
                let (status, approved) = approve_one(&app, &person, &id, body).await?;
                (status, approved.invocation)
            }
            InboxAnswerName::Deny => {
                let denied = deny_one(&app, &person, &id, DenyRequest { reason: said(reason) }).await?;
                (StatusCode::OK, denied.invocation)
            }
        };
        Ok::<_, Refusal>(outcome(status, &invocation))
    };
    visitor.known(answered.await.unwrap_or_else(|refusal| told(&refusal)))
}

/// What the form sends. A field that stands there twice, or that is not known, is refused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InboxAnswer {
    /// From the page: the form of another page, or of an earlier login, is refused.
    form: String,
    /// What was shown. If the call has been edited since, nothing is approved.
    binding: String,
    answer: InboxAnswerName,
    reason: Option<String>,
    /// The action's id, typed by the person, where the call is R4.
    confirm: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum InboxAnswerName {
    Approve,
    Deny,
}

/// Where one may answer, or words for whoever may not. Approving is not offered if it would do nothing.
fn answer_form(visitor: &Visitor, person: &Principal, card: &Card) -> String {
    if answers::may_look_ahead(person).is_err() {
        return "<p>You can read this call, and people with another role answer it.</p>".to_owned();
    }
    let pending = card.invocation();
    let binding = pending.binding.as_ref().map(|binding| binding.digest.to_string()).unwrap_or_default();
    let (mut approve, mut confirm) = ("", String::new());
    if card.can_run() {
        approve = "<button name=\"answer\" value=\"approve\">Approve once</button> ";
        if pending.tier.class() == Class::Danger {
            let action = escaped_line(pending.action.as_str());
            confirm = format!("<label>To approve it, type <code>{action}</code> <input name=\"confirm\" autocomplete=\"off\"></label>");
        }
    }
    format!(
        "<form method=\"post\">{}<input type=\"hidden\" name=\"binding\" value=\"{binding}\">\
         <label>Reason <input name=\"reason\" maxlength=\"2000\"></label>{confirm}\
         <p>{approve}<button name=\"answer\" value=\"deny\">Deny</button></p></form>",
        visitor.field_of_login(pending.id.as_str()),
    )
}
