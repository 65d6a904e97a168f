//! The keys of the log, the newest checkpoint, and the master key.

use super::body::OrEmpty;
use super::caller::Caller;
use super::problem::Refusal;
use api::Page;
use api::receipt::{CheckpointResponse, KeyPurpose, KeyView, MasterKeyView, RotateKeysRequest};
use axum::Json;
use axum::extract::State;
use operations::App;
use operations::{Error, keys};
use store::{LogKey, OldKeys, Purpose};

/// The newest checkpoint, signed now if the log has grown. Keep one outside: it is what shows a rewritten log.
#[utoipa::path(operation_id = "keys_checkpoint", get, path = "/api/v1/checkpoint", tag = "receipts", responses((status = 200, body = CheckpointResponse)))]
pub(super) async fn checkpoint(State(app): State<App>, caller: Caller) -> Result<Json<CheckpointResponse>, Refusal> {
    caller.must_read()?;
    Ok(Json(CheckpointResponse { checkpoint: app.store().checkpoint(&caller.principal.org).await? }))
}

/// The public keys of the log, in the order they came into use.
#[utoipa::path(operation_id = "keys_list", get, path = "/api/v1/keys", tag = "receipts", responses((status = 200, body = Page<KeyView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<KeyView>>, Refusal> {
    caller.must_read()?;
    let listed = app.store().list_log_keys(&caller.principal.org).await?;
    Ok(Json(Page { items: listed.into_iter().map(view).collect(), next: None }))
}

/// Replaces both keys. The old receipt key signs the entry that names the new ones.
#[utoipa::path(operation_id = "keys_rotate", post, path = "/api/v1/keys/rotate", tag = "receipts", request_body = RotateKeysRequest, responses((status = 200, body = Page<KeyView>)))]
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

/// Whether the master key is being replaced, and how far that is. For operators: the owners of the first org.
#[utoipa::path(operation_id = "keys_master", get, path = "/api/v1/keys/master", tag = "receipts", responses((status = 200, body = MasterKeyView)))]
pub(super) async fn master(State(app): State<App>, caller: Caller) -> Result<Json<MasterKeyView>, Refusal> {
    Ok(Json(master_view(keys::master(&app, &caller.principal).await?)))
}

/// Replaces the master key by the one in `master.key.next` beside it, while calls go on. For operators.
///
/// A server that works alone makes that file if it is missing. The answer comes when the new key seals; what the old one has sealed follows.
#[utoipa::path(operation_id = "keys_replace_master", post, path = "/api/v1/keys/master", tag = "receipts", responses((status = 200, body = MasterKeyView)))]
pub(super) async fn replace_master(State(app): State<App>, caller: Caller) -> Result<Json<MasterKeyView>, Refusal> {
    keys::replace_master(&app, &caller.principal).await?;
    let shown = keys::master(&app, &caller.principal).await;
    Ok(Json(master_view(shown.map_err(|error| Error::interrupted(&error, "the master key is being replaced", "keys/master"))?)))
}

fn master_view(master: Option<keys::Master>) -> MasterKeyView {
    let state = master.as_ref().map(|master| &master.state);
    MasterKeyView {
        is_replacing: state.is_some_and(|state| state.is_replacing()),
        values_left: master.as_ref().map_or(0, |master| master.values_left),
        replaced_by: state.and_then(|state| state.replaced_by.as_ref()).map(ToString::to_string),
        began_at: state.and_then(|state| state.began_at),
        ended_at: state.and_then(|state| state.ended_at),
    }
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
