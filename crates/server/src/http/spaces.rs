//! Spaces.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use crate::App;
use api::identity::{ChangeSpaceRequest, NewSpaceRequest, RedactionRule, SpaceView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::ports::Rules;
use countersign_core::principal::Permission;
use countersign_core::session::{Quorum, SpaceRedaction};
use countersign_core::{Space, SpaceId, Tier};
use std::collections::BTreeMap;
use store::SpaceChange;

/// Spaces of the org.
#[utoipa::path(operation_id = "spaces_list", get, path = "/api/v1/spaces", tag = "spaces", params(PageQuery),
    responses((status = 200, body = Page<SpaceView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<SpaceView>>, Refusal> {
    caller.must(Permission::Read)?;
    let page = app.store().list_spaces(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.iter().map(view).collect(), next: page.next }))
}

/// Creates a space.
#[utoipa::path(operation_id = "spaces_create", post, path = "/api/v1/spaces", tag = "spaces", request_body = NewSpaceRequest,
    responses((status = 201, body = SpaceView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewSpaceRequest>,
) -> Result<(StatusCode, Json<SpaceView>), Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let name = space_named(&body.name)?;
    match app.store().create_space(&caller.principal.org, name, &caller.principal.id).await? {
        Some(space) => Ok((StatusCode::CREATED, Json(view(&space)))),
        None => Err(Refusal::new(Code::NameTaken, format!("there is a space named `{name}` already"))),
    }
}

/// One space.
#[utoipa::path(operation_id = "spaces_show", get, path = "/api/v1/spaces/{space}", tag = "spaces", params(("space" = String, Path)),
    responses((status = 200, body = SpaceView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(space): Path<String>) -> Result<Json<SpaceView>, Refusal> {
    caller.must(Permission::Read)?;
    let unknown = || Refusal::not_found("space", &space);
    let id = SpaceId::parse(&space).map_err(|_| unknown())?;
    let found = app.store().find_space(&caller.principal.org, &id).await?;
    Ok(Json(view(&found.ok_or_else(unknown)?)))
}

/// Changes what a space tolerates, or who may answer in it. Approvals that were asked under another band no longer fit.
#[utoipa::path(operation_id = "spaces_change", patch, path = "/api/v1/spaces/{space}", tag = "spaces", params(("space" = String, Path)), request_body = ChangeSpaceRequest,
    responses((status = 200, body = SpaceView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(space): Path<String>,
    Strict(body): Strict<ChangeSpaceRequest>,
) -> Result<Json<SpaceView>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let unknown = || Refusal::not_found("space", &space);
    let id = SpaceId::parse(&space).map_err(|_| unknown())?;
    if body == ChangeSpaceRequest::default() {
        return Err(
            Refusal::new(Code::InvalidRequest, "nothing is to be changed").hint("give `band`, `self_approval`, `quorum` or `redaction`")
        );
    }
    let quorum = body.quorum.map(to_quorum).transpose()?;
    let redaction = body.redaction.map(to_redaction).transpose()?;
    let change = SpaceChange { band: body.band, self_approval: body.self_approval, quorum, redaction };
    let changed = app.store().change_space(&caller.principal.org, &id, change, &caller.principal.id).await?;
    Ok(Json(view(&changed.ok_or_else(unknown)?)))
}

fn to_quorum(by_tier: BTreeMap<Tier, u32>) -> Result<Quorum, Refusal> {
    let wrong = || Refusal::new(Code::InvalidRequest, format!("a quorum is 1 to {} people", Quorum::PEOPLE_MAX));
    Quorum::new(by_tier).ok_or_else(wrong)
}

fn to_redaction(rule: RedactionRule) -> Result<SpaceRedaction, Refusal> {
    let wrong = |message: String| Refusal::new(Code::InvalidRequest, message);
    let redaction = SpaceRedaction { kinds: rule.kinds.into_iter().collect(), regions: rule.regions };
    // Also that every region has numbers we know.
    policy::Redaction::try_from(&redaction).map_err(|unknown| wrong(format!("`{}` is no region with telephone numbers", unknown.0)))?;
    Ok(redaction)
}

/// A name people can read aloud: 1 to 64 of letters, digits, space, `_`, `-` and `.`.
pub(super) fn named(name: &str) -> Result<&str, Refusal> {
    let fits = (1..=64).contains(&name.chars().count())
        && name.trim() == name
        && name.chars().all(|character| character.is_alphanumeric() || matches!(character, ' ' | '_' | '-' | '.' | '@'));
    let message = "a name has 1 to 64 letters, digits, spaces, `_`, `-`, `.` or `@`, and no space at its ends";
    if fits { Ok(name) } else { Err(Refusal::new(Code::InvalidRequest, message).hint("such as `robin` or `build-server`")) }
}

/// The same, in parts divided by `:`, as older contracts name a space: `shared:household`.
fn space_named(name: &str) -> Result<&str, Refusal> {
    for part in name.split(':') {
        named(part)?;
    }
    let fits = name.chars().count() <= 64;
    let message = "a space's name has 64 characters at most, also where `:` divides it";
    if fits { Ok(name) } else { Err(Refusal::new(Code::InvalidRequest, message)) }
}

fn view(space: &Space) -> SpaceView {
    SpaceView {
        id: space.id.to_string(),
        name: space.name.clone(),
        band: space.band,
        self_approval: space.self_approval,
        quorum: space.quorum.by_tier().clone(),
        redaction: RedactionRule { kinds: space.redaction.kinds.iter().copied().collect(), regions: space.redaction.regions.clone() },
        created_at: space.created_at,
    }
}
