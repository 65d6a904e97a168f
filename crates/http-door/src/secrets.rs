//! Secrets: set, listed, rotated, deleted. Their values come in and never go out.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::Page;
use api::secret::{SecretUseView, SecretView, SetSecretRequest};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use operations::App;
use operations::secrets::{self, Kept};
use store::{NamedSecret, SecretUse};

/// Secrets of the org by name, never their values.
#[utoipa::path(operation_id = "secrets_list", get, path = "/api/v1/secrets", tag = "secrets", params(PageQuery),
    responses((status = 200, body = Page<SecretView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<SecretView>>, Refusal> {
    let page = secrets::list(&app, &caller.principal, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// One secret, never its value.
#[utoipa::path(operation_id = "secrets_show", get, path = "/api/v1/secrets/{secret}", tag = "secrets", params(("secret" = String, Path)),
    responses((status = 200, body = SecretView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(secret): Path<String>) -> Result<Json<SecretView>, Refusal> {
    Ok(Json(view(secrets::find(&app, &caller.principal, &secret).await?)))
}

/// Sets a secret. With `version` it replaces that version, and nothing else; without it the secret must be new.
#[utoipa::path(operation_id = "secrets_set", put, path = "/api/v1/secrets/{secret}", tag = "secrets", params(("secret" = String, Path)), request_body = SetSecretRequest,
    responses((status = 200, body = SecretView), (status = 201, body = SecretView)))]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path(secret): Path<String>,
    Strict(body): Strict<SetSecretRequest>,
) -> Result<(StatusCode, Json<SecretView>), Refusal> {
    let Kept { secret, is_new } = secrets::set(&app, &caller.principal, &secret, body).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(view(secret))))
}

/// Deletes a secret that nothing uses. Its value cannot be restored.
#[utoipa::path(operation_id = "secrets_delete", delete, path = "/api/v1/secrets/{secret}", tag = "secrets", params(("secret" = String, Path)),
    responses((status = 204)))]
pub(super) async fn delete(State(app): State<App>, caller: Caller, Path(secret): Path<String>) -> Result<StatusCode, Refusal> {
    secrets::delete(&app, &caller.principal, &secret).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What uses the secret. While something does, the secret cannot be deleted.
#[utoipa::path(operation_id = "secrets_used_by", get, path = "/api/v1/secrets/{secret}/used-by", tag = "secrets", params(("secret" = String, Path)),
    responses((status = 200, body = Page<SecretUseView>)))]
pub(super) async fn used_by(
    State(app): State<App>,
    caller: Caller,
    Path(secret): Path<String>,
) -> Result<Json<Page<SecretUseView>>, Refusal> {
    let uses = secrets::used_by(&app, &caller.principal, &secret).await?;
    Ok(Json(Page { items: uses.into_iter().map(use_view).collect(), next: None }))
}

fn view(secret: NamedSecret) -> SecretView {
    SecretView {
        id: secret.id.to_string(),
        name: secret.name.to_string(),
        description: secret.description,
        version: secret.version,
        set_by: secret.set_by.to_string(),
        set_at: secret.set_at,
        last_used_at: secret.last_used_at,
    }
}

fn use_view(found: SecretUse) -> SecretUseView {
    SecretUseView { kind: found.kind.to_owned(), id: found.id, name: found.name }
}
