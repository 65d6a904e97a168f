//! The types of events that we publish, each with what its data looks like: one table. `GET /api/v1/event-types` shows it, and nobody else
//! publishes a type whose first word stands in it, nor one that a message of the stream is called.

use crate::compat::is_older_name;
use countersign_core::batch::BatchStatus;
use countersign_core::part_of::BatchMode;
use countersign_core::ports::events::{
    ACTION_EXECUTED, SOURCE_LOGGED, SOURCE_NOTIFIED, SOURCE_PROMPTS_CHANGED, SOURCE_RESOURCE_UPDATED, SOURCE_RESOURCES_CHANGED,
    SOURCE_TOOLS_CHANGED,
};
use countersign_core::run::RunStatus;
use countersign_core::{Mode, Status, Tier};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// A type of event that we publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventTypeView {
    /// Such as `invocation.succeeded`.
    #[serde(rename = "type")]
    #[schema(example = "invocation.succeeded")]
    pub name: String,
    /// When it is published.
    pub about: String,
    /// The JSON Schema of its data. More members may come.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub schema: Value,
    /// Data that it could have.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub sample: Value,
}

/// First words that are ours though nothing is published under them: the last one is of what the stream says of itself.
const KEPT: [&str; 3] = ["firing", "run", "stream"];

/// What other messages of the stream are called.
const MESSAGES: [&str; 2] = ["answer", "problem"];
/// What the type of a problem begins with.
const PROBLEMS: &str = "/docs/errors/";

/// What the data of a type looks like.
#[derive(Clone, Copy)]
enum Shape {
    /// Of a call with this status.
    Call(Status),
    /// Of a batch with this status.
    Batch(BatchStatus),
    /// Of a run of an automation with this status.
    Run(RunStatus),
    /// Of a change of the rules, as the audit log calls it.
    Rule(&'static str),
    /// Of a change of who may act, as the audit log calls it.
    Identity(&'static str),
    Mode,
    Space,
    Grant,
    Breaker,
    Executed,
    Document,
    /// These members, each with a sample; a number is an integer, anything else is a text.
    Members(&'static [(&'static str, Sample)]),
}

#[derive(Clone, Copy)]
enum Sample {
    Text(&'static str),
    Number(i64),
    /// Whatever the source wrote there; this is a text.
    Anything(&'static str),
}

use Sample::{Anything, Number, Text};

const INVOCATION: &str = "inv_01k4c2w9pbnm7sxa8jw5z3d6ht";
const AUTOMATION: &str = "aut_01k4c2w9pbnm7sxa8jw5z3d6ht";
const USER: &str = "user:usr_01k4c2w9pbnm7sxa8jw5z3d6ht";

/// Everything but calls, batches and runs, whose types follow from their statuses.
const TYPES: &[(&str, &str, Shape)] = &[
    ("action.drifted", "A definition changed since its review.", Shape::Rule("drifted")),
    (ACTION_EXECUTED, "How a call ended that an action request or a plan of an older contract asked for.", Shape::Executed),
    ("action.reviewed", "A person read a definition and stands for it.", Shape::Rule("reviewed")),
    ("allowed.removed", "An operator no longer allows sources a host, a network or a command.", Shape::Rule("allowed_removed")),
    ("allowed.set", "An operator allows sources a host, a network or a command.", Shape::Rule("allowed_set")),
    ("automation.archived", "An automation was archived.", Shape::Rule("automation_set")),
    (
        "automation.clock_corrected",
        "A schedule was ahead of the clock, and was set back.",
        Shape::Members(&[("automation_id", Text(AUTOMATION)), ("trigger_id", Text("weekdays"))]),
    ),
    (
        "automation.firing.dropped",
        "A trigger fired, and nothing was started.",
        Shape::Members(&[
            ("automation_id", Text(AUTOMATION)),
            ("firing_id", Text("fir_01k4c2w9pbnm7sxa8jw5z3d6ht")),
            ("outcome", Text("dropped")),
            ("reason", Text("already_running")),
        ]),
    ),
    (
        "automation.mended",
        "A run or a schedule that nothing would have moved any more goes on.",
        Shape::Members(&[("automation_id", Text(AUTOMATION)), ("what", Text("next_due"))]),
    ),
    ("automation.paused", "An automation was paused.", Shape::Rule("automation_set")),
    ("automation.resumed", "An automation goes on.", Shape::Rule("automation_set")),
    (
        "automation.run.discarded_attempt",
        "A worker had lost its run, and what it brought was left out.",
        Shape::Members(&[
            ("run_id", Text("run_01k4c2w9pbnm7sxa8jw5z3d6ht")),
            ("automation_id", Text(AUTOMATION)),
            ("space_id", Text("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
            ("lease_token", Number(3)),
        ]),
    ),
    ("automation.saved", "A version of an automation was saved.", Shape::Rule("automation_set")),
    ("automation.token_rotated", "The token of a webhook was replaced.", Shape::Rule("automation_set")),
    ("automation.trigger_changed", "A trigger was enabled or disabled.", Shape::Rule("automation_set")),
    (
        "automation.trigger_disabled",
        "A trigger fired too often for too long, or its filter took too much work, and was disabled.",
        Shape::Members(&[
            ("automation_id", Text(AUTOMATION)),
            ("trigger_id", Text("added")),
            ("why", Text("it was at its rate limit for 3 minutes without a pause")),
        ]),
    ),
    ("breaker.closed", "A target answers again.", Shape::Breaker),
    ("breaker.half_opened", "One call tries a target that failed.", Shape::Breaker),
    ("breaker.opened", "A target keeps failing: calls to it are stopped.", Shape::Breaker),
    ("canary.added", "A canary token was added.", Shape::Rule("canary_added")),
    ("canary.removed", "A canary token was removed.", Shape::Rule("canary_removed")),
    ("channel.added", "A channel was added.", Shape::Rule("channel_set")),
    ("channel.removed", "A channel was removed.", Shape::Rule("channel_removed")),
    ("connection.logged_in", "Somebody logged a connection in.", Shape::Identity("connection_logged_in")),
    ("connection.made", "A connection was made.", Shape::Identity("connection_made")),
    (
        "connection.needs_login",
        "A connection cannot go on without a person.",
        Shape::Members(&[("connection", Text("con_01k4c2w9pbnm7sxa8jw5z3d6ht")), ("state", Text("needs_login")), ("why", Text("expired"))]),
    ),
    ("connection.removed", "A connection was removed.", Shape::Identity("connection_removed")),
    ("consent.given", "A person gave leave for a purpose.", Shape::Rule("consent_given")),
    ("consent.withdrawn", "A consent was withdrawn.", Shape::Rule("consent_withdrawn")),
    ("crossing.allowed", "An action may act in another space.", Shape::Rule("crossing_allowed")),
    ("crossing.forbidden", "An action may no longer act in another space.", Shape::Rule("crossing_forbidden")),
    ("document.added", "A document was added, or brought back.", Shape::Document),
    ("document.changed", "The text, the title or the tags of a document changed.", Shape::Document),
    ("document.removed", "A document was removed.", Shape::Document),
    (
        "event.dead_lettered",
        "A consumer group gave an event up.",
        Shape::Members(&[
            ("letter_id", Text("dlt_01k4c2w9pbnm7sxa8jw5z3d6ht")),
            ("group", Text("billing")),
            ("event_id", Text("evt_01k4c2w9pbnm7sxa8jw5z3d6ht")),
            ("event_type", Text("drive.file_added")),
            ("position", Number(42)),
            ("deliveries", Number(5)),
            ("problem", Text("the ledger was closed")),
        ]),
    ),
    (
        "event_group.overtaken",
        "Retention dropped events before a group had them.",
        Shape::Members(&[("group", Text("billing")), ("lost", Number(3))]),
    ),
    ("event_group.removed", "A group was removed.", Shape::Members(&[("group", Text("billing")), ("by", Text(USER))])),
    (
        "event_group.replayed",
        "A group gets events once more.",
        Shape::Members(&[("group", Text("billing")), ("from", Number(7)), ("by", Text(USER)), ("ids", Text("same"))]),
    ),
    (
        "event_group.reset",
        "A group goes on from another place.",
        Shape::Members(&[("group", Text("billing")), ("from", Number(7)), ("by", Text(USER))]),
    ),
    ("grant.expired", "A grant, or a request for one, ran out.", Shape::Grant),
    ("grant.given", "A grant was given.", Shape::Rule("grant_given")),
    ("grant.refused", "A request for a grant was refused.", Shape::Grant),
    ("grant.requested", "Somebody asks for a grant.", Shape::Grant),
    ("grant.revoked", "A grant was revoked.", Shape::Rule("grant_revoked")),
    ("invitation.redeemed", "Somebody redeemed an invitation.", Shape::Identity("invitation_redeemed")),
    ("link.created", "A link that answers a call was made.", Shape::Identity("link_made")),
    ("master_key.replaced", "The master key was replaced.", Shape::Identity("master_key_replaced")),
    ("mode.changed", "The mode of an action was changed.", Shape::Mode),
    ("org.created", "An org was created.", Shape::Rule("org_created")),
    ("org.disabled", "An org was disabled.", Shape::Rule("org_disabled")),
    ("policy.changed", "The org's policies were changed.", Shape::Rule("policies_set")),
    ("price.removed", "Calls of an action cost nothing any more.", Shape::Rule("price_removed")),
    ("price.set", "An action has a price.", Shape::Rule("price_set")),
    ("quarantine.discarded", "What was quarantined was discarded.", Shape::Rule("quarantine_settled")),
    ("quarantine.expired", "Nobody looked at what was quarantined.", Shape::Members(&[("invocation_id", Text(INVOCATION))])),
    (
        "quarantine.looked_at",
        "A person looked at what was quarantined.",
        Shape::Members(&[("invocation_id", Text(INVOCATION)), ("by", Text(USER))]),
    ),
    ("quarantine.released", "What was quarantined was released.", Shape::Rule("quarantine_settled")),
    ("retention.set", "How long the org keeps what it has was changed.", Shape::Rule("retention_set")),
    ("secret.deleted", "A secret was deleted.", Shape::Identity("secret_deleted")),
    ("secret.rotated", "A secret got another value.", Shape::Identity("secret_rotated")),
    ("secret.set", "A secret was set.", Shape::Identity("secret_set")),
    ("source.added", "A source was added.", Shape::Rule("source_set")),
    ("source.available", "A source answers again.", Shape::Members(&[("source", Text("tracker"))])),
    ("source.changed", "The settings of a source were changed.", Shape::Rule("source_set")),
    (
        SOURCE_LOGGED,
        "An MCP server wrote a line for a log.",
        Shape::Members(&[("source", Text("drive")), ("level", Text("warning")), ("message", Anything("the disk is nearly full"))]),
    ),
    (
        SOURCE_NOTIFIED,
        "An MCP server sent a notification of its own.",
        Shape::Members(&[
            ("source", Text("drive")),
            ("method", Text("notifications/drive/file_added")),
            ("params", Anything("report.pdf")),
        ]),
    ),
    (SOURCE_PROMPTS_CHANGED, "An MCP server said that its prompts changed.", Shape::Members(&[("source", Text("drive"))])),
    (
        SOURCE_RESOURCE_UPDATED,
        "An MCP server said that a resource changed.",
        Shape::Members(&[("source", Text("drive")), ("uri", Text("drive://reports/q3"))]),
    ),
    (SOURCE_RESOURCES_CHANGED, "An MCP server said that its list of resources changed.", Shape::Members(&[("source", Text("drive"))])),
    ("source.removed", "A source was removed.", Shape::Rule("source_removed")),
    (SOURCE_TOOLS_CHANGED, "An MCP server said that its tools changed.", Shape::Members(&[("source", Text("drive"))])),
    (
        "source.unavailable",
        "A source cannot be asked for its actions.",
        Shape::Members(&[("source", Text("tracker")), ("error", Text("it did not answer"))]),
    ),
    ("space.changed", "A space was changed.", Shape::Space),
    ("space.created", "A space was created.", Shape::Space),
    ("switch.off", "A kill switch was turned off.", Shape::Rule("switched_off")),
    ("switch.on", "A kill switch was turned on.", Shape::Rule("switched_on")),
    ("token.created", "A token was made.", Shape::Identity("token_made")),
    ("token.revoked", "A token was revoked.", Shape::Identity("token_revoked")),
    ("user.created", "A person was added.", Shape::Identity("user_created")),
    ("user.disabled", "A person was disabled.", Shape::Identity("user_disabled")),
    ("user.invited", "A person was invited.", Shape::Identity("invited")),
    ("user.limited", "The bands a person may act in were changed.", Shape::Rule("band_limited")),
    ("user.role_changed", "A person got another role.", Shape::Rule("role_changed")),
    ("user.signed_in", "A person signed in for the first time, or anew.", Shape::Identity("signed_in")),
];

/// Every type that we publish, by name.
pub fn event_types() -> Vec<EventTypeView> {
    let calls = Status::ALL.into_iter().map(|status| (status.event_name(), about_call(status), Shape::Call(status)));
    let counted = ("invocation.approval_counted", "One of several people approved a call.", Shape::Call(Status::Pending));
    let batches = BatchStatus::ALL.into_iter().map(|status| (status.event_name(), about_batch(status), Shape::Batch(status)));
    // A run that is only recorded is announced when it starts.
    let runs = RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::Pending);
    let runs = runs.map(|status| (status.event_name(), about_run(status), Shape::Run(status)));
    let all = calls.chain([counted]).chain(batches).chain(runs).chain(TYPES.iter().copied());
    let mut types: Vec<_> = all.map(|(name, about, shape)| view(name, about, shape)).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    types
}

/// Whether only we publish events of this type.
pub fn is_ours(name: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let word = first(name);
    let is_word = |known: &str| first(known) == word;
    let is_message = MESSAGES.iter().any(|message| name.eq_ignore_ascii_case(message)) || name.to_ascii_lowercase().starts_with(PROBLEMS);
    is_message
        || is_older_name(name)
        || ["invocation", "batch"].contains(&word.as_str())
        || KEPT.contains(&word.as_str())
        || TYPES.iter().any(|(known, ..)| is_word(known))
}

const fn about_call(status: Status) -> &'static str {
    match status {
        Status::Pending => "A call waits for a person.",
        Status::Approved => "Enough people approved a call.",
        Status::Running => "A call has begun.",
        Status::Succeeded => "A call succeeded.",
        Status::Failed => "A call failed.",
        Status::Reverted => "A check of a call failed, and its effect was rolled back.",
        Status::Denied => "A call was denied.",
        Status::Quarantined => "A call was quarantined.",
        Status::Expired => "Nobody answered a call in time.",
        Status::Cancelled => "A call was cancelled.",
        Status::InDoubt => "A call may have happened: nobody saw how it ended.",
    }
}

const fn about_batch(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Pending => "A batch waits for a person.",
        BatchStatus::Running => "A batch has begun.",
        BatchStatus::Succeeded => "Every part of a batch succeeded.",
        BatchStatus::Partial => "Some parts of a batch succeeded.",
        BatchStatus::Reverted => "A part of a batch failed, and the others were reverted.",
        BatchStatus::Failed => "A batch failed.",
        BatchStatus::Denied => "A batch was denied.",
    }
}

const fn about_run(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending | RunStatus::Running => "A run of an automation has begun.",
        RunStatus::Waiting => "A run of an automation waits for a person.",
        RunStatus::Succeeded => "A run of an automation succeeded.",
        RunStatus::Failed => "A run of an automation failed.",
        RunStatus::TimedOut => "A run of an automation took too long.",
        RunStatus::Cancelled => "A run of an automation was cancelled.",
        RunStatus::Quarantined => "A run of an automation took its worker down again and again.",
    }
}

fn view(name: &str, about: &str, shape: Shape) -> EventTypeView {
    let (schema, sample) = match shape {
        Shape::Call(status) => call(status),
        Shape::Batch(status) => batch(status),
        Shape::Run(status) => run(status),
        Shape::Rule(rule) => change("rule", rule, &[("version", json!({ "type": "integer" }), json!(7))]),
        Shape::Identity(identity) => change("identity", identity, &[]),
        Shape::Mode => mode(),
        Shape::Space => space(),
        Shape::Grant => grant(),
        Shape::Breaker => object(&[("key", text(), json!("action:shop.refund")), ("reason", text(), json!("source_unavailable"))], &[]),
        Shape::Executed => executed(),
        Shape::Document => document(),
        Shape::Members(members) => {
            let members = members.iter().map(|(name, sample)| match sample {
                Text(sample) => (*name, text(), json!(sample)),
                Number(sample) => (*name, json!({ "type": "integer" }), json!(sample)),
                Anything(sample) => (*name, json!({}), json!(sample)),
            });
            object(&members.collect::<Vec<_>>(), &[])
        }
    };
    EventTypeView { name: name.to_owned(), about: about.to_owned(), schema, sample }
}

/// A member: its name, its schema and a sample.
type Member = (&'static str, Value, Value);

/// The schema of an object and a sample of it.
fn object(required: &[Member], optional: &[Member]) -> (Value, Value) {
    let members = || required.iter().chain(optional);
    let properties: Map<_, _> = members().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
    let sample: Map<_, _> = members().map(|(name, _, sample)| ((*name).to_owned(), sample.clone())).collect();
    let names: Vec<_> = required.iter().map(|(name, ..)| *name).collect();
    (json!({ "type": "object", "required": names, "properties": properties }), Value::Object(sample))
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn call(status: Status) -> (Value, Value) {
    let number = || json!({ "type": "number" });
    let share = |name| (name, number(), json!(1.0));
    let (components, parts) = object(&[share("success"), share("quality"), share("cost"), share("latency")], &[]);
    let (reward, rewarded) = object(&[share("scalar"), ("components", components, parts)], &[]);
    let required = [
        ("invocation_id", text(), json!(INVOCATION)),
        ("session_id", text(), json!("ses_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("space_id", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("principal", text(), json!("agent:ses_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("action", text(), json!("files.write_text")),
        ("tier", json!({ "enum": Tier::ALL.map(Tier::as_str) }), json!("R2")),
        ("status", json!({ "const": status.as_str() }), json!(status.as_str())),
        ("mode", json!({ "enum": Mode::ALL.map(Mode::as_str) }), json!("allow")),
        ("trace_id", text(), json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("summary", text(), json!(format!("files.write_text {}", status.as_str().replace('_', " ")))),
    ];
    let ended = [("receipt_id", text(), json!("rcp_01k4c2w9pbnm7sxa8jw5z3d6ht")), ("reward", reward, rewarded)];
    let connected = ("connection_id", text(), json!("con_01k4c2w9pbnm7sxa8jw5z3d6ht"));
    let optional = if status.is_final() { [[connected].as_slice(), ended.as_slice()].concat() } else { vec![connected] };
    object(&required, &optional)
}

fn executed() -> (Value, Value) {
    let required = [
        ("receipt_id", text(), json!("rcp_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("status", json!({ "enum": Status::ALL.map(Status::as_str) }), json!("succeeded")),
        ("summary", text(), json!("files.write_text succeeded in 41 ms")),
        ("tool_id", text(), json!("files.write_text")),
        ("space_id", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("trace_id", text(), json!("trace-123")),
        ("invocation_id", text(), json!(INVOCATION)),
        ("session_id", text(), json!("ses_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("reward", json!({ "type": "object" }), json!({ "scalar": 0.72, "components": { "success": 1.0 } })),
    ];
    let of_request = [
        ("action_id", text(), json!("a-17")),
        ("subject_id", text(), json!("agent://planner@deviceA")),
        ("idempotency_key", text(), json!("note-w36")),
    ];
    object(&required, &of_request)
}

fn batch(status: BatchStatus) -> (Value, Value) {
    let required = [
        ("batch_id", text(), json!("bat_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("session_id", text(), json!("ses_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("space_id", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("mode", json!({ "enum": BatchMode::ALL.map(BatchMode::as_str) }), json!("best_effort")),
        ("status", json!({ "const": status.as_str() }), json!(status.as_str())),
        ("trace_id", text(), json!("4bf92f3577b34da6a3ce929d0e0e4736")),
    ];
    object(&required, &[])
}

fn document() -> (Value, Value) {
    let tags = json!({ "type": "array", "items": { "type": "string" } });
    let required = [
        ("document_id", text(), json!("doc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("space_id", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("title", text(), json!("Quarterly report")),
        ("tags", tags, json!(["finance"])),
        // The file that it was imported from.
        ("path", json!({ "type": ["string", "null"] }), json!("reports/q3.md")),
        ("sha256", text(), json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        ("size", json!({ "type": "integer" }), json!(2048)),
    ];
    object(&required, &[])
}

fn run(status: RunStatus) -> (Value, Value) {
    let required = [
        ("run_id", text(), json!("run_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("automation_id", text(), json!(AUTOMATION)),
        ("automation_name", text(), json!("Weekly report")),
        ("version", json!({ "type": "integer" }), json!(3)),
        ("space_id", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("status", json!({ "const": status.as_str() }), json!(status.as_str())),
        ("chain", json!({ "type": "array" }), json!([AUTOMATION])),
        ("root_run_id", text(), json!("run_01k4c2w9pbnm7sxa8jw5z3d6ht")),
    ];
    let output = if status == RunStatus::Succeeded { json!({ "summary": "3 documents" }) } else { Value::Null };
    // Only a run that failed at a step names one.
    let error = match status {
        RunStatus::Failed => json!({ "code": "file_not_found", "message": "there is no file `report.md`", "step_id": "read" }),
        RunStatus::TimedOut => json!({ "code": "timed_out", "message": "the run took longer than it may", "step_id": "read" }),
        RunStatus::Quarantined => json!({ "code": "poison", "message": "its worker went down again and again" }),
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting | RunStatus::Succeeded | RunStatus::Cancelled => Value::Null,
    };
    let failure = json!({ "type": ["object", "null"], "properties": { "code": text(), "message": text(), "step_id": text() } });
    let asked_by = ("asked_by", json!({ "type": ["string", "null"] }), json!(USER));
    object(&required, &[("output", json!({}), output), ("error", failure, error), asked_by])
}

/// A change that is in the audit log in the same words.
fn change(kind: &'static str, word: &'static str, more: &[Member]) -> (Value, Value) {
    let (schema, sample) = object(&[(kind, json!({ "const": word }), json!(word))], &[]);
    let by = ("by", json!({ "type": ["string", "null"] }), json!(USER));
    let required = [[("change", schema, sample), by].as_slice(), more].concat();
    object(&required, &[])
}

fn mode() -> (Value, Value) {
    let required = [
        ("action", text(), json!("files.write_text")),
        ("by", text(), json!(USER)),
        ("lock", text(), json!("open")),
        ("mode", json!({ "enum": ["allow", "require_approval", "deny", null] }), json!("require_approval")),
        ("scope", text(), json!("org")),
        ("version", json!({ "type": "integer" }), json!(7)),
    ];
    object(&required, &[])
}

fn space() -> (Value, Value) {
    let required = [
        ("band", text(), json!("green")),
        ("by", text(), json!(USER)),
        ("name", text(), json!("shop")),
        ("self_approval", text(), json!("allowed")),
        ("space", text(), json!("spc_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("version", json!({ "type": "integer" }), json!(7)),
    ];
    object(&required, &[])
}

fn grant() -> (Value, Value) {
    let required = [
        ("grant", text(), json!("grt_01k4c2w9pbnm7sxa8jw5z3d6ht")),
        ("covers", text(), json!("shop.refund")),
        ("scope", text(), json!("org")),
    ];
    object(&required, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Whether a value fits a schema, as far as the schemas above go.
    fn fits(schema: &Value, value: &Value) -> bool {
        let is_type = |name: &str| match name {
            "object" => value.is_object(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "integer" => value.is_i64(),
            "number" => value.is_number(),
            "null" => value.is_null(),
            other => panic!("`{other}` is not looked at"),
        };
        let has_type = match (schema["type"].as_str(), schema["type"].as_array()) {
            (Some(name), _) => is_type(name),
            (None, Some(names)) => names.iter().any(|name| is_type(name.as_str().unwrap())),
            (None, None) => true,
        };
        let members = schema["properties"].as_object().into_iter().flatten();
        has_type
            && schema.get("const").is_none_or(|only| only == value)
            && schema.get("enum").is_none_or(|some| some.as_array().unwrap().contains(value))
            && schema["required"].as_array().into_iter().flatten().all(|name| value.get(name.as_str().unwrap()).is_some())
            && members.into_iter().all(|(name, schema)| value.get(name).is_none_or(|member| fits(schema, member)))
    }

    #[test]
    fn the_sample_of_every_type_fits_its_schema() {
        let types = event_types();
        for one in &types {
            assert!(fits(&one.schema, &one.sample), "{}: {} does not fit {}", one.name, one.sample, one.schema);
            assert!(!fits(&one.schema, &json!({})) && one.about.ends_with('.'), "{}", one.name);
        }
        assert!(types.is_sorted_by(|one, next| one.name < next.name), "each type stands once");
    }

    #[test]
    fn the_sample_of_a_run_that_failed_says_why_and_where() {
        let sample = |name: &str| event_types().into_iter().find(|one| one.name == name).unwrap().sample;
        let error = &sample("automation.run.failed")["error"];
        assert!(["code", "message", "step_id"].iter().all(|member| error[member].is_string()), "{error}");
        assert_eq!(sample("automation.run.succeeded")["error"], Value::Null);
    }

    #[test]
    fn every_name_that_is_published_is_in_the_table() {
        let known: Vec<_> = event_types().into_iter().map(|one| one.name).collect();
        let (mut published, mut folders) = (Vec::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.to_string_lossy().ends_with("_tests.rs") && !path.ends_with("fixture.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                    published.extend(product.split('"').filter(|text| is_name(text)).map(str::to_owned));
                }
            }
        }
        // A column and files, and not events.
        published.retain(|name| name != "calls.space_id" && !name.ends_with(".rs"));
        assert!(published.contains(&"space.created".to_owned()) && published.len() > 40, "this test no longer reads the source");
        let unknown: Vec<_> = published.iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "these are published and not in the table: {unknown:?}");
    }

    #[test]
    fn every_starter_of_the_gallery_listens_to_a_type_of_ours() {
        let known: Vec<_> = event_types().into_iter().map(|one| one.name).collect();
        let starters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/features/automations/starters.ts");
        let text = std::fs::read_to_string(starters).unwrap();
        let heard: Vec<_> = text.split("event_type: '").skip(1).filter_map(|rest| rest.split('\'').next()).collect();
        assert!(heard.contains(&"action.drifted") && heard.contains(&"source.unavailable"), "this test no longer reads the gallery");
        let unknown: Vec<_> = heard.iter().filter(|name| !known.iter().any(|known| known == *name)).collect();
        assert!(unknown.is_empty(), "nobody publishes these: {unknown:?}");
    }

    /// Words of small letters with dots between them.
    fn is_name(text: &str) -> bool {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        text.contains('.') && text.split('.').all(is_word)
    }

    #[test]
    fn what_begins_with_a_word_of_ours_is_ours() {
        for ours in
            ["invocation.succeeded", "invocation.other", "batch.x", "automation.run.failed", "User.created", "event", "event_group.reset"]
        {
            assert!(is_ours(ours), "{ours}");
        }
        let of_the_stream = ["stream.opened", "stream.dropped", "Stream.position", "problem", "PROBLEM", "answer", "/docs/errors/internal"];
        let older = ["action_approval_request", "action_approval_result", "Action_Completed", "ACTION_DECISION", "action_decision"];
        for ours in of_the_stream.into_iter().chain(older) {
            assert!(is_ours(ours), "{ours}");
        }
        for theirs in [
            "drive.file_added",
            "com.example.order",
            "invocations.made",
            "problem.reported",
            "answer_given",
            "action_item.made",
            "/docs",
            "",
        ] {
            assert!(!is_ours(theirs), "{theirs}");
        }
    }
}
