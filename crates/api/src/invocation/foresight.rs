//! What would come of a call, before anybody lets it run.

use super::FailureView;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What can be known of a call that waits, for whoever answers it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForesightView {
    /// Why it could not run now, whatever the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// All of the params, redacted, where the invocation itself was too large to keep them whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// What would change, as a dry run tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Code of a package was run, without effect, to know all this.
    #[serde(default)]
    pub ran_code: bool,
    /// What about its content made us ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<ConcernView>,
    /// What its session has come to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
}

/// What taking an effect back would come to. Nothing was done, and nothing is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevertForesightView {
    /// Whose effect it is.
    pub invocation_id: String,
    pub action: String,
    /// `runs`, `asks`, `denied` or `quarantined`.
    pub would: String,
    /// In one sentence, what decides that.
    pub because: String,
    /// How many people would have to say yes, where any would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_needed: Option<u32>,
    /// Why it could not be taken back now, whatever the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// What would be as it was again, as a dry run tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConcernView {
    /// Such as `safety.trifecta`.
    pub rule: String,
    /// Where in the params; empty where it is about the call as a whole.
    pub pointer: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelView {
    /// `private_data` or `untrusted_content`.
    pub label: String,
    pub at: String,
    /// The call that brought it in; absent where that was before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}
