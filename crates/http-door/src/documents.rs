//! Documents of spaces. Actions add and change them; here they are only looked at.

use super::caller::Caller;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use api::Page;
use api::document::DocumentView;
use axum::Json;
use axum::extract::{Path, State};
use operations::App;
use operations::documents;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those of this space, by its name or id.
    space: Option<String>,
    /// Only those with this tag.
    tag: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Documents of the spaces that you see, newest first, without their texts.
#[utoipa::path(operation_id = "documents_list", get, path = "/api/v1/documents", tag = "documents", params(ListQuery),
    responses((status = 200, body = Page<DocumentView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page<DocumentView>>, Refusal> {
    let ListQuery { space, tag, limit, after } = query;
    let page = documents::list(&app, &caller.principal, space.as_deref(), tag, &page_request(limit, after)?).await?;
    let items = page.items.into_iter().map(|document| DocumentView::new(document, None)).collect();
    Ok(Json(Page { items, next: page.next }))
}

/// One document with its text.
#[utoipa::path(operation_id = "documents_show", get, path = "/api/v1/documents/{document}", tag = "documents", params(("document" = String, Path)),
    responses((status = 200, body = DocumentView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(document): Path<String>) -> Result<Json<DocumentView>, Refusal> {
    let (document, text) = documents::find(&app, &caller.principal, &document).await?;
    Ok(Json(DocumentView::new(document, Some(text))))
}
