//! An invitation that is accepted in a browser: a page with a button, and then the token that the person keeps.

use super::html::{escaped_line, page, told};
use super::login::Visitor;
use super::problem::Refusal;
use super::tokens::not_redeemed;
use api::Code;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign_core::Secret;
use operations::App;
use operations::{Error, logins};
use serde::Deserialize;
use utoipa::ToSchema;

/// What the word of the form is for.
const PLACE: &str = "/login/invitation";

/// A button that accepts an invitation. Only the button counts: a program that looks ahead presses none.
#[utoipa::path(operation_id = "invitations_show", get, path = "/login/invitation/{text}", tag = "logins", security(()), params(("text" = String, Path)),
    responses((status = 200, description = "A page with a button.", content_type = "text/html", body = String)))]
pub(super) async fn show(visitor: Visitor) -> Response {
    let form = format!("<form method=\"post\">{}<p><button>Accept the invitation</button></p></form>", visitor.field(PLACE));
    let told =
        "<p>You were invited to Countersign. Whoever accepts the invitation, once, gets your access token and is logged in here.</p>";
    visitor.known(page(StatusCode::OK, &format!("<h1>An invitation</h1>{told}{form}")))
}

/// Accepts an invitation: makes the person's token, shows it once, and logs this browser in.
#[utoipa::path(operation_id = "invitations_accept", post, path = "/login/invitation/{text}", tag = "logins", security(()), params(("text" = String, Path)),
    request_body(content = InvitationForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "A page with the person's token, which is shown here and never again.", content_type = "text/html", body = String),
        (status = 401, description = "It was redeemed already, or its time is over; a page.", content_type = "text/html", body = String),
        (status = 403, description = "The form is not of this browser's page; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String)))]
pub(super) async fn accept(
    State(app): State<App>,
    visitor: Visitor,
    Path(text): Path<String>,
    form: Result<Form<InvitationForm>, FormRejection>,
) -> Response {
    let text = Secret::new(text);
    let Ok(Form(InvitationForm { form })) = form else {
        return told(&Refusal::new(Code::InvalidRequest, "the form does not make sense"));
    };
    if let Err(refusal) = visitor.check(PLACE, &form) {
        return told(&refusal);
    }
    match logins::accept(&app, text.expose(), visitor.address()).await {
        Ok((token, login)) => visitor.with_login(page(StatusCode::OK, &kept(&token)), &login),
        Err(Error::TokenRefused(refused)) => told(&not_redeemed(refused)),
        Err(error) => told(&error.into()),
    }
}

/// What the button sends.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InvitationForm {
    /// From the page: the form of another page is refused.
    form: String,
}

/// The token, for the person to keep.
fn kept(token: &Secret<String>) -> String {
    format!(
        "<h1>Welcome</h1><p>You are logged in here. This is your access token: keep it where you keep passwords, and log in with it \
         the next time, here or with <code>countersign login</code>. It is shown now and never again.</p><pre>{}</pre>\
         <p><a href=\"/\">To the inbox</a></p>",
        escaped_line(token.expose()),
    )
}
