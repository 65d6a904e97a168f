//! One installed package as a source. Its code runs in the jail while a call is prepared, and can change nothing there: it writes to its
//! stage, and `call` then applies the staged files to the workspace. Code whose effect happens elsewhere runs in `call` instead
//! (`Manifest::acts_elsewhere`).

use super::folder;
use super::journal::{Desk, Journal};
use super::loaded::{Loaded, LoadedAction, READ_BACK, VERIFY_SCRIPT};
use super::mistake::in_short;
use super::past;
use super::plan::{Answer, Plan};
use super::ports::PackagePorts;
use super::run::{Runner, wall_ms};
use super::script::{Script, UNCHANGED};
use crate::egress::WayOut;
use crate::limits::{PACKAGE_CHECK_NAME_CHARS_MAX, PACKAGE_CHECKS_MAX};
use crate::words::{failed, refused, shown};
use crate::workspace::commitment::blocking;
use crate::workspace::staged::temporary_name;
use countersign_core::effect::{Check, Scope};
use countersign_core::json::in_plain_words;
use countersign_core::source::{Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, Future, OrgId, SourceId};
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct PackageSource {
    id: SourceId,
    folder: PathBuf,
    ports: Arc<PackagePorts>,
    /// The package as last read from disk, or why it could not be read.
    loaded: RwLock<Result<Arc<Loaded>, String>>,
    /// How often the package was read from disk.
    reads: AtomicU64,
}

/// What `verify` prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    ok: bool,
    #[serde(default)]
    checks: Vec<Check>,
}

impl PackageSource {
    pub(super) fn open(id: SourceId, folder: PathBuf, ports: Arc<PackagePorts>) -> Self {
        let loaded = Loaded::read(id.as_str(), &folder, 0).map(Arc::new);
        if let Ok(loaded) = &loaded {
            ports.kept.keep(loaded);
        }
        Self { id, folder, ports, loaded: RwLock::new(loaded), reads: AtomicU64::new(1) }
    }

    /// The package as it is on disk now. It is read again only if a file changed.
    pub(super) fn current(&self) -> Result<Arc<Loaded>, String> {
        let stamp = folder::stamp(&self.folder).map_err(|mistakes| in_short(&mistakes))?;
        if let Ok(loaded) = &*self.loaded.read()
            && loaded.stamp == stamp
        {
            return Ok(Arc::clone(loaded));
        }
        let loaded = Loaded::read(self.id.as_str(), &self.folder, self.reads.fetch_add(1, Ordering::Relaxed)).map(Arc::new);
        if let Ok(loaded) = &loaded {
            self.ports.kept.keep(loaded);
        }
        self.loaded.write().clone_from(&loaded);
        loaded
    }

    /// The action, provided that its code is still the code the decision was made about.
    fn action(&self, Asked { action: id, code, .. }: Asked<'_>) -> Result<Arc<LoadedAction>, Error> {
        let loaded = self.loaded.read().clone().map_err(|why| invalid(&self.id, &why))?;
        let action = loaded.actions.iter().find(|action| action.action.id == *id).map(Arc::clone);
        let action = action.ok_or_else(|| refused("unknown_action", format!("there is no action `{id}`")))?;
        if code != Some(action.digest) {
            return Err(refused("package_changed", format!("the code of `{id}` is not the one that was decided about; nothing ran")));
        }
        Ok(action)
    }

    /// Like `action`, and also checks that its code may run on this server.
    fn runnable(&self, asked: Asked<'_>) -> Result<Arc<LoadedAction>, Error> {
        let id = asked.action;
        if !self.ports.may_run_code {
            let message =
                format!("`{id}` runs code of a package, and this server does not: set `allow_plugin_code_execution = true` to let it");
            return Err(refused("package_code_disabled", message));
        }
        let action = self.action(asked)?;
        match self.ports.network.first_missing(&action.manifest.hosts) {
            None => Ok(action),
            Some(host) => {
                let message = format!("`{id}` asks `{host}`, which packages may not: an operator can add it to `package_allowed_hosts`");
                Err(refused("package_network_not_allowed", message))
            }
        }
    }

    /// Like `runnable`, and also checks that its verification commands are allowed. That must be known before the effect, not after it.
    fn verifiable(&self, asked: Asked<'_>) -> Result<Arc<LoadedAction>, Error> {
        let (id, action) = (asked.action, self.runnable(asked)?);
        for command in &action.manifest.verification.commands {
            if let Some(why) = self.ports.commands.refusal(command, asked.scope) {
                let message = format!("`{id}` is verified with `{}`, which is refused: {why}; nothing ran", shown(command));
                return Err(refused("package_command_not_allowed", message));
            }
        }
        Ok(action)
    }

    /// Checks that the action's code would be allowed to run and that its interpreter is installed.
    async fn may_run(&self, asked: Asked<'_>) -> Result<(), Error> {
        let action = self.verifiable(asked)?;
        self.runner().check(&action, Script::Execute).await
    }

    /// For each action that cannot run now, the reason: the server's settings, a missing interpreter, or no sandbox.
    pub(super) async fn cannot_run(&self) -> BTreeMap<ActionId, String> {
        let Ok(loaded) = self.current() else { return BTreeMap::new() };
        let mut reasons = BTreeMap::new();
        for action in &loaded.actions {
            let id = &action.action.id;
            let asked = Asked { action: id, params: None, scope: &Scope::default(), code: Some(action.digest) };
            let mut allowed = self.may_run(asked).await;
            for script in [Script::Verify, Script::Rollback] {
                if allowed.is_ok() && action.script(script).is_some() {
                    allowed = self.runner().check(action, script).await;
                }
            }
            if let Err(error) = allowed {
                reasons.insert(id.clone(), error.to_string());
            }
        }
        reasons
    }

    /// The network access of one script; `None` if its action names no hosts.
    fn way_out(&self, context: &CallContext, action: &LoadedAction, script: Script) -> Option<Arc<WayOut>> {
        let hosts = &action.manifest.hosts;
        let methods = action.manifest.methods_of(script);
        (!hosts.is_empty()).then(|| Arc::new(WayOut::of_call(&self.ports.network, context, &action.action.id, hosts, methods)))
    }

    fn runner(&self) -> &Runner {
        &self.ports.runner
    }

    /// Runs the script and checks that everything on its stage may be written.
    async fn plan(&self, context: &CallContext, action: &LoadedAction, params: &Value, dry_run: bool) -> Result<Plan, Error> {
        self.plan_by(context, action, params, dry_run, self.way_out(context, action, Script::Execute).as_ref()).await
    }

    async fn plan_by(
        &self,
        context: &CallContext,
        action: &LoadedAction,
        params: &Value,
        dry_run: bool,
        way_out: Option<&Arc<WayOut>>,
    ) -> Result<Plan, Error> {
        let input = json!({ "input": params, "failedChecks": context.failed_checks, "dryRun": dry_run });
        let ran = self.runner().run(context, action, Script::Execute, &input, way_out).await?;
        let answer = Answer::read(ran.result)?;
        let (place, scope, may_write) = (self.ports.places.of(context)?, context.scope.clone(), action.manifest.is_write());
        blocking(&self.ports.workers, context, move |_| Plan::new(&place, ran.staged, answer, &scope, may_write)).await
    }

    async fn keep(&self, context: &CallContext, id: &ActionId, params: &Value) -> Result<Option<Value>, Error> {
        let action = self.verifiable(context.asked(id, None))?;
        if action.manifest.acts_elsewhere() {
            // Such code runs only after the intent, so there is nothing to prepare.
            return Ok(None);
        }
        let plan = self.plan(context, &action, params, false).await?;
        let (ports, place, temporary) = (Arc::clone(&self.ports), self.ports.places.of(context)?, temporary_name(context));
        let definition = Arc::clone(&action.action);
        let kept = blocking(&self.ports.workers, context, move |_| {
            let definition = past::keep(&ports, &definition, &temporary)?;
            plan.keep(&place, definition, &temporary)
        });
        let journal = kept.await?;
        Ok(Some(journal.to_value()))
    }

    async fn perform(&self, context: &CallContext, id: &ActionId, params: &Value) -> Result<Output, Error> {
        let action = self.runnable(context.asked(id, None))?;
        if action.manifest.acts_elsewhere() {
            return self.act_elsewhere(context, &action, params).await;
        }
        let Some(prepared) = &context.prepared else {
            // A read: no intent announced a change, so nothing may change.
            if action.manifest.is_write() {
                return Err(refused("evidence_missing", format!("`{id}` was not prepared")));
            }
            return Ok(self.plan(context, &action, params, false).await?.into_output());
        };
        let (journal, place, temporary) = (Journal::read(prepared)?, self.ports.places.of(context)?, temporary_name(context));
        blocking(&self.ports.workers, context, move |commitment| {
            let desk = Desk { place: &place, temporary: &temporary, commitment };
            journal.commit(&desk)?;
            journal.output(&place)
        })
        .await
    }

    /// Runs code whose effect is the requests it sends. Once a request that may have changed something was sent, any end but a clean one
    /// leaves the call in doubt.
    async fn act_elsewhere(&self, context: &CallContext, action: &LoadedAction, params: &Value) -> Result<Output, Error> {
        let way_out = self.way_out(context, action, Script::Execute);
        let planned = self.plan_by(context, action, params, false, way_out.as_ref()).await;
        match planned {
            Ok(_) if way_out.as_ref().is_some_and(|way_out| way_out.was_cut_off()) => {
                Err(self.in_doubt(context, &failed("package_failed", "it ended before a request was answered")))
            }
            Ok(plan) => Ok(plan.into_output()),
            Err(error) if way_out.as_ref().is_some_and(|way_out| way_out.may_have_changed()) => Err(self.in_doubt(context, &error)),
            Err(error) => Err(error),
        }
    }

    /// The error of code that has already sent a request: it must not claim that nothing was changed.
    fn in_doubt(&self, context: &CallContext, error: &Error) -> Error {
        let (source_id, message) = (self.id.to_string(), error.to_string());
        if error.code() == "package_timed_out" {
            return Error::TimedOut { source_id, timeout_ms: wall_ms(context) };
        }
        Error::Broken { source_id, message: message.strip_suffix(UNCHANGED).unwrap_or(&message).to_owned() }
    }

    async fn foresee(&self, context: &CallContext, id: &ActionId, params: &Value) -> Result<Output, Error> {
        let action = self.verifiable(context.asked(id, None))?;
        if action.manifest.acts_elsewhere() {
            return Err(Error::PreviewUnsupported { action: id.clone() });
        }
        let plan = self.plan(context, &action, params, true).await?;
        let value = blocking(&self.ports.workers, context, move |_| plan.describe()).await?;
        Ok(Output::new(value))
    }

    async fn look_back(&self, context: &CallContext, id: &ActionId, params: &Value, output: &Output) -> Result<Vec<Check>, Error> {
        let action = self.runnable(context.asked(id, None))?;
        let mut checks = Vec::new();
        if action.manifest.is_write()
            && let Some(evidence) = output.evidence.as_ref().or(context.prepared.as_ref())
        {
            let journal = Journal::read(evidence)?;
            let place = journal.place(&self.ports.places, context)?;
            let is_here = journal.check_is_of(&place).is_ok();
            checks.push(blocking(&self.ports.workers, context, move |_| journal.read_back(&place, READ_BACK)).await?);
            if !is_here {
                // The effect is in another workspace. The script and the commands would look at this one, so their results would mean
                // nothing.
                return Ok(checks);
            }
        }
        if action.script(Script::Verify).is_some() {
            checks.extend(self.verdict(context, &action, params, output).await?);
        }
        for command in &action.manifest.verification.commands {
            checks.push(self.ports.commands.run(context, self.id.as_str(), command).await?);
        }
        Ok(checks)
    }

    /// The verdict of the package's own `verify` script. A script without a valid verdict fails the check; a script that got no turn in the
    /// jail is an error instead, because it never ran.
    async fn verdict(&self, context: &CallContext, action: &LoadedAction, params: &Value, output: &Output) -> Result<Vec<Check>, Error> {
        let input = json!({ "input": params, "output": output.value });
        let (way_out, file) = (self.way_out(context, action, Script::Verify), action.file_of(Script::Verify));
        let ran = match self.runner().run(context, action, Script::Verify, &input, way_out.as_ref()).await {
            Ok(ran) => ran,
            Err(error) if error.why_no_turn().is_some() => return Err(error),
            Err(error) => return Ok(vec![Check::failed(VERIFY_SCRIPT, error.to_string())]),
        };
        let verdict = match Verdict::deserialize(ran.result) {
            Ok(verdict) if verdict.checks.iter().any(|check| !is_name(&check.name)) => {
                let why = format!(
                    "`{file}`: a check has a name other than 1 to {PACKAGE_CHECK_NAME_CHARS_MAX} of `a-z`, `0-9`, `_`, `-` and `.`"
                );
                return Ok(vec![Check::failed(VERIFY_SCRIPT, why)]);
            }
            Ok(verdict) if verdict.checks.len() <= PACKAGE_CHECKS_MAX => verdict,
            Ok(_) => return Ok(vec![Check::failed(VERIFY_SCRIPT, format!("`{file}` reports more than {PACKAGE_CHECKS_MAX} checks"))]),
            Err(error) => {
                let why = format!("the verdict of `{file}` does not read: {}", in_plain_words(&error));
                return Ok(vec![Check::failed(VERIFY_SCRIPT, why)]);
            }
        };
        let is_ok = verdict.ok && verdict.checks.iter().all(|check| check.ok);
        let own = if is_ok { Check::passed(VERIFY_SCRIPT) } else { Check::failed(VERIFY_SCRIPT, format!("`{file}` says no")) };
        // The prefix keeps the script's check names apart from ours.
        let reported = verdict.checks.into_iter().map(|check| Check { name: format!("{VERIFY_SCRIPT}/{}", check.name), ..check });
        Ok(reported.chain([own]).collect())
    }

    /// Runs the package's `rollback` script for its report, then restores every file from the snapshots, whatever the script said.
    async fn put_back(&self, context: &CallContext, id: &ActionId, evidence: &Value) -> Result<Output, Error> {
        let journal = Journal::read(evidence)?;
        let place = journal.place(&self.ports.places, context)?;
        journal.check_is_of(&place)?;
        let said = self.say_rollback(context, id, &journal).await;
        let mut output = past::revert_files(&self.ports, context, journal).await?;
        if let Some(ok) = said {
            output.value["script_ok"] = json!(ok);
        }
        Ok(output)
    }

    async fn say_rollback(&self, context: &CallContext, id: &ActionId, journal: &Journal) -> Option<bool> {
        let action = self.runnable(context.asked(id, None)).ok()?;
        action.script(Script::Rollback)?;
        let changes = journal
            .files
            .iter()
            .map(|file| json!({ "path": file.path, "previousSha256": file.previous_sha256, "newSha256": file.new_sha256 }));
        let input = json!({ "changes": changes.collect::<Vec<_>>() });
        // The script gets half of the time: restoring the files must not wait for a script that hangs.
        let hurried = CallContext { timeout_ms: (context.timeout_ms / 2).max(1), ..context.clone() };
        let way_out = self.way_out(&hurried, &action, Script::Rollback);
        let ran = self.runner().run(&hurried, &action, Script::Rollback, &input, way_out.as_ref()).await;
        if let Err(error) = &ran {
            tracing::warn!(action = %id, code = error.code(), "the rollback script of a package failed; the files are put back all the same");
        }
        Some(ran.is_ok())
    }
}

/// Check names stay in receipts for ever, so only short plain names are accepted.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.');
    (1..=PACKAGE_CHECK_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) fn invalid(id: &SourceId, why: &str) -> Error {
    failed("package_invalid", format!("package `{id}` cannot be used: {why}"))
}

impl Source for PackageSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn title(&self) -> &str {
        self.id.as_str()
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        let listed = self.current().map(|loaded| loaded.actions.iter().map(|action| Arc::clone(&action.action)).collect());
        Box::pin(std::future::ready(listed.map_err(|why| invalid(&self.id, &why))))
    }

    /// Looks at the folder, so that the next call notices files that changed on disk.
    fn revision(&self) -> u64 {
        self.current().map_or(u64::MAX, |loaded| loaded.revision)
    }

    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        Box::pin(self.may_run(asked))
    }

    fn prepare<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
    ) -> Future<'a, Result<Option<Value>, Error>> {
        Box::pin(self.keep(context, action, params))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.perform(context, action, params))
    }

    fn preview<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.foresee(context, action, params))
    }

    fn verify<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
        output: &'a Output,
    ) -> Future<'a, Result<Vec<Check>, Error>> {
        Box::pin(self.look_back(context, action, params, output))
    }

    fn revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(self.put_back(context, action, evidence))
    }

    fn check_revert<'a>(&'a self, context: &'a CallContext, _action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        Box::pin(past::check_revert_files(&self.ports, context, evidence))
    }

    fn reconcile<'a>(
        &'a self,
        context: &'a CallContext,
        _action: &'a ActionId,
        _params: &'a Value,
    ) -> Future<'a, Result<Reconciled, Error>> {
        Box::pin(past::find_out(&self.ports, context))
    }
}
