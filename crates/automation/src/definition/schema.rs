//! The published form of a definition: JSON Schema 2020-12. An editor makes its form from it, and a model writes a definition from it alone.
//! It is also what `shape` checks with, so that the two cannot differ. `x-countersign-*` members are hints, which no validator reads:
//! `x-countersign-widget` names the editor of a field, `x-countersign-currency` that of an amount, `x-countersign-codes` the code of a mistake by
//! keyword.

use super::input_schema::TOKENS;
use crate::limits::{
    AUTOMATION_GOAL_CHARS_MAX, AUTOMATION_NAME_CHARS_MAX, BUDGET_DOLLARS_MAX, CATCH_UP_MAX, CATCH_UP_MAX_DEFAULT,
    CATCH_UP_WINDOW_SECONDS_DEFAULT, CATCH_UP_WINDOW_SECONDS_MAX, CATCH_UP_WINDOW_SECONDS_MIN, CRON_CHARS_MAX, INPUT_MAPPINGS_MAX,
    JSONPATH_CHARS_MAX, METADATA_TAGS_MAX, ON_FAILURE_STEPS_MAX, PLAN_STEPS_MAX, QUEUED_RUNS_DEFAULT, QUEUED_RUNS_MAX, RUN_SECONDS_DEFAULT,
    RUN_SECONDS_MAX, STEP_RETRIES_DEFAULT, STEP_RETRIES_MAX, TEMPLATE_BYTES_MAX, TRIGGER_BATCH_MAX, TRIGGER_RATE_DEFAULT, TRIGGER_RATE_MAX,
    TRIGGER_RATE_SECONDS_DEFAULT, TRIGGER_RATE_SECONDS_MAX, TRIGGER_WINDOW_SECONDS_MAX, TRIGGERS_MAX,
};
use serde_json::{Value, json};

pub const SCHEMA_ID: &str = "urn:countersign:schema:automation:1";
/// The values of `schema_version` that are read.
pub const VERSIONS: [&str; 1] = ["1.0"];

/// Where steps stand, in the order in which their names are bound.
pub(super) const STEP_LISTS: [&str; 2] = ["/plan", "/execution/on_failure"];

/// The whole schema.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Automation",
        "description": "What starts an automation, and the steps it then performs, in order. There is no loop and no parallel step: branch with \
            `when`, and let automations follow each other by events. A definition holds no secrets: it names actions, and their sources have \
            their connections.",
        "type": "object",
        "additionalProperties": false,
        "required": ["schema_version", "name", "plan"],
        "properties": {
            "schema_version": { "enum": VERSIONS, "description": "The version of this form.",
                "x-countersign-codes": { "enum": "schema_version_unsupported" } },
            "name": { "type": "string", "minLength": 1, "maxLength": AUTOMATION_NAME_CHARS_MAX, "description": "What people call it." },
            "goal": { "type": "string", "maxLength": AUTOMATION_GOAL_CHARS_MAX, "default": "", "x-countersign-widget": "textarea",
                "description": "What it is for, in a sentence or two. Nothing is decided by it." },
            "inputs": inputs(),
            "triggers": { "type": "array", "maxItems": TRIGGERS_MAX, "default": [], "items": { "$ref": "#/$defs/trigger" },
                "x-countersign-codes": { "maxItems": "too_many_triggers" },
                "description": "What starts a run. Without a trigger, only people start it." },
            "plan": { "type": "array", "minItems": 1, "maxItems": PLAN_STEPS_MAX, "items": { "$ref": "#/$defs/step" },
                "x-countersign-codes": { "minItems": "plan_length", "maxItems": "plan_length" },
                "description": "The steps, performed in order. The first that fails ends the run." },
            "execution": execution(),
            "metadata": metadata(),
        },
        "$defs": {
            "trigger": trigger(),
            "schedule": schedule(),
            "webhook": webhook(),
            "event": event(),
            "input_mapping": input_mapping(),
            "rate_limit": rate_limit(),
            "step": step(),
            "slug": { "type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$", "x-countersign-codes": { "pattern": "name_form" } },
            "max_retries": { "type": "integer", "minimum": 0, "maximum": STEP_RETRIES_MAX },
            "retry_backoff": { "enum": ["none", "linear", "exponential"] },
            "on_interrupted": { "enum": ["retry", "fail", "ask_human"] },
        },
    })
}

fn inputs() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": "What a run is given before its first step; templates read it as `inputs.<name>`.",
        "properties": { "schema": {
            "type": "object",
            "default": { "type": "object", "additionalProperties": false },
            "x-countersign-widget": "json-schema",
            "x-countersign-tokens": TOKENS,
            "description": "JSON Schema 2020-12 with `type` `object` and one property for each input. `$ref` stays inside it (`#/…`). A `default` \
                is a value, or a token: `$last_fired_at` (when this trigger, or where none fires the automation, last started a run, as a date-time), `$creator` (the id of who \
                saved it), `$space_default` (what the space sets for this name). At most 32 KB, 16 levels deep.",
        } },
    })
}

fn trigger() -> Value {
    let of = |kind: &str, required: bool| {
        let required: &[&str] = if required { &["config"] } else { &[] };
        json!({ "if": { "properties": { "type": { "const": kind } }, "required": ["type"] },
            "then": { "properties": { "config": { "$ref": format!("#/$defs/{kind}") } }, "required": required } })
    };
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["type"],
        "properties": {
            "trigger_id": { "$ref": "#/$defs/slug", "description": "Unique in this automation; keeps the trigger's token and history when the \
                definition is edited. Absent: its type, with a number from the second on." },
            "type": { "enum": ["schedule", "webhook", "event"], "x-countersign-codes": { "enum": "trigger_type_unknown" },
                "description": "`schedule`: at certain times. `webhook`: when somebody sends a request. `event`: when something happened here." },
            "config": { "type": "object", "description": "By type." },
        },
        "allOf": [of("schedule", true), of("webhook", false), of("event", true)],
    })
}

fn schedule() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["cron", "timezone"],
        "properties": {
            "cron": { "type": "string", "maxLength": CRON_CHARS_MAX, "x-countersign-widget": "cron", "examples": ["0 9 * * 1-5", "@daily"],
                "x-countersign-codes": { "type": "cron_invalid", "maxLength": "cron_invalid" },
                "description": "Minute, hour, day of month, month, day of week; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`." },
            "timezone": { "type": "string", "x-countersign-widget": "timezone", "examples": ["Africa/Kigali"],
                "x-countersign-codes": { "type": "timezone_unknown" }, "description": "An IANA name." },
            "catch_up": { "default": "last", "x-countersign-codes": { "anyOf": "catch_up_invalid" },
                "description": "What becomes of times that were missed: `none` runs, the `last` one runs, or `all` run, oldest first, at most \
                    `max` of the last `window_seconds`.",
                "anyOf": [
                    { "enum": ["none", "last", "all"] },
                    { "type": "object", "additionalProperties": false, "required": ["all"], "properties": { "all": {
                        "type": "object", "additionalProperties": false, "properties": {
                            "max": { "type": "integer", "minimum": 1, "maximum": CATCH_UP_MAX, "default": CATCH_UP_MAX_DEFAULT },
                            "window_seconds": { "type": "integer", "minimum": CATCH_UP_WINDOW_SECONDS_MIN, "maximum": CATCH_UP_WINDOW_SECONDS_MAX,
                                "default": CATCH_UP_WINDOW_SECONDS_DEFAULT },
                        } } } },
                ] },
            "dst_gap": { "enum": ["shift", "skip"], "default": "shift",
                "description": "A wall-clock time that a day does not have: run at the first time after it, or not." },
            "dst_overlap": { "enum": ["first", "last", "both"], "default": "first",
                "description": "A wall-clock time that a day has twice: which of the two runs." },
            "input_mapping": { "$ref": "#/$defs/input_mapping" },
        },
    })
}

fn webhook() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "filters": filters(&json!({ "event.action": "opened", "inputs.priority": { "gte": 2 } }),
                "Which requests start a run; absent: all. All members must hold: a dotted path from `event`, the body, or from `inputs`, what it \
                    was mapped to,"),
            "input_mapping": { "$ref": "#/$defs/input_mapping" },
            "signature": { "enum": ["none", "standard_webhooks"], "default": "none",
                "description": "`none`: the trigger's bearer token proves who sends. `standard_webhooks`: a signature of the body does, instead." },
            "rate_limit": { "$ref": "#/$defs/rate_limit" },
        },
    })
}

fn event() -> Value {
    let window = |max: u32| json!({ "type": "integer", "minimum": 1, "maximum": max });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["event_type"],
        "properties": {
            "event_type": { "type": "string", "pattern": "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(\\.\\*)?$", "maxLength": 128,
                "x-countersign-widget": "event-type", "x-countersign-codes": { "pattern": "event_type_invalid" },
                "examples": ["document.added", "automation.run.*"], "description": "A type, or all types below one with `.*` at its end." },
            "filters": filters(&json!({ "data.state": "open", "data.size": { "gte": 1, "lt": 1_000_000 } }),
                "Which of these events start a run; absent: all. All members must hold: a dotted path from the root of the event"),
            "input_mapping": { "$ref": "#/$defs/input_mapping" },
            "rate_limit": { "$ref": "#/$defs/rate_limit" },
            "debounce_seconds": { "type": "integer", "minimum": 0, "maximum": TRIGGER_WINDOW_SECONDS_MAX, "default": 0,
                "description": "A run starts when no further event came for this long, with the last one. Not together with `batch`." },
            "batch": { "type": "object", "additionalProperties": false, "required": ["max", "window_seconds"],
                "properties": { "max": window(TRIGGER_BATCH_MAX), "window_seconds": window(TRIGGER_WINDOW_SECONDS_MAX) },
                "description": "One run for up to `max` events, or 2 MiB of them, of `window_seconds`; `inputs` must declare an array `events`." },
        },
    })
}

fn filters(example: &Value, what: &str) -> Value {
    let description = format!(
        "{what} with its test (`equals`, `not_equals`, `in`, `not_in`, `starts_with`, `ends_with`, `contains`, `regex`, `gt`, `gte`, `lt`, \
         `lte`, `exists`; a bare value is short for `equals`), or `$and` and `$or` with lists of filters, or `$not` with one."
    );
    json!({ "type": "object", "x-countersign-widget": "filter", "x-countersign-schema": "urn:countersign:schema:filter:1",
        "x-countersign-codes": { "type": "filter_invalid" }, "examples": [example], "description": description })
}

fn input_mapping() -> Value {
    json!({
        "type": "object",
        "maxProperties": INPUT_MAPPINGS_MAX,
        "x-countersign-codes": { "maxProperties": "mapping_too_large" },
        "additionalProperties": { "type": "string", "maxLength": JSONPATH_CHARS_MAX, "x-countersign-widget": "jsonpath",
            "x-countersign-codes": { "type": "jsonpath_invalid", "maxLength": "jsonpath_unsupported" } },
        "description": "For each input, the JSONPath (RFC 9535) of its value in what the trigger was given: the body of a webhook, a whole event, \
            the times of a schedule. Absent: inputs are the top-level members of the same names.",
        "examples": [{ "since": "$.window.from" }],
    })
}

fn rate_limit() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["max", "per_seconds"],
        "default": { "max": TRIGGER_RATE_DEFAULT, "per_seconds": TRIGGER_RATE_SECONDS_DEFAULT },
        "properties": {
            "max": { "type": "integer", "minimum": 1, "maximum": TRIGGER_RATE_MAX },
            "per_seconds": { "type": "integer", "minimum": 1, "maximum": TRIGGER_RATE_SECONDS_MAX },
        },
        "description": "Firings beyond it are dropped.",
    })
}

fn step() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["step_id", "action"],
        "properties": {
            "step_id": { "$ref": "#/$defs/slug", "description": "Unique in the plan and `on_failure`." },
            "action": { "type": "string", "minLength": 1, "maxLength": 161, "x-countersign-widget": "action", "examples": ["slack.send_message"],
                "description": "`<source>.<name>` of an action of this space that is not denied to whoever saves the automation." },
            "when": { "type": "string", "minLength": 1, "maxLength": TEMPLATE_BYTES_MAX, "x-countersign-widget": "expression",
                "examples": ["{{ found.hits | length > 0 }}"],
                "description": "An expression. If it is false, the step is skipped. It must give a boolean, a number, a list or an object." },
            "config": { "type": "object", "default": {}, "x-countersign-widget": "action-params",
                "examples": [{ "channel": "C0123", "text": "{% for hit in found.hits %}• {{ hit.title }}\n{% endfor %}" }],
                "description": "The params of the action, by its own schema (`params_schema` of the action). A string may be a template, with \
                    `{{ … }}`, `{% if %}`, `{% for %}` and `{% set %}`, over `inputs`, the `output_as` names of earlier steps, and `run`: `id`, \
                    `started_at`, `automation_id`, `automation_name`, `automation_version`, `trigger_type`, `trigger_id`, `space_id`, \
                    `creator_id`, `attempt`. Its filters are `join(sep)`, `length`, `default(value)`, `upper`, `lower`, \
                    `truncate(n, killwords, end)`, `tojson`, `date(format, tz)`, `replace(old, new)`, `trim`, `slugify`, `first`, `last`, `sort` \
                    and `reverse`. There are no functions. A string that is exactly one `{{ … }}` keeps the type of its value where the schema \
                    allows no string." },
            "output_as": { "type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$", "x-countersign-codes": { "pattern": "name_form" },
                "description": "The name under which later steps read the result. Unique; not `run`, `inputs` or `loop`." },
            "max_retries": { "$ref": "#/$defs/max_retries", "description": "Absent: as in `execution`." },
            "retry_backoff": { "$ref": "#/$defs/retry_backoff", "description": "Absent: as in `execution`." },
            "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": RUN_SECONDS_MAX,
                "description": "At most `execution.timeout_seconds`. Absent: the action's own." },
            "on_interrupted": { "$ref": "#/$defs/on_interrupted",
                "description": "What becomes of the step if nobody saw how it ended, and its source cannot tell. `retry` needs an action that \
                    reads or is idempotent. Absent: as in `execution`; else `retry` where the action reads or is idempotent, and `ask_human` \
                    elsewhere." },
        },
    })
}

fn execution() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": "How runs are made of the plan.",
        "properties": {
            "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": RUN_SECONDS_MAX, "default": RUN_SECONDS_DEFAULT,
                "description": "Working time of a run; waiting for a person does not count." },
            "max_retries": { "$ref": "#/$defs/max_retries", "default": STEP_RETRIES_DEFAULT,
                "description": "Further attempts of a step after a failure that may pass." },
            "retry_backoff": { "$ref": "#/$defs/retry_backoff", "default": "exponential", "description": "How the wait between them grows." },
            "concurrency": { "enum": ["drop_if_running", "queue", "allow_parallel"], "default": "drop_if_running",
                "description": "What a firing does while a run has not ended: nothing, wait its turn, or start beside it." },
            "max_queued": max_queued(),
            "budget_cap_usd": { "type": "number", "minimum": 0, "maximum": BUDGET_DOLLARS_MAX, "default": 1, "x-countersign-widget": "money",
                "x-countersign-currency": "USD", "description": "Dollars that one run may spend, with six decimals at most; 0: no paid call." },
            "chain_policy": { "enum": ["avoid_loop", "ignore_runs", "allow"], "default": "avoid_loop",
                "description": "Whether an event that a run caused may start it: not if this automation is among its causes, never, or always." },
            "queue": { "type": "string", "minLength": 1, "maxLength": 64, "default": "auto", "x-countersign-widget": "queue",
                "description": "The workers that perform it: `auto` (by its longest step), `fast` (below 10 s), `medium` (up to 5 min), `long`, or a queue that the operator has declared." },
            "on_interrupted": { "$ref": "#/$defs/on_interrupted", "description": "For the steps that do not say." },
            "output_from": { "$ref": "#/$defs/slug", "description": "The step of the plan whose result is the run's. Absent: the last that succeeded." },
            "on_failure": { "type": "array", "maxItems": ON_FAILURE_STEPS_MAX, "default": [], "items": { "$ref": "#/$defs/step" },
                "x-countersign-codes": { "maxItems": "plan_length" },
                "description": "Steps that run once after the plan failed or took too long, for 300 s at most. They can also read \
                    `run.failed_step_id`, `run.error.code` and `run.error.message`. They have no `on_failure` of their own." },
        },
    })
}

fn max_queued() -> Value {
    let limit = json!({ "type": "integer", "minimum": 0, "maximum": QUEUED_RUNS_MAX, "default": QUEUED_RUNS_DEFAULT });
    json!({
        "default": { "limit": QUEUED_RUNS_DEFAULT, "drop": "newest" },
        "type": ["integer", "object"],
        "minimum": 0,
        "maximum": QUEUED_RUNS_MAX,
        "additionalProperties": false,
        "properties": { "limit": limit, "drop": { "enum": ["newest", "oldest"], "default": "newest" } },
        "description": "With `queue`: how many runs may wait, and which firing is dropped when they do. A number is short for `limit`.",
    })
}

fn metadata() -> Value {
    json!({
        "type": "object",
        "default": {},
        "description": "Whatever helps people to find it; at most 4 KB. Nothing is decided by it.",
        "properties": {
            "tags": { "type": "array", "maxItems": METADATA_TAGS_MAX, "items": { "type": "string", "minLength": 1, "maxLength": 64 },
                "x-countersign-codes": { "maxItems": "metadata_too_large" } },
            "created_from_nl": { "type": "boolean", "description": "It was drafted from words, as whoever saves it says." },
        },
    })
}
