//! The org's own policies: read, checked, set, and tried on what was recorded.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery, seconds_of, wanted};
use super::problem::Refusal;
use api::Page;
use api::gates::{
    PoliciesFile, PoliciesSetResponse, PoliciesView, PolicySchemaResponse, WhatIfChange, WhatIfRequest, WhatIfResponse, WouldName,
};
use axum::Json;
use axum::extract::State;
use countersign_core::ActionId;
use countersign_core::policies::PolicyTexts;
use countersign_core::ports::Rules;
use operations::App;
use operations::policies::{self, WHAT_IF_SECONDS_MAX};
use pipeline::{Fate, WhatIf};
use store::{PageRequest, PolicyVersion};

/// The policies in force.
#[utoipa::path(operation_id = "policies_show", get, path = "/api/v1/policies", tag = "policies",
    responses((status = 200, body = PoliciesView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller) -> Result<Json<PoliciesView>, Refusal> {
    caller.must_read()?;
    let newest = PageRequest { limit: 1, after: None };
    let found = app.store().list_policy_versions(&caller.principal.org, &newest).await?.items.into_iter().next();
    Ok(Json(found.map_or_else(none_yet, view)))
}

/// Every version of the policies that was ever in force, newest first.
#[utoipa::path(operation_id = "policies_versions", get, path = "/api/v1/policies/versions", tag = "policies", params(PageQuery),
    responses((status = 200, body = Page<PoliciesView>)))]
pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<PoliciesView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_policy_versions(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// What policies can speak about: every action, and what is known of a call.
#[utoipa::path(operation_id = "policies_schema", get, path = "/api/v1/policies/schema", tag = "policies",
    responses((status = 200, body = PolicySchemaResponse)))]
pub(super) async fn schema(State(app): State<App>, caller: Caller) -> Result<Json<PolicySchemaResponse>, Refusal> {
    caller.must_read()?;
    Ok(Json(PolicySchemaResponse { schema: app.pipeline().policy_schema(&caller.principal.org).await }))
}

/// Checks policies without saving them.
#[utoipa::path(operation_id = "policies_check", post, path = "/api/v1/policies/check", tag = "policies", request_body = PoliciesFile,
    responses((status = 200, body = PoliciesSetResponse)))]
pub(super) async fn check(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<PoliciesFile>,
) -> Result<Json<PoliciesSetResponse>, Refusal> {
    caller.must_read()?;
    let org = &caller.principal.org;
    let compiled = policies::compile(&app, org, texts(body)).await?;
    let version = app.store().find_policies(org).await?.version;
    Ok(Json(PoliciesSetResponse { version, policies: compiled.len() as u64, voided: None }))
}

/// Replaces all policies of the org with these. If one of them is not valid, nothing changes.
#[utoipa::path(operation_id = "policies_set", put, path = "/api/v1/policies", tag = "policies", request_body = PoliciesFile,
    responses((status = 200, body = PoliciesSetResponse)))]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<PoliciesFile>,
) -> Result<Json<PoliciesSetResponse>, Refusal> {
    let policies::Set { version, count, voided } = policies::set(&app, &caller.principal, texts(body)).await?;
    Ok(Json(PoliciesSetResponse { version, policies: count, voided }))
}

/// Decides recorded invocations twice, by the rules in force and by other policies and modes, and lists where the two differ.
#[utoipa::path(operation_id = "policies_what_if", post, path = "/api/v1/policies/what-if", tag = "policies", request_body = WhatIfRequest,
    responses((status = 200, body = WhatIfResponse)))]
pub(super) async fn what_if(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<WhatIfRequest>,
) -> Result<Json<WhatIfResponse>, Refusal> {
    let seconds = body.last.as_deref().map(|text| seconds_of("last", text, WHAT_IF_SECONDS_MAX)).transpose()?;
    let action = body.action.as_deref().map(|text| wanted(text, "action", |text| ActionId::parse(text).ok())).transpose()?;
    let tried = policies::what_if(&app, &caller.principal, body.policies.map(texts), body.modes, seconds, action).await?;
    Ok(Json(WhatIfResponse {
        replayed: tried.replayed,
        skipped: tried.skipped,
        stopped: tried.stopped,
        quarantined: tried.quarantined,
        truncated: tried.is_truncated,
        changes: tried.changes.into_iter().map(change).collect(),
    }))
}

fn texts(file: PoliciesFile) -> PolicyTexts {
    PolicyTexts { rbac: file.rbac, abac: file.abac, consent: file.consent, space: file.space }
}

fn none_yet() -> PoliciesView {
    PoliciesView { version: 0, policies: PoliciesFile::default(), set_by: None, set_at: None }
}

fn view(version: PolicyVersion) -> PoliciesView {
    let PolicyTexts { rbac, abac, consent, space } = version.policies.texts;
    PoliciesView {
        version: version.policies.version,
        policies: PoliciesFile { rbac, abac, consent, space },
        set_by: Some(version.set_by.to_string()),
        set_at: Some(version.set_at),
    }
}

fn change(what_if: WhatIf) -> WhatIfChange {
    let fate = |fate| match fate {
        Fate::Runs => WouldName::Runs,
        Fate::Asks => WouldName::Asks,
        Fate::Denied => WouldName::Denied,
    };
    WhatIfChange {
        invocation_id: what_if.invocation.to_string(),
        action: what_if.action.to_string(),
        principal: what_if.principal.to_string(),
        created_at: what_if.created_at,
        before: fate(what_if.before),
        after: fate(what_if.after),
        because: what_if.because,
    }
}
