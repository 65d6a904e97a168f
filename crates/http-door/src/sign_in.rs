//! Sign-in at the issuer that the operator named: the way there, and the way back.

use super::connections::CallbackQuery;
use super::html::{escaped_line, told, told_with};
use super::login::{LoginQuery, Visitor, login_form, own_place};
use super::page::Asked;
use super::problem::Refusal;
use super::reached::OwnAddress;
use super::trace::TraceId;
use api::Code;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use operations::App;
use operations::sign_ins;

/// Sends a person to the issuer that the operator named, to sign in there.
#[utoipa::path(operation_id = "logins_sign_in", get, path = "/login/oidc", tag = "logins", security(()), params(LoginQuery),
    responses((status = 303, description = "To the issuer."),
        (status = 404, description = "This server has no issuer; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String),
        (status = 502, description = "The issuer cannot be reached, or cannot be used; a page.", content_type = "text/html", body = String)))]
pub(super) async fn start(
    State(app): State<App>,
    visitor: Visitor,
    Extension(trace): Extension<TraceId>,
    OwnAddress(own): OwnAddress,
    asked: Result<Asked<LoginQuery>, Refusal>,
) -> Response {
    let started = async {
        let Asked(LoginQuery { next }) = asked?;
        let next = next.map(own_place).transpose()?;
        Ok::<_, Refusal>(sign_ins::start(&app, visitor.browser(), &own, next.as_deref(), visitor.address()).await?)
    };
    visitor.known(match started.await {
        Ok(url) => Redirect::to(&url).into_response(),
        Err(refusal) => refused(&refusal, &visitor, &trace),
    })
}

/// Where the issuer sends a person back to. The `state` counts once, in the browser in which the sign-in began.
#[utoipa::path(operation_id = "logins_come_back", get, path = "/login/oidc/callback", tag = "logins", security(()), params(CallbackQuery),
    responses((status = 200, description = "Logged in; a page that goes on to the page that was asked for.", content_type = "text/html", body = String),
        (status = 403, description = "The person has no role here; a page.", content_type = "text/html", body = String),
        (status = 404, description = "The sign-in is not open in this browser; a page.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why it was refused; a page.", content_type = "text/html", body = String),
        (status = 502, description = "What the issuer gave is not right; a page.", content_type = "text/html", body = String)))]
pub(super) async fn come_back(
    State(app): State<App>,
    visitor: Visitor,
    Extension(trace): Extension<TraceId>,
    query: Result<Query<CallbackQuery>, QueryRejection>,
) -> Response {
    // SECURITY: the rejection would quote the query.
    let Ok(Query(query)) = query else {
        return told(&Refusal::new(Code::InvalidQuery, "the answer of the issuer does not make sense"));
    };
    let (state, returned) = query.returned();
    match sign_ins::end(&app, state.expose(), visitor.browser(), returned, visitor.address()).await {
        Ok(back) => visitor.came_back(&back.login, back.next),
        Err(error) => refused(&Refusal::from(error), &visitor, &trace),
    }
}

/// Why nobody was signed in, and the trace id, with which an operator finds more in the log.
fn refused(refusal: &Refusal, visitor: &Visitor, trace: &TraceId) -> Response {
    let trace = format!("<p><small>Trace id: {}</small></p>", escaped_line(&trace.0));
    told_with(refusal, &format!("{trace}{}", login_form(visitor, None)))
}
