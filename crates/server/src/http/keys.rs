//! The keys of the log, and the newest checkpoint.

use super::body::OrEmpty;
use super::caller::Caller;
use super::problem::Refusal;
use crate::App;
use crate::operations::{Error, keys};
use api::receipt::{CheckpointResponse, KeyPurpose, KeyView, RotateKeysRequest};
use api::{Page, Problem};
use axum::Json;
use axum::extract::State;
use store::{LogKey, OldKeys, Purpose};

/// The newest checkpoint, signed now if the log has grown. Keep one outside: it is what shows a rewritten log.
#[utoipa::path(operation_id = "keys_checkpoint", get, path = "/api/v1/checkpoint", tag = "receipts", responses((status = 200, body = CheckpointResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn checkpoint(State(app): State<App>, caller: Caller) -> Result<Json<CheckpointResponse>, Refusal> {
    caller.must_read()?;
    Ok(Json(CheckpointResponse { checkpoint: app.store().checkpoint(&caller.principal.org).await? }))
}

/// The public keys of the log, in the order they came into use.
#[utoipa::path(operation_id = "keys_list", get, path = "/api/v1/keys", tag = "receipts", responses((status = 200, body = Page<KeyView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<KeyView>>, Refusal> {
    caller.must_read()?;
    let listed = app.store().list_log_keys(&caller.principal.org).await?;
    Ok(Json(Page { items: listed.into_iter().map(view).collect(), next: None }))
}

/// Replaces both keys. The old receipt key signs the entry that names the new ones.
#[utoipa::path(operation_id = "keys_rotate", post, path = "/api/v1/keys/rotate", tag = "receipts", request_body = RotateKeysRequest, responses((status = 200, body = Page<KeyView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    OrEmpty(body): OrEmpty<RotateKeysRequest>,
) -> Result<Json<Page<KeyView>>, Refusal> {
    let old = if body.revoke { OldKeys::Revoked } else { OldKeys::Retired };
    keys::rotate(&app, &caller.principal, old).await?;
    let listed = list(State(app), caller).await;
    Ok(listed.map_err(|refusal| Error::interrupted(&refusal.0.detail, "the keys were replaced", "keys"))?)
}

fn view(key: LogKey) -> KeyView {
    KeyView {
        pem: receipt::key::PublicKey::from_base64(&key.public).map(|public| public.to_pem()).unwrap_or_default(),
        key_id: key.key_id,
        purpose: match key.purpose {
            Purpose::Receipt => KeyPurpose::Receipt,
            Purpose::Checkpoint => KeyPurpose::Checkpoint,
        },
        public: key.public,
        starts_at_seq: key.starts_at_seq,
        created_at: key.created_at,
        retired_at: key.retired_at,
        revoked_at: key.revoked_at,
    }
}
