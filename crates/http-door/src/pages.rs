//! What a person finds who follows a link: the address that was printed, or the `type` of a problem.

use super::docs;
use super::html;
use super::problem::Refusal;
use super::web;
use api::Code;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// The web UI for a browser, and for others where to go from here.
#[utoipa::path(get, path = "/", tag = "server", security(()), responses((status = 200, description = "Words, or the page of the web UI.", content_type = "text/plain", body = String)))]
pub(super) async fn welcome(headers: HeaderMap) -> Response {
    if web::is_opened(&headers) {
        return web::home(&headers);
    }
    let text = concat!(
        "Countersign ",
        env!("CARGO_PKG_VERSION"),
        "\n\nThe API is described at /api/v1/openapi.json, every error at /docs/errors.\n",
        "From a terminal: countersign help\n"
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// The page of an error code: where `type` of a problem leads.
#[utoipa::path(operation_id = "error_page", get, path = "/docs/errors/{code}", tag = "server", security(()), params(("code" = String, Path)),
    responses((status = 200, description = "Markdown; for a browser, on a page.", content_type = "text/markdown", body = String),
        (status = 303, description = "What goes wrong inside an invocation has one page for all of it."),
        (status = 404, description = "There is no such code.", body = api::Problem, content_type = "application/problem+json")))]
pub(super) async fn error(headers: HeaderMap, Path(code): Path<String>) -> Result<Response, Refusal> {
    let name = code.trim_end_matches(".md");
    if let Some(page) = Code::parse(name).map(Code::page).or_else(|| docs::find(&format!("errors/{name}"))) {
        return Ok(markdown(page, &headers));
    }
    if docs::is_invocation_error(name) {
        return Ok(Redirect::to("/docs/errors/invocation-errors").into_response());
    }
    Err(Refusal::not_found("error code", &code).hint("all of them are listed at `/docs/errors`"))
}

/// Every error there is.
#[utoipa::path(operation_id = "error_pages", get, path = "/docs/errors", tag = "server", security(()),
    responses((status = 303, description = "To the page that lists them.")))]
pub(super) async fn errors() -> Response {
    // Its links are to its neighbours, so it is read where they are.
    Redirect::to("/docs/errors/README").into_response()
}

/// A page of the documentation.
#[utoipa::path(operation_id = "docs_top_page", get, path = "/docs/{page}", tag = "server", security(()), params(("page" = String, Path)),
    responses((status = 200, description = "Markdown; for a browser, on a page.", content_type = "text/markdown", body = String),
        (status = 404, description = "There is no such page.", body = api::Problem, content_type = "application/problem+json")))]
pub(super) async fn top_page(headers: HeaderMap, Path(page): Path<String>) -> Result<Response, Refusal> {
    let name = page.trim_end_matches(".md");
    docs::find(name).map(|page| markdown(page, &headers)).ok_or_else(|| Refusal::not_found("page", name))
}

/// A page of the documentation, in a folder.
#[utoipa::path(operation_id = "docs_page", get, path = "/docs/{folder}/{page}", tag = "server", security(()),
    params(("folder" = String, Path), ("page" = String, Path)),
    responses((status = 200, description = "Markdown; for a browser, on a page.", content_type = "text/markdown", body = String),
        (status = 404, description = "There is no such page.", body = api::Problem, content_type = "application/problem+json")))]
pub(super) async fn page(headers: HeaderMap, Path((folder, page)): Path<(String, String)>) -> Result<Response, Refusal> {
    let path = format!("{folder}/{}", page.trim_end_matches(".md"));
    docs::find(&path).map(|page| markdown(page, &headers)).ok_or_else(|| Refusal::not_found("page", &path))
}

/// The text as it is for a program. A browser would show it in small type without a margin, so it gets the text on a page.
fn markdown(text: &'static str, headers: &HeaderMap) -> Response {
    if web::is_opened(headers) {
        return html::page(StatusCode::OK, &format!("<pre>{}</pre>", html::escaped(text)));
    }
    ([(header::CONTENT_TYPE, MARKDOWN)], text).into_response()
}
