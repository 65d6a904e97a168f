//! Stage 3: checks the params against the schema, and computes the digests and the idempotency key of the call.

use super::admit::Entrance;
use super::claimed;
use super::ground::Walk;
use super::resolve::Resolved;
use super::reversal::why_no_way_back;
use super::stage::Stage;
use crate::error::{Error, ParamError};
use countersign_core::invocation::{Digests, Intention, REVERT_KEY, revert_key};
use countersign_core::keyring::SpaceKey;
use countersign_core::{Digest, Invocation, Status, json, limits};
use serde_json::Value;
use std::sync::Arc;

/// A caller sends this instead of a key to have a key derived from the params.
const AUTO_KEY: &str = "auto";
const NO_AUTO_KEY: &str = "this action does not say what an automatic key would be made of; send your own";
/// How much of a command is shown in the message that refuses it.
const COMMAND_SHOWN_CHARS: usize = 80;

/// A call whose params fit the schema, with its digests.
pub(crate) struct Validated {
    pub(crate) resolved: Resolved,
    pub(crate) digests: Digests,
    pub(crate) key: Arc<dyn SpaceKey>,
    /// The key that is reserved: the caller's own, or one derived from the params.
    pub(crate) idempotency_key: Option<String>,
}

impl Walk {
    pub(crate) async fn validate(&self, resolved: Resolved) -> Result<Validated, Error> {
        let _timed = self.timed(Stage::Validate);
        self.check_revertible(&resolved).await?;
        self.check_call(&resolved).await?;
        if resolved.admitted.request.intention == Intention::DryRun && !resolved.action().has_dry_run() {
            return Err(Error::DryRunUnsupported { action: resolved.action().id.to_string() });
        }
        self.validated_as_it_is(resolved).await
    }

    /// For a revert: whether there is an effect to revert, and whether it can be reverted.
    pub(crate) async fn check_revertible(&self, resolved: &Resolved) -> Result<(), Error> {
        let Some(id) = &resolved.admitted.request.reverses else {
            return Ok(());
        };
        let session = &resolved.admitted.session;
        let reversed = self.ledger().find_invocation(&session.org, id).await?;
        let reversed = reversed.filter(|reversed| reversed.session == session.id);
        let reversed = reversed.ok_or_else(|| Error::UnknownInvocation { invocation: id.to_string() })?;
        self.check_not_reverted(resolved, &reversed).await?;
        let now = self.ledger().now().await?;
        match why_no_way_back(&reversed, &resolved.definition, now) {
            Some(why) => Err(Error::NotRevertible { invocation: id.clone(), why }),
            None => Ok(()),
        }
    }

    /// An effect is reverted once. A batch that was interrupted while it reverted its parts may ask again, and gets the earlier outcome.
    async fn check_not_reverted(&self, resolved: &Resolved, reversed: &Invocation) -> Result<(), Error> {
        if resolved.admitted.entrance.compensation().is_some() {
            return Ok(());
        }
        let Invocation { org, space, action, id, .. } = reversed;
        let Some(reservation) = self.ledger().find_reservation(org, space, action, &revert_key(id)).await? else {
            return Ok(());
        };
        match self.ledger().find_invocation(org, &reservation.invocation).await? {
            Some(revert) if revert.status == Status::Succeeded => Err(Error::AlreadyReverted { invocation: id.clone(), by: revert.id }),
            Some(_) | None => Ok(()),
        }
    }

    /// Reports everything that is wrong with a call. The kind of error comes from the first of the four checks that failed.
    async fn check_call(&self, resolved: &Resolved) -> Result<(), Error> {
        let action = || resolved.action().id.to_string();
        let (params, around) = (param_errors(resolved).await?, request_field_errors(resolved));
        let (scope, commands) = if is_refused_later(resolved) {
            (Vec::new(), command_errors(resolved, why_misshapen))
        } else {
            (unclear_scope(resolved), self.refused_commands(resolved))
        };
        let all = |of: &[&[ParamError]]| of.concat();
        if !params.is_empty() {
            return Err(Error::InvalidParams { action: action(), errors: all(&[&params, &around, &scope, &commands]) });
        }
        if !around.is_empty() {
            return Err(Error::InvalidRequest { errors: all(&[&around, &scope, &commands]) });
        }
        if !scope.is_empty() {
            return Err(Error::InvalidScope { action: action(), errors: all(&[&scope, &commands]) });
        }
        if commands.is_empty() { Ok(()) } else { Err(Error::CommandNotAllowed { action: action(), errors: commands }) }
    }

    /// Finds commands that would not be run, so that the call is refused before its effect and not after it.
    pub(super) fn refused_commands(&self, resolved: &Resolved) -> Vec<ParamError> {
        let scope = &resolved.admitted.request.call.scope;
        command_errors(resolved, |command| {
            why_misshapen(command).or_else(|| match &self.inner.commands {
                Some(commands) => commands.refusal(command, scope),
                None => Some("this server runs no commands".to_owned()),
            })
        })
    }

    /// Computes the digests of a call, whether or not its params fit the schema.
    pub(crate) async fn validated_as_it_is(&self, resolved: Resolved) -> Result<Validated, Error> {
        let session = &resolved.admitted.session;
        let key = self.inner.keyring.space_key(&session.org, &session.space).await?;
        let canonical =
            json::canonical_exact(&resolved.admitted.request.call.params).map_err(|error| without_form(&resolved, &error.to_string()))?;
        let digests = Digests {
            raw: resolved.admitted.entrance.raw().unwrap_or_else(|| key.digest("raw", canonical.as_bytes())),
            params: key.digest("params", canonical.as_bytes()),
            structural: resolved.definition.structural,
            textual: resolved.definition.textual,
        };
        let idempotency_key = idempotency_key(&resolved, &*key)?;
        Ok(Validated { resolved, digests, key, idempotency_key })
    }
}

impl Validated {
    /// A digest of the idempotency key, for the receipt: the caller's own text is not put into a receipt.
    pub(crate) fn idempotency_digest(&self) -> Option<Digest> {
        self.idempotency_key.as_ref().map(|text| self.key.digest("idempotency_key", text.as_bytes()))
    }
}

/// Whether the call is a plan, which `planned.rs` refuses for its scope and its commands, with a receipt. An approved plan does not get
/// there again.
fn is_refused_later(resolved: &Resolved) -> bool {
    resolved.plan().is_some() && !matches!(resolved.admitted.entrance, Entrance::Resumed(_))
}

/// Each command that `why` says something against.
fn command_errors(resolved: &Resolved, why: impl Fn(&str) -> Option<String>) -> Vec<ParamError> {
    let commands = &resolved.admitted.request.call.commands;
    let pointer = "/verification/commands";
    if commands.len() > limits::COMMANDS_PER_CALL_MAX {
        let message = format!("names more than {} commands", limits::COMMANDS_PER_CALL_MAX);
        return vec![ParamError { pointer: pointer.to_owned(), message }];
    }
    let refused = commands.iter().enumerate().filter_map(|(position, command)| {
        let why = why(command)?;
        let shown: String = policy::redact_text(command).chars().take(COMMAND_SHOWN_CHARS).flat_map(char::escape_debug).collect();
        Some(ParamError { pointer: format!("{pointer}/{position}"), message: format!("the command `{shown}` is refused: {why}") })
    });
    refused.collect()
}

/// Why a text is no command at all.
fn why_misshapen(command: &str) -> Option<String> {
    if command.chars().count() > crate::limits::COMMAND_CHARS_MAX {
        return Some(format!("it is longer than {} characters", crate::limits::COMMAND_CHARS_MAX));
    }
    command.chars().any(char::is_control).then(|| "it must be one line of plain words".to_owned())
}

/// Finds scope entries that cannot be enforced: an unclear entry is refused, not ignored.
pub(super) fn unclear_scope(resolved: &Resolved) -> Vec<ParamError> {
    let unclear = resolved.admitted.request.call.scope.unclear();
    unclear.map(|(field, at, why)| ParamError { pointer: format!("/scope/{field}/{at}"), message: why.to_owned() }).collect()
}

pub(crate) async fn param_errors(resolved: &Resolved) -> Result<Vec<ParamError>, Error> {
    let request = &resolved.admitted.request;
    if request.intention == Intention::Revert {
        // The params of a revert are built by us: they name the invocation to revert.
        return Ok(Vec::new());
    }
    if !request.call.params.is_object() {
        return Ok(vec![ParamError { pointer: String::new(), message: "params must be an object".into() }]);
    }
    let action = || Error::SchemaTooCostly { action: resolved.action().id.to_string() };
    let mismatches = resolved.definition.params.mismatches(&request.call.params).await.map_err(|_| action())?;
    Ok(mismatches.into_iter().map(|found| ParamError { pointer: found.pointer, message: found.message }).collect())
}

/// Errors in the fields of the request other than the params.
pub(crate) fn request_field_errors(resolved: &Resolved) -> Vec<ParamError> {
    let request = &resolved.admitted.request;
    let mut errors = Vec::new();
    if request.call.reason.as_ref().is_some_and(|reason| reason.chars().count() > crate::limits::REASON_CHARS_MAX) {
        errors
            .push(ParamError { pointer: "/reason".into(), message: format!("longer than {} characters", crate::limits::REASON_CHARS_MAX) });
    }
    if request.idempotency_key.as_ref().is_some_and(|key| key.is_empty() || key.chars().count() > crate::limits::IDEMPOTENCY_KEY_CHARS_MAX)
    {
        let message = format!("must have 1 to {} characters", crate::limits::IDEMPOTENCY_KEY_CHARS_MAX);
        errors.push(ParamError { pointer: "/idempotency_key".into(), message });
    }
    errors.extend(request.call.claimed.iter().flat_map(claimed::errors_in));
    if request.call.provenance.len() > crate::limits::PROVENANCE_MAX {
        errors.push(ParamError {
            pointer: "/provenance".into(),
            message: format!("names more than {} params", crate::limits::PROVENANCE_MAX),
        });
    }
    let is_ours = |key: &String| key.starts_with(REVERT_KEY) && request.intention != Intention::Revert;
    if request.idempotency_key.as_ref().is_some_and(is_ours) {
        let message = format!("begins with `{REVERT_KEY}`, which only taking an effect back may");
        errors.push(ParamError { pointer: "/idempotency_key".into(), message });
    }
    if wants_auto_key(resolved) && resolved.action().idempotency_key_fields.is_empty() {
        errors.push(ParamError { pointer: "/idempotency_key".into(), message: NO_AUTO_KEY.into() });
    }
    // Not every database can store U+0000 in a text column.
    if request.idempotency_key.as_ref().is_some_and(|key| key.contains('\0')) {
        errors.push(ParamError { pointer: "/idempotency_key".into(), message: "holds the character U+0000".into() });
    }
    errors
}

fn without_form(resolved: &Resolved, why: &str) -> Error {
    let error = ParamError { pointer: String::new(), message: format!("the params have no canonical form: {why}") };
    Error::InvalidParams { action: resolved.action().id.to_string(), errors: vec![error] }
}

fn invalid_key(message: &str) -> Error {
    Error::InvalidRequest { errors: vec![ParamError { pointer: "/idempotency_key".to_owned(), message: message.to_owned() }] }
}

/// A dry run needs no key: it has no effect that could be repeated.
fn wants_auto_key(resolved: &Resolved) -> bool {
    let request = &resolved.admitted.request;
    request.idempotency_key.as_deref() == Some(AUTO_KEY) && request.intention != Intention::DryRun
}

/// `auto` becomes a key derived from the fields that the definition names; any other text is the caller's own key.
fn idempotency_key(resolved: &Resolved, key: &dyn SpaceKey) -> Result<Option<String>, Error> {
    let request = &resolved.admitted.request;
    // A dry run has no effect to repeat.
    let Some(given) = request.idempotency_key.as_deref().filter(|_| request.intention != Intention::DryRun) else {
        return Ok(None);
    };
    // This includes a held call that enters again: it brings the key that was reserved for it.
    if given != AUTO_KEY {
        return Ok(Some(given.to_owned()));
    }
    let fields = &resolved.action().idempotency_key_fields;
    if fields.is_empty() {
        return Err(invalid_key(NO_AUTO_KEY));
    }
    let parts: Vec<String> = fields.iter().map(|field| key_part(field, &request.call.params, key)).collect();
    let text = json::canonical(&parts).map_err(|error| invalid_key(&error.to_string()))?;
    Ok(Some(format!("auto:{}", key.digest("auto_key", text.as_bytes()))))
}

/// One field of an automatic key: `path` without `.` and doubled slashes, `sha256(name)` as a digest under the space's key.
fn key_part(field: &str, params: &Value, key: &dyn SpaceKey) -> String {
    let hashed = field.strip_prefix("sha256(").and_then(|rest| rest.strip_suffix(')'));
    let value = params.get(hashed.unwrap_or(field)).unwrap_or(&Value::Null);
    match (hashed, value) {
        (Some(name), value) => key.digest(name, value.to_string().as_bytes()).to_string(),
        (None, Value::String(text)) if field == "path" => clean_path(text),
        (None, value) => value.to_string(),
    }
}

/// Case is kept: on most disks `A.txt` and `a.txt` are two files.
fn clean_path(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}
