//! What a person finds who follows a link: the address that was printed, or the `type` of a problem.

use super::problem::Refusal;
use api::Code;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Where to go from here.
#[utoipa::path(get, path = "/", tag = "server", security(()), responses((status = 200, description = "Words.", content_type = "text/plain", body = String)))]
pub(super) async fn welcome() -> Response {
    let text = concat!(
        "Countersign ",
        env!("CARGO_PKG_VERSION"),
        "\n\nThe API is described at /api/v1/openapi.json, every error at /docs/errors/<code>.\n",
        "From a terminal: countersign help\n"
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// The page of an error code: where `type` of a problem leads.
#[utoipa::path(operation_id = "error_page", get, path = "/docs/errors/{code}", tag = "server", security(()), params(("code" = String, Path)),
    responses((status = 200, description = "Markdown.", content_type = "text/markdown", body = String),
        (status = 404, description = "There is no such code.", body = api::Problem, content_type = "application/problem+json")))]
pub(super) async fn error(Path(code): Path<String>) -> Result<Response, Refusal> {
    let code = Code::parse(code.trim_end_matches(".md")).ok_or_else(|| Refusal::not_found("error code", &code))?;
    Ok(([(header::CONTENT_TYPE, MARKDOWN)], code.page()).into_response())
}
