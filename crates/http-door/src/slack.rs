//! Where Slack sends what people press. There is no token: what Slack has signed counts, once, for five minutes.

use super::body::read;
use super::problem::Refusal;
use crate::limits::SLACK_REQUEST_BYTES_MAX;
use api::Problem;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use operations::App;
use operations::slack::{self, Signed};
use utoipa::ToSchema;

/// Takes what somebody pressed in a message of this channel. Slack sends it, to the Request URL of the app.
#[utoipa::path(operation_id = "channels_slack", post, path = "/api/v1/channels/{channel}/slack", tag = "channels", security(()),
    params(
        ("channel" = String, Path, description = "The id of the channel."),
        ("X-Slack-Request-Timestamp" = String, Header, description = "When Slack sent it, in seconds since 1970."),
        ("X-Slack-Signature" = String, Header, description = "`v0=` and the HMAC-SHA256 of `v0:timestamp:body` under the signing secret."),
    ),
    request_body(content = SlackInteraction, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "It was taken. What became of it, or why nothing did, is told in Slack."),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn interact(State(app): State<App>, Path(channel): Path<String>, request: Request) -> Result<StatusCode, Refusal> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = read(body, SLACK_REQUEST_BYTES_MAX).await?;
    let signed = Signed { timestamp: header("x-slack-request-timestamp"), signature: header("x-slack-signature"), body: &body };
    slack::take(&app, &channel, signed).await?;
    Ok(StatusCode::OK)
}

/// An interaction, as Slack describes it.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is described here, and read once its signature is known to be good")]
pub(super) struct SlackInteraction {
    /// JSON of the type `block_actions`.
    payload: String,
}
