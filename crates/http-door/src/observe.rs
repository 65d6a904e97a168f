//! The report of a space that only observes.

use super::caller::Caller;
use super::page::{Asked, moment};
use super::problem::Refusal;
use crate::limits::OBSERVED_SECONDS_DEFAULT;
use api::invocation::GrantScopeName;
use api::observe::{AskedForView, ObserveReport, SuggestedGrant, SuggestedMode};
use api::rules::NewGrantRequest;
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::{Mode, Timestamp};
use operations::App;
use operations::observe::{self, Report};
use pipeline::limits::GRANT_SECONDS_MAX;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportQuery {
    /// Of calls made then or later: a time, or how long ago, such as `7d`; 24 hours when absent.
    since: Option<String>,
}

/// What people would have been asked in a space that observes, by whom and how often, and the modes and grants that it suggests.
#[utoipa::path(operation_id = "spaces_observed", get, path = "/api/v1/spaces/{space}/observed", tag = "spaces", params(("space" = String, Path), ReportQuery),
    responses((status = 200, body = ObserveReport)))]
pub(super) async fn report(
    State(app): State<App>,
    caller: Caller,
    Path(space): Path<String>,
    Asked(query): Asked<ReportQuery>,
) -> Result<Json<ObserveReport>, Refusal> {
    let since = match query.since.as_deref() {
        Some(text) => moment(&app, "since", text)?,
        None => app.parts.clock.now().minus_seconds(OBSERVED_SECONDS_DEFAULT),
    };
    Ok(Json(view(since, observe::report(&app, &caller.principal, &space, since).await?)))
}

fn view(since: Timestamp, report: Report) -> ObserveReport {
    let Report { space, until, asked, suggestions, is_cut } = report;
    // A suggested grant lasts as long as what it was made from, in whole hours.
    let hours = until.millis_since(since).div_ceil(3_600_000).clamp(1, GRANT_SECONDS_MAX / 3_600);
    let modes = suggestions.modes.into_iter().map(|one| SuggestedMode {
        action: one.action.to_string(),
        tier: one.tier,
        mode: Mode::Allow,
        calls: one.calls,
    });
    let grants = suggestions.grants.into_iter().map(|one| SuggestedGrant {
        tier: one.tier,
        calls: one.calls,
        grant: NewGrantRequest {
            covers: one.action.to_string(),
            scope: GrantScopeName::Org,
            session_id: None,
            automation_id: None,
            space_id: Some(space.id.to_string()),
            condition: None,
            calls_max: u32::try_from(one.calls).ok(),
            max_calls: None,
            sum_max: None,
            expires_in: Some(format!("{hours}h")),
            reason: None,
        },
    });
    ObserveReport {
        space_id: space.id.to_string(),
        observes: space.observes,
        since,
        until,
        asked: asked.iter().map(|one| one.calls).sum(),
        still_asked: suggestions.still_asked,
        modes: modes.collect(),
        grants: grants.collect(),
        rows: asked
            .into_iter()
            .map(|one| AskedForView {
                action: one.action.to_string(),
                tier: one.tier,
                session_id: one.session.to_string(),
                session_title: one.title,
                observed: one.observed,
                calls: one.calls,
            })
            .collect(),
        cut: is_cut,
    }
}
