//! Backup and restore: every row as one JSON line, all from one moment, in the same format for both engines.
//! A backup of one engine can be restored into the other. This is also the way to move from one server to several.

use crate::db::{Columns, Tx, Val};
use crate::documents::words;
use crate::{Error, Store, migrate};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::OrgId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::{BufRead, Write};

const FORMAT: u32 = 1;

/// Every table with its columns and its sort order, parents before children.
const TABLES: &[(&str, &str, &str)] = &[
    ("orgs", "org_id, name, rules_version, created_at, is_first, disabled_at, retention", "org_id"),
    (
        "spaces",
        "org_id, id, name, band, self_approval, quorum, redaction, keeps, observes, consent, defaults, digested_seq, members, sealed_key, \
         created_at",
        "org_id, id",
    ),
    ("users", "org_id, id, name, role, created_at, max_band, disabled_at, approves_from, given_role", "org_id, id"),
    ("identities", "org_id, issuer, subject, user_id, from_seq, mac", "org_id, issuer, subject"),
    ("open_sign_ins", "org_id, state, browser, redirect_uri, next_place, expires_at", "org_id, state"),
    (
        "sessions",
        "org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, asked_by, sources, created_at, ended_at",
        "org_id, id",
    ),
    (
        "tokens",
        "org_id, id, kind, user_id, session_id, name, scopes, made_by, device, hash, created_at, expires_at, revoked_at, from_seq, mac, \
         mcp_tools, hold_seconds",
        "org_id, id",
    ),
    ("logins", "org_id, hash, token_id, created_at, expires_at, mac", "org_id, hash"),
    ("opened_links", "org_id, link, browser, opened_at, expires_at", "org_id, link"),
    ("modes", "org_id, scope, action, mode, lock, version, set_by, set_at, invocation_id", "org_id, action, scope"),
    (
        "batches",
        "org_id, id, session_id, status, key, sealed_parts, body, receipt_id, receipt_seq, version, touched_at, run_by",
        "org_id, id",
    ),
    (
        "invocations",
        "org_id, id, session_id, space_id, action, tier, status, expires_at, time_left, sealed_params, body, receipt_id, \
         receipt_seq, run_by, trace_id, key, subject, observed, ended_at, reward, exec_ms, action_id",
        "org_id, id",
    ),
    (
        "grants",
        "org_id, id, scope, space_id, source, name, condition, calls_max, used, sum_of, sum_max, sum_seconds, structural, textual, \
         state, requested_by, reason, lifetime_seconds, given_by, given_at, givers, invocation_id, ended_by, ended_at, expires_at, created_at",
        "org_id, id",
    ),
    ("grant_spends", "org_id, grant_id, invocation_id, amount, at", "org_id, grant_id, invocation_id"),
    ("switches", "org_id, scope, stop, reason, set_by, set_at", "org_id, scope"),
    (
        "pins",
        "org_id, action, structural, textual, wording, reviewed_by, reviewed_at, seen_structural, seen_textual, seen_at",
        "org_id, action",
    ),
    ("policies", "org_id, version, rbac, abac, consent, space, set_by, set_at", "org_id, version"),
    ("consents", "org_id, id, user_id, space_id, purpose, evidence, given_at, expires_at, withdrawn_at", "org_id, id"),
    ("prices", "org_id, action, usd, field, at_most, version, set_by, set_at", "org_id, action"),
    ("allowed", "org_id, list, entry, terms, version, set_by, set_at", "org_id, list, entry"),
    ("crossings", "org_id, from_space, to_space, action, listed_by, listed_at", "org_id, from_space, to_space, action"),
    (
        "quarantines",
        "org_id, invocation_id, space_id, session_id, action, principal, owner_id, holds, sealed, digest, caught, state, \
         settled_by, settled_at, reason, released_as, expires_at, created_at",
        "org_id, invocation_id",
    ),
    ("canaries", "org_id, id, text, added_by, added_at", "org_id, id"),
    ("master_key", "id, key_id, sealed_pepper, replaced_by, began_at, ended_at", "id"),
    ("secrets", "org_id, id, name, description, version, sealed_value, set_by, set_at, last_used_at", "org_id, id"),
    (
        "connections",
        "org_id, id, name, kind, url, account, mail_from, secret, issuer, scopes, spaces, version, state, why, sealed_credential, made_by, \
         made_at, login_by, login_at, last_used_at, renewed_by, renewed_until, removed_at",
        "org_id, id",
    ),
    (
        "connection_logins",
        "org_id, connection_id, state_hash, sealed_login, started_by, started_at, expires_at, ended_at, problem",
        "org_id, connection_id",
    ),
    (
        "sources",
        "org_id, id, version, settings, connection_id, secrets, added_by, added_at, changed_by, changed_at, removed_at",
        "org_id, id",
    ),
    ("channels", "org_id, id, name, terms, secrets, since_seq, created_by, created_at, removed_at", "org_id, id"),
    ("outboxes", "org_id, seq", "org_id"),
    (
        "deliveries",
        "org_id, id, channel_id, invocation_id, recipient, moment, seq, state, attempts, due_at, tried_at, problem, remembered, retried_by, \
         dropped_by, claimed_by, claimed_until, created_at, ended_at",
        "org_id, id",
    ),
    ("slack_requests", "org_id, signature, until", "org_id, signature"),
    ("breakers", "org_id, key, state, failures, opened, reason, since, until", "org_id, key"),
    ("session_labels", "org_id, session_id, label, at, invocation_id", "org_id, session_id, label"),
    ("snoozes", "org_id, invocation_id, user_id, until", "org_id, invocation_id, user_id"),
    ("attempts", "org_id, invocation_id, n, state, intent_at, outcome, outcome_at", "org_id, invocation_id, n"),
    ("approvals", "org_id, id, invocation_id, approver, approves, reason, binding, at", "org_id, id"),
    ("reservations", "org_id, space_id, action, key, raw, invocation_id, state, expires_at", "org_id, space_id, action, key"),
    ("lines", "org_id, invocation_id, session_id, identity, line, server_id, ticket, left_at, expires_at", "org_id, invocation_id"),
    ("keys", "org_id, key_id, purpose, public, sealed_secret, starts_at_seq, created_at, retired_at, revoked_at", "org_id, key_id"),
    ("logs", "org_id, log_id, size, prev, frontier, key_id, checkpoint_key_id, checkpointed, at, last_event", "org_id"),
    ("entries", "org_id, seq, kind, id, invocation_id, payload, leaf, key_id, signature", "org_id, seq"),
    ("tree_nodes", "org_id, level, position, hash", "org_id, level, position"),
    ("checkpoints", "org_id, size, note, at", "org_id, size"),
    ("definitions", "org_id, digest, body, archived_at", "org_id, digest"),
    ("events", "org_id, seq, id, name, key, receipt_id, body, at, space_id, cause, source, source_id, origin", "org_id, seq"),
    (
        "event_groups",
        "org_id, name, read_seq, token, deliveries_max, lost, overtaken_at, created_by, created_at, held_by, held_until",
        "org_id, name",
    ),
    ("event_claims", "org_id, group_name, seq, token, deliveries, due_at, problem, event", "org_id, group_name, seq"),
    ("dead_letters", "org_id, id, group_name, seq, name, event, deliveries, problem, died_at", "org_id, id"),
    ("answered_failures", "org_id, invocation_id, answered_by, retried_as, at", "org_id, invocation_id"),
    ("notifications", "org_id, id, space_id, invocation_id, title, body, created_at", "org_id, id"),
    ("listings", "org_id, source, actions, listed_at", "org_id, source"),
    ("automations", "org_id, id, space_id, name, status, version, definition, creator_id, created_at, changed_at", "org_id, id"),
    ("automation_versions", "org_id, automation_id, version, definition, saved_by, saved_at", "org_id, automation_id, version"),
    ("automation_drafts", "org_id, id, space_id, automation_id, replaces, body, made_by, created_at, expires_at", "org_id, id"),
    (
        "triggers",
        "org_id, automation_id, id, kind, enabled, disabled_why, enabled_at, next_due_at, high_water, last_fired_at, token_hash, \
         old_token_hash, old_token_until, signed_by, crowded_since",
        "org_id, automation_id, id",
    ),
    (
        "gatherings",
        "org_id, automation_id, trigger_id, firing_id, events, count, bytes, last_seq, first_at, last_at, due_at",
        "org_id, automation_id, trigger_id",
    ),
    (
        "firings",
        "org_id, id, automation_id, trigger_id, outcome, reason, detail, run_id, scheduled_for, tick, event_id, at, count, first_at, last_at",
        "org_id, id",
    ),
    ("fire_keys", "org_id, automation_id, key, fingerprint, firing_id, expires_at", "org_id, automation_id, key"),
    (
        "runs",
        "org_id, id, automation_id, space_id, session_id, status, invocation_id, slot, fire_seq, cancelled_by, body, \
         sealed_inputs, started_at, ended_at",
        "org_id, id",
    ),
    ("trigger_payloads", "org_id, run_id, trigger_id, sealed, kept_until", "org_id, run_id"),
    ("run_leases", "run_id, org_id, space_id, queue, due_at, lease_owner, lease_token, lease_until, cancelled", "run_id"),
    ("budget_entries", "org_id, run_id, key, action, reserved, spent, at", "org_id, run_id, key"),
    ("run_steps", "org_id, run_id, phase, step, body", "org_id, run_id, phase, step"),
    ("whole_results", "org_id, invocation_id, session_id, result", "org_id, invocation_id"),
    (
        "documents",
        "org_id, id, space_id, path, title, body, tags, sha256, bytes, word_row, created_at, changed_at, removed_at",
        "org_id, id",
    ),
    ("document_texts", "org_id, document_id, sha256, body, replaced_at", "org_id, document_id, sha256"),
    // The bytes are no rows: where they are is copied by itself.
    (
        "artifacts",
        "org_id, id, space_id, session_id, owner_id, run_id, invocation_id, name, kind, media_type, size, sha256, retention, visibility, \
         created_at, expires_at, quarantined_at, quarantined_by, removed_at",
        "org_id, id",
    ),
];

#[derive(Serialize, Deserialize)]
struct Opening {
    countersign_backup: u32,
    schema_version: i64,
}

#[derive(Serialize, Deserialize)]
struct Ending {
    rows: u64,
    sha256: String,
}

/// Why a backup file was not restored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the target already holds an org: restore only into an empty store")]
    NotEmpty,
    #[error("line {line} of the backup does not read: {message}")]
    Malformed { line: u64, message: String },
    #[error("the backup is cut off or was changed: {message}")]
    Damaged { message: String },
    #[error("the backup has schema version {found}, this binary restores version {wanted}; use the matching one")]
    OtherVersion { found: i64, wanted: i64 },
    #[error(transparent)]
    Store(#[from] Error),
}

/// The number of rows that a backup or a restore moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub rows: u64,
}

impl Store {
    /// Writes everything as of now while the server goes on working. Secrets stay sealed under the master key.
    pub async fn backup(&self, file: &mut (dyn Write + Send)) -> Result<Moved, Error> {
        let mut out = Out { file, hasher: Sha256::new(), rows: 0 };
        let opening = Opening { countersign_backup: FORMAT, schema_version: migrate::version() };
        out.line(&json!(opening))?;
        let mut snapshot = self.db.snapshot().await?;
        for (table, columns, order) in TABLES {
            let sql = format!("/* every org */ SELECT {columns} FROM {table} ORDER BY {order}");
            let mut each = |row: Vec<Val>| {
                out.rows += 1;
                out.line(&json!({ "table": table, "row": row.iter().map(to_json).collect::<Vec<_>>() }))
            };
            snapshot.scan(&sql, &mut each).await?;
        }
        let ending = Ending { rows: out.rows, sha256: hex::encode(out.hasher.clone().finalize()) };
        out.line(&json!(ending))?;
        out.file.flush().map_err(unwritable)?;
        Ok(Moved { rows: out.rows })
    }

    /// Reads a backup into this empty store: all of it, or nothing.
    pub async fn restore(&self, file: impl BufRead + Send + 'static) -> Result<Moved, RestoreError> {
        // The write must end in a store error to be rolled back. The channel carries the real reason.
        let (tell, told) = std::sync::mpsc::channel();
        let outcome = self
            .db
            .write_unscoped(move |tx| {
                Box::pin(async move {
                    restore_in(tx, file).await.map_err(|refusal| {
                        let error = match &refusal {
                            RestoreError::Store(error) => error.clone(),
                            RestoreError::NotEmpty
                            | RestoreError::Malformed { .. }
                            | RestoreError::Damaged { .. }
                            | RestoreError::OtherVersion { .. } => Error::Corrupt { message: refusal.to_string() },
                        };
                        // The receiver lives until this write is answered.
                        let _told = tell.send(refusal);
                        error
                    })
                })
            })
            .await;
        let moved = outcome.map_err(|error| told.try_recv().unwrap_or(RestoreError::Store(error)))?;
        self.keychain.load(&self.db).await?;
        Ok(moved)
    }
}

async fn restore_in(tx: &mut Tx, file: impl BufRead + Send) -> Result<Moved, RestoreError> {
    let orgs = tx.query("SELECT org_id FROM orgs LIMIT 1", &[]).await?;
    if !orgs.is_empty() {
        return Err(RestoreError::NotEmpty);
    }
    let mut hasher = Sha256::new();
    let mut rows = 0;
    for (index, line) in file.lines().enumerate() {
        let number = index as u64 + 1;
        let malformed = |message: String| RestoreError::Malformed { line: number, message };
        let line = line.map_err(|error| malformed(error.to_string()))?;
        let value: Value = serde_json::from_str(&line).map_err(|error| malformed(error.to_string()))?;
        if index == 0 {
            let opening: Opening = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
            if opening.countersign_backup != FORMAT || opening.schema_version != migrate::version() {
                return Err(RestoreError::OtherVersion { found: opening.schema_version, wanted: migrate::version() });
            }
        } else if value.get("sha256").is_some() {
            let ending: Ending = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
            if ending.rows != rows || ending.sha256 != hex::encode(hasher.finalize()) {
                return Err(RestoreError::Damaged { message: "its content does not match its closing line".into() });
            }
            check_keys(tx).await?;
            words::rebuild_in(tx).await?;
            return Ok(Moved { rows });
        } else {
            let (table, columns, row) = table_row(&value).map_err(malformed)?;
            let places = (1..=row.len()).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
            let sql = format!("/* every org */ INSERT INTO {table} ({columns}) VALUES ({places})");
            tx.exec(&sql, &row).await?;
            rows += 1;
        }
        hasher.update(line.as_bytes());
        hasher.update(b"\n");
    }
    Err(RestoreError::Damaged { message: "its closing line is missing".into() })
}

/// Checks that every org's keys open. A store whose keys do not open could never be written to.
async fn check_keys(tx: &mut Tx) -> Result<(), Error> {
    for row in tx.query("SELECT org_id FROM orgs", &[]).await? {
        let org = Columns::of(row).parsed(|text| OrgId::parse(text).ok())?;
        crate::seal::key_ids(tx, &org).await?;
    }
    Ok(())
}

type TableRow = (&'static str, &'static str, Vec<Val>);

fn table_row(value: &Value) -> Result<TableRow, String> {
    let name = value.get("table").and_then(Value::as_str).unwrap_or_default();
    let (table, columns, _) = TABLES.iter().find(|(table, ..)| *table == name).ok_or_else(|| format!("unknown table `{name}`"))?;
    let values = value.get("row").and_then(Value::as_array).ok_or("a row is missing")?;
    let wanted = columns.split(", ").count();
    if values.len() != wanted {
        return Err(format!("a row of `{name}` has {} values, not {wanted}", values.len()));
    }
    let row = values
        .iter()
        .map(from_json)
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| format!("a row of `{name}` holds a value of a wrong kind"))?;
    Ok((table, columns, row))
}

fn to_json(value: &Val) -> Value {
    match value {
        Val::Null => Value::Null,
        Val::Int(int) => json!(int),
        Val::Text(text) => json!(text),
        Val::Bytes(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn from_json(value: &Value) -> Option<Val> {
    match value {
        Value::Null => Some(Val::Null),
        Value::Number(number) => number.as_i64().map(Val::Int),
        Value::String(text) => Some(Val::Text(text.clone())),
        Value::Object(map) => STANDARD.decode(map.get("base64")?.as_str()?).ok().map(Val::Bytes),
        Value::Bool(_) | Value::Array(_) => None,
    }
}

struct Out<'a> {
    file: &'a mut (dyn Write + Send),
    hasher: Sha256,
    rows: u64,
}

impl Out<'_> {
    fn line(&mut self, value: &Value) -> Result<(), Error> {
        let text = format!("{value}\n");
        self.hasher.update(text.as_bytes());
        self.file.write_all(text.as_bytes()).map_err(unwritable)
    }
}

fn unwritable(error: std::io::Error) -> Error {
    Error::Unavailable { message: format!("the backup file could not be written: {error}") }
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
