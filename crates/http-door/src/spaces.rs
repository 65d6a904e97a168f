//! Spaces.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::identity::{ChangeSpaceRequest, NewMemberRequest, NewSpaceRequest, RedactionRule, SpaceView};
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::session::{Quorum, SpaceRedaction};
use countersign_core::{Space, Tier};
use operations::App;
use operations::spaces;
use std::collections::BTreeMap;
use store::SpaceChange;

/// Spaces of the org.
#[utoipa::path(operation_id = "spaces_list", get, path = "/api/v1/spaces", tag = "spaces", params(PageQuery),
    responses((status = 200, body = Page<SpaceView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<SpaceView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_spaces(&caller.principal.org, &caller.hidden(&app).await?, &query.request()?).await?;
    Ok(Json(Page { items: page.items.iter().map(view).collect(), next: page.next }))
}

/// Creates a space.
#[utoipa::path(operation_id = "spaces_create", post, path = "/api/v1/spaces", tag = "spaces", request_body = NewSpaceRequest,
    responses((status = 201, body = SpaceView)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewSpaceRequest>,
) -> Result<(StatusCode, Json<SpaceView>), Refusal> {
    let space = spaces::create(&app, &caller.principal, &body.name).await?;
    Ok((StatusCode::CREATED, Json(view(&space))))
}

/// One space.
#[utoipa::path(operation_id = "spaces_show", get, path = "/api/v1/spaces/{space}", tag = "spaces", params(("space" = String, Path)),
    responses((status = 200, body = SpaceView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(space): Path<String>) -> Result<Json<SpaceView>, Refusal> {
    caller.must_read()?;
    Ok(Json(view(&spaces::find(&app, &caller.principal, &space).await?)))
}

/// Changes how strict a space is, who may answer in it, what it keeps, or what its automations are given. A change of the band voids the approvals of its pending calls.
#[utoipa::path(operation_id = "spaces_change", patch, path = "/api/v1/spaces/{space}", tag = "spaces", params(("space" = String, Path)), request_body = ChangeSpaceRequest,
    responses((status = 200, body = SpaceView)))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(space): Path<String>,
    Strict(body): Strict<ChangeSpaceRequest>,
) -> Result<Json<SpaceView>, Refusal> {
    let quorum = body.quorum.map(to_quorum).transpose()?;
    let redaction = body.redaction.map(to_redaction);
    let (band, self_approval, keeps) = (body.band, body.self_approval, body.keeps);
    let (observes, asks_consent) = (body.observes, body.asks_consent);
    let defaults = body.defaults;
    let change = SpaceChange { band, self_approval, quorum, redaction, keeps, members: None, observes, asks_consent, defaults };
    Ok(Json(view(&spaces::change(&app, &caller.principal, &space, change).await?)))
}

/// Makes a person a member of a space. The first member closes it: from then on only members, and those who administer the org, see what is
/// in it, and only members call and approve there.
#[utoipa::path(operation_id = "spaces_add_member", post, path = "/api/v1/spaces/{space}/members", tag = "spaces", params(("space" = String, Path)), request_body = NewMemberRequest,
    responses((status = 200, body = SpaceView)))]
pub(super) async fn add_member(
    State(app): State<App>,
    caller: Caller,
    Path(space): Path<String>,
    Strict(body): Strict<NewMemberRequest>,
) -> Result<Json<SpaceView>, Refusal> {
    Ok(Json(view(&spaces::add_member(&app, &caller.principal, &space, &body.user_id).await?)))
}

/// Opens a space to everybody in the org again: it has no members any more.
#[utoipa::path(operation_id = "spaces_open", delete, path = "/api/v1/spaces/{space}/members", tag = "spaces", params(("space" = String, Path)),
    responses((status = 200, body = SpaceView)))]
pub(super) async fn open(State(app): State<App>, caller: Caller, Path(space): Path<String>) -> Result<Json<SpaceView>, Refusal> {
    Ok(Json(view(&spaces::open(&app, &caller.principal, &space).await?)))
}

/// Ends a membership at once. The space stays closed when its last member has left.
#[utoipa::path(operation_id = "spaces_remove_member", delete, path = "/api/v1/spaces/{space}/members/{user}", tag = "spaces",
    params(("space" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = SpaceView)))]
pub(super) async fn remove_member(
    State(app): State<App>,
    caller: Caller,
    Path((space, user)): Path<(String, String)>,
) -> Result<Json<SpaceView>, Refusal> {
    Ok(Json(view(&spaces::remove_member(&app, &caller.principal, &space, &user).await?)))
}

fn to_quorum(by_tier: BTreeMap<Tier, u32>) -> Result<Quorum, Refusal> {
    let wrong = || Refusal::new(Code::InvalidRequest, format!("a quorum is 1 to {} people", Quorum::PEOPLE_MAX));
    Quorum::new(by_tier).ok_or_else(wrong)
}

fn to_redaction(rule: RedactionRule) -> SpaceRedaction {
    SpaceRedaction { kinds: rule.kinds.map(|kinds| kinds.into_iter().collect()), regions: rule.regions }
}

fn view(space: &Space) -> SpaceView {
    SpaceView {
        id: space.id.to_string(),
        name: space.name.clone(),
        band: space.band,
        self_approval: space.self_approval,
        quorum: space.quorum.by_tier().clone(),
        redaction: RedactionRule {
            kinds: space.redaction.kinds.as_ref().map(|kinds| kinds.iter().copied().collect()),
            regions: space.redaction.regions.clone(),
        },
        redacts: space.redacted_kinds().into_iter().collect(),
        keeps: space.keeps,
        members: space.members.as_ref().map(|members| members.iter().map(ToString::to_string).collect()),
        observes: space.observes,
        asks_consent: space.asks_consent,
        defaults: space.defaults.clone(),
        created_at: space.created_at,
    }
}
