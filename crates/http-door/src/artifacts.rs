//! Artifacts: what calls and runs made beside their results, and the links behind which their bytes are.

use super::body::OrEmpty;
use super::caller::{Caller, Shown, bearer};
use super::html::{escaped, page, told};
use super::login::{Visitor, login_form};
use super::page::{Asked, page_request, seconds_of};
use super::problem::Refusal;
use crate::limits::{ARTIFACT_LINK_SECONDS_DEFAULT, ARTIFACT_LINK_SECONDS_MAX};
use api::artifact::{ArtifactLinkRequest, ArtifactLinkResponse, ArtifactView};
use api::{Page, Problem};
use axum::Json;
use axum::body::Body;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_core::Secret;
use countersign_core::artifact::Artifact;
use operations::App;
use operations::artifacts;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those that steps of this run made, by its id.
    run: Option<String>,
    /// Only those that this call made, by its id.
    invocation: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Artifacts that are still there, newest first.
#[utoipa::path(operation_id = "artifacts_list", get, path = "/api/v1/artifacts", tag = "artifacts", params(ListQuery),
    responses((status = 200, body = Page<ArtifactView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page<ArtifactView>>, Refusal> {
    let ListQuery { run, invocation, limit, after } = query;
    let asked = page_request(limit, after)?;
    let page = artifacts::list(&app, &caller.principal, run.as_deref(), invocation.as_deref(), &asked).await?;
    Ok(Json(Page { items: page.items.into_iter().map(ArtifactView::from).collect(), next: page.next }))
}

/// What is known of one artifact.
#[utoipa::path(operation_id = "artifacts_show", get, path = "/api/v1/artifacts/{artifact}", tag = "artifacts", params(("artifact" = String, Path)),
    responses((status = 200, body = ArtifactView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(artifact): Path<String>) -> Result<Json<ArtifactView>, Refusal> {
    Ok(Json(artifacts::find(&app, &caller.principal, &artifact).await?.into()))
}

/// Makes a link to the bytes of an artifact. It opens for whoever is signed in and may read the artifact, until it ends.
#[utoipa::path(operation_id = "artifacts_link", post, path = "/api/v1/artifacts/{artifact}/link", tag = "artifacts",
    params(("artifact" = String, Path)), request_body = ArtifactLinkRequest,
    responses((status = 200, body = ArtifactLinkResponse)))]
pub(super) async fn link(
    State(app): State<App>,
    caller: Caller,
    Path(artifact): Path<String>,
    OrEmpty(body): OrEmpty<ArtifactLinkRequest>,
) -> Result<Json<ArtifactLinkResponse>, Refusal> {
    let asked = body.expires_in.as_deref().map(|text| seconds_of("expires_in", text, ARTIFACT_LINK_SECONDS_MAX)).transpose()?;
    let link = artifacts::link(&app, &caller.principal, &artifact, asked.unwrap_or(ARTIFACT_LINK_SECONDS_DEFAULT)).await?;
    Ok(Json(ArtifactLinkResponse { path: link.path, expires_at: link.expires_at }))
}

/// Takes the bytes of an artifact away from everybody: every link to it is dead. What is known of it stays, with its digest.
#[utoipa::path(operation_id = "artifacts_quarantine", post, path = "/api/v1/artifacts/{artifact}/quarantine", tag = "artifacts",
    params(("artifact" = String, Path)),
    responses((status = 200, body = ArtifactView)))]
pub(super) async fn quarantine(
    State(app): State<App>,
    caller: Caller,
    Path(artifact): Path<String>,
) -> Result<Json<ArtifactView>, Refusal> {
    Ok(Json(artifacts::quarantine(&app, &caller.principal, &artifact).await?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DownloadQuery {
    /// When the link ends, in seconds since 1970.
    expires: i64,
    /// What shows that we made the link.
    signature: String,
}

/// The bytes of an artifact, with a link that `POST /api/v1/artifacts/{artifact}/link` made, for whoever shows a token or has logged in here and
/// may read it.
#[utoipa::path(operation_id = "artifacts_download", get, path = "/artifacts/{artifact}", tag = "artifacts", security(()),
    params(("artifact" = String, Path), DownloadQuery),
    responses((status = 200, description = "The bytes, as a file to save.", content_type = "application/octet-stream", body = String),
        (status = 401, description = "A page that asks for a login.", content_type = "text/html", body = String),
        (status = 404, description = "The link is not ours, or they may read no such artifact.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The artifact is in quarantine.", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "The link has expired.", body = Problem, content_type = "application/problem+json"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn download(
    State(app): State<App>,
    headers: HeaderMap,
    OriginalUri(place): OriginalUri,
    visitor: Visitor,
    Path(artifact): Path<String>,
    asked: Result<Asked<DownloadQuery>, Refusal>,
) -> Response {
    let token = bearer(&headers).map(|token| Shown::Token(Secret::new(token.to_owned())));
    let opened = async {
        let Asked(DownloadQuery { expires, signature }) = asked?;
        let by = match &token {
            Some(token) => Some(token.principal(&app).await?),
            None => visitor.person(&app).await?,
        };
        let place = place.path_and_query().map_or("/", |place| place.as_str());
        let Some(by) = by else { return Ok(needs_login(&visitor, place)) };
        let (found, bytes) = artifacts::open(&app, &by, &artifact, expires, &signature).await?;
        Ok::<_, Refusal>(file(&found, bytes))
    };
    match opened.await {
        // A program reads a problem, and a person a page.
        Err(refusal) if token.is_some() => refusal.into_response(),
        Err(refusal) => visitor.known(told(&refusal)),
        Ok(response) if token.is_some() => response,
        Ok(response) => visitor.known(response),
    }
}

/// The cookie of a login is not sent by a link of others; it is by a link of ours.
fn needs_login(visitor: &Visitor, place: &str) -> Response {
    let again = format!("<p>If you have logged in here before: <a href=\"{}\">go on</a>.</p>", escaped(place));
    page(StatusCode::UNAUTHORIZED, &format!("<h1>A file of Countersign</h1>{}{again}", login_form(visitor, Some(place))))
}

/// SECURITY: others made these bytes. A browser saves them, and neither shows nor runs them here. That nothing is kept in a cache, and that
/// nobody guesses another type, is said of every answer (`trace.rs`).
fn file(artifact: &Artifact, bytes: Vec<u8>) -> Response {
    let value = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let disposition = HeaderValue::from_str(&disposition(&artifact.name)).unwrap_or(HeaderValue::from_static("attachment"));
    let head = [
        (header::CONTENT_TYPE, value(&artifact.media_type)),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (head, Body::from(bytes)).into_response()
}

/// RFC 6266: the name for programs that know ASCII only, then the whole name.
fn disposition(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || " ._-()".contains(character);
    let ascii: String = name.chars().map(|character| if plain(character) { character } else { '_' }).collect();
    let encoded: String =
        name.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() || b"._-~".contains(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            })
            .collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::disposition;

    #[test]
    fn a_name_cannot_end_its_header_or_change_its_kind() {
        for (name, expected) in [
            ("report.pdf", "attachment; filename=\"report.pdf\"; filename*=UTF-8''report.pdf"),
            ("März 1.md", "attachment; filename=\"M_rz 1.md\"; filename*=UTF-8''M%C3%A4rz%201.md"),
            ("a\"; x=\"b", "attachment; filename=\"a__ x__b\"; filename*=UTF-8''a%22%3B%20x%3D%22b"),
            ("a\r\nb", "attachment; filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab"),
        ] {
            assert_eq!(disposition(name), expected);
        }
    }
}
